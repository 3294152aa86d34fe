//! Tells a hung daemon from a live one.
//!
//! The process of a hung daemon exists, so the list of processes does not show the difference. Each
//! daemon is asked through its admin socket for the number of its threads that have made no
//! progress for too long (Ceph's `heartbeat_map`: 15 s for most threads of an OSD). The monitors
//! notice such an OSD only 20 s later. A daemon that does not answer at all has been stopped or
//! waits for its disk.

use super::cluster::{Cluster, Watch};
use super::daemon::{self, Daemon, uptime_s};
use super::layout::RUN;
use benthic_core::{Error, ErrorKind, Result, Stopwatch, SystemClock};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with, sockopt};
use serde_json::Value;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// Time limit of an answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);
const ANSWER_BYTES_MAX: u32 = 64 * 1024;
/// A daemon that has just started has no admin socket yet.
const STARTING_S: u64 = 60;
/// Time in which a daemon may make progress again, for example when the disk is no longer busy.
const PROGRESS_LIMIT: Duration = Duration::from_secs(20);

const STUCK: &str =
    "a thread has made no progress for too long; a class method that never returns can be the cause";
const SILENT: &str = "it does not answer its admin socket";

impl Cluster {
    /// The running daemons that hang, each with the symptom.
    pub(super) fn hung(&self, running: &[(Daemon, u32)]) -> Vec<(Daemon, &'static str)> {
        let symptom = |daemon: Daemon, pid: u32| {
            let socket = self.dir.join(RUN).join(format!("{daemon}.asok"));
            match stuck_threads(&socket) {
                Ok(0) => None,
                Ok(_) => Some(STUCK),
                Err(_) if uptime_s(pid).is_none_or(|uptime_s| uptime_s < STARTING_S) => None,
                Err(_) => Some(SILENT),
            }
        };
        let asked = running.iter().filter(|(daemon, _)| *daemon != Daemon::Wan);
        thread::scope(|scope| {
            let asked: Vec<_> =
                asked.map(|(daemon, pid)| (*daemon, scope.spawn(move || symptom(*daemon, *pid)))).collect();
            asked
                .into_iter()
                .filter_map(|(daemon, thread)| Some((daemon, thread.join().ok().flatten()?)))
                .collect()
        })
    }

    /// Waits for a short time until no daemon hangs.
    ///
    /// # Errors
    /// `Unavailable` if one still hangs.
    pub(super) fn wait_progress(&self, watch: &mut Watch<'_>) -> Result<()> {
        let stopwatch = Stopwatch::start(&SystemClock);
        loop {
            let hung = self.hung(&daemon::running(&self.conf())?);
            let Some((daemon, symptom)) = hung.first() else { return Ok(()) };
            if stopwatch.elapsed() > PROGRESS_LIMIT {
                let message = format!("{daemon} hangs: {symptom}; {}", restart(*daemon, &self.dir));
                return Err(Error::new(ErrorKind::Unavailable, message));
            }
            watch(&format!("{daemon}, which hangs"))?;
            super::wait::pause();
        }
    }
}

/// The advice to restart a daemon.
pub(super) fn restart(daemon: Daemon, dir: &Path) -> String {
    let dir = dir.display();
    format!(
        "restart it with `benthic cluster kill {daemon} --dir {dir}` and `benthic cluster start {daemon} --dir {dir}`"
    )
}

/// Asks a daemon how many of its threads are stuck.
fn stuck_threads(socket: &Path) -> io::Result<u64> {
    // Before the connect, which waits while the backlog of a stopped daemon is full.
    let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_timeout(&fd, sockopt::Timeout::Send, Some(ANSWER_LIMIT))?;
    sockopt::set_socket_timeout(&fd, sockopt::Timeout::Recv, Some(ANSWER_LIMIT))?;
    connect(&fd, &SocketAddrUnix::new(socket)?)?;
    let mut stream = UnixStream::from(fd);
    stream.write_all(b"{\"prefix\":\"perf dump\",\"logger\":\"cct\",\"format\":\"json\"}\0")?;
    let mut len = [0; 4];
    stream.read_exact(&mut len)?;
    let len = u32::from_be_bytes(len);
    if len > ANSWER_BYTES_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut answer = vec![0; len as usize];
    stream.read_exact(&mut answer)?;
    let answer: Value = serde_json::from_slice(&answer)?;
    answer["cct"]["unhealthy_workers"].as_u64().ok_or_else(|| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::stuck_threads;
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::net::UnixListener;
    use std::thread;

    #[test]
    fn a_daemon_reports_its_stuck_threads() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("osd.0.asok");
        assert!(stuck_threads(&socket).is_err(), "there is no daemon");
        let listener = UnixListener::bind(&socket).unwrap();
        assert!(stuck_threads(&socket).is_err(), "the kernel accepts, and nobody answers");
        let answer = br#"{"cct":{"total_workers":41,"unhealthy_workers":1}}"#;
        let daemon = thread::spawn(move || {
            let mut questions = Vec::new();
            for stream in listener.incoming().take(2) {
                let mut stream = stream.unwrap();
                let mut question = Vec::new();
                BufReader::new(&stream).read_until(0, &mut question).unwrap();
                // The first client is gone.
                let _ = stream.write_all(&(answer.len() as u32).to_be_bytes());
                let _ = stream.write_all(answer);
                questions.push(String::from_utf8(question).unwrap());
            }
            questions
        });
        assert_eq!(stuck_threads(&socket).unwrap(), 1);
        assert!(daemon.join().unwrap()[1].contains("perf dump"));
    }
}
