//! The state of a server's exports in Prometheus' text format.

use super::export::{Export, Exports};
use super::stats::{BOUNDS_US, Kind, KindStats, Stats};
use crate::{ImageInfo, Limits};
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Reads the metrics of exports, also while a server serves them.
#[derive(Clone)]
pub struct Metrics(Vec<Arc<Export>>);

/// A server's measurements of one image.
pub struct ExportMetrics {
    pub name: String,
    pub info: ImageInfo,
    pub clients: u64,
    pub in_flight: u64,
    /// Requests that wait for limits.
    pub waiting: u64,
    pub limits: Limits,
    pub kinds: [KindMetrics; Kind::ALL.len()],
}

/// A server's measurements of the requests of one kind.
pub struct KindMetrics {
    pub label: &'static str,
    /// Requests by latency, one count for each of [`BOUNDS_US`] and one for the rest.
    pub latencies: Vec<u64>,
    pub bytes: u64,
    pub errors: u64,
    pub slow: u64,
}

impl Exports {
    /// The measurements of these exports.
    pub fn metrics(&self) -> Metrics {
        Metrics(self.0.clone())
    }
}

impl Metrics {
    /// The metrics in Prometheus' text format, version 0.0.4.
    pub fn text(&self) -> String {
        let mut out = String::new();
        self.histograms(&mut out);
        self.counters(&mut out);
        self.gauges(&mut out);
        self.limits(&mut out);
        out
    }

    /// The same numbers for a page that shows them. Latencies are counts by bound, and the last one
    /// has no bound.
    pub fn exports(&self) -> Vec<ExportMetrics> {
        let load = |value: &AtomicU64| value.load(Ordering::Relaxed);
        let describe = |export: &Arc<Export>| ExportMetrics {
            name: export.name.clone(),
            info: export.image.info(),
            clients: load(&export.stats.clients),
            in_flight: load(&export.stats.in_flight),
            waiting: load(&export.stats.waiting),
            limits: export.throttle().limits(),
            kinds: Kind::ALL.map(|kind| {
                let stats = export.stats.kind(kind);
                KindMetrics {
                    label: kind.label(),
                    latencies: stats.latencies.iter().map(load).collect(),
                    bytes: load(&stats.bytes),
                    errors: load(&stats.errors),
                    slow: load(&stats.slow),
                }
            }),
        };
        self.0.iter().map(describe).collect()
    }

    fn histograms(&self, out: &mut String) {
        let name = "benthic_image_request_seconds";
        head(out, name, "Time of requests in the server, without their wait for limits", "histogram");
        for (labels, kind) in self.kinds(&Kind::ALL) {
            // Counts of a later bound include those of earlier ones.
            let mut count = 0;
            for (bucket, latencies) in kind.latencies.iter().enumerate() {
                count += latencies.load(Ordering::Relaxed);
                let bound =
                    BOUNDS_US.get(bucket).map_or("+Inf".to_owned(), |us| seconds(u128::from(*us) * 1_000));
                let _ = writeln!(out, "{name}_bucket{{{labels},le=\"{bound}\"}} {count}");
            }
            let sum = seconds(u128::from(kind.latency_ns.load(Ordering::Relaxed)));
            let _ = writeln!(out, "{name}_sum{{{labels}}} {sum}\n{name}_count{{{labels}}} {count}");
        }
    }

    fn counters(&self, out: &mut String) {
        type Value = fn(&KindStats) -> &AtomicU64;
        let with_bytes = &[Kind::Read, Kind::Write, Kind::Zero];
        let limited = &[Kind::Read, Kind::Write, Kind::Zero, Kind::Other];
        let counters: [(&str, &str, &[Kind], Value); 4] = [
            ("benthic_image_bytes_total", "Bytes of successful requests", with_bytes, |kind| &kind.bytes),
            (
                "benthic_image_request_errors_total",
                "Requests that failed or were refused",
                &Kind::ALL,
                |kind| &kind.errors,
            ),
            (
                "benthic_image_slow_requests_total",
                "Requests that exceeded the time of slow requests",
                &Kind::ALL,
                |kind| &kind.slow,
            ),
            ("benthic_image_throttled_requests_total", "Requests that waited for limits", limited, |kind| {
                &kind.throttled
            }),
        ];
        for (name, help, kinds, value) in counters {
            head(out, name, help, "counter");
            for (labels, kind) in self.kinds(kinds) {
                let _ = writeln!(out, "{name}{{{labels}}} {}", value(kind).load(Ordering::Relaxed));
            }
        }
        let name = "benthic_image_throttled_seconds_total";
        head(out, name, "Time that requests waited for limits", "counter");
        for (labels, kind) in self.kinds(limited) {
            let waited = seconds(u128::from(kind.throttled_ns.load(Ordering::Relaxed)));
            let _ = writeln!(out, "{name}{{{labels}}} {waited}");
        }
    }

    fn gauges(&self, out: &mut String) {
        type Value = fn(&Stats) -> &AtomicU64;
        let gauges: [(&str, &str, Value); 3] = [
            (
                "benthic_image_requests_in_flight",
                "Requests that run, or wait for other images' requests",
                |stats| &stats.in_flight,
            ),
            ("benthic_image_requests_waiting", "Requests that wait for limits", |stats| &stats.waiting),
            ("benthic_image_clients", "Connections to the image", |stats| &stats.clients),
        ];
        for (name, help, value) in gauges {
            head(out, name, help, "gauge");
            for export in &self.0 {
                let value = value(&export.stats).load(Ordering::Relaxed);
                let _ = writeln!(out, "{name}{{{}}} {value}", image_label(export));
            }
        }
    }

    fn limits(&self, out: &mut String) {
        let limits: Vec<_> =
            self.0.iter().map(|export| (image_label(export), export.throttle().limits())).collect();
        for (name, help, of_reads) in [
            (
                "benthic_image_limit_operations_per_second",
                "Limit of the image's requests; absent if there is none",
                true,
            ),
            (
                "benthic_image_limit_bytes_per_second",
                "Limit of the image's bytes; absent if there is none",
                false,
            ),
        ] {
            head(out, name, help, "gauge");
            for (image, limits) in &limits {
                let [read, write] = match of_reads {
                    true => [limits.read_ops_per_s, limits.write_ops_per_s],
                    false => [limits.read_bytes_per_s, limits.write_bytes_per_s],
                };
                for (kind, limit) in [("read", read), ("write", write)] {
                    if let Some(limit) = limit {
                        let _ = writeln!(out, "{name}{{{image},kind=\"{kind}\"}} {limit}");
                    }
                }
            }
        }
    }

    /// The labels and the counters of some kinds of all exports.
    fn kinds(&self, kinds: &[Kind]) -> impl Iterator<Item = (String, &KindStats)> {
        self.0.iter().flat_map(|export| {
            let image = image_label(export);
            let labelled =
                |kind: &Kind| (format!("{image},kind=\"{}\"", kind.label()), export.stats.kind(*kind));
            kinds.iter().map(labelled).collect::<Vec<_>>()
        })
    }
}

fn head(out: &mut String, name: &str, help: &str, kind: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// A pool's or an image's name may contain quotes and backslashes.
fn image_label(export: &Export) -> String {
    let name = export.name.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("image=\"{name}\"")
}

/// Seconds as a decimal number, without the loss of a floating-point number.
fn seconds(ns: u128) -> String {
    let text = format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
