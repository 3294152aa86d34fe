//! Counters and latency histograms of an export's requests, and log lines for slow ones.

use super::wire::{Request, command};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// Upper bounds of the latency histogram, in microseconds: from a cached read to a disk that
/// hangs.
pub const BOUNDS_US: [u64; 16] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
    2_500_000, 5_000_000, 10_000_000,
];
/// Shortest time between two log lines about slow requests of an export.
const SLOW_LINES_INTERVAL: Duration = Duration::from_secs(1);

/// A kind of requests that is measured separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Write,
    Flush,
    /// TRIM and WRITE_ZEROES.
    Zero,
    /// BLOCK_STATUS, CACHE and refused commands.
    Other,
}

impl Kind {
    pub const ALL: [Kind; 5] = [Kind::Read, Kind::Write, Kind::Flush, Kind::Zero, Kind::Other];

    pub fn of(request: &Request) -> Kind {
        match request.command {
            command::READ => Kind::Read,
            command::WRITE => Kind::Write,
            command::FLUSH => Kind::Flush,
            command::TRIM | command::WRITE_ZEROES => Kind::Zero,
            _ => Kind::Other,
        }
    }

    pub fn label(self) -> &'static str {
        match self {
            Kind::Read => "read",
            Kind::Write => "write",
            Kind::Flush => "flush",
            Kind::Zero => "zero",
            Kind::Other => "other",
        }
    }
}

/// The counters of an export. They only grow, except the numbers of current connections and
/// requests.
#[derive(Default)]
pub(super) struct Stats {
    kinds: [KindStats; Kind::ALL.len()],
    pub clients: AtomicU64,
    pub in_flight: AtomicU64,
    pub waiting: AtomicU64,
    slow_lines: Mutex<SlowLines>,
}

/// The counters of one kind of requests.
#[derive(Default)]
pub(super) struct KindStats {
    /// Requests by latency: the first bound that is not exceeded, or none.
    pub latencies: [AtomicU64; BOUNDS_US.len() + 1],
    pub latency_ns: AtomicU64,
    pub bytes: AtomicU64,
    pub errors: AtomicU64,
    pub slow: AtomicU64,
    pub throttled: AtomicU64,
    pub throttled_ns: AtomicU64,
}

#[derive(Default)]
struct SlowLines {
    last: Option<Instant>,
    left_out: u64,
}

impl Stats {
    pub fn kind(&self, kind: Kind) -> &KindStats {
        &self.kinds[kind as usize]
    }

    /// Counts a request that was refused before it ran.
    pub fn refused(&self, request: &Request) {
        self.kind(Kind::of(request)).errors.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request whose wait for its throttle has ended.
    pub fn note_throttled(&self, request: &Request, waited: Duration) {
        let kind = self.kind(Kind::of(request));
        kind.throttled.fetch_add(1, Ordering::Relaxed);
        kind.throttled_ns.fetch_add(nanoseconds(waited), Ordering::Relaxed);
    }

    /// Counts a request that has ended, and logs it if it was slow.
    pub fn note_ended(
        &self,
        export: &str,
        request: &Request,
        took: Duration,
        is_ok: bool,
        slow_request: Duration,
    ) {
        let kind = self.kind(Kind::of(request));
        let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = BOUNDS_US.partition_point(|bound_us| *bound_us < took_us);
        kind.latencies[bucket].fetch_add(1, Ordering::Relaxed);
        kind.latency_ns.fetch_add(nanoseconds(took), Ordering::Relaxed);
        match is_ok {
            true => kind.bytes.fetch_add(request.len_bytes, Ordering::Relaxed),
            false => kind.errors.fetch_add(1, Ordering::Relaxed),
        };
        if took >= slow_request {
            kind.slow.fetch_add(1, Ordering::Relaxed);
            self.log_slow(export, request, took);
        }
    }

    /// A store that hangs makes all requests slow, so only some have a line.
    fn log_slow(&self, export: &str, request: &Request, took: Duration) {
        let mut lines = self.slow_lines.lock();
        let now = Instant::now();
        if lines.last.is_some_and(|last| now.saturating_duration_since(last) < SLOW_LINES_INTERVAL) {
            lines.left_out += 1;
            return;
        }
        let left_out = std::mem::take(&mut lines.left_out);
        lines.last = Some(now);
        drop(lines);
        let Request { offset_bytes, len_bytes, .. } = *request;
        let (kind, took_ms) = (Kind::of(request).label(), took.as_millis());
        tracing::warn!(export, kind, offset_bytes, len_bytes, took_ms, left_out, "a request was slow");
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Adds one to a number while it exists.
pub(super) struct Present<'a>(&'a AtomicU64);

impl Present<'_> {
    pub fn start(count: &AtomicU64) -> Present<'_> {
        count.fetch_add(1, Ordering::Relaxed);
        Present(count)
    }
}

impl Drop for Present<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
