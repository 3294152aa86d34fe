//! Decides when the events of which queue are delivered.
//!
//! A *scan* of a bucket finds its queues with waiting events. Each queue then has passes of its
//! own, so a target that does not answer delays no other target.

use super::deliver::Deliverer;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Scans and passes that run at the same time.
const TASKS_IN_FLIGHT: usize = 256;
/// The least time between two scans of a bucket or passes of a queue, so that busy ones have fewer
/// and larger passes.
const BETWEEN_PASSES: Duration = Duration::from_millis(250);
/// The pause after an error of the store.
const AFTER_ERROR: Duration = Duration::from_secs(5);

/// The names of buckets that have new events.
#[derive(Default)]
pub struct Wakeups {
    names: Mutex<BTreeSet<String>>,
    notify: Notify,
    /// Whether somebody waits for them.
    is_used: AtomicBool,
    stopping: AtomicBool,
}

impl Wakeups {
    /// Says that a bucket has new events.
    pub fn wake(&self, bucket: &str) {
        if self.is_used.load(Relaxed) {
            self.names.lock().insert(bucket.to_owned());
            self.notify.notify_one();
        }
    }

    /// Lets [`run`] end.
    pub fn stop(&self) {
        self.stopping.store(true, Relaxed);
        self.notify.notify_one();
    }
}

/// A bucket to scan, or a queue of it to deliver.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Work {
    bucket: String,
    queue: Option<String>,
}

/// Further work that a piece of work has found, and the delay before it.
type Next = Vec<(Work, Duration)>;

/// Delivers events until [`Wakeups::stop`] is called, and waits for the deliveries that are running
/// then.
pub async fn run(deliverer: Arc<Deliverer>, wakeups: Arc<Wakeups>) {
    wakeups.is_used.store(true, Relaxed);
    let mut tasks: JoinSet<(Work, Next)> = JoinSet::new();
    let mut running: BTreeSet<Work> = BTreeSet::new();
    // When work is due. Work that is running is due again when it has ended.
    let mut due: BTreeMap<Work, Instant> = BTreeMap::new();
    let mut ended_at: BTreeMap<Work, Instant> = BTreeMap::new();
    let places = Arc::new(Semaphore::new(TASKS_IN_FLIGHT));
    while !wakeups.stopping.load(Relaxed) {
        let first = due.iter().filter(|(work, _)| !running.contains(*work)).map(|(_, at)| *at).min();
        let mut found = Next::new();
        tokio::select! {
            () = wakeups.notify.notified() => {
                let buckets = std::mem::take(&mut *wakeups.names.lock());
                let scan = |bucket| (Work { bucket, queue: None }, Duration::ZERO);
                found.extend(buckets.into_iter().map(scan));
            }
            () = sleep_until(first) => {}
            Some(ended) = tasks.join_next() => match ended {
                Ok((work, next)) => {
                    running.remove(&work);
                    ended_at.insert(work, Instant::now());
                    found = next;
                }
                // The name of a task that panicked is lost. Leases prevent that two run at once.
                Err(_) => running.clear(),
            },
        }
        let now = Instant::now();
        ended_at.retain(|_, at| now.duration_since(*at) < BETWEEN_PASSES);
        for (work, delay) in found {
            let earliest = ended_at.get(&work).map_or(now, |at| *at + BETWEEN_PASSES);
            let at = earliest.max(now + delay);
            let known = due.entry(work).or_insert(at);
            *known = at.min(*known);
        }
        let is_ready = |(work, at): &(&Work, &Instant)| **at <= now && !running.contains(*work);
        let ready: Vec<Work> = due.iter().filter(is_ready).map(|(work, _)| work.clone()).collect();
        for work in ready {
            due.remove(&work);
            running.insert(work.clone());
            let (deliverer, places) = (Arc::clone(&deliverer), Arc::clone(&places));
            tasks.spawn(async move {
                let _place = places.acquire_owned().await;
                let next = perform(&deliverer, &work).await;
                (work, next)
            });
        }
    }
    deliverer.stop();
    while tasks.join_next().await.is_some() {}
}

/// Scans a bucket, or delivers a queue.
async fn perform(deliverer: &Deliverer, work: &Work) -> Next {
    let Work { bucket, queue } = work;
    let next = match queue {
        None => deliverer.waiting_queues(bucket).await.map(|queues| {
            let queue = |queue| Work { bucket: bucket.clone(), queue: Some(queue) };
            queues.into_iter().map(|name| (queue(name), Duration::ZERO)).collect()
        }),
        Some(queue) => {
            let again = deliverer.deliver(bucket, queue).await;
            again.map(|again| again.map(|delay| (work.clone(), delay)).into_iter().collect())
        }
    };
    next.unwrap_or_else(|error| {
        tracing::warn!(%error, bucket, queue, "events were not delivered; the next pass continues");
        vec![(work.clone(), AFTER_ERROR)]
    })
}

async fn sleep_until(time: Option<Instant>) {
    if let Some(time) = time { tokio::time::sleep_until(time).await } else { std::future::pending().await }
}
