//! The names of programs that have images open, for people and to find out which were killed.

use benthic_classes::lock::wire::ListedHolder;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

/// Names this program: `HOST process PID`.
pub(super) fn this_program() -> String {
    // The owner of a lock has at most 128 bytes.
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host: String = host.trim().chars().take(32).collect();
    format!("{host} process {}", std::process::id())
}

/// Where process numbers mean the same as here: the boot of this machine, and the namespace of
/// process numbers.
pub(super) fn place() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    format!("{} {}", boot.trim(), namespace.display())
}

/// True if the holder of a lock was a program of this machine and no longer runs. Another program
/// may have its number by now; then the image is free when its lease ends.
pub(super) fn is_gone(holder: &ListedHolder) -> bool {
    let is_here = place().trim() != "" && holder.cookie.ends_with(&format!(" {}", place()));
    let pid = holder
        .owner
        .rsplit(' ')
        .next()
        .and_then(|pid| Pid::from_raw(pid.parse().ok().filter(|pid| *pid > 0)?));
    is_here && pid.is_some_and(|pid| test_kill_process(pid) == Err(Errno::SRCH))
}

#[cfg(test)]
#[path = "owner_tests.rs"]
mod tests;
