//! How much is in flight to the OSDs.
//!
//! librados has limits too, but at one of them it blocks the thread that sends, which here is an executor's. So its own
//! are lifted out of reach when a store connects, and these hold in their place: an operation over a limit waits without a thread.

use benthic_core::{Clock, Error, ErrorKind, Result};
use futures::channel::oneshot;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Operations of one store in flight.
pub(crate) const OPERATIONS_MAX: usize = 4_096;
/// Bytes that they carry, as far as it is known beforehand: what is written, and what is asked for. librados copies what
/// is written, so it may take as much again.
pub(crate) const BYTES_MAX: u64 = 256 << 20;

/// The room that is left, and a first-in-first-out queue for it. The queue has no limit of its own: each entry
/// is a future that some caller keeps, or one that was dropped, and dropped ones are removed before there are too many.
pub(crate) struct InFlight {
    timeout: Duration,
    clock: Arc<dyn Clock>,
    admission: Mutex<Admission>,
}

struct Admission {
    operations: usize,
    bytes: u64,
    waiting: VecDeque<Waiting>,
    /// Length of the queue at which cancelled entries are removed.
    sweep_at: usize,
}

struct Waiting {
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

/// The room of one operation, until it is answered.
pub(crate) struct Permit {
    of: Arc<InFlight>,
    bytes: u64,
    timed_out: bool,
}

impl Permit {
    /// The operation was not answered in time.
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
    /// Room for operations that end `timeout` after they were sent.
    pub fn new(timeout: Duration, clock: Arc<dyn Clock>) -> Arc<InFlight> {
        let admission =
            Admission { operations: 0, bytes: 0, waiting: VecDeque::new(), sweep_at: OPERATIONS_MAX };
        Arc::new(InFlight { timeout, clock, admission: Mutex::new(admission) })
    }

    /// Waits for room for one operation that carries at most [`BYTES_MAX`].
    ///
    /// # Errors
    /// `Unavailable` if the operations ahead are not answered: after twice the time-out at most.
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
            admission.waiting.push_back(Waiting { bytes, since: self.clock.monotonic(), sender });
            receiver
        };
        receiver.await.map_err(|_| {
            Error::new(
                ErrorKind::Unavailable,
                "not sent: too many operations are in flight, and the OSDs do not answer; `ceph health detail` says what \
                 is down",
            )
        })
    }

    fn permit(self: &Arc<Self>, bytes: u64) -> Permit {
        Permit { of: Arc::clone(self), bytes, timed_out: false }
    }

    fn release(self: &Arc<Self>, bytes: u64, timed_out: bool) {
        let mut freed = Some(bytes);
        let now = self.clock.monotonic();
        loop {
            // Dropped after the lock: what wakes or ends a task does not belong under it.
            let mut gone = Vec::new();
            let mut admission = self.admission.lock();
            if let Some(bytes) = freed.take() {
                admission.operations -= 1;
                admission.bytes -= bytes;
            }
            // Every operation that was sent ends by its time-out. So an operation that waits behind a dead OSD fails here and
            // needs no timer of its own.
            let over = |waiting: &Waiting| timed_out && now.saturating_sub(waiting.since) >= self.timeout;
            while admission.waiting.front().is_some_and(|first| over(first) || first.sender.is_canceled()) {
                gone.extend(admission.waiting.pop_front());
            }
            let Some(bytes) = admission.waiting.front().map(|first| first.bytes) else { return };
            if !admission.take(bytes) {
                return;
            }
            let next = admission.waiting.pop_front();
            drop(admission);
            // A caller that was cancelled meanwhile gives the room back by dropping the permit.
            drop(next.map(|next| next.sender.send(self.permit(bytes))));
        }
    }
}

#[cfg(test)]
#[path = "in_flight_tests.rs"]
mod tests;
