//! Entry points to all decoders of the engine, only for the fuzzer.
//!
//! Each function takes bytes as they might be found on disk or arrive on the socket. It panics if a
//! decoder breaks its promise that a decoded value encodes to the same bytes.

use crate::listing;
use crate::socket::wire::{Reply, Request, frame, parse};
use crate::socket::{GREETING, read_frame};
use crate::store::decoders::{Chunk, Log, Meta, Onode, Record, chunk_index, seal_log, table_list};
use benthic_core::codec::{Decoded, Wire};
use benthic_core::{ListToken, Pool, Result, WriteStep};
use bytes::Bytes;
use futures::executor::block_on;
use std::path::Path;

/// Writes beyond this offset are skipped, because the memory engine would only fill memory with
/// zeros.
const OFFSET_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Decodes a record of the log.
pub fn record(bytes: &[u8]) {
    same(bytes, Record::decode, |record| {
        let mut out = Vec::new();
        record.encode(&mut out);
        out
    });
}

/// Decodes values and keys of the key-value store.
pub fn metadata(bytes: &[u8]) {
    same(bytes, Onode::decode, Onode::encode);
    same(bytes, Chunk::decode, Chunk::encode);
    same(bytes, Meta::decode, Meta::encode);
    let _ = chunk_index(bytes);
    if let Some(id) = listing::decode(bytes) {
        assert_eq!(listing::encode(&id), bytes);
    }
}

/// Decodes the key-value store's list of tables.
pub fn tables(bytes: &[u8]) {
    let _ = table_list(bytes);
}

/// Gives a log segment valid checksums, as far as it consists of frames.
pub fn seal(segment: &mut [u8]) {
    seal_log(segment);
}

/// Opens the log in `dir`. Opening may cut a torn frame; a second opening must find the same
/// records.
pub fn log(dir: &Path, applied_lsn: u64) {
    let read = || -> Result<Vec<(u64, Bytes)>> {
        let mut records = Vec::new();
        Log::open(dir, applied_lsn, 0, |lsn, record| {
            records.push((lsn, record));
            Ok(())
        })?;
        Ok(records)
    };
    if let Ok(records) = read() {
        assert!(records.iter().zip(applied_lsn + 1..).all(|((lsn, _), wanted)| *lsn == wanted));
        assert_eq!(read().ok(), Some(records), "a second opening of the log finds the same records");
    }
}

/// Decodes a client's bytes: the greeting, then frames with requests. Runs the decoded requests on
/// `pool`.
pub fn requests(bytes: &[u8], pool: &dyn Pool) {
    let mut stream = bytes.strip_prefix(&GREETING).unwrap_or(bytes);
    while let Ok(bytes) = read_frame(&mut stream) {
        if let Some(request) = message::<Request>(bytes) {
            run(request, pool);
        }
    }
}

/// Decodes an owner's bytes: frames with replies.
pub fn replies(bytes: &[u8]) {
    let mut stream = bytes;
    while let Ok(bytes) = read_frame(&mut stream) {
        if let Some(reply) = message::<Reply>(bytes) {
            // Errors are built from the bytes on the wire.
            let _ = reply.into_result().map_err(|error| error.to_string());
        }
    }
}

/// Decodes a token of a listing.
pub fn token(bytes: &[u8]) {
    if let Ok(id) = listing::decode_token(&ListToken(Bytes::copy_from_slice(bytes))) {
        assert_eq!(listing::encode(&id), bytes);
    }
}

fn message<T: Wire + PartialEq>(bytes: Bytes) -> Option<T> {
    let (id, message) = parse::<T>(&bytes).ok()?;
    let again = frame(id, &message);
    assert!(again.is_some_and(|again| again[4..] == bytes), "a decoded value encodes to the same bytes");
    Some(message)
}

fn same<T>(bytes: &[u8], decode: impl Fn(&Bytes) -> Decoded<T>, encode: impl Fn(&T) -> Vec<u8>) {
    if let Ok(value) = decode(&Bytes::copy_from_slice(bytes)) {
        assert_eq!(encode(&value), bytes, "a decoded value encodes to the same bytes");
    }
}

fn run(request: Request, pool: &dyn Pool) {
    let small = |step: &WriteStep| match step {
        WriteStep::Write { offset_bytes, .. } => *offset_bytes <= OFFSET_BYTES_MAX,
        WriteStep::Truncate { size_bytes } => *size_bytes <= OFFSET_BYTES_MAX,
        _ => true,
    };
    match request {
        Request::Read { object, op, .. } => drop(block_on(pool.read(&object, op))),
        Request::Write { object, op, .. } if op.steps.iter().all(small) => {
            drop(block_on(pool.write(&object, op)));
        }
        Request::Exec { object, call, .. } => drop(block_on(pool.exec(&object, call))),
        Request::List { request, .. } => drop(block_on(pool.list(request))),
        _ => {}
    }
}
