//! Counters of the cache and of the requests to the upstream.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counters since the start of the gateway.
#[derive(Debug)]
pub struct UpstreamMetrics {
    /// Blocks that were read from the cache.
    pub hits: AtomicU64,
    pub hit_bytes: AtomicU64,
    /// Blocks that were fetched from the upstream.
    pub misses: AtomicU64,
    /// Entries of the cache that were damaged or had disappeared.
    pub damaged: AtomicU64,
    /// Objects that were served although the upstream could not be asked.
    pub stale: AtomicU64,
    pub requests: AtomicU64,
    /// Requests without a valid answer.
    pub failures: AtomicU64,
    pub received_bytes: AtomicU64,
    /// 1, or 0 if the last attempt to reach the upstream failed.
    pub is_up: AtomicU64,
    /// Changes that are not at the upstream yet.
    pub pending: AtomicU64,
    pub pending_bytes: AtomicU64,
    /// When the oldest of them was made, in milliseconds since 1970 (UTC); 0 without one.
    pub oldest_pending_ms: AtomicU64,
    /// 1 if there are changes whose last upload failed.
    pub pending_failing: AtomicU64,
    /// Pending changes that were damaged, and are lost.
    pub damaged_pending: AtomicU64,
    /// Changes that were sent after they had been acknowledged.
    pub written_back: AtomicU64,
    pub failed_write_backs: AtomicU64,
}

impl Default for UpstreamMetrics {
    fn default() -> UpstreamMetrics {
        let zero = || AtomicU64::new(0);
        UpstreamMetrics {
            hits: zero(),
            hit_bytes: zero(),
            misses: zero(),
            damaged: zero(),
            stale: zero(),
            requests: zero(),
            failures: zero(),
            received_bytes: zero(),
            is_up: AtomicU64::new(1),
            pending: zero(),
            pending_bytes: zero(),
            oldest_pending_ms: zero(),
            pending_failing: zero(),
            damaged_pending: zero(),
            written_back: zero(),
            failed_write_backs: zero(),
        }
    }
}

impl UpstreamMetrics {
    /// All counters in the text format of Prometheus.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (name, kind, help, value) in [
            ("cache_hits_total", "counter", "Blocks read from the cache", &self.hits),
            ("cache_hit_bytes_total", "counter", "Bytes of blocks read from the cache", &self.hit_bytes),
            ("cache_misses_total", "counter", "Blocks fetched from the upstream", &self.misses),
            ("cache_damaged_total", "counter", "Damaged entries of the cache", &self.damaged),
            (
                "cache_stale_total",
                "counter",
                "Objects served while the upstream was unreachable",
                &self.stale,
            ),
            ("upstream_requests_total", "counter", "Requests to the upstream", &self.requests),
            ("upstream_failures_total", "counter", "Requests without a valid answer", &self.failures),
            ("upstream_received_bytes_total", "counter", "Bytes received", &self.received_bytes),
            ("upstream_up", "gauge", "Whether the upstream can be reached", &self.is_up),
            ("pending_changes", "gauge", "Changes that are not at the upstream yet", &self.pending),
            ("pending_bytes", "gauge", "Bytes of these changes", &self.pending_bytes),
            (
                "oldest_pending_milliseconds",
                "gauge",
                "When the oldest of them was made, since 1970; 0 without one",
                &self.oldest_pending_ms,
            ),
            ("pending_failing", "gauge", "Whether uploads of changes fail", &self.pending_failing),
            ("damaged_pending_total", "counter", "Pending changes that were damaged", &self.damaged_pending),
            ("written_back_total", "counter", "Pending changes that were sent", &self.written_back),
            ("failed_write_backs_total", "counter", "Failed uploads of changes", &self.failed_write_backs),
        ] {
            // Writing to a string cannot fail.
            let _ = write!(
                text,
                "# HELP benthic_s3_{name} {help}.\n# TYPE benthic_s3_{name} {kind}\nbenthic_s3_{name} {}\n",
                value.load(Relaxed)
            );
        }
        text
    }
}
