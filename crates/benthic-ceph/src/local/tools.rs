//! Runs external programs, mostly Ceph's, with a time limit.

use benthic_core::{Action, Error, ErrorKind, Result};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// The programs that every cluster needs, and their Debian packages.
const PROGRAMS: [(&str, &str); 6] = [
    ("ceph", "ceph-common"),
    ("ceph-authtool", "ceph-common"),
    ("ceph-mgr", "ceph-mgr"),
    ("ceph-mon", "ceph-mon"),
    ("ceph-osd", "ceph-osd"),
    ("monmaptool", "ceph-base"),
];

/// Time limit of a program that normally answers at once.
pub const QUESTION_LIMIT: Duration = Duration::from_secs(15);

/// The program that a cluster with sites also needs.
const IP: (&str, &str) = ("ip", "iproute2");

/// Fails with the names of all missing packages.
pub fn require(with_sites: bool) -> Result<()> {
    let programs = PROGRAMS.iter().chain(with_sites.then_some(&IP));
    require_all(
        programs,
        "Ceph is not installed: run `make ceph` or `apt-get install --no-install-recommends",
    )
}

/// Fails with the names of the missing packages of these programs. `what_for` begins the message.
pub fn require_helpers(programs: &[(&str, &str)], what_for: &str) -> Result<()> {
    require_all(programs.iter(), &format!("{what_for}: `apt-get install --no-install-recommends"))
}

fn require_all<'a>(programs: impl Iterator<Item = &'a (&'a str, &'a str)>, message: &str) -> Result<()> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let is_missing = |name: &str| !dirs.iter().any(|dir| dir.join(name).is_file());
    let missing: Vec<_> = programs.filter(|(name, _)| is_missing(name)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let programs: Vec<&str> = missing.iter().map(|(program, _)| *program).collect();
    let mut packages: Vec<&str> = missing.iter().map(|(_, package)| *package).collect();
    packages.dedup();
    let message = format!("{message} {}`", packages.join(" "));
    Err(Error::new(ErrorKind::Unavailable, message).with("missing", programs.join(",")))
}

/// A command for the cluster with this configuration.
pub fn command(program: &str, conf: &Path) -> Command {
    let mut command = bare(program);
    command.arg("-c").arg(conf);
    command
}

/// A command that ignores the cluster named in the environment.
pub fn bare(program: &str) -> Command {
    let mut command = with_environment(program);
    command.env_remove("CEPH_ARGS").env_remove("CEPH_CONF");
    command
}

/// A command that finds its cluster as Ceph's programs do.
pub fn with_environment(program: &str) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs a program to its end and returns its output.
///
/// # Errors
/// `Unavailable` if it failed, with its last line on stderr, or did not end in time.
pub fn run(command: &mut Command, limit: Duration) -> Result<String> {
    run_with(command, None, limit, spawn)
}

/// Runs a program, which `spawn` starts, with input. Other users of the machine can see arguments
/// but not input.
///
/// # Errors
/// As [`run`].
pub fn run_with(
    command: &mut Command,
    input: Option<&str>,
    limit: Duration,
    spawn: impl FnOnce(&mut Command) -> Result<Child>,
) -> Result<String> {
    if input.is_some() {
        command.stdin(Stdio::piped());
    }
    let mut child = spawn(command)?;
    if let (Some(input), Some(mut stdin)) = (input, child.stdin.take()) {
        // The input fits into the pipe. A program that ends without reading it reports its own
        // error.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = wait(child, limit).map_err(|error| error.with("command", name(command)))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let last = stderr.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it printed no error").trim();
    Err(Error::new(ErrorKind::Unavailable, format!("a program failed: {last}"))
        .with("command", name(command))
        .with("status", output.status.code().unwrap_or(-1)))
}

/// Starts a program. The error names the program and says how to install it.
pub fn spawn(command: &mut Command) -> Result<Child> {
    command.spawn().map_err(|error| cannot_run(command, error))
}

fn wait(child: Child, limit: Duration) -> Result<Output> {
    let cannot = |error| Error::io(Action::Admin, "cannot wait for a program", error);
    // A pidfd, because the pid may belong to another process by the time it is used.
    let handle = pid(child.id()).map(|pid| pidfd_open(pid, PidfdFlags::empty()));
    let (sender, receiver) = mpsc::channel();
    let waits = thread::Builder::new().spawn(move || sender.send(child.wait_with_output()));
    let error = match waits.map(|_| receiver.recv_timeout(limit)) {
        Ok(Ok(output)) => return output.map_err(cannot),
        Ok(Err(_)) => Error::new(ErrorKind::Unavailable, "a program did not end in time")
            .with("limit_s", limit.as_secs()),
        Err(error) => cannot(error),
    };
    if let Some(Ok(handle)) = handle {
        let _ = pidfd_send_signal(handle, Signal::KILL);
    }
    Err(error)
}

/// The pids of this machine's processes, as `/proc` lists them.
pub fn pids() -> Result<Vec<u32>> {
    let cannot = |error| Error::io(Action::Admin, "cannot read /proc", error);
    let mut pids = Vec::new();
    for entry in fs::read_dir("/proc").map_err(cannot)? {
        let name = entry.map_err(cannot)?.file_name();
        pids.extend(name.to_str().and_then(|name| name.parse::<u32>().ok()));
    }
    Ok(pids)
}

/// Converts a pid to the type of the kernel's calls.
pub fn pid(raw: u32) -> Option<Pid> {
    i32::try_from(raw).ok().and_then(Pid::from_raw)
}

fn cannot_run(command: &Command, error: std::io::Error) -> Error {
    Error::io(Action::Admin, "cannot run a program; `make ceph` installs the programs for clusters", error)
        .with_kind(ErrorKind::Unavailable)
        .with("command", name(command))
}

/// The program and its arguments without paths: enough to identify the call. Keys are never
/// arguments.
fn name(command: &Command) -> String {
    let plain = |word: &&OsStr| *word != "-c" && !word.as_encoded_bytes().contains(&b'/');
    let words = command.get_args().filter(plain);
    let line: Vec<_> = [command.get_program()].into_iter().chain(words).map(OsStr::to_string_lossy).collect();
    line.join(" ")
}
