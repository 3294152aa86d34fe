//! Counts the calls, failures and total run time of methods: those of the library, and those of the
//! guests that they run.

use benthic_core::{ClassCalls, ErrorKind, GuestCost, GuestMethod, MethodCalls, Result};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Limit of the guests' methods that are counted. Clients choose their names.
const GUEST_METHODS_MAX: usize = 1_024;

/// The call counters of one method in this process. Threads of the OSD update them concurrently
/// without locks.
#[derive(Default)]
pub struct CallCounter {
    calls: AtomicU64,
    failures: AtomicU64,
    faults: AtomicU64,
    busy_ns: AtomicU64,
}

impl CallCounter {
    pub fn add<T>(&self, outcome: &Result<T>, busy: Duration) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.failures.fetch_add(u64::from(outcome.is_err()), Ordering::Relaxed);
        self.faults.fetch_add(u64::from(is_fault(outcome)), Ordering::Relaxed);
        self.busy_ns.fetch_add(in_ns(busy), Ordering::Relaxed);
    }

    /// The current counts. A call that ends during the read may be in only some of them.
    pub fn read(&self, name: &str) -> MethodCalls {
        MethodCalls {
            name: name.to_owned(),
            calls: self.calls.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
            faults: self.faults.load(Ordering::Relaxed),
            busy_us: self.busy_ns.load(Ordering::Relaxed) / 1_000,
            fuel: 0,
            memory_bytes_max: 0,
        }
    }
}

fn is_fault<T>(outcome: &Result<T>) -> bool {
    outcome.as_ref().is_err_and(|error| error.kind() == ErrorKind::ClassFailed)
}

fn in_ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The call counters of the most recently called guest methods. The counters of an evicted method
/// restart at 0.
#[derive(Default)]
pub struct GuestCounters(Mutex<Guests>);

#[derive(Default)]
struct Guests {
    counts: HashMap<GuestMethod, GuestCount>,
    /// A logical clock for the eviction.
    calls: u64,
}

#[derive(Default)]
struct GuestCount {
    calls: u64,
    failures: u64,
    faults: u64,
    busy_ns: u64,
    fuel: u64,
    memory_bytes_max: u64,
    /// The value of the clock at the last call.
    last_call: u64,
}

impl GuestCounters {
    pub fn add<T>(&self, method: GuestMethod, outcome: &Result<T>, busy: Duration, cost: GuestCost) {
        let mut guests = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Guests { counts, calls } = &mut *guests;
        *calls += 1;
        if counts.len() >= GUEST_METHODS_MAX && !counts.contains_key(&method) {
            let oldest =
                counts.iter().min_by_key(|(_, count)| count.last_call).map(|(method, _)| method.clone());
            oldest.and_then(|oldest| counts.remove(&oldest));
        }
        let count = counts.entry(method).or_default();
        count.calls += 1;
        count.failures += u64::from(outcome.is_err());
        count.faults += u64::from(is_fault(outcome));
        count.busy_ns = count.busy_ns.saturating_add(in_ns(busy));
        count.fuel = count.fuel.saturating_add(cost.fuel);
        count.memory_bytes_max = count.memory_bytes_max.max(cost.memory_bytes);
        count.last_call = *calls;
    }

    /// A class for each version of each guest, in order.
    pub fn read(&self) -> Vec<ClassCalls> {
        let mut classes: BTreeMap<(String, String), Vec<MethodCalls>> = BTreeMap::new();
        for (guest, count) in &self.0.lock().unwrap_or_else(PoisonError::into_inner).counts {
            classes.entry((guest.class.clone(), guest.version.clone())).or_default().push(MethodCalls {
                name: guest.method.clone(),
                calls: count.calls,
                failures: count.failures,
                faults: count.faults,
                busy_us: count.busy_ns / 1_000,
                fuel: count.fuel,
                memory_bytes_max: count.memory_bytes_max,
            });
        }
        let class = |((name, version), mut methods): ((String, String), Vec<MethodCalls>)| {
            methods.sort_by(|a, b| a.name.cmp(&b.name));
            ClassCalls { name, version: Some(version), methods }
        };
        classes.into_iter().map(class).collect()
    }
}

#[cfg(test)]
#[path = "counts_tests.rs"]
mod tests;
