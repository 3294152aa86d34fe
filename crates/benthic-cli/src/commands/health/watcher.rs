//! Polls a cluster, once or periodically: its monitors and manager, the class libraries in its
//! OSDs, and a probe.

use super::calls::{Calls, Holder};
use super::probe::{self, Prober};
use super::{PollArgs, answers, cluster};
use crate::commands::class::{ask_osds, group_by_build};
use benthic_ceph::cluster_client::ClusterClient;
use benthic_ceph::cluster_state::Pg;
use benthic_ceph::health::calls::LibrarySums;
use benthic_ceph::health::gather::{ANSWER_LIMIT, Gatherer, snapshot_without_monitors};
use benthic_ceph::health::growth::{self, Reading};
use benthic_ceph::health::judge::{is_moving, judge};
use benthic_ceph::health::limits::Limits;
use benthic_ceph::health::overview::{Overview, overview};
use benthic_ceph::health::refusal::refuse_this_client;
use benthic_ceph::health::report::Report;
use benthic_ceph::health::snapshot::{Library, Missing, OsdAnswers, Probe, Snapshot};
use benthic_ceph::osds::{OsdTarget, osds};
use benthic_ceph::{LIBRARIES, classes};
use benthic_core::{Clock, Error, ErrorKind, LibraryInfo, Result, SystemClock};
use benthic_program::session::Session;
use benthic_program::store::blocking;
use std::collections::HashMap;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use tokio::time::timeout;

/// How long the names of other libraries are cached.
const NAMES_VALID_S: u64 = 60;
/// Limit of the libraries that OSDs are asked for.
const LIBRARIES_MAX: usize = 64;
/// How long the OSDs' libraries are cached. An OSD loads a library when it starts or when a class
/// is first called, so polling every time is not necessary; and finding an object in each OSD is
/// expensive for the monitors.
const LIBRARIES_VALID_S: u64 = 3_600;
/// Initial retry delay if some OSDs could not be asked. It doubles at each retry, up to
/// [`RETRY_S_MAX`], and restarts when an OSD goes up or down.
const RETRY_S: u64 = 30;
const RETRY_S_MAX: u64 = 600;
/// Maximum retry delay if no OSD answers.
const RETRY_S_MAX_SILENT: u64 = 60;
const REFUSED: &str = "they accept connections and answer no request of this client; its key probably has no osd caps, which OSDs of \
                       Ceph 18 and later require: if `ceph auth get client.NAME` shows none, repeat its other caps and add osd \
                       'allow rx' with `ceph auth caps`, which replaces all of them";

/// Polls one cluster, also while it is unreachable.
pub struct Watcher<'a> {
    session: &'a Session,
    /// A connection attempt in progress.
    attempt: Option<Attempt<'a>>,
    has_polled: bool,
    /// Whether an OSD has ever answered this client.
    has_answered: bool,
    /// Whether the OSDs refuse this client. Stays until one answers: a dead OSD among them sends no
    /// banner, which says nothing about the others.
    is_refused: bool,
    gatherer: Gatherer,
    clock: SystemClock,
    probe_pool: Option<String>,
    /// `None` until the pool of the probe is open.
    prober: Option<Prober>,
    /// Names that the caller gave.
    library_args: Vec<String>,
    library_names: Vec<String>,
    names_unix_s: u64,
    libraries: Option<Libraries>,
    /// `None` unless calls are counted.
    calls: Option<Calls>,
    /// Readings of the fullest OSD: those of the history file if there is one, otherwise those of
    /// this run.
    history: Vec<Reading>,
    file: Option<PathBuf>,
    file_is_read: bool,
    is_hourly: bool,
}

type Attempt<'a> = Pin<Box<dyn Future<Output = Result<Arc<dyn ClusterClient>>> + 'a>>;

/// The cached OSDs and their class libraries, and the time of the poll.
struct Libraries {
    unix_s: u64,
    /// The state of the cluster on which the objects for reaching the OSDs depend.
    change: String,
    names: Vec<String>,
    osds: Vec<OsdTarget>,
    found: Vec<Library>,
    /// The description of each library by one OSD.
    described: Vec<LibraryInfo>,
    missing: Option<Missing>,
    /// The OSDs that have each library, and the objects through which to reach them.
    holders: Vec<Holder>,
    /// Number of retries because some OSDs did not answer.
    retries: u32,
}

impl Libraries {
    /// The time in seconds for which the cache entry is valid.
    fn valid_s(&self, is_lost: bool) -> u64 {
        let retry_s = RETRY_S << self.retries.min(10);
        match &self.missing {
            Some(missing) if missing.is_problem => retry_s.min(RETRY_S_MAX_SILENT),
            None if !is_lost => LIBRARIES_VALID_S,
            _ => retry_s.min(RETRY_S_MAX),
        }
    }
}

impl<'a> Watcher<'a> {
    /// Creates a watcher for the cluster of this session. It does not connect yet.
    pub fn new(args: PollArgs, session: &'a Session) -> Watcher<'a> {
        Watcher {
            session,
            attempt: None,
            has_polled: false,
            has_answered: false,
            is_refused: false,
            gatherer: Gatherer::default(),
            clock: SystemClock,
            probe_pool: args.probe_pool,
            prober: None,
            library_args: args.libraries.library,
            library_names: Vec::new(),
            names_unix_s: 0,
            libraries: None,
            calls: None,
            history: Vec::new(),
            file: args.history,
            file_is_read: false,
            is_hourly: false,
        }
    }

    /// Polls the cluster once.
    ///
    /// # Errors
    /// Those of connecting, and as [`Gatherer::read`]. Monitors that do not answer are no error but
    /// part of the report. The first poll also fails if the pool of the probe cannot be opened or
    /// the history cannot be read. In later polls the former is part of the report, and the latter
    /// a warning.
    pub async fn poll(&mut self) -> Result<Report> {
        let (snapshot, report) = self.observe().await?;
        self.keep_reading(snapshot).await;
        Ok(report)
    }

    /// Also polls the usage and client load of pools.
    #[must_use]
    pub fn with_pools(mut self) -> Watcher<'a> {
        self.gatherer = self.gatherer.with_pools();
        self
    }

    /// Keeps at most one reading an hour, for a long-running process.
    #[must_use]
    pub fn hourly(mut self) -> Watcher<'a> {
        self.is_hourly = true;
        self
    }

    /// Also polls the OSDs for the number of calls of classes' methods.
    #[must_use]
    pub fn with_calls(mut self) -> Watcher<'a> {
        self.calls = Some(Calls::default());
        self
    }

    /// Like [`poll`](Watcher::poll), and returns an overview to show beside the report.
    pub async fn poll_with_overview(&mut self) -> Result<(Report, Overview)> {
        let (snapshot, report) = self.observe().await?;
        let overview = overview(&snapshot, &report);
        self.keep_reading(snapshot).await;
        Ok((report, overview))
    }

    /// The class libraries, each as described by one of the OSDs that have it.
    pub fn described(&self) -> &[LibraryInfo] {
        self.libraries.as_ref().map_or(&[], |libraries| &libraries.described)
    }

    /// The calls of classes since the first poll; empty if calls are not counted.
    pub fn calls(&self) -> Vec<LibrarySums> {
        self.calls.as_ref().map(Calls::sums).unwrap_or_default()
    }

    /// The calls in Prometheus text format; empty if calls are not counted.
    pub fn calls_text(&self) -> String {
        self.calls.as_ref().map(Calls::text).unwrap_or_default()
    }

    pub fn readings(&self) -> &[Reading] {
        &self.history
    }

    /// Prepends readings of an earlier run.
    pub fn prepend_readings(&mut self, mut readings: Vec<Reading>) {
        readings.append(&mut self.history);
        readings.into_iter().for_each(|reading| growth::append(&mut self.history, reading));
    }

    async fn observe(&mut self) -> Result<(Snapshot, Report)> {
        let now_unix_s = self.clock.unix_ns() / 1_000_000_000;
        let mut snapshot = match self.connect().await {
            Ok(store) => self.ask(&*store, now_unix_s).await?,
            Err(error) if error.kind() == ErrorKind::Unavailable => {
                if !self.has_polled {
                    self.session.out.warning(&error);
                }
                snapshot_without_monitors(now_unix_s, &error)
            }
            Err(error) => return Err(error),
        };
        self.has_polled = true;
        snapshot.now_unix_s = self.clock.unix_ns() / 1_000_000_000;
        snapshot.limits = blocking(|| Ok(Limits::read())).await.ok();
        snapshot.history.clone_from(&self.history);
        let report = judge(&snapshot);
        Ok((snapshot, report))
    }

    /// Connects to the cluster. If an attempt takes longer than the time limit, the next poll
    /// continues to wait for it.
    async fn connect(&mut self) -> Result<Arc<dyn ClusterClient>> {
        match timeout(ANSWER_LIMIT, self.wait_for_connection()).await {
            Ok(connected) => connected,
            Err(_) => {
                let message = "no monitor answered in time; check that the cluster is up and mon_host in the configuration is right";
                Err(Error::unavailable(message).with("limit_s", ANSWER_LIMIT.as_secs()))
            }
        }
    }

    async fn wait_for_connection(&mut self) -> Result<Arc<dyn ClusterClient>> {
        loop {
            let is_new = self.attempt.is_none();
            let attempt = self.attempt.get_or_insert_with(|| Box::pin(cluster(self.session)));
            let connected = attempt.await;
            self.attempt = None;
            match connected {
                // The attempt began in an earlier poll and failed. The monitors may be back since,
                // so try again.
                Err(error) if error.kind() == ErrorKind::Unavailable && !is_new => {}
                connected => return connected,
            }
        }
    }

    async fn ask(&mut self, store: &dyn ClusterClient, now_unix_s: u64) -> Result<Snapshot> {
        let mut snapshot = self.gatherer.read(store, now_unix_s).await?;
        if snapshot.fsid.is_empty() {
            return Ok(snapshot);
        }
        self.find_names(store, &snapshot).await;
        let is_new = self.find_osds(store, &snapshot).await;
        let osds = self.libraries.as_ref().map_or(&[][..], |known| &known.osds);
        let (answers, all_prompt) = answers::ask(store, osds).await;
        if !all_prompt {
            // Meanwhile the monitors may have noticed that OSDs are down.
            snapshot = self.gatherer.read(store, self.clock.unix_ns() / 1_000_000_000).await?;
        }
        self.has_answered |= !answers.answered.is_empty();
        let refused =
            !self.has_answered && (self.is_refused || refuse_this_client(&answers.silent, &snapshot).await);
        self.is_refused = refused;
        self.ask_libraries(store, &mut snapshot, &answers, is_new, refused).await;
        let has_asked = answers.answered.len() + answers.silent.len() > 0;
        // Also if they refuse this client: another daemon may have the port of a dead OSD, and its
        // banner must not hide an outage.
        snapshot.osd_answers = has_asked.then_some(answers);
        snapshot.probe = self.probe(refused).await?;
        if !snapshot.fsid.is_empty() {
            self.read_history(&snapshot.fsid).await?;
        }
        Ok(snapshot)
    }

    /// Probes the pool, unless the OSDs refuse this client: a refused request never ends.
    async fn probe(&mut self, refused: bool) -> Result<Option<Probe>> {
        let Some(pool) = &self.probe_pool else { return Ok(None) };
        if self.prober.is_none() {
            match self.session.pool(pool).await.and_then(Prober::new) {
                Ok(prober) => self.prober = Some(prober),
                Err(error) if self.has_polled || error.kind() == ErrorKind::Unavailable => {
                    return Ok(Some(probe::not_opened(pool, &error)));
                }
                Err(error) => return Err(error),
            }
        }
        match &mut self.prober {
            Some(_) if refused => {
                let error = Error::permission_denied("the OSDs refuse this client");
                Ok(Some(probe::not_opened(pool, &error)))
            }
            Some(prober) => Ok(Some(prober.probe().await)),
            None => Ok(None),
        }
    }

    /// Finds the names of the libraries that OSDs may have. If the manager does not answer, the
    /// earlier names stay.
    async fn find_names(&mut self, store: &dyn ClusterClient, snapshot: &Snapshot) {
        let now_unix_s = snapshot.now_unix_s;
        if now_unix_s.abs_diff(self.names_unix_s) < NAMES_VALID_S {
            return;
        }
        self.names_unix_s = now_unix_s;
        let osd = snapshot.map.iter().flat_map(|map| &map.osds).find(|osd| osd.is_up());
        let has_manager = snapshot.manager.as_ref().is_some_and(|manager| manager.available);
        let found = match osd.filter(|_| has_manager && snapshot.manager_silent.is_none()) {
            Some(osd) => timeout(ANSWER_LIMIT, classes::candidates(store, osd.id)).await,
            None => Ok(Ok(Vec::new())),
        };
        let own = LIBRARIES.iter().map(|name| (*name).to_owned());
        let earlier = std::mem::take(&mut self.library_names);
        let others = found.ok().and_then(Result::ok).filter(|found| !found.is_empty()).unwrap_or(earlier);
        for name in own.chain(self.library_args.clone()).chain(others) {
            if self.library_names.len() < LIBRARIES_MAX && !self.library_names.contains(&name) {
                self.library_names.push(name);
            }
        }
    }

    /// Finds an object in each OSD, unless the cached ones are still valid. Returns whether it did.
    async fn find_osds(&mut self, store: &dyn ClusterClient, snapshot: &Snapshot) -> bool {
        let now_unix_s = snapshot.now_unix_s;
        let change = change(snapshot);
        let is_lost = self.calls.as_ref().is_some_and(|calls| calls.is_lost(now_unix_s));
        let names = &self.library_names;
        let is_same = |known: &&Libraries| {
            known.change == change && known.names == *names && known.still_leads(snapshot)
        };
        let known = self.libraries.as_ref().filter(is_same);
        if known.is_some_and(|known| now_unix_s.saturating_sub(known.unix_s) < known.valid_s(is_lost)) {
            return false;
        }
        let failed = known.filter(|known| known.missing.is_some() || is_lost);
        let retries = failed.map_or(0, |known| known.retries + 1);
        let (osds, missing) = match osds(store).await {
            Ok(osds) => (osds, None),
            Err(error) => (Vec::new(), Some(missing(error.message().to_owned(), false))),
        };
        let (found, described, holders) = (Vec::new(), Vec::new(), Vec::new());
        let (unix_s, names) = (now_unix_s, names.clone());
        self.libraries =
            Some(Libraries { unix_s, change, names, osds, found, described, missing, holders, retries });
        true
    }

    async fn ask_libraries(
        &mut self,
        store: &dyn ClusterClient,
        snapshot: &mut Snapshot,
        answers: &OsdAnswers,
        is_new: bool,
        refused: bool,
    ) {
        let Some(known) = &mut self.libraries else { return };
        if is_new {
            known.ask(store, answers, refused).await;
        }
        if let Some(calls) = &mut self.calls {
            calls.poll(store, snapshot.now_unix_s, &mut known.holders).await;
        }
        let is_known = known.missing.is_none() || !known.found.is_empty();
        snapshot.libraries = is_known.then(|| known.found.clone());
        snapshot.missing.extend(known.missing.clone());
    }

    async fn read_history(&mut self, fsid: &str) -> Result<()> {
        if let Some(file) = self.file.clone().filter(|_| !self.file_is_read) {
            let fsid = fsid.to_owned();
            match blocking(move || growth::read(&file, &fsid)).await {
                Ok(history) => self.history = history,
                Err(error) if self.has_polled => {
                    // The first poll reached no monitor. Leave the file unchanged.
                    self.file = None;
                    let out = &self.session.out;
                    out.warning(format_args!("{error}; readings are not kept there until the next start"));
                }
                Err(error) => return Err(error),
            }
            self.file_is_read = true;
        }
        Ok(())
    }

    async fn keep_reading(&mut self, snapshot: Snapshot) {
        if is_moving(&snapshot) || snapshot.fsid.is_empty() {
            return;
        }
        let usage = snapshot.usage.as_ref();
        let Some(reading) = usage.and_then(|usage| growth::fullest(usage, snapshot.now_unix_s)) else {
            return;
        };
        let Some(file) = self.file.clone() else {
            if !(self.is_hourly && growth::is_too_early(&self.history, reading)) {
                growth::append(&mut self.history, reading);
            }
            return;
        };
        let history = self.history.clone();
        let fsid = snapshot.fsid;
        match blocking(move || growth::write(&file, &fsid, &history, reading)).await {
            Ok(true) => growth::append(&mut self.history, reading),
            Ok(false) => {}
            // A failed write does not prevent the report.
            Err(error) => self.session.out.warning(&error),
        }
    }
}

/// The state of the cluster on which the objects for reaching the OSDs depend: which OSDs serve,
/// and which pools and rules there are.
fn change(snapshot: &Snapshot) -> String {
    let Some(map) = &snapshot.map else { return String::new() };
    let pools: Vec<i64> = map.pools.iter().map(|pool| pool.id).collect();
    format!("{} {} {} {pools:?}", map.last_up_change, map.last_in_change, map.crush_version)
}

fn missing(why: String, is_problem: bool) -> Missing {
    Missing { what: "class libraries in the OSDs".to_owned(), why, is_problem }
}

impl Libraries {
    /// Whether each OSD still leads the placement group of its object. A balancer, a backfill or a
    /// split changes that while all OSDs stay up.
    fn still_leads(&self, snapshot: &Snapshot) -> bool {
        let asked = self.osds.iter().filter(|osd| osd.object.is_some());
        let leaders: HashMap<&str, i64> = asked.map(|osd| (osd.pg.as_str(), osd.id)).collect();
        let leads = |pg: &Pg| {
            leaders.get(pg.pgid.as_str()).is_none_or(|osd| pg.primary().map(i64::from) == Some(*osd))
        };
        snapshot.pgs.iter().flatten().all(leads)
    }

    /// Asks the OSDs that answer for their libraries. A library of others, built without Benthic,
    /// has no method of this name and refuses the call.
    async fn ask(&mut self, store: &dyn ClusterClient, answers: &OsdAnswers, refused: bool) {
        // The report already lists the OSDs that are down.
        let up: Vec<OsdTarget> = self.osds.iter().filter(|osd| osd.up).cloned().collect();
        let silent: Vec<i64> = answers.silent.iter().map(|silent| silent.osd).collect();
        let asked: Vec<OsdTarget> = up.iter().filter(|osd| !silent.contains(&osd.id)).cloned().collect();
        for name in &self.names {
            let answers = ask_osds(store, &asked, name).await;
            let mut library = group_by_build(name, &answers);
            library.silent.extend(&silent);
            if library.builds.is_empty() && !LIBRARIES.contains(&name.as_str()) {
                continue;
            }
            // Without any placement group, there is no object to reach an OSD through, and no
            // method to call.
            if !library.silent.is_empty() && up.iter().any(|osd| osd.object.is_some()) {
                let error = answers.iter().find_map(|(_, answer)| answer.as_ref().err());
                let late = if refused { REFUSED } else { "no answer in time" };
                let why = error.map_or(late, |error| error.message());
                let is_dead = |answer: &Result<_>| {
                    answer.as_ref().is_err_and(|error| error.kind() == ErrorKind::Unavailable)
                };
                let is_problem = !refused && answers.iter().all(|(_, answer)| is_dead(answer));
                let why = format!("{} of {} OSDs: {why}", library.silent.len(), up.len());
                self.missing = Some(missing(why, is_problem));
            }
            let has_it = |osd: &&OsdTarget| library.builds.iter().any(|build| build.osds.contains(&osd.id));
            self.holders.extend(asked.iter().filter(has_it).filter_map(|osd| Holder::new(osd, name)));
            if !library.builds.is_empty() {
                let described = answers.iter().find_map(|(_, answer)| answer.as_ref().ok()?.clone());
                self.described.extend(described);
                self.found.push(library);
            }
        }
    }
}
