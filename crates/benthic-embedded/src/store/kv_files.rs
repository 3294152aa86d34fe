//! Verifies the key-value store's files before `lsm-tree` opens them. That crate verifies every
//! block that it reads, but trusts the list of tables and the table of contents of each table file.
//! A flipped bit there makes it lose tables or try to allocate more memory than any machine has.
//!
//! Formats: `lsm-tree` 3.1 (`version/persist.rs`, `version/recovery.rs`) and `sfa` 1.0 (`trailer`,
//! `toc`).

use benthic_core::codec::Decoder;
use benthic_core::{Action, Error, Result};
use std::collections::HashSet;
use std::fs::{self, DirEntry, File};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::{Xxh3Default, xxh3_128};

const READ_BYTES: usize = 1024 * 1024;
const TRAILER_BYTES: usize = 38;
/// The list's number, its checksum and the checksum's type.
const CURRENT_BYTES: usize = 25;
const LIST_COPY: &str = "list";
const TRAILER_START: &[u8] = b"SFA!\x01\x00";

/// Checks the list of tables, and the table of contents of every table in it.
///
/// # Errors
/// `Corrupt`.
pub(crate) fn verify(dir: &Path) -> Result<()> {
    for (path, _) in tables(dir)? {
        let file = File::open(&path).map_err(missing_or_cut)?;
        if !contents_are_whole(&file).map_err(missing_or_cut)? {
            return Err(damaged(&path));
        }
    }
    Ok(())
}

/// Verifies every byte of every table and returns the errors. In contrast, reading a key verifies
/// only the blocks that it needs and that are not cached.
pub(crate) fn verify_bytes(dir: &Path) -> Vec<Error> {
    loop {
        let listed = match tables(dir) {
            Ok(listed) => listed,
            // A checkpoint may have replaced the list while it was read.
            Err(error) if tables(dir).is_err() => return vec![error],
            Err(_) => continue,
        };
        let check = |(path, checksum): &(PathBuf, u128)| match checksum_of(path) {
            Ok(found) if found == *checksum => None,
            Ok(_) => Some(damaged(path)),
            Err(e) => Some(missing_or_cut(e).with("path", path.display())),
        };
        let errors: Vec<Error> = listed.iter().filter_map(check).collect();
        // A merge may have removed tables meanwhile.
        if errors.is_empty() || tables(dir).is_ok_and(|now| now == listed) {
            return errors;
        }
    }
}

/// Returns true if there are files that the tree removes when it opens: tables that are not in the
/// list, and old lists.
pub(crate) fn has_remains(dir: &Path) -> Result<bool> {
    let listed: HashSet<PathBuf> = tables(dir)?.into_iter().map(|(path, _)| path).collect();
    let entries = |dir: &Path| fs::read_dir(dir).and_then(Iterator::collect::<std::io::Result<Vec<_>>>);
    let is_unlisted = |entry: &DirEntry| !listed.contains(&entry.path());
    let is_list = |entry: &&DirEntry| entry.file_name().as_encoded_bytes().starts_with(b"v");
    let has_unlisted = entries(&dir.join("tables")).map_err(missing_or_cut)?.iter().any(is_unlisted);
    Ok(has_unlisted || entries(dir).map_err(missing_or_cut)?.iter().filter(is_list).count() != 1)
}

pub(crate) fn list_number(dir: &Path) -> Option<u64> {
    number(&fs::read(dir.join("current")).ok()?)
}

fn number(current: &[u8]) -> Option<u64> {
    Some(current.get(..8)?.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

/// Writes a second copy of the list of tables and of the pointer to it: without these few bytes no
/// table can be found. The copy is not synced. A copy that names missing tables is rejected like a
/// damaged one.
pub(crate) fn copy_list(dir: &Path) -> std::io::Result<()> {
    let current = fs::read(dir.join("current"))?;
    let path = dir.join(format!("v{}", number(&current).unwrap_or_default()));
    // The tree makes the pointer readable for its user only, and other users may read the store.
    fs::set_permissions(dir.join("current"), fs::metadata(&path)?.permissions())?;
    fs::write(dir.join(LIST_COPY), [current, fs::read(path)?].concat())
}

/// Restores the list of tables from its copy. Returns true if the copy is intact.
pub(crate) fn restore_list(dir: &Path) -> bool {
    let restore = || {
        let copy = fs::read(dir.join(LIST_COPY)).ok()?;
        let (current, list) = copy.split_at_checked(CURRENT_BYTES)?;
        fs::write(dir.join("current"), current).ok()?;
        fs::write(dir.join(format!("v{}", number(current)?)), list).ok()
    };
    restore().is_some() && verify(dir).is_ok()
}

/// The tables in the list, each with the checksum of its file.
fn tables(dir: &Path) -> Result<Vec<(PathBuf, u128)>> {
    let current = fs::read(dir.join("current")).map_err(missing_or_cut)?;
    let (Some(number), Some(checksum), Some([0])) =
        (number(&current), current.get(8..CURRENT_BYTES - 1), current.get(CURRENT_BYTES - 1..))
    else {
        return Err(damaged(&dir.join("current")));
    };
    let path = dir.join(format!("v{number}"));
    let version = fs::read(&path).map_err(missing_or_cut)?;
    if xxh3_128(&version).to_le_bytes() != *checksum {
        return Err(damaged(&path));
    }
    let listed = sfa::Reader::new(&path).ok().and_then(|reader| {
        let mut section = Vec::new();
        reader.toc().section(b"tables")?.buf_reader(&path).ok()?.read_to_end(&mut section).ok()?;
        table_list(&section)
    });
    let listed = listed.ok_or_else(|| damaged(&path))?;
    Ok(listed.into_iter().map(|(id, sum)| (dir.join("tables").join(id.to_string()), sum)).collect())
}

pub(crate) fn kv_error(message: &str, error: lsm_tree::Error) -> Error {
    use std::io::ErrorKind as Io;
    match error {
        // A file of the tree, or a part of it, is missing.
        lsm_tree::Error::Io(source)
            if matches!(source.kind(), Io::NotFound | Io::UnexpectedEof | Io::InvalidData) =>
        {
            Error::corrupt(message).with_source(source)
        }
        lsm_tree::Error::Io(source) => Error::io(Action::Read, message, source),
        damage => Error::corrupt(message).with_source(damage),
    }
}

fn missing_or_cut(error: std::io::Error) -> Error {
    kv_error("a file of the key-value store cannot be read", lsm_tree::Error::Io(error))
}

fn checksum_of(path: &Path) -> std::io::Result<u128> {
    let mut file = File::open(path)?;
    let mut hasher = Xxh3Default::new();
    let mut buffer = vec![0; READ_BYTES];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hasher.digest128()),
            len => hasher.update(&buffer[..len]),
        }
    }
}

fn damaged(path: &Path) -> Error {
    Error::corrupt("a file of the key-value store is damaged").with("path", path.display())
}

/// Parses the list: levels, runs in a level, tables in a run. A table has a number, a checksum with
/// its type, and a sequence number.
pub(crate) fn table_list(section: &[u8]) -> Option<Vec<(u64, u128)>> {
    let mut input = Decoder::copying(section);
    let mut listed = Vec::new();
    for _ in 0..input.u8().ok()? {
        for _ in 0..input.u8().ok()? {
            for _ in 0..input.len(33).ok()? {
                let (id, _type) = (input.u64().ok()?, input.u8().ok()?);
                let (low, high) = (input.u64().ok()?, input.u64().ok()?);
                listed.push((id, u128::from(high) << 64 | u128::from(low)));
                input.u64().ok()?;
            }
        }
    }
    input.end().ok()?;
    Some(listed)
}

/// Verifies a file's table of contents. It is followed by a trailer with its checksum, start and
/// length.
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
