//! A few threads for what librados can only do blocking: monitor commands, maps and listings.
//!
//! Some of it knows no time-out: while no monitor answers, a wait for the newest map lasts. So a watching thread answers
//! for a job that is late. The thread that runs the job stays in librados until a monitor answers; how many can be stuck
//! there is bounded, and nobody waits for them, neither at the end of the store nor of the process.

use benthic_core::{Clock, Error, ErrorKind, Result};
use futures::channel::oneshot;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

const THREADS: usize = 8;
const QUEUE_JOBS_MAX: usize = 1_024;

/// The threads. They end when this is dropped and their work is done.
pub(crate) struct Blocking(Arc<Shared>);

struct Shared {
    clock: Arc<dyn Clock>,
    jobs: Mutex<Jobs>,
    /// Wakes a thread for a job.
    work: Condvar,
    /// Wakes the watching thread.
    watch: Condvar,
}

#[derive(Default)]
struct Jobs {
    queue: VecDeque<Job>,
    running: Vec<Running>,
    /// Jobs that were started; numbers the next one.
    started: u64,
    closed: bool,
}

struct Job {
    run: Run,
    caller: Caller,
}

/// A job on a thread; without a caller, it was late and the caller has its answer.
struct Running {
    number: u64,
    caller: Option<Caller>,
}

/// The caller of a job, and the monotonic time until which it waits.
struct Caller {
    deadline: Duration,
    progress: Arc<Progress>,
    give_up: Box<dyn FnOnce(Error) + Send>,
}

/// A job whose caller gets an error in place of an answer; `run` if it will never run.
struct Late {
    caller: Caller,
    error: Error,
    run: Option<Run>,
}

type Run = Box<dyn FnOnce(&Progress) + Send>;

/// How far a job is, so that what its caller is told is true.
#[derive(Default)]
pub(crate) struct Progress(Mutex<Stage>);

#[derive(Default, PartialEq)]
enum Stage {
    #[default]
    Looking,
    Changing,
    GivenUp,
}

impl Progress {
    /// To be called before the job changes the cluster: from now on a late answer means `OutcomeUnknown`.
    ///
    /// # Errors
    /// `Unavailable` if the caller was told that nothing happened. Then nothing may.
    pub fn begin_change(&self) -> Result<()> {
        let mut stage = self.0.lock();
        if *stage == Stage::GivenUp {
            return Err(Error::new(ErrorKind::Unavailable, "the caller waits no longer"));
        }
        *stage = Stage::Changing;
        Ok(())
    }

    /// An error that a job ended with: after the change began, no answer leaves its outcome open.
    pub fn judge(&self, error: Error) -> Error {
        if error.kind() == ErrorKind::Unavailable && *self.0.lock() == Stage::Changing {
            return outcome_unknown();
        }
        error
    }

    fn give_up(&self) -> Error {
        match std::mem::replace(&mut *self.0.lock(), Stage::GivenUp) {
            Stage::Changing => outcome_unknown(),
            Stage::Looking | Stage::GivenUp => Error::new(
                ErrorKind::Unavailable,
                "the cluster did not answer in time; `ceph -s` says how it is",
            ),
        }
    }
}

fn outcome_unknown() -> Error {
    Error::new(
        ErrorKind::OutcomeUnknown,
        "no monitor answered in time, and the change may have happened; look before it is repeated",
    )
}

fn all_stuck() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "all threads wait for a cluster that does not answer; `ceph -s` says how it is",
    )
    .with("threads", THREADS)
}

impl Blocking {
    /// Starts the threads.
    ///
    /// # Errors
    /// `Unavailable` if the machine has no thread left.
    pub fn start(clock: Arc<dyn Clock>) -> Result<Blocking> {
        let jobs = Mutex::default();
        let shared = Arc::new(Shared { clock, jobs, work: Condvar::new(), watch: Condvar::new() });
        // Made first, so that the threads that were started end if one cannot be.
        let blocking = Blocking(Arc::clone(&shared));
        let spawn = |name: String, body: fn(&Shared)| {
            let shared = Arc::clone(&shared);
            std::thread::Builder::new()
                .name(name)
                .spawn(move || body(&shared))
                .map_err(|error| Error::new(ErrorKind::Unavailable, "no thread").with_source(error))
        };
        spawn("rados-watch".to_owned(), watch)?;
        for index in 0..THREADS {
            spawn(format!("rados-{index}"), work)?;
        }
        Ok(blocking)
    }

    /// Runs a job on one of the threads, and waits for it for `limit` at most.
    ///
    /// # Errors
    /// What the job returned; `Unavailable` if it did not end in time, or `OutcomeUnknown` if it had
    /// [begun to change](Progress::begin_change) something; `Busy` if the queue is full; `Internal` if it panicked.
    pub async fn run<T: Send + 'static>(
        &self,
        limit: Duration,
        job: impl FnOnce(&Progress) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (sender, receiver) = oneshot::channel();
        let sender = Arc::new(Mutex::new(Some(sender)));
        let answer = {
            let sender = Arc::clone(&sender);
            move |result: Result<T>| {
                let sender = sender.lock().take();
                // Nobody to send to: the caller went away, or has another answer.
                drop(sender.map(|sender| sender.send(result)));
            }
        };
        let late = answer.clone();
        let caller = Caller {
            deadline: self.0.clock.monotonic() + limit,
            progress: Arc::default(),
            give_up: Box::new(move |error| late(Err(error))),
        };
        self.push(Job { run: Box::new(move |progress| answer(job(progress))), caller })?;
        drop(sender);
        receiver.await.unwrap_or_else(|_| Err(Error::new(ErrorKind::Internal, "a job panicked")))
    }

    fn push(&self, job: Job) -> Result<()> {
        let mut jobs = self.0.jobs.lock();
        if jobs.stuck() {
            return Err(all_stuck());
        }
        if jobs.queue.len() >= QUEUE_JOBS_MAX {
            return Err(Error::new(ErrorKind::Busy, "too many listings and pool commands at once")
                .with("jobs_max", QUEUE_JOBS_MAX));
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
    /// Whether every thread is in a job that is late.
    fn stuck(&self) -> bool {
        self.running.len() == THREADS && self.running.iter().all(|running| running.caller.is_none())
    }

    /// Takes those whose time is over, and gives the deadline of the next.
    fn late(&mut self, now: Duration) -> (Vec<Late>, Option<Duration>) {
        let mut late = Vec::new();
        for running in &mut self.running {
            if let Some(caller) = running.caller.take_if(|caller| caller.deadline <= now) {
                let error = caller.progress.give_up();
                late.push(Late { caller, error, run: None });
            }
        }
        let stuck = self.stuck();
        let (over, queue): (Vec<_>, Vec<_>) =
            self.queue.drain(..).partition(|job| stuck || job.caller.deadline <= now);
        self.queue = queue.into();
        late.extend(over.into_iter().map(|Job { run, caller }| Late {
            caller,
            error: all_stuck(),
            run: Some(run),
        }));
        let running = self.running.iter().filter_map(|running| running.caller.as_ref());
        let queued = self.queue.iter().map(|job| &job.caller);
        (late, running.chain(queued).map(|caller| caller.deadline).min())
    }
}

fn watch(shared: &Shared) {
    let mut jobs = shared.jobs.lock();
    loop {
        let now = shared.clock.monotonic();
        let (late, next) = jobs.late(now);
        if !late.is_empty() {
            // Not under the lock: answering wakes tasks, and a job may have the last handle of the store, whose end
            // takes the lock.
            drop(jobs);
            for Late { caller, error, run } in late {
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
        jobs.running.push(Running { number, caller: Some(job.caller) });
        drop(jobs);
        // A panic is reported to whoever waits for the job: its sender goes.
        let _ = catch_unwind(AssertUnwindSafe(|| (job.run)(&progress)));
        jobs = shared.jobs.lock();
        let done = jobs.running.iter().position(|running| running.number == number);
        let done = done.map(|at| jobs.running.swap_remove(at));
        // What the caller's waker has is not ours to end under the lock.
        parking_lot::MutexGuard::unlocked(&mut jobs, || drop(done));
    }
}

#[cfg(test)]
mod tests {
    use super::Progress;
    use benthic_core::{Error, ErrorKind};

    #[test]
    fn a_change_that_began_has_an_unknown_outcome_when_nobody_answers() {
        let late = || Error::new(ErrorKind::Unavailable, "no answer");
        let looking = Progress::default();
        assert_eq!(looking.judge(late()).kind(), ErrorKind::Unavailable);
        assert_eq!(looking.give_up().kind(), ErrorKind::Unavailable);
        assert!(looking.begin_change().is_err(), "its caller was told that nothing happened");

        let changing = Progress::default();
        changing.begin_change().unwrap();
        assert_eq!(changing.judge(late()).kind(), ErrorKind::OutcomeUnknown);
        assert_eq!(changing.give_up().kind(), ErrorKind::OutcomeUnknown);
    }
}
