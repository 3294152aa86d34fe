//! The operations of a client on one object run in the order in which they were started. Reads that
//! were started one after the other run at the same time.

use crate::runtime::runtime;
use benthic_core::{ObjectId, Result};
use futures::future::{BoxFuture, join_all};
use parking_lot::Mutex;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// A pool and an object.
pub type Key = (String, ObjectId);

/// An operation, which does not panic.
pub struct Ordered {
    pub reads: bool,
    pub run: BoxFuture<'static, ()>,
}

/// The operations that wait, of each object that has operations in flight. How many there are is
/// limited by the operations in flight of the client.
#[derive(Default)]
pub struct Order(Mutex<HashMap<Key, VecDeque<Ordered>>>);

impl Order {
    /// Whether operations of an object are in flight or wait.
    pub fn is_busy(&self, key: &Key) -> bool {
        self.0.lock().contains_key(key)
    }

    /// Starts an operation, now or after the earlier ones of its object.
    pub fn start(self: &Arc<Order>, key: Key, operation: Ordered) -> Result<()> {
        let runtime = runtime()?;
        match self.0.lock().entry(key) {
            Entry::Occupied(mut waiting) => waiting.get_mut().push_back(operation),
            Entry::Vacant(object) => {
                let key = object.key().clone();
                object.insert(VecDeque::from([operation]));
                runtime.spawn(Arc::clone(self).run(key));
            }
        }
        Ok(())
    }

    async fn run(self: Arc<Order>, key: Key) {
        while let Some(next) = self.next(&key) {
            join_all(next).await;
        }
    }

    /// The next write, or all reads before it.
    fn next(&self, key: &Key) -> Option<Vec<BoxFuture<'static, ()>>> {
        let mut objects = self.0.lock();
        let waiting = objects.get_mut(key)?;
        let Some(first) = waiting.pop_front() else {
            objects.remove(key);
            return None;
        };
        let mut next = vec![first.run];
        while first.reads && waiting.front().is_some_and(|operation| operation.reads) {
            next.extend(waiting.pop_front().map(|operation| operation.run));
        }
        Some(next)
    }
}
