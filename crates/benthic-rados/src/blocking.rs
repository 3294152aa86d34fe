//! A few threads for what librados can only do blocking: monitor commands, maps and listings.

use benthic_core::{Error, ErrorKind, Result};
use futures::channel::oneshot;
use parking_lot::Mutex;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

const THREADS: usize = 4;
const QUEUE_JOBS_MAX: usize = 1_024;

type Job = Box<dyn FnOnce() + Send>;

/// The threads. They end when this is dropped and the queue is done.
pub(crate) struct Blocking {
    queue: SyncSender<Job>,
}

impl Blocking {
    /// Starts the threads.
    ///
    /// # Errors
    /// `Unavailable` if the machine has no thread left.
    pub fn start() -> Result<Blocking> {
        let (queue, jobs) = sync_channel::<Job>(QUEUE_JOBS_MAX);
        let jobs = Arc::new(Mutex::new(jobs));
        for index in 0..THREADS {
            let jobs = Arc::clone(&jobs);
            std::thread::Builder::new()
                .name(format!("rados-{index}"))
                .spawn(move || work(&jobs))
                .map_err(|error| Error::new(ErrorKind::Unavailable, "no thread").with_source(error))?;
        }
        Ok(Blocking { queue })
    }

    /// Runs a job on one of the threads.
    ///
    /// # Errors
    /// What the job returned; `Busy` if the queue is full; `Internal` if it panicked.
    pub async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (sender, receiver) = oneshot::channel();
        // Nobody to send to: the caller went away.
        let job = Box::new(move || drop(sender.send(job())));
        if self.queue.try_send(job).is_err() {
            return Err(Error::new(ErrorKind::Busy, "too many listings and pool commands at once")
                .with("jobs_max", QUEUE_JOBS_MAX));
        }
        receiver.await.unwrap_or_else(|_| Err(Error::new(ErrorKind::Internal, "a job panicked")))
    }
}

fn work(jobs: &Mutex<Receiver<Job>>) {
    loop {
        // Held while waiting: the next job goes to whoever waits here, the others wait for the lock.
        let job = jobs.lock().recv();
        let Ok(job) = job else { return };
        // The panic is reported to whoever waits for the job.
        let _ = catch_unwind(AssertUnwindSafe(job));
    }
}
