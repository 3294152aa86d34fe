//! A token bucket. It fills at a rate, up to a capacity. A request takes its cost from the bucket
//! once the bucket is not empty, and may leave it in debt. So a request passes even if its cost
//! exceeds the capacity, and the rate still holds on average.

use std::time::Duration;
use tokio::time::Instant;

/// A bucket holds billionths of tokens: a nanosecond adds `rate` of them, so no time is lost to
/// rounding.
const NANO: i128 = 1_000_000_000;

/// A token bucket.
pub struct Bucket {
    rate_per_s: u64,
    capacity: i128,
    /// Negative if the bucket is in debt.
    level: i128,
    /// The time of `level`.
    at: Instant,
}

impl Bucket {
    /// A full bucket. The rate and the burst are at most those of [`crate::Limits::check`], for
    /// which no sum here overflows.
    pub fn new(rate_per_s: u64, burst_s: u64, now: Instant) -> Bucket {
        let capacity = capacity(rate_per_s, burst_s);
        Bucket { rate_per_s, capacity, level: capacity, at: now }
    }

    /// Changes the rate and the capacity. A debt remains.
    pub fn set(&mut self, rate_per_s: u64, burst_s: u64, now: Instant) {
        self.fill(now);
        self.rate_per_s = rate_per_s;
        self.capacity = capacity(rate_per_s, burst_s);
        self.level = self.level.min(self.capacity);
    }

    /// The time until the bucket is no longer empty; zero if it is not empty now.
    pub fn wait(&mut self, now: Instant) -> Duration {
        self.fill(now);
        if self.level > 0 {
            return Duration::ZERO;
        }
        // Rounded up, and at least a nanosecond.
        let wait_ns = -self.level / i128::from(self.rate_per_s) + 1;
        Duration::from_nanos(u64::try_from(wait_ns).unwrap_or(u64::MAX))
    }

    /// Takes a cost out, also if the bucket is empty.
    pub fn take(&mut self, cost: u64, now: Instant) {
        self.fill(now);
        self.level = self.level.saturating_sub(i128::from(cost) * NANO);
    }

    fn fill(&mut self, now: Instant) {
        let elapsed_ns = now.saturating_duration_since(self.at).as_nanos() as i128;
        let gain = elapsed_ns.saturating_mul(i128::from(self.rate_per_s));
        self.level = self.level.saturating_add(gain).min(self.capacity);
        self.at = self.at.max(now);
    }
}

fn capacity(rate_per_s: u64, burst_s: u64) -> i128 {
    i128::from(rate_per_s) * i128::from(burst_s) * NANO
}

#[cfg(test)]
#[path = "bucket_tests.rs"]
mod tests;
