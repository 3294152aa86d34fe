//! Runs queries, on threads of their own.
//!
//! A query may compute for seconds before it gives up its thread. The threads that serve
//! connections must not wait for that, because they also notice that a client cancels its query,
//! that it is gone, and that the time is over. Deep statements need more stack than other tasks.

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, SchemaRef};
use benthic_core::{Action, Error, Result};
use benthic_sql::errors::from_datafusion;
use benthic_sql::prepared::PreparedQuery;
use datafusion::common::ScalarValue;
use datafusion::execution::SendableRecordBatchStream;
use futures::TryStreamExt;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::task::{JoinError, JoinHandle};
use tokio::time::{Instant, timeout, timeout_at};

/// Size of the stack of a thread. The system provides only memory that is used.
const STACK_BYTES: usize = 64 << 20;
/// Number of threads. The joins of some queries compute for minutes without giving up their thread,
/// also after the query was stopped. Such a query keeps its slot, so that the limit on the queries
/// of each user keeps threads free for others.
const THREADS: usize = 64;
/// Batches that wait for the client.
const BATCHES_AHEAD: usize = 2;
/// Time for the last message to a client that may read nothing more.
const LAST_MESSAGE_TIME: Duration = Duration::from_secs(5);

/// The threads of queries.
#[derive(Clone)]
pub struct Workers(Arc<Threads>);

struct Threads(Option<Runtime>, Handle);

impl Workers {
    /// Starts the threads.
    ///
    /// # Errors
    /// The system's error.
    pub fn start() -> Result<Workers> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("query")
            .thread_stack_size(STACK_BYTES)
            .enable_all()
            .build()
            .map_err(|error| Error::io(Action::Admin, "cannot start threads", error))?;
        let handle = runtime.handle().clone();
        Ok(Workers(Arc::new(Threads(Some(runtime), handle))))
    }

    fn spawn<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> Task<T> {
        Task(self.0.1.spawn(work))
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            // Queries may still compute. Nobody waits for them.
            runtime.shutdown_background();
        }
    }
}

/// Work that stops when this value is dropped, as soon as it gives up its thread.
struct Task<T>(JoinHandle<T>);

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The right of a query to run. It ends when the work of the query has stopped.
pub struct Admission {
    slot: Arc<OwnedSemaphorePermit>,
    workers: Workers,
    limit: TimeLimit,
}

#[derive(Clone, Copy)]
struct TimeLimit {
    time: Duration,
    until: Instant,
}

impl TimeLimit {
    async fn limit<T, E: From<Error>>(
        self,
        part: impl Future<Output = std::result::Result<T, E>>,
    ) -> std::result::Result<T, E> {
        timeout_at(self.until, part).await.unwrap_or_else(|_| {
            let message = "the query took longer than its time limit, and was stopped";
            let error = Error::limit_exceeded(message);
            Err(error.with("limit_s", self.time.as_secs_f64()).into())
        })
    }
}

impl Admission {
    /// A right for this time, with a slot of the user.
    pub fn new(slot: OwnedSemaphorePermit, time: Duration, workers: Workers) -> Admission {
        let limit = TimeLimit { time, until: Instant::now() + time };
        Admission { slot: Arc::new(slot), workers, limit }
    }

    /// The slot of the query, for a caller that keeps its rows for a client.
    pub fn slot(&self) -> Arc<OwnedSemaphorePermit> {
        Arc::clone(&self.slot)
    }

    /// Does a part of the query before its rows, such as planning it.
    ///
    /// # Errors
    /// `LimitExceeded` when the query's time is over; `Internal` if the part panics; errors of the
    /// part.
    pub async fn run<T: Send + 'static>(
        &self,
        part: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let slot = Arc::clone(&self.slot);
        let mut task = self.workers.spawn(async move {
            let done = part.await;
            drop(slot);
            done
        });
        let done = async { (&mut task.0).await.unwrap_or_else(|error| Err(panicked(error))) };
        self.limit.limit(done).await
    }

    /// Starts the query.
    ///
    /// # Errors
    /// Errors of [`run`](Admission::run).
    pub async fn start(self, planned: Planned) -> Result<Rows> {
        let Planned { query, schema, .. } = planned;
        let rows = self.run(async move { query.start().await }).await?;
        let (sender, receiver) = mpsc::channel(BATCHES_AHEAD);
        let Admission { slot, workers, limit } = self;
        let task = workers.spawn(pump(rows, sender, limit, slot));
        Ok(Rows { schema, ahead: None, receiver, limit, task: Some(task) })
    }
}

/// A planned query, and its description for clients. All of it is computed on the threads of
/// queries, because a deep statement needs their stack.
pub struct Planned {
    query: PreparedQuery,
    /// The types of the parameters; `None` if the query accepts several.
    pub parameters: Vec<Option<DataType>>,
    pub schema: SchemaRef,
}

impl Planned {
    /// Describes a query.
    ///
    /// # Errors
    /// Errors of [`PreparedQuery::parameters`].
    pub fn new(query: PreparedQuery) -> Result<Planned> {
        Ok(Planned { parameters: query.parameters()?, schema: query.schema(), query })
    }

    /// The query with values for its parameters.
    ///
    /// # Errors
    /// Errors of [`PreparedQuery::bind`].
    pub fn bind(self, values: Vec<ScalarValue>) -> Result<Planned> {
        Planned::new(self.query.bind(values)?)
    }
}

/// The rows of a query. Dropping this value stops the query.
pub struct Rows {
    /// The columns, as they were described. Those of a batch may have similar types.
    pub schema: SchemaRef,
    /// Rows that [`ready`](Rows::ready) received.
    ahead: Option<RecordBatch>,
    receiver: mpsc::Receiver<Result<RecordBatch>>,
    limit: TimeLimit,
    task: Option<Task<()>>,
}

fn panicked(error: JoinError) -> Error {
    Error::internal("the query failed by a defect of the query engine").with_source(error)
}

impl Rows {
    /// Waits until [`next`](Rows::next) returns at once. Cancelling the future loses no rows.
    ///
    /// # Errors
    /// Errors of [`next`](Rows::next).
    pub async fn ready(&mut self) -> Result<()> {
        self.ahead = self.next().await?;
        Ok(())
    }

    /// The next rows; `None` after the last ones. Cancelling the future loses no rows.
    ///
    /// # Errors
    /// `LimitExceeded` when the query's time is over; errors of the query.
    pub async fn next(&mut self) -> Result<Option<RecordBatch>> {
        if let Some(batch) = self.ahead.take() {
            return Ok(Some(batch));
        }
        let next = async {
            if let Some(batch) = self.receiver.recv().await {
                return batch.map(Some);
            }
            // Without this, rows would seem to end where the query engine panics.
            match self.task.take() {
                Some(mut task) => (&mut task.0).await.map(|()| None).map_err(panicked),
                None => Ok(None),
            }
        };
        self.limit.limit(next).await
    }

    /// Does something else within the time of the query, such as sending rows.
    ///
    /// # Errors
    /// `LimitExceeded` when the query's time is over; errors of `part`.
    pub async fn limit<T, E: From<Error>>(
        &self,
        part: impl Future<Output = std::result::Result<T, E>>,
    ) -> std::result::Result<T, E> {
        self.limit.limit(part).await
    }
}

/// Moves rows from the query to the client. Ends the query when its time is over, even if the
/// client reads nothing.
async fn pump(
    mut rows: SendableRecordBatchStream,
    sender: mpsc::Sender<Result<RecordBatch>>,
    limit: TimeLimit,
    slot: Arc<OwnedSemaphorePermit>,
) {
    let moved = async {
        while let Some(batch) = rows.try_next().await.map_err(|error| from_datafusion(&error))? {
            if sender.send(Ok(batch)).await.is_err() {
                break;
            }
        }
        Ok::<_, Error>(())
    };
    let ended = limit.limit(moved).await;
    drop((rows, slot));
    if let Err(error) = ended {
        // The client may be gone, or not read.
        let _ = timeout(LAST_MESSAGE_TIME, sender.send(Err(error))).await;
    }
}
