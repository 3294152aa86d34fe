//! `benthic cp --stripe` against `rados --striper put` and `get`, and against `rados bench` with as many operations in flight.
//! A measure of its own: `--striped` runs only this.

use crate::Outcome;
use crate::cluster::Cluster;
use bench_report::stats::{median, noise};
use bench_report::tables::Table;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

const MIB: usize = 1 << 20;
const IN_FLIGHT: &str = "16";
const POOL: &str = "striped";
const BENCH_SECONDS: &str = "8";

/// Medians of one direction at one place, in MiB/s.
pub struct Row {
    pub place: &'static str,
    pub what: &'static str,
    pub size_mib: usize,
    pub checked: f64,
    pub unchecked: f64,
    pub striper: f64,
    pub bench: f64,
}

impl Row {
    pub fn to_json(&self) -> Value {
        json!({
            "place": self.place,
            "what": self.what,
            "size_mib": self.size_mib,
            "benthic_mib_per_s": self.checked,
            "benthic_no_check_mib_per_s": self.unchecked,
            "rados_striper_mib_per_s": self.striper,
            "rados_bench_mib_per_s": self.bench,
        })
    }
}

/// Runs it. All programs move the same file, which is in the page cache, in objects of 4 MiB.
pub fn run(cluster: &Cluster, place: &'static str, rounds: usize, quick: bool) -> Outcome<Vec<Row>> {
    let size_mib = if quick { 32 } else { 256 };
    eprintln!("striped copies, {place}: {size_mib} MiB, {rounds} rounds");
    let scratch = std::env::temp_dir().join(format!("benthic-bench-striped-{place}"));
    fs::create_dir_all(&scratch)?;
    let measured = measure(cluster, &scratch, place, size_mib, rounds);
    fs::remove_dir_all(&scratch)?;
    measured
}

fn measure(
    cluster: &Cluster,
    scratch: &Path,
    place: &'static str,
    size_mib: usize,
    rounds: usize,
) -> Outcome<Vec<Row>> {
    let (file, back) = (scratch.join("file"), scratch.join("back"));
    fs::write(&file, noise(size_mib * MIB))?;
    succeed(&mut cluster.benthic(["pool", "create", POOL]))?;
    let rados = |args: &[&str]| {
        let mut command = Command::new("rados");
        command.arg("--conf").arg(cluster.conf()).args(["--pool", POOL]).args(args);
        command
    };
    let timed = |command: &mut Command| -> Outcome<f64> {
        let began = Instant::now();
        succeed(command)?;
        Ok(size_mib as f64 / began.elapsed().as_secs_f64())
    };
    let address = format!("{POOL}/ours");
    let cp = |options: &[&str]| {
        let mut command = cluster.benthic(["cp", "--stripe", "--jobs", IN_FLIGHT]);
        command.args(options);
        command
    };
    let (mut put, mut get) = (Samples::default(), Samples::default());
    for _ in 0..rounds {
        put.striper.push(timed(rados(&["--striper", "put", "theirs"]).arg(&file))?);
        put.checked.push(timed(cp(&[]).arg(&file).arg(&address))?);
        succeed(&mut cluster.benthic(["rm", "--stripe", &address]))?;
        put.unchecked.push(timed(cp(&["--no-check"]).arg(&file).arg(&address))?);
        put.bench.push(rate(&mut rados(&["bench", BENCH_SECONDS, "write", "-t", IN_FLIGHT, "--no-cleanup"]))?);

        get.striper.push(timed(rados(&["--striper", "get", "theirs"]).arg(&back))?);
        same(&file, &back)?;
        for (options, samples) in [(&[][..], &mut get.checked), (&["--no-check"][..], &mut get.unchecked)] {
            fs::remove_file(&back)?;
            samples.push(timed(cp(options).arg(&address).arg(&back))?);
            same(&file, &back)?;
        }
        fs::remove_file(&back)?;
        get.bench.push(rate(&mut rados(&["bench", BENCH_SECONDS, "rand", "-t", IN_FLIGHT, "--no-verify"]))?);
        succeed(&mut rados(&["cleanup"]))?;
        succeed(&mut rados(&["--striper", "rm", "theirs"]))?;
        succeed(&mut cluster.benthic(["rm", "--stripe", &address]))?;
    }
    succeed(&mut cluster.benthic(["pool", "rm", POOL]))?;
    Ok(vec![put.row(place, "put", size_mib), get.row(place, "get", size_mib)])
}

#[derive(Default)]
struct Samples {
    checked: Vec<f64>,
    unchecked: Vec<f64>,
    striper: Vec<f64>,
    bench: Vec<f64>,
}

impl Samples {
    fn row(self, place: &'static str, what: &'static str, size_mib: usize) -> Row {
        Row {
            place,
            what,
            size_mib,
            checked: median(self.checked),
            unchecked: median(self.unchecked),
            striper: median(self.striper),
            bench: median(self.bench),
        }
    }
}

/// For people.
pub fn table(rows: &[Row]) -> Table {
    let cells = rows.iter().map(|row| {
        vec![
            format!("{} of {} MiB, {}", row.what, row.size_mib, row.place),
            format!("{:.0} MiB/s", row.checked),
            format!("{:.0} MiB/s", row.unchecked),
            format!("{:.0} MiB/s", row.striper),
            format!("{:.0} MiB/s", row.bench),
            format!("{:.1}", row.checked / row.striper),
            format!("{:.2} / {:.2}", row.checked / row.bench, row.unchecked / row.bench),
        ]
    });
    Table {
        title: "Striped copies: `benthic cp --stripe` against `rados --striper`".to_owned(),
        note: "The same file, in the page cache, in objects of 4 MiB; whole runs of the programs, in turns. `cp` has 16 \
               objects in flight and checks each one: after a put its digest is computed beside it. `rados bench -t 16` moves \
               objects of 4 MiB from and to memory."
            .to_owned(),
        heads: vec![
            "copy",
            "`cp --stripe`",
            "`--no-check`",
            "`rados --striper`",
            "`rados bench`",
            "cp / striper",
            "cp / bench, checked / not",
        ],
        rows: cells.collect(),
    }
}

fn same(file: &Path, back: &Path) -> Outcome {
    if fs::read(file)? == fs::read(back)? { Ok(()) } else { Err("what came back is something else".into()) }
}

fn succeed(command: &mut Command) -> Outcome {
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{command:?} failed: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr)).into())
}

/// MiB a second of `rados bench`.
fn rate(command: &mut Command) -> Outcome<f64> {
    let output = command.stdin(Stdio::null()).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find_map(|line| line.strip_prefix("Bandwidth (MB/sec):"));
    Ok(line.ok_or_else(|| format!("{command:?} gave no rate"))?.trim().parse()?)
}
