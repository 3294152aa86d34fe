//! Judges the recorded answers of a real cluster (16.2.15) with three OSDs on one host and pools
//! with hostile names. Each test changes the part of the snapshot that it is about.

use super::growth::Reading;
use super::judge::{self, judge};
use super::limits::Limits;
use super::metrics::{self, METRICS};
use super::overview::overview;
use super::report::{Finding, Report, Severity, Verdict};
use super::snapshot::{Library, Missing, OsdBuild, Probe, ProbeError, Snapshot};
use super::{checks, gather, timestamp};
use crate::cluster_state::{Health, Osd, OsdDf, OsdMap, OsdPerf, PgDump, Skew, StateCount, Status, Tree};
use crate::placement::lint;
use benthic_core::{Error, ErrorKind};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::fs;

/// The recorded answers of a cluster.
pub(super) fn recorded(name: &str) -> Snapshot {
    let file = format!("{}/src/health/testdata/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let all: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    fn answer<T: DeserializeOwned>(all: &Value, question: &str) -> Option<T> {
        all.get(question).map(|answer| serde_json::from_value(answer.clone()).unwrap())
    }
    let status: Status = answer(&all, "status").unwrap();
    Snapshot {
        now_unix_s: all["now_unix_s"].as_u64().unwrap(),
        monitors_unix_s: all["now_unix_s"].as_u64().unwrap(),
        fsid: status.fsid,
        digest: Some(status.pgmap),
        health: answer(&all, "health detail"),
        quorum: answer(&all, "quorum_status"),
        clocks: answer(&all, "time-sync-status"),
        manager: answer(&all, "mgr stat"),
        map: answer(&all, "osd dump"),
        tree: answer(&all, "osd tree"),
        versions: answer(&all, "versions"),
        usage: answer::<OsdDf>(&all, "osd df").map(|usages| usages.nodes),
        latencies: answer::<OsdPerf>(&all, "osd perf").map(OsdPerf::of_osds),
        pgs: answer::<PgDump>(&all, "pg dump").map(|pgs| pgs.pg_stats),
        rules: Some(Vec::new()),
        ..Snapshot::default()
    }
}

pub(super) fn set_check(snapshot: &mut Snapshot, code: &str, severity: &str, message: &str) {
    let health: &mut Health = snapshot.health.as_mut().unwrap();
    health.status = severity.to_owned();
    let check = json!({ "severity": severity, "summary": { "message": message, "count": 1 } });
    health.checks.insert(code.to_owned(), serde_json::from_value(check).unwrap());
}

pub(super) fn found<'a>(report: &'a Report, name: &str) -> Option<&'a Finding> {
    report.findings.iter().find(|finding| finding.name == name)
}

#[track_caller]
pub(super) fn finds(report: &Report, name: &str, severity: Severity) {
    let all: Vec<_> = report.findings.iter().map(|finding| (&finding.name, finding.severity)).collect();
    let finding = found(report, name).unwrap_or_else(|| panic!("{name} is not among {all:?}"));
    assert_eq!(finding.severity, severity, "{finding:?}");
    assert!(
        !finding.what.is_empty() && !finding.next.is_empty() && !finding.what.contains('\n'),
        "{finding:?}"
    );
}

#[track_caller]
fn only_information(report: &Report) {
    let alarms: Vec<_> = report.findings.iter().filter(|finding| finding.severity > Severity::Info).collect();
    assert!(alarms.is_empty() && report.verdict == Verdict::Healthy, "{alarms:?}");
}

#[test]
fn a_healthy_cluster_is_healthy_with_any_pool_names() {
    let report = judge(&recorded("healthy"));
    only_information(&report);
    assert_eq!((report.availability_percent, report.ceph.as_deref()), (Some(100.0), Some("HEALTH_OK")));
    assert!(!report.is_stale && report.missing.is_empty());
    let numbers = &report.numbers;
    let names: Vec<&str> = numbers.pools.iter().map(|pool| pool.pool.as_str()).collect();
    for name in ["test", "all", "a\"b", "it's", "$(id)", "..", "new\nline", "a,b", "{\"a\":1}", "-x"] {
        assert!(names.contains(&name), "{name:?} is not among {names:?}");
    }
    assert_eq!(numbers.monitors.get("a"), Some(&true));
    assert_eq!((numbers.manager.as_deref(), numbers.managers_standby), (Some("a"), 0));
    assert!(numbers.osds.len() == 3 && numbers.osds.iter().all(|osd| osd.up && osd.takes_data));
    assert!(numbers.fullest_percent.unwrap() > 1.0 && numbers.commit_latency_ms_max.unwrap() < 1_000);
    assert_eq!((numbers.growth, numbers.full_in_days), ("not_known", None));
    assert!(numbers.scrubbed_days_ago_max.is_some() && numbers.deep_scrubbed_days_ago_max.is_some());
    assert_eq!(numbers.versions.values().sum::<u64>(), 5);
}

#[test]
fn a_rule_that_repeats_an_osd_is_a_risk_though_ceph_is_healthy() {
    let mut snapshot = recorded("repeating");
    assert_eq!(snapshot.health.as_ref().unwrap().status, "HEALTH_OK");
    let report = judge(&snapshot);
    finds(&report, "BenthicPGsDegraded", Severity::Warning);
    assert!(found(&report, "BenthicPGsDegraded").unwrap().what.contains("though Ceph calls itself healthy"));
    assert_eq!((report.verdict, report.availability_percent), (Verdict::Degraded, Some(100.0)));
    let rule = |check, pools: &[&str]| lint::Finding {
        check,
        rule: "naive".to_owned(),
        pools: pools.iter().map(ToString::to_string).collect(),
        message: "two of them on one OSD".to_owned(),
    };
    snapshot.rules = Some(vec![rule(lint::Check::RepeatsOsd, &["fresh"])]);
    let report = judge(&snapshot);
    finds(&report, "BenthicRuleRepeatsOSD", Severity::Error);
    assert_eq!(report.verdict, Verdict::AtRisk);
    snapshot.rules = Some(vec![rule(lint::Check::RepeatsOsd, &[])]);
    finds(&judge(&snapshot), "BenthicRuleRepeatsOSD", Severity::Info);
}

#[test]
fn an_osd_that_is_down_is_reported_with_its_inactive_placement_groups() {
    let mut snapshot = recorded("down");
    let report = judge(&snapshot);
    finds(&report, "CephOSDDownHigh", Severity::Error);
    finds(&report, "CephPGsInactive", Severity::Error);
    finds(&report, "BenthicPGsDegraded", Severity::Warning);
    assert_eq!(found(&report, "CephOSDDownHigh").unwrap().which, ["osd.1"]);
    assert_eq!(report.verdict, Verdict::Down);
    let (all, taking) = (report.numbers.pgs.unwrap(), report.numbers.pgs_taking_io.unwrap());
    assert!(taking < all);
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let share = 100.0 * taking as f64 / all as f64;
    assert!((report.availability_percent.unwrap() - share).abs() < 0.01, "{report:?}");
    // With more OSDs, the same outage raises the ordinary alert.
    let map = snapshot.map.as_mut().unwrap();
    let mut more = map.osds[0].clone();
    for id in 3..20 {
        more.id = id;
        map.osds.push(more.clone());
    }
    let report = judge(&snapshot);
    finds(&report, "CephOSDDown", Severity::Warning);
    assert!(found(&report, "CephOSDDownHigh").is_none());
}

#[test]
fn planned_work_under_noout_is_no_alarm_until_io_stops() {
    let mut snapshot = recorded("noout");
    let report = judge(&snapshot);
    finds(&report, "CephOSDDown", Severity::Info);
    finds(&report, "BenthicFlagsSet", Severity::Info);
    finds(&report, "BenthicPGsDegraded", Severity::Info);
    finds(&report, "CephPGsInactive", Severity::Error);
    assert_eq!(report.verdict, Verdict::Down, "what takes no I/O is an alarm, whoever planned it");
    for pg in snapshot.pgs.as_mut().unwrap().iter_mut().filter(|pg| pg.state.contains("peered")) {
        pg.state = "active+undersized".to_owned();
        pg.acting = vec![0, 2];
    }
    only_information(&judge(&snapshot));
    // `noout` for one host covers the OSDs of that host, but not those of others.
    let map = snapshot.map.as_mut().unwrap();
    map.flags_set.retain(|flag| flag != "noout");
    map.crush_node_flags.insert("vm".to_owned(), vec!["noout".to_owned()]);
    only_information(&judge(&snapshot));
    let tree = snapshot.tree.as_mut().unwrap();
    tree.nodes.iter_mut().find(|node| node.name == "vm").unwrap().name = "other".to_owned();
    finds(&judge(&snapshot), "CephOSDDownHigh", Severity::Error);
}

fn osd(id: i32, up: u8, takes_data: u8) -> Osd {
    let osd = json!({ "osd": id, "up": up, "in": takes_data, "state": ["exists"] });
    serde_json::from_value(osd).unwrap()
}

#[test]
fn work_on_a_rack_is_planned_if_noout_covers_its_osds() {
    let mut snapshot = recorded("healthy");
    let node = |id: i32, name: &str, kind: &str, children: &[i32]| {
        let node = json!({ "id": id, "name": name, "type": kind, "children": children });
        serde_json::from_value(node).unwrap()
    };
    let nodes = vec![
        node(-1, "default", "root", &[-2, -3]),
        node(-2, "r1", "rack", &[-4, -5]),
        node(-4, "h1", "host", &[0]),
        node(-5, "h2", "host", &[1]),
        node(-3, "h3", "host", &[2, 3]),
    ];
    snapshot.tree = Some(Tree { nodes });
    snapshot.map.as_mut().unwrap().osds = vec![osd(0, 0, 1), osd(1, 0, 1), osd(2, 1, 1), osd(3, 1, 1)];
    for pg in snapshot.pgs.as_mut().unwrap() {
        pg.state = "active+undersized+degraded".to_owned();
        pg.acting = vec![2, 3];
    }
    set_check(&mut snapshot, "OSD_HOST_DOWN", "HEALTH_WARN", "2 hosts (2 osds) down");
    let mut with = |nodes: &[&str], of_all: bool| {
        let map = snapshot.map.as_mut().unwrap();
        map.crush_node_flags =
            nodes.iter().map(|node| ((*node).to_owned(), vec!["noout".to_owned()])).collect();
        map.flags_set = if of_all { vec!["noout".to_owned()] } else { Vec::new() };
        judge(&snapshot)
    };
    for nodes in [&["r1"][..], &["default"], &["h1", "h2"]] {
        only_information(&with(nodes, false));
    }
    // `noout` covers only one of the two hosts, or is set globally and names neither.
    finds(&with(&["h1"], false), "CephOSDDownHigh", Severity::Error);
    finds(&with(&[], true), "CephOSDDownHigh", Severity::Error);
    for pg in snapshot.pgs.as_mut().unwrap() {
        pg.acting = vec![2];
    }
    snapshot.map.as_mut().unwrap().crush_node_flags.insert("r1".to_owned(), vec!["noout".to_owned()]);
    finds(&judge(&snapshot), "BenthicPGsLastCopy", Severity::Warning);
    snapshot.pgs.as_mut().unwrap()[0].state = "undersized+degraded+peered".to_owned();
    assert_eq!(judge(&snapshot).verdict, Verdict::Down, "too few replicas, whoever planned it");
}

#[test]
fn a_hung_osd_is_named_with_the_command_that_helps() {
    let mut snapshot = recorded("healthy");
    snapshot.hung_osds = vec![1];
    let report = judge(&snapshot);
    finds(&report, "BenthicOSDHung", Severity::Info);
    let finding = found(&report, "BenthicOSDHung").unwrap();
    assert!(
        finding.what.contains("osd.1") && finding.next.contains("benthic cluster kill osd.1"),
        "{finding:?}"
    );
}

#[test]
fn an_osd_that_is_down_and_out_is_information() {
    let mut snapshot = recorded("healthy");
    snapshot.map.as_mut().unwrap().osds.push(osd(9, 0, 0));
    only_information(&judge(&snapshot));
    finds(&judge(&snapshot), "BenthicOSDOut", Severity::Info);
    for pg in snapshot.pgs.as_mut().unwrap() {
        pg.state = "active+undersized+degraded+remapped+backfilling".to_owned();
        pg.acting = vec![0, 2];
    }
    let report = judge(&snapshot);
    finds(&report, "BenthicPGsDegraded", Severity::Warning);
    assert_eq!(report.verdict, Verdict::Degraded, "it was lost, and its data are being made anew");
    // The OSD went out a moment ago, and placement groups with data only on it are incomplete.
    let stamp = "2026-11-23T07:40:00.000000+0000";
    snapshot.now_unix_s = timestamp::unix_s(stamp).unwrap() + 5;
    snapshot.map.as_mut().unwrap().last_in_change = stamp.to_owned();
    snapshot.pgs.as_mut().unwrap()[0].state = "incomplete".to_owned();
    finds(&judge(&snapshot), "CephPGsInactive", Severity::Error);
}

#[test]
fn sums_of_placement_groups_distinguish_a_change_from_an_outage() {
    let stamp = "2026-11-23T07:40:00.000000+0000";
    let never = "0.000000";
    let with = |state: &str, seconds: u64, change: fn(&mut OsdMap, &str)| {
        let mut snapshot = recorded("healthy");
        snapshot.pgs = None;
        let count = |state: &str, count| StateCount { state_name: state.to_owned(), count };
        snapshot.digest.as_mut().unwrap().pgs_by_state = vec![count("active+clean", 60_000), count(state, 9)];
        set_check(
            &mut snapshot,
            "PG_AVAILABILITY",
            "HEALTH_WARN",
            "Reduced data availability: 9 pgs inactive",
        );
        let map = snapshot.map.as_mut().unwrap();
        (map.last_up_change, map.last_in_change) = (never.to_owned(), never.to_owned());
        stamp.clone_into(&mut map.modified);
        change(map, stamp);
        snapshot.now_unix_s = timestamp::unix_s(stamp).unwrap() + seconds;
        judge(&snapshot)
    };
    let nothing = |_: &mut OsdMap, _: &str| {};
    let up = |map: &mut OsdMap, stamp: &str| stamp.clone_into(&mut map.last_up_change);
    let changes: [fn(&mut OsdMap, &str); 4] = [
        up,
        |map, stamp| stamp.clone_into(&mut map.last_in_change),
        |map, stamp| stamp.clone_into(&mut map.pools[0].create_time),
        |map, _| map.pools[0].pg_num_target = Some(64),
    ];
    for change in changes {
        let report = with("peering", 40, change);
        finds(&report, "BenthicPGsPeering", Severity::Warning);
        let count = found(&report, "BenthicPGsPeering").unwrap().count;
        assert_eq!((report.verdict, count), (Verdict::Degraded, 9));
        assert_eq!(with("peering", 120, change).verdict, Verdict::Down);
    }
    for state in ["stale+active+clean", "down", "incomplete"] {
        let report = with(state, 40, up);
        finds(&report, "CephPGsInactive", Severity::Error);
        assert_eq!(report.verdict, Verdict::Down, "{state}");
    }
    // Only snapshot trimming or the balancer changed the map, and no OSD or pool changed.
    let report = with("peering", 5, nothing);
    finds(&report, "CephPGsInactive", Severity::Error);
    assert_eq!(report.verdict, Verdict::Down);
}

#[test]
fn a_time_stamp_in_the_future_has_age_zero() {
    let mut snapshot = recorded("healthy");
    snapshot.now_unix_s = 1;
    let numbers = judge(&snapshot).numbers;
    assert_eq!((numbers.scrubbed_days_ago_max, numbers.deep_scrubbed_days_ago_max), (Some(0.0), Some(0.0)));
}

#[test]
fn a_muted_check_is_information_unless_io_stops() {
    let mut snapshot = recorded("down");
    for code in ["OSD_DOWN", "PG_DEGRADED", "PG_AVAILABILITY"] {
        snapshot.health.as_mut().unwrap().checks.get_mut(code).unwrap().muted = true;
    }
    let report = judge(&snapshot);
    finds(&report, "CephOSDDownHigh", Severity::Info);
    finds(&report, "BenthicPGsDegraded", Severity::Info);
    finds(&report, "CephPGsInactive", Severity::Error);
}

#[test]
fn peering_after_a_change_is_no_outage_until_it_lasts() {
    let mut snapshot = recorded("out");
    let check = snapshot.health.as_ref().unwrap().checks.contains_key("PG_AVAILABILITY");
    assert!(check, "Ceph itself tells an outage here");
    let report = judge(&snapshot);
    only_information(&report);
    finds(&report, "BenthicPGsPeering", Severity::Info);
    finds(&report, "BenthicFlagsSet", Severity::Info);
    assert_eq!(report.availability_percent, Some(0.0), "the number is what it is");
    snapshot.now_unix_s += 120;
    let report = judge(&snapshot);
    finds(&report, "CephPGsInactive", Severity::Error);
    assert_eq!(report.verdict, Verdict::Down);
}

#[test]
fn recovery_with_all_osds_up_is_information_unless_it_stands_still() {
    let mut snapshot = recorded("recovering");
    let report = judge(&snapshot);
    only_information(&report);
    finds(&report, "BenthicPGsDegraded", Severity::Info);
    snapshot.now_unix_s += 600;
    for pg in snapshot.pgs.as_mut().unwrap() {
        pg.state = "active+undersized+degraded+remapped+backfilling".to_owned();
        pg.acting = vec![0, 2];
    }
    only_information(&judge(&snapshot));
    snapshot.map.as_mut().unwrap().flags_set.push("nobackfill".to_owned());
    finds(&judge(&snapshot), "BenthicPGsDegraded", Severity::Warning);
    snapshot.map.as_mut().unwrap().flags_set.retain(|flag| flag != "nobackfill");
    for pg in snapshot.pgs.as_mut().unwrap() {
        pg.state = "active+undersized".to_owned();
    }
    finds(&judge(&snapshot), "BenthicPGsDegraded", Severity::Warning);
    // Placement groups that became undersized a moment ago are information, unless CRUSH finds
    // too few OSDs.
    let stamp = "2026-11-23T07:40:00.000000+0000";
    snapshot.now_unix_s = timestamp::unix_s(stamp).unwrap() + 5;
    for pg in snapshot.pgs.as_mut().unwrap() {
        pg.last_change = stamp.to_owned();
        pg.up = vec![0, 1, 2];
    }
    only_information(&judge(&snapshot));
    for pg in snapshot.pgs.as_mut().unwrap() {
        pg.up = vec![2, 2, 1];
    }
    finds(&judge(&snapshot), "BenthicPGsDegraded", Severity::Warning);
}

#[test]
fn data_that_move_and_a_pool_that_is_split_are_information() {
    let mut snapshot = recorded("healthy");
    for pg in snapshot.pgs.as_mut().unwrap() {
        pg.state = "active+remapped+backfill_wait".to_owned();
    }
    snapshot.digest.as_mut().unwrap().misplaced_objects = 70;
    set_check(&mut snapshot, "OBJECT_MISPLACED", "HEALTH_WARN", "70/100 objects misplaced");
    snapshot.map.as_mut().unwrap().pools[1].pg_num_target = Some(64);
    let report = judge(&snapshot);
    only_information(&report);
    finds(&report, "BenthicPGsMoving", Severity::Info);
    finds(&report, "BenthicPgNumChanging", Severity::Info);
    assert_eq!(found(&report, "BenthicPgNumChanging").unwrap().which, ["test"]);
}

#[test]
fn without_a_manager_the_report_has_the_monitors_data_and_is_stale() {
    let mut snapshot = recorded("no-manager");
    snapshot.missing.push(Missing {
        what: "single placement groups".to_owned(),
        why: "no manager is active".to_owned(),
        is_problem: true,
    });
    let report = judge(&snapshot);
    finds(&report, "BenthicMgrDown", Severity::Error);
    finds(&report, "BenthicNotSeen", Severity::Warning);
    assert!(report.is_stale && report.verdict == Verdict::AtRisk);
    let numbers = &report.numbers;
    assert!(numbers.osds.len() == 3 && numbers.osds.iter().all(|osd| osd.up));
    assert!(numbers.pgs.unwrap() > 0 && numbers.pools.iter().all(|pool| pool.pgs_taking_io.is_none()));
    assert!(numbers.fullest_osd.is_none() && numbers.scrubbed_days_ago_max.is_none());
    assert!(found(&report, "MGR_DOWN").is_none(), "the report repeats the check");
}

#[test]
fn a_hanging_manager_has_a_finding_of_its_own() {
    let mut snapshot = recorded("healthy");
    snapshot.manager_silent = Some("the manager does not answer".to_owned());
    let report = judge(&snapshot);
    finds(&report, "BenthicMgrSilent", Severity::Error);
    assert!(report.is_stale);
}

#[test]
fn a_missing_optional_part_is_information() {
    let mut snapshot = recorded("healthy");
    let missing =
        |is_problem| Missing { what: "rules".to_owned(), why: "no crushtool".to_owned(), is_problem };
    snapshot.missing = vec![missing(false)];
    finds(&judge(&snapshot), "BenthicNotSeen", Severity::Info);
    snapshot.missing.push(missing(true));
    finds(&judge(&snapshot), "BenthicNotSeen", Severity::Warning);
}

#[test]
fn monitors_out_of_quorum_are_a_risk_if_no_other_may_fail() {
    let mut snapshot = recorded("healthy");
    let mon = snapshot.quorum.as_ref().unwrap().monmap.mons[0].clone();
    let grow = |snapshot: &mut Snapshot, names: &[&str], within: usize| {
        let quorum = snapshot.quorum.as_mut().unwrap();
        quorum.monmap.mons = names
            .iter()
            .map(|name| {
                let mut mon = mon.clone();
                mon.name = (*name).to_owned();
                mon
            })
            .collect();
        quorum.quorum_names = names[..within].iter().map(ToString::to_string).collect();
        judge(snapshot)
    };
    finds(&grow(&mut snapshot, &["a"], 1), "BenthicMonAlone", Severity::Info);
    only_information(&grow(&mut snapshot, &["a", "b", "c"], 3));
    finds(&grow(&mut snapshot, &["a", "b", "c"], 2), "CephMonDownQuorumAtRisk", Severity::Error);
    finds(&grow(&mut snapshot, &["a", "b", "c", "d", "e"], 4), "CephMonDown", Severity::Warning);
    finds(&grow(&mut snapshot, &["a", "b", "c", "d", "e"], 3), "CephMonDownQuorumAtRisk", Severity::Error);
    let report = judge(&Snapshot::default());
    finds(&report, "BenthicMonNoAnswer", Severity::Error);
    assert_eq!((report.verdict, report.availability_percent), (Verdict::Down, None));
}

#[test]
fn clock_skew_is_reported_once() {
    let mut snapshot = recorded("healthy");
    let skew = |skew_s, health: &str| Skew { skew_s, health: health.to_owned() };
    let clocks = snapshot.clocks.as_mut().unwrap();
    clocks.time_skew_status.insert("a".to_owned(), skew(0.0, "HEALTH_OK"));
    clocks.time_skew_status.insert("b".to_owned(), skew(-0.01, "HEALTH_OK"));
    assert_eq!(judge(&snapshot).numbers.clock_skew_ms_max, Some(10.0));
    only_information(&judge(&snapshot));
    snapshot.clocks.as_mut().unwrap().time_skew_status.insert("c".to_owned(), skew(-2.0, "HEALTH_WARN"));
    set_check(&mut snapshot, "MON_CLOCK_SKEW", "HEALTH_WARN", "clock skew detected on mon.c");
    let report = judge(&snapshot);
    finds(&report, "CephMonClockSkew", Severity::Warning);
    assert_eq!(report.findings.iter().filter(|finding| finding.name == "CephMonClockSkew").count(), 1);
    assert_eq!(found(&report, "CephMonClockSkew").unwrap().which, ["mon.c"]);
}

#[test]
fn pools_without_redundancy_are_reported() {
    let mut snapshot = recorded("healthy");
    let pools = &mut snapshot.map.as_mut().unwrap().pools;
    pools[1].size = 1;
    pools[2].min_size = 1;
    let report = judge(&snapshot);
    finds(&report, "BenthicPoolOneReplica", Severity::Error);
    finds(&report, "BenthicPoolMinSize", Severity::Warning);
    assert_eq!(found(&report, "BenthicPoolOneReplica").unwrap().which, ["test"]);
    assert_eq!(found(&report, "BenthicPoolMinSize").unwrap().which, ["a\"b"]);
    // A muted Ceph health check lowers the finding to information.
    set_check(&mut snapshot, "POOL_NO_REDUNDANCY", "HEALTH_WARN", "1 pool(s) have no replicas configured");
    finds(&judge(&snapshot), "BenthicPoolOneReplica", Severity::Error);
    snapshot.health.as_mut().unwrap().checks.get_mut("POOL_NO_REDUNDANCY").unwrap().muted = true;
    finds(&judge(&snapshot), "BenthicPoolOneReplica", Severity::Info);
}

#[test]
fn an_erasure_code_needs_one_chunk_more_than_its_data() {
    let coded = |min_size: usize| {
        let mut snapshot = recorded("healthy");
        let pool = json!({ "pool": 99, "pool_name": "coded", "type": 3, "size": 4, "min_size": min_size, "crush_rule": 1,
            "pg_num": 1, "erasure_code_profile": "default" });
        snapshot.map.as_mut().unwrap().pools.push(serde_json::from_value(pool).unwrap());
        judge(&snapshot)
    };
    only_information(&coded(3));
    finds(&coded(2), "BenthicPoolMinSize", Severity::Warning);
}

#[test]
fn the_last_copy_is_a_risk() {
    let mut snapshot = recorded("down");
    for pg in snapshot.pgs.as_mut().unwrap() {
        pg.state = "active+undersized+degraded".to_owned();
        pg.acting.truncate(1);
    }
    finds(&judge(&snapshot), "BenthicPGsLastCopy", Severity::Error);
    // The OSD that is down goes out, which restores no copy.
    let stamp = "2026-11-23T07:40:00.000000+0000";
    snapshot.now_unix_s = timestamp::unix_s(stamp).unwrap() + 5;
    let map = snapshot.map.as_mut().unwrap();
    stamp.clone_into(&mut map.last_in_change);
    map.osds[1] = osd(1, 0, 0);
    finds(&judge(&snapshot), "BenthicPGsLastCopy", Severity::Error);
    // The OSD comes back with its copies, and the manager's data are older.
    snapshot.map.as_mut().unwrap().osds[1] = osd(1, 1, 1);
    assert!(found(&judge(&snapshot), "BenthicPGsLastCopy").is_none());
}

#[test]
fn different_versions_and_builds_are_reported_though_ceph_is_healthy() {
    let mut snapshot = recorded("healthy");
    let old = "ceph version 16.2.11 (3cf40e2dca667f68c6ce3ff5cd94f01e711af894) pacific (stable)";
    snapshot.versions.as_mut().unwrap().get_mut("osd").unwrap().insert(old.to_owned(), 1);
    let build = |build: &str, osds: &[i64]| OsdBuild { build: build.to_owned(), osds: osds.to_vec() };
    let library =
        |builds, without| Library { name: "benthic_1".to_owned(), builds, without, silent: Vec::new() };
    snapshot.libraries = Some(vec![library(vec![build("1", &[0, 1]), build("2", &[2])], vec![])]);
    let report = judge(&snapshot);
    finds(&report, "BenthicVersionsDiffer", Severity::Info);
    finds(&report, "BenthicClassBuildsDiffer", Severity::Warning);
    assert!(found(&report, "BenthicVersionsDiffer").unwrap().what.contains("1 osd 16.2.11"), "{report:?}");
    assert_eq!((report.verdict, report.ceph.as_deref()), (Verdict::Degraded, Some("HEALTH_OK")));
    snapshot.libraries = Some(vec![library(vec![build("1", &[0, 1])], vec![2])]);
    finds(&judge(&snapshot), "BenthicClassMissing", Severity::Warning);
    snapshot.libraries = Some(vec![library(vec![build("1", &[0, 1, 2])], vec![])]);
    assert!(judge(&snapshot).findings.iter().all(|finding| !finding.name.starts_with("BenthicClass")));
    // An upgrade is information until Ceph warns that it takes too long.
    only_information(&judge(&snapshot));
    set_check(
        &mut snapshot,
        "DAEMON_OLD_VERSION",
        "HEALTH_WARN",
        "There are daemons running an older version of ceph",
    );
    finds(&judge(&snapshot), "BenthicVersionsDiffer", Severity::Warning);
    assert!(found(&judge(&snapshot), "BenthicReleaseUnknown").is_none());
    let next = "ceph version 21.1.0 (1) umbrella (rc)";
    snapshot.versions.as_mut().unwrap().get_mut("osd").unwrap().insert(next.to_owned(), 1);
    finds(&judge(&snapshot), "BenthicReleaseUnknown", Severity::Info);
    assert!(found(&judge(&snapshot), "BenthicReleaseUnknown").unwrap().what.contains("21.1.0"));
}

#[test]
fn lost_and_damaged_objects_are_reported() {
    let mut snapshot = recorded("healthy");
    snapshot.digest.as_mut().unwrap().unfound_objects = 3;
    set_check(&mut snapshot, "OBJECT_UNFOUND", "HEALTH_WARN", "3/90 objects unfound (3.333%)");
    set_check(&mut snapshot, "PG_DAMAGED", "HEALTH_ERR", "Possible data damage: 1 pg recovery_unfound");
    let report = judge(&snapshot);
    finds(&report, "CephObjectMissing", Severity::Error);
    assert!(found(&report, "CephPGsDamaged").is_none(), "unfound is no damage");
    assert_eq!(report.verdict, Verdict::Down, "reads of these objects wait");
    let mut snapshot = recorded("healthy");
    let pg = &mut snapshot.pgs.as_mut().unwrap()[0];
    pg.state = "active+clean+inconsistent".to_owned();
    let pgid = pg.pgid.clone();
    let report = judge(&snapshot);
    finds(&report, "CephPGsDamaged", Severity::Error);
    assert_eq!(
        (report.verdict, &found(&report, "CephPGsDamaged").unwrap().which[0]),
        (Verdict::AtRisk, &pgid)
    );
}

#[test]
fn flags_that_stop_io_or_hide_failures_are_no_planned_work() {
    let with = |flag: &str| {
        let mut snapshot = recorded("healthy");
        snapshot.map.as_mut().unwrap().flags_set.push(flag.to_owned());
        set_check(&mut snapshot, "OSDMAP_FLAGS", "HEALTH_WARN", &format!("{flag} flag(s) set"));
        judge(&snapshot)
    };
    for flag in ["noout", "norebalance", "nobackfill", "norecover", "noscrub", "nodeep-scrub", "noin"] {
        only_information(&with(flag));
        finds(&with(flag), "BenthicFlagsSet", Severity::Info);
    }
    finds(&with("nodown"), "BenthicNodown", Severity::Warning);
    let (node, osd, class) = ("nodown on vm", "nodown on osd.1", "nodown on ssd");
    for flagged in [node, osd, class] {
        let mut snapshot = recorded("healthy");
        let map = snapshot.map.as_mut().unwrap();
        let flags = vec!["noout".to_owned(), "nodown".to_owned()];
        match flagged {
            _ if flagged == node => drop(map.crush_node_flags.insert("vm".to_owned(), flags)),
            _ if flagged == osd => map.osds[1].state.extend(flags),
            _ => drop(map.device_class_flags.insert("ssd".to_owned(), flags)),
        }
        let report = judge(&snapshot);
        finds(&report, "BenthicNodown", Severity::Warning);
        finds(&report, "BenthicFlagsSet", Severity::Info);
        assert_eq!(found(&report, "BenthicNodown").unwrap().which, [flagged]);
    }
    assert_eq!(with("pauserd").verdict, Verdict::Down);
}

#[test]
fn a_filling_osd_is_reported_before_it_is_full() {
    let mut snapshot = recorded("healthy");
    let used = |usage: &mut crate::cluster_state::OsdUsage, share: u64| {
        usage.used_kib = usage.total_kib / 100 * share
    };
    used(&mut snapshot.usage.as_mut().unwrap()[1], 80);
    let now_unix_s = snapshot.now_unix_s;
    let before = |days: u64, used| Reading { unix_s: now_unix_s - days * 86_400, osd: 1, used };
    snapshot.history = vec![before(2, 0.70), before(1, 0.75)];
    let report = judge(&snapshot);
    finds(&report, "BenthicOSDFullSoon", Severity::Warning);
    let days = report.numbers.full_in_days.unwrap();
    assert!((days - 3.0).abs() < 0.1 && report.numbers.growth == "growing", "{days}");
    snapshot.history = vec![before(20, 0.78), before(10, 0.79)];
    assert!(found(&judge(&snapshot), "BenthicOSDFullSoon").is_none(), "there are months left");
    snapshot.history = vec![before(1, 0.9)];
    assert_eq!(judge(&snapshot).numbers.growth, "not_growing");
    // The usage grows because data come from other OSDs.
    snapshot.history = vec![before(2, 0.70), before(1, 0.75)];
    assert!(!judge::is_moving(&snapshot));
    snapshot.pgs.as_mut().unwrap()[0].state = "active+remapped+backfilling".to_owned();
    let report = judge(&snapshot);
    assert!(judge::is_moving(&snapshot) && found(&report, "BenthicOSDFullSoon").is_none());
    assert_eq!((report.numbers.growth, report.numbers.full_in_days), ("not_known", None));
}

#[test]
fn a_probe_distinguishes_an_outage_from_missing_caps() {
    let with = |write_ms, error: Option<(&str, bool)>| {
        let mut snapshot = recorded("healthy");
        let error = error.map(|(step, of_cluster)| ProbeError {
            step: step.to_owned(),
            message: "no OSD answered in time".to_owned(),
            of_cluster,
        });
        snapshot.probe = Some(Probe { pool: "test".to_owned(), write_ms, read_ms: Some(0.5), error });
        judge(&snapshot)
    };
    only_information(&with(Some(2.0), None));
    finds(&with(Some(2_000.0), None), "BenthicProbeSlow", Severity::Warning);
    finds(&with(None, Some(("write", false))), "BenthicProbeRefused", Severity::Warning);
    finds(&with(None, Some(("write", true))), "BenthicProbeFailed", Severity::Error);
    assert_eq!(with(None, Some(("write", true))).verdict, Verdict::Down);
    assert_eq!(with(Some(2.0), Some(("remove", true))).verdict, Verdict::AtRisk);
}

#[test]
fn limits_too_low_for_all_osds_are_reported() {
    let with = |open_files_max, threads_max| {
        let mut snapshot = recorded("healthy");
        snapshot.limits = Some(Limits { open_files_max, threads_max, threads: 500 });
        judge(&snapshot)
    };
    only_information(&with(Some(1_024), Some(4_096)));
    only_information(&with(None, None));
    finds(&with(Some(256), None), "BenthicClientLimits", Severity::Warning);
    finds(&with(None, Some(700)), "BenthicClientLimits", Severity::Warning);
}

#[test]
fn slow_disks_are_reported() {
    let mut snapshot = recorded("healthy");
    snapshot.latencies.as_mut().unwrap()[0].stats.commit_latency_ms = 3_000;
    finds(&judge(&snapshot), "BenthicOSDSlowDisk", Severity::Warning);
}

#[test]
fn every_ceph_check_has_the_name_of_its_alert_or_its_code() {
    for known in &checks::CEPH_CHECKS {
        let mut snapshot = recorded("healthy");
        set_check(&mut snapshot, known.code, "HEALTH_WARN", "5 slow ops, oldest one blocked for 33 sec");
        let report = judge(&snapshot);
        finds(&report, known.alert, known.severity);
        let finding = found(&report, known.alert).unwrap();
        assert_eq!((finding.check.as_deref(), finding.stops_io), (Some(known.code), known.stops_io));
        assert_eq!(report.numbers.slow_operations, Some(if known.code == "SLOW_OPS" { 5 } else { 0 }));
        snapshot.health.as_mut().unwrap().checks.get_mut(known.code).unwrap().muted = true;
        if known.stops_io {
            finds(&judge(&snapshot), known.alert, known.severity);
        } else {
            only_information(&judge(&snapshot));
        }
    }
    let mut snapshot = recorded("healthy");
    set_check(&mut snapshot, "FROM_THE_FUTURE", "HEALTH_ERR", "something new");
    finds(&judge(&snapshot), "FROM_THE_FUTURE", Severity::Error);
    set_check(&mut snapshot, "FROM_THE_FUTURE", "HEALTH_WARN", "something new");
    finds(&judge(&snapshot), "FROM_THE_FUTURE", Severity::Warning);
    let mut snapshot = recorded("healthy");
    set_check(
        &mut snapshot,
        "POOL_APP_NOT_ENABLED",
        "HEALTH_WARN",
        "1 pool(s) do not have an application enabled",
    );
    only_information(&judge(&snapshot));
}

#[test]
fn findings_are_sorted_by_severity() {
    let report = judge(&recorded("down"));
    let verdicts: Vec<Verdict> = report.findings.iter().map(Finding::verdict).collect();
    assert!(verdicts.is_sorted_by(|a, b| a >= b), "{verdicts:?}");
    assert_eq!(verdicts.first(), Some(&report.verdict));
}

pub(super) fn exported(snapshot: &Snapshot) -> String {
    let report = judge(snapshot);
    metrics::text(&report, &overview(snapshot, &report))
}

#[test]
fn metrics_are_prometheus_text_with_any_pool_names() {
    let mut snapshot = recorded("down");
    snapshot.probe = Some(Probe { pool: "p".to_owned(), write_ms: Some(2.0), read_ms: None, error: None });
    let text = exported(&snapshot);
    let mut seen: Vec<&str> = Vec::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# ") {
            let name = rest.split(' ').nth(1).unwrap();
            assert!(METRICS.iter().any(|metric| metric.name == name), "{line}");
            if rest.starts_with("HELP") {
                assert!(!seen.contains(&name), "samples of {name} are not adjacent");
                seen.push(name);
            }
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap();
        assert!(value.parse::<f64>().is_ok_and(f64::is_finite), "{line}");
        let name = series.split('{').next().unwrap();
        assert_eq!(seen.last(), Some(&name), "{line}");
        assert!(!series.contains('{') || series.ends_with("\"}"), "{line}");
    }
    assert!(text.contains(r#"ceph_pool_metadata{pool_id="3",name="a\"b"} 1"#), "{text}");
    assert!(text.contains(r#"name="new\nline"} 1"#), "{text}");
    assert!(text.contains("benthic_health_verdict 3\n") && text.contains("ceph_health_status 1\n"), "{text}");
    assert!(text.contains("ceph_osd_up{ceph_daemon=\"osd.1\"} 0\n"), "{text}");
    assert!(text.contains("ceph_health_detail{name=\"OSD_DOWN\",severity=\"HEALTH_WARN\"} 1\n"), "{text}");
    assert!(text.contains("benthic_probe_write_seconds 0.002\n") && !text.contains("probe_read"), "{text}");
    // Without data, the output has no values.
    let text = exported(&Snapshot::default());
    assert!(text.contains("benthic_health_verdict 3\n") && !text.contains("ceph_"), "{text}");
}

#[test]
fn an_unreachable_cluster_is_down() {
    let error = Error::new(ErrorKind::Unavailable, "no monitor answers; is the cluster up?");
    let report = judge(&gather::snapshot_without_monitors(7, &error));
    finds(&report, "BenthicMonNoAnswer", Severity::Error);
    assert_eq!((report.verdict, report.unix_s, report.is_stale), (Verdict::Down, 7, true));
    assert_eq!((report.availability_percent, report.findings.len()), (None, 1));
    let why: Vec<&str> = report.missing.iter().map(|missing| missing.why.as_str()).collect();
    assert!(why.len() == 2 && why[0].starts_with("no monitor answers; is the cluster up?"), "{why:?}");
}

#[test]
fn time_stamps_of_ceph_are_parsed() {
    let snapshot = recorded("healthy");
    let map = snapshot.map.unwrap();
    assert!(timestamp::unix_s(&map.last_up_change).is_some(), "{}", map.last_up_change);
    for pg in snapshot.pgs.unwrap() {
        assert!(
            timestamp::unix_s(&pg.last_change).is_some() && timestamp::unix_s(&pg.last_scrub_stamp).is_some()
        );
    }
}
