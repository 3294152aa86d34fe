//! Waiting in tests.
//!
//! `std::thread::park_timeout` is no pause: an executor that ran on the thread before may have left
//! a wake-up, and then the call returns at once.

use benthic_core::{Stopwatch, SystemClock};
use std::time::Duration;

/// Far more than any condition needs on a machine that is busy with other tests.
const LIMIT: Duration = Duration::from_secs(180);
/// The shortest and the longest time between two checks of a condition.
const INTERVAL: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));

/// Blocks the thread for at least `duration`.
#[expect(clippy::disallowed_methods, reason = "a test has no event that could end the wait early")]
pub fn pause(duration: Duration) {
    std::thread::sleep(duration);
}

/// Repeats a check until it returns true. A check that runs programs takes a core from the
/// processes that it waits for, so the pause after it is as long as the check was.
///
/// # Panics
/// If the check still returns false after three minutes. The message contains `what`.
#[track_caller]
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let waited = Stopwatch::start(&SystemClock);
    loop {
        let check = Stopwatch::start(&SystemClock);
        if holds() {
            return;
        }
        assert!(waited.elapsed() < LIMIT, "waited too long for {what}");
        pause(check.elapsed().clamp(INTERVAL.0, INTERVAL.1));
    }
}
