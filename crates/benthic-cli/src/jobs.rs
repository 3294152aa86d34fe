//! Runs the same job for many objects with bounded concurrency.

use benthic_core::error::errno;
use benthic_core::{
    Action, Error, ErrorKind, ListRequest, ListToken, Namespaces, ObjectId, Pool, Reason, Result, Stopwatch,
    SystemClock,
};
use benthic_program::exit::{Failure, Outcome};
use benthic_program::interrupt;
use benthic_program::output::Output;
use benthic_program::session::Session;
use futures::stream::{self, BoxStream, Stream, StreamExt, TryStreamExt};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Default of `--outage-wait`: the time-out of an operation on a cluster, in which a dead OSD is
/// usually replaced.
pub const OUTAGE_WAIT: Duration = Duration::from_secs(60);
/// A full store stops a command after this many failures in a row. So do as many unanswered jobs
/// slow it down.
const FAILURES_IN_A_ROW: u32 = 3;
const PROBE_PAUSE: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(250);
/// Time for jobs to end after they were told to stop.
const STOP_MAX: Duration = Duration::from_secs(1);
/// Time to count the objects that were not tried.
const COUNT_MAX: Duration = Duration::from_secs(5);

/// Failures that are listed. Further failures are only counted.
const FAILURES_LISTED_MAX: usize = 1_000;

/// Default number of jobs: two per core, but 8 to 16. At least 8, because concurrent durable
/// operations share a sync; at most 16, because each may hold an object in memory.
pub fn default_jobs() -> usize {
    (2 * std::thread::available_parallelism().map_or(4, usize::from)).clamp(8, 16)
}

/// Parses a number of seconds of at least 1.
pub fn parse_seconds(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(seconds @ 1..) => Ok(Duration::from_secs(seconds)),
        _ => Err("a number of seconds is a whole number above 0".to_owned()),
    }
}

/// Streams the objects of a pool. It fetches each page of the listing on demand.
pub fn objects(
    pool: Arc<dyn Pool>,
    namespaces: Namespaces,
    prefix: String,
) -> BoxStream<'static, Result<ObjectId>> {
    enum Position {
        Start,
        Behind(ListToken),
        End,
    }
    let pages = stream::try_unfold(Position::Start, move |position| {
        let (pool, namespaces, prefix) = (Arc::clone(&pool), namespaces.clone(), prefix.clone());
        async move {
            let after = match position {
                Position::Start => None,
                Position::Behind(token) => Some(token),
                Position::End => return Ok(None),
            };
            let page = pool.list(ListRequest { namespaces, prefix, after, ..ListRequest::default() }).await?;
            let next = page.next.map_or(Position::End, Position::Behind);
            Ok::<_, Error>(Some((stream::iter(page.objects.into_iter().map(Ok)), next)))
        }
    });
    pages.try_flatten().boxed()
}

/// The concurrency of a command over many objects, and its patience with a store that does not
/// answer.
#[derive(Clone, Copy)]
pub struct Limits<'a> {
    pub jobs: usize,
    /// The command stops after this time without any answer of the store.
    pub outage_wait: Duration,
    /// Starts no second job before the first one has ended.
    pub first_alone: bool,
    /// Knows how long operations have been in flight.
    pub session: Option<&'a Session>,
}

impl From<usize> for Limits<'_> {
    fn from(jobs: usize) -> Self {
        Limits { jobs, outage_wait: OUTAGE_WAIT, first_alone: false, session: None }
    }
}

/// Runs `job` for every item, at most `limits.jobs` at a time, each in its own task. `done`
/// receives the results in order of completion. Stops at the first error of `items` or `done`.
///
/// After a signal it starts no further job and returns when the running jobs have ended. It also
/// starts no further job on a full store, and in an outage it starts few. If the outage lasts, or
/// the user abandons the command, jobs end at [`until_stopped`]; others are dropped.
///
/// # Errors
/// `LimitExceeded` or `Unavailable` if the store is full or has not answered for
/// `limits.outage_wait`, with the number of items that were not tried.
pub async fn run<'a, I, K, R, F>(
    items: impl Stream<Item = Result<I>>,
    limits: impl Into<Limits<'a>>,
    job: impl Fn(I) -> F,
    mut done: impl FnMut((K, Result<R>)) -> Outcome,
) -> Outcome
where
    K: Send + 'static,
    R: Send + 'static,
    F: Future<Output = (K, Result<R>)> + Send + 'static,
{
    let limits = limits.into();
    let mut items = std::pin::pin!(items.fuse());
    let mut running = JoinSet::new();
    let (stop, stopped) = watch::channel(false);
    let mut answers = Answers::new();
    let (mut has_more, mut trouble) = (true, None);
    let mut jobs = if limits.first_alone { 1 } else { limits.jobs.max(1) };
    let mut told_to_stop = Stopwatch::start(&SystemClock);
    let mut tick = tokio::time::interval(TICK);
    loop {
        let may_start = has_more && trouble.is_none() && !interrupt::is_set();
        if !may_start && running.is_empty() {
            break;
        }
        let starts = may_start && answers.permit_start(running.len(), jobs);
        tokio::select! {
            Some(ended) = running.join_next() => match ended {
                Ok((key, result)) => {
                    answers.note(&result);
                    jobs = limits.jobs.max(1);
                    done((key, result))?;
                }
                Err(error) if error.is_cancelled() => {}
                Err(panic) => {
                    return Err(Error::internal("a job panicked").with_source(panic).into());
                }
            },
            item = items.next(), if starts => match item {
                Some(item) => {
                    running.spawn(STOP.scope(stopped.clone(), job(item?)));
                    answers.started = Stopwatch::start(&SystemClock);
                }
                None => has_more = false,
            },
            _ = tick.tick() => {}
            () = interrupt::wait(), if !interrupt::is_set() => {}
            () = interrupt::wait_until_abandoned(), if !*stop.borrow() => drop(stop.send_replace(true)),
        }
        trouble = trouble.or_else(|| answers.trouble(&limits));
        if trouble == Some(Trouble::Unreachable) {
            stop.send_replace(true);
        }
        if !*stop.borrow() {
            told_to_stop = Stopwatch::start(&SystemClock);
        } else if told_to_stop.elapsed() >= STOP_MAX {
            running.abort_all();
        }
    }
    interrupt::check()?;
    let Some(trouble) = trouble else { return Ok(()) };
    let not_tried = match (items.size_hint(), trouble) {
        ((left, Some(most)), _) if left == most => Some(left),
        // The store still lists its objects.
        (_, Trouble::Full) => tokio::time::timeout(COUNT_MAX, items.count()).await.ok(),
        (_, Trouble::Unreachable) => None,
    };
    Err(trouble.error(&limits, not_tried).into())
}

tokio::task_local! {
    /// Becomes true when the jobs of a [`run`] must end.
    static STOP: watch::Receiver<bool>;
}

/// Waits for the operations of a job, but not after the command has stopped.
///
/// # Errors
/// Those of the operations; `Unavailable`, or `OutcomeUnknown` if `action` changes something, if
/// the command has stopped.
pub async fn until_stopped<T>(action: Action, operations: impl Future<Output = Result<T>>) -> Result<T> {
    let Ok(mut stop) = STOP.try_with(Clone::clone) else { return operations.await };
    tokio::select! {
        result = operations => result,
        _ = stop.wait_for(|stop| *stop) => {
            let message = match action {
                Action::Read => "the command stopped before the store answered",
                _ => "the command stopped before the store answered; the change may have happened",
            };
            Err(Error::new(ErrorKind::from_errno(errno::ETIMEDOUT, action), message))
        }
    }
}

/// The reason to stop a command over many objects.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trouble {
    Full,
    Unreachable,
}

impl Trouble {
    fn error(self, limits: &Limits<'_>, not_tried: Option<usize>) -> Error {
        let error = match self {
            Trouble::Full => Error::because(
                Reason::StoreFull,
                "stopped, because the store is full; remove objects or add space, then repeat the command",
            ),
            Trouble::Unreachable => {
                let waited_s = limits.outage_wait.as_secs();
                let message = format!(
                    "stopped, because the store has not answered for {waited_s} s; repeat the command when it does"
                );
                Error::unavailable(message)
            }
        };
        match not_tried {
            Some(number) => error.with("not_tried", number),
            None => error.with("not_tried", "all further objects"),
        }
    }
}

/// The state of the store, by the results of the jobs.
struct Answers {
    /// Since the store's last answer, and since the start of the last job.
    silent: Stopwatch<'static>,
    started: Stopwatch<'static>,
    /// Jobs in a row that a full store refused, and that got no answer.
    full: u32,
    unanswered: u32,
}

impl Answers {
    fn new() -> Answers {
        let now = Stopwatch::start(&SystemClock);
        Answers { silent: now, started: now, full: 0, unanswered: 0 }
    }

    fn note<R>(&mut self, result: &Result<R>) {
        let error = result.as_ref().err();
        if error
            .is_some_and(|error| matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::OutcomeUnknown))
        {
            self.unanswered += 1;
            return;
        }
        let is_full = error.is_some_and(|error| error.reason() == Some(Reason::StoreFull));
        let full = if is_full { self.full + 1 } else { 0 };
        *self = Answers { full, started: self.started, ..Answers::new() };
    }

    /// In an outage, one job at a time tries whether the store answers again.
    fn permit_start(&self, running: usize, jobs: usize) -> bool {
        if self.unanswered < FAILURES_IN_A_ROW {
            return running < jobs;
        }
        running == 0 && self.started.elapsed() >= PROBE_PAUSE
    }

    fn trouble(&self, limits: &Limits<'_>) -> Option<Trouble> {
        if self.full >= FAILURES_IN_A_ROW {
            return Some(Trouble::Full);
        }
        let waits = || limits.session?.longest_wait();
        let is_outage = self.silent.elapsed() >= limits.outage_wait
            && (self.unanswered as usize >= limits.jobs.min(FAILURES_IN_A_ROW as usize)
                || waits().is_some_and(|waited| waited >= limits.outage_wait));
        is_outage.then_some(Trouble::Unreachable)
    }
}

/// Collects failures so that the command can report them at the end.
#[derive(Default)]
pub struct Failures {
    listed: Vec<(String, Error)>,
    count: u64,
}

impl Failures {
    /// Adds a failure of `subject`, an object or a file.
    pub fn push(&mut self, subject: impl Into<String>, error: Error) {
        self.count += 1;
        if self.listed.len() < FAILURES_LISTED_MAX {
            self.listed.push((subject.into(), error));
        }
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// Prints all failures. Fails if there are any.
    pub fn finish(self, out: &Output, of: u64) -> Outcome {
        if self.count == 0 {
            return Ok(());
        }
        for (subject, error) in &self.listed {
            out.error(error, Some(subject));
        }
        let unlisted = self.count - self.listed.len() as u64;
        if unlisted > 0 {
            out.warning(format_args!("there are more failures than the list shows failures={unlisted}"));
        }
        Err(Failure::Some { failed: self.count, of })
    }
}
