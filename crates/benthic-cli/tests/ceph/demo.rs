//! The demo on real OSDs.

use crate::support::{CLUSTER_DIR, ClusterCleanup, Home, keys, shared_store};
use std::fs;

const QUICK: [&str; 6] = ["--size", "2MiB", "--repeat", "3", "--object-size", "0,4KiB"];

#[test]
fn the_demo_runs_in_osds_and_reports_network_traffic() {
    let home = Home::bare();
    let store = shared_store();
    let demo: Vec<&str> =
        ["demo", "--store", &store, "--pool", "demo-in-osds"].into_iter().chain(QUICK).collect();
    let found = home.json(&demo).remove(0);
    assert_eq!(found["mismatches"].as_array().unwrap().len(), 0, "{found}");
    let phases = found["phases"].as_array().unwrap();
    let objects = phases[1]["objects"].as_u64().unwrap();
    // A digest has 32 characters. The client also requests 16 bytes of size and time per object,
    // and reads all data.
    assert_eq!(phases[1]["received_bytes"], objects * 32);
    assert_eq!(phases[2]["received_bytes"], phases[2]["bytes"].as_u64().unwrap() + objects * 16);
    assert!(found["round_trip_ms"].as_f64().unwrap() > 0.0);
    for published in found["published"].as_array().unwrap() {
        assert!(published["client_buffered"].is_null(), "nothing is buffered on Ceph: {published}");
        assert_eq!(keys(&published["in_storage"]), ["crossed_bytes", "round_trips", "seconds"]);
    }
    // A second run recreates the demo's own pool. `verify` finds the stored digests.
    let text = home.ok(&demo);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("the same.") && words.contains("digested by the OSD"), "{words}");
    assert!(!words.contains("embedded") && !words.contains("buffered"), "{words}");
    let verify = ["exec", "--store", &store, "--all", "demo-in-osds", "digest", "verify", "md5"];
    assert_eq!(home.ok(&verify).lines().count() as u64, objects);
    let page = String::from_utf8(home.read("benthic-demo.html")).unwrap();
    assert!(
        page.contains("moved over the network") && page.contains("<svg") && !page.contains("NaN"),
        "{page}"
    );
    home.ok(&["pool", "rm", "--store", &store, "demo-in-osds", "--yes", "demo-in-osds"]);
}

#[test]
fn without_its_class_the_demo_explains_the_installation() {
    let home = Home::bare();
    let _removed = ClusterCleanup(&home, &[CLUSTER_DIR]);
    home.ok(&["cluster", "up", "--osds", "1"]);
    // An OSD keeps a class that it has loaded, so it must restart.
    home.ok(&["cluster", "kill", "osd.0"]);
    let _ = fs::remove_file(home.path("benthic-cluster/classes/libcls_benthic_1.so"));
    home.ok(&["cluster", "start", "osd.0"]);
    let store = format!("ceph:?conf={}", home.path("benthic-cluster/ceph.conf").display());
    let demo: Vec<&str> = ["demo", "--store", &store].into_iter().chain(QUICK).collect();
    let error = home.fails_with("unsupported", &demo);
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("make ceph") && message.contains("benthic class install"), "{message}");
}
