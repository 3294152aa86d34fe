//! Binary format of the omap entries.
//!
//! Every value begins with a version and a checksum. The checksum also covers the entry's omap key,
//! so that a value stored under a wrong key is detected.

use crate::key::KEY_BYTES_MAX;
use benthic_core::{Error, Result};
use bytes::Bytes;
use std::ops::Range;

const VERSION: u8 = 1;
const FRAME_BYTES: usize = 5;
/// Maximum size of a page: an OSD must hold it in memory.
pub(crate) const PAGE_BYTES_MAX: usize = 256 * 1024;

/// Omap key of an index's directory, the entry that lists its pages in this object.
pub fn directory_key(index: u32) -> Bytes {
    Bytes::from([b"i".as_slice(), &index.to_be_bytes(), &[0]].concat())
}

/// Omap key of a page.
pub fn page_key(index: u32, page: u16) -> Bytes {
    Bytes::from([b"i".as_slice(), &index.to_be_bytes(), &[1], &page.to_be_bytes()].concat())
}

pub(crate) fn corrupt(what: &str) -> Error {
    let message =
        format!("an index page is damaged: {what}; `benthic table index POOL/TABLE --rebuild` rebuilds it");
    Error::corrupt(message)
}

pub(crate) fn too_large(rows: usize) -> Error {
    let message = "an object has too many rows and too long keys for an index; make objects smaller";
    Error::limit_exceeded(message).with("rows", rows)
}

/// Prefixes a body with version and checksum. Public for tests that forge bodies.
pub fn frame(key: &[u8], body: &[u8]) -> Bytes {
    let crc = checksum(key, body).to_le_bytes();
    Bytes::from([&[VERSION], crc.as_slice(), body].concat())
}

pub(crate) fn body<'v>(key: &[u8], value: &'v [u8]) -> Result<&'v [u8]> {
    let (frame, body) = value.split_at_checked(FRAME_BYTES).ok_or_else(|| corrupt("it is too short"))?;
    if frame[0] != VERSION {
        let message = "the index has a newer format than this build can read; use a newer build";
        return Err(Error::unsupported(message).with("format", frame[0]));
    }
    match checksum(key, body).to_le_bytes() == frame[1..] {
        true => Ok(body),
        false => Err(corrupt("its checksum is wrong")),
    }
}

fn checksum(key: &[u8], body: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(key), body)
}

pub(crate) fn push_number(mut number: u64, to: &mut Vec<u8>) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

pub(crate) struct Reader<'b>(pub &'b [u8]);

impl<'b> Reader<'b> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn bytes(&mut self, len_bytes: usize) -> Result<&'b [u8]> {
        let (bytes, rest) = self.0.split_at_checked(len_bytes).ok_or_else(|| corrupt("it is truncated"))?;
        self.0 = rest;
        Ok(bytes)
    }

    pub(crate) fn word<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or_else(|| corrupt("it is truncated"))?;
        self.0 = rest;
        Ok(*bytes)
    }

    pub(crate) fn number(&mut self) -> Result<u32> {
        let mut number = 0_u64;
        for place in 0..5 {
            let [byte] = self.word()?;
            number |= u64::from(byte & 0x7f) << (7 * place);
            if byte < 0x80 {
                return u32::try_from(number).map_err(|_| corrupt("a number is too large"));
            }
        }
        Err(corrupt("a number is too long"))
    }
}

/// Encodes the runs of consecutive rows that have one key.
#[derive(Default)]
pub(crate) struct Runs {
    bytes: Vec<u8>,
    count: u64,
    /// End of the last run, exclusive.
    end: u32,
}

impl Runs {
    pub(crate) fn push(&mut self, run: &Range<u32>) {
        let len = run.end - run.start;
        push_number(u64::from(run.start - self.end) << 1 | u64::from(len > 1), &mut self.bytes);
        if len > 1 {
            push_number(u64::from(len - 2), &mut self.bytes);
        }
        self.count += 1;
        self.end = run.end;
    }

    pub(crate) fn len_bytes(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The runs, in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Range<u32>> {
        let (mut reader, mut end) = (Reader(&self.bytes), 0);
        // These bytes come from `push`, so they can be decoded.
        std::iter::from_fn(move || {
            let number = reader.number().ok()?;
            let start = end + (number >> 1);
            let len = if number & 1 == 1 { reader.number().ok()? + 2 } else { 1 };
            end = start + len;
            Some(start..end)
        })
    }
}

/// Appends a key and its rows to a page body. `before` is the previous key in the page, or empty.
pub(crate) fn push_group(before: &[u8], key: &[u8], runs: &Runs, body: &mut Vec<u8>) {
    let shared = before.iter().zip(key).take_while(|(one, other)| one == other).count();
    push_number(shared as u64, body);
    push_number((key.len() - shared) as u64, body);
    body.extend(&key[shared..]);
    push_number(runs.count, body);
    body.extend(&runs.bytes);
}

pub(crate) struct Summary {
    pub first: Vec<u8>,
    pub rows: u64,
}

/// Reads a page of an object that has `rows` rows. Calls `take` for each key, in ascending order,
/// with its ascending runs of rows.
///
/// # Errors
/// `Corrupt`; errors of `take`.
pub(crate) fn read(
    key: &[u8],
    value: &[u8],
    stamp: u32,
    rows: u32,
    mut take: impl FnMut(&[u8], &[Range<u32>]) -> Result<()>,
) -> Result<Summary> {
    let mut reader = Reader(body(key, value)?);
    if u32::from_le_bytes(reader.word()?) != stamp {
        return Err(corrupt("it was not written with its directory"));
    }
    let (mut first, mut last, mut runs) = (None, Vec::new(), Vec::new());
    let mut count = 0;
    while !reader.is_empty() {
        let (shared, len) = (reader.number()? as usize, reader.number()? as usize);
        if shared > last.len() || shared + len > KEY_BYTES_MAX {
            return Err(corrupt("a key is too long"));
        }
        let suffix = reader.bytes(len)?;
        if first.is_some() && *suffix <= last[shared..] {
            return Err(corrupt("its keys are not in order"));
        }
        last.truncate(shared);
        last.extend_from_slice(suffix);
        first.get_or_insert_with(|| last.clone());
        count += read_runs(&mut reader, rows, &mut runs)?;
        take(&last, &runs)?;
    }
    let first = first.ok_or_else(|| corrupt("it is empty"))?;
    Ok(Summary { first, rows: count })
}

fn read_runs(reader: &mut Reader<'_>, rows: u32, runs: &mut Vec<Range<u32>>) -> Result<u64> {
    runs.clear();
    let count = reader.number()?;
    if count == 0 {
        return Err(corrupt("a key has no rows"));
    }
    let (mut end, mut total) = (0_u32, 0);
    for place in 0..count {
        let number = reader.number()?;
        let len = if number & 1 == 1 { u64::from(reader.number()?) + 2 } else { 1 };
        let gap = number >> 1;
        let start = u64::from(end) + u64::from(gap);
        if (place > 0 && gap == 0) || start + len > u64::from(rows) {
            return Err(corrupt("a row does not exist or occurs twice"));
        }
        // `start + len` is at most `rows`.
        end = (start + len) as u32;
        runs.push(start as u32..end);
        total += len;
    }
    Ok(total)
}

#[cfg(test)]
#[path = "page_tests.rs"]
mod tests;
