//! A cluster with sites: near and far reads, the effect of a cut, and complete cleanup.

use crate::support::{CLUSTER_DIR, ClusterCleanup, Home, daemon, printed, status};
use benthic_core::{Stopwatch, SystemClock};
use benthic_testkit::wait;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Much longer than a read on a busy machine without a simulated link.
const RTT_MS: f64 = 40.0;
const SITES: [&str; 3] = ["um", "msu", "wsu"];

/// Runs a program that is not part of Benthic.
fn other(program: &str, args: &[&str]) -> String {
    printed(&Command::new(program).args(args).output().unwrap(), args)
}

fn ceph(conf: &str, args: &[&str]) -> String {
    other("ceph", &[&["--conf", conf], args].concat())
}

/// Median time of 4 KiB reads in milliseconds, from outside or from a site.
fn read_ms(home: &Home, site: Option<&str>, store: &str) -> f64 {
    let read = ["--json", "--store", store, "bench", "rand", "near", "--seconds", "1", "--in-flight", "1"];
    let printed = match site {
        None => home.ok(&read),
        Some(site) => {
            let at = ["cluster", "at", site, "--", env!("CARGO_BIN_EXE_benthic")];
            home.ok(&[&at[..], &read].concat())
        }
    };
    let result: Value = serde_json::from_str(printed.lines().last().unwrap()).unwrap();
    assert_eq!(result["errors"], 0, "{result}");
    result["latency_ms_p50"].as_f64().unwrap()
}

/// Number of reads that an OSD has served since it started.
fn reads_served(home: &Home, osd: usize) -> u64 {
    let socket = home.path(&format!("benthic-cluster/run/osd.{osd}.asok"));
    let json = other("ceph", &["--admin-daemon", socket.to_str().unwrap(), "perf", "dump", "osd", "op_r"]);
    serde_json::from_str::<Value>(&json).unwrap()["osd"]["op_r"].as_u64().unwrap()
}

/// Namespaces, interfaces and processes that carry the cluster's name.
fn left_over(fsid: &str, dir: &Path) -> Vec<String> {
    let short = &fsid[..8];
    let namespaces = fs::read_dir("/run/netns").into_iter().flatten();
    let interfaces = fs::read_dir("/sys/class/net").unwrap();
    let names = namespaces.chain(interfaces).map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut found: Vec<String> = names.filter(|name| name.contains(short)).collect();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.contains(dir.to_str().unwrap()) {
            found.push(line);
        }
    }
    found
}

#[test]
fn sites_are_apart_can_be_cut_off_and_leave_nothing() {
    let home = Home::bare();
    let _removed = ClusterCleanup(&home, &[CLUSTER_DIR]);
    let rtt = RTT_MS.to_string();
    let up =
        home.json(&["cluster", "up", "--sites", &SITES.join(","), "--rtt-ms", &rtt, "--osds", "3"]).remove(0);
    assert_eq!((&up["up"], &up["health"]), (&"created".into(), &"HEALTH_OK".into()), "{up}");

    let first = status(&home);
    let sites: Vec<_> = first["sites"].as_array().unwrap().iter().map(|site| &site["name"]).collect();
    assert_eq!(sites, SITES);
    assert_eq!(first["rtt_ms"].as_f64(), Some(RTT_MS));
    for (name, site) in [("mon.a", "um"), ("osd.0", "um"), ("osd.1", "msu"), ("osd.2", "wsu")] {
        assert_eq!(daemon(&first, name)["site"], site, "{first}");
    }
    assert!(daemon(&first, "wan")["pid"].is_u64() && daemon(&first, "wan")["site"].is_null(), "{first}");
    assert!(home.fails(6, &["cluster", "up", "--sites", "um,msu"]).contains("has the sites um, msu, wsu"));

    let dir = home.path("benthic-cluster").canonicalize().unwrap();
    let conf = dir.join("ceph.conf").to_str().unwrap().to_owned();
    let store = format!("ceph:?conf={conf}");
    near_is_near(&home, &conf, &store);
    commands_run_at_a_site(&home, &dir);
    a_cut_site_is_down_until_it_is_healed(&home, &conf, &store);

    // The links can die and restart alone. A cut or heal in between takes effect.
    home.ok(&["cluster", "kill", "wan"]);
    assert!(daemon(&status(&home), "wan")["pid"].is_null());
    home.ok(&["cluster", "cut", "msu"]);
    assert!(home.fails(9, &["cluster", "heal", "msu"]).contains("benthic cluster start wan"));
    home.ok(&["cluster", "cut", "wsu"]);
    assert_eq!(home.json(&["cluster", "up"])[0]["up"], "resumed");
    assert!(home.ok(&["cluster", "status"]).contains("um, msu, wsu (cut off); 40 ms"));
    home.ok(&["cluster", "heal", "wsu"]);

    // A stopped cluster has no network. After a restart, all data is present.
    home.ok(&["cluster", "down"]);
    let fsid = first["fsid"].as_str().unwrap();
    assert_eq!(left_over(fsid, &dir), [""; 0]);
    assert!(home.fails(9, &["cluster", "at", "um", "--", "true"]).contains("benthic cluster up"));
    assert_eq!(home.json(&["cluster", "up", "--rtt-ms", "0"])[0]["up"], "resumed");
    wait::until("HEALTH_OK", || status(&home)["health"] == "HEALTH_OK");
    let here_ms = read_ms(&home, None, &store);
    assert!(here_ms < RTT_MS, "without a delay: {here_ms} ms");

    // A bandwidth limit takes effect at once and can be removed.
    assert_eq!(status(&home)["mbit_per_s"], Value::Null);
    assert_eq!(home.json(&["cluster", "up", "--mbit-per-s", "40"])[0]["up"], "already");
    assert!(home.ok(&["cluster", "status"]).contains("0 ms for a round trip, 40 Mbit/s"));
    let file = home.path("4MiB");
    fs::write(&file, vec![7; 4 << 20]).unwrap();
    let began = Stopwatch::start(&SystemClock);
    home.ok(&["--store", &store, "put", "near/large", file.to_str().unwrap()]);
    let seconds = began.elapsed().as_secs_f64();
    assert!(seconds > 0.8, "32 Mbit at 40 Mbit/s: {seconds} s");
    assert_eq!(home.json(&["cluster", "up", "--mbit-per-s", "0"])[0]["up"], "already");
    assert_eq!(status(&home)["mbit_per_s"], Value::Null);

    home.ok(&["cluster", "down", "--remove", "--yes", CLUSTER_DIR]);
    assert!(!dir.exists());
    assert_eq!(left_over(fsid, &dir), [""; 0]);
}

/// From outside, every read takes a round trip; at the primary's site, none does. At another site,
/// the local OSD answers only reads that request the nearest replica.
fn near_is_near(home: &Home, conf: &str, store: &str) {
    // One placement group has only one primary.
    ceph(conf, &["osd", "pool", "create", "near", "1"]);
    ceph(conf, &["osd", "pool", "application", "enable", "near", "benthic"]);
    let write = ["--store", store, "bench", "write", "near", "--size", "4KiB", "--seconds", "1", "--keep"];
    home.ok(&write);
    // A replica redirects reads of the newest write to the primary until it knows that all replicas
    // have it. The next write tells it.
    let file = home.file("last", "the newest");
    home.ok(&["--store", store, "put", "near/last", file.to_str().unwrap()]);
    let map: Value = serde_json::from_str(&ceph(conf, &["osd", "map", "near", "x", "-f", "json"])).unwrap();
    let primary = map["acting_primary"].as_u64().unwrap() as usize;
    let mut acting: Vec<u64> = map["acting"].as_array().unwrap().iter().filter_map(Value::as_u64).collect();
    acting.sort_unstable();
    assert_eq!(acting, [0, 1, 2], "a replica at each site");

    let from_outside_ms = read_ms(home, None, store);
    assert!(from_outside_ms >= RTT_MS, "{from_outside_ms} ms from outside");
    let beside_ms = read_ms(home, Some(SITES[primary]), store);
    assert!(beside_ms < RTT_MS / 2.0, "{beside_ms} ms at the primary's site");

    let other = (primary + 1) % 3;
    let site = SITES[other];
    let far_ms = read_ms(home, Some(site), store);
    assert!(far_ms >= RTT_MS, "{far_ms} ms from {site}");
    let served = || (reads_served(home, other), reads_served(home, primary));
    let before = served();
    let site_conf = conf.replace("ceph.conf", &format!("sites/{site}.conf"));
    let near_ms = read_ms(home, Some(site), &format!("ceph:?conf={site_conf}&read=near"));
    let after = served();
    assert!(near_ms < RTT_MS / 2.0, "{near_ms} ms from the nearest replica");
    let (here, there) = (after.0 - before.0, after.1 - before.1);
    assert!(here > 10 * there && here > 10, "{here} reads served at {site}, {there} by the primary");
}

fn commands_run_at_a_site(home: &Home, dir: &Path) {
    let at = |command: &[&str]| home.run(&[&["cluster", "at", "msu", "--"][..], command].concat());
    let said = printed(&at(&["sh", "-c", "echo $CEPH_CONF; echo $BENTHIC_STORE"]), &["echo"]);
    let conf = dir.join("sites/msu.conf");
    assert_eq!(said, format!("{0}\nceph:?conf={0}\n", conf.display()));
    assert!(fs::read_to_string(conf).unwrap().contains("crush_location = root=default datacenter=msu"));
    assert_eq!(at(&["sh", "-c", "exit 77"]).status.code(), Some(77));
    assert_eq!(at(&["no-such-program"]).status.code(), Some(3));
    for verb in [&["at", "mars", "--", "true"][..], &["cut", "mars"], &["heal", "mars"]] {
        let error = home.fails(3, &[&["cluster"], verb].concat());
        assert!(error.contains("the cluster's sites are um, msu, wsu"), "{error}");
    }
}

fn a_cut_site_is_down_until_it_is_healed(home: &Home, conf: &str, store: &str) {
    // A short heartbeat grace, so that the test need not wait for the default.
    for (key, value) in [("osd_heartbeat_grace", "6"), ("osd_heartbeat_interval", "1")] {
        ceph(conf, &["config", "set", "global", key, value]);
    }
    let file = home.file("before", "written before the cut");
    let put =
        |name: &str| home.ok(&["--store", store, "put", &format!("near/{name}"), file.to_str().unwrap()]);
    put("before");
    let cut = |verb: &str| home.json(&["cluster", verb, "msu"]).remove(0);
    assert_eq!((&cut("cut")["changed"], &cut("cut")["changed"]), (&true.into(), &false.into()));
    assert_eq!(status(home)["sites"][1]["cut"], true);
    wait::until("the monitor to notice", || status(home)["checks"].to_string().contains("OSD_DOWN"));
    let dump: Value = serde_json::from_str(&ceph(conf, &["osd", "dump", "-f", "json"])).unwrap();
    let up: Vec<_> = dump["osds"].as_array().unwrap().iter().map(|osd| osd["up"].as_u64().unwrap()).collect();
    assert_eq!(up, [1, 0, 1], "the process runs, and nobody hears it");
    assert!(daemon(&status(home), "osd.1")["pid"].is_u64());

    // A killed OSD comes back, and `up` does not wait for the cut site.
    home.ok(&["cluster", "kill", "osd.2"]);
    assert_eq!(home.json(&["cluster", "up"])[0]["up"], "resumed");
    put("during");
    assert_eq!(home.ok(&["--store", store, "get", "near/before", "-"]), "written before the cut");
    assert_eq!((&cut("heal")["changed"], &cut("heal")["changed"]), (&true.into(), &false.into()));
    assert_eq!(status(home)["sites"][1]["cut"], false);
    wait::until("HEALTH_OK", || status(home)["health"] == "HEALTH_OK");
}

#[test]
fn invalid_sites_are_refused() {
    let home = Home::bare();
    let refused = |status: i32, args: &[&str]| home.fails(status, &[&["cluster", "up"], args].concat());
    for name in ["Um", "default", "a23456789012345678", "u_m", "um,um", ""] {
        let error = refused(6, &["--sites", name]);
        assert!(error.contains("site"), "{name:?}: {error}");
    }
    assert!(refused(6, &["--sites", "um,msu,wsu", "--osds", "2"]).contains("each site needs an OSD"));
    assert!(refused(6, &["--rtt-ms", "5"]).contains("--sites"));
    assert!(refused(2, &["--sites", "um", "--rtt-ms", "1001"]).contains("1001"));
    assert!(refused(6, &["--mbit-per-s", "100"]).contains("--sites"));
    assert!(refused(2, &["--sites", "um", "--mbit-per-s", "10001"]).contains("10001"));
    assert!(!home.path("benthic-cluster").exists(), "nothing was made");
}
