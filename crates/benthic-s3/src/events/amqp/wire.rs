//! The frames and methods of AMQP 0-9-1 that a publisher needs.

use super::{Publisher, SHORT_BYTES_MAX};
use bytes::{Buf, BufMut, BytesMut, TryGetError};

/// The first bytes that a client sends.
pub(super) const PROTOCOL_HEADER: &[u8] = b"AMQP\0\0\x09\x01";
/// Limit on a frame of the broker, which RabbitMQ proposes, too.
pub(super) const FRAME_BYTES_MAX: u32 = 128 * 1024;
/// The smallest limit that AMQP permits.
pub(super) const FRAME_BYTES_MIN: u32 = 4096;
/// The bytes of a frame beside its payload.
const FRAME_HEAD: usize = 7;
const FRAME_OVERHEAD: usize = FRAME_HEAD + 1;
const FRAME_END: u8 = 0xce;
/// The channel on which the gateway publishes.
const CHANNEL: u16 = 1;
/// Messages that survive a restart of the broker.
const PERSISTENT: u8 = 2;
/// Content type, delivery mode, correlation id, timestamp.
const PROPERTIES: u16 = CONTENT_TYPE | DELIVERY_MODE | CORRELATION_ID | 1 << 6;
/// The properties of a message, in the order in which they are sent.
const CONTENT_TYPE: u16 = 1 << 15;
const CONTENT_ENCODING: u16 = 1 << 14;
const HEADERS: u16 = 1 << 13;
const DELIVERY_MODE: u16 = 1 << 12;
const PRIORITY: u16 = 1 << 11;
const CORRELATION_ID: u16 = 1 << 10;

pub(super) const NOT_AMQP: &str =
    "the server does not speak AMQP 0-9-1; check the port, and whether it wants TLS";

/// A message of the broker.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Incoming {
    Start {
        /// The mechanisms of logins, with spaces between.
        mechanisms: String,
    },
    Tune {
        frame_bytes_max: u32,
        heartbeat_seconds: u16,
    },
    /// The connection is open.
    OpenOk,
    ChannelOpenOk,
    SelectOk,
    Ack {
        tag: u64,
        multiple: bool,
    },
    Nack {
        tag: u64,
        multiple: bool,
    },
    /// No queue gets the message, whose header and body come next.
    Return {
        reason: String,
    },
    /// The header of a returned message, with the tag that [`publish`] wrote into it.
    Header {
        tag: Option<u64>,
    },
    Body,
    Heartbeat,
    /// The broker closes the connection or the channel.
    Close {
        closed: Closed,
        reason: String,
    },
    /// The broker accepts no messages for some time.
    Blocked {
        reason: String,
    },
    Unblocked,
}

/// The subject of a close: a channel or the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closed {
    Connection,
    Channel,
}

/// Takes a frame out of the received bytes, if it is complete.
///
/// # Errors
/// A message that says what is invalid.
pub(super) fn take_frame(received: &mut BytesMut) -> Result<Option<Incoming>, String> {
    let Some(&[kind, _, _, a, b, c, d]) = received.first_chunk::<FRAME_HEAD>() else { return Ok(None) };
    let size = u32::from_be_bytes([a, b, c, d]);
    if ![1, 2, 3, 8].contains(&kind) || size > FRAME_BYTES_MAX {
        return Err(NOT_AMQP.to_owned());
    }
    let end = FRAME_HEAD + size as usize;
    if received.len() <= end {
        return Ok(None);
    }
    let frame = received.split_to(end + 1);
    if frame[end] != FRAME_END {
        return Err(NOT_AMQP.to_owned());
    }
    let payload = &frame[FRAME_HEAD..end];
    let parsed = match kind {
        1 => parse_method(payload),
        2 => parse_header(payload).map(Some),
        3 => Ok(Some(Incoming::Body)),
        _ => Ok(Some(Incoming::Heartbeat)),
    };
    parsed
        .ok()
        .flatten()
        .ok_or_else(|| "the broker sent a message that AMQP 0-9-1 does not permit here".to_owned())
        .map(Some)
}

fn parse_method(mut payload: &[u8]) -> Result<Option<Incoming>, TryGetError> {
    let payload = &mut payload;
    let method = (payload.try_get_u16()?, payload.try_get_u16()?);
    Ok(Some(match method {
        (10, 10) => {
            // The version, and properties of the server.
            payload.try_get_u16()?;
            long(payload)?;
            Incoming::Start { mechanisms: text(long(payload)?) }
        }
        (10, 30) => {
            payload.try_get_u16()?;
            Incoming::Tune {
                frame_bytes_max: payload.try_get_u32()?,
                heartbeat_seconds: payload.try_get_u16()?,
            }
        }
        (10, 41) => Incoming::OpenOk,
        (10, 50) | (20, 40) => {
            payload.try_get_u16()?;
            let closed = if method.0 == 10 { Closed::Connection } else { Closed::Channel };
            Incoming::Close { closed, reason: text(short(payload)?) }
        }
        (10, 60) => Incoming::Blocked { reason: text(short(payload)?) },
        (10, 61) => Incoming::Unblocked,
        (20, 11) => Incoming::ChannelOpenOk,
        (60, 50) => {
            let code = payload.try_get_u16()?;
            Incoming::Return { reason: format!("{code} {}", text(short(payload)?)) }
        }
        (60, 80) => Incoming::Ack { tag: payload.try_get_u64()?, multiple: payload.try_get_u8()? & 1 == 1 },
        (60, 120) => Incoming::Nack { tag: payload.try_get_u64()?, multiple: payload.try_get_u8()? & 1 == 1 },
        (85, 11) => Incoming::SelectOk,
        _ => return Ok(None),
    }))
}

/// The header of a returned message. The broker returns the properties, and may add some.
fn parse_header(mut payload: &[u8]) -> Result<Incoming, TryGetError> {
    let payload = &mut payload;
    // The class, the weight and the size of the body.
    payload.try_get_u32()?;
    payload.try_get_u64()?;
    let properties = payload.try_get_u16()?;
    if properties & CORRELATION_ID == 0 {
        return Ok(Incoming::Header { tag: None });
    }
    for property in [CONTENT_TYPE, CONTENT_ENCODING, HEADERS, DELIVERY_MODE, PRIORITY] {
        match property {
            _ if properties & property == 0 => {}
            HEADERS => _ = long(payload)?,
            DELIVERY_MODE | PRIORITY => _ = payload.try_get_u8()?,
            _ => _ = short(payload)?,
        }
    }
    Ok(Incoming::Header { tag: text(short(payload)?).parse().ok() })
}

fn short<'a>(payload: &mut &'a [u8]) -> Result<&'a [u8], TryGetError> {
    let len = payload.try_get_u8()?;
    take(payload, len.into())
}

fn long<'a>(payload: &mut &'a [u8]) -> Result<&'a [u8], TryGetError> {
    let len = payload.try_get_u32()?;
    take(payload, len as usize)
}

fn take<'a>(payload: &mut &'a [u8], len: usize) -> Result<&'a [u8], TryGetError> {
    let missing = TryGetError { requested: len, available: payload.len() };
    let (taken, rest) = payload.split_at_checked(len).ok_or(missing)?;
    *payload = rest;
    Ok(taken)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn put_short(out: &mut BytesMut, text: &str) {
    // Callers check the limit.
    let text = &text.as_bytes()[..text.len().min(SHORT_BYTES_MAX)];
    out.put_u8(text.len() as u8);
    out.put_slice(text);
}

/// Writes bytes with their length in front of them.
fn put_long(out: &mut BytesMut, write: impl FnOnce(&mut BytesMut)) {
    let start = out.len();
    out.put_u32(0);
    write(out);
    let len = (out.len() - start - 4) as u32;
    out[start..start + 4].copy_from_slice(&len.to_be_bytes());
}

pub(super) fn put_frame(out: &mut BytesMut, kind: u8, channel: u16, write: impl FnOnce(&mut BytesMut)) {
    out.put_u8(kind);
    out.put_u16(channel);
    put_long(out, write);
    out.put_u8(FRAME_END);
}

fn method(channel: u16, (class, method): (u16, u16), write: impl FnOnce(&mut BytesMut)) -> BytesMut {
    let mut out = BytesMut::new();
    put_frame(&mut out, 1, channel, |out| {
        out.put_u16(class);
        out.put_u16(method);
        write(out);
    });
    out
}

/// The login, with the capabilities of the client.
pub(super) fn start_ok(publisher: &Publisher) -> BytesMut {
    let put_flag = |out: &mut BytesMut, name: &str| {
        put_short(out, name);
        out.put_slice(&[b't', 1]);
    };
    method(0, (10, 11), |out| {
        put_long(out, |out| {
            for (name, value) in [("product", "benthic-s3"), ("version", benthic_core::build())] {
                put_short(out, name);
                out.put_u8(b'S');
                put_long(out, |out| out.put_slice(value.as_bytes()));
            }
            put_short(out, "capabilities");
            out.put_u8(b'F');
            put_long(out, |out| {
                put_flag(out, "authentication_failure_close");
                put_flag(out, "connection.blocked");
                put_flag(out, "publisher_confirms");
            });
        });
        put_short(out, "PLAIN");
        put_long(out, |out| {
            for part in [&publisher.user, &publisher.password] {
                out.put_u8(0);
                out.put_slice(part.as_bytes());
            }
        });
        put_short(out, "en_US");
    })
}

/// The limits of the connection, and the request for its virtual host.
pub(super) fn tune_ok_and_open(frame_bytes_max: u32, heartbeat_seconds: u16, vhost: &str) -> BytesMut {
    let mut out = method(0, (10, 31), |out| {
        out.put_u16(CHANNEL);
        out.put_u32(frame_bytes_max);
        out.put_u16(heartbeat_seconds);
    });
    out.unsplit(method(0, (10, 40), |out| {
        put_short(out, vhost);
        // Reserved.
        out.put_slice(&[0, 0]);
    }));
    out
}

pub(super) fn channel_open() -> BytesMut {
    method(CHANNEL, (20, 10), |out| out.put_u8(0))
}

/// Asks for confirmations.
pub(super) fn confirm_select() -> BytesMut {
    method(CHANNEL, (85, 10), |out| out.put_u8(0))
}

/// Closes the connection.
pub(super) fn close() -> BytesMut {
    method(0, (10, 50), |out| {
        out.put_u16(200);
        put_short(out, "no more messages");
        out.put_u32(0);
    })
}

/// The answer to a broker that closes the connection or the channel. After the channel, the gateway
/// closes the connection.
pub(super) fn close_ok(closed: Closed) -> BytesMut {
    match closed {
        Closed::Connection => method(0, (10, 51), |_| {}),
        Closed::Channel => {
            let mut out = method(CHANNEL, (20, 41), |_| {});
            out.unsplit(close());
            out
        }
    }
}

pub(super) fn heartbeat() -> BytesMut {
    let mut out = BytesMut::new();
    put_frame(&mut out, 8, 0, |_| {});
    out
}

/// A mandatory and persistent message. The correlation id is its tag, which identifies a returned
/// message.
pub(super) fn publish(
    publisher: &Publisher,
    (tag, time_ms): (u64, u64),
    body: &[u8],
    frame_bytes_max: u32,
) -> BytesMut {
    const MANDATORY: u8 = 1;
    let mut out = method(CHANNEL, (60, 40), |out| {
        out.put_u16(0);
        put_short(out, &publisher.exchange);
        put_short(out, &publisher.routing_key);
        out.put_u8(MANDATORY);
    });
    put_frame(&mut out, 2, CHANNEL, |out| {
        out.put_u16(60);
        out.put_u16(0);
        out.put_u64(body.len() as u64);
        out.put_u16(PROPERTIES);
        put_short(out, "application/json");
        out.put_u8(PERSISTENT);
        put_short(out, &tag.to_string());
        out.put_u64(time_ms / 1_000);
    });
    for part in body.chunks(frame_bytes_max as usize - FRAME_OVERHEAD) {
        put_frame(&mut out, 3, CHANNEL, |out| out.put_slice(part));
    }
    out
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
