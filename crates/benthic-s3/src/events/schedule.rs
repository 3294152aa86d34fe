//! Decides when the events of which bucket are delivered.

use super::deliver::Deliverer;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Buckets whose events are delivered at the same time.
const BUCKETS_IN_DELIVERY: usize = 256;
/// The pause between two passes of a bucket, so that a busy one has fewer and larger passes.
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

/// Delivers events until [`Wakeups::stop`] is called, and waits for the deliveries that are running then.
pub async fn run(deliverer: Arc<Deliverer>, wakeups: Arc<Wakeups>) {
    wakeups.is_used.store(true, Relaxed);
    // A task for each bucket, so that a slow target delays no other bucket.
    let mut tasks: JoinSet<(String, Option<Duration>)> = JoinSet::new();
    let mut running: BTreeSet<String> = BTreeSet::new();
    // When a bucket is due again. A bucket that is running is due when it has ended.
    let mut due: BTreeMap<String, Instant> = BTreeMap::new();
    let places = Arc::new(Semaphore::new(BUCKETS_IN_DELIVERY));
    while !wakeups.stopping.load(Relaxed) {
        let next = due.iter().filter(|(name, _)| !running.contains(*name)).map(|(_, at)| *at).min();
        tokio::select! {
            () = wakeups.notify.notified() => {
                let now = Instant::now();
                for name in std::mem::take(&mut *wakeups.names.lock()) {
                    let at = due.entry(name).or_insert(now);
                    *at = now.min(*at);
                }
            }
            () = sleep_until(next) => {}
            Some(ended) = tasks.join_next() => match ended {
                Ok((name, again)) => {
                    running.remove(&name);
                    if let Some(again) = again {
                        let at = Instant::now() + again;
                        let known = due.entry(name).or_insert(at);
                        *known = at.min(*known);
                    }
                }
                // The name of a task that panicked is lost. Leases prevent that two run at once.
                Err(_) => running.clear(),
            },
        }
        let now = Instant::now();
        let ready: Vec<String> = due
            .iter()
            .filter(|(name, at)| **at <= now && !running.contains(*name))
            .map(|(name, _)| name.clone())
            .collect();
        for name in ready {
            due.remove(&name);
            running.insert(name.clone());
            let (deliverer, places) = (Arc::clone(&deliverer), Arc::clone(&places));
            tasks.spawn(async move {
                let _place = places.acquire_owned().await;
                let again = match deliverer.deliver(&name).await {
                    Ok(again) => again,
                    Err(error) => {
                        tracing::warn!(%error, bucket = name, "events were not delivered; the next pass continues");
                        Some(AFTER_ERROR)
                    }
                };
                tokio::time::sleep(BETWEEN_PASSES).await;
                (name, again)
            });
        }
    }
    deliverer.stop();
    while tasks.join_next().await.is_some() {}
}

async fn sleep_until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}
