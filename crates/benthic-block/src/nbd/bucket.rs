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
mod tests {
    use super::Bucket;
    use crate::limits::{BURST_S_MAX, RATE_MAX};
    use std::time::Duration;
    use tokio::time::Instant;

    #[tokio::test(start_paused = true)]
    async fn a_full_bucket_lets_a_burst_pass_and_then_the_rate() {
        let start = Instant::now();
        let mut bucket = Bucket::new(10, 3, start);
        let mut now = start;
        for _ in 0..130 {
            now += bucket.wait(now);
            bucket.take(1, now);
        }
        // 30 at once, then 100 at 10 a second; the first of them need not wait for a whole token.
        let took = now - start;
        assert!((Duration::from_millis(9_900)..=Duration::from_secs(10)).contains(&took), "{took:?}");
        // A pause fills it again, up to its capacity.
        now += Duration::from_secs(1_000);
        let resumed = now;
        for _ in 0..30 {
            assert_eq!(bucket.wait(now), Duration::ZERO);
            bucket.take(1, now);
        }
        assert!(bucket.wait(resumed) > Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_cost_above_the_capacity_passes_and_is_paid_later() {
        let now = Instant::now();
        let mut bucket = Bucket::new(100, 1, now);
        assert_eq!(bucket.wait(now), Duration::ZERO);
        bucket.take(1_100, now);
        let wait = bucket.wait(now);
        assert!(wait.abs_diff(Duration::from_secs(10)) <= Duration::from_nanos(1), "{wait:?}");
        assert_eq!(bucket.wait(now + wait), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_rate_keeps_the_debt() {
        let now = Instant::now();
        let mut bucket = Bucket::new(1, 1, now);
        bucket.take(1_001, now);
        bucket.set(1_000, 1, now);
        assert!(bucket.wait(now).abs_diff(Duration::from_secs(1)) <= Duration::from_nanos(1));
        bucket.set(10, 1, now + Duration::from_secs(60));
        bucket.take(10, now + Duration::from_secs(60));
        assert!(bucket.wait(now + Duration::from_secs(60)) > Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn extremes_do_not_overflow() {
        let now = Instant::now();
        let mut bucket = Bucket::new(RATE_MAX, BURST_S_MAX, now);
        for _ in 0..1_000 {
            bucket.take(u64::MAX, now);
        }
        bucket.set(1, 1, now);
        assert!(bucket.wait(now) > Duration::from_secs(1 << 30));
        bucket.take(u64::MAX, now + Duration::from_secs(1 << 32));
        assert!(bucket.wait(now) > Duration::ZERO);
    }
}
