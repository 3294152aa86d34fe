//! Operations that run while the caller does something else.
//!
//! A callback may call the library again, also with functions that wait. So callbacks do not run on
//! the threads that run operations, but on one thread of each store, one after the other.

use crate::handles::Item;
use crate::reply::{Failure, Reply};
use crate::runtime::runtime;
use benthic_core::{Clock, Error, Result, SystemClock};
use futures::FutureExt;
use parking_lot::{Condvar, Mutex};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::Notify;

/// Maximum number of operations of one store that are in flight, including those whose callback has
/// not begun yet.
pub const IN_FLIGHT_MAX: usize = 1_024;

/// The function that runs when an operation is complete.
pub type Callback = Box<dyn FnOnce() + Send>;

/// Runs the callbacks of a store, and counts its operations in flight.
#[derive(Default)]
pub struct Callbacks {
    queue: OnceLock<Sender<Callback>>,
    in_flight: Arc<AtomicUsize>,
}

/// An operation in flight; dropping it makes room for another one.
struct InFlight(Arc<AtomicUsize>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Callbacks {
    fn begin(&self) -> Result<InFlight> {
        let begun = InFlight(Arc::clone(&self.in_flight));
        if self.in_flight.fetch_add(1, Ordering::AcqRel) < IN_FLIGHT_MAX {
            return Ok(begun);
        }
        let message = "too many operations in flight; wait until some are complete";
        Err(Error::busy(message).with("operations_max", IN_FLIGHT_MAX))
    }

    /// The queue of a thread that runs callbacks, until the store is dropped and no operation is in
    /// flight.
    fn queue(&self) -> Result<Sender<Callback>> {
        if let Some(queue) = self.queue.get() {
            return Ok(queue.clone());
        }
        // Its length is limited by the number of operations in flight.
        let (queue, callbacks) = channel::<Callback>();
        let thread = std::thread::Builder::new().name("benthic-callback".to_owned());
        let run = move || callbacks.into_iter().for_each(|callback| callback());
        thread.spawn(run).map_err(|error| {
            Error::io(benthic_core::Action::Admin, "cannot start a thread for callbacks", error)
        })?;
        Ok(self.queue.get_or_init(|| queue).clone())
    }
}

/// An operation that was started.
#[derive(Default)]
pub struct Completion {
    outcome: Mutex<Option<Result<Arc<Reply>, Failure>>>,
    completed: Condvar,
    cancelled: Notify,
}

impl Item for Completion {
    const TYPE: &str = "benthic_completion";
}

impl Completion {
    /// Starts an operation. `callback` gets called once, after the operation is complete. `changes`
    /// says whether the outcome of the operation is unknown after it was cancelled.
    ///
    /// # Errors
    /// `Busy` if too many operations are in flight; nothing was started.
    pub fn start(
        self: &Arc<Self>,
        callbacks: &Callbacks,
        changes: bool,
        work: impl Future<Output = Result<Reply>> + Send + 'static,
        callback: Option<Callback>,
    ) -> Result<()> {
        let in_flight = callbacks.begin()?;
        let callback = match callback {
            Some(callback) => Some((callback, callbacks.queue()?)),
            None => None,
        };
        let completion = Arc::clone(self);
        runtime()?.spawn(async move {
            let outcome = tokio::select! {
                biased;
                () = completion.cancelled.notified() => Err(cancelled(changes)),
                outcome = AssertUnwindSafe(work).catch_unwind() => outcome.unwrap_or_else(|_| {
                    Err(Error::internal("the operation panicked"))
                }),
            };
            // A program that waits for this operation may start the next one.
            let in_flight = callback.is_some().then_some(in_flight);
            *completion.outcome.lock() = Some(outcome.map(Arc::new).map_err(Failure::from));
            completion.completed.notify_all();
            if let Some((callback, queue)) = callback {
                let callback = Box::new(move || {
                    drop(in_flight);
                    callback();
                });
                // The thread lives while there are queues.
                let _ = queue.send(callback);
            }
        });
        Ok(())
    }

    /// Waits until the operation is complete, at most for `timeout`. Returns whether it is.
    pub fn wait(&self, timeout: Option<Duration>) -> bool {
        let mut outcome = self.outcome.lock();
        match timeout {
            None => {
                self.completed.wait_while(&mut outcome, |outcome| outcome.is_none());
                true
            }
            Some(timeout) => {
                let until = SystemClock.monotonic().saturating_add(timeout);
                while outcome.is_none() {
                    let left = until.saturating_sub(SystemClock.monotonic());
                    if left.is_zero() {
                        return false;
                    }
                    self.completed.wait_for(&mut outcome, left);
                }
                true
            }
        }
    }

    /// The outcome; `None` while the operation is in flight.
    pub fn outcome(&self) -> Option<Result<Arc<Reply>, Failure>> {
        self.outcome.lock().clone()
    }

    /// Ends the operation early, unless it is complete.
    pub fn cancel(&self) {
        self.cancelled.notify_one();
    }
}

fn cancelled(changes: bool) -> Error {
    match changes {
        true => {
            let message = "the operation was cancelled and may have happened; read the object to find out";
            Error::outcome_unknown(message)
        }
        false => Error::unavailable("the operation was cancelled"),
    }
}
