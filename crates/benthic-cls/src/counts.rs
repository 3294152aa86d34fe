//! Counts a method's calls, failures and total run time.

use benthic_core::{Clock, MethodCalls, Stopwatch};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The call counters of one method in this process. Threads of the OSD update them concurrently
/// without locks.
#[derive(Default)]
pub struct CallCounter {
    calls: AtomicU64,
    failures: AtomicU64,
    busy_ns: AtomicU64,
}

/// A call in progress. It is counted when it ends, and as a failure unless it succeeded; so a panic
/// counts as a failure.
struct CallInProgress<'a> {
    count: &'a CallCounter,
    time: Stopwatch<'a>,
    has_failed: bool,
}

impl CallCounter {
    pub fn measure<T, E>(&self, clock: &dyn Clock, call: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let mut running = CallInProgress { count: self, time: Stopwatch::start(clock), has_failed: true };
        let outcome = call();
        running.has_failed = outcome.is_err();
        outcome
    }

    /// The current counts. A call that ends during the read may be in only some of them.
    pub fn read(&self, name: &str) -> MethodCalls {
        let busy = Duration::from_nanos(self.busy_ns.load(Ordering::Relaxed));
        MethodCalls {
            name: name.to_owned(),
            calls: self.calls.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
            busy_us: u64::try_from(busy.as_micros()).unwrap_or(u64::MAX),
        }
    }
}

impl Drop for CallInProgress<'_> {
    fn drop(&mut self) {
        let busy_ns = u64::try_from(self.time.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.count.calls.fetch_add(1, Ordering::Relaxed);
        self.count.failures.fetch_add(u64::from(self.has_failed), Ordering::Relaxed);
        self.count.busy_ns.fetch_add(busy_ns, Ordering::Relaxed);
    }
}
