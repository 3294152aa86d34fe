//! Chooses for each object where its fragment runs: in the OSD (pushed), or in the client, which
//! reads the bytes that it needs (pulled).
//!
//! The choice compares the time per byte of this query's earlier objects, pushed and pulled. The
//! faster way continues, and the other one is tried again from time to time. There is no cost
//! estimate in advance: the cost of a plan in rows says little about an OSD that others use too.
//! The design is in `docs/design/0005-query-fragments-in-ceph-osd.md`.

use benthic_core::{ClassHost, Store};
use parking_lot::Mutex;
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
    /// Pull every object.
    Never,
}

/// The slower or untried way is tried once per this many objects, because an OSD may be busy for a
/// while only.
const TRY_AGAIN: u64 = 16;
/// A way that is this many times slower is tried only once per [`TRY_AGAIN`]² objects.
const FAR_SLOWER: f64 = 8.0;
/// A trial pull is abandoned if its first rows take this many times longer than a whole pushed
/// fragment.
const GIVE_UP_AFTER: u32 = 2;
/// Default wait for a busy OSD when no timings exist yet.
const BUSY_TIMEOUT: Duration = Duration::from_secs(60);
/// Wait for a busy OSD before the first trial pull. It is short because pulling a near object is
/// cheap.
const BUSY_TIMEOUT_NEAR: Duration = Duration::from_millis(20);
/// The same for far objects, before any fragment has run in an OSD.
const BUSY_TIMEOUT_FAR: Duration = Duration::from_secs(2);
/// Limits of the time between two retries at a busy OSD.
const WAIT_MIN: Duration = Duration::from_millis(2);
const WAIT_MAX: Duration = Duration::from_millis(50);
/// Number of retries in the time that one fragment takes.
const QUESTIONS: u32 = 8;

/// The next step for an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Push the fragment.
    Beside,
    /// Pull the object.
    Here,
    /// Pull the object, but push it if [`Choice::gives_up`] before the first rows arrive.
    TryHere,
    /// Retry the push after this time.
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
    refused: bool,
    asked: u64,
    tries_here: bool,
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

    /// The next step for a new object.
    pub fn next(&self, size_bytes: u64) -> Way {
        let mut measured = self.measured.lock();
        if measured.refused || self.pushdown == Pushdown::Never {
            return Way::Here;
        }
        measured.asked += 1;
        let Some(pushed) = measured.pushed.of(size_bytes).filter(|_| self.pushdown == Pushdown::Auto) else {
            return Way::Beside;
        };
        let pulled = measured.pulled.of(size_bytes);
        let (slower, faster) = (pulled.unwrap_or(pushed).max(pushed), pulled.unwrap_or(pushed).min(pushed));
        let is_far_slower = match pulled {
            None => self.is_far,
            Some(_) => slower.as_secs_f64() > FAR_SLOWER * faster.as_secs_f64(),
        };
        let tries =
            measured.asked.is_multiple_of(if is_far_slower { TRY_AGAIN * TRY_AGAIN } else { TRY_AGAIN });
        match pulled {
            Some(pulled) if pulled < pushed && !tries => Way::Here,
            Some(pulled) if pulled < pushed => Way::Beside,
            _ if tries => Way::TryHere,
            _ => Way::Beside,
        }
    }

    /// The next step for an object whose OSD has been busy for the time `waited`.
    pub fn busy(&self, size_bytes: u64, waited: Duration) -> Way {
        let mut measured = self.measured.lock();
        let pushed = measured.pushed.of(size_bytes);
        let wait = Way::Wait((pushed.unwrap_or_default() / QUESTIONS).clamp(WAIT_MIN, WAIT_MAX));
        let timeout = match measured.pulled.of(size_bytes) {
            _ if measured.refused => return Way::Here,
            _ if self.pushdown == Pushdown::Always => BUSY_TIMEOUT,
            Some(pulled) => pulled,
            None if measured.tries_here => BUSY_TIMEOUT,
            // One trial pull shows whether waiting is worthwhile. Often only this query's own
            // fragments keep the OSD busy.
            None => {
                let first = match (self.is_far, pushed) {
                    (false, _) => BUSY_TIMEOUT_NEAR,
                    (true, None) => BUSY_TIMEOUT_FAR,
                    (true, Some(pushed)) => GIVE_UP_AFTER * pushed,
                };
                if waited >= first {
                    measured.tries_here = true;
                    return Way::TryHere;
                }
                BUSY_TIMEOUT
            }
        };
        if waited < timeout { wait } else { Way::Here }
    }

    /// Stops pushing: the objects do not accept this fragment.
    pub fn stop_pushing(&self) {
        self.measured.lock().refused = true;
    }

    /// Records that a reply was too large. `Auto` then stops pushing: the work was wasted, and the
    /// next object is probably similar.
    pub fn note_too_large(&self) {
        if self.pushdown == Pushdown::Auto {
            self.stop_pushing();
        }
    }

    /// Records a pushed fragment.
    pub fn add_pushed(&self, size_bytes: u64, time: Duration) {
        self.measured.lock().pushed.add(size_bytes, time);
    }

    /// Whether to abandon a trial pull that has no rows after `time`. If so, pulling counts as far
    /// slower.
    pub fn gives_up(&self, size_bytes: u64, time: Duration) -> bool {
        let mut measured = self.measured.lock();
        let gives_up = measured.pushed.of(size_bytes).is_some_and(|pushed| time > GIVE_UP_AFTER * pushed);
        if gives_up {
            measured.pulled.add(size_bytes, time.mul_f64(FAR_SLOWER));
            measured.tries_here = false;
        }
        gives_up
    }

    /// Ends a trial pull that has its first rows. Its further time also depends on how fast the
    /// caller takes the rows.
    pub fn note_rows_here(&self) {
        self.measured.lock().tries_here = false;
    }

    /// Records a pulled object.
    pub fn add_pulled(&self, size_bytes: u64, time: Duration) {
        let mut measured = self.measured.lock();
        measured.pulled.add(size_bytes, time);
    }
}

#[cfg(test)]
mod tests {
    use super::{BUSY_TIMEOUT, Choice, Pushdown, TRY_AGAIN, WAIT_MAX, WAIT_MIN, Way};
    use std::time::Duration;

    const MS: Duration = Duration::from_millis(1);

    /// Counts the next objects for which the choice matches.
    fn count(choice: &Choice, times: u64, wanted: impl Fn(Way) -> bool) -> u64 {
        (0..times).filter(|_| wanted(choice.next(1_000))).count() as u64
    }

    #[test]
    fn auto_pushes_until_it_knows_that_pulling_is_faster() {
        let choice = Choice::new(Pushdown::Auto, false);
        assert_eq!(count(&choice, 10 * TRY_AGAIN, |way| way == Way::Beside), 10 * TRY_AGAIN);
        choice.add_pushed(1_000, 50 * MS);
        assert_eq!(count(&choice, 10 * TRY_AGAIN, |way| way == Way::TryHere), 10);
        assert_eq!(count(&choice, 10 * TRY_AGAIN, |way| way == Way::Beside), 10 * (TRY_AGAIN - 1));
        choice.add_pulled(2_000, 20 * MS);
        assert_eq!(count(&choice, 10 * TRY_AGAIN, |way| way == Way::Here), 10 * (TRY_AGAIN - 1));
        choice.add_pulled(1_000, 180 * MS);
        assert_eq!(count(&choice, 10 * TRY_AGAIN, |way| way == Way::Beside), 10 * (TRY_AGAIN - 1));
        choice.add_pulled(1_000, 10_000 * MS);
        assert!(count(&choice, 10 * TRY_AGAIN, |way| way == Way::Beside) >= 10 * TRY_AGAIN - 1);
    }

    #[test]
    fn what_was_refused_is_not_sent_again() {
        for (pushdown, after_too_large) in [(Pushdown::Auto, 0), (Pushdown::Always, 3), (Pushdown::Never, 0)]
        {
            let choice = Choice::new(pushdown, false);
            assert_eq!(choice.next(1) == Way::Beside, pushdown != Pushdown::Never);
            choice.note_too_large();
            assert_eq!(count(&choice, 3, |way| way == Way::Beside), after_too_large, "{pushdown:?}");
            choice.stop_pushing();
            assert_eq!(count(&choice, 3, |way| way == Way::Here), 3, "{pushdown:?}");
            assert_eq!(choice.busy(1, Duration::ZERO), Way::Here);
        }
    }

    #[test]
    fn a_busy_osd_is_worth_waiting_for_as_long_as_pulling_takes() {
        let choice = Choice::new(Pushdown::Auto, false);
        // Nothing is measured yet: one object is pulled as a trial while the others wait.
        assert_eq!(choice.busy(1_000, Duration::ZERO), Way::Wait(WAIT_MIN));
        assert_eq!(choice.busy(1_000, 20 * MS), Way::TryHere);
        assert_eq!(choice.busy(1_000, 300 * MS), Way::Wait(WAIT_MIN));
        assert!(!choice.gives_up(1_000, 10_000 * MS));
        choice.note_rows_here();
        choice.add_pulled(1_000, 160 * MS);
        choice.add_pushed(1_000, 80 * MS);
        assert_eq!(choice.busy(1_000, 159 * MS), Way::Wait(10 * MS));
        assert_eq!(choice.busy(1_000, 160 * MS), Way::Here);
        choice.add_pushed(1_000_000, 10_000_000 * MS);
        assert_eq!(choice.busy(1_000, Duration::ZERO), Way::Wait(WAIT_MAX));

        let always = Choice::new(Pushdown::Always, true);
        always.add_pulled(1_000, MS);
        assert_eq!(always.busy(1_000, 10_000 * MS), Way::Wait(WAIT_MIN));
        assert_eq!(always.busy(1_000, BUSY_TIMEOUT), Way::Here);
    }

    #[test]
    fn objects_that_are_far_are_tried_here_only_when_osds_stay_busy() {
        let choice = Choice::new(Pushdown::Auto, true);
        assert_eq!(choice.busy(1_000, 1_999 * MS), Way::Wait(WAIT_MIN));
        assert_eq!(choice.busy(1_000, 2_000 * MS), Way::TryHere);
        let choice = Choice::new(Pushdown::Auto, true);
        choice.add_pushed(1_000, 80 * MS);
        assert_eq!(choice.busy(1_000, 159 * MS), Way::Wait(10 * MS));
        assert_eq!(count(&choice, 15 * TRY_AGAIN, |way| way == Way::Beside), 15 * TRY_AGAIN);
        assert_eq!(choice.busy(1_000, 160 * MS), Way::TryHere);
    }

    #[test]
    fn a_try_that_takes_too_long_is_given_up_and_known_to_be_slow() {
        let choice = Choice::new(Pushdown::Auto, false);
        assert_eq!(choice.busy(1_000, 20 * MS), Way::TryHere);
        choice.add_pushed(1_000, 100 * MS);
        assert!(!choice.gives_up(1_000, 200 * MS) && choice.gives_up(1_000, 201 * MS));
        assert!(matches!(choice.busy(1_000, 1_600 * MS), Way::Wait(_)));
        assert_eq!(choice.busy(1_000, 1_700 * MS), Way::Here);
        assert!(count(&choice, 10 * TRY_AGAIN, |way| way == Way::Beside) >= 10 * TRY_AGAIN - 1);
    }
}
