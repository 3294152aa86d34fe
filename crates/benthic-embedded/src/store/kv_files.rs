//! Verifies the key-value store's files before the crate opens them. The crate checks every block that it reads, but
//! trusts the list of tables and the tables' tables of contents: a flipped bit in one of those makes it lose tables or
//! ask for memory that no machine has.
//!
//! Formats: `lsm-tree` 3.1 (`version/persist.rs`, `version/recovery.rs`) and `sfa` 1.0 (`trailer`, `toc`).

use super::kv::kv_error;
use benthic_core::{Error, ErrorKind, Result};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;
use xxhash_rust::xxh3::xxh3_128;

const TRAILER_BYTES: usize = 38;
const TRAILER_START: &[u8] = b"SFA!\x01\x00";

/// Checks the list of tables, and that every table in it has a whole table of contents.
///
/// # Errors
/// `Corrupt`.
pub(crate) fn verify(dir: &Path) -> Result<()> {
    let missing_or_cut = |e| kv_error("a file of the key-value store cannot be read", lsm_tree::Error::Io(e));
    let current = fs::read(dir.join("current")).map_err(missing_or_cut)?;
    let (Some(number), Some(checksum), 25) = (current.get(..8), current.get(8..24), current.len()) else {
        return Err(damaged(&dir.join("current")));
    };
    let number = number.iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    let path = dir.join(format!("v{number}"));
    let version = fs::read(&path).map_err(missing_or_cut)?;
    if xxh3_128(&version).to_le_bytes() != *checksum {
        return Err(damaged(&path));
    }
    let tables = sfa::Reader::new(&path).ok().and_then(|reader| {
        let mut section = Vec::new();
        reader.toc().section(b"tables")?.buf_reader(&path).ok()?.read_to_end(&mut section).ok()?;
        table_ids(&section)
    });
    for id in tables.ok_or_else(|| damaged(&path))? {
        let path = dir.join("tables").join(id.to_string());
        let file = File::open(&path).map_err(missing_or_cut)?;
        if !contents_are_whole(&file).map_err(missing_or_cut)? {
            return Err(damaged(&path));
        }
    }
    Ok(())
}

fn damaged(path: &Path) -> Error {
    Error::new(ErrorKind::Corrupt, "a file of the key-value store is damaged").with("path", path.display())
}

/// Levels, runs in a level, tables in a run: number, checksum with its type, sequence number.
fn table_ids(section: &[u8]) -> Option<Vec<u64>> {
    let mut input = crate::codec::Decoder::new(bytes::Bytes::copy_from_slice(section));
    let mut ids = Vec::new();
    for _ in 0..input.u8().ok()? {
        for _ in 0..input.u8().ok()? {
            for _ in 0..input.len(33).ok()? {
                ids.push(input.u64().ok()?);
                input.take(25).ok()?;
            }
        }
    }
    input.end().ok()?;
    Some(ids)
}

/// A file ends with its table of contents and a trailer that has the checksum, the start and the length of that.
fn contents_are_whole(file: &File) -> std::io::Result<bool> {
    let len = file.metadata()?.len();
    let Some(trailer_at) = len.checked_sub(TRAILER_BYTES as u64) else { return Ok(false) };
    let mut trailer = [0; TRAILER_BYTES];
    file.read_exact_at(&mut trailer, trailer_at)?;
    let number =
        |at: usize| trailer[at..at + 8].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
    let (contents_at, contents_len) = (number(22), number(30));
    if !trailer.starts_with(TRAILER_START) || contents_at.checked_add(contents_len) != Some(trailer_at) {
        return Ok(false);
    }
    let mut contents = vec![0; contents_len as usize];
    file.read_exact_at(&mut contents, contents_at)?;
    Ok(xxh3_128(&contents).to_le_bytes() == trailer[6..22])
}
