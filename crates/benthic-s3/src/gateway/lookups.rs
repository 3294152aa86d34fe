//! Records that are read once for all requests that wait for one at the same time.

use benthic_core::{Error, ErrorKind, Result};
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

type Read<T> = Box<dyn Fn(String) -> BoxFuture<'static, Result<T>> + Send + Sync>;
type Found<T> = Result<T, Arc<Error>>;
type Lookup<T> = Shared<BoxFuture<'static, Found<T>>>;

/// Lookups that are under way, by the name of what is read.
///
/// A request must see what was acknowledged before it came, so it cannot take the answer to a question that was asked before.
/// It can share the next one: while one is under way, whoever comes waits for the next, which is asked when that one ends.
pub struct Lookups<T> {
    read: Read<T>,
    by_name: Mutex<HashMap<String, UnderWay<T>>>,
    seen: Mutex<HashMap<String, T>>,
}

/// Most names of which is known what was seen last.
const SEEN_MAX: usize = 10_000;

struct UnderWay<T> {
    asking: Lookup<T>,
    /// Will ask when that one has its answer.
    next: Option<Lookup<T>>,
}

impl<T: Clone + Send + Sync + 'static> Lookups<T> {
    /// With what reads one.
    pub fn new<F>(read: impl Fn(String) -> F + Send + Sync + 'static) -> Arc<Lookups<T>>
    where
        F: Future<Output = Result<T>> + Send + 'static,
    {
        Arc::new(Lookups {
            read: Box::new(move |name| read(name).boxed()),
            by_name: Mutex::default(),
            seen: Mutex::default(),
        })
    }

    /// Whether nobody waits.
    pub fn is_idle(&self) -> bool {
        self.by_name.lock().is_empty()
    }

    /// What was read last, if it is known: it may have changed since.
    pub fn seen(&self, name: &str) -> Option<T> {
        self.seen.lock().get(name).cloned()
    }

    /// What is read now, or a little later.
    ///
    /// # Errors
    /// As of what reads.
    pub async fn get(self: &Arc<Lookups<T>>, name: &str) -> Result<T> {
        let found = self.join(name).await;
        found.map_err(|error| Error::new(error.kind(), error.message().to_owned()).with_source(error))
    }

    /// The lookup that begins next.
    fn join(self: &Arc<Lookups<T>>, name: &str) -> Lookup<T> {
        let mut by_name = self.by_name.lock();
        let Some(under_way) = by_name.get_mut(name) else {
            let asking = started(Arc::clone(self).ask(name.to_owned()));
            by_name.insert(name.to_owned(), UnderWay { asking: asking.clone(), next: None });
            return asking;
        };
        let before = under_way.asking.clone();
        let next = under_way.next.get_or_insert_with(|| {
            let (lookups, name) = (Arc::clone(self), name.to_owned());
            started(async move {
                let _ = before.await;
                lookups.begin(&name);
                lookups.ask(name).await
            })
        });
        next.clone()
    }

    /// From now on whoever comes is too late for the next one.
    fn begin(&self, name: &str) {
        if let Some(under_way) = self.by_name.lock().get_mut(name)
            && let Some(next) = under_way.next.take()
        {
            under_way.asking = next;
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

    async fn ask(self: Arc<Lookups<T>>, name: String) -> Found<T> {
        let found = (self.read)(name.clone()).await.map_err(Arc::new);
        self.note(&name, found.as_ref().ok());
        let mut by_name = self.by_name.lock();
        if by_name.get(&name).is_some_and(|under_way| under_way.next.is_none()) {
            by_name.remove(&name);
        }
        found
    }
}

/// Runs to its end, whoever waits for it.
fn started<T: Clone + Send + 'static>(lookup: impl Future<Output = Found<T>> + Send + 'static) -> Lookup<T> {
    let task = tokio::spawn(lookup);
    let ended = |error| Arc::new(Error::new(ErrorKind::Internal, "a lookup ended early").with_source(error));
    async move { task.await.unwrap_or_else(|error| Err(ended(error))) }.boxed().shared()
}
