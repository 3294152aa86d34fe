//! Checks a store after a power cut. The store must hold exactly the effects of all operations up
//! to some sequence number. That number must be at least the highest one acknowledged as durable
//! before the cut.

use super::record::{Call, Record};
use super::workload::{Action, Script};
use crate::model::oracle::{self, Object};
use benthic_core::{Durability, ErrorKind, Fetch, ListRequest, ObjectId, Pool, Store, limits};
use futures::executor::block_on;
use std::collections::{BTreeMap, BTreeSet};

/// The operations of a workload and the store's answers.
pub struct History {
    operations: Vec<Operation>,
    /// Closed sessions, with the event of the close. Everything acknowledged before a close is
    /// durable.
    closed: Vec<(usize, usize)>,
}

/// The known history of each object, by pool and name.
type Objects = BTreeMap<(String, String), Timeline>;

struct Operation {
    session: usize,
    action: Action,
    began: usize,
    /// The event of the answer, and the version or the error kind.
    answer: Option<(usize, Result<u64, String>)>,
}

impl Operation {
    fn version(&self) -> Option<u64> {
        match (&self.action, &self.answer) {
            (Action::Write { .. }, Some((_, Ok(version)))) => Some(*version),
            _ => None,
        }
    }
}

/// The states of an object, each valid from a sequence number on.
#[derive(Default)]
struct Timeline {
    states: BTreeMap<u64, Option<Object>>,
    /// A possible final state, if the outcome of the last operation is unknown.
    possible: Option<Option<Object>>,
}

impl Timeline {
    fn at(&self, lsn: u64) -> Option<(u64, &Object)> {
        let (version, object) = self.states.range(..=lsn).next_back()?;
        object.as_ref().map(|object| (*version, object))
    }
}

impl History {
    /// Reads the workload's marks from the record.
    ///
    /// # Errors
    /// A description, if the record contradicts itself or an operation failed with an unexpected
    /// error.
    pub fn of(record: &Record, script: &Script) -> Result<History, String> {
        let mut operations: BTreeMap<(usize, usize, usize), Operation> = BTreeMap::new();
        let mut closed = Vec::new();
        let mut threads: BTreeMap<(usize, usize), Vec<Action>> = BTreeMap::new();
        for (at, event) in record.events.iter().enumerate() {
            let Call::Mark { text } = &event.call else { continue };
            let mut words = text.splitn(6, ' ');
            let word = words.next().unwrap_or_default();
            let mut number = || words.next().and_then(|word| word.parse::<usize>().ok()).unwrap_or(0);
            let place = (number(), number(), number());
            match word {
                "begin" => {
                    let actions =
                        threads.entry((place.0, place.1)).or_insert_with(|| script.thread(place.0, place.1));
                    let action =
                        actions.get(place.2).cloned().ok_or_else(|| format!("no such action: {text}"))?;
                    operations.insert(place, Operation { session: place.0, action, began: at, answer: None });
                }
                "done" | "failed" => {
                    let answer = match (word, words.next().unwrap_or_default()) {
                        ("done", version) => Ok(version.parse().unwrap_or(0)),
                        (_, kind) => Err(kind.to_owned()),
                    };
                    let Some(operation) = operations.get_mut(&place) else {
                        return Err(format!("an operation ended that never began: {text}"));
                    };
                    operation.answer = Some((at, answer));
                }
                "closed" => closed.push((place.0, at)),
                _ => {}
            }
        }
        let history = History { operations: operations.into_values().collect(), closed };
        history.objects(record.events.len(), u64::MAX).map(|_| history)
    }

    /// Builds the history of each object from the operations that began before `point`, and from
    /// operations of the same session with a lower version than one of those. Skips operations of
    /// earlier sessions with a version of at least `lost_lsn`.
    fn objects(&self, point: usize, lost_lsn: u64) -> Result<Objects, String> {
        let session = self.session(point);
        let begun = || self.operations.iter().filter(|operation| operation.began < point);
        let last =
            begun().filter(|operation| operation.session == session).filter_map(Operation::version).max();
        let came_before = |operation: &&Operation| {
            operation.began < point
                || operation.session == session
                    && operation.version().is_some_and(|version| Some(version) < last)
        };
        let mut in_order = BTreeMap::new();
        for operation in self.operations.iter().filter(came_before) {
            let (Action::Write { pool, object, op }, Some((_, Ok(version)))) =
                (&operation.action, &operation.answer)
            else {
                continue;
            };
            if self.was_lost(operation.session, *version, point) {
                if *version <= self.durable_lsn(point, Some(operation.session)) {
                    return Err(format!("a later session reused a durable version version={version}"));
                }
            } else if *version >= lost_lsn && operation.session < session {
                continue;
            } else if in_order.insert(*version, (pool, object, op)).is_some() {
                return Err(format!("two operations have the same version version={version}"));
            }
        }
        let mut objects = Objects::new();
        for (version, (pool, object, op)) in in_order {
            let timeline = objects.entry((pool.clone(), object.clone())).or_default();
            let before = timeline.states.values().next_back().cloned().flatten();
            let after =
                oracle::write(before.as_ref(), 0, op).map_err(|kind| format!("{op:?} should be {kind}"))?;
            timeline.states.insert(version, after.object);
        }
        for operation in begun() {
            let unknown = match &operation.answer {
                Some((_, Err(kind))) => kind == ErrorKind::OutcomeUnknown.row().name,
                Some((_, Ok(_))) => false,
                None => true,
            };
            if let (Action::Write { pool, object, op }, true) = (&operation.action, unknown) {
                let timeline = objects.entry((pool.clone(), object.clone())).or_default();
                let before = timeline.states.values().next_back().cloned().flatten();
                timeline.possible = oracle::write(before.as_ref(), 0, op).ok().map(|after| after.object);
            }
        }
        Ok(objects)
    }

    /// Whether a later session, up to `point`, reused the version of an operation. This happens to
    /// buffered operations that a failed disk lost.
    fn was_lost(&self, session: usize, version: u64, point: usize) -> bool {
        let later =
            self.operations.iter().filter(|operation| operation.session > session && operation.began < point);
        later.filter_map(Operation::version).any(|reused| reused <= version)
    }

    fn session(&self, point: usize) -> usize {
        self.operations
            .iter()
            .filter(|operation| operation.began < point)
            .map(|operation| operation.session)
            .max()
            .unwrap_or(0)
    }

    /// Candidates for the first lost version of earlier sessions, where no later operation is known
    /// to have reused it. Pool operations and the cleaner take versions too, but do not report
    /// them.
    fn lost_candidates(&self, point: usize) -> BTreeSet<u64> {
        let session = self.session(point);
        let earlier = self.operations.iter().filter(|operation| operation.session < session);
        let durable: BTreeMap<usize, u64> =
            (0..session).map(|session| (session, self.durable_lsn(point, Some(session)))).collect();
        earlier
            .filter_map(|operation| {
                operation.version().filter(|version| *version > durable[&operation.session])
            })
            .collect()
    }

    /// The number of acknowledged operations, and the error kinds of the failed ones.
    pub fn counts(&self) -> (usize, BTreeSet<String>) {
        let failed = self
            .operations
            .iter()
            .filter_map(|operation| operation.answer.as_ref()?.1.as_ref().err().cloned());
        let acknowledged =
            self.operations.iter().filter(|operation| matches!(operation.answer, Some((_, Ok(_)))));
        (acknowledged.count(), failed.collect())
    }

    /// The highest sequence number that must survive a cut at `point`, for one session or for all.
    fn durable_lsn(&self, point: usize, session: Option<usize>) -> u64 {
        let counts = |operation: &Operation| match session {
            Some(session) => operation.session == session,
            None => {
                !operation.version().is_some_and(|version| self.was_lost(operation.session, version, point))
            }
        };
        let acknowledged = |before: usize, durable_only: bool| {
            let acknowledged =
                self.operations.iter().filter(|operation| counts(operation)).filter_map(|operation| {
                    match (&operation.action, &operation.answer) {
                        (Action::Write { op, .. }, Some((at, Ok(version))))
                            if *at < before && (!durable_only || op.durability == Durability::Durable) =>
                        {
                            Some(*version)
                        }
                        _ => None,
                    }
                });
            acknowledged.max().unwrap_or(0)
        };
        let of_session = |other: usize| session.is_none_or(|session| session == other);
        let flushes = self.operations.iter().filter(|operation| of_session(operation.session)).filter_map(
            |operation| match (&operation.action, &operation.answer) {
                (Action::Flush | Action::CreatePool(_) | Action::RemovePool(_), Some((at, Ok(_))))
                    if *at < point =>
                {
                    Some(operation.began)
                }
                _ => None,
            },
        );
        let closed =
            self.closed.iter().filter(|(session, at)| of_session(*session) && *at < point).map(|(_, at)| *at);
        let flushed = flushes.chain(closed).max().unwrap_or(0);
        acknowledged(point, true).max(acknowledged(flushed, false))
    }

    /// Checks a store that was opened after a cut at `point`.
    ///
    /// # Errors
    /// A description of the violation.
    pub fn check(&self, store: &dyn Store, point: usize) -> Result<(), String> {
        self.check_without(store, point, u64::MAX).or_else(|error| {
            let lost = self.lost_candidates(point);
            let fits = lost.into_iter().any(|lsn| self.check_without(store, point, lsn).is_ok());
            if fits { Ok(()) } else { Err(error) }
        })
    }

    fn check_without(&self, store: &dyn Store, point: usize, lost_lsn: u64) -> Result<(), String> {
        let pools: BTreeSet<String> =
            block_on(store.list_pools()).map_err(|error| error.to_string())?.into_iter().collect();
        self.check_pools(&pools, point)?;
        let objects = self.objects(point, lost_lsn)?;
        let mut found = BTreeMap::new();
        for name in &pools {
            let pool = block_on(store.open_pool(name)).map_err(|error| error.to_string())?;
            let listed = list(&*pool)?;
            for (key, timeline) in objects.iter().filter(|((pool, _), _)| pool == name) {
                let object = &key.1;
                let version = check_object(&*pool, object, timeline)?;
                if version.is_some() != listed.contains(object) {
                    return Err(format!("{name}/{object} listed={}", listed.contains(object)));
                }
                found.insert((name.clone(), object.clone()), version);
            }
            if let Some(unknown) =
                listed.iter().find(|o| !objects.contains_key(&(name.clone(), (*o).clone())))
            {
                return Err(format!("{name}/{unknown} was never written"));
            }
            let page = block_on(pool.scrub(None)).map_err(|error| error.to_string())?;
            if let Some(damage) = page.damage.first() {
                return Err(format!("the scrub of {name} found {damage:?}"));
            }
        }
        let report = block_on(store.fsck()).map_err(|error| error.to_string())?;
        if let Some(finding) = report.findings.first() {
            return Err(format!("fsck found {finding:?}"));
        }
        self.check_prefix(&objects, &found, point)
    }

    fn check_pools(&self, pools: &BTreeSet<String>, point: usize) -> Result<(), String> {
        let mut must: BTreeMap<&str, (bool, bool)> = BTreeMap::new();
        for operation in &self.operations {
            let succeeded = matches!(&operation.answer, Some((at, Ok(_))) if *at < point);
            let may = operation.began < point
                && !matches!(&operation.answer, Some((at, Err(kind))) if *at < point && kind != "outcome_unknown");
            match &operation.action {
                Action::CreatePool(name) => {
                    must.insert(name, (succeeded, may));
                }
                Action::RemovePool(name) => {
                    let entry = must.entry(name).or_default();
                    entry.0 &= !may;
                    entry.1 &= !succeeded;
                }
                _ => {}
            }
        }
        for (name, (must, may)) in must {
            let exists = pools.contains(name);
            if must && !exists || exists && !may {
                return Err(format!("pool {name} exists={exists} must_exist={must} may_exist={may}"));
            }
        }
        Ok(())
    }

    fn check_prefix(
        &self,
        objects: &Objects,
        found: &BTreeMap<(String, String), Option<u64>>,
        point: usize,
    ) -> Result<(), String> {
        let durable = self.durable_lsn(point, None);
        let find_misfit = |lsn: u64| {
            found.iter().find(|(key, version)| {
                let timeline = &objects[*key];
                let expected = timeline.at(lsn).map(|(version, _)| version);
                let last = timeline.states.keys().next_back().copied().unwrap_or(0);
                // An operation with an unknown outcome comes after all known operations on its
                // object.
                let is_possible = timeline.possible.is_some()
                    && lsn >= last
                    && version.is_none_or(|version| version > last);
                expected != **version && !is_possible
            })
        };
        let versions = objects.values().flat_map(|timeline| timeline.states.keys().copied());
        let candidates: BTreeSet<u64> = versions.chain([durable]).filter(|lsn| *lsn >= durable).collect();
        if candidates.iter().any(|lsn| find_misfit(*lsn).is_none()) {
            return Ok(());
        }
        let misfit = find_misfit(durable)
            .map(|((pool, object), version)| format!("{pool}/{object} version={version:?}"));
        Err(format!(
            "the store does not hold a prefix of the operations that includes all durable ones durable_lsn={durable} first_misfit={misfit:?}"
        ))
    }
}

/// Reads an object, checks its content against its version, and returns the version. Returns `None`
/// if the object is missing.
fn check_object(pool: &dyn Pool, name: &str, timeline: &Timeline) -> Result<Option<u64>, String> {
    let place = format!("{}/{name}", pool.name());
    let id = ObjectId::new(name).map_err(|error| error.to_string())?;
    let data = Fetch::read(0, limits::OBJECT_BYTES_MAX / 2);
    let whole = data.and(Fetch::list_xattrs()).and(Fetch::omap_range(None, "", 1_000));
    let (((data, xattrs), omap), version) = match block_on(pool.fetch(&id, whole)) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let found = Object { data: data.to_vec(), xattrs, omap: omap.entries.into_iter().collect() };
    let expected = match timeline.states.get(&version) {
        Some(state) => state.as_ref(),
        None if timeline.states.keys().all(|known| *known < version) => {
            timeline.possible.as_ref().and_then(Option::as_ref)
        }
        None => None,
    };
    match expected {
        None => Err(format!("{place} has an unknown version version={version}")),
        Some(expected) if *expected == found => Ok(Some(version)),
        Some(expected) => Err(format!(
            "{place} is torn version={version} len_bytes={} expected_len_bytes={} same_xattrs={} same_omap={}",
            found.data.len(),
            expected.data.len(),
            found.xattrs == expected.xattrs,
            found.omap == expected.omap,
        )),
    }
}

fn list(pool: &dyn Pool) -> Result<BTreeSet<String>, String> {
    let page = block_on(pool.list(ListRequest::default())).map_err(|error| error.to_string())?;
    Ok(page.objects.iter().map(|id| id.name().to_owned()).collect())
}
