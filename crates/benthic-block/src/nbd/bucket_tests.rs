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
