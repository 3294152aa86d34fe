//! Waits for daemons, always with a time limit.

use super::cluster::{Cluster, Watch, ask};
use super::daemon::{self, Daemon};
use super::status::{self, Readiness};
use benthic_core::{Error, ErrorKind, Result, Stopwatch, SystemClock};
use futures::executor::block_on;
use rustix::process::Signal;
use serde_json::json;
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

const START_LIMIT: Duration = Duration::from_secs(90);
const READY_LIMIT: Duration = Duration::from_secs(180);
/// After this time, stop waiting for HEALTH_OK in a restarted cluster that serves but has warnings
/// because of its owner's settings.
const WARNING_LIMIT: Duration = Duration::from_secs(20);
/// The manager of Debian 13 (Ceph 18.2.7) cannot load its Python modules, because one of them
/// imports `bcrypt`, which does not load into several interpreters. The cluster serves without
/// them, so a new cluster has this check muted.
const MANAGER_MODULES: &str = "MGR_MODULE_DEPENDENCY";
const STOP_LIMIT: Duration = Duration::from_secs(30);
const KILL_LIMIT: Duration = Duration::from_secs(10);
const TICK: Duration = Duration::from_millis(200);
const TICK_MAX: Duration = Duration::from_secs(1);

impl Cluster {
    /// Starts daemons and waits until the monitor reports them as running.
    pub(super) fn start_all(&self, daemons: &[Daemon], watch: &mut Watch<'_>) -> Result<()> {
        if daemons.contains(&Daemon::Wan) {
            watch("the links between the sites")?;
            self.launch(Daemon::Wan)?;
        }
        if daemons == [Daemon::Wan] {
            return Ok(());
        }
        if daemons.contains(&Daemon::Mon) {
            watch("the monitor")?;
            self.launch(Daemon::Mon)?;
            self.wait_for("the monitor", &[Daemon::Mon], START_LIMIT, watch, || {
                self.incarnations().map(|_| true)
            })?;
        } else if Daemon::Mon.pid(&self.conf())?.is_none() {
            let message = "the monitor does not run; `benthic cluster start mon.a` starts it";
            return Err(Error::new(ErrorKind::Unavailable, message));
        }
        let is_other = |daemon: &Daemon| !matches!(daemon, Daemon::Wan | Daemon::Mon);
        let others: Vec<Daemon> = daemons.iter().copied().filter(is_other).collect();
        // The monitor may not have noticed that a daemon was gone. Only a changed number proves
        // that the daemon has restarted.
        let before = self.incarnations()?;
        let names = |daemons: &[Daemon]| daemons.iter().map(Daemon::to_string).collect::<Vec<_>>().join(", ");
        watch(&names(&others))?;
        thread::scope(|scope| {
            let launched: Vec<_> = others.iter().map(|daemon| scope.spawn(|| self.launch(*daemon))).collect();
            launched.into_iter().try_for_each(join)
        })?;
        // Daemons that are cut off run, but the monitor does not hear from them.
        let others: Vec<Daemon> = others.into_iter().filter(|daemon| !self.is_cut_off(*daemon)).collect();
        self.wait_for(&names(&others), &others, START_LIMIT, watch, || {
            let now = self.incarnations()?;
            let is_back =
                |daemon: &Daemon| now.iter().any(|found| found.0 == *daemon && !before.contains(found));
            Ok(others.iter().all(is_back))
        })
    }

    fn incarnations(&self) -> Result<Vec<(Daemon, u64)>> {
        let client = self.client()?;
        Ok(status::incarnations(&ask(&*client, "osd dump")?, &ask(&*client, "mgr dump")?))
    }

    /// Waits until the cluster serves and reports `HEALTH_OK`. Without `want_ok`, it stops waiting
    /// for `HEALTH_OK` after a limit, because the owner's settings can cause lasting warnings.
    pub(super) fn wait_ready(&mut self, want_ok: bool, watch: &mut Watch<'_>) -> Result<()> {
        let mut serves_since = None;
        let mut waits_for = "the monitor".to_owned();
        let stopwatch = Stopwatch::start(&SystemClock);
        loop {
            let poll = Stopwatch::start(&SystemClock);
            watch(&waits_for)?;
            self.check_alive(&self.daemons())?;
            match self.client().and_then(|client| self.readiness(&*client)) {
                Ok(Readiness { status, checks, missing: None }) => {
                    self.complete()?;
                    if want_ok && serves_since.is_none() {
                        // The check may be raised only after this. Without the mute, the cluster
                        // serves as well.
                        let mute =
                            json!({ "prefix": "health mute", "code": MANAGER_MODULES, "sticky": true });
                        let _ =
                            self.client().and_then(|client| block_on(client.tell_monitors(mute, Vec::new())));
                    }
                    if status == "HEALTH_OK" {
                        return Ok(());
                    }
                    let since = *serves_since.get_or_insert_with(|| Stopwatch::start(&SystemClock));
                    if !want_ok && since.elapsed() > WARNING_LIMIT {
                        return Ok(());
                    }
                    waits_for = checks.join(", ");
                }
                Ok(Readiness { missing: Some(missing), .. }) => {
                    serves_since = None;
                    waits_for = missing;
                }
                Err(error) => waits_for = error.to_string(),
            }
            if stopwatch.elapsed() > READY_LIMIT {
                return Err(late(&waits_for, READY_LIMIT));
            }
            pause_for(poll.elapsed());
        }
    }

    /// Waits until `done` returns true, while `daemons` run. An error of `done` counts as false.
    pub(super) fn wait_for(
        &self,
        what: &str,
        daemons: &[Daemon],
        limit: Duration,
        watch: &mut Watch<'_>,
        mut done: impl FnMut() -> Result<bool>,
    ) -> Result<()> {
        let stopwatch = Stopwatch::start(&SystemClock);
        loop {
            let poll = Stopwatch::start(&SystemClock);
            watch(what)?;
            self.check_alive(daemons)?;
            if matches!(done(), Ok(true)) {
                return Ok(());
            }
            if stopwatch.elapsed() > limit {
                let error = late(what, limit);
                return Err(match daemons.last() {
                    Some(daemon) => self.explain(*daemon, error),
                    None => error,
                });
            }
            pause_for(poll.elapsed());
        }
    }

    fn check_alive(&self, daemons: &[Daemon]) -> Result<()> {
        let running = daemon::running(&self.conf())?;
        match daemons.iter().find(|daemon| running.iter().all(|(found, _)| found != *daemon)) {
            Some(dead) => Err(self.explain(*dead, Error::new(ErrorKind::Unavailable, "a daemon ended"))),
            None => Ok(()),
        }
    }

    /// Stops all running daemons: the OSDs, then the manager, the monitor and the links. Returns
    /// whether any was running.
    pub(super) fn stop(&self, signal: Signal, watch: &mut Watch<'_>) -> Result<bool> {
        let running: Vec<Daemon> =
            daemon::running(&self.conf())?.into_iter().map(|(daemon, _)| daemon).collect();
        let (osds, rest): (Vec<Daemon>, Vec<Daemon>) =
            running.iter().partition(|daemon| matches!(daemon, Daemon::Osd(_)));
        for group in [&osds[..]].into_iter().chain(rest.chunks(1).rev()) {
            for daemon in group {
                daemon.signal(&self.conf(), signal)?;
            }
            if !self.wait_gone(group, STOP_LIMIT, watch)? {
                for daemon in group {
                    daemon.signal(&self.conf(), Signal::KILL)?;
                }
                self.wait_killed(group, watch)?;
            }
        }
        for (_, namespace) in self.namespaces() {
            namespace.remove()?;
        }
        Ok(!running.is_empty())
    }

    pub(super) fn wait_killed(&self, daemons: &[Daemon], watch: &mut Watch<'_>) -> Result<()> {
        let gone = self.wait_gone(daemons, KILL_LIMIT, watch)?;
        if gone { Ok(()) } else { Err(late("daemons to end", KILL_LIMIT)) }
    }

    /// Waits until none of the daemons runs. Returns false if one still does.
    pub(super) fn wait_gone(
        &self,
        daemons: &[Daemon],
        limit: Duration,
        watch: &mut Watch<'_>,
    ) -> Result<bool> {
        let stopwatch = Stopwatch::start(&SystemClock);
        while stopwatch.elapsed() < limit {
            let running = daemon::running(&self.conf())?;
            match running.iter().find(|(found, _)| daemons.contains(found)) {
                Some((daemon, _)) => watch(&format!("{daemon} to end"))?,
                None if daemons.contains(&Daemon::Wan) && self.has_device() => watch("the links' removal")?,
                None => return Ok(true),
            }
            pause();
        }
        Ok(false)
    }
}

/// The result of a thread.
pub fn join(thread: ScopedJoinHandle<'_, Result<()>>) -> Result<()> {
    thread.join().map_err(|_| Error::new(ErrorKind::Internal, "a thread panicked"))?
}

fn late(what: &str, limit: Duration) -> Error {
    let message = format!("waited too long for {what}; `benthic cluster logs` may show the cause");
    Error::new(ErrorKind::Unavailable, message).with("limit_s", limit.as_secs())
}

pub(super) fn pause() {
    pause_for(TICK);
}

/// Waits as long as a poll took: on a busy machine, the daemons need the cores more.
#[expect(clippy::disallowed_methods, reason = "daemons send no signal; each wait calls its watch first")]
fn pause_for(poll: Duration) {
    thread::sleep(poll.clamp(TICK, TICK_MAX));
}
