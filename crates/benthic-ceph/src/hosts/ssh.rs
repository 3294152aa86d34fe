//! Runs a program on a host with the system's `ssh`.
//!
//! The command line of `ssh` holds no value but the destination, which is checked. The remote
//! user's shell, which may be any shell, parses a constant command. That command starts `sh` as
//! root and reads a program of a known length from standard input. The program ends where the
//! content of a file may follow, so one connection carries both.

use benthic_core::{Action, Error, ErrorKind, Result, Stopwatch, SystemClock};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

/// `ssh` asks no questions, and gives up after 10 s without a connection and 15 s without an
/// answer.
const OPTIONS: [&str; 9] = [
    "BatchMode=yes",
    "ConnectTimeout=10",
    "ServerAliveInterval=5",
    "ServerAliveCountMax=3",
    "ClearAllForwardings=yes",
    "ForwardAgent=no",
    "ForwardX11=no",
    "PermitLocalCommand=no",
    "RemoteCommand=none",
];
/// The exit status of `ssh` itself.
const SSH_FAILED: i32 = 255;
/// Exit status of the remote command if `sudo` is missing.
const NO_SUDO: i32 = 69;
/// Time for a program, beyond the time for its input.
const PROGRAM_LIMIT: Duration = Duration::from_secs(90);
/// The slowest link that is worth waiting for.
const BYTES_PER_S_MIN: u64 = 64 * 1024;
const OUTPUT_BYTES_MAX: u64 = 256 * 1024;
const ERROR_CHARS_MAX: usize = 300;
const NAME_BYTES_MAX: usize = 253;
const TICK: Duration = Duration::from_millis(20);

/// How to reach hosts.
#[derive(Clone, Debug, Default)]
pub struct Ssh {
    /// The configuration of `ssh`, instead of the user's.
    pub config: Option<PathBuf>,
    /// Destinations of hosts, by Ceph's name of the host. Others are reached by that name.
    pub destinations: BTreeMap<String, String>,
}

/// A program for a host, and the data that follow it on standard input.
pub struct Program<'a> {
    /// In the language of POSIX shells.
    pub text: String,
    pub input: &'a [u8],
}

/// The end of a program on a host.
pub struct Ended {
    pub status: ExitStatus,
    pub stdout: String,
    /// The last line on stderr that is not empty.
    pub stderr_line: String,
}

impl Ssh {
    /// The destination of a host.
    ///
    /// # Errors
    /// `InvalidArgument` for a name that `ssh` might not take as a host.
    pub fn destination<'a>(&'a self, host: &'a str) -> Result<&'a str> {
        match self.destinations.get(host) {
            Some(destination) => check_destination(destination).map(|()| destination.as_str()),
            None if is_host_name(host) => Ok(host),
            None => {
                let message =
                    "the cluster's name of this host is no host name; name its destination with --ssh";
                Err(Error::invalid_argument(message).with("host", host))
            }
        }
    }

    /// Runs a program as root on a host. If `is_stopped` returns true, it ends the connection, and
    /// with it the program's input.
    ///
    /// # Errors
    /// `Unavailable` if the host cannot be reached or does not answer, `PermissionDenied` without
    /// root and `sudo`, `Busy` if it was stopped, `InvalidArgument` as for
    /// [`destination`](Ssh::destination).
    pub fn run(&self, host: &str, program: &Program<'_>, is_stopped: &dyn Fn() -> bool) -> Result<Ended> {
        let destination = self.destination(host)?;
        let named = |error: Error| error.with("host", host).with("ssh", destination);
        let mut command = Command::new("ssh");
        command.args(["-T"]).args(OPTIONS.iter().flat_map(|option| ["-o", option]));
        if let Some(config) = &self.config {
            command.arg("-F").arg(config);
        }
        command.args(["--", destination, &remote_command(program.text.len())]);
        // Ctrl-C reaches this program, which then ends `ssh`.
        command.process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| {
            let message = "cannot run ssh; Debian's package openssh-client has it";
            Error::io(Action::Admin, message, error).with_kind(ErrorKind::Unavailable)
        })?;
        let (stdout, stderr) =
            (child.stdout.take().map(read_on_thread), child.stderr.take().map(read_on_thread));
        let limit = PROGRAM_LIMIT + Duration::from_secs(program.input.len() as u64 / BYTES_PER_S_MIN);
        let status = thread::scope(|scope| {
            let input = child.stdin.take();
            scope.spawn(move || {
                let Some(mut input) = input else { return };
                // The program reports its own end; a broken connection ends `ssh`.
                let _ =
                    input.write_all(program.text.as_bytes()).and_then(|()| input.write_all(program.input));
            });
            let waited = wait(&mut child, limit, is_stopped);
            if waited.is_err() {
                // Ends the thread above, which may wait for `ssh` to read.
                let _ = child.kill();
                let _ = child.wait();
            }
            waited
        })
        .map_err(named)?;
        let text = |received: Option<Receiver<Vec<u8>>>| {
            let bytes = received.and_then(|bytes| bytes.recv_timeout(PROGRAM_LIMIT).ok()).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let (stdout, stderr) = (text(stdout), text(stderr));
        let stderr_line = last_line(&stderr);
        match status.code() {
            None | Some(SSH_FAILED) => {
                let message = format!(
                    "cannot run a program on the host: {}; `ssh {destination} true` must work without a question",
                    if stderr_line.is_empty() { "ssh failed" } else { &stderr_line }
                );
                Err(named(Error::unavailable(message)))
            }
            Some(NO_SUDO) => {
                let message = "the user of the ssh connection is not root, and the host has no sudo";
                Err(named(Error::permission_denied(message)))
            }
            Some(_) => Ok(Ended { status, stdout, stderr_line }),
        }
    }
}

/// Reads the first bytes of standard input as a program and runs it as root. `dd` with blocks of
/// one byte reads no byte too many.
fn remote_command(len_bytes: usize) -> String {
    format!(
        r#"exec sh -c 'u=; [ "$(id -u)" = 0 ] || {{ u="sudo -n"; command -v sudo >/dev/null || exit {NO_SUDO}; }}; exec $u sh -c "eval \"\$(dd bs=1 count={len_bytes} 2>/dev/null)\""'"#
    )
}

/// Waits for the end of a process.
fn wait(child: &mut Child, limit: Duration, is_stopped: &dyn Fn() -> bool) -> Result<ExitStatus> {
    let stopwatch = Stopwatch::start(&SystemClock);
    loop {
        let ended =
            child.try_wait().map_err(|error| Error::io(Action::Admin, "cannot wait for ssh", error))?;
        if let Some(status) = ended {
            return Ok(status);
        }
        if is_stopped() {
            return Err(Error::busy("interrupted"));
        }
        if stopwatch.elapsed() > limit {
            return Err(
                Error::unavailable("the host did not answer in time").with("limit_s", limit.as_secs())
            );
        }
        thread::park_timeout(TICK);
    }
}

/// Reads a pipe on a thread of its own, up to the limit. A process that `ssh` started may keep the
/// pipe open.
fn read_on_thread(pipe: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // The output before an error may explain it.
        let _ = pipe.take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes);
        let _ = sender.send(bytes);
    });
    receiver
}

fn last_line(text: &str) -> String {
    let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default().trim();
    last.chars().take(ERROR_CHARS_MAX).collect()
}

/// Checks a destination that a user names: `[USER@]HOST` or `ssh://[USER@]HOST[:PORT]`.
///
/// # Errors
/// `InvalidArgument` for another form.
pub fn check_destination(destination: &str) -> Result<()> {
    let plain = destination.strip_prefix("ssh://").unwrap_or(destination);
    let (user, host) = plain.rsplit_once('@').map_or((None, plain), |(user, host)| (Some(user), host));
    // The brackets of an IPv6 address in a URI.
    let host = host.replace(['[', ']'], "");
    if is_host_name(&host) && user.is_none_or(is_host_name) {
        return Ok(());
    }
    let message = "this is no destination for ssh; give [USER@]HOST or ssh://[USER@]HOST[:PORT]";
    Err(Error::invalid_argument(message).with("destination", destination))
}

/// Whether `ssh` can only take this as a host: it begins like no option, and no `ProxyCommand` that
/// contains it changes its meaning.
fn is_host_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:%".contains(&byte);
    !name.is_empty()
        && name.len() <= NAME_BYTES_MAX
        && name.bytes().all(is_plain)
        && name.starts_with(|first: char| first.is_ascii_alphanumeric() || first == ':')
}

#[cfg(test)]
#[path = "ssh_tests.rs"]
mod tests;
