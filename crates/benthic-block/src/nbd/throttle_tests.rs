//! Tests of throttles, in simulated time.

use super::{Cost, Throttle, Throttles};
use crate::Limits;
use crate::nbd::wire::{Request, command, command_flag};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

fn request(command: u16, len_bytes: u64) -> Request {
    Request { flags: 0, command, cookie: 0, offset_bytes: 0, len_bytes, payload_bytes: 0 }
}

fn unlimited() -> Arc<Throttle> {
    Arc::new(Throttle::new(&Limits::default()))
}

async fn pass(throttles: &Arc<Throttles>, request: &Request) {
    let (_hurry, mut hurry) = watch::channel(false);
    if let Some(pending) = throttles.try_pass(request) {
        pending.pass(&mut hurry).await;
    }
}

/// The time that requests take one after another.
async fn time(throttles: &Arc<Throttles>, request: &Request, count: usize) -> Duration {
    let start = Instant::now();
    for _ in 0..count {
        pass(throttles, request).await;
    }
    start.elapsed()
}

/// Timers have a resolution of a millisecond.
fn assert_near(took: Duration, expected: Duration) {
    let tolerance = Duration::from_millis(200);
    assert!(took.abs_diff(expected) < tolerance, "{took:?} instead of {expected:?}");
}

#[tokio::test(start_paused = true)]
async fn reads_and_writes_have_limits_of_their_own() {
    let limits = Limits { read_ops_per_s: Some(10), write_ops_per_s: Some(100), ..Limits::default() };
    let throttles = Throttles::new(&Limits::default(), Arc::new(Throttle::new(&limits)));
    assert_near(time(&throttles, &request(command::READ, 512), 60).await, Duration::from_secs(5));
    assert_near(time(&throttles, &request(command::WRITE, 512), 600).await, Duration::from_secs(5));
    assert_eq!(time(&throttles, &request(command::FLUSH, 0), 1_000).await, Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn bytes_are_limited_too() {
    let limits = Limits { write_bytes_per_s: Some(1 << 20), burst_s: Some(2), ..Limits::default() };
    let throttles = Throttles::new(&Limits::default(), Arc::new(Throttle::new(&limits)));
    assert_eq!(time(&throttles, &request(command::READ, 32 << 20), 10).await, Duration::ZERO);
    // The first request exceeds the bucket. Its debt delays the second.
    let write = request(command::WRITE, 32 << 20);
    assert_eq!(time(&throttles, &write, 1).await, Duration::ZERO);
    // A trim carries no data, and does not wait for writes either.
    assert_eq!(time(&throttles, &request(command::TRIM, u64::from(u32::MAX)), 10).await, Duration::ZERO);
    assert_near(time(&throttles, &write, 1).await, Duration::from_secs(30));
}

#[tokio::test(start_paused = true)]
async fn the_clients_of_an_image_share_its_limits() {
    let limits = Limits { read_ops_per_s: Some(10), ..Limits::default() };
    let image = Arc::new(Throttle::new(&limits));
    let client = Limits { read_ops_per_s: Some(5), ..Limits::default() };
    let one = Throttles::new(&client, Arc::clone(&image));
    let two = Throttles::new(&Limits::default(), image);
    let read = request(command::READ, 512);
    let start = Instant::now();
    // The second client may use the rate that the limit of the first one leaves.
    tokio::join!(time(&one, &read, 55), time(&two, &read, 55));
    assert_near(start.elapsed(), Duration::from_secs(10));
}

#[tokio::test(start_paused = true)]
async fn new_limits_apply_to_requests_that_wait() {
    let slow = Limits { write_ops_per_s: Some(1), ..Limits::default() };
    let image = Arc::new(Throttle::new(&slow));
    let throttles = Throttles::new(&Limits::default(), Arc::clone(&image));
    let write = request(command::WRITE, 512);
    let start = Instant::now();
    let change = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        image.set(&Limits { write_ops_per_s: Some(100), ..Limits::default() });
    };
    tokio::join!(time(&throttles, &write, 101), change);
    assert_near(start.elapsed(), Duration::from_millis(1_500));
    image.set(&slow);
    let start = Instant::now();
    let change = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        image.set(&Limits::default());
    };
    tokio::join!(time(&throttles, &write, 10_000), change);
    assert_near(start.elapsed(), Duration::from_millis(500));
}

#[tokio::test(start_paused = true)]
async fn a_request_in_a_hurry_passes_but_is_charged() {
    let limits = Limits { read_ops_per_s: Some(1), ..Limits::default() };
    let throttles = Throttles::new(&Limits::default(), Arc::new(Throttle::new(&limits)));
    let read = request(command::READ, 512);
    pass(&throttles, &read).await;
    let (hurry, hurries) = watch::channel(false);
    let waiting = (0..10).map(|_| {
        let pending = throttles.try_pass(&read).unwrap();
        let mut hurries = hurries.clone();
        async move { pending.pass(&mut hurries).await }
    });
    let start = Instant::now();
    let all = futures::future::join_all(waiting);
    tokio::join!(all, async { hurry.send_replace(true) });
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert_near(time(&throttles, &read, 1).await, Duration::from_secs(10));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_passes_overtakes_none_that_waits() {
    let image = unlimited();
    image.set(&Limits { read_ops_per_s: Some(1), read_bytes_per_s: Some(1 << 30), ..Limits::default() });
    let throttles = Throttles::new(&Limits::default(), image);
    let read = request(command::READ, 512);
    pass(&throttles, &read).await;
    let pending = throttles.try_pass(&read).unwrap();
    let (_hurry, mut hurry) = watch::channel(false);
    let mut waiting = std::pin::pin!(pending.pass(&mut hurry));
    assert!(futures::poll!(&mut waiting).is_pending());
    tokio::time::sleep(Duration::from_secs(60)).await;
    // There is a token, but it belongs to the request that waits.
    assert!(throttles.try_pass(&read).is_some());
    waiting.await;
    assert!(throttles.try_pass(&read).is_some());
}

#[test]
fn only_requests_with_data_cost_bytes() {
    let bytes = |command, flags| Cost::of(&Request { flags, ..request(command, 7) }).map(|cost| cost.bytes);
    for (command, expected) in [
        (command::READ, Some(7)),
        (command::CACHE, Some(7)),
        (command::BLOCK_STATUS, Some(0)),
        (command::WRITE, Some(7)),
        (command::TRIM, Some(0)),
        (command::WRITE_ZEROES, Some(0)),
        (command::FLUSH, None),
        (command::DISCONNECT, None),
    ] {
        assert_eq!(bytes(command, command_flag::FUA), expected);
    }
    assert_eq!(bytes(command::WRITE_ZEROES, command_flag::NO_HOLE), Some(7));
}
