//! Runs the same job for many objects with bounded concurrency.

use benthic_core::{Error, ErrorKind, ListRequest, ListToken, Namespaces, ObjectId, Pool, Result};
use benthic_program::exit::{Failure, Outcome};
use benthic_program::interrupt;
use benthic_program::output::Output;
use futures::stream::{self, BoxStream, Stream, StreamExt, TryStreamExt};
use std::sync::Arc;
use tokio::task::JoinSet;

/// Failures that are listed. Further failures are only counted.
const FAILURES_LISTED_MAX: usize = 1_000;

/// Default number of jobs: two per core, but 8 to 16. At least 8, because concurrent durable
/// operations share a sync; at most 16, because each may hold an object in memory.
pub fn default_jobs() -> usize {
    (2 * std::thread::available_parallelism().map_or(4, usize::from)).clamp(8, 16)
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

/// Runs `job` for every item, at most `jobs` at a time, each in its own task. `done` receives the
/// results in order of completion. Stops at the first error of `items` or `done`. After a signal it
/// starts no further job and returns when the running jobs have ended.
pub async fn run<I, T, F>(
    items: impl Stream<Item = Result<I>>,
    jobs: usize,
    job: impl Fn(I) -> F,
    mut done: impl FnMut(T) -> Outcome,
) -> Outcome
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let mut items = std::pin::pin!(items.fuse());
    let mut running = JoinSet::new();
    loop {
        while running.len() < jobs.max(1) && !interrupt::is_set() {
            let Some(item) = items.next().await else { break };
            running.spawn(job(item?));
        }
        match running.join_next().await {
            Some(Ok(result)) => done(result)?,
            Some(Err(panic)) => {
                return Err(Error::new(ErrorKind::Internal, "a job panicked").with_source(panic).into());
            }
            None => return interrupt::check(),
        }
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
