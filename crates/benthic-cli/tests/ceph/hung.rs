//! A native method that never returns: it takes down one OSD and no other, and the operator is told
//! which.

use crate::support::{CLUSTER_DIR, ClusterCleanup, Home, daemon, failed, json_lines, printed, status};
use benthic_core::{Stopwatch, SystemClock};
use benthic_testkit::wait;
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

/// Ceph's default of `osd_heartbeat_grace`.
const HEARTBEAT_GRACE: Duration = Duration::from_secs(20);

/// The numbers of the OSDs that the monitors count as up.
fn up(home: &Home) -> Vec<u64> {
    let conf = home.path(CLUSTER_DIR).join("ceph.conf");
    let dump = std::process::Command::new("ceph")
        .arg("-c")
        .arg(conf)
        .args(["-f", "json", "osd", "dump"])
        .output()
        .unwrap();
    let dump: Value = serde_json::from_slice(&dump.stdout).unwrap();
    let osds = dump["osds"].as_array().unwrap().iter();
    osds.filter(|osd| osd["up"] == 1).map(|osd| osd["osd"].as_u64().unwrap()).collect()
}

#[test]
fn a_method_that_never_returns_takes_down_one_osd_and_the_operator_is_told_which() {
    let home = Home::bare();
    let _cleanup = ClusterCleanup(&home, &[CLUSTER_DIR]);
    home.ok(&["cluster", "up", "--osds", "3"]);
    let library = Path::new(env!("CARGO_BIN_EXE_benthic")).with_file_name("examples/libcls_calls_1.so");
    home.ok(&["cluster", "status"]);
    home.ok(&["class", "install", library.to_str().unwrap(), "--cluster"]);
    let store = format!("ceph:?conf={}", home.path(CLUSTER_DIR).join("ceph.conf").display());
    let store = ["--store", &store];
    let run = |args: &[&str]| home.run(&[&store[..], args].concat());
    home.ok(&[&store[..], &["pool", "create", "p"]].concat());
    for object in ["a", "b", "c", "d"] {
        home.pipe(&[&store[..], &["put", &format!("p/{object}"), "-"]].concat(), b"data");
    }
    assert_eq!(printed(&run(&["exec", "p/a", "calls", "look", "stat"]), &[]), "4\n");

    // The call is over before its OSD is replaced, so the next OSD never gets it. On all objects,
    // the first call is alone.
    let began = Stopwatch::start(&SystemClock);
    let hung = run(&["--json", "exec", "--all", "p", "calls", "look", "hang"]);
    assert!(began.elapsed() < HEARTBEAT_GRACE, "{:?}", began.elapsed());
    let error = json_lines(&hung.stderr).pop().unwrap()["error"].clone();
    assert_eq!((hung.status.code(), &error["kind"]), (Some(14), &"outcome_unknown".into()), "{hung:?}");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("did not return in time") && message.contains("benthic health"), "{error}");
    let name = format!("osd.{}", error["context"]["osd"].as_str().unwrap());

    // `cluster status` sees it before the monitors do.
    let mut now = Value::Null;
    wait::until("the status of the hung OSD", || {
        now = status(&home);
        daemon(&now, &name)["hangs"].is_string()
    });
    let advice = format!("benthic cluster kill {name}");
    assert!(daemon(&now, &name)["hangs"].as_str().unwrap().contains(&advice), "{now}");
    assert_eq!(now["daemons"].as_array().unwrap().iter().filter(|one| one["hangs"].is_string()).count(), 1);
    assert!(home.ok(&["cluster", "status"]).contains("hangs, pid "));
    let refused = failed(&home.run(&["cluster", "up"]), 9);
    assert!(refused.contains(&name) && refused.contains(&advice), "{refused}");

    // The monitors replace it, and all objects are available again.
    wait::until("the monitors to notice", || up(&home).len() == 2);
    for object in ["a", "b", "c", "d"] {
        wait::until("the object", || run(&["get", &format!("p/{object}"), "-"]).stdout == b"data");
    }
    let mut report = Value::Null;
    let finding = |report: &Value| {
        let findings = report["findings"].as_array().unwrap().iter();
        findings.clone().find(|finding| finding["name"] == "BenthicOSDHung").cloned()
    };
    wait::until("health to name the hung OSD", || {
        report = json_lines(&run(&["--json", "health"]).stdout).remove(0);
        finding(&report).is_some()
    });
    let finding = finding(&report).unwrap();
    assert!(finding["what"].as_str().unwrap().contains(&name), "{finding}");
    assert!(finding["next"].as_str().unwrap().contains(&advice), "{finding}");

    if std::env::var_os("BENTHIC_TEST_LONG").is_some() {
        stays_alone_and_named(&home, &name);
    }
    if daemon(&status(&home), &name)["pid"].is_u64() {
        home.ok(&["cluster", "kill", &name]);
    }
    home.ok(&["cluster", "start", &name]);
    wait::until("all OSDs", || up(&home).len() == 3);
    home.ok(&["cluster", "up"]);
    assert!(daemon(&status(&home), &name)["hangs"].is_null());
}

/// Whether or not Ceph ends the process (`osd_op_thread_suicide_timeout`, 150 s), no other OSD goes
/// down, and the status shows which one did.
fn stays_alone_and_named(home: &Home, name: &str) {
    let began = Stopwatch::start(&SystemClock);
    while began.elapsed() < Duration::from_secs(200) {
        let now = status(home);
        let daemon = daemon(&now, name);
        assert!(daemon["hangs"].is_string() || daemon["pid"].is_null(), "{now}");
        assert_eq!(up(home).len(), 2);
        wait::pause(Duration::from_secs(5));
    }
}
