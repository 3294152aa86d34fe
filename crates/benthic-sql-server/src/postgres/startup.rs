//! The start of a connection: encryption, requests to cancel, and the login.

use super::control::SessionSettings;
use super::messages::{
    End, Fields, LOGIN_BYTES_MAX, Reader, Stream, Writer, first_message, garbage, put_text, sql_state,
};
use super::scram::{Exchange, MECHANISM};
use super::{Cancel, PostgresServer};
use crate::DATABASE;
use crate::users::User;
use benthic_core::{Error, ErrorKind, Result};
use benthic_s3::grants::wrong_credentials;
use bytes::{BufMut, Bytes, BytesMut};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

const CANCEL: u32 = 80_877_102;
const ENCRYPT_TLS: u32 = 80_877_103;
const ENCRYPT_GSS: u32 = 80_877_104;
/// The first byte of TLS, from clients that encrypt without asking before.
const TLS_HANDSHAKE: u8 = 0x16;

/// A client that has logged in.
pub struct LoggedIn {
    pub reader: Reader,
    pub writer: Writer,
    pub user: Arc<User>,
    pub access_key: String,
    pub settings: SessionSettings,
    pub cancel: Cancel,
}

/// Starts a connection. Returns `None` if it has ended, because its request was to cancel a query,
/// because the login failed, or because the client is gone.
pub async fn start(server: &Arc<PostgresServer>, stream: TcpStream) -> Option<LoggedIn> {
    let (stream, parameters) = negotiate(server, stream).await?;
    let (reader, writer) = tokio::io::split(stream);
    let (mut reader, mut writer) = (Reader::new(reader, BytesMut::new()), Writer::new(writer));
    let refused = match log_in(server, parameters, &mut reader, &mut writer).await {
        Ok((user, access_key, settings)) => {
            let cancel = Cancel::new(server)?;
            let logged_in = LoggedIn { reader, writer, user, access_key, settings, cancel };
            return Some(logged_in);
        }
        Err(End::Closed) => return None,
        Err(End::Garbage(error)) => error,
    };
    // Clients retry or ask for another password only if the code says that the login failed.
    let code = match refused.kind() {
        ErrorKind::PermissionDenied => "28P01",
        ErrorKind::NotFound => "3D000",
        ErrorKind::InvalidArgument => "08P01",
        _ => sql_state(&refused),
    };
    tracing::debug!(error = %refused, "a login failed");
    writer.error("FATAL", code, &refused.to_string());
    let _ = writer.flush().await;
    writer.close().await;
    None
}

/// Encrypts the connection if the client asks for it, and reads the client's parameters.
async fn negotiate(server: &PostgresServer, stream: TcpStream) -> Option<(Box<dyn Stream>, Bytes)> {
    let mut first = [0];
    stream.peek(&mut first).await.ok()?;
    let mut stream: Box<dyn Stream> = match &server.tls {
        Some(tls) if first[0] == TLS_HANDSHAKE => Box::new(tls.accept(stream).await.ok()?),
        _ => Box::new(stream),
    };
    let mut is_encrypted = server.tls.is_some() && first[0] == TLS_HANDSHAKE;
    // A client asks for each kind of encryption at most once.
    for _ in 0..3 {
        let message = match first_message(&mut stream).await {
            Ok(message) => message,
            Err(End::Closed) => return None,
            Err(End::Garbage(error)) => return refuse(stream, "08P01", &error).await,
        };
        let mut fields = Fields(message);
        match fields.u32() {
            Ok(CANCEL) => {
                if let (Ok(process), Ok(secret)) = (fields.i32(), fields.i32()) {
                    server.cancel(process, secret);
                }
                return None;
            }
            Ok(ENCRYPT_TLS) => match &server.tls {
                Some(tls) if !is_encrypted => {
                    stream.write_all(b"S").await.ok()?;
                    stream.flush().await.ok()?;
                    stream = Box::new(tls.accept(stream).await.ok()?);
                    is_encrypted = true;
                }
                _ => stream.write_all(b"N").await.ok()?,
            },
            Ok(ENCRYPT_GSS) => stream.write_all(b"N").await.ok()?,
            Ok(version) if version >> 16 == 3 => {
                if server.tls.is_some() && !is_encrypted {
                    let error = garbage("the server takes only encrypted connections; use sslmode=require");
                    return refuse(stream, "28000", &error).await;
                }
                let mut body = BytesMut::new();
                body.put_u32(version);
                body.put_slice(&fields.0);
                return Some((stream, body.freeze()));
            }
            _ => {
                let error = garbage("the server speaks version 3 of Postgres' protocol");
                return refuse(stream, "08P01", &error).await;
            }
        }
    }
    None
}

async fn refuse<T>(stream: Box<dyn Stream>, code: &str, error: &Error) -> Option<T> {
    let (_reader, writer) = tokio::io::split(stream);
    let mut writer = Writer::new(writer);
    writer.error("FATAL", code, &error.to_string());
    let _ = writer.flush().await;
    writer.close().await;
    None
}

async fn log_in(
    server: &PostgresServer,
    parameters: Bytes,
    reader: &mut Reader,
    writer: &mut Writer,
) -> std::result::Result<(Arc<User>, String, SessionSettings), End> {
    let (version, mut parameters) = parse(parameters).map_err(End::Garbage)?;
    let access_key = parameters.remove("user").unwrap_or_default();
    let unknown: Vec<String> = parameters.keys().filter(|name| name.starts_with("_pq_.")).cloned().collect();
    if version & 0xffff != 0 || !unknown.is_empty() {
        // The server speaks version 3.0, and knows no extension of the protocol.
        writer.message(b'v', |body| {
            body.put_u32(3 << 16);
            body.put_u32(u32::try_from(unknown.len()).unwrap_or(u32::MAX));
            unknown.iter().for_each(|name| put_text(body, name));
        });
    }
    let database = parameters.remove("database").unwrap_or_else(|| access_key.clone());
    let login = server.users.key(&access_key).await.map_err(End::Garbage)?;
    // An unknown key must not answer faster, or in another way.
    let secret = match &login {
        Some(login) => login.secret.clone(),
        None => server.random_secret().map_err(End::Garbage)?,
    };
    let is_proved = prove(&secret, server, reader, writer).await?;
    let Some(login) = login.filter(|_| is_proved) else {
        return Err(End::Garbage(wrong_credentials()));
    };
    let user = server.users.enter(&login).map_err(End::Garbage)?;
    // Clients without a database ask for one with the name of the user.
    if ![DATABASE, "postgres", access_key.as_str()].contains(&database.as_str()) {
        let message = format!("no such database; the only one is {DATABASE}, and its schemas are the pools");
        return Err(End::Garbage(Error::not_found(message).with("database", database)));
    }
    let settings = settings(parameters).map_err(End::Garbage)?;
    writer.message(b'R', |body| body.put_i32(0));
    Ok((user, access_key, settings))
}

/// Lets the client prove that it knows the secret. Returns false if it does not.
async fn prove(
    secret: &str,
    server: &PostgresServer,
    reader: &mut Reader,
    writer: &mut Writer,
) -> std::result::Result<bool, End> {
    writer.message(b'R', |body| {
        body.put_i32(10);
        put_text(body, MECHANISM);
        body.put_u8(0);
    });
    writer.flush().await?;
    let first = first_proof(reader.message(LOGIN_BYTES_MAX).await?).map_err(End::Garbage)?;
    let exchange = Exchange::start(&first, secret, &server.environment).map_err(End::Garbage)?;
    writer.message(b'R', |body| {
        body.put_i32(11);
        body.put_slice(exchange.challenge.as_bytes());
    });
    writer.flush().await?;
    let last = match reader.message(LOGIN_BYTES_MAX).await? {
        (b'p', body) => text(&body).map_err(End::Garbage)?,
        _ => return Err(End::Garbage(garbage("the client must send its proof"))),
    };
    let Some(proof) = exchange.finish(&last).map_err(End::Garbage)? else { return Ok(false) };
    writer.message(b'R', |body| {
        body.put_i32(12);
        body.put_slice(proof.as_bytes());
    });
    Ok(true)
}

fn first_proof((kind, body): (u8, Bytes)) -> Result<String> {
    let mut fields = Fields(body);
    if kind != b'p' || fields.text()? != MECHANISM {
        return Err(garbage("the client must log in with SCRAM-SHA-256"));
    }
    let first = fields.value()?.ok_or_else(|| garbage("the client must begin the login"))?;
    text(&first)
}

fn text(bytes: &[u8]) -> Result<String> {
    let text = std::str::from_utf8(bytes).map_err(|_| garbage("the login is not UTF-8"))?;
    Ok(text.to_owned())
}

/// The version of the protocol, and the parameters of the connection.
fn parse(body: Bytes) -> Result<(u32, BTreeMap<String, String>)> {
    let mut fields = Fields(body);
    let version = fields.u32()?;
    let mut parameters = BTreeMap::new();
    loop {
        let name = fields.text()?;
        if name.is_empty() {
            return Ok((version, parameters));
        }
        parameters.insert(name, fields.text()?);
    }
}

/// The settings among the parameters, also those in `options`, such as `-c name=value`.
fn settings(parameters: BTreeMap<String, String>) -> Result<SessionSettings> {
    let mut settings = SessionSettings::default();
    for (name, value) in parameters {
        match name.as_str() {
            "replication" if value != "false" => {
                return Err(Error::unsupported("there is no replication"));
            }
            "options" => {
                let mut words = value.split_whitespace();
                while let Some(word) = words.next() {
                    let option = match word {
                        "-c" => words.next(),
                        word => word.strip_prefix("-c").or_else(|| word.strip_prefix("--")),
                    };
                    if let Some((name, value)) = option.and_then(|option| option.split_once('=')) {
                        settings.set(name, value)?;
                    }
                }
            }
            name if name.starts_with("_pq_.") => {}
            name => drop(settings.set(name, &value)?),
        }
    }
    Ok(settings)
}
