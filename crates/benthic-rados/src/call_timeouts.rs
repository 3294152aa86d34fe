//! Cancels calls of native methods that take too long.
//!
//! A method that never returns blocks a thread of its OSD. After 15 s the OSD stops answering the
//! other OSDs, and after `osd_heartbeat_grace` (20 s) more the monitors mark it down. librados then
//! sends the operation to the next OSD, which hangs as well. So each call has its own time-out,
//! which is shorter than that: the deadline of methods plus time for the network and for the
//! operations ahead. A cancelled operation is never sent again.
//!
//! librados' `rados_osd_op_timeout` holds for all operations of a connection. It is longer, because
//! other operations should survive the loss of an OSD. Calls of built-in classes keep it, too:
//! their methods always check the deadline.

use benthic_core::{Clock, Error, Result, limits};
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The default time-out of a call.
pub(crate) const TIMEOUT_MS: u64 = limits::METHOD_DEADLINE_MS + 8_000;
/// Ceph's default of `osd_heartbeat_grace`.
const HEARTBEAT_GRACE_MS: u64 = 20_000;
const _: () = assert!(TIMEOUT_MS < HEARTBEAT_GRACE_MS);

/// An operation that can be cancelled. Cancelling one that has ended does nothing.
pub(crate) trait Cancel: Send + Sync {
    fn cancel(&self);
}

/// The calls in flight, and the thread that cancels them. The thread ends when this is dropped and
/// no call is left.
pub(crate) struct CallTimeouts(Arc<Shared>);

struct Shared {
    timeout: Duration,
    clock: Arc<dyn Clock>,
    calls: Mutex<Calls>,
    changed: Condvar,
}

#[derive(Default)]
struct Calls {
    /// By number, which is the order of the deadlines.
    running: BTreeMap<u64, Call>,
    started: u64,
    closed: bool,
}

struct Call {
    deadline: Duration,
    op: Arc<dyn Cancel>,
}

/// Watches one call until it is dropped.
pub(crate) struct CallTimer {
    of: Arc<Shared>,
    number: u64,
}

impl Drop for CallTimer {
    fn drop(&mut self) {
        let mut calls = self.of.calls.lock();
        let call = calls.running.remove(&self.number);
        let is_last = calls.closed && calls.running.is_empty();
        drop(calls);
        if is_last {
            self.of.changed.notify_one();
        }
        drop(call);
    }
}

impl CallTimeouts {
    /// Starts the thread.
    ///
    /// # Errors
    /// `Unavailable` if the machine has no thread left.
    pub fn start(timeout: Duration, clock: Arc<dyn Clock>) -> Result<CallTimeouts> {
        let shared = Shared { timeout, clock, calls: Mutex::default(), changed: Condvar::new() };
        let timeouts = CallTimeouts(Arc::new(shared));
        let shared = Arc::clone(&timeouts.0);
        std::thread::Builder::new()
            .name("rados-calls".to_owned())
            .spawn(move || watch(&shared))
            .map_err(|error| Error::unavailable("cannot start a thread").with_source(error))?;
        Ok(timeouts)
    }

    pub fn timeout(&self) -> Duration {
        self.0.timeout
    }

    /// Starts the time of a call that is about to be sent.
    pub fn watch(&self, op: Arc<dyn Cancel>) -> CallTimer {
        let deadline = self.0.clock.monotonic() + self.0.timeout;
        let mut calls = self.0.calls.lock();
        calls.started += 1;
        let number = calls.started;
        let wakes = calls.running.is_empty();
        calls.running.insert(number, Call { deadline, op });
        drop(calls);
        if wakes {
            self.0.changed.notify_one();
        }
        CallTimer { of: Arc::clone(&self.0), number }
    }
}

impl Drop for CallTimeouts {
    fn drop(&mut self) {
        self.0.calls.lock().closed = true;
        self.0.changed.notify_one();
    }
}

impl Calls {
    /// Removes the first call if its deadline has passed.
    fn take_late(&mut self, now: Duration) -> Option<Call> {
        let first = self.running.first_entry()?;
        (first.get().deadline <= now).then(|| first.remove())
    }
}

fn watch(shared: &Shared) {
    let mut calls = shared.calls.lock();
    loop {
        let now = shared.clock.monotonic();
        if let Some(late) = calls.take_late(now) {
            // Not under the lock: librados takes locks of its own.
            parking_lot::MutexGuard::unlocked(&mut calls, || late.op.cancel());
            continue;
        }
        match calls.running.first_key_value() {
            Some((_, first)) => {
                let left = first.deadline.saturating_sub(now);
                let _ = shared.changed.wait_for(&mut calls, left);
            }
            None if calls.closed => return,
            None => shared.changed.wait(&mut calls),
        }
    }
}

#[cfg(test)]
#[path = "call_timeouts_tests.rs"]
mod tests;
