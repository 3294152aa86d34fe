//! Chooses for each object where its part of a computation runs: in the OSD (pushed), or in the
//! client, which reads the bytes that it needs (pulled). Queries of tables and reductions of arrays
//! use it; a *fragment* is such a part.
//!
//! The choice compares the time per byte of the computation's earlier objects, pushed and pulled.
//! The faster way continues, and the other one is tried again from time to time. There is no cost
//! estimate in advance: the amount of work says little about an OSD that others use too.
//! The design is in `docs/design/0005-query-fragments-in-ceph-osd.md`.

use crate::{ClassHost, Store};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The pushdown mode that the user selects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pushdown {
    /// The faster way, as measured during the query on a cluster. In an embedded store, always in
    /// the client.
    #[default]
    Auto,
    /// Push every fragment that the objects accept.
    Always,
    Never,
}

/// The round trip from which a store counts as far. Local networks are faster.
pub const FAR: Duration = Duration::from_millis(3);
/// The slower or untried way is tried once per this many objects, because an OSD may be busy for a
/// while only.
pub const TRY_AGAIN: u64 = 16;
/// A way that is this many times slower is tried only once per [`TRY_AGAIN`]² objects.
const FAR_SLOWER: f64 = 8.0;
/// A trial pull is abandoned if its first rows take this many times longer than a whole pushed
/// fragment.
const GIVE_UP_AFTER: u32 = 2;
/// Default wait for a busy OSD when no timings exist yet.
pub const BUSY_TIMEOUT: Duration = Duration::from_secs(60);
/// Wait for a busy OSD before the first trial pull. It is short because pulling a near object is
/// cheap.
const BUSY_TIMEOUT_NEAR: Duration = Duration::from_millis(20);
/// The same for far objects, before any fragment has run in an OSD.
const BUSY_TIMEOUT_FAR: Duration = Duration::from_secs(2);
/// Shortest time between two retries at a busy OSD.
pub const WAIT_MIN: Duration = Duration::from_millis(2);
/// Longest time between two retries at a busy OSD.
pub const WAIT_MAX: Duration = Duration::from_millis(50);
/// Number of retries in the time that one fragment takes.
const RETRIES: u32 = 8;

/// The next step for an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Push,
    Pull,
    /// Pull the object, but push it if [`Choice::give_up_if_slow`] before the first rows arrive.
    TryPull,
    Wait(Duration),
}

/// Chooses between push and pull for the objects of one fragment.
#[derive(Debug)]
pub struct Choice {
    pushdown: Pushdown,
    is_far: bool,
    measured: Mutex<Measurements>,
}

#[derive(Debug, Default)]
struct Measurements {
    is_refused: bool,
    requests: u64,
    is_trying_pull: bool,
    pushed: Speed,
    pulled: Speed,
}

/// Total time and total size of objects. The size counts whole objects, however much of them was
/// read.
#[derive(Debug, Default)]
struct Speed {
    time: Duration,
    size_bytes: u64,
}

impl Speed {
    fn add(&mut self, size_bytes: u64, time: Duration) {
        self.time += time;
        self.size_bytes += size_bytes;
    }

    /// Expected time for an object of this size, or `None` without a measurement.
    fn of(&self, size_bytes: u64) -> Option<Duration> {
        (self.size_bytes > 0).then(|| self.time.mul_f64(size_bytes as f64 / self.size_bytes as f64))
    }
}

impl Pushdown {
    /// Resolves `Auto` for a store. An embedded store always pulls, since no bytes cross a network.
    #[must_use]
    pub fn in_store(self, store: &dyn Store) -> Pushdown {
        let is_local = store.class_host() == ClassHost::Local;
        if self == Pushdown::Auto && is_local { Pushdown::Never } else { self }
    }
}

impl Choice {
    /// A choice without measurements. `is_far` says that bytes of the objects probably take long to
    /// arrive.
    pub fn new(pushdown: Pushdown, is_far: bool) -> Choice {
        Choice { pushdown, is_far, measured: Mutex::default() }
    }

    fn measurements(&self) -> MutexGuard<'_, Measurements> {
        // Every change of the measurements is complete, so they stay usable after a panic.
        self.measured.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn next(&self, size_bytes: u64) -> Step {
        let mut measured = self.measurements();
        if measured.is_refused || self.pushdown == Pushdown::Never {
            return Step::Pull;
        }
        measured.requests += 1;
        let Some(pushed) = measured.pushed.of(size_bytes).filter(|_| self.pushdown == Pushdown::Auto) else {
            return Step::Push;
        };
        let pulled = measured.pulled.of(size_bytes);
        let (slower, faster) = (pulled.unwrap_or(pushed).max(pushed), pulled.unwrap_or(pushed).min(pushed));
        let is_far_slower = match pulled {
            None => self.is_far,
            Some(_) => slower.as_secs_f64() > FAR_SLOWER * faster.as_secs_f64(),
        };
        let tries =
            measured.requests.is_multiple_of(if is_far_slower { TRY_AGAIN * TRY_AGAIN } else { TRY_AGAIN });
        match pulled {
            Some(pulled) if pulled < pushed && !tries => Step::Pull,
            Some(pulled) if pulled < pushed => Step::Push,
            _ if tries => Step::TryPull,
            _ => Step::Push,
        }
    }

    /// The next step for an object whose OSD has been busy for the time `waited`.
    pub fn next_when_busy(&self, size_bytes: u64, waited: Duration) -> Step {
        let mut measured = self.measurements();
        let pushed = measured.pushed.of(size_bytes);
        let wait = Step::Wait((pushed.unwrap_or_default() / RETRIES).clamp(WAIT_MIN, WAIT_MAX));
        let timeout = match measured.pulled.of(size_bytes) {
            _ if measured.is_refused => return Step::Pull,
            _ if self.pushdown == Pushdown::Always => BUSY_TIMEOUT,
            Some(pulled) => pulled,
            None if measured.is_trying_pull => BUSY_TIMEOUT,
            // One trial pull shows whether waiting is worthwhile. Often only this query's own
            // fragments keep the OSD busy.
            None => {
                let first = match (self.is_far, pushed) {
                    (false, _) => BUSY_TIMEOUT_NEAR,
                    (true, None) => BUSY_TIMEOUT_FAR,
                    (true, Some(pushed)) => GIVE_UP_AFTER * pushed,
                };
                if waited >= first {
                    measured.is_trying_pull = true;
                    return Step::TryPull;
                }
                BUSY_TIMEOUT
            }
        };
        if waited < timeout { wait } else { Step::Pull }
    }

    /// Stops pushing: the objects do not accept this fragment.
    pub fn stop_pushing(&self) {
        self.measurements().is_refused = true;
    }

    /// Records that a reply was too large. `Auto` then stops pushing: the work was wasted, and the
    /// next object is probably similar.
    pub fn note_too_large(&self) {
        if self.pushdown == Pushdown::Auto {
            self.stop_pushing();
        }
    }

    pub fn add_pushed(&self, size_bytes: u64, time: Duration) {
        self.measurements().pushed.add(size_bytes, time);
    }

    /// Whether to abandon a trial pull that has no rows after `time`. If so, pulling counts as far
    /// slower.
    pub fn give_up_if_slow(&self, size_bytes: u64, time: Duration) -> bool {
        let mut measured = self.measurements();
        let is_too_slow = measured.pushed.of(size_bytes).is_some_and(|pushed| time > GIVE_UP_AFTER * pushed);
        if is_too_slow {
            measured.pulled.add(size_bytes, time.mul_f64(FAR_SLOWER));
            measured.is_trying_pull = false;
        }
        is_too_slow
    }

    /// Ends a trial pull that has its first rows. Its further time also depends on how fast the
    /// caller takes the rows.
    pub fn end_trial_pull(&self) {
        self.measurements().is_trying_pull = false;
    }

    pub fn add_pulled(&self, size_bytes: u64, time: Duration) {
        self.measurements().pulled.add(size_bytes, time);
    }
}

#[cfg(test)]
#[path = "pushdown_tests.rs"]
mod tests;
