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
mod tests {
    use super::wait_for_owner;
    use std::fs;

    #[test]
    fn only_another_process_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(wait_for_owner(dir.path()), None);
        let lock =
            |pid: u32| fs::write(dir.path().join("lock"), format!("{pid} 00c0ffee00c0ffee\n")).unwrap();
        lock(std::process::id());
        assert_eq!(wait_for_owner(dir.path()), None);
        let parent = std::os::unix::process::parent_id();
        lock(parent);
        let wait = wait_for_owner(dir.path()).unwrap();
        assert_eq!(wait.to_string(), format!("process {parent}, which owns the store"));
        // No process has a pid above the kernel's limit.
        lock(1 << 30);
        let wait = wait_for_owner(dir.path()).unwrap();
        assert_eq!(wait.to_string(), "the process that owns the store");
    }
}
