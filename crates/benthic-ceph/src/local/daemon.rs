//! The daemons of a cluster: their names, and their processes.
//!
//! There are no pid files. A process belongs to a daemon if its command line begins with the one
//! that started the daemon, which contains the path of the cluster's configuration. So there is no
//! state that could be stale, and no other process is mistaken for a daemon.

use super::tools;
use benthic_core::{Action, Error, ErrorKind, Result};
use rustix::io::Errno;
use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::fmt;
use std::fs;
use std::path::Path;
use std::str::FromStr;

/// A daemon of a local cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Daemon {
    /// `wan`, the links between sites; see [`wan`](super::wan).
    Wan,
    /// `mon.a`, the monitor.
    Mon,
    /// `mgr.a`, the manager.
    Mgr,
    /// `osd.N`.
    Osd(u32),
}

impl Daemon {
    pub(super) fn program(self) -> &'static str {
        match self {
            Daemon::Wan => "benthic",
            Daemon::Mon => "ceph-mon",
            Daemon::Mgr => "ceph-mgr",
            Daemon::Osd(_) => "ceph-osd",
        }
    }

    /// The first arguments of its command line. [`running`] recognizes the daemon by them.
    pub(super) fn args(self, conf: &Path) -> [String; 4] {
        if self == Daemon::Wan {
            let dir = conf.parent().unwrap_or(conf).display().to_string();
            return ["cluster".to_owned(), "wan".to_owned(), "--dir".to_owned(), dir];
        }
        let id = if let Daemon::Osd(number) = self { number.to_string() } else { "a".to_owned() };
        ["-c".to_owned(), conf.display().to_string(), "-i".to_owned(), id]
    }

    pub(super) fn pid(self, conf: &Path) -> Result<Option<u32>> {
        Ok(running(conf)?.into_iter().find(|(daemon, _)| *daemon == self).map(|(_, pid)| pid))
    }

    /// Sends a signal to the daemon's processes and to no others. Returns whether there was one.
    pub(super) fn signal(self, conf: &Path, signal: Signal) -> Result<bool> {
        // The links have nothing to clean up.
        let signal = if self == Daemon::Wan { Signal::KILL } else { signal };
        let mut sent = false;
        for (_, raw) in running(conf)?.into_iter().filter(|(daemon, _)| *daemon == self) {
            let Some(pid) = tools::pid(raw) else { continue };
            let cannot = |error: Errno| {
                Error::io(Action::Admin, "cannot signal a daemon", error.into()).with("daemon", self)
            };
            let handle = match pidfd_open(pid, PidfdFlags::empty()) {
                Err(Errno::SRCH) => continue,
                opened => opened.map_err(cannot)?,
            };
            // The handle stays with the process, but the pid may be reused. Check the process again
            // before the signal.
            if read(raw, conf) != Some(self) {
                continue;
            }
            match pidfd_send_signal(handle, signal) {
                Err(Errno::SRCH) => {}
                outcome => {
                    outcome.map_err(cannot)?;
                    sent = true;
                }
            }
        }
        Ok(sent)
    }
}

impl fmt::Display for Daemon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Daemon::Wan => f.write_str("wan"),
            Daemon::Mon => f.write_str("mon.a"),
            Daemon::Mgr => f.write_str("mgr.a"),
            Daemon::Osd(number) => write!(f, "osd.{number}"),
        }
    }
}

impl FromStr for Daemon {
    type Err = Error;

    fn from_str(text: &str) -> Result<Daemon> {
        let osd = |number: &str| number.parse().ok().map(Daemon::Osd);
        match text {
            "wan" => Some(Daemon::Wan),
            "mon.a" => Some(Daemon::Mon),
            "mgr.a" => Some(Daemon::Mgr),
            _ => text.strip_prefix("osd.").and_then(osd),
        }
        .filter(|daemon| daemon.to_string() == text)
        .ok_or_else(|| {
            let message = "no such daemon; the daemons are mon.a, mgr.a, osd.0, osd.1, …, and wan";
            Error::new(ErrorKind::InvalidArgument, message).with("daemon", text)
        })
    }
}

/// All running daemons of the cluster with this configuration, with their pids.
pub fn running(conf: &Path) -> Result<Vec<(Daemon, u32)>> {
    let of_cluster = |pid| Some((read(pid, conf)?, pid));
    let mut found: Vec<_> = tools::pids()?.into_iter().filter_map(of_cluster).collect();
    found.sort_unstable();
    Ok(found)
}

/// The daemon that a process belongs to. A process that creates the daemon's data has more
/// arguments, and counts too. A zombie process has no command line and belongs to no daemon.
fn read(pid: u32, conf: &Path) -> Option<Daemon> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words: Vec<&str> = std::str::from_utf8(&line).ok()?.split_terminator('\0').collect();
    let (program, args) = words.split_first()?;
    let args = args.get(..4)?;
    let daemon = match program.rsplit('/').next()?.strip_prefix("ceph-") {
        Some(kind) => format!("{kind}.{}", args[3]).parse().ok()?,
        None => Daemon::Wan,
    };
    (args == daemon.args(conf)).then_some(daemon)
}

/// Seconds since a process started.
pub fn uptime_s(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the name in parentheses, which may contain anything. The 22nd field is
    // the start time in ticks.
    let started_ticks: u64 = stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()?;
    let machine_up = fs::read_to_string("/proc/uptime").ok()?;
    let machine_up_s: u64 = machine_up.split('.').next()?.parse().ok()?;
    Some(machine_up_s.saturating_sub(started_ticks / rustix::param::clock_ticks_per_second()))
}

#[cfg(test)]
mod tests {
    use super::Daemon;

    #[test]
    fn a_daemon_has_one_name() {
        for daemon in [Daemon::Wan, Daemon::Mon, Daemon::Mgr, Daemon::Osd(0), Daemon::Osd(12)] {
            assert_eq!(daemon.to_string().parse::<Daemon>().unwrap(), daemon);
        }
        for name in
            ["", "osd", "osd.", "osd.x", "osd.-1", "osd.01", "osd.+1", "mon.b", "mds.a", "osd.4294967296"]
        {
            assert!(name.parse::<Daemon>().is_err(), "{name:?}");
        }
    }
}
