//! Latency and throughput before and after primaries move to their readers' site, on three sites
//! with 10 ms between them.

use crate::{Args, create_pool, recover_without_pauses, wait_until_clean};
use bench_harness::cluster::Cluster;
use bench_harness::process::output;
use bench_harness::report::{Aim, Row, Section};
use bench_harness::{Outcome, pause, seconds, start};
use serde_json::Value;
use std::process::Stdio;
use std::time::Duration;

const SITES: [&str; 3] = ["um", "msu", "wsu"];
const POOL: &str = "readers-at-um";
/// A pool with all replicas at site um.
const LOCAL_POOL: &str = "only-at-um";
/// More objects than exist.
const ALL: &str = "100000000";
const COLUMNS: [&str; 4] =
    ["read_4_kib_ms", "write_4_kib_ms", "read_4_mib_mib_per_s", "write_4_mib_mib_per_s"];

/// Measurements of each site by round, in the order of [`COLUMNS`].
type Measurements = [[Vec<f64>; 4]; 3];

pub fn run(args: &Args) -> Outcome<Vec<Section>> {
    let up = ["--osds", "6", "--sites", "um,msu,wsu", "--rtt-ms", "10"];
    let cluster = Cluster::up(&args.benthic, "sites", &up)?;
    create_pool(&cluster, POOL, "64")?;
    let rule = ["osd", "crush", "rule", "create-simple", "at-um", "um", "osd"];
    cluster.ceph(&rule)?;
    create_pool(&cluster, LOCAL_POOL, "32")?;
    cluster.ceph(&["osd", "pool", "set", LOCAL_POOL, "size", "2"])?;
    cluster.ceph(&["osd", "pool", "set", LOCAL_POOL, "crush_rule", "at-um"])?;
    wait_until_clean(&cluster)?;

    let before = measure(&cluster, args, POOL, &SITES)?;
    let near = measure_localized(&cluster, args)?;
    let plan = args.out.join("plan.json");
    let plan = plan.to_string_lossy().into_owned();
    let _ = std::fs::remove_file(&plan);
    let planned =
        cluster.json(&["placement", "plan", "--pool", POOL, "--primary-site", "um", "--out", &plan])?;
    let stopwatch = start();
    cluster.json(&["placement", "apply", &plan])?;
    let applied_s = seconds(stopwatch);
    let shown = cluster.json(&["placement", "show", "--pool", POOL])?;
    if shown["undersized"] != 0 || shown["repeating"] != 0 || shown["unclean"] != 0 {
        return Err(format!("placement groups are not clean: {shown}").into());
    }
    let after = measure(&cluster, args, POOL, &SITES)?;
    let beside = measure(&cluster, args, LOCAL_POOL, &SITES[..1])?;
    let lost = lose_a_site(&cluster, args)?;
    cluster.json(&["placement", "undo", &plan])?;

    let moving = planned["plan"]["effect"]["replicas_moving"].as_f64().unwrap_or(f64::NAN);
    let note = format!(
        "One operation in flight; before (the reference) and after `benthic placement apply`, which moved {moving} of 192 replicas in \
         {applied_s:.0} s. Times are medians of all operations. The last rows compare a client at um with one whose pool is at um only."
    );
    let mut rows = Vec::new();
    for (at, site) in SITES.iter().enumerate() {
        let aims = match at {
            0 => [
                Aim::AtMostOfReference(0.02),
                Aim::AtMostOfReference(0.714),
                Aim::OfReference(2.5),
                Aim::None,
            ],
            _ => [Aim::None; 4],
        };
        for (column, aim) in aims.into_iter().enumerate() {
            rows.push(row(format!("from {site}"), column, &after[at][column], &before[at][column], aim));
        }
    }
    rows.push(row("from um, read=near, no rule".to_owned(), 0, &near, &before[0][0], Aim::None));
    for column in [0, 2] {
        let aim = if column == 0 { Aim::AtMostOfReference(1.1) } else { Aim::OfReference(0.9) };
        let what = "from um, against a pool that is only there".to_owned();
        rows.push(row(what, column, &after[0][column], &beside[0][column], aim));
    }
    let sites =
        Section { title: "Primaries at the site of their readers, 10 ms between three sites", note, rows };
    Ok(vec![sites, lost])
}

fn row(what: String, column: usize, ours: &[f64], reference: &[f64], aim: Aim) -> Row {
    let (name, unit) =
        [("read 4 KiB", "ms"), ("write 4 KiB", "ms"), ("read 4 MiB", "MiB/s"), ("write 4 MiB", "MiB/s")]
            [column];
    Row::compared(format!("{what}: {name}"), unit, ours, reference, aim)
}

fn measure(cluster: &Cluster, args: &Args, pool: &str, sites: &[&str]) -> Outcome<Measurements> {
    let seconds = if args.quick { "1" } else { "5" };
    let mut measured = Measurements::default();
    for round in 0..args.rounds {
        eprintln!("    {pool}: round {}", round + 1);
        let from = sites.join(",");
        let measure = ["placement", "measure", "--pool", pool, "--from", &from, "--seconds", seconds];
        let found = cluster.json(&measure)?;
        for (place, rows) in found["places"].as_array().into_iter().flatten().zip(&mut measured) {
            for (column, values) in COLUMNS.iter().zip(rows) {
                values.push(place[*column].as_f64().ok_or("a site has no measurement")?);
            }
        }
    }
    Ok(measured)
}

fn measure_localized(cluster: &Cluster, args: &Args) -> Outcome<Vec<f64>> {
    let store = format!("{}&read=near", cluster.store());
    let mut times = Vec::new();
    let seconds = if args.quick { "1" } else { "5" };
    cluster
        .json(&["bench", "write", POOL, "--size", "4KiB", "--count", "256", "--keep", "--label", "near"])?;
    for _ in 0..args.rounds {
        let read = ["--store", &store, "bench", "rand", POOL, "--in-flight", "1", "--seconds", seconds];
        let found = cluster.json(&[&read[..], &["--label", "near", "--from", "um"]].concat())?;
        times.push(found["places"][0]["latency_ms_p50"].as_f64().ok_or("nothing was read")?);
    }
    Ok(times)
}

/// Stops a site while a client at another site writes, and starts it again.
fn lose_a_site(cluster: &Cluster, args: &Args) -> Outcome<Section> {
    recover_without_pauses(cluster)?;
    let (count, during_s) = if args.quick { ("200", "20") } else { ("2000", "90") };
    cluster
        .json(&["bench", "write", POOL, "--size", "4KiB", "--count", count, "--keep", "--label", "kept"])?;
    let dir = cluster.dir().to_string_lossy().into_owned();
    let write =
        ["bench", "write", POOL, "--size", "4KiB", "--seconds", during_s, "--in-flight", "4", "--keep"];
    let mut writer =
        cluster.benthic([&["--json"], &write[..], &["--label", "during", "--from", "um"]].concat());
    let writer = writer.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn()?;
    pause(Duration::from_secs(5));
    output(&mut cluster.benthic(["cluster", "cut", "msu", "--dir", &dir]))?;
    let finished = writer.wait_with_output()?;
    let wrote: Value = serde_json::from_slice(finished.stdout.trim_ascii())?;
    output(&mut cluster.benthic(["cluster", "heal", "msu", "--dir", &dir]))?;
    let stopwatch = start();
    wait_until_clean(cluster)?;
    let healed_s = seconds(stopwatch);
    let place = &wrote["places"][0];
    let number =
        |value: &Value, name: &str| value[name].as_f64().ok_or_else(|| format!("no {name}: {value}"));
    let mut lost = 0.0;
    for label in ["kept", "during"] {
        let read = cluster.json(&["bench", "seq", POOL, "--label", label, "--count", ALL])?;
        let wanted = if label == "kept" { count.parse()? } else { number(place, "operations")? };
        lost += number(&read, "errors")? + (wanted - number(&read, "operations")?).max(0.0);
    }
    let alone = |what: &str, unit, value, aim| Row::alone(what, unit, vec![value], aim);
    Ok(Section {
        title: "A site lost and healed",
        note: format!(
            "A client at um writes for {during_s} s, 4 in flight; 5 s after it began, msu is cut off, and comes back when it has ended. \
             All objects are read then, and compared by length. osd_recovery_sleep_hdd is 0."
        ),
        rows: vec![
            alone("the longest that a write waited", "s", number(place, "latency_ms_max")? / 1e3, Aim::None),
            alone("writes that failed", "writes", number(place, "errors")?, Aim::AtMost(0.0)),
            alone("until all replicas were whole again", "s", healed_s, Aim::None),
            alone("objects lost", "objects", lost, Aim::AtMost(0.0)),
        ],
    })
}
