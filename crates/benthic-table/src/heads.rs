//! Reading and replacing heads. All that changes in a table changes by a compare-and-swap of its head.

use crate::environment::pause;
use crate::head::{HEAD_BYTES_MAX, Head, State};
use crate::ids::{HEADS_NAMESPACE, Id, head_object};
use benthic_core::{Error, ErrorKind, Fetch, ListRequest, Namespaces, ObjectId, Pool, Result, WriteOp};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How often a commit is tried before it is given up. Whoever fails lost to somebody who did not.
const ATTEMPTS_MAX: u32 = 100;
const PAUSE_MS_MAX: u64 = 200;

/// Counts the attempts at something, with a pause between them that grows.
pub(crate) struct Attempts {
    made: u32,
    seed: u64,
}

impl Attempts {
    /// `seed` differs between those who compete.
    pub(crate) fn new(seed: Id) -> Attempts {
        Attempts { made: 0, seed: seed.0 }
    }

    /// Returns when the next attempt may start.
    ///
    /// # Errors
    /// `Busy` if there were enough.
    pub(crate) async fn next(&mut self) -> Result<()> {
        if self.made >= ATTEMPTS_MAX {
            let message = "others change the table all the time; try again when fewer write at once";
            return Err(Error::new(ErrorKind::Busy, message).with("attempts", self.made));
        }
        if self.made > 0 {
            let most_ms = (1_u64 << self.made.min(10)).min(PAUSE_MS_MAX);
            // Not all at the same time again.
            self.seed =
                self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            pause(Duration::from_millis(1 + (self.seed >> 33) % most_ms)).await;
        }
        self.made += 1;
        Ok(())
    }
}

/// The head of the table with one name.
#[derive(Clone)]
pub(crate) struct Heads {
    pub pool: Arc<dyn Pool>,
    pub name: String,
    object: ObjectId,
    round_trip_us: Arc<AtomicU64>,
}

impl Heads {
    pub(crate) fn new(pool: Arc<dyn Pool>, name: &str) -> Result<Heads> {
        let (object, round_trip_us) = (head_object(name)?, Arc::new(AtomicU64::new(u64::MAX)));
        Ok(Heads { pool, name: name.to_owned(), object, round_trip_us })
    }

    /// Names the table in an error.
    pub(crate) fn named(&self, error: Error) -> Error {
        error.with("table", self.address())
    }

    /// The table as people write it: POOL/NAME.
    pub(crate) fn address(&self) -> String {
        format!("{}/{}", self.pool.name(), self.name)
    }

    /// The head and its version, whatever its state.
    ///
    /// # Errors
    /// `NotFound`, `Corrupt`, `Unsupported`.
    pub(crate) async fn read(&self) -> Result<(Head, u64)> {
        let whole = Fetch::read(0, HEAD_BYTES_MAX as u64 + 1);
        let start = Instant::now();
        let (bytes, version) = match self.pool.fetch(&self.object, whole).await {
            Ok(found) => found,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(self.named(Error::new(ErrorKind::NotFound, "no such table")));
            }
            Err(error) => return Err(self.named(error)),
        };
        let took_us = u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.round_trip_us.fetch_min(took_us, Ordering::Relaxed);
        Ok((Head::decode(&bytes).map_err(|error| self.named(error))?, version))
    }

    /// The shortest that the head took to come; nothing if it never came.
    pub(crate) fn round_trip(&self) -> Option<Duration> {
        let took_us = self.round_trip_us.load(Ordering::Relaxed);
        (took_us < u64::MAX).then(|| Duration::from_micros(took_us))
    }

    /// Makes the head; false if the outcome is not known.
    ///
    /// # Errors
    /// `AlreadyExists`, also if the outcome was not known before and it was this very head that was made.
    pub(crate) async fn create(&self, head: &Head) -> Result<bool> {
        self.write(WriteOp::new().create(true).write_full(head.encode()?)).await
    }

    /// Replaces the head if it has this version still; false if it has not or the outcome is not known. Whoever gets false
    /// reads again, and looks whether the change is there.
    ///
    /// # Errors
    /// `NotFound` if the table is gone; as [`Pool::write`].
    pub(crate) async fn replace(&self, head: &Head, version: u64) -> Result<bool> {
        self.write(WriteOp::new().assert_version(version).write_full(head.encode()?)).await
    }

    /// Removes the head if it has this version still, as [`Heads::replace`].
    ///
    /// # Errors
    /// As [`Heads::replace`].
    pub(crate) async fn remove(&self, version: u64) -> Result<bool> {
        self.write(WriteOp::new().assert_version(version).remove()).await
    }

    /// Writes the head, as [`Heads::replace`].
    ///
    /// # Errors
    /// As [`Pool::write`].
    pub(crate) async fn write(&self, op: WriteOp) -> Result<bool> {
        match self.pool.write(&self.object, op).await {
            Ok(_) => Ok(true),
            Err(error) if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::OutcomeUnknown) => {
                Ok(false)
            }
            Err(error) => Err(self.named(error)),
        }
    }

    /// Changes the head, which `change` may be asked for several times: each time on a head that it was not done on, or was,
    /// if the outcome was not known. A head that stays as it is is not written.
    ///
    /// # Errors
    /// What `change` says; `NotFound`, `Busy`; as [`Pool::write`].
    pub(crate) async fn commit<T>(
        &self,
        seed: Id,
        mut change: impl FnMut(&mut Head) -> Result<T> + Send,
    ) -> Result<(T, Head)> {
        let mut attempts = Attempts::new(seed);
        loop {
            attempts.next().await.map_err(|error| self.named(error))?;
            let (before, version) = self.read().await?;
            let mut head = before.clone();
            let value = change(&mut head).map_err(|error| self.named(error))?;
            if head == before || self.replace(&head, version).await? {
                return Ok((value, head));
            }
        }
    }
}

/// Checks that a head is of the table with this id, and that the table is there.
pub(crate) fn check_live(head: &Head, id: Id) -> Result<()> {
    if head.id != id {
        return Err(Error::new(
            ErrorKind::NotFound,
            "the table was dropped, and another has its name; open it again",
        ));
    }
    match head.state {
        State::Live => Ok(()),
        State::Dropping => {
            Err(Error::new(ErrorKind::NotFound, "the table is being dropped; drop it again to finish that"))
        }
    }
}

/// The names of all objects of a namespace.
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

/// The names of the tables of a pool, sorted.
pub(crate) async fn table_names(pool: &Arc<dyn Pool>) -> Result<Vec<String>> {
    let mut names = list_names(pool, HEADS_NAMESPACE).await?;
    names.sort_unstable();
    Ok(names)
}
