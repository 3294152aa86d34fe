//! OSDs and monitors that do not answer: a command reports the cause of its wait, and ends when the
//! user or its time limit says so.

use crate::support::{CLUSTER_DIR, ClusterCleanup, Home, Running, daemon, status};
use benthic_testkit::wait;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::process::Command;
use std::time::Duration;

/// Time for the end of a program that is about to end.
const SOON: Duration = Duration::from_secs(5);

/// A cluster of three OSDs whose daemons a test stops.
struct Cluster<'a>(&'a Home);

impl Cluster<'_> {
    fn signal(&self, name: &str, signal: Signal) {
        let pid = daemon(&status(self.0), name)["pid"].as_i64().unwrap();
        kill_process(Pid::from_raw(pid.try_into().unwrap()).unwrap(), signal).unwrap();
    }

    fn signal_osds(&self, signal: Signal) {
        (0..3).for_each(|osd| self.signal(&format!("osd.{osd}"), signal));
    }

    fn primary_of(&self, object: &str) -> String {
        let conf = self.0.path("benthic-cluster/ceph.conf");
        let mut command = Command::new("ceph");
        command.args(["osd", "map", "p", object, "--format=json"]).env("CEPH_CONF", conf);
        let map: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
        format!("osd.{}", map["acting_primary"])
    }

    fn start(&self, args: &[&str]) -> Running {
        let store = format!("ceph:?conf={CLUSTER_DIR}/ceph.conf");
        Running::start(self.0.command(&[&["--json", "--store", &store], args].concat()))
    }

    fn wait_healthy(&self) {
        wait::until("HEALTH_OK", || status(self.0)["health"] == "HEALTH_OK");
    }
}

#[test]
fn no_command_waits_in_silence_for_daemons_that_do_not_answer() {
    let home = Home::bare();
    let _removed = ClusterCleanup(&home, &[CLUSTER_DIR]);
    let cluster = Cluster(&home);
    home.ok(&["cluster", "up", "--osds", "3"]);
    assert_eq!(cluster.start(&["pool", "create", "p"]).ends_within(12 * SOON).code(), Some(0));
    for index in 0..50 {
        home.file(&format!("d/{index}"), "data");
    }
    a_put_names_the_primary_that_does_not_answer(&cluster);
    a_copy_stops_when_no_osd_answers(&cluster);
    ctrl_c_ends_a_copy_that_no_osd_answers(&cluster);
    a_connection_names_the_monitor(&cluster);
}

fn a_put_names_the_primary_that_does_not_answer(cluster: &Cluster<'_>) {
    let primary = cluster.primary_of("0");
    cluster.signal(&primary, Signal::STOP);
    let mut put = cluster.start(&["put", "p/0", "d/0"]);
    let said = put.says("waiting");
    assert_eq!(said["for"], primary);
    let start =
        format!("waiting for {primary}, the primary of p/0; if it is dead, it is marked down in about ");
    assert!(said["message"].as_str().unwrap().starts_with(&start), "{said}");
    assert_eq!(put.ends_within(12 * SOON).code(), Some(0), "another OSD takes over");
    cluster.signal(&primary, Signal::CONT);
    cluster.wait_healthy();
}

fn a_copy_stops_when_no_osd_answers(cluster: &Cluster<'_>) {
    cluster.signal_osds(Signal::STOP);
    let mut copy = cluster.start(&["cp", "-r", "--outage-wait", "8", "--jobs", "4", "d", "p/stopped/"]);
    assert!(copy.says("waiting")["for"].as_str().unwrap().starts_with("osd."));
    assert_eq!(copy.ends_within(3 * SOON).code(), Some(9));
    for _ in 0..4 {
        assert_eq!(copy.says("error")["kind"], "outcome_unknown");
    }
    let stopped = copy.says("error");
    assert_eq!((&stopped["kind"], &stopped["context"]["not_tried"]), (&"unavailable".into(), &"46".into()));
    cluster.signal_osds(Signal::CONT);
    cluster.wait_healthy();
}

fn ctrl_c_ends_a_copy_that_no_osd_answers(cluster: &Cluster<'_>) {
    cluster.signal_osds(Signal::KILL);
    let mut copy = cluster.start(&["cp", "-r", "--jobs", "4", "d", "p/killed/"]);
    copy.says("waiting");
    copy.signal(Signal::INT);
    copy.says("waiting");
    assert_eq!(copy.ends_within(SOON).code(), Some(130));
    assert_eq!(copy.says("error")["kind"], "outcome_unknown", "the list of failures is there");
    cluster.0.ok(&["cluster", "up"]);
    cluster.wait_healthy();
}

fn a_connection_names_the_monitor(cluster: &Cluster<'_>) {
    cluster.signal("mon.a", Signal::STOP);
    let mut list = cluster.start(&["pool", "ls"]);
    let said = list.says("waiting");
    assert!(said["for"].as_str().unwrap().starts_with("a monitor of ceph:?conf="), "{said}");
    list.signal(Signal::INT);
    assert_eq!(list.ends_within(SOON).code(), Some(130), "it has done nothing yet");
    cluster.signal("mon.a", Signal::CONT);
}
