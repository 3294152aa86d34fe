//! Reads a snapshot of a cluster's state. The queries change nothing. If a monitor or manager does
//! not answer, the snapshot records it, and no further query waits for it.

use super::hung::hung_osds;
use super::snapshot::{Missing, Snapshot};
use crate::cluster_client::{ClusterClient, in_json};
use crate::cluster_state::{Df, Manager, OsdDf, OsdMap, OsdPerf, PgDump, Status, parse};
use crate::placement::crush::CrushMap;
use crate::placement::lint::{self, Check, lint};
use crate::placement::preview::Preview;
use crate::placement::snapshot::Snapshot as PlacementSnapshot;
use benthic_core::{Error, ErrorKind, Result};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::time::Duration;

/// Time limit of one query, and of connecting.
pub const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// Pause before a manager that did not answer is queried again.
const SILENCE_S: u64 = 60;
/// In clusters with more placement groups, the manager is not asked for each of them: one takes
/// about 3 KB in the answer.
pub const PGS_MAX: u64 = 50_000;
/// The part of the snapshot that is missing without monitors.
const OF_MONITORS: &str = "the monitors' data";
/// The part of the snapshot that is missing without a manager.
const OF_MANAGER: &str = "single placement groups, usage and latency of OSDs";
const MANAGER_UNKNOWN: &str = "no monitor reports whether there is a manager";
const SINGLE_PGS: &str = "single placement groups";

/// Reads snapshots of one cluster, repeatedly if needed. It caches the results of expensive
/// queries.
#[derive(Default)]
pub struct Gatherer {
    /// A manager that did not answer: its epoch, the time of the query, and the error.
    silent: Option<(u64, u64, String)>,
    /// Cached faults of the CRUSH rules, and the state of the cluster that they depend on.
    rules: Option<(String, Vec<lint::Finding>)>,
    reads_pools: bool,
}

/// The state of one run of [`Gatherer::read`].
struct Round<'a> {
    client: &'a dyn ClusterClient,
    snapshot: Snapshot,
    /// Whether a monitor failed to answer. If so, further queries to monitors are skipped.
    monitors_silent: bool,
}

impl Gatherer {
    /// Also reads the usage and the client I/O of each pool. The verdict needs neither.
    #[must_use]
    pub fn with_pools(mut self) -> Gatherer {
        self.reads_pools = true;
        self
    }

    /// Reads a snapshot. This takes tens of milliseconds if all daemons answer, and about ten
    /// seconds if none does. Testing the rules of a large CRUSH map takes longer, once after each
    /// change of the map.
    ///
    /// # Errors
    /// `PermissionDenied` if the client may not read the status from the monitors. Monitors that do
    /// not answer are no error: the snapshot records it.
    pub async fn read(&mut self, client: &dyn ClusterClient, now_unix_s: u64) -> Result<Snapshot> {
        let snapshot = Snapshot { now_unix_s, monitors_unix_s: now_unix_s, ..Snapshot::default() };
        let mut round = Round { client, snapshot, monitors_silent: false };
        if let Some(status) = round.status().await? {
            round.snapshot.fsid = status.fsid;
            round.snapshot.digest = Some(status.pgmap);
        }
        let health = json!({ "prefix": "health", "detail": "detail" });
        round.snapshot.health = round.ask_monitors("Ceph's own checks", health).await;
        round.snapshot.quorum = round.ask_monitors("the quorum", prefix("quorum_status")).await;
        round.snapshot.clocks = round.ask_monitors("the monitors' clocks", prefix("time-sync-status")).await;
        round.snapshot.manager = round.ask_monitors("the manager", prefix("mgr stat")).await;
        self.read_manager_data(&mut round).await;
        // Read the OSD map after the manager's data. An older map might still show an OSD as up
        // that the placement groups already miss.
        round.snapshot.map = round.ask_monitors("pools and OSDs", prefix("osd dump")).await;
        round.drop_empty_digest();
        if let Some(map) = &round.snapshot.map {
            round.snapshot.hung_osds = hung_osds(&map.osds).await;
        }
        round.snapshot.tree = round.ask_monitors("the CRUSH tree", prefix("osd tree")).await;
        round.snapshot.versions = round.ask_monitors("the daemons' versions", prefix("versions")).await;
        if self.reads_pools {
            let stored: Option<Df> = round.ask_monitors("usage of pools", prefix("df")).await;
            round.snapshot.stored = stored.map(|stored| stored.pools);
            round.snapshot.pool_io =
                round.ask_monitors("client I/O of pools", prefix("osd pool stats")).await;
        }
        self.test_rules(&mut round).await;
        Ok(round.snapshot)
    }

    async fn read_manager_data(&mut self, round: &mut Round<'_>) {
        let manager = round.snapshot.manager.clone().unwrap_or_default();
        let epoch = manager.epoch;
        if let Some(why) = why_no_manager(&manager, round.snapshot.manager.is_some()) {
            return round.miss(OF_MANAGER, why, true);
        }
        // A query without an answer occupies a thread until its time limit. Do not query the same
        // manager again before that.
        let now_unix_s = round.snapshot.now_unix_s;
        let is_left_alone =
            |(silent, at_unix_s): (u64, u64)| silent == epoch && now_unix_s.abs_diff(at_unix_s) < SILENCE_S;
        if let Some((.., why)) = self.silent.as_ref().filter(|(silent, at, _)| is_left_alone((*silent, *at)))
        {
            round.snapshot.manager_silent = Some(why.clone());
            return round.miss(OF_MANAGER, why, true);
        }
        self.silent = None;
        if let Err(error) = round.read_manager().await {
            let why = one_line(&error);
            if error.kind() == ErrorKind::Unavailable {
                self.silent = Some((epoch, now_unix_s, why.clone()));
                round.snapshot.manager_silent = Some(why.clone());
            }
            round.miss(OF_MANAGER, why, true);
        }
    }

    /// Tests the rules with Ceph's tools, which takes long on a large map. So it happens only after
    /// a change of the map, the pools or the OSDs.
    async fn test_rules(&mut self, round: &mut Round<'_>) {
        let Some(map) = &round.snapshot.map else { return };
        let pools: Vec<_> =
            map.pools.iter().map(|pool| (pool.id, &pool.name, pool.size, pool.crush_rule)).collect();
        let osds: Vec<_> = map.osds.iter().map(|osd| (osd.id, osd.weight)).collect();
        let key = format!("{} {pools:?} {osds:?}", map.crush_version);
        if self.rules.as_ref().is_none_or(|(known, _)| *known != key) {
            self.rules = None;
            match rules(round.client, map.clone()).await {
                Ok(findings) => self.rules = Some((key, findings)),
                // Without Ceph's tools on this machine, the rest of the snapshot is still useful.
                Err(error) => round.miss("the test of the CRUSH rules", one_line(&error), false),
            }
        }
        round.snapshot.rules = self.rules.as_ref().map(|(_, findings)| findings.clone());
    }
}

impl Round<'_> {
    async fn status(&mut self) -> Result<Option<Status>> {
        match with_timeout(self.client.ask_monitors(in_json(prefix("status")))).await {
            Ok(answer) => Ok(self.parse("the status", &answer)),
            Err(error) if error.kind() == ErrorKind::Unavailable => {
                self.monitors_silent = true;
                self.miss(OF_MONITORS, one_line(&error), true);
                Ok(None)
            }
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                let message = "the monitors refused the status query; the client's caps need `mon 'allow r' mgr 'allow r'`";
                Err(Error::permission_denied(message).with_source(error))
            }
            Err(error) => Err(error),
        }
    }

    async fn ask_monitors<T: DeserializeOwned>(&mut self, what: &str, question: Value) -> Option<T> {
        if self.monitors_silent {
            return None;
        }
        match with_timeout(self.client.ask_monitors(in_json(question))).await {
            Ok(answer) => self.parse(what, &answer),
            Err(error) => {
                self.monitors_silent = error.kind() == ErrorKind::Unavailable;
                let why = match error.kind() {
                    ErrorKind::PermissionDenied => {
                        "the monitors refused; the client's caps need `mon 'allow r'`".to_owned()
                    }
                    _ => one_line(&error),
                };
                self.miss(what, why, true);
                None
            }
        }
    }

    /// Reads the data that only the manager has.
    async fn read_manager(&mut self) -> Result<()> {
        let pgs = self.snapshot.digest.as_ref().map_or(0, |digest| digest.num_pgs);
        if pgs <= PGS_MAX {
            let question = json!({ "prefix": "pg dump", "dumpcontents": ["pgs"] });
            let answer: Option<PgDump> = self.ask_manager(SINGLE_PGS, question).await?;
            match answer {
                Some(pgs) if pgs.pg_ready => self.snapshot.pgs = Some(pgs.pg_stats),
                Some(_) => {
                    let why = "the manager has just started and lacks reports of some OSDs; check again in a minute";
                    self.miss(SINGLE_PGS, why, false);
                }
                None => {}
            }
        } else {
            let why = format!("there are more than {PGS_MAX}; the report has their sums");
            self.miss("single placement groups and their last scrubs", why, false);
        }
        let usages: Option<OsdDf> = self.ask_manager("usage of OSDs", prefix("osd df")).await?;
        self.snapshot.usage = usages.map(|usages| usages.nodes);
        let latencies: Option<OsdPerf> = self.ask_manager("latency of OSDs", prefix("osd perf")).await?;
        self.snapshot.latencies = latencies.map(OsdPerf::of_osds);
        Ok(())
    }

    async fn ask_manager<T: DeserializeOwned>(&mut self, what: &str, question: Value) -> Result<Option<T>> {
        let answer = with_timeout(self.client.ask_manager(in_json(question))).await.map_err(manager_error)?;
        Ok(self.parse(what, &answer))
    }

    /// Drops a digest without placement groups if pools have some: no manager has reported yet.
    fn drop_empty_digest(&mut self) {
        let has_pgs = self.snapshot.map.iter().any(|map| !map.pools.is_empty());
        self.snapshot.digest.take_if(|digest| digest.num_pgs == 0 && has_pgs);
    }

    fn parse<T: DeserializeOwned>(&mut self, what: &str, answer: &[u8]) -> Option<T> {
        match parse(answer) {
            Ok(parsed) => Some(parsed),
            Err(error) => {
                self.miss(what, one_line(&error), true);
                None
            }
        }
    }

    fn miss(&mut self, what: &str, why: impl Into<String>, is_problem: bool) {
        self.snapshot.missing.push(Missing { what: what.to_owned(), why: why.into(), is_problem });
    }
}

/// The snapshot of a cluster that is unreachable because no monitor answers. It equals a snapshot
/// of a connected cluster whose monitors have stopped answering.
pub fn snapshot_without_monitors(now_unix_s: u64, error: &Error) -> Snapshot {
    let missing = |(what, why): (&str, String)| Missing { what: what.to_owned(), why, is_problem: true };
    let missing = [(OF_MONITORS, one_line(error)), (OF_MANAGER, MANAGER_UNKNOWN.to_owned())].map(missing);
    Snapshot { now_unix_s, missing: missing.into(), ..Snapshot::default() }
}

/// The reason not to query the manager; `None` if it can be queried.
fn why_no_manager(manager: &Manager, is_known: bool) -> Option<&'static str> {
    match (is_known, manager.available) {
        (false, _) => Some(MANAGER_UNKNOWN),
        (true, false) => Some("no manager is active; start one, and check its log if it stops again"),
        (true, true) => None,
    }
}

/// Faults of the CRUSH rules, except those that the placement groups themselves show better.
async fn rules(client: &dyn ClusterClient, map: OsdMap) -> Result<Vec<lint::Finding>> {
    let crush = with_timeout(client.ask_monitors(in_json(prefix("osd crush dump")))).await?;
    let preview = with_timeout(Preview::read(client)).await?;
    let snapshot = PlacementSnapshot { map, crush: CrushMap::parse(&crush)?, pgs: Vec::new() };
    let findings = tokio::task::spawn_blocking(move || lint(&snapshot, &preview)).await;
    let findings = findings.map_err(|panic| Error::internal("a task panicked").with_source(panic))??;
    Ok(findings.into_iter().filter(|finding| finding.check != Check::Undersized).collect())
}

async fn with_timeout<T>(question: impl Future<Output = Result<T>>) -> Result<T> {
    match tokio::time::timeout(ANSWER_LIMIT, question).await {
        Ok(answer) => answer,
        Err(late) => Err(Error::unavailable("no answer in time")
            .with_source(late)
            .with("limit_s", ANSWER_LIMIT.as_secs())),
    }
}

fn manager_error(error: Error) -> Error {
    if error.kind() != ErrorKind::Unavailable {
        return error;
    }
    let message = "the manager does not answer; `ceph mgr stat` names it, and `ceph mgr fail` lets another one take over";
    Error::unavailable(message)
}

fn prefix(prefix: &str) -> Value {
    json!({ "prefix": prefix })
}

/// The error in one line.
fn one_line(error: &Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{}: {source}", error.message()),
        None => error.message().to_owned(),
    }
}
