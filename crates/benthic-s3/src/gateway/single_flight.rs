//! One read of a record for all requests that wait for it at the same time.
//!
//! A request must see what was acknowledged before the request came, so it cannot share a read that
//! began earlier. It can share the next one: requests that come while a read runs wait for the next
//! read, which begins when the running one ends.

use benthic_core::{Error, ErrorKind, Result};
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

type Read<T> = Box<dyn Fn(String) -> BoxFuture<'static, Result<T>> + Send + Sync>;
type Found<T> = Result<T, Arc<Error>>;
type SharedRead<T> = Shared<BoxFuture<'static, Found<T>>>;

/// Reads that run or wait, by the name of the record.
pub struct SingleFlight<T> {
    read: Read<T>,
    by_name: Mutex<HashMap<String, Flight<T>>>,
    seen: Mutex<HashMap<String, T>>,
}

/// Most records of which the last value is kept.
const SEEN_MAX: usize = 10_000;

struct Flight<T> {
    running: SharedRead<T>,
    /// Begins when the running read ends.
    next: Option<SharedRead<T>>,
}

impl<T: Clone + Send + Sync + 'static> SingleFlight<T> {
    /// A single flight over `read`, which reads one record.
    pub fn new<F>(read: impl Fn(String) -> F + Send + Sync + 'static) -> Arc<SingleFlight<T>>
    where
        F: Future<Output = Result<T>> + Send + 'static,
    {
        Arc::new(SingleFlight {
            read: Box::new(move |name| read(name).boxed()),
            by_name: Mutex::default(),
            seen: Mutex::default(),
        })
    }

    /// Whether no read runs.
    pub fn is_idle(&self) -> bool {
        self.by_name.lock().is_empty()
    }

    /// The last value that was read, which may be stale.
    pub fn seen(&self, name: &str) -> Option<T> {
        self.seen.lock().get(name).cloned()
    }

    /// The record as a read finds it that begins now or later.
    ///
    /// # Errors
    /// As `read`.
    pub async fn get(self: &Arc<SingleFlight<T>>, name: &str) -> Result<T> {
        let found = self.join(name).await;
        found.map_err(|error| Error::new(error.kind(), error.message().to_owned()).with_source(error))
    }

    /// The read that begins next.
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

    /// Makes the next read the running one: later requests cannot share it.
    fn begin(&self, name: &str) {
        if let Some(flight) = self.by_name.lock().get_mut(name)
            && let Some(next) = flight.next.take()
        {
            flight.running = next;
        }
    }

    fn note(&self, name: &str, found: Option<&T>) {
        let mut seen = self.seen.lock();
        match found {
            None => drop(seen.remove(name)),
            Some(found) => {
                if seen.len() >= SEEN_MAX && !seen.contains_key(name) {
                    seen.clear();
                }
                seen.insert(name.to_owned(), found.clone());
            }
        }
    }

    async fn run(self: Arc<SingleFlight<T>>, name: String) -> Found<T> {
        let found = (self.read)(name.clone()).await.map_err(Arc::new);
        self.note(&name, found.as_ref().ok());
        let mut by_name = self.by_name.lock();
        if by_name.get(&name).is_some_and(|flight| flight.next.is_none()) {
            by_name.remove(&name);
        }
        found
    }
}

/// Runs a read in a task of its own, so that it ends even if no request waits for it any longer.
fn spawn<T: Clone + Send + 'static>(read: impl Future<Output = Found<T>> + Send + 'static) -> SharedRead<T> {
    let task = tokio::spawn(read);
    let ended = |error| Arc::new(Error::new(ErrorKind::Internal, "a lookup ended early").with_source(error));
    async move { task.await.unwrap_or_else(|error| Err(ended(error))) }.boxed().shared()
}
