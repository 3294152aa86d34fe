//! Runs librados' blocking calls on a few threads: monitor commands, maps and listings.
//!
//! Some of these calls have no time-out: a wait for the newest map lasts until a monitor answers.
//! So a watchdog thread answers the caller of a late job. The job's own thread stays in librados
//! until a monitor answers. The number of such threads is limited, and neither the store nor the
//! process waits for them when it ends.

use benthic_core::{Clock, Error, ErrorKind, Result};
use futures::channel::oneshot;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

const THREADS: usize = 8;
const QUEUE_JOBS_MAX: usize = 1_024;

/// The thread pool. Its threads end when this is dropped and their work is done.
pub(crate) struct Blocking(Arc<Shared>);

struct Shared {
    clock: Arc<dyn Clock>,
    jobs: Mutex<Jobs>,
    work: Condvar,
    watch: Condvar,
}

#[derive(Default)]
struct Jobs {
    queue: VecDeque<Job>,
    running: Vec<RunningJob>,
    /// Number of jobs started so far; numbers the next one.
    started: u64,
    closed: bool,
}

struct Job {
    run: Run,
    caller: Caller,
}

/// A job on a thread. `caller` is `None` once the job is late and the watchdog has answered the
/// caller.
struct RunningJob {
    number: u64,
    caller: Option<Caller>,
}

/// The caller of a job. Times are monotonic.
struct Caller {
    /// The server for which the job waits, for people; `None` if the user did not start the job.
    whom: Option<&'static str>,
    since: Duration,
    deadline: Duration,
    progress: Arc<Progress>,
    give_up: Box<dyn FnOnce(Error) + Send>,
}

/// A job whose caller gets a time-out error. `run` is set if the job never started.
struct LateJob {
    caller: Caller,
    error: Error,
    run: Option<Run>,
}

type Run = Box<dyn FnOnce(&Progress) + Send>;

/// The stage of a job, which decides the error that a late answer gives.
#[derive(Default)]
pub(crate) struct Progress(Mutex<Stage>);

#[derive(Default, PartialEq)]
enum Stage {
    #[default]
    Reading,
    Changing,
    GivenUp,
}

impl Progress {
    /// Marks that the job is about to change the cluster. From then on a late answer is
    /// `OutcomeUnknown`.
    ///
    /// # Errors
    /// `Unavailable` if the caller already has the answer that nothing happened. The job must then
    /// change nothing.
    pub fn begin_change(&self) -> Result<()> {
        let mut stage = self.0.lock();
        if *stage == Stage::GivenUp {
            return Err(Error::unavailable("the caller no longer waits"));
        }
        *stage = Stage::Changing;
        Ok(())
    }

    /// Turns `Unavailable` into `OutcomeUnknown` if the change has begun: without an answer, its
    /// outcome is unknown.
    pub fn classify(&self, error: Error) -> Error {
        if error.kind() == ErrorKind::Unavailable && *self.0.lock() == Stage::Changing {
            return outcome_unknown();
        }
        error
    }

    fn give_up(&self) -> Error {
        match std::mem::replace(&mut *self.0.lock(), Stage::GivenUp) {
            Stage::Changing => outcome_unknown(),
            Stage::Reading | Stage::GivenUp => {
                Error::unavailable("the cluster did not answer in time; `ceph -s` shows its state")
            }
        }
    }
}

fn outcome_unknown() -> Error {
    let message = "no monitor answered in time, and the change may have happened; check before you repeat it";
    Error::outcome_unknown(message)
}

fn all_stuck() -> Error {
    let message = "all threads wait for a cluster that does not answer; `ceph -s` shows its state";
    Error::unavailable(message).with("threads", THREADS)
}

impl Blocking {
    /// Starts the threads.
    ///
    /// # Errors
    /// `Unavailable` if the machine has no thread left.
    pub fn start(clock: Arc<dyn Clock>) -> Result<Blocking> {
        let jobs = Mutex::default();
        let shared = Arc::new(Shared { clock, jobs, work: Condvar::new(), watch: Condvar::new() });
        // Created first, so that dropping it ends the started threads if a later one cannot start.
        let blocking = Blocking(Arc::clone(&shared));
        let spawn = |name: String, body: fn(&Shared)| {
            let shared = Arc::clone(&shared);
            std::thread::Builder::new()
                .name(name)
                .spawn(move || body(&shared))
                .map_err(|error| Error::unavailable("cannot start a thread").with_source(error))
        };
        spawn("rados-watch".to_owned(), watch)?;
        for index in 0..THREADS {
            spawn(format!("rados-{index}"), work)?;
        }
        Ok(blocking)
    }

    /// Runs a job on one of the threads, and waits for it at most `limit`. `whom` describes to the
    /// user the server for which the job waits; without it, the job does not count among
    /// [`Blocking::oldest`].
    ///
    /// # Errors
    /// The job's own error; `Unavailable` if the job did not end in time, or `OutcomeUnknown` if it
    /// had [begun to change](Progress::begin_change) something; `Busy` if the queue is full;
    /// `Internal` if the job panicked.
    pub async fn run<T: Send + 'static>(
        &self,
        whom: impl Into<Option<&'static str>>,
        limit: Duration,
        job: impl FnOnce(&Progress) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (sender, receiver) = oneshot::channel();
        let sender = Arc::new(Mutex::new(Some(sender)));
        let answer = {
            let sender = Arc::clone(&sender);
            move |result: Result<T>| {
                let sender = sender.lock().take();
                // Without a sender there is no receiver: the caller is gone, or has another answer.
                drop(sender.map(|sender| sender.send(result)));
            }
        };
        let late = answer.clone();
        let since = self.0.clock.monotonic();
        let caller = Caller {
            whom: whom.into(),
            since,
            deadline: since + limit,
            progress: Arc::default(),
            give_up: Box::new(move |error| late(Err(error))),
        };
        self.push(Job { run: Box::new(move |progress| answer(job(progress))), caller })?;
        drop(sender);
        receiver.await.unwrap_or_else(|_| Err(Error::internal("a job panicked")))
    }

    /// The oldest job with a waiting caller: its start, and the cause of its wait.
    pub fn oldest(&self) -> Option<(Duration, &'static str)> {
        let jobs = self.0.jobs.lock();
        jobs.callers().filter_map(|caller| Some((caller.since, caller.whom?))).min()
    }

    fn push(&self, job: Job) -> Result<()> {
        let mut jobs = self.0.jobs.lock();
        if jobs.stuck() {
            return Err(all_stuck());
        }
        if jobs.queue.len() >= QUEUE_JOBS_MAX {
            let message = "too many listings and pool commands at once; try again later";
            return Err(Error::busy(message).with("jobs_max", QUEUE_JOBS_MAX));
        }
        jobs.queue.push_back(job);
        drop(jobs);
        self.0.work.notify_one();
        self.0.watch.notify_one();
        Ok(())
    }
}

impl Drop for Blocking {
    fn drop(&mut self) {
        self.0.jobs.lock().closed = true;
        self.0.work.notify_all();
        self.0.watch.notify_all();
    }
}

impl Jobs {
    /// Whether every thread runs a job that is late.
    fn stuck(&self) -> bool {
        self.running.len() == THREADS && self.running.iter().all(|running| running.caller.is_none())
    }

    /// The callers that still wait.
    fn callers(&self) -> impl Iterator<Item = &Caller> {
        let running = self.running.iter().filter_map(|running| running.caller.as_ref());
        running.chain(self.queue.iter().map(|job| &job.caller))
    }

    /// Removes the callers and jobs that are past their deadline, and returns the next deadline.
    fn late(&mut self, now: Duration) -> (Vec<LateJob>, Option<Duration>) {
        let mut late = Vec::new();
        for running in &mut self.running {
            if let Some(caller) = running.caller.take_if(|caller| caller.deadline <= now) {
                let error = caller.progress.give_up();
                late.push(LateJob { caller, error, run: None });
            }
        }
        let stuck = self.stuck();
        let (over, queue): (Vec<_>, Vec<_>) =
            self.queue.drain(..).partition(|job| stuck || job.caller.deadline <= now);
        self.queue = queue.into();
        late.extend(over.into_iter().map(|Job { run, caller }| LateJob {
            caller,
            error: all_stuck(),
            run: Some(run),
        }));
        let next = self.callers().map(|caller| caller.deadline).min();
        (late, next)
    }
}

fn watch(shared: &Shared) {
    let mut jobs = shared.jobs.lock();
    loop {
        let now = shared.clock.monotonic();
        let (late, next) = jobs.late(now);
        if !late.is_empty() {
            // Not under the lock: answering wakes tasks, and a job may hold the last handle of the
            // store, whose drop takes the lock.
            drop(jobs);
            for LateJob { caller, error, run } in late {
                (caller.give_up)(error);
                drop(run);
            }
            jobs = shared.jobs.lock();
            continue;
        }
        match next {
            Some(deadline) => drop(shared.watch.wait_for(&mut jobs, deadline.saturating_sub(now))),
            None if jobs.closed => return,
            None => shared.watch.wait(&mut jobs),
        }
    }
}

fn work(shared: &Shared) {
    let mut jobs = shared.jobs.lock();
    loop {
        let Some(job) = jobs.queue.pop_front() else {
            if jobs.closed {
                return;
            }
            shared.work.wait(&mut jobs);
            continue;
        };
        jobs.started += 1;
        let number = jobs.started;
        let progress = Arc::clone(&job.caller.progress);
        jobs.running.push(RunningJob { number, caller: Some(job.caller) });
        drop(jobs);
        // A panic drops the job's sender, so the caller gets an error.
        let _ = catch_unwind(AssertUnwindSafe(|| (job.run)(&progress)));
        jobs = shared.jobs.lock();
        let done = jobs.running.iter().position(|running| running.number == number);
        let done = done.map(|at| jobs.running.swap_remove(at));
        // The caller's closure may own other values; do not drop them under the lock.
        parking_lot::MutexGuard::unlocked(&mut jobs, || drop(done));
    }
}

#[cfg(test)]
#[path = "blocking_tests.rs"]
mod tests;
