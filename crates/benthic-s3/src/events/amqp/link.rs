//! A connection to an AMQP broker, with one channel.
//!
//! A task owns the connection: it publishes messages, reads confirmations in any order, and sends
//! heartbeats. It ends at the first error; then all its messages have failed, and the next message
//! opens a new connection.

use super::Publisher;
use super::wire::{self, Closed, FRAME_BYTES_MAX, FRAME_BYTES_MIN, Incoming, NOT_AMQP};
use crate::events::broker::Message;
use crate::events::connection::Io;
use bytes::BytesMut;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot};
use tokio::time::MissedTickBehavior;

/// How often both sides show that they live, at least. A side that is silent for two intervals is
/// gone.
const HEARTBEAT_SECONDS: u16 = 10;
/// Heartbeats that this side sends while the other may be silent.
const SILENT_BEATS_MAX: u32 = 4;
/// Limit on the time of one write.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// Messages without a confirmation.
const IN_FLIGHT_MAX: usize = 256;
const CLOSED: &str = "the broker closed the connection";
/// Why the gateway closes a connection while callers wait.
const NO_CONFIRMATION: &str =
    "a message had no confirmation within 10 seconds, so the gateway closed the connection";

/// A message to publish, and where the result goes.
pub(super) struct Job {
    pub message: Message,
    pub done: Done,
}

type Done = oneshot::Sender<Result<(), String>>;

/// An open connection.
pub(super) struct Link {
    stream: Box<dyn Io>,
    publisher: Publisher,
    received: BytesMut,
    frame_bytes_max: u32,
    heartbeat: Duration,
    /// The tag of the last message. The broker counts messages in the same way.
    last_tag: u64,
    /// The messages without a confirmation, and why the broker has returned them.
    in_flight: BTreeMap<u64, (Done, Option<String>)>,
    /// Why the broker returns the message whose header comes next.
    returning: Option<String>,
    /// The channel or connection that the broker has closed, until the gateway answers.
    closed: Option<Closed>,
}

impl Link {
    /// Logs in, and opens the channel.
    ///
    /// # Errors
    /// A message that says why.
    pub async fn open(stream: Box<dyn Io>, publisher: &Publisher) -> Result<Link, String> {
        let mut link = Link {
            stream,
            publisher: publisher.clone(),
            received: BytesMut::new(),
            frame_bytes_max: FRAME_BYTES_MAX,
            heartbeat: Duration::from_secs(HEARTBEAT_SECONDS.into()),
            last_tag: 0,
            in_flight: BTreeMap::new(),
            returning: None,
            closed: None,
        };
        let opened = link.log_in(publisher).await;
        if opened.is_err() {
            link.answer_close().await;
        }
        opened.map(|()| link)
    }

    async fn log_in(&mut self, publisher: &Publisher) -> Result<(), String> {
        let unexpected = || NOT_AMQP.to_owned();
        self.write(wire::PROTOCOL_HEADER).await?;
        let Incoming::Start { mechanisms } = self.next().await? else { return Err(unexpected()) };
        if !mechanisms.split(' ').any(|name| name == "PLAIN") {
            return Err(format!("the broker does not permit the login PLAIN; it permits {mechanisms}"));
        }
        self.write(&wire::start_ok(publisher)).await?;
        let tune = self.next().await.map_err(|error| match error.as_str() {
            // A broker that does not know the capability `authentication_failure_close`.
            CLOSED => format!("{CLOSED} after the login; check the user and the password"),
            _ => error,
        })?;
        let Incoming::Tune { frame_bytes_max, heartbeat_seconds } = tune else { return Err(unexpected()) };
        // Zero means no limit, and no heartbeats.
        if frame_bytes_max > 0 {
            self.frame_bytes_max = frame_bytes_max.clamp(FRAME_BYTES_MIN, FRAME_BYTES_MAX);
        }
        let heartbeat_seconds = match heartbeat_seconds {
            0 => HEARTBEAT_SECONDS,
            seconds => seconds.min(HEARTBEAT_SECONDS),
        };
        self.heartbeat = Duration::from_secs(heartbeat_seconds.into());
        let limits = wire::tune_ok_and_open(self.frame_bytes_max, heartbeat_seconds, &publisher.vhost);
        self.ask(&limits, &Incoming::OpenOk).await?;
        self.ask(&wire::channel_open(), &Incoming::ChannelOpenOk).await?;
        self.ask(&wire::confirm_select(), &Incoming::SelectOk).await
    }

    /// Publishes messages until their sender is dropped, or until the connection fails.
    pub async fn run(mut self, mut jobs: mpsc::Receiver<Job>) {
        let ended = self.serve(&mut jobs).await;
        let reason = ended.err().unwrap_or_else(|| NO_CONFIRMATION.to_owned());
        // A caller that no longer waits is no error.
        for (done, _) in std::mem::take(&mut self.in_flight).into_values() {
            let _ = done.send(Err(reason.clone()));
        }
        jobs.close();
        while let Some(job) = jobs.recv().await {
            let _ = job.done.send(Err(reason.clone()));
        }
        self.answer_close().await;
    }

    /// Tells a broker that has closed the connection or the channel that nothing more comes.
    async fn answer_close(&mut self) {
        if let Some(closed) = self.closed.take() {
            // The connection ends in any case.
            let _ = self.write(&wire::close_ok(closed)).await;
        }
    }

    async fn serve(&mut self, jobs: &mut mpsc::Receiver<Job>) -> Result<(), String> {
        let mut beats = tokio::time::interval(self.heartbeat / 2);
        // A write that took long must not count as silence of the broker.
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut silent_beats = 0;
        loop {
            tokio::select! {
                incoming = self.next() => {
                    silent_beats = 0;
                    self.take(incoming?)?;
                }
                job = jobs.recv(), if self.in_flight.len() < IN_FLIGHT_MAX => match job {
                    // The caller has given up, and sends the message again after others.
                    Some(job) if job.done.is_closed() => {}
                    Some(job) => self.publish(job).await?,
                    None => return self.write(&wire::close()).await,
                },
                _ = beats.tick() => {
                    // `recv` does not run while too many messages are in flight.
                    if jobs.is_closed() {
                        return self.write(&wire::close()).await;
                    }
                    silent_beats += 1;
                    if silent_beats > SILENT_BEATS_MAX {
                        return Err("the broker sends no heartbeats".to_owned());
                    }
                    self.write(&wire::heartbeat()).await?;
                }
            }
        }
    }

    async fn publish(&mut self, Job { message, done }: Job) -> Result<(), String> {
        self.last_tag += 1;
        let tag = self.last_tag;
        self.in_flight.insert(tag, (done, None));
        let out = wire::publish(&self.publisher, (tag, message.time_ms), &message.body, self.frame_bytes_max);
        self.write(&out).await
    }

    fn take(&mut self, incoming: Incoming) -> Result<(), String> {
        match incoming {
            Incoming::Ack { tag, multiple } => self.confirm(tag, multiple, true),
            Incoming::Nack { tag, multiple } => self.confirm(tag, multiple, false),
            Incoming::Return { reason } => self.returning = Some(reason),
            Incoming::Header { tag } => {
                let reason = self.returning.take();
                let returned = tag.and_then(|tag| self.in_flight.get_mut(&tag));
                let (Some(reason), Some((_, returned))) = (reason, returned) else {
                    return Err("the broker returned a message that is not known".to_owned());
                };
                *returned = Some(reason);
            }
            Incoming::Body | Incoming::Heartbeat | Incoming::Unblocked => {}
            Incoming::Blocked { reason } => {
                return Err(format!("the broker accepts no messages at present: {reason}"));
            }
            _ => return Err(NOT_AMQP.to_owned()),
        }
        Ok(())
    }

    /// Ends a message, or all up to it.
    fn confirm(&mut self, tag: u64, multiple: bool, is_stored: bool) {
        let confirmed = match (multiple, tag) {
            (false, _) => self.in_flight.remove_entry(&tag).into_iter().collect(),
            (true, 0) => std::mem::take(&mut self.in_flight),
            (true, _) => {
                let later = self.in_flight.split_off(&tag.saturating_add(1));
                std::mem::replace(&mut self.in_flight, later)
            }
        };
        for (done, returned) in confirmed.into_values() {
            let result = match returned {
                Some(reason) => {
                    Err(format!("no queue is bound to the exchange with the routing key: {reason}"))
                }
                None if is_stored => Ok(()),
                None => Err("the broker could not store the message".to_owned()),
            };
            // A caller that no longer waits is no error.
            let _ = done.send(result);
        }
    }

    async fn ask(&mut self, request: &[u8], answer: &Incoming) -> Result<(), String> {
        self.write(request).await?;
        loop {
            match self.next().await? {
                Incoming::Heartbeat => {}
                found if found == *answer => return Ok(()),
                _ => return Err(NOT_AMQP.to_owned()),
            }
        }
    }

    /// The next message of the broker. A caller may drop the future at any time.
    async fn next(&mut self) -> Result<Incoming, String> {
        loop {
            match wire::take_frame(&mut self.received)? {
                Some(Incoming::Close { closed, reason }) => {
                    self.closed = Some(closed);
                    return Err(format!("the broker refused: {reason}"));
                }
                Some(incoming) => return Ok(incoming),
                None => {}
            }
            match self.stream.read_buf(&mut self.received).await {
                Ok(0) => return Err(CLOSED.to_owned()),
                Ok(_) => {}
                Err(error) => return Err(lost_connection(&error)),
            }
        }
    }

    async fn write(&mut self, data: &[u8]) -> Result<(), String> {
        let write = async {
            self.stream.write_all(data).await?;
            self.stream.flush().await
        };
        match tokio::time::timeout(WRITE_TIMEOUT, write).await {
            Ok(written) => written.map_err(|error| lost_connection(&error)),
            Err(_) => Err("the broker reads nothing".to_owned()),
        }
    }
}

fn lost_connection(error: &std::io::Error) -> String {
    format!("lost the connection: {error}")
}

#[cfg(test)]
#[path = "link_tests.rs"]
mod tests;
