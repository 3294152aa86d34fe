//! The gateway's counters, in the text format of Prometheus. Names of buckets and objects are never
//! labels.

use super::exec::RanAt;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Upper bounds of the histogram's buckets, in milliseconds.
const BOUNDS_MS: [u64; 10] = [1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000];

/// Counters since the start of the gateway.
#[derive(Default)]
pub struct Metrics {
    operations: Mutex<BTreeMap<String, u64>>,
    answers: Mutex<BTreeMap<u16, u64>>,
    pub connections: AtomicU64,
    pub in_flight: AtomicU64,
    pub received_bytes: AtomicU64,
    pub sent_bytes: AtomicU64,
    durations: [AtomicU64; BOUNDS_MS.len() + 1],
    duration_us_sum: AtomicU64,
    /// Data objects that garbage collection has removed.
    pub collected: AtomicU64,
    pub failed_collections: AtomicU64,
    /// Events that were delivered.
    pub delivered_events: AtomicU64,
    /// Events that became dead.
    pub dead_events: AtomicU64,
    /// Attempts of deliveries that failed and will be repeated.
    pub failed_deliveries: AtomicU64,
    /// Objects with lines of access logs.
    pub log_objects: AtomicU64,
    /// Lines of access logs that were lost.
    pub dropped_log_lines: AtomicU64,
    /// Methods that ran in the store, and in the gateway.
    methods: [AtomicU64; 2],
}

impl Metrics {
    /// Counts an operation. The name comes from the protocol and never from the client, which
    /// limits the number of labels.
    pub fn operation(&self, name: &str) {
        let mut operations = self.operations.lock();
        match operations.get_mut(name) {
            Some(count) => *count += 1,
            None => drop(operations.insert(name.to_owned(), 1)),
        }
    }

    /// Counts a method that ran.
    pub(crate) fn method(&self, at: RanAt) {
        self.methods[at as usize].fetch_add(1, Relaxed);
    }

    /// Counts an answer and the time to its first byte.
    pub fn answer(&self, status: u16, took: Duration) {
        *self.answers.lock().entry(status).or_default() += 1;
        let took_ms = took.as_millis();
        let bucket =
            BOUNDS_MS.iter().position(|bound| took_ms <= u128::from(*bound)).unwrap_or(BOUNDS_MS.len());
        self.durations[bucket].fetch_add(1, Relaxed);
        self.duration_us_sum.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Relaxed);
    }

    /// All counters in the text format.
    pub fn text(&self) -> String {
        let mut text = String::new();
        head(&mut text, "operations_total", "counter", "S3 operations that were started");
        for (name, count) in self.operations.lock().iter() {
            line(&mut text, "operations_total", &format!("{{operation=\"{name}\"}}"), count);
        }
        head(&mut text, "answers_total", "counter", "Answers by status");
        for (status, count) in self.answers.lock().iter() {
            line(&mut text, "answers_total", &format!("{{status=\"{status}\"}}"), count);
        }
        head(&mut text, "methods_total", "counter", "Methods that requests and rules ran");
        for at in [RanAt::Store, RanAt::Gateway] {
            let labels = format!("{{at=\"{}\"}}", at.label());
            line(&mut text, "methods_total", &labels, self.methods[at as usize].load(Relaxed));
        }
        let name = "first_byte_seconds";
        head(&mut text, name, "histogram", "Time from a request's head to its answer's head");
        let mut count = 0;
        for (bucket, durations) in self.durations.iter().enumerate() {
            count += durations.load(Relaxed);
            let bound =
                BOUNDS_MS.get(bucket).map_or("+Inf".to_owned(), |bound| (*bound as f64 / 1e3).to_string());
            line(&mut text, "first_byte_seconds_bucket", &format!("{{le=\"{bound}\"}}"), count);
        }
        line(&mut text, "first_byte_seconds_sum", "", self.duration_us_sum.load(Relaxed) as f64 / 1e6);
        line(&mut text, "first_byte_seconds_count", "", count);
        for (name, kind, help, value) in [
            ("connections", "gauge", "Open connections", &self.connections),
            ("requests_in_flight", "gauge", "Requests that are not answered yet", &self.in_flight),
            ("received_bytes_total", "counter", "Object bytes received from clients", &self.received_bytes),
            ("sent_bytes_total", "counter", "Object bytes sent to clients", &self.sent_bytes),
            ("collected_total", "counter", "Data objects that garbage collection removed", &self.collected),
            ("failed_collections_total", "counter", "Failed garbage collections", &self.failed_collections),
            ("delivered_events_total", "counter", "Events that were delivered", &self.delivered_events),
            ("dead_events_total", "counter", "Events that became dead", &self.dead_events),
            (
                "failed_deliveries_total",
                "counter",
                "Attempts of deliveries that failed and will be repeated",
                &self.failed_deliveries,
            ),
            ("log_objects_total", "counter", "Objects with lines of access logs", &self.log_objects),
            (
                "dropped_log_lines_total",
                "counter",
                "Lines of access logs that were lost",
                &self.dropped_log_lines,
            ),
        ] {
            head(&mut text, name, kind, help);
            line(&mut text, name, "", value.load(Relaxed));
        }
        text
    }
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to a string cannot fail.
    let _ = write!(text, "# HELP benthic_s3_{name} {help}.\n# TYPE benthic_s3_{name} {kind}\n");
}

fn line(text: &mut String, name: &str, labels: &str, value: impl std::fmt::Display) {
    let _ = writeln!(text, "benthic_s3_{name}{labels} {value}");
}
