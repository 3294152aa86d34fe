//! Reports the changes that wait in the directory of a cache for the upstream. It reads the files
//! itself, so operators can see them while no gateway runs.

use super::file;
use benthic_core::{Action, Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

/// The directory of pending changes in that of the cache.
pub(super) const PENDING: &str = "pending";
/// The directory of damaged changes in that of the pending ones.
pub(super) const DAMAGED: &str = "damaged";
const LAST_ERROR: &str = "last-error.json";

/// The last failure of an upload, until no change is left whose upload has failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastError {
    /// In milliseconds since 1970 (UTC).
    pub at_ms: u64,
    /// The bucket at the upstream.
    pub bucket: String,
    pub key: String,
    pub error: String,
}

/// The pending changes in the directory of a cache.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PendingStatus {
    pub changes: u64,
    /// Bytes of their data.
    pub bytes: u64,
    /// When the oldest of them was made, in milliseconds since 1970 (UTC).
    pub oldest_ms: Option<u64>,
    /// Changes that are damaged, and will not be sent.
    pub damaged: u64,
    pub last_error: Option<LastError>,
}

pub(super) fn seq_of_name(name: &str) -> Option<u64> {
    let seq = u64::from_str_radix(name, 16).ok().filter(|_| name.len() == 16)?;
    (format!("{seq:016x}") == name).then_some(seq)
}

/// Notes the last failure for [`pending_status`], or forgets it. Only operators need it, so an
/// error is only logged.
pub(super) fn write_last_error(directory: &Path, last: Option<&LastError>) {
    let path = directory.join(LAST_ERROR);
    let written = match last {
        None => fs::remove_file(&path),
        Some(last) => file::replace_text(&path, &serde_json::to_string(last).unwrap_or_default()),
    };
    if let Err(error) = written {
        tracing::debug!(%error, path = %path.display(), "cannot note the last error of the uploads");
    }
}

/// Reads the pending changes in the directory of a cache. A gateway may use it at the same time.
///
/// # Errors
/// `NotFound` if there is no cache; those of the file system.
pub fn pending_status(cache: &Path) -> Result<PendingStatus> {
    let failed = |error| {
        Error::io(Action::Read, "cannot read the pending changes", error).with("path", cache.display())
    };
    if !cache.join("blocks").is_dir() {
        return Err(Error::not_found("there is no cache; pass the directory of `serve --cache`")
            .with("path", cache.display()));
    }
    let directory = cache.join(PENDING);
    let mut status = PendingStatus::default();
    if !directory.is_dir() {
        return Ok(status);
    }
    if let Ok(damaged) = fs::read_dir(directory.join(DAMAGED)) {
        status.damaged = damaged.count() as u64;
    }
    for entry in fs::read_dir(&directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if seq_of_name(&entry.file_name().to_string_lossy()).is_none() {
            continue;
        }
        match file::open(&entry.path()) {
            Ok((record, _, _)) => {
                status.changes += 1;
                status.bytes += record.size_bytes;
                let oldest = status.oldest_ms.map_or(record.changed_ms, |ms| ms.min(record.changed_ms));
                status.oldest_ms = Some(oldest);
            }
            // The gateway has sent it meanwhile.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) if error.kind() == ErrorKind::Corrupt => status.damaged += 1,
            Err(error) => return Err(error),
        }
    }
    let text = fs::read(directory.join(LAST_ERROR)).ok();
    status.last_error = text.and_then(|text| serde_json::from_slice(&text).ok());
    Ok(status)
}
