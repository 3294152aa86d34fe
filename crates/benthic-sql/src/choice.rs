//! Where a fragment runs: beside the object, or here on the bytes that it needs.

use parking_lot::Mutex;
use std::time::Duration;

/// What the user wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Pushdown {
    /// What is better: on a cluster measured during the query, in a store on this machine always here.
    #[default]
    Auto,
    /// Beside the objects, wherever they take it.
    Always,
    /// Here.
    Never,
}

/// The way that seems slower, or was never tried, is tried once in so many objects: a busy time passes.
const TRY_AGAIN: u64 = 16;
/// A way that was so many times slower is hardly tried again.
const FAR_SLOWER: f64 = 8.0;

/// The choice for the objects of one fragment.
#[derive(Debug)]
pub struct Choice {
    pushdown: Pushdown,
    learnt: Mutex<Learnt>,
}

#[derive(Debug, Default)]
struct Learnt {
    refused: bool,
    asked: u64,
    pushed: Speed,
    pulled: Speed,
}

/// Time by the size of the objects, whatever part of them was needed.
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

    fn ns_per_byte(&self) -> Option<f64> {
        (self.size_bytes > 0).then(|| self.time.as_nanos() as f64 / self.size_bytes as f64)
    }
}

impl Choice {
    /// Nothing is learnt yet.
    pub fn new(pushdown: Pushdown) -> Choice {
        Choice { pushdown, learnt: Mutex::default() }
    }

    /// Whether the next object's fragment is to run beside it.
    pub fn push(&self) -> bool {
        let mut learnt = self.learnt.lock();
        if learnt.refused {
            return false;
        }
        learnt.asked += 1;
        let tries = |every: u64| learnt.asked.is_multiple_of(every);
        match (self.pushdown, learnt.pushed.ns_per_byte(), learnt.pulled.ns_per_byte()) {
            (Pushdown::Never, ..) => false,
            (Pushdown::Always, ..) | (_, None, _) => true,
            (Pushdown::Auto, Some(_), None) => !tries(TRY_AGAIN),
            (Pushdown::Auto, Some(pushed), Some(pulled)) => {
                let is_far = pushed.max(pulled) > FAR_SLOWER * pushed.min(pulled);
                (pushed <= pulled) != tries(if is_far { TRY_AGAIN * TRY_AGAIN } else { TRY_AGAIN })
            }
        }
    }

    /// The objects do not take this fragment, and will not.
    pub fn refused(&self) {
        self.learnt.lock().refused = true;
    }

    /// The answer was too large: work that was for nothing, and the next object is probably like this one.
    pub fn too_large(&self) {
        if self.pushdown == Pushdown::Auto {
            self.refused();
        }
    }

    /// A fragment ran beside an object of this size.
    pub fn pushed(&self, size_bytes: u64, time: Duration) {
        self.learnt.lock().pushed.add(size_bytes, time);
    }

    /// A fragment ran here.
    pub fn pulled(&self, size_bytes: u64, time: Duration) {
        self.learnt.lock().pulled.add(size_bytes, time);
    }
}

#[cfg(test)]
mod tests {
    use super::{Choice, Pushdown, TRY_AGAIN};
    use std::time::Duration;

    fn of(choice: &Choice, times: u64) -> u64 {
        (0..times).filter(|_| choice.push()).count() as u64
    }

    #[test]
    fn auto_pushes_until_it_knows_that_pulling_is_faster() {
        let choice = Choice::new(Pushdown::Auto);
        assert_eq!(of(&choice, 10 * TRY_AGAIN), 10 * TRY_AGAIN);
        choice.pushed(1_000, Duration::from_micros(50));
        assert_eq!(of(&choice, 10 * TRY_AGAIN), 10 * (TRY_AGAIN - 1));
        choice.pulled(2_000, Duration::from_micros(20));
        assert_eq!(of(&choice, 10 * TRY_AGAIN), 10);
        choice.pulled(1_000, Duration::from_micros(180));
        assert_eq!(of(&choice, 10 * TRY_AGAIN), 10 * (TRY_AGAIN - 1));
        choice.pulled(1_000, Duration::from_secs(1));
        assert!(of(&choice, 10 * TRY_AGAIN) >= 10 * TRY_AGAIN - 1);
    }

    #[test]
    fn what_was_refused_is_not_sent_again() {
        for (pushdown, after_too_large) in [(Pushdown::Auto, 0), (Pushdown::Always, 3), (Pushdown::Never, 0)]
        {
            let choice = Choice::new(pushdown);
            assert_eq!(choice.push(), pushdown != Pushdown::Never);
            choice.too_large();
            assert_eq!(of(&choice, 3), after_too_large, "{pushdown:?}");
            choice.refused();
            assert_eq!(of(&choice, 3), 0, "{pushdown:?}");
        }
    }
}
