//! A connection to a Kafka broker, with its login.

use super::scram::Scram;
use super::wire::{self, NOT_KAFKA, Request};
use super::{Access, Address};
use crate::events::connection::{self, Io};
use crate::identity::Sasl;
use bytes::{BufMut, Bytes, BytesMut};
use std::io::ErrorKind;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Limit on the time to connect, so that there is time for another broker.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Limit on an answer. The largest is the list of the partitions of a topic: 45,000 have room.
const ANSWER_BYTES_MAX: u32 = 2 * 1024 * 1024;

/// A user, and how the user logs in.
pub(super) struct Login {
    pub sasl: Sasl,
    pub user: String,
    pub password: String,
}

/// An open connection.
pub(super) struct Link {
    stream: Box<dyn Io>,
    last_id: i32,
}

/// Connects to a broker, before Kafka's protocol begins.
///
/// # Errors
/// A message that says why.
pub(super) async fn connect((host, port): &Address, access: &Access) -> Result<Box<dyn Io>, String> {
    let connected = connection::connect(host, *port, access.tls.as_ref());
    match tokio::time::timeout(CONNECT_TIMEOUT, connected).await {
        Ok(connected) => connected,
        Err(_) => Err(format!("cannot connect to {host}:{port} within 3 seconds")),
    }
}

impl Link {
    /// Checks the versions of the broker, and logs in.
    ///
    /// # Errors
    /// A message that says why.
    pub async fn open(stream: Box<dyn Io>, access: &Access) -> Result<Link, String> {
        let mut link = Link { stream, last_id: 0 };
        let answer = link.ask(wire::API_VERSIONS, &[]).await?;
        wire::check_versions(answer)?;
        if let Some(login) = &access.login {
            let mut nonce = [0; 24];
            access.random.fill(&mut nonce).map_err(|error| error.to_string())?;
            link.log_in(login, &nonce).await?;
        }
        Ok(link)
    }

    async fn log_in(&mut self, login: &Login, nonce: &[u8]) -> Result<(), String> {
        let Login { sasl, user, password } = login;
        let mechanism = sasl.name();
        let answer = self.ask(wire::SASL_HANDSHAKE, &wire::sasl_handshake(mechanism)).await?;
        wire::parse_sasl_handshake(answer, mechanism)?;
        let scram = match sasl {
            Sasl::Plain => {
                let token = format!("\0{user}\0{password}");
                return self.authenticate(&token).await.map(drop);
            }
            Sasl::ScramSha256 => Scram::sha_256(user, nonce),
            Sasl::ScramSha512 => Scram::sha_512(user, nonce),
        };
        let challenge = self.authenticate(&scram.first_message()).await?;
        let (message, verifier) = scram.last_message(&challenge, password)?;
        let proof = self.authenticate(&message).await?;
        verifier.check(&proof)
    }

    async fn authenticate(&mut self, token: &str) -> Result<String, String> {
        let answer = self.ask(wire::SASL_AUTHENTICATE, &wire::sasl_authenticate(token)).await?;
        wire::parse_sasl_authenticate(answer)
    }

    /// Sends a request, and returns its answer. After an error, the connection is of no use.
    ///
    /// # Errors
    /// A message that says why.
    pub async fn ask(&mut self, request: Request, body: &[u8]) -> Result<Bytes, String> {
        // Any number that differs from the one before.
        self.last_id = self.last_id.wrapping_add(1);
        let mut out = BytesMut::new();
        wire::put_sized(&mut out, |out| {
            wire::put_head(out, request, self.last_id);
            out.put_slice(body);
        });
        let lost = |error: std::io::Error| match error.kind() {
            ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => {
                "the broker closed the connection; if this happens each time, check whether it needs TLS, \
                 and a login with --user"
                    .to_owned()
            }
            _ => format!("lost the connection: {error}"),
        };
        self.stream.write_all(&out).await.map_err(lost)?;
        self.stream.flush().await.map_err(lost)?;
        let size = self.stream.read_u32().await.map_err(lost)?;
        if !(4..=ANSWER_BYTES_MAX).contains(&size) {
            return Err(NOT_KAFKA.to_owned());
        }
        let id = self.stream.read_i32().await.map_err(lost)?;
        // Grows with the bytes that arrive.
        let mut answer = Vec::new();
        let rest = u64::from(size - 4);
        (&mut self.stream).take(rest).read_to_end(&mut answer).await.map_err(lost)?;
        if answer.len() as u64 != rest {
            return Err(lost(ErrorKind::UnexpectedEof.into()));
        }
        if id != self.last_id {
            return Err(NOT_KAFKA.to_owned());
        }
        Ok(answer.into())
    }
}

#[cfg(test)]
#[path = "link_tests.rs"]
mod tests;
