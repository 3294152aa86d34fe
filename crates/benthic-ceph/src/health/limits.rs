//! The limits of this process. A client of a large cluster has a connection to every OSD. If a
//! limit is too low, the client stalls or fails when the cluster grows or recovers, not when it
//! starts.

use rustix::process::{Resource, getrlimit, getuid};
use serde::Serialize;
use std::fs;
use std::os::unix::fs::MetadataExt;

/// Processes inspected to count a user's threads.
const PROCESSES_MAX: usize = 100_000;

/// The limits of this process; `None` means no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// Open files and connections of this process.
    pub open_files_max: Option<u64>,
    /// Threads and processes of this user.
    pub threads_max: Option<u64>,
    /// Threads that the user runs now.
    pub threads: u64,
}

impl Limits {
    /// Reads the limits of this process.
    pub fn read() -> Limits {
        Limits {
            open_files_max: getrlimit(Resource::Nofile).current,
            // The kernel does not apply this limit to root.
            threads_max: if getuid().is_root() { None } else { getrlimit(Resource::Nproc).current },
            threads: threads(),
        }
    }
}

/// Threads of this user that /proc shows.
fn threads() -> u64 {
    let user = getuid().as_raw();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten().take(PROCESSES_MAX);
    let of_process = |entry: fs::DirEntry| {
        let is_process =
            entry.file_name().to_str().is_some_and(|name| name.bytes().all(|b| b.is_ascii_digit()));
        if !is_process || entry.metadata().ok()?.uid() != user {
            return None;
        }
        let status = fs::read_to_string(entry.path().join("status")).ok()?;
        status.lines().find_map(|line| line.strip_prefix("Threads:"))?.trim().parse::<u64>().ok()
    };
    entries.filter_map(of_process).sum()
}

#[cfg(test)]
#[path = "limits_tests.rs"]
mod tests;
