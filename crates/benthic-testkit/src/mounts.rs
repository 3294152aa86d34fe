//! Mount namespaces for tests: the mounts of a command disappear with it.

use std::process::Command;

/// Returns a command that mounts something with `script`, in a mount namespace of its own, and then
/// runs the program in its arguments. Returns `None` if this process may not mount: it is not root,
/// and the machine has no user namespaces.
pub fn mounted(script: &str) -> Option<Command> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let command = |flags: &str, script: &str| {
        let mut command = Command::new("unshare");
        command.args([flags, "sh", "-c", &format!("{script} && exec \"$0\" \"$@\"")]);
        command
    };
    let may = |flags: &&str| {
        let mut tried = command(flags, "mount -t tmpfs none \"$MOUNT\" 2>/dev/null");
        tried.arg("true").env("MOUNT", dir.path());
        tried.status().is_ok_and(|status| status.success())
    };
    ["-m", "-rm"].into_iter().find(may).map(|flags| command(flags, script))
}

/// Says that a test was skipped because it cannot mount.
#[expect(clippy::print_stderr, reason = "whoever reads the test's output must know")]
pub fn skipped(test: &str) {
    eprintln!("SKIPPED {test}: it mounts a file system; run it as root, or allow user namespaces");
}
