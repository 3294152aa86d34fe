//! Limits the operations and bytes in flight to the OSDs.
//!
//! librados has limits too, but at a limit it blocks the sending thread, which here belongs to an
//! async executor. So the connection raises librados' limits out of reach, and this module enforces
//! its own: an operation above a limit waits without occupying a thread.

use benthic_core::{Clock, Error, ObjectAddress, Result};
use futures::channel::oneshot;
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Operations in flight per store.
pub(crate) const OPERATIONS_MAX: usize = 4_096;
/// Bytes in flight per store, as far as the size is known beforehand: bytes to write and bytes
/// requested. librados copies the bytes to write, so the memory used may be twice as much.
pub(crate) const BYTES_MAX: u64 = 256 << 20;

/// Admission control: the remaining room, and a first-in-first-out queue for it. The queue has no
/// limit of its own: each entry is a future that some caller holds or has dropped, and `enter`
/// removes dropped ones before they pile up.
pub(crate) struct InFlight {
    timeout: Duration,
    clock: Arc<dyn Clock>,
    admission: Mutex<Admission>,
}

struct Admission {
    /// The operations in flight by the number that each got when it was admitted.
    sent: BTreeMap<u64, SentOperation>,
    /// Number of operations admitted so far.
    admitted: u64,
    bytes: u64,
    waiting: VecDeque<WaitingOperation>,
    /// Length of the queue at which `enter` removes cancelled entries.
    sweep_at: usize,
}

/// An operation in flight: its object, and the time at which it was admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SentOperation {
    pub object: ObjectAddress,
    pub since: Duration,
}

struct WaitingOperation {
    bytes: u64,
    operation: SentOperation,
    sender: oneshot::Sender<Permit>,
}

impl Admission {
    fn has_room(&self, bytes: u64) -> bool {
        self.sent.len() < OPERATIONS_MAX && self.bytes.saturating_add(bytes) <= BYTES_MAX
    }

    fn admit(&mut self, of: &Arc<InFlight>, bytes: u64, operation: SentOperation) -> Permit {
        self.admitted += 1;
        self.bytes += bytes;
        self.sent.insert(self.admitted, operation);
        Permit { of: Arc::clone(of), number: self.admitted, bytes, timed_out: false }
    }
}

/// The room that one operation takes until it completes.
pub(crate) struct Permit {
    of: Arc<InFlight>,
    number: u64,
    bytes: u64,
    timed_out: bool,
}

impl Permit {
    pub fn timed_out(&mut self) {
        self.timed_out = true;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.of.release(self.number, self.bytes, self.timed_out);
    }
}

impl InFlight {
    /// Creates the limits for operations that each end within `timeout` of being sent.
    pub fn new(timeout: Duration, clock: Arc<dyn Clock>) -> Arc<InFlight> {
        let admission = Admission {
            sent: BTreeMap::new(),
            admitted: 0,
            bytes: 0,
            waiting: VecDeque::new(),
            sweep_at: OPERATIONS_MAX,
        };
        Arc::new(InFlight { timeout, clock, admission: Mutex::new(admission) })
    }

    /// Waits for room for one operation on `object` that carries at most [`BYTES_MAX`] bytes.
    ///
    /// # Errors
    /// `Unavailable` if the operations ahead get no answer, after at most twice the time-out.
    pub async fn enter(self: &Arc<Self>, bytes: u64, object: ObjectAddress) -> Result<Permit> {
        let operation = SentOperation { object, since: self.clock.monotonic() };
        let receiver = {
            let mut admission = self.admission.lock();
            if admission.waiting.is_empty() && admission.has_room(bytes) {
                return Ok(admission.admit(self, bytes, operation));
            }
            if admission.waiting.len() >= admission.sweep_at {
                admission.waiting.retain(|waiting| !waiting.sender.is_canceled());
                admission.sweep_at = OPERATIONS_MAX.max(2 * admission.waiting.len());
            }
            let (sender, receiver) = oneshot::channel();
            admission.waiting.push_back(WaitingOperation { bytes, operation, sender });
            receiver
        };
        receiver.await.map_err(|_| {
            let message = "the operation was not sent: too many are in flight, and the OSDs do not answer; `ceph health detail` shows \
                 which are down";
            Error::unavailable(message)
        })
    }

    /// The oldest operation in flight. Operations that wait for room are younger.
    pub fn oldest(&self) -> Option<SentOperation> {
        self.admission.lock().sent.values().next().cloned()
    }

    /// The time at which the oldest operation was admitted.
    pub fn oldest_since(&self) -> Option<Duration> {
        self.admission.lock().sent.values().next().map(|sent| sent.since)
    }

    fn release(self: &Arc<Self>, number: u64, bytes: u64, timed_out: bool) {
        let mut freed = Some(bytes);
        let now = self.clock.monotonic();
        loop {
            // Dropped after the lock is released: waking or ending a task must not happen under the
            // lock.
            let mut gone = Vec::new();
            let mut admission = self.admission.lock();
            if let Some(bytes) = freed.take() {
                admission.sent.remove(&number);
                admission.bytes -= bytes;
            }
            // Every sent operation ends within its time-out. So an operation that waits behind a
            // dead OSD fails here and needs no timer of its own.
            let over = |waiting: &WaitingOperation| {
                timed_out && now.saturating_sub(waiting.operation.since) >= self.timeout
            };
            while admission.waiting.front().is_some_and(|first| over(first) || first.sender.is_canceled()) {
                gone.extend(admission.waiting.pop_front());
            }
            let Some(bytes) = admission.waiting.front().map(|first| first.bytes) else { return };
            if !admission.has_room(bytes) {
                return;
            }
            let Some(WaitingOperation { bytes, operation, sender }) = admission.waiting.pop_front() else {
                return;
            };
            let permit = admission.admit(self, bytes, SentOperation { since: now, ..operation });
            drop(admission);
            // If the caller was cancelled meanwhile, the send fails, and dropping the permit
            // returns the room.
            drop(sender.send(permit));
        }
    }
}

#[cfg(test)]
#[path = "in_flight_tests.rs"]
mod tests;
