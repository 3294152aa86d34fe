//! Shares one read of a record among concurrent requests.
//!
//! A request must see every change that was acknowledged before the request arrived, so it cannot
//! share a read that is already running. It can share the next one: all requests that arrive during
//! a read wait for a second read, which starts when the first one ends. Requests that may use an
//! older record take it from `recent_buckets.rs` and do not get here.

use benthic_core::{Error, Result};
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

type Read<T> = Box<dyn Fn(String) -> BoxFuture<'static, Result<T>> + Send + Sync>;
type ReadResult<T> = Result<T, Arc<Error>>;
type SharedRead<T> = Shared<BoxFuture<'static, ReadResult<T>>>;

/// Running and waiting reads, by the name of the record.
pub struct SingleFlight<T> {
    read: Read<T>,
    by_name: Mutex<HashMap<String, Flight<T>>>,
    last_read: Mutex<HashMap<String, T>>,
}

/// Maximum number of remembered values.
const LAST_READ_MAX: usize = 10_000;

struct Flight<T> {
    running: SharedRead<T>,
    /// Starts when the running read ends.
    next: Option<SharedRead<T>>,
}

impl<T: Clone + Send + Sync + 'static> SingleFlight<T> {
    /// Creates a single flight over `read`, which reads one record.
    pub fn new<F>(read: impl Fn(String) -> F + Send + Sync + 'static) -> Arc<SingleFlight<T>>
    where
        F: Future<Output = Result<T>> + Send + 'static,
    {
        Arc::new(SingleFlight {
            read: Box::new(move |name| read(name).boxed()),
            by_name: Mutex::default(),
            last_read: Mutex::default(),
        })
    }

    pub fn is_idle(&self) -> bool {
        self.by_name.lock().is_empty()
    }

    /// The value that was read last, which may be stale.
    pub fn last_read(&self, name: &str) -> Option<T> {
        self.last_read.lock().get(name).cloned()
    }

    /// Returns the record from a read that starts now or later.
    ///
    /// # Errors
    /// Those of `read`.
    pub async fn get(self: &Arc<SingleFlight<T>>, name: &str) -> Result<T> {
        let found = self.join(name).await;
        found.map_err(|error| Error::new(error.kind(), error.message().to_owned()).with_source(error))
    }

    /// The next read to start.
    fn join(self: &Arc<SingleFlight<T>>, name: &str) -> SharedRead<T> {
        let mut by_name = self.by_name.lock();
        let Some(flight) = by_name.get_mut(name) else {
            let running = spawn(Arc::clone(self).run(name.to_owned()));
            by_name.insert(name.to_owned(), Flight { running: running.clone(), next: None });
            return running;
        };
        let before = flight.running.clone();
        let next = flight.next.get_or_insert_with(|| {
            let (reads, name) = (Arc::clone(self), name.to_owned());
            spawn(async move {
                let _ = before.await;
                reads.begin(&name);
                reads.run(name).await
            })
        });
        next.clone()
    }

    /// Makes the waiting read the running one, so that later requests no longer share it.
    fn begin(&self, name: &str) {
        if let Some(flight) = self.by_name.lock().get_mut(name)
            && let Some(next) = flight.next.take()
        {
            flight.running = next;
        }
    }

    fn remember(&self, name: &str, found: Option<&T>) {
        let mut last_read = self.last_read.lock();
        match found {
            None => drop(last_read.remove(name)),
            Some(found) => {
                if last_read.len() >= LAST_READ_MAX && !last_read.contains_key(name) {
                    last_read.clear();
                }
                last_read.insert(name.to_owned(), found.clone());
            }
        }
    }

    async fn run(self: Arc<SingleFlight<T>>, name: String) -> ReadResult<T> {
        let found = (self.read)(name.clone()).await.map_err(Arc::new);
        self.remember(&name, found.as_ref().ok());
        let mut by_name = self.by_name.lock();
        if by_name.get(&name).is_some_and(|flight| flight.next.is_none()) {
            by_name.remove(&name);
        }
        found
    }
}

/// Runs a read in its own task, so that it completes even if all waiting requests are cancelled.
fn spawn<T: Clone + Send + 'static>(
    read: impl Future<Output = ReadResult<T>> + Send + 'static,
) -> SharedRead<T> {
    let task = tokio::spawn(read);
    let ended = |error| Arc::new(Error::internal("a lookup ended early").with_source(error));
    async move { task.await.unwrap_or_else(|error| Err(ended(error))) }.boxed().shared()
}
