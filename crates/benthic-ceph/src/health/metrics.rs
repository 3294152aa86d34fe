//! Exports the report in Prometheus' text format. A metric that Ceph's own exporter has too uses
//! the same name and labels. All other names begin with `benthic_`.

use super::overview::{Overview, PoolOverview};
use super::report::{OsdNumbers, Report, Verdict};
use crate::cluster_state::Io;
use std::fmt::{Display, Write};

/// The media type of the output.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A metric: its name, help text and type.
pub struct Metric {
    pub name: &'static str,
    help: &'static str,
    kind: &'static str,
}

pub(super) const fn metric(name: &'static str, help: &'static str) -> Metric {
    Metric { name, help, kind: "gauge" }
}

/// A metric whose value only grows.
pub(super) const fn counter(name: &'static str, help: &'static str) -> Metric {
    Metric { name, help, kind: "counter" }
}

/// All metrics of the report, in the order of the output.
pub static METRICS: [Metric; 52] = [
    metric("benthic_health_verdict", "0 healthy, 1 degraded, 2 at risk, 3 down"),
    metric(
        "benthic_health_finding",
        "1 for each finding; severity is info, warning or error, and stops_io is 0 or 1",
    ),
    metric(
        "benthic_health_verdict_by_source",
        "The verdict that one source alone leads to: the monitors, or Benthic's own requests; absent if it says nothing",
    ),
    metric("benthic_health_missing", "Number of parts of the cluster's state that could not be read"),
    metric("benthic_health_stale", "1 if the manager's data are stale because no manager answers"),
    metric("benthic_health_read_unixtime_seconds", "Time of the last poll of the cluster"),
    metric("benthic_health_source_unixtime_seconds", "Time when the source was last asked"),
    metric("benthic_availability_percent", "The lower value of benthic_availability_by_source_percent"),
    metric(
        "benthic_availability_by_source_percent",
        "By the monitors: 100 if Ceph calls itself healthy, else the share of placement groups that take I/O; by Benthic's own \
         requests: the share of placement groups whose primary OSD answers",
    ),
    metric("ceph_health_status", "Ceph's own health status: 0 HEALTH_OK, 1 HEALTH_WARN, 2 HEALTH_ERR"),
    metric("ceph_health_detail", "1 for each failing Ceph health check"),
    metric("ceph_mon_quorum_status", "1 if the monitor is in the quorum"),
    metric("benthic_mon_clock_skew_seconds", "The largest difference between monitors' clocks"),
    metric("benthic_mgr_available", "1 if a manager is active"),
    metric("benthic_mgr_standby", "Standby managers"),
    metric("ceph_osd_up", "1 if the monitors consider the OSD up"),
    metric("benthic_osd_answers", "1 if the OSD answered Benthic, 0 if not; absent if it was not asked"),
    metric("ceph_osd_in", "1 if CRUSH places data on the OSD"),
    metric("benthic_osds_asked", "OSDs that Benthic asked for an answer"),
    metric("ceph_osd_stat_bytes", "The OSD's space"),
    metric("ceph_osd_stat_bytes_used", "The OSD's used space"),
    metric("ceph_osd_commit_latency_ms", "Time until the OSD's disk has made a write durable"),
    metric("ceph_osd_apply_latency_ms", "Time until a write to the OSD's disk is readable"),
    metric("ceph_pool_metadata", "1 for each pool, with its name"),
    metric("ceph_pg_total", "Placement groups of the pool"),
    metric("ceph_pg_active", "Placement groups of the pool that take I/O"),
    metric("ceph_pool_stored", "Bytes that clients stored in the pool, without replication"),
    metric("ceph_pool_objects", "Objects in the pool"),
    metric("benthic_pool_read_bytes_per_second", "Bytes that clients read from the pool"),
    metric("benthic_pool_write_bytes_per_second", "Bytes that clients write to the pool"),
    metric("benthic_pool_read_operations_per_second", "Operations of clients that read from the pool"),
    metric("benthic_pool_write_operations_per_second", "Operations of clients that write to the pool"),
    metric("ceph_pool_recovering_bytes_per_sec", "Bytes of the pool that OSDs recover or move"),
    metric("ceph_pool_recovering_objects_per_sec", "Objects of the pool that OSDs recover or move"),
    metric("benthic_client_read_bytes_per_second", "Bytes that clients read"),
    metric("benthic_client_write_bytes_per_second", "Bytes that clients write"),
    metric("benthic_client_read_operations_per_second", "Operations of clients that read"),
    metric("benthic_client_write_operations_per_second", "Operations of clients that write"),
    metric("benthic_recovery_bytes_per_second", "Bytes that OSDs recover or move"),
    metric("benthic_recovery_objects_per_second", "Objects that OSDs recover or move"),
    metric("benthic_pgs", "Placement groups by state"),
    metric("ceph_cluster_total_bytes", "Raw space"),
    metric("ceph_cluster_total_used_bytes", "Used raw space"),
    metric("ceph_num_objects_degraded", "Missing replicas"),
    metric("ceph_num_objects_misplaced", "Replicas that are not on the OSDs that CRUSH chooses"),
    metric("ceph_num_objects_unfound", "Objects whose latest version is on no OSD that is up"),
    metric("ceph_healthcheck_slow_ops", "Operations that wait for longer than Ceph's complaint time"),
    metric(
        "benthic_osd_full_in_days",
        "Days until the fullest OSD is full at this growth; absent if unknown",
    ),
    metric("benthic_probe_write_seconds", "Latency of the probe's write"),
    metric("benthic_probe_read_seconds", "Latency of the probe's read"),
    metric("benthic_scrubbed_days_ago", "Days since the oldest last scrub; kind is shallow or deep"),
    metric("benthic_class_build", "OSDs that run this build of the class library"),
];

/// Collects samples and writes them grouped by metric.
pub(super) struct Text {
    metrics: &'static [Metric],
    samples: Vec<(&'static str, String)>,
}

impl Text {
    pub fn new(metrics: &'static [Metric]) -> Text {
        Text { metrics, samples: Vec::new() }
    }

    pub fn add(&mut self, name: &'static str, labels: &[(&str, &str)], value: impl Display) {
        debug_assert!(self.metrics.iter().any(|metric| metric.name == name), "{name}");
        let mut line = name.to_owned();
        for (index, (label, value)) in labels.iter().enumerate() {
            let _ = write!(line, "{}{label}=\"{}\"", if index == 0 { '{' } else { ',' }, escaped(value));
        }
        line.push_str(if labels.is_empty() { "" } else { "}" });
        let _ = write!(line, " {value}");
        self.samples.push((name, line));
    }

    fn some(&mut self, name: &'static str, labels: &[(&str, &str)], value: Option<impl Display>) {
        if let Some(value) = value {
            self.add(name, labels, value);
        }
    }

    /// Writes the text. The format requires all samples of a metric to be adjacent.
    pub fn finish(self) -> String {
        let mut out = String::new();
        for metric in self.metrics {
            let mut own = self.samples.iter().filter(|(name, _)| *name == metric.name).peekable();
            if own.peek().is_some() {
                let Metric { name, help, kind } = metric;
                let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
            }
            for (_, line) in own {
                out.push_str(line);
                out.push('\n');
            }
        }
        out
    }
}

/// Escapes a label value: a pool name may contain any character.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// The report and the overview in Prometheus' text format.
pub fn text(report: &Report, overview: &Overview) -> String {
    let mut text = Text::new(&METRICS);
    let numbers = &report.numbers;
    let number =
        |verdict: Verdict| Verdict::ALL.iter().position(|other| *other == verdict).unwrap_or_default();
    text.add("benthic_health_verdict", &[], number(report.verdict));
    for finding in &report.findings {
        let stops = u8::from(finding.stops_io).to_string();
        let labels =
            [("name", finding.name.as_str()), ("severity", finding.severity.word()), ("stops_io", &stops)];
        // Findings with the same name, for example about two rules, share one sample.
        if !text
            .samples
            .iter()
            .any(|(_, line)| line.contains(&format!("{{name=\"{}\"", escaped(&finding.name))))
        {
            text.add("benthic_health_finding", &labels, 1);
        }
    }
    for (source, view) in [("monitors", &report.sources.monitors), ("benthic", &report.sources.benthic)] {
        let labels = [("source", source)];
        text.some("benthic_health_verdict_by_source", &labels, view.verdict.map(number));
        text.some("benthic_health_source_unixtime_seconds", &labels, view.unix_s);
        text.some("benthic_availability_by_source_percent", &labels, view.availability_percent);
    }
    text.add("benthic_health_missing", &[], report.missing.len());
    text.add("benthic_health_stale", &[], u8::from(report.is_stale));
    text.add("benthic_health_read_unixtime_seconds", &[], report.unix_s);
    text.some("benthic_availability_percent", &[], report.availability_percent);
    let status = ["HEALTH_OK", "HEALTH_WARN", "HEALTH_ERR"];
    let status = report.ceph.as_ref().and_then(|ceph| status.iter().position(|status| status == ceph));
    text.some("ceph_health_status", &[], status);
    for (name, severity) in &report.checks {
        text.add("ceph_health_detail", &[("name", name), ("severity", severity)], 1);
    }
    for (name, in_quorum) in &numbers.monitors {
        text.add("ceph_mon_quorum_status", &[("ceph_daemon", &format!("mon.{name}"))], u8::from(*in_quorum));
    }
    text.some("benthic_mon_clock_skew_seconds", &[], numbers.clock_skew_ms_max.map(|ms| ms / 1_000.0));
    if numbers.knows("manager") {
        text.add("benthic_mgr_available", &[], u8::from(numbers.manager.is_some()));
        text.add("benthic_mgr_standby", &[], numbers.managers_standby);
    }
    let asked = numbers.osd_answers.as_ref().map(|answers| answers.answered.len() + answers.silent.len());
    text.some("benthic_osds_asked", &[], asked);
    numbers.osds.iter().for_each(|osd| of_osd(&mut text, osd));
    for pool in &numbers.pools {
        let id = pool.id.to_string();
        text.add("ceph_pool_metadata", &[("pool_id", &id), ("name", &pool.pool)], 1);
        text.add("ceph_pg_total", &[("pool_id", &id)], pool.pgs);
        text.some("ceph_pg_active", &[("pool_id", &id)], pool.pgs_taking_io);
    }
    overview.pools.iter().for_each(|pool| of_pool(&mut text, pool));
    let io = |rate: fn(&Io) -> u64| overview.io.as_ref().map(rate);
    text.some("benthic_client_read_bytes_per_second", &[], io(|io| io.read_bytes_per_s));
    text.some("benthic_client_write_bytes_per_second", &[], io(|io| io.write_bytes_per_s));
    text.some("benthic_client_read_operations_per_second", &[], io(|io| io.read_ops_per_s));
    text.some("benthic_client_write_operations_per_second", &[], io(|io| io.write_ops_per_s));
    text.some("benthic_recovery_bytes_per_second", &[], overview.recovery.map(|rates| rates.bytes_per_s));
    text.some("benthic_recovery_objects_per_second", &[], overview.recovery.map(|rates| rates.objects_per_s));
    for (state, count) in &numbers.pgs_by_state {
        text.add("benthic_pgs", &[("state", state)], count);
    }
    text.some("ceph_cluster_total_bytes", &[], numbers.total_bytes);
    text.some("ceph_cluster_total_used_bytes", &[], numbers.used_bytes);
    text.some("ceph_num_objects_degraded", &[], numbers.degraded_objects);
    text.some("ceph_num_objects_misplaced", &[], numbers.misplaced_objects);
    text.some("ceph_num_objects_unfound", &[], numbers.unfound_objects);
    text.some("ceph_healthcheck_slow_ops", &[], numbers.slow_operations);
    text.some("benthic_osd_full_in_days", &[], numbers.full_in_days);
    if let Some(probe) = &numbers.probe {
        text.some("benthic_probe_write_seconds", &[], probe.write_ms.map(|ms| ms / 1_000.0));
        text.some("benthic_probe_read_seconds", &[], probe.read_ms.map(|ms| ms / 1_000.0));
    }
    text.some("benthic_scrubbed_days_ago", &[("kind", "shallow")], numbers.scrubbed_days_ago_max);
    text.some("benthic_scrubbed_days_ago", &[("kind", "deep")], numbers.deep_scrubbed_days_ago_max);
    for library in &numbers.libraries {
        for build in &library.builds {
            let labels = [("library", library.name.as_str()), ("build", build.build.as_str())];
            text.add("benthic_class_build", &labels, build.osds.len());
        }
    }
    text.finish()
}

/// The output after a poll that failed: nothing is known, so the values of the last poll are
/// absent.
pub fn failed(last_unix_s: u64) -> String {
    let mut text = Text::new(&METRICS);
    text.add("benthic_health_read_unixtime_seconds", &[], last_unix_s);
    text.finish()
}

fn of_osd(text: &mut Text, osd: &OsdNumbers) {
    let name = format!("osd.{}", osd.osd);
    let labels = [("ceph_daemon", name.as_str())];
    text.add("ceph_osd_up", &labels, u8::from(osd.up));
    text.some("benthic_osd_answers", &labels, osd.answers.map(u8::from));
    text.add("ceph_osd_in", &labels, u8::from(osd.takes_data));
    text.some("ceph_osd_stat_bytes", &labels, osd.total_bytes);
    text.some("ceph_osd_stat_bytes_used", &labels, osd.used_bytes);
    text.some("ceph_osd_commit_latency_ms", &labels, osd.commit_latency_ms);
    text.some("ceph_osd_apply_latency_ms", &labels, osd.apply_latency_ms);
}

/// Writes the usage and the client I/O of a pool. The I/O metrics are rates over some seconds, as
/// the manager computes them. Ceph's exporter has counters since the creation of the pool, so the
/// rates need other names.
fn of_pool(text: &mut Text, pool: &PoolOverview) {
    let id = pool.id.to_string();
    let (own, named) = ([("pool_id", id.as_str())], [("pool_id", id.as_str()), ("name", pool.pool.as_str())]);
    text.some("ceph_pool_stored", &own, pool.stored_bytes);
    text.some("ceph_pool_objects", &own, pool.objects);
    let io = |rate: fn(&Io) -> u64| pool.io.as_ref().map(rate);
    text.some("benthic_pool_read_bytes_per_second", &named, io(|io| io.read_bytes_per_s));
    text.some("benthic_pool_write_bytes_per_second", &named, io(|io| io.write_bytes_per_s));
    text.some("benthic_pool_read_operations_per_second", &named, io(|io| io.read_ops_per_s));
    text.some("benthic_pool_write_operations_per_second", &named, io(|io| io.write_ops_per_s));
    text.some("ceph_pool_recovering_bytes_per_sec", &own, pool.recovery.map(|rates| rates.bytes_per_s));
    text.some("ceph_pool_recovering_objects_per_sec", &own, pool.recovery.map(|rates| rates.objects_per_s));
}
