//! Many tiny objects on Ceph.

use crate::{Args, create_pool, recover_without_pauses, wait_until_clean};
use bench_harness::cluster::Cluster;
use bench_harness::process::output;
use bench_harness::report::{Aim, Row, Section};
use bench_harness::{Outcome, pause, seconds, start};
use std::process::Stdio;
use std::time::Duration;

const POOL: &str = "tiny";

pub fn run(args: &Args) -> Outcome<Section> {
    let cluster = Cluster::up(&args.benthic, "many", &["--osds", "4"])?;
    create_pool(&cluster, POOL, "128")?;
    let (before_mib, before_bytes) = (cluster.osd_mib()?, used_bytes(&cluster)?);
    let count = args.objects.to_string();
    eprintln!("    creating {count} objects");
    let write = ["bench", "write", POOL, "--size", "0", "--count", &count, "--in-flight", "64", "--keep"];
    let written = cluster.json(&write)?;
    let made_per_s = written["operations_per_s"].as_f64().ok_or("nothing was written")?;
    let after_mib = cluster.osd_mib()?;
    // OSDs report their usage every few seconds.
    pause(Duration::from_secs(20));
    let each_bytes = (used_bytes(&cluster)? - before_bytes) / args.objects as f64;
    let stopwatch = start();
    output(cluster.benthic(["ls", &format!("{POOL}:benthic-bench")]).stderr(Stdio::inherit()))?;
    let listed_per_s = args.objects as f64 / seconds(stopwatch);

    eprintln!("    recovering an OSD");
    recover_without_pauses(&cluster)?;
    cluster.ceph(&["config", "set", "osd", "osd_max_backfills", "4"])?;
    let of_osd = cluster.ceph(&["pg", "ls-by-osd", "osd.3"])?;
    let held: f64 = of_osd["pg_stats"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|pg| pg["stat_sum"]["num_objects"].as_f64())
        .sum();
    let stopwatch = start();
    cluster.ceph(&["osd", "out", "3"])?;
    // Give the placement groups time to notice the change.
    pause(Duration::from_secs(3));
    wait_until_clean(&cluster)?;
    let recovered_s = seconds(stopwatch);

    let alone = |what: &str, unit, value| Row::alone(what, unit, vec![value], Aim::None);
    Ok(Section {
        title: "Very many tiny objects on Ceph",
        note: format!(
            "`benthic bench write --size 0 --count {count} --in-flight 64` into a pool of 128 placement groups with 3 replicas on 4 OSDs, \
             which share this machine with the client. An OSD is then out for good, and its {held:.0} objects are copied to the other three \
             (osd_recovery_sleep_hdd 0, 4 backfills at once)."
        ),
        rows: vec![
            alone("made", "objects/s", made_per_s),
            alone("memory of an OSD before, on average", "MiB", before_mib),
            alone("memory of an OSD after, on average", "MiB", after_mib),
            alone("bytes on the disks for each, all replicas", "B", each_bytes),
            alone("listed", "objects/s", listed_per_s),
            alone("recovering an OSD", "s", recovered_s),
            alone("recovering an OSD", "objects/s", held / recovered_s),
        ],
    })
}

/// Disk usage of all OSDs in bytes, including metadata.
fn used_bytes(cluster: &Cluster) -> Outcome<f64> {
    let found = cluster.ceph(&["osd", "df"])?;
    let used = found["summary"]["total_kb_used"].as_f64().ok_or("`ceph osd df` reports no usage")?;
    Ok(used * 1_024.0)
}
