//! Every decoder of the engine, for the fuzzer and for nobody else. Each function takes bytes as they could stand on a
//! disk or come through the socket, and panics if the decoder breaks its promise: what it takes it must give back the same.

use crate::listing;
use crate::socket::wire::{Reply, Request, frame, parse};
use crate::socket::{GREETING, read_frame};
use crate::store::decoders::{Chunk, Log, Meta, Onode, Record, chunk_index, seal_log, table_list};
use benthic_core::codec::{Decoded, Wire};
use benthic_core::{ListToken, Pool, Result, WriteStep};
use bytes::Bytes;
use futures::executor::block_on;
use std::path::Path;

/// Writes behind this are not run: the memory engine would only fill memory with zeros.
const OFFSET_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// A record of the log.
pub fn record(bytes: &[u8]) {
    same(bytes, Record::decode, |record| {
        let mut out = Vec::new();
        record.encode(&mut out);
        out
    });
}

/// Values and keys of the key-value store.
pub fn metadata(bytes: &[u8]) {
    same(bytes, Onode::decode, Onode::encode);
    same(bytes, Chunk::decode, Chunk::encode);
    same(bytes, Meta::decode, Meta::encode);
    let _ = chunk_index(bytes);
    if let Some(id) = listing::decode(bytes) {
        assert_eq!(listing::encode(&id), bytes);
    }
}

/// The key-value store's list of tables.
pub fn tables(bytes: &[u8]) {
    let _ = table_list(bytes);
}

/// Gives a log segment valid checksums, as far as it has frames.
pub fn seal(segment: &mut [u8]) {
    seal_log(segment);
}

/// The log in `dir`. Opening it may cut a torn frame; opening it again must find the same.
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
        assert_eq!(read().ok(), Some(records), "a log that was opened opens again, and is the same");
    }
}

/// What a client sends: the greeting, then frames with requests. Those that decode are run on `pool`.
pub fn requests(bytes: &[u8], pool: &dyn Pool) {
    let mut stream = bytes.strip_prefix(&GREETING).unwrap_or(bytes);
    while let Ok(bytes) = read_frame(&mut stream) {
        if let Some(request) = message::<Request>(bytes) {
            run(request, pool);
        }
    }
}

/// What the owner sends: frames with replies.
pub fn replies(bytes: &[u8]) {
    let mut stream = bytes;
    while let Ok(bytes) = read_frame(&mut stream) {
        if let Some(reply) = message::<Reply>(bytes) {
            // Errors are put together from what was sent.
            let _ = reply.into_result().map_err(|error| error.to_string());
        }
    }
}

/// A token of a listing.
pub fn token(bytes: &[u8]) {
    if let Ok(id) = listing::decode_token(&ListToken(Bytes::copy_from_slice(bytes))) {
        assert_eq!(listing::encode(&id), bytes);
    }
}

fn message<T: Wire + PartialEq>(bytes: Bytes) -> Option<T> {
    let (id, message) = parse::<T>(&bytes).ok()?;
    let again = frame(id, &message);
    assert!(again.is_some_and(|again| again[4..] == bytes), "what is decoded encodes to the same bytes");
    Some(message)
}

fn same<T>(bytes: &[u8], decode: impl Fn(&Bytes) -> Decoded<T>, encode: impl Fn(&T) -> Vec<u8>) {
    if let Ok(value) = decode(&Bytes::copy_from_slice(bytes)) {
        assert_eq!(encode(&value), bytes, "what is decoded encodes to the same bytes");
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
