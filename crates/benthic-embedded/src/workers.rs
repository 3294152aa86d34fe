//! A pool of threads for operations that may block. Its queue is bounded.

use benthic_core::{Error, Result, WORKER_THREAD};
use parking_lot::{Condvar, Mutex, RwLock};
use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::JoinHandle;

/// Maximum number of operations that wait for a thread.
const QUEUED_MAX: usize = 65_536;

/// Runs with `Ok` on a worker, or immediately with the error if the pool rejects it.
pub(crate) type Job = Box<dyn FnOnce(Result<()>) + Send>;

pub(crate) struct Workers {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    wake: Condvar,
    /// Held shared while a job runs on its caller's thread.
    stopped: RwLock<bool>,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    stopping: bool,
}

impl Workers {
    pub fn start(count: usize) -> Result<Workers> {
        let shared = Arc::new(Shared::default());
        let workers = Workers { shared: Arc::clone(&shared), threads: Mutex::default() };
        for _ in 0..count {
            let shared = Arc::clone(&shared);
            workers.threads.lock().push(spawn(WORKER_THREAD, move || shared.run())?);
        }
        Ok(workers)
    }

    /// Queues a job for a worker thread. Rejects it with `Busy` if too many jobs wait, and with
    /// `Unavailable` after [`Workers::stop`].
    pub fn submit(&self, job: Job) {
        let mut queue = self.shared.queue.lock();
        let refused = if queue.stopping {
            Error::unavailable("the store is closed")
        } else if queue.jobs.len() >= QUEUED_MAX {
            Error::busy("too many operations are queued; keep fewer in flight").with("queued_max", QUEUED_MAX)
        } else {
            queue.jobs.push_back(job);
            self.shared.wake.notify_one();
            return;
        };
        drop(queue);
        job(Err(refused));
    }

    /// Runs a short job on the caller's thread. Returns `None` after [`Workers::stop`], or if the
    /// job panics.
    pub fn run_here<T>(&self, job: impl FnOnce() -> T) -> Option<T> {
        let _running = self.shared.stopped.try_read().filter(|stopped| !**stopped)?;
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(job)).ok()
    }

    /// Rejects new jobs, runs the queued ones, and returns when all are done.
    pub fn stop(&self) {
        *self.shared.stopped.write() = true;
        self.shared.queue.lock().stopping = true;
        self.shared.wake.notify_all();
        for thread in self.threads.lock().drain(..) {
            // A job may drop the last reference to the store.
            if thread.thread().id() != std::thread::current().id() {
                // The caller of a job that panicked already got the error.
                let _ = thread.join();
            }
        }
    }
}

pub(crate) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(run)
        .map_err(|e| Error::unavailable("a thread cannot be started").with("thread", name).with_source(e))
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn run(&self) {
        let mut queue = self.queue.lock();
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                drop(queue);
                // If the job panics, its caller sees the dropped channel.
                let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| job(Ok(()))));
                queue = self.queue.lock();
            } else if queue.stopping {
                return;
            } else {
                self.wake.wait(&mut queue);
            }
        }
    }
}
