//! Describes the process that owns a store, for users that wait for it.

use crate::store::lock_path;
use benthic_core::Wait;
use std::fs;
use std::path::Path;

/// The owner for which a process waits that opens or uses the store in a directory. `None` if no
/// other process owns the store.
pub fn wait_for_owner(dir: &Path) -> Option<Wait> {
    let pid: u32 = fs::read_to_string(lock_path(dir)).ok()?.split_whitespace().next()?.parse().ok()?;
    if pid == std::process::id() {
        return None;
    }
    // The state follows the program's name, which is in brackets and may contain any character.
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
        // The owner runs in a container with pids of its own, or it has just ended.
        return Some(Wait { whom: "the process that owns the store".to_owned(), details: String::new() });
    };
    let is_stopped = stat.rsplit(") ").next()?.starts_with(['T', 't']);
    let details = if is_stopped {
        format!("which owns the store and is stopped; `kill -CONT {pid}` lets it continue")
    } else {
        "which owns the store".to_owned()
    };
    Some(Wait { whom: format!("process {pid}"), details })
}

#[cfg(test)]
#[path = "owner_process_tests.rs"]
mod tests;
