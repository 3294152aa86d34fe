//! Deletion vectors of Iceberg's format version 3: the deleted rows of a data object as a bitmap in
//! a Puffin file.
//!
//! A Roaring bitmap may store each 65,536 rows as an array, as bits, or as runs. We write runs
//! only, because a table has runs. Less than a quarter of an object's rows are deleted, so runs
//! take at most eight times the bytes of bits.
//!
//! Sources: Iceberg's "Puffin Spec", also for `deletion-vector-v1`, and "RoaringFormatSpec".

use super::manifest::DeleteFile;
use crc_fast::{CrcAlgorithm, checksum};
use serde_json::json;
use std::ops::Range;

const MAGIC: &[u8] = b"PFA1";
const VECTOR_MAGIC: [u8; 4] = [0xd1, 0xd3, 0x39, 0x64];
/// The number of Iceberg's metadata column for the position of a row.
const ROW_POSITION_ID: u32 = 2_147_483_645;
/// Rows of a container.
const CONTAINER_ROWS: u32 = 1 << 16;
/// The first number of a bitmap with runs.
const RUN_COOKIE: u32 = 12_347;
/// From this number of containers on, a bitmap has their places.
const PLACES_FROM: usize = 4;

/// The file for these deleted rows of the data file at this URI. The ranges are in order and do not
/// touch.
pub fn vector_file(data_uri: &str, deleted: &[Range<u32>]) -> DeleteFile {
    let mut vector = VECTOR_MAGIC.to_vec();
    // One bitmap, of the rows whose upper 32 bits are zero.
    vector.extend(1_u64.to_le_bytes());
    vector.extend(0_u32.to_le_bytes());
    put_bitmap(deleted, &mut vector);
    let crc = checksum(CrcAlgorithm::Crc32IsoHdlc, &vector) as u32;
    let blob = [&(vector.len() as u32).to_be_bytes()[..], &vector, &crc.to_be_bytes()].concat();
    let footer = json!({
        "blobs": [{
            "type": "deletion-vector-v1",
            "fields": [ROW_POSITION_ID],
            "snapshot-id": -1,
            "sequence-number": -1,
            "offset": MAGIC.len(),
            "length": blob.len(),
            "properties": {
                "referenced-data-file": data_uri,
                "cardinality": deleted.iter().map(ExactSizeIterator::len).sum::<usize>().to_string(),
            },
        }],
        "properties": {},
    })
    .to_string();
    let footer_bytes = (footer.len() as u32).to_le_bytes();
    let flags = [0_u8; 4];
    let parts = [MAGIC, &blob, MAGIC, footer.as_bytes(), &footer_bytes, &flags, MAGIC];
    DeleteFile { bytes: parts.concat().into(), blob: Some((MAGIC.len() as i64, blob.len() as i64)) }
}

/// A Roaring bitmap of 32-bit numbers.
fn put_bitmap(rows: &[Range<u32>], to: &mut Vec<u8>) {
    let mut containers: Vec<(u32, Vec<Range<u32>>)> = Vec::new();
    for range in rows {
        let mut start = range.start;
        while start < range.end {
            let container = start / CONTAINER_ROWS;
            let end = range.end.min((container + 1).saturating_mul(CONTAINER_ROWS));
            if containers.last().is_none_or(|(last, _)| *last != container) {
                containers.push((container, Vec::new()));
            }
            if let Some((_, runs)) = containers.last_mut() {
                runs.push(start..end);
            }
            start = end;
        }
    }
    let short = |number: usize, to: &mut Vec<u8>| to.extend((number as u16).to_le_bytes());
    let begin = to.len();
    to.extend((RUN_COOKIE | (containers.len().saturating_sub(1) as u32) << 16).to_le_bytes());
    // A bit for each container: it has runs.
    let mut bits = vec![0xff_u8; containers.len().div_ceil(8)];
    if let Some(last) = bits.last_mut().filter(|_| !containers.len().is_multiple_of(8)) {
        *last >>= 8 - containers.len() % 8;
    }
    to.extend(bits);
    for (container, runs) in &containers {
        short(*container as usize, to);
        short(runs.iter().map(ExactSizeIterator::len).sum::<usize>() - 1, to);
    }
    let with_places = containers.len() >= PLACES_FROM;
    let mut place = to.len() - begin + if with_places { 4 * containers.len() } else { 0 };
    for (_, runs) in containers.iter().filter(|_| with_places) {
        to.extend((place as u32).to_le_bytes());
        place += 2 + 4 * runs.len();
    }
    for (_, runs) in &containers {
        short(runs.len(), to);
        for run in runs {
            short((run.start % CONTAINER_ROWS) as usize, to);
            short(run.len() - 1, to);
        }
    }
}

#[cfg(test)]
#[path = "puffin_tests.rs"]
mod tests;
