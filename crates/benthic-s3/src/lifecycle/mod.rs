//! Lifecycle: removes versions and uploads of a bucket when its rules say so, and moves versions to
//! other storage classes.
//!
//! A *run* goes through all versions of a bucket. Several gateways share the work: a run holds a
//! [lease](crate::lease) on its bucket, and saves the last key that is done, so another run
//! continues after a crash.
//!
//! **A rule removes nothing that it does not match.** Between the listing and a removal, a client
//! may write an object again, give it another tag, or remove its newest version, so that an older
//! one becomes current. So every removal names the version as the run has seen it, and says whether
//! it must be the current one. The store checks both with the removal. The rules and the versioning
//! of the bucket are read again for each page. The same holds for moves.
//!
//! **Time.** A removal says since when it is due, and the store compares that with its own clock,
//! too. So a gateway whose clock is ahead removes nothing early on a cluster.

mod rules;

pub use rules::{Calendar, DAY_MS, Rules, classes};

use crate::events::{EventRules, Origin};
use crate::gateway::tags;
use crate::lease::{self, Lease};
use crate::sal::{
    Bucket, Change, Condition, Delete, Entry, List, ListKind, ListPosition, ListedUpload, RecordKind, Sal,
    Seen, Transition,
};
use benthic_core::{Environment, Error, ErrorKind, OptionalExtension, Result};
use bytes::Bytes;
use futures::StreamExt;
use rules::{Candidate, Candidates, Due, choose};
use s3s::dto::BucketLifecycleConfiguration;
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

/// The attribute of a bucket with its rules, as JSON.
pub const ATTRIBUTE: &str = "lifecycle";
/// How long a run holds its bucket without progress, in milliseconds.
const LEASE_MS: u64 = 10 * 60 * 1_000;
/// Removals that run at the same time.
const REMOVALS_IN_FLIGHT: usize = 16;
/// Moves that run at the same time. Each holds a few data objects in memory.
const MOVES_IN_FLIGHT: usize = 4;
/// Entries of a listing per page, after which the run saves its progress.
const PAGE: u32 = 1_000;

/// The configuration of a bucket; `None` if it has no rules.
///
/// # Errors
/// `Corrupt`.
pub fn configuration(bucket: &Bucket) -> Result<Option<BucketLifecycleConfiguration>> {
    let text = bucket.attributes.get(ATTRIBUTE);
    text.map(|text| serde_json::from_slice(text).map_err(|error| corrupt(&error.to_string()))).transpose()
}

/// Parses the value of [`ATTRIBUTE`].
pub(crate) fn parse_rules(text: &Bytes) -> Result<Rules> {
    let configuration = serde_json::from_slice(text).map_err(|error| corrupt(&error.to_string()))?;
    Rules::parse(&configuration).map_err(|error| corrupt(&error.to_string()))
}

fn corrupt(message: &str) -> Error {
    Error::corrupt(format!("lifecycle rules or tags are damaged: {message}"))
}

/// The state of the lifecycle of a bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// When the run began that is not finished.
    pub began_ms: Option<u64>,
    /// The last key that is done.
    after: Option<String>,
    /// The counters of the run so far.
    pub stats: RunStats,
    /// The end of the last complete run, and its counters.
    pub finished_ms: Option<u64>,
    pub finished: RunStats,
}

/// The counters of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunStats {
    /// Versions that the run looked at.
    pub versions: u64,
    /// Current versions that expired.
    pub expired: u64,
    /// Versions and delete markers that were removed.
    pub removed: u64,
    /// Versions that moved to another storage class.
    pub moved: u64,
    pub aborted_uploads: u64,
    /// Versions that are due, but locked.
    pub locked: u64,
    /// Versions and uploads that could not be removed or moved because of an error.
    pub failed: u64,
}

/// The result of [`Lifecycle::run`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunResult {
    Finished(RunStats),
    /// The bucket has no rules, or is gone.
    NoRules,
    /// Another run holds the bucket.
    Held,
}

/// Runs lifecycles on a store.
pub struct Lifecycle<'a> {
    pub sal: &'a dyn Sal,
    pub environment: &'a Environment,
    pub calendar: Calendar,
}

/// The events of an action: which of them happens depends on the action and the versions.
const EVENTS: [(Change, &str); 3] = [
    (Change::Removed, "LifecycleExpiration:Delete"),
    (Change::MarkerCreated, "LifecycleExpiration:DeleteMarkerCreated"),
    (Change::Moved, "LifecycleTransition"),
];

fn origin() -> Origin {
    Origin { principal: "lifecycle".to_owned(), address: None }
}

enum Outcome {
    Expired,
    Removed,
    Moved,
    /// A pool with data of the version does not answer.
    Unmoved(Error),
    Locked,
    /// The version has changed since the listing, or a tag does not fit.
    Kept,
}

/// Reads the task of a bucket; `None` if no run ever began.
///
/// # Errors
/// `Corrupt`; those of the store.
pub async fn task(sal: &dyn Sal, bucket: &Bucket) -> Result<Option<Task>> {
    lease::progress(sal, RecordKind::Task, bucket, None).await
}

impl Lifecycle<'_> {
    /// Applies the rules of a bucket, unless another run does it already. Continues a run that was
    /// interrupted.
    ///
    /// # Errors
    /// Those of the store. The next run continues.
    pub async fn run(&self, bucket: &Bucket) -> Result<RunResult> {
        if self.reload(bucket).await?.is_none() {
            return Ok(RunResult::NoRules);
        }
        let Some(mut held) = self.take(bucket).await? else { return Ok(RunResult::Held) };
        let mut stopped = self.versions(bucket, &mut held).await;
        if matches!(stopped, Ok(None)) {
            stopped = self.uploads(bucket, &mut held).await;
        }
        match stopped {
            Ok(Some(RunResult::Held)) => return Ok(RunResult::Held),
            Ok(None) => {
                held.progress.finished_ms = Some(self.environment.unix_ms());
                held.progress.finished = held.progress.stats;
                (held.progress.began_ms, held.progress.after) = (None, None);
            }
            Ok(Some(_)) | Err(_) => {}
        }
        let stats = held.progress.stats;
        let released = held.release().await;
        match stopped? {
            Some(result) => Ok(result),
            None => Ok(if released? { RunResult::Finished(stats) } else { RunResult::Held }),
        }
    }

    /// The bucket and its rules as they are now; `None` if it is gone or has no rules.
    async fn reload(&self, bucket: &Bucket) -> Result<Option<(Bucket, Rules)>> {
        let Some(now) = self.sal.bucket(&bucket.name).await.optional()? else { return Ok(None) };
        if now.id != bucket.id {
            return Ok(None);
        }
        let rules = now.attributes.get(ATTRIBUTE).map(parse_rules).transpose()?;
        Ok(rules.map(|rules| (now, rules)))
    }

    /// Takes the lease of a bucket; `None` if another run holds it.
    async fn take(&self, bucket: &Bucket) -> Result<Option<Lease<'_, Task>>> {
        let now_ms = self.environment.unix_ms();
        let begin = |task: &mut Task| {
            if task.began_ms.is_none() {
                task.began_ms = Some(now_ms);
                task.stats = RunStats::default();
            }
        };
        let store = (self.sal, self.environment);
        Lease::take(store, RecordKind::Task, LEASE_MS, (bucket, None), begin).await
    }

    /// Goes through the versions. Returns why it stopped, unless it reached the end.
    async fn versions(&self, bucket: &Bucket, held: &mut Lease<'_, Task>) -> Result<Option<RunResult>> {
        let mut after = held.progress.after.clone().map(|key| ListPosition { key, within: None });
        let mut candidates = Candidates::default();
        loop {
            let page = self.sal.list(bucket, &list(ListKind::Versions, after)).await?;
            after = page.next;
            let mut ready = Vec::new();
            for entry in page.entries {
                if let Entry::Version(version) = entry {
                    held.progress.stats.versions += 1;
                    ready.extend(candidates.next(version));
                }
            }
            if after.is_none() {
                ready.extend(std::mem::take(&mut candidates).finish());
            }
            let is_done = |key: &&String| Some(key.as_str()) != candidates.waiting_key();
            let done_key = ready.iter().rev().map(|candidate| &candidate.version.key).find(is_done).cloned();
            let Some((bucket, rules)) = self.reload(bucket).await? else {
                return Ok(Some(RunResult::NoRules));
            };
            if !self.apply(&bucket, &rules, ready, held).await? {
                return Ok(Some(RunResult::Held));
            }
            held.progress.after = done_key.or(held.progress.after.take());
            if !held.save().await? {
                return Ok(Some(RunResult::Held));
            }
            if after.is_none() {
                return Ok(None);
            }
        }
    }

    /// Removes and moves the objects of a page that are due. False if another run has taken the
    /// bucket.
    async fn apply(
        &self,
        bucket: &Bucket,
        rules: &Rules,
        candidates: Vec<Candidate>,
        held: &mut Lease<'_, Task>,
    ) -> Result<bool> {
        let now_ms = self.environment.unix_ms();
        let events = &EventRules::of_bucket(&bucket.attributes)?;
        let moves = &Semaphore::new(MOVES_IN_FLIGHT);
        let due = candidates.into_iter().filter_map(|candidate| {
            let due = rules.due(&candidate, now_ms, self.calendar);
            (!due.is_empty()).then(|| self.act(bucket, events, candidate, due, moves))
        });
        let removals: Vec<_> = due.collect();
        let mut removals = futures::stream::iter(removals).buffer_unordered(REMOVALS_IN_FLIGHT);
        let mut renewed_ms = self.environment.clock.monotonic_ms();
        while let Some(outcome) = removals.next().await {
            let stats = &mut held.progress.stats;
            match outcome {
                Ok(Outcome::Expired) => stats.expired += 1,
                Ok(Outcome::Removed) => stats.removed += 1,
                Ok(Outcome::Moved) => stats.moved += 1,
                // The pool of a class may be down while all else works.
                Ok(Outcome::Unmoved(error)) => count_failure(&error, bucket, stats),
                Ok(Outcome::Locked) => stats.locked += 1,
                Ok(Outcome::Kept) => {}
                Err(error) => note_failure(error, bucket, stats)?,
            }
            // Moves of large objects may take longer than the lease.
            let now_ms = self.environment.clock.monotonic_ms();
            if now_ms.saturating_sub(renewed_ms) > LEASE_MS / 4 {
                if !held.save().await? {
                    return Ok(false);
                }
                renewed_ms = now_ms;
            }
        }
        Ok(true)
    }

    /// Removes or moves a version that is due by one of these rules.
    async fn act(
        &self,
        bucket: &Bucket,
        events: &EventRules,
        candidate: Candidate,
        due: Vec<Due>,
        moves: &Semaphore,
    ) -> Result<Outcome> {
        let Candidate { version, replaced_ms, .. } = candidate;
        let mut tags = Vec::new();
        if due.iter().any(|due| !due.tags.is_empty()) {
            let Some(object) =
                self.sal.object(bucket, &version.key, Some(version.version)).await.optional()?
            else {
                return Ok(Outcome::Kept);
            };
            // The removal fails if the version has changed since the listing.
            tags = tags::get(&object.attributes).map_err(|error| corrupt(&error.to_string()))?;
        }
        let Some(due) = choose(&due, &tags, version.class.as_deref()) else { return Ok(Outcome::Kept) };
        let expires = replaced_ms.is_none() && !version.marker;
        let events = events.of_change(&version.key, &EVENTS, &origin(), false);
        let seen = Seen { write: version.write, revision: version.revision };
        let condition = match replaced_ms {
            Some(_) => Condition::Replaced(seen),
            None => Condition::Current(seen),
        };
        let due_ms = Some(due.since_ms);
        let done = if due.class.is_some() {
            let (from, class) = (version.class, due.class.clone());
            let (key, version) = (version.key, version.version);
            let transition = Transition { key, version, condition, from, class, due_ms, events };
            // Nobody closes the semaphore.
            let _permit = moves.acquire().await.ok();
            self.sal.transition(bucket, &transition).await.map(|()| Outcome::Moved)
        } else {
            let (key, version) = (version.key, (!expires).then_some(version.version));
            let delete = Delete { key, version, condition, due_ms, events, ..Delete::default() };
            let outcome = if expires { Outcome::Expired } else { Outcome::Removed };
            self.sal.delete(bucket, &delete).await.map(|_| outcome)
        };
        match done {
            Ok(outcome) => Ok(outcome),
            Err(error) => match error.kind() {
                ErrorKind::Conflict | ErrorKind::NotFound => Ok(Outcome::Kept),
                ErrorKind::PermissionDenied => Ok(Outcome::Locked),
                ErrorKind::Unavailable if due.class.is_some() => Ok(Outcome::Unmoved(error)),
                _ => Err(error),
            },
        }
    }

    /// Aborts uploads. Returns why it stopped, unless it reached the end.
    async fn uploads(&self, bucket: &Bucket, held: &mut Lease<'_, Task>) -> Result<Option<RunResult>> {
        let mut after = None;
        loop {
            let page = self.sal.list(bucket, &list(ListKind::Uploads, after)).await?;
            let Some((bucket, rules)) = self.reload(bucket).await? else {
                return Ok(Some(RunResult::NoRules));
            };
            let now_ms = self.environment.unix_ms();
            for entry in page.entries {
                let Entry::Upload(ListedUpload { key, upload, begun_ms, .. }) = entry else { continue };
                if !rules.upload_is_due(&key, begun_ms, now_ms, self.calendar) {
                    continue;
                }
                match self.sal.abort_upload(&bucket, &key, upload).await {
                    Ok(()) => held.progress.stats.aborted_uploads += 1,
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    Err(error) => note_failure(error, &bucket, &mut held.progress.stats)?,
                }
            }
            after = page.next;
            if !held.save().await? {
                return Ok(Some(RunResult::Held));
            }
            if after.is_none() {
                return Ok(None);
            }
        }
    }
}

/// Counts the failure of one removal or move, so that one damaged entry does not stop a run. An
/// error that the next one would get, too, stops it.
fn note_failure(error: Error, bucket: &Bucket, stats: &mut RunStats) -> Result<()> {
    if matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::OutcomeUnknown | ErrorKind::Busy) {
        return Err(error);
    }
    count_failure(&error, bucket, stats);
    Ok(())
}

fn count_failure(error: &Error, bucket: &Bucket, stats: &mut RunStats) {
    stats.failed += 1;
    tracing::warn!(%error, bucket = bucket.name, "a lifecycle rule cannot remove or move an object");
}

fn list(kind: ListKind, after: Option<ListPosition>) -> List {
    List { kind, prefix: String::new(), delimiter: String::new(), after, entries_max: PAGE }
}
