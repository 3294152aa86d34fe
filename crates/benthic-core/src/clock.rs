//! Clocks that a test can replace.

use std::fmt;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The source of modification times, deadlines and measured durations.
pub trait Clock: Send + Sync {
    /// Current time in nanoseconds since 1970 (UTC).
    fn unix_ns(&self) -> u64;
    /// Time since a fixed moment in the past. It never decreases.
    fn monotonic(&self) -> Duration;

    fn monotonic_ms(&self) -> u64 {
        u64::try_from(self.monotonic().as_millis()).unwrap_or(u64::MAX)
    }
}

impl fmt::Debug for dyn Clock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Clock")
    }
}

/// Measures elapsed time: `Instant::now` and `elapsed` on a replaceable clock.
#[derive(Clone, Copy)]
pub struct Stopwatch<'a> {
    clock: &'a dyn Clock,
    started: Duration,
}

impl<'a> Stopwatch<'a> {
    pub fn start(clock: &'a dyn Clock) -> Stopwatch<'a> {
        Stopwatch { clock, started: clock.monotonic() }
    }

    pub fn elapsed(&self) -> Duration {
        self.clock.monotonic().saturating_sub(self.started)
    }
}

/// The machine's clock. All instances share one fixed moment, so their monotonic times are
/// comparable.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

#[expect(clippy::disallowed_methods, reason = "this is the clock")]
static FIXED_MOMENT: LazyLock<Instant> = LazyLock::new(Instant::now);

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    fn unix_ns(&self) -> u64 {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |elapsed| u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
    }

    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    fn monotonic(&self) -> Duration {
        let fixed = *FIXED_MOMENT;
        Instant::now().saturating_duration_since(fixed)
    }
}

/// A clock that moves only when a test advances it.
#[derive(Debug, Default)]
pub struct ManualClock {
    now_ms: AtomicU64,
}

impl ManualClock {
    pub fn advance_ms(&self, by_ms: u64) {
        self.now_ms.fetch_add(by_ms, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn unix_ns(&self) -> u64 {
        self.monotonic_ms().saturating_mul(1_000_000)
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.now_ms.load(Ordering::SeqCst))
    }
}
