//! The requests of Kafka that a producer needs, in versions that all brokers since Kafka 2.1 have.

use super::Address;
use bytes::{Buf, BufMut, Bytes, BytesMut, TryGetError};
use crc_fast::CrcAlgorithm;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The number of a request, and its version.
#[derive(Clone, Copy)]
pub(super) struct Request {
    key: i16,
    version: i16,
}

pub(super) const PRODUCE: Request = Request { key: 0, version: 7 };
pub(super) const METADATA: Request = Request { key: 3, version: 5 };
pub(super) const SASL_HANDSHAKE: Request = Request { key: 17, version: 1 };
pub(super) const API_VERSIONS: Request = Request { key: 18, version: 0 };
pub(super) const SASL_AUTHENTICATE: Request = Request { key: 36, version: 0 };

/// How long the broker waits for the replicas.
const ACKS_TIMEOUT_MS: i32 = 8_000;
const ACKS_ALL: i16 = -1;
/// Limit on the name of a host, as DNS has it.
const HOST_BYTES_MAX: usize = 255;

pub(super) const NOT_KAFKA: &str =
    "the server does not speak Kafka's protocol; check the port, and whether it wants TLS";

/// Why a broker does not store a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    /// Whether the broker will refuse this message again, but takes others.
    pub is_of_message: bool,
    pub reason: String,
}

pub(super) fn put_head(out: &mut BytesMut, request: Request, id: i32) {
    out.put_i16(request.key);
    out.put_i16(request.version);
    out.put_i32(id);
    put_string(out, "benthic-s3");
}

/// Writes bytes with their length in front of them.
pub(super) fn put_sized(out: &mut BytesMut, write: impl FnOnce(&mut BytesMut)) {
    let start = out.len();
    out.put_i32(0);
    write(out);
    let len = (out.len() - start - 4) as i32;
    out[start..start + 4].copy_from_slice(&len.to_be_bytes());
}

fn put_string(out: &mut BytesMut, text: &str) {
    // Callers limit their texts.
    out.put_i16(text.len() as i16);
    out.put_slice(text.as_bytes());
}

pub(super) fn metadata(topic: &str) -> BytesMut {
    let mut out = BytesMut::new();
    out.put_i32(1);
    put_string(&mut out, topic);
    // Create no topic.
    out.put_u8(0);
    out
}

pub(super) fn sasl_handshake(mechanism: &str) -> BytesMut {
    let mut out = BytesMut::new();
    put_string(&mut out, mechanism);
    out
}

pub(super) fn sasl_authenticate(token: &str) -> BytesMut {
    let mut out = BytesMut::new();
    put_sized(&mut out, |out| out.put_slice(token.as_bytes()));
    out
}

/// A request that stores one record.
pub(super) fn produce(topic: &str, partition: i32, key: &[u8], value: &[u8], time_ms: u64) -> BytesMut {
    let mut out = BytesMut::new();
    // No transaction.
    out.put_i16(-1);
    out.put_i16(ACKS_ALL);
    out.put_i32(ACKS_TIMEOUT_MS);
    out.put_i32(1);
    put_string(&mut out, topic);
    out.put_i32(1);
    out.put_i32(partition);
    put_sized(&mut out, |out| put_batch(out, key, value, i64::try_from(time_ms).unwrap_or(i64::MAX)));
    out
}

/// A batch of one record, in version 2 of the format.
fn put_batch(out: &mut BytesMut, key: &[u8], value: &[u8], time_ms: i64) {
    let mut record = BytesMut::new();
    // The attributes, and the distances to the time and the offset of the batch.
    record.put_slice(&[0, 0, 0]);
    for part in [key, value] {
        put_varint(&mut record, part.len());
        record.put_slice(part);
    }
    // No headers.
    record.put_u8(0);

    let mut checked = BytesMut::new();
    // The attributes, and the last offset.
    checked.put_i16(0);
    checked.put_i32(0);
    checked.put_i64(time_ms);
    checked.put_i64(time_ms);
    // No idempotent producer: its id, its epoch, and its sequence number.
    checked.put_i64(-1);
    checked.put_i16(-1);
    checked.put_i32(-1);
    checked.put_i32(1);
    put_varint(&mut checked, record.len());
    checked.put_slice(&record);

    // The offset, which the broker sets.
    out.put_i64(0);
    put_sized(out, |out| {
        // The epoch of the leader, and the version.
        out.put_i32(-1);
        out.put_u8(2);
        out.put_u32(crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, &checked) as u32);
        out.put_slice(&checked);
    });
}

/// Writes a length as a signed number of variable length.
fn put_varint(out: &mut BytesMut, len: usize) {
    let mut rest = (len as u64) << 1;
    while rest >= 0x80 {
        out.put_u8(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.put_u8(rest as u8);
}

/// Checks that the broker knows the versions of all requests.
///
/// # Errors
/// A message that names the request.
pub(super) fn check_versions(answer: Bytes) -> Result<(), String> {
    let parse = |mut answer: Bytes| {
        let code = answer.try_get_i16()?;
        let known = array(&mut answer, |answer| {
            Ok((answer.try_get_i16()?, answer.try_get_i16()?..=answer.try_get_i16()?))
        })?;
        Ok((code, known))
    };
    let (code, known) = parse(answer).map_err(not_kafka)?;
    if code != 0 {
        return Err(refused(code, None));
    }
    let known: HashMap<i16, _> = known.into_iter().collect();
    for request in [PRODUCE, METADATA] {
        if !known.get(&request.key).is_some_and(|versions| versions.contains(&request.version)) {
            let Request { key, version } = request;
            return Err(format!(
                "the broker lacks version {version} of request {key}; Kafka 2.1 or newer has it"
            ));
        }
    }
    Ok(())
}

/// The broker of each partition of a topic. A broker with a longer name than DNS permits counts as
/// none.
///
/// # Errors
/// A message that says why there is none.
pub(super) fn parse_metadata(answer: Bytes, topic: &str) -> Result<Vec<Option<Arc<Address>>>, String> {
    let parse = |mut answer: Bytes| {
        let answer = &mut answer;
        // The time of a throttled request.
        answer.try_get_i32()?;
        let brokers = array(answer, |answer| {
            let id = answer.try_get_i32()?;
            let address = (string(answer)?, answer.try_get_i32()?);
            // The rack.
            string(answer)?;
            Ok((id, address))
        })?;
        // The cluster, and its controller.
        string(answer)?;
        answer.try_get_i32()?;
        let topics = array(answer, |answer| {
            let code = answer.try_get_i16()?;
            let name = string(answer)?;
            // Whether the topic is internal.
            answer.try_get_u8()?;
            let partitions = array(answer, |answer| {
                // The state of the partition.
                answer.try_get_i16()?;
                let place = (answer.try_get_i32()?, answer.try_get_i32()?);
                // The replicas: all, those in sync, and those offline.
                for _ in 0..3 {
                    array(answer, |answer| answer.try_get_i32())?;
                }
                Ok(place)
            })?;
            Ok((code, name, partitions))
        })?;
        Ok((brokers, topics))
    };
    let (brokers, topics) = parse(answer).map_err(not_kafka)?;
    let found = topics.into_iter().find(|(_, name, _)| name == topic);
    let (code, _, partitions) = found.ok_or(NOT_KAFKA)?;
    match code {
        0 => {}
        UNKNOWN_TOPIC => {
            return Err(format!(
                "the cluster has no topic '{topic}', or the user may not see it; create the topic, or permit \
                 the user to describe it and to write to it"
            ));
        }
        code => return Err(refused(code, None)),
    }
    let leaders: BTreeMap<i32, i32> = partitions.into_iter().collect();
    let is_complete = leaders.keys().zip(0..).all(|(partition, number)| *partition == number);
    if leaders.is_empty() || !is_complete {
        return Err("the broker does not list all partitions of the topic".to_owned());
    }
    let address = |(id, (host, port)): (i32, (String, i32))| {
        let port = u16::try_from(port).ok().filter(|_| host.len() <= HOST_BYTES_MAX)?;
        Some((id, Arc::new((host, port))))
    };
    let addresses: HashMap<i32, Arc<Address>> = brokers.into_iter().filter_map(address).collect();
    Ok(leaders.values().map(|id| addresses.get(id).cloned()).collect())
}

/// # Errors
/// A message that says why the broker does not permit this login.
pub(super) fn parse_sasl_handshake(answer: Bytes, mechanism: &str) -> Result<(), String> {
    let parse = |mut answer: Bytes| Ok((answer.try_get_i16()?, array(&mut answer, string)?));
    let (code, mechanisms) = parse(answer).map_err(not_kafka)?;
    match code {
        0 => Ok(()),
        UNSUPPORTED_MECHANISM => {
            let permitted = mechanisms.join(", ");
            Err(format!("the broker does not permit the login {mechanism}; it permits {permitted}"))
        }
        code => Err(refused(code, None)),
    }
}

/// The broker's part of a login.
///
/// # Errors
/// A message that says why the broker refuses it.
pub(super) fn parse_sasl_authenticate(answer: Bytes) -> Result<String, String> {
    let parse = |mut answer: Bytes| {
        let refusal = (answer.try_get_i16()?, string(&mut answer)?);
        let len = usize::try_from(answer.try_get_i32()?).unwrap_or_default();
        Ok((refusal, take(&mut answer, len)?))
    };
    let ((code, message), token) = parse(answer).map_err(not_kafka)?;
    if code != 0 {
        return Err(refused(code, Some(message)));
    }
    String::from_utf8(token.into()).map_err(|_| NOT_KAFKA.to_owned())
}

/// The refusal of a record, if it was not stored.
///
/// # Errors
/// A message if the answer is invalid.
pub(super) fn parse_produce(answer: Bytes, topic: &str, partition: i32) -> Result<Option<Refusal>, String> {
    let parse = |mut answer: Bytes| {
        array(&mut answer, |answer| {
            let name = string(answer)?;
            let partitions = array(answer, |answer| {
                let result = (answer.try_get_i32()?, answer.try_get_i16()?);
                // The offset and the time of the record, and the first offset of the log.
                take(answer, 3 * 8)?;
                Ok(result)
            })?;
            Ok((name, partitions))
        })
    };
    let topics = parse(answer).map_err(not_kafka)?;
    let found = topics.into_iter().find(|(name, _)| name == topic);
    let found = found.and_then(|(_, results)| results.into_iter().find(|(number, _)| *number == partition));
    let (_, code) = found.ok_or(NOT_KAFKA)?;
    let is_of_message = [MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE].contains(&code);
    Ok((code != 0).then(|| Refusal { is_of_message, reason: refused(code, None) }))
}

fn not_kafka(_: TryGetError) -> String {
    NOT_KAFKA.to_owned()
}

fn take(answer: &mut Bytes, len: usize) -> Result<Bytes, TryGetError> {
    if len > answer.len() {
        return Err(TryGetError { requested: len, available: answer.len() });
    }
    Ok(answer.split_to(len))
}

/// A text, empty if there is none.
fn string(answer: &mut Bytes) -> Result<String, TryGetError> {
    let len = usize::try_from(answer.try_get_i16()?).unwrap_or_default();
    Ok(String::from_utf8_lossy(&take(answer, len)?).into_owned())
}

/// A list. It has as many elements as there are bytes for.
fn array<T>(
    answer: &mut Bytes,
    element: impl Fn(&mut Bytes) -> Result<T, TryGetError>,
) -> Result<Vec<T>, TryGetError> {
    let count = answer.try_get_i32()?;
    (0..count).map(|_| element(answer)).collect()
}

const UNKNOWN_TOPIC: i16 = 3;
const MESSAGE_TOO_LARGE: i16 = 10;
const RECORD_LIST_TOO_LARGE: i16 = 18;
const UNSUPPORTED_MECHANISM: i16 = 33;

/// A code of a broker, with its name in Kafka's documentation.
fn refused(code: i16, message: Option<String>) -> String {
    let name = match code {
        -1 => "UNKNOWN_SERVER_ERROR",
        2 => "CORRUPT_MESSAGE",
        UNKNOWN_TOPIC => "UNKNOWN_TOPIC_OR_PARTITION",
        5 => "LEADER_NOT_AVAILABLE",
        6 => "NOT_LEADER_OR_FOLLOWER",
        7 => "REQUEST_TIMED_OUT",
        MESSAGE_TOO_LARGE => "MESSAGE_TOO_LARGE",
        17 => "INVALID_TOPIC_EXCEPTION",
        RECORD_LIST_TOO_LARGE => "RECORD_LIST_TOO_LARGE",
        19 => "NOT_ENOUGH_REPLICAS",
        20 => "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        29 => "TOPIC_AUTHORIZATION_FAILED",
        31 => "CLUSTER_AUTHORIZATION_FAILED",
        32 => "INVALID_TIMESTAMP",
        34 => "ILLEGAL_SASL_STATE",
        35 => "UNSUPPORTED_VERSION",
        42 => "INVALID_REQUEST",
        44 => "POLICY_VIOLATION",
        56 => "KAFKA_STORAGE_ERROR",
        58 => "SASL_AUTHENTICATION_FAILED",
        // The rules of the topic refuse it, so they refuse every event.
        87 => "INVALID_RECORD",
        _ => "unknown code",
    };
    match message.filter(|message| !message.is_empty()) {
        Some(message) => format!("the broker refused: {name} ({code}): {message}"),
        None => format!("the broker refused: {name} ({code})"),
    }
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
