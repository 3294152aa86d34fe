//! Limits the operations and bytes in flight to the OSDs.
//!
//! librados has limits too, but at a limit it blocks the sending thread, which here belongs to an
//! async executor. So the connection raises librados' limits out of reach, and this module enforces
//! its own: an operation above a limit waits without occupying a thread.

use benthic_core::{Clock, Error, ErrorKind, Result};
use futures::channel::oneshot;
use parking_lot::Mutex;
use std::collections::VecDeque;
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
    operations: usize,
    bytes: u64,
    waiting: VecDeque<WaitingOperation>,
    /// Length of the queue at which `enter` removes cancelled entries.
    sweep_at: usize,
}

struct WaitingOperation {
    bytes: u64,
    since: Duration,
    sender: oneshot::Sender<Permit>,
}

impl Admission {
    fn take(&mut self, bytes: u64) -> bool {
        let fits = self.operations < OPERATIONS_MAX && self.bytes.saturating_add(bytes) <= BYTES_MAX;
        if fits {
            self.operations += 1;
            self.bytes += bytes;
        }
        fits
    }
}

/// The room that one operation takes until it completes.
pub(crate) struct Permit {
    of: Arc<InFlight>,
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
        self.of.release(self.bytes, self.timed_out);
    }
}

impl InFlight {
    /// Creates the limits for operations that each end within `timeout` of being sent.
    pub fn new(timeout: Duration, clock: Arc<dyn Clock>) -> Arc<InFlight> {
        let admission =
            Admission { operations: 0, bytes: 0, waiting: VecDeque::new(), sweep_at: OPERATIONS_MAX };
        Arc::new(InFlight { timeout, clock, admission: Mutex::new(admission) })
    }

    /// Waits for room for one operation that carries at most [`BYTES_MAX`] bytes.
    ///
    /// # Errors
    /// `Unavailable` if the operations ahead get no answer, after at most twice the time-out.
    pub async fn enter(self: &Arc<Self>, bytes: u64) -> Result<Permit> {
        let receiver = {
            let mut admission = self.admission.lock();
            if admission.waiting.is_empty() && admission.take(bytes) {
                return Ok(self.permit(bytes));
            }
            if admission.waiting.len() >= admission.sweep_at {
                admission.waiting.retain(|waiting| !waiting.sender.is_canceled());
                admission.sweep_at = OPERATIONS_MAX.max(2 * admission.waiting.len());
            }
            let (sender, receiver) = oneshot::channel();
            admission.waiting.push_back(WaitingOperation { bytes, since: self.clock.monotonic(), sender });
            receiver
        };
        receiver.await.map_err(|_| {
            let message = "the operation was not sent: too many are in flight, and the OSDs do not answer; `ceph health detail` shows \
                 which are down";
            Error::new(ErrorKind::Unavailable, message)
        })
    }

    fn permit(self: &Arc<Self>, bytes: u64) -> Permit {
        Permit { of: Arc::clone(self), bytes, timed_out: false }
    }

    fn release(self: &Arc<Self>, bytes: u64, timed_out: bool) {
        let mut freed = Some(bytes);
        let now = self.clock.monotonic();
        loop {
            // Dropped after the lock is released: waking or ending a task must not happen under the
            // lock.
            let mut gone = Vec::new();
            let mut admission = self.admission.lock();
            if let Some(bytes) = freed.take() {
                admission.operations -= 1;
                admission.bytes -= bytes;
            }
            // Every sent operation ends within its time-out. So an operation that waits behind a
            // dead OSD fails here and needs no timer of its own.
            let over =
                |waiting: &WaitingOperation| timed_out && now.saturating_sub(waiting.since) >= self.timeout;
            while admission.waiting.front().is_some_and(|first| over(first) || first.sender.is_canceled()) {
                gone.extend(admission.waiting.pop_front());
            }
            let Some(bytes) = admission.waiting.front().map(|first| first.bytes) else { return };
            if !admission.take(bytes) {
                return;
            }
            let next = admission.waiting.pop_front();
            drop(admission);
            // If the caller was cancelled meanwhile, the send fails, and dropping the permit
            // returns the room.
            drop(next.map(|next| next.sender.send(self.permit(bytes))));
        }
    }
}

#[cfg(test)]
#[path = "in_flight_tests.rs"]
mod tests;
