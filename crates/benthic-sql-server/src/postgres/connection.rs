//! A connection after the login: reads messages, lets the session answer them, and reports errors.
//!
//! While a statement runs, the connection also waits for the client to cancel it or to go away, and
//! then drops the statement, which stops its work.

use super::Cancel;
use super::messages::{End, Fields, MESSAGE_BYTES_MAX, Reader, garbage, sql_state};
use super::portals::Fault;
use super::session::Session;
use super::startup::LoggedIn;
use bytes::{BufMut, Bytes};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;

/// Time for the last message to a client that may accept nothing more.
const LAST_MESSAGE_TIME: Duration = Duration::from_secs(5);

/// Postgres' codes that no kind of error has.
const CANCELED: &str = "57014";
const SHUTDOWN: &str = "57P01";
const IN_FAILED_TRANSACTION: &str = "25P02";
const PROTOCOL: &str = "08P01";

/// A connection.
pub struct Connection {
    reader: Reader,
    cancel: Cancel,
    session: Session,
    /// After an error, messages are skipped until the next Sync.
    skips: bool,
}

impl Connection {
    pub fn new(client: LoggedIn) -> Connection {
        let LoggedIn { reader, mut writer, user, access_key, settings, cancel } = client;
        for (name, value) in settings.reported_settings() {
            writer.parameter(name, value);
        }
        writer.parameter("session_authorization", &access_key);
        writer.message(b'K', |body| {
            body.put_i32(cancel.process);
            body.put_i32(cancel.secret);
        });
        let mut session = Session::new(writer, user, access_key, settings);
        session.ready();
        Connection { reader, cancel, session, skips: false }
    }

    /// Serves the connection until it ends, or until the server stops.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) {
        let (code, reason) = loop {
            if self.session.writer.flush().await.is_err() {
                return;
            }
            let message = tokio::select! {
                message = self.reader.message(MESSAGE_BYTES_MAX) => message,
                _ = stop.wait_for(|stop| *stop) => break (SHUTDOWN, "the server stops".to_owned()),
            };
            let answered = match message {
                Ok((b'X', _)) => return,
                Ok((kind, body)) => self.answer(kind, body).await,
                Err(end) => Err(end),
            };
            match answered {
                Ok(()) => {}
                Err(End::Closed) => return,
                Err(End::Garbage(error)) => break (PROTOCOL, error.to_string()),
            }
        };
        self.session.writer.error("FATAL", code, &reason);
        let _ = timeout(LAST_MESSAGE_TIME, self.session.writer.flush()).await;
        self.session.writer.close().await;
    }

    async fn answer(&mut self, kind: u8, body: Bytes) -> Result<(), End> {
        match kind {
            b'S' => {
                self.skips = false;
                self.session.ready();
                return Ok(());
            }
            // The server sends its answers at once anyway. A client that has failed to copy may
            // still send its data.
            b'H' | b'd' | b'c' | b'f' => return Ok(()),
            _ if self.skips => return Ok(()),
            b'Q' | b'P' | b'B' | b'D' | b'E' | b'C' => {}
            _ => return Err(End::Garbage(garbage("the server does not know this type of message"))),
        }
        let done = tokio::select! {
            done = self.session.answer(kind, Fields(body)) => done,
            () = self.reader.wait_for_close() => Err(Fault::Gone),
            () = self.cancel.requested.notified() => Err(Fault::Canceled),
        };
        let failed = done.is_err();
        match done {
            Ok(()) => {}
            Err(Fault::Gone) => return Err(End::Closed),
            Err(Fault::Canceled) => self.session.fail(CANCELED, "the client canceled the statement"),
            Err(Fault::InFailedTransaction) => {
                let message = "an earlier statement of the transaction failed; end it with ROLLBACK";
                self.session.fail(IN_FAILED_TRANSACTION, message);
            }
            Err(Fault::Known(code, message)) => self.session.fail(code, &message),
            Err(Fault::Failed(error)) => self.session.fail(sql_state(&error), &error.to_string()),
        }
        match kind {
            b'Q' => self.session.ready(),
            _ => self.skips = failed,
        }
        if failed {
            // The client may accept nothing more, and that may be the failure.
            let sent = timeout(LAST_MESSAGE_TIME, self.session.writer.flush()).await;
            return if matches!(sent, Ok(Ok(()))) { Ok(()) } else { Err(End::Closed) };
        }
        Ok(())
    }
}
