//! The results as tables, as JSON, and as a page with charts.

use crate::{experiment, pool_digest::PoolDigest, rados_bench, small_calls::SmallCalls};
use bench_report::html::{Bar, chart, page};
use bench_report::tables::{Conditions, Table, conditions_html, conditions_json, markdown};
use serde_json::{Value, json};

/// All results.
pub struct Report {
    machine: Conditions,
    rounds: usize,
    quick: bool,
    pub near: Vec<experiment::Row>,
    pub pool_digest: PoolDigest,
    pub small_calls: SmallCalls,
    pub rados_bench: Vec<rados_bench::Row>,
    /// Of the cluster with a delay, if there was one.
    pub far_round_trip_ms: Option<f64>,
    pub far: Vec<experiment::Row>,
}

impl Report {
    pub fn new(machine: Conditions, rounds: usize, quick: bool) -> Report {
        Report {
            machine,
            rounds,
            quick,
            near: Vec::new(),
            pool_digest: PoolDigest { objects: 0, rows: Vec::new() },
            small_calls: SmallCalls { calls: 0, read_ms: 0.0, say_ms: 0.0, compute_ms: 0.0 },
            rados_bench: Vec::new(),
            far_round_trip_ms: None,
            far: Vec::new(),
        }
    }

    fn tables(&self) -> Vec<Table> {
        let mut tables = vec![
            self.experiment("The published experiment".to_owned(), &self.near),
            self.whole_pool(),
            self.calls(),
            self.bench(),
        ];
        if let Some(ms) = self.far_round_trip_ms {
            let title = format!("The published experiment, {ms:.1} ms between client and OSDs");
            tables.insert(1, self.experiment(title, &self.far));
        }
        tables
    }

    fn experiment(&self, title: String, rows: &[experiment::Row]) -> Table {
        let plain = rows.iter().any(|row| row.plain_s.is_some());
        let mut heads = vec!["object", "repetitions", "class", "client", "client / class"];
        if plain {
            heads.extend(["C++ class", "C++ class / class"]);
        }
        let cells = rows.iter().map(|row| {
            let mut cells = vec![
                size(row.size_bytes),
                row.repeat.to_string(),
                format!("{:.4} s", row.class_s),
                format!("{:.3} s", row.client_s),
                format!("{:.1}", row.gain()),
            ];
            if let (Some(plain_s), Some(ratio)) = (row.plain_s, row.by_plain()) {
                cells.extend([format!("{plain_s:.4} s"), format!("{ratio:.2}")]);
            }
            cells
        });
        Table {
            title,
            note: "One object; stat, read of all, MD5, set attribute, again and again: in one call of `digest.md5`, in \
                   one call of a C++ class with OpenSSL's MD5, and by a client that waits for each step and hashes as \
                   the class does.".to_owned(),
            rows: cells.collect(),
            heads,
        }
    }

    fn whole_pool(&self) -> Table {
        let digest = &self.pool_digest;
        let rows = digest.rows.iter().map(|row| {
            let rate = |seconds| format!("{:.0} MiB/s", digest.mib_per_s(seconds));
            vec![
                row.in_flight.to_string(),
                rate(row.kept_s),
                rate(row.computed_s),
                rate(row.client_s),
                format!("{:.2}", row.client_s / row.kept_s),
                format!("{:.2}", row.client_s / row.computed_s),
            ]
        });
        Table {
            title: format!(
                "Digest of a pool: {} objects of {}",
                digest.objects,
                size(PoolDigest::OBJECT_BYTES)
            ),
            note: "Kept: `digest.md5`, each digest committed on all replicas as an attribute, and read back. Computed: \
                   `digest.compute`, nothing is kept. The client reads everything, hashes on all cores, and keeps \
                   nothing. OSDs and client share the machine's cores.".to_owned(),
            heads: vec!["in flight", "kept", "computed", "client", "kept / client", "computed / client"],
            rows: rows.collect(),
        }
    }

    fn calls(&self) -> Table {
        let calls = &self.small_calls;
        let rows = [
            ("read of 1 byte", calls.read_ms),
            ("hello.say", calls.say_ms),
            ("digest.compute: stat, read of 1 byte, CRC-32C", calls.compute_ms),
        ];
        let rows = rows.map(|(what, ms)| {
            vec![what.to_owned(), format!("{ms:.3} ms"), format!("{:+.3} ms", ms - calls.read_ms)]
        });
        Table {
            title: format!("One small call, p50 of {}", calls.calls),
            note: "One at a time, in turns, on one object of 1 byte.".to_owned(),
            heads: vec!["call", "p50", "over the read"],
            rows: rows.into(),
        }
    }

    fn bench(&self) -> Table {
        let rows = self.rados_bench.iter().map(|row| {
            vec![
                format!("{} of {}", row.what, size(row.size_bytes)),
                format!("{:.1}/s", row.benthic_per_s),
                format!("{:.1}/s", row.rados_per_s),
                format!("{:.2}", row.ratio()),
            ]
        });
        Table {
            title: "`benthic bench` against `rados bench`, 16 in flight".to_owned(),
            note: "Same pool, same object size, same time, in turns.".to_owned(),
            heads: vec!["operation", "benthic", "rados", "benthic / rados"],
            rows: rows.collect(),
        }
    }

    fn conditions(&self) -> Conditions {
        let mut conditions = self.machine.clone();
        conditions.push(("cluster", "1 monitor, 3 OSDs on this machine, pools of 3 replicas".to_owned()));
        conditions.push(("rounds", format!("{}, medians", self.rounds)));
        if self.quick {
            conditions.push(("quick", "a hundredth of the work: these numbers are no result".to_owned()));
        }
        conditions
    }

    /// For people, and for docs/performance.md.
    pub fn markdown(&self) -> String {
        markdown(&self.conditions(), &self.tables())
    }

    /// For programs. Times are medians.
    pub fn to_json(&self) -> Value {
        let rows = |rows: &[experiment::Row]| rows.iter().map(experiment::Row::to_json).collect::<Vec<_>>();
        json!({
            "conditions": conditions_json(&self.conditions()),
            "experiment": rows(&self.near),
            "far_round_trip_ms": self.far_round_trip_ms,
            "far_experiment": rows(&self.far),
            "pool_digest": self.pool_digest.to_json(),
            "small_calls": self.small_calls.to_json(),
            "bench": self.rados_bench.iter().map(rados_bench::Row::to_json).collect::<Vec<_>>(),
        })
    }

    /// With charts of the experiment.
    pub fn html(&self) -> String {
        let mut body = "<h1>Code beside the data, on Ceph</h1>\n".to_owned();
        body.push_str(&conditions_html(&self.conditions()));
        body.push_str("<h2>Time of one repetition of the published experiment</h2>\n");
        for near in &self.near {
            body.push_str(&format!("<h3>object of {}</h3>\n", size(near.size_bytes)));
            let far = self.far.iter().find(|far| far.size_bytes == near.size_bytes);
            let far = far.zip(self.far_round_trip_ms).map(|(row, ms)| (row, format!(", {ms:.0} ms away")));
            let places = [(near, ", on loopback".to_owned())].into_iter().chain(far);
            let bars: Vec<Bar> = places.flat_map(|(row, place)| bars(row, &place)).collect();
            body.push_str(&chart(&bars));
        }
        for table in self.tables() {
            body.push_str(&table.html());
        }
        page("Benthic on Ceph", &body)
    }
}

fn bars(row: &experiment::Row, place: &str) -> Vec<Bar> {
    let bar = |who: &str, class, seconds: f64| {
        let ms = seconds / f64::from(row.repeat) * 1e3;
        Bar { label: format!("{who}{place}"), length: ms, value: format!("{ms:.3} ms"), class }
    };
    let plain = row.plain_s.map(|plain_s| bar("C++ class in storage", "other", plain_s));
    let class = bar("class in storage", "storage", row.class_s);
    [class].into_iter().chain(plain).chain([bar("client", "client", row.client_s)]).collect()
}

fn size(size_bytes: usize) -> String {
    match size_bytes {
        1_048_576.. => format!("{} MiB", size_bytes >> 20),
        1024.. => format!("{} KiB", size_bytes >> 10),
        _ => format!("{size_bytes} B"),
    }
}
