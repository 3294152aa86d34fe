//! Removal of pools from a cluster that Benthic shares with others.

use crate::support::{Home, printed, shared_conf, shared_store};
use std::process::Command;

fn ceph(args: &[&str]) -> String {
    printed(&Command::new("ceph").args(["--conf", &shared_conf()]).args(args).output().unwrap(), args)
}

/// Creates a pool as a gateway of Ceph does: the monitors accept every name.
fn create_with_librados(pool: &str) {
    let script =
        "import rados, sys; c = rados.Rados(conffile=sys.argv[1]); c.connect(); c.create_pool(sys.argv[2])";
    // Debian installs python3-rados only for its own Python.
    let mut command = Command::new("/usr/bin/python3");
    printed(&command.args(["-c", script, &shared_conf(), pool]).output().unwrap(), &[pool]);
}

fn pools(home: &Home) -> Vec<String> {
    home.ok(&["--store", &shared_store(), "pool", "ls"]).lines().map(str::to_owned).collect()
}

#[test]
fn pools_of_others_are_removed_only_on_request() {
    let home = Home::bare();
    let (of_rbd, shared, dotted) = ("others-rbd", "others-shared", ".others");
    ceph(&["osd", "pool", "create", of_rbd, "1"]);
    ceph(&["osd", "pool", "application", "enable", of_rbd, "rbd"]);
    home.ok(&["--store", &shared_store(), "pool", "create", shared]);
    ceph(&["osd", "pool", "application", "enable", shared, "rbd", "--yes-i-really-mean-it"]);
    create_with_librados(dotted);
    // The manager has created this pool already, if it had anything to store.
    ceph(&["osd", "pool", "create", "device_health_metrics", "1"]);

    let store = shared_store();
    let rm = |pool, options: &[&str]| -> Vec<String> {
        let args = ["--store", &store, "pool", "rm", pool];
        args.iter().chain(options).map(|word| (*word).to_owned()).collect()
    };
    let fails = |pool, options: &[&str]| {
        let args = rm(pool, options);
        home.fails(2, &args.iter().map(String::as_str).collect::<Vec<_>>())
    };
    for (pool, reason) in [
        (of_rbd, "not Benthic's (used by rbd)"),
        (shared, "not Benthic's (used by rbd)"),
        (dotted, "not Benthic's (a name that Ceph reserves)"),
        ("device_health_metrics", "not Benthic's (a pool of Ceph's manager)"),
    ] {
        for options in [&[][..], &["--yes", pool]] {
            let refused = fails(pool, options);
            let option = format!("; add --not-ours --yes {pool} to confirm");
            assert!(refused.contains(reason) && refused.contains(&option), "{options:?}: {refused}");
        }
        let refused = fails(pool, &["--not-ours"]);
        assert!(refused.contains(reason) && refused.contains(&format!("; add --yes {pool} ")), "{refused}");
        assert!(fails(pool, &["--not-ours", "--yes", "other"]).contains("nothing was deleted"));
        assert!(pools(&home).iter().any(|found| found == pool), "{pool} is still there");
    }
    for pool in [of_rbd, shared, dotted] {
        let args = rm(pool, &["--not-ours", "--yes", pool]);
        home.ok(&args.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(!pools(&home).iter().any(|found| found == pool), "{pool} is gone");
    }
}

#[test]
fn the_count_does_not_wait_for_statistics() {
    let home = Home::bare();
    let store = shared_store();
    let pool = "counted";
    home.ok(&["--store", &store, "pool", "create", pool]);
    home.pipe(&["--store", &store, "put", "counted/o", "-"], b"data");
    home.pipe(&["--store", &store, "put", "counted:ns/o", "-"], b"data");
    let refused = home.fails(2, &["--store", &store, "pool", "rm", pool]);
    assert!(refused.contains("2 objects with 8 B; add --yes counted to confirm"), "{refused}");
    home.ok(&["--store", &store, "pool", "rm", pool, "--yes", pool]);
    home.ok(&["--store", &store, "pool", "create", pool]);
    home.ok(&["--store", &store, "pool", "rm", pool]);
}
