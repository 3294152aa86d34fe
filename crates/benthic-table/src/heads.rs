//! Reads and replaces heads. Every change of a table is a compare-and-swap of its head.

use crate::head::{HEAD_BYTES_MAX, Head, TableState};
use crate::ids::{Id, head_object};
use crate::pause::pause;
use benthic_core::names::TABLES_NAMESPACE;
use benthic_core::{
    Clock, Environment, Error, ErrorKind, Fetch, ListRequest, Namespaces, ObjectId, Pool, Result, Stopwatch,
    WriteOp,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Attempts at a commit. Each failed attempt means that another writer's commit succeeded.
const ATTEMPTS_MAX: u32 = 100;
const PAUSE_MS_MAX: u64 = 200;

/// Counts attempts, with a growing random delay between them.
pub(crate) struct Attempts {
    made: u32,
    seed: u64,
}

impl Attempts {
    /// `seed` must differ between competing writers.
    pub(crate) fn new(seed: Id) -> Attempts {
        Attempts { made: 0, seed: seed.0 }
    }

    /// Waits until the next attempt may start; `Busy` after the last attempt.
    pub(crate) async fn next(&mut self) -> Result<()> {
        if self.made >= ATTEMPTS_MAX {
            let message =
                "other writers change the table too often; retry later or with fewer concurrent writers";
            return Err(Error::busy(message).with("attempts", self.made));
        }
        if self.made > 0 {
            let most_ms = (1_u64 << self.made.min(10)).min(PAUSE_MS_MAX);
            // A random delay, so that competing writers do not retry at the same time.
            self.seed =
                self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            pause(Duration::from_millis(1 + (self.seed >> 33) % most_ms)).await;
        }
        self.made += 1;
        Ok(())
    }
}

#[derive(Clone)]
pub(crate) struct HeadStore {
    pub pool: Arc<dyn Pool>,
    pub name: String,
    object: ObjectId,
    clock: Arc<dyn Clock>,
    round_trip_us: Arc<AtomicU64>,
}

impl HeadStore {
    pub(crate) fn new(pool: Arc<dyn Pool>, name: &str, environment: &Environment) -> Result<HeadStore> {
        let (object, round_trip_us) = (head_object(name)?, Arc::new(AtomicU64::new(u64::MAX)));
        let clock = Arc::clone(&environment.clock);
        Ok(HeadStore { pool, name: name.to_owned(), object, clock, round_trip_us })
    }

    pub(crate) fn add_context(&self, error: Error) -> Error {
        error.with("table", self.address())
    }

    pub(crate) fn address(&self) -> String {
        format!("{}/{}", self.pool.name(), self.name)
    }

    /// Reads the head and its version, in any state.
    pub(crate) async fn read(&self) -> Result<(Head, u64)> {
        let whole = Fetch::read(0, HEAD_BYTES_MAX as u64 + 1);
        let watch = Stopwatch::start(self.clock.as_ref());
        let (bytes, version) = match self.pool.fetch(&self.object, whole).await {
            Ok(found) => found,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(self.add_context(Error::not_found("no such table")));
            }
            Err(error) => return Err(self.add_context(error)),
        };
        let took_us = u64::try_from(watch.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.round_trip_us.fetch_min(took_us, Ordering::Relaxed);
        Ok((Head::decode(&bytes).map_err(|error| self.add_context(error))?, version))
    }

    /// The shortest time that a read of the head has taken; `None` before the first read.
    pub(crate) fn round_trip(&self) -> Option<Duration> {
        let took_us = self.round_trip_us.load(Ordering::Relaxed);
        (took_us < u64::MAX).then(|| Duration::from_micros(took_us))
    }

    /// Creates the head. Returns false if the outcome is unknown.
    ///
    /// # Errors
    /// `AlreadyExists`, also if an earlier attempt with an unknown outcome created this head.
    pub(crate) async fn create(&self, head: &Head) -> Result<bool> {
        self.write(WriteOp::new().create(true).write_full(head.encode()?)).await
    }

    /// Replaces the head if it still has this version. Returns false if it has not, or if the
    /// outcome is unknown. The caller then reads the head again and checks whether it contains the
    /// change.
    pub(crate) async fn replace(&self, head: &Head, version: u64) -> Result<bool> {
        self.write(WriteOp::new().assert_version(version).write_full(head.encode()?)).await
    }

    /// Removes the head if it still has this version. Returns as [`HeadStore::replace`].
    pub(crate) async fn remove(&self, version: u64) -> Result<bool> {
        self.write(WriteOp::new().assert_version(version).remove()).await
    }

    /// Runs a write operation on the head; returns as [`HeadStore::replace`].
    pub(crate) async fn write(&self, op: WriteOp) -> Result<bool> {
        match self.pool.write(&self.object, op).await {
            Ok(_) => Ok(true),
            Err(error) if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::OutcomeUnknown) => {
                Ok(false)
            }
            Err(error) => Err(self.add_context(error)),
        }
    }

    /// Changes the head by compare-and-swap. `change` may run several times: each time on a fresh
    /// head, which already contains the change if an earlier attempt with an unknown outcome
    /// succeeded. A head that `change` leaves as it is is not written.
    ///
    /// # Errors
    /// The errors of `change`; `NotFound`, `Busy`; as [`Pool::write`].
    pub(crate) async fn commit<T>(
        &self,
        seed: Id,
        mut change: impl FnMut(&mut Head) -> Result<T> + Send,
    ) -> Result<(T, Head)> {
        let mut attempts = Attempts::new(seed);
        loop {
            attempts.next().await.map_err(|error| self.add_context(error))?;
            let (before, version) = self.read().await?;
            let mut head = before.clone();
            let value = change(&mut head).map_err(|error| self.add_context(error))?;
            if head == before || self.replace(&head, version).await? {
                return Ok((value, head));
            }
        }
    }
}

pub(crate) fn check_live(head: &Head, id: Id) -> Result<()> {
    if head.id != id {
        return Err(Error::not_found("the table was dropped, and another table has its name; open it again"));
    }
    match head.state {
        TableState::Live => Ok(()),
        TableState::Dropping => {
            Err(Error::not_found("the table is being dropped; drop it again to complete the drop"))
        }
    }
}

pub(crate) async fn list_names(pool: &Arc<dyn Pool>, namespace: &str) -> Result<Vec<String>> {
    let mut names = Vec::new();
    let mut request =
        ListRequest { namespaces: Namespaces::One(namespace.to_owned()), ..ListRequest::default() };
    loop {
        let page = pool.list(request.clone()).await?;
        names.extend(page.objects.iter().map(|object| object.name().to_owned()));
        match page.next {
            Some(next) => request.after = Some(next),
            None => return Ok(names),
        }
    }
}

pub(crate) async fn table_names(pool: &Arc<dyn Pool>) -> Result<Vec<String>> {
    let mut names = list_names(pool, TABLES_NAMESPACE).await?;
    names.sort_unstable();
    Ok(names)
}
