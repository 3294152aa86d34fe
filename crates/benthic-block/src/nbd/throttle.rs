//! Limits of requests and bytes per second.
//!
//! Reads and writes wait in a lane each, in the order of their arrival, until the lane's buckets
//! have tokens. A request that waits in a task of its own holds no data: a read gets its memory
//! afterwards, and `transmission` decides how many writes may wait with their data. The
//! alternative, to stop reading from a client that is over its limit, would also hold back its
//! flushes, and its reads because of its writes.

use super::bucket::Bucket;
use super::wire::{Request, command, command_flag};
use crate::Limits;
use crate::limits::BURST_S_DEFAULT;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

/// Longest time between two looks at a bucket.
const WAIT_STEP: Duration = Duration::from_secs(3_600);

/// The cost of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    direction: Direction,
    bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Read,
    Write,
}

impl Cost {
    /// `None` for a request that is not limited. A flush is not, because waiting for it delays all
    /// requests that a guest orders with it, and it costs little without writes.
    ///
    /// The bytes are those that the image reads or writes. A trim has none: otherwise one trim of a
    /// whole disk would stop all writes for hours. Zeros have none either, unless they keep their
    /// space, because then the image writes them as data.
    pub fn of(request: &Request) -> Option<Cost> {
        let keeps_space = request.flags & command_flag::NO_HOLE != 0;
        let (direction, has_bytes) = match request.command {
            command::READ | command::CACHE => (Direction::Read, true),
            command::BLOCK_STATUS => (Direction::Read, false),
            command::WRITE => (Direction::Write, true),
            command::TRIM => (Direction::Write, false),
            command::WRITE_ZEROES => (Direction::Write, keeps_space),
            _ => return None,
        };
        Some(Cost { direction, bytes: if has_bytes { request.len_bytes } else { 0 } })
    }
}

/// The limits of an image or of a client.
pub struct Throttle {
    reads: Lane,
    writes: Lane,
    limits: Mutex<Limits>,
}

impl Throttle {
    pub fn new(limits: &Limits) -> Throttle {
        let throttle = Throttle { reads: Lane::default(), writes: Lane::default(), limits: Mutex::default() };
        throttle.set(limits);
        throttle
    }

    /// Replaces the limits, also for requests that wait.
    pub fn set(&self, limits: &Limits) {
        *self.limits.lock() = *limits;
        let burst_s = limits.burst_s.unwrap_or(BURST_S_DEFAULT);
        self.reads.set(limits.read_ops_per_s, limits.read_bytes_per_s, burst_s);
        self.writes.set(limits.write_ops_per_s, limits.write_bytes_per_s, burst_s);
    }

    pub fn limits(&self) -> Limits {
        *self.limits.lock()
    }

    fn lane(&self, cost: Cost) -> &Lane {
        match cost.direction {
            Direction::Read => &self.reads,
            Direction::Write => &self.writes,
        }
    }
}

/// The requests of one direction.
#[derive(Default)]
struct Lane {
    state: Mutex<LaneState>,
    /// The request that is next holds it. It is fair.
    turn: tokio::sync::Mutex<()>,
    changed: Notify,
}

#[derive(Default)]
struct LaneState {
    ops: Option<Bucket>,
    bytes: Option<Bucket>,
    waiting: usize,
}

impl LaneState {
    fn take(&mut self, cost: Cost, now: Instant) {
        if let Some(ops) = &mut self.ops {
            ops.take(1, now);
        }
        if let Some(bytes) = &mut self.bytes {
            bytes.take(cost.bytes, now);
        }
    }

    fn limits(&self, cost: Cost) -> bool {
        self.ops.is_some() || (self.bytes.is_some() && cost.bytes > 0)
    }

    /// Takes the cost if no bucket is empty; otherwise returns when to try again.
    fn try_take(&mut self, cost: Cost) -> Result<(), Instant> {
        let now = Instant::now();
        let ops = self.ops.as_mut().map(|ops| ops.wait(now));
        let bytes = self.bytes.as_mut().filter(|_| cost.bytes > 0).map(|bytes| bytes.wait(now));
        match ops.max(bytes).filter(|wait| !wait.is_zero()) {
            None => {
                self.take(cost, now);
                Ok(())
            }
            // A later moment may not exist; the caller tries again anyway.
            Some(wait) => Err(now + wait.min(WAIT_STEP)),
        }
    }
}

impl Lane {
    fn set(&self, ops_per_s: Option<u64>, bytes_per_s: Option<u64>, burst_s: u64) {
        let now = Instant::now();
        let state = &mut *self.state.lock();
        for (bucket, rate_per_s) in [(&mut state.ops, ops_per_s), (&mut state.bytes, bytes_per_s)] {
            match (rate_per_s, bucket.as_mut()) {
                (None, _) => *bucket = None,
                (Some(rate_per_s), None) => *bucket = Some(Bucket::new(rate_per_s, burst_s, now)),
                (Some(rate_per_s), Some(bucket)) => bucket.set(rate_per_s, burst_s, now),
            }
        }
        self.changed.notify_waiters();
    }

    /// Lets a request pass if it need not wait. Otherwise it counts as waiting.
    fn try_pass(&self, cost: Cost) -> bool {
        let mut state = self.state.lock();
        let passes = !state.limits(cost) || (state.waiting == 0 && state.try_take(cost).is_ok());
        state.waiting += usize::from(!passes);
        passes
    }

    /// Waits until a request may pass that counts as waiting.
    async fn pass(&self, cost: Cost) {
        let _turn = self.turn.lock().await;
        loop {
            // Created first, so that no change is missed.
            let changed = self.changed.notified();
            let Err(at) = self.state.lock().try_take(cost) else { return };
            tokio::select! {
                () = tokio::time::sleep_until(at) => {}
                () = changed => {}
            }
        }
    }
}

/// The throttles that a connection's requests pass: first the client's, then the image's.
pub struct Throttles {
    client: Throttle,
    image: Arc<Throttle>,
}

impl Throttles {
    pub fn new(client: &Limits, image: Arc<Throttle>) -> Arc<Throttles> {
        Arc::new(Throttles { client: Throttle::new(client), image })
    }

    fn lanes(&self, cost: Cost) -> [&Lane; 2] {
        [self.client.lane(cost), self.image.lane(cost)]
    }

    /// Lets a request pass, or returns its place among those that wait.
    pub fn try_pass(self: &Arc<Self>, request: &Request) -> Option<Pending> {
        let cost = Cost::of(request)?;
        let lane = self.lanes(cost).iter().position(|lane| !lane.try_pass(cost))?;
        Some(Pending { throttles: Arc::clone(self), cost, lane })
    }
}

/// A request that waits.
#[must_use]
pub struct Pending {
    throttles: Arc<Throttles>,
    cost: Cost,
    /// The lane in which it waits.
    lane: usize,
}

impl Pending {
    /// Waits until the request may pass, or until `hurry` is true. Then the request still costs as
    /// much, and later ones wait for longer.
    pub async fn pass(mut self, hurry: &mut watch::Receiver<bool>) {
        loop {
            let lanes = self.throttles.lanes(self.cost);
            let lane = lanes[self.lane];
            tokio::select! {
                biased;
                // An error means that the connection has ended.
                _ = hurry.wait_for(|hurry| *hurry) => lane.state.lock().take(self.cost, Instant::now()),
                () = lane.pass(self.cost) => {}
            }
            let Some(next) = lanes.get(self.lane + 1) else { return };
            if next.try_pass(self.cost) {
                return;
            }
            lane.state.lock().waiting -= 1;
            self.lane += 1;
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.throttles.lanes(self.cost)[self.lane].state.lock().waiting -= 1;
    }
}

#[cfg(test)]
#[path = "throttle_tests.rs"]
mod tests;
