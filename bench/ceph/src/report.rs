//! The results as Markdown tables, as JSON, and as a page with charts.

use crate::{experiment, pool_digest::PoolDigest, rados_bench, small_calls::SmallCalls};
use bench_harness::html::{Bar, chart, page};
use bench_harness::tables::{Conditions, Table, conditions_html, conditions_json, markdown};
use serde::{Serialize, Serializer};

#[derive(Serialize)]
pub struct Report {
    #[serde(serialize_with = "conditions")]
    pub conditions: Conditions,
    pub experiment: Vec<experiment::Row>,
    pub pool_digest: PoolDigest,
    pub small_calls: SmallCalls,
    pub bench: Vec<rados_bench::Row>,
    /// Round trip of the cluster with a delay; None if that cluster was left out.
    pub far_round_trip_ms: Option<f64>,
    pub far_experiment: Vec<experiment::Row>,
}

fn conditions<S: Serializer>(conditions: &Conditions, to: S) -> Result<S::Ok, S::Error> {
    conditions_json(conditions).serialize(to)
}

impl Report {
    fn tables(&self) -> Vec<Table> {
        let mut tables = vec![
            experiment_table("The published experiment".to_owned(), &self.experiment),
            self.pool_digest.table(),
            self.small_calls.table(),
            bench_table(&self.bench),
        ];
        if let Some(ms) = self.far_round_trip_ms {
            let title = format!("The published experiment, {ms:.1} ms between client and OSDs");
            tables.insert(1, experiment_table(title, &self.far_experiment));
        }
        tables
    }

    pub fn markdown(&self) -> String {
        markdown(&self.conditions, &self.tables())
    }

    pub fn html(&self) -> String {
        let mut body = "<h1>Code beside the data, on Ceph</h1>\n".to_owned();
        body.push_str(&conditions_html(&self.conditions));
        body.push_str("<h2>Time of one repetition of the published experiment</h2>\n");
        for near in &self.experiment {
            body.push_str(&format!("<h3>object of {}</h3>\n", size(near.size_bytes)));
            let far = self.far_experiment.iter().find(|far| far.size_bytes == near.size_bytes);
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

fn experiment_table(title: String, rows: &[experiment::Row]) -> Table {
    let plain = rows.iter().any(|row| row.cpp_class_s.is_some());
    let mut heads = vec!["object", "repetitions", "class", "client", "client / class"];
    if plain {
        heads.extend(["C++ class", "C++ class / class", "module", "client / module"]);
    }
    let cells = rows.iter().map(|row| {
        let mut cells = vec![
            size(row.size_bytes),
            row.repeat.to_string(),
            format!("{:.4} s", row.class_s),
            format!("{:.3} s", row.client_s),
            format!("{:.1}", row.client_by_class),
        ];
        if let (Some(plain_s), Some(ratio)) = (row.cpp_class_s, row.cpp_by_class) {
            cells.extend([format!("{plain_s:.4} s"), format!("{ratio:.2}")]);
        }
        if let (Some(wasm_s), Some(ratio)) = (row.wasm_s, row.client_by_wasm) {
            cells.extend([format!("{wasm_s:.4} s"), format!("{ratio:.1}")]);
        }
        cells
    });
    Table {
        title,
        note: "One object; stat, read of all, MD5, set attribute, again and again: in one call of `digest.md5`, in \
               one call of a C++ class with OpenSSL's MD5, in calls of a compiled WebAssembly module for at most \
               100 MiB each, and by a client that waits for each step and hashes as the class does.".to_owned(),
        rows: cells.collect(),
        heads,
    }
}

impl PoolDigest {
    fn table(&self) -> Table {
        let rows = self.rows.iter().map(|row| {
            let rate = |seconds| format!("{:.0} MiB/s", self.mib_per_s(seconds));
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
                self.objects,
                size(self.object_bytes)
            ),
            note: "Kept: `digest.md5`, each digest committed on all replicas as an attribute, and read back. Computed: \
                   `digest.compute`, nothing is kept. The client reads everything, hashes on all cores, and keeps \
                   nothing. OSDs and client share the machine's cores.".to_owned(),
            heads: vec!["in flight", "kept", "computed", "client", "kept / client", "computed / client"],
            rows: rows.collect(),
        }
    }
}

impl SmallCalls {
    fn table(&self) -> Table {
        let rows = [
            ("read of 1 byte", self.read_ms),
            ("hello.say", self.hello_say_ms),
            ("digest.compute: stat, read of 1 byte, CRC-32C", self.digest_compute_ms),
        ];
        let rows = rows.map(|(what, ms)| {
            vec![what.to_owned(), format!("{ms:.3} ms"), format!("{:+.3} ms", ms - self.read_ms)]
        });
        Table {
            title: format!("One small call, p50 of {}", self.calls),
            note: "One at a time, in turns, on one object of 1 byte.".to_owned(),
            heads: vec!["call", "p50", "over the read"],
            rows: rows.into(),
        }
    }
}

fn bench_table(rows: &[rados_bench::Row]) -> Table {
    let rows = rows.iter().map(|row| {
        vec![
            format!("{} of {}", row.what, size(row.size_bytes)),
            format!("{:.1}/s", row.benthic_per_s),
            format!("{:.1}/s", row.rados_per_s),
            format!("{:.2}", row.benthic_by_rados),
        ]
    });
    Table {
        title: "`benthic bench` against `rados bench`, 16 in flight".to_owned(),
        note: "Same pool, same object size, same time, in turns.".to_owned(),
        heads: vec!["operation", "benthic", "rados", "benthic / rados"],
        rows: rows.collect(),
    }
}

fn bars(row: &experiment::Row, place: &str) -> Vec<Bar> {
    let bar = |who: &str, class, seconds: f64| {
        let ms = seconds / f64::from(row.repeat) * 1e3;
        Bar { label: format!("{who}{place}"), length: ms, value: format!("{ms:.3} ms"), class }
    };
    let plain = row.cpp_class_s.map(|plain_s| bar("C++ class in storage", "other", plain_s));
    let class = bar("class in storage", "storage", row.class_s);
    let module = row.wasm_s.map(|wasm_s| bar("WebAssembly module in storage", "storage", wasm_s));
    [class].into_iter().chain(plain).chain(module).chain([bar("client", "client", row.client_s)]).collect()
}

fn size(size_bytes: usize) -> String {
    match size_bytes {
        1_048_576.. => format!("{} MiB", size_bytes >> 20),
        1024.. => format!("{} KiB", size_bytes >> 10),
        _ => format!("{size_bytes} B"),
    }
}
