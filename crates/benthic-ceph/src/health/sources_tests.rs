//! Where Benthic's own requests and the monitors disagree, the report has the worse of both; and
//! what is unknown looks neither well nor empty.

use super::judge::judge;
use super::metrics;
use super::report::{Finding, Severity, Source, Verdict};
use super::snapshot::{Missing, OsdAnswers, Probe, ProbeError, SilentOsd, Snapshot};
use super::tests::{exported, finds, found, recorded};
use crate::cluster_state::PgMapDigest;
use serde_json::json;

/// The recorded cluster, in which only these OSDs answered. Each of the others led placement group
/// `pg` of the object that it was asked for.
fn answered_by(name: &str, answered: &[i64], pg: &str) -> Snapshot {
    let mut snapshot = recorded(name);
    let silent = (0..3).filter(|osd| !answered.contains(osd));
    let silent = silent.map(|osd| SilentOsd { osd, pg: pg.to_owned() }).collect();
    let unix_s = snapshot.now_unix_s;
    let answered = answered.to_vec();
    snapshot.osd_answers = Some(OsdAnswers { unix_s, answered, silent, not_asked: Vec::new() });
    snapshot
}

fn active_pg(snapshot: &Snapshot, primary: i32) -> String {
    let mut pgs = snapshot.pgs.iter().flatten();
    pgs.find(|pg| pg.primary() == Some(primary) && pg.state.contains("active")).unwrap().pgid.clone()
}

#[test]
fn dead_osds_that_the_monitors_consider_up_are_an_outage() {
    let pg = active_pg(&recorded("healthy"), 0);
    let mut snapshot = answered_by("healthy", &[], &pg);
    snapshot.now_unix_s += 12;
    let report = judge(&snapshot);
    assert_eq!((report.verdict, report.availability_percent), (Verdict::Down, Some(0.0)));
    finds(&report, "BenthicOSDNoAnswer", Severity::Error);
    let finding = found(&report, "BenthicOSDNoAnswer").unwrap();
    assert_eq!(
        (&finding.which[..], finding.source),
        (&["osd.0", "osd.1", "osd.2"].map(str::to_owned)[..], Source::Benthic)
    );
    assert!(finding.what.starts_with("3 of 3 OSDs ") && finding.next.contains(&pg), "{finding:?}");
    // The monitors still report their view.
    let monitors = report.sources.monitors;
    assert_eq!((monitors.verdict, monitors.availability_percent), (Some(Verdict::Healthy), Some(100.0)));
    let own = report.sources.benthic;
    assert_eq!((own.verdict, own.availability_percent), (Some(Verdict::Down), Some(0.0)));
    assert_eq!((monitors.age_s, own.age_s), (Some(12), Some(12)));
    assert!(report.numbers.osds.iter().all(|osd| osd.up && osd.answers == Some(false)));
    let text = exported(&snapshot);
    for line in [
        "benthic_health_verdict 3",
        "benthic_health_verdict_by_source{source=\"monitors\"} 0",
        "benthic_health_verdict_by_source{source=\"benthic\"} 3",
        "benthic_availability_percent 0",
        "benthic_availability_by_source_percent{source=\"monitors\"} 100",
        "benthic_osds_asked 3",
        "benthic_osd_answers{ceph_daemon=\"osd.2\"} 0",
        "ceph_osd_up{ceph_daemon=\"osd.2\"} 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in {text}");
    }
}

#[test]
fn a_silent_osd_costs_the_share_of_its_placement_groups() {
    let pg = active_pg(&recorded("healthy"), 1);
    let mut snapshot = answered_by("healthy", &[0, 2], &pg);
    let report = judge(&snapshot);
    assert_eq!(report.verdict, Verdict::Down);
    assert!(found(&report, "BenthicOSDNoAnswer").unwrap().what.starts_with("1 of 3 OSDs "));
    let pgs = snapshot.pgs.as_ref().unwrap();
    let lost = pgs.iter().filter(|pg| pg.primary() == Some(1)).count();
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let share = 100.0 * (pgs.len() - lost) as f64 / pgs.len() as f64;
    assert!(lost > 0 && (report.availability_percent.unwrap() - share).abs() < 0.01, "{report:?}");
    // With sums only, the OSDs count.
    snapshot.pgs = None;
    assert_eq!(judge(&snapshot).availability_percent, Some(66.66));
}

#[test]
fn answers_of_all_osds_do_not_hide_what_the_monitors_report() {
    let (down, all) = (judge(&recorded("down")), answered_by("down", &[0, 1, 2], ""));
    let report = judge(&all);
    assert_eq!((report.verdict, report.availability_percent), (down.verdict, down.availability_percent));
    assert_eq!(report.sources.benthic.availability_percent, Some(100.0));
    // The monitors know that osd.1 is down: it is no OSD that should answer.
    let report = judge(&answered_by("down", &[0, 2], ""));
    assert!(found(&report, "BenthicOSDNoAnswer").is_none());
    assert_eq!(report.sources.benthic.availability_percent, Some(100.0));
}

#[test]
fn osds_that_are_down_and_osds_that_are_silent_add_up() {
    let mut snapshot = answered_by("down", &[], "");
    let silent = &mut snapshot.osd_answers.as_mut().unwrap().silent;
    silent.retain(|silent| silent.osd != 1);
    let pgs = snapshot.pgs.as_mut().unwrap();
    for (number, pg) in pgs.iter_mut().enumerate() {
        pg.acting_primary = Some([0, 1, 2][number % 3]);
        pg.state = if number % 3 == 1 { "stale+active+clean" } else { "active+clean" }.to_owned();
    }
    let report = judge(&snapshot);
    assert!(report.sources.monitors.availability_percent.unwrap() > 0.0);
    assert_eq!((report.verdict, report.availability_percent), (Verdict::Down, Some(0.0)));
}

#[test]
fn an_osd_whose_placement_group_is_inactive_is_not_called_dead() {
    let mut snapshot = answered_by("healthy", &[1, 2], "");
    snapshot.now_unix_s += 600;
    let pg = &mut snapshot.pgs.as_mut().unwrap()[0];
    pg.state = "undersized+degraded+peered".to_owned();
    let pgid = pg.pgid.clone();
    snapshot.osd_answers.as_mut().unwrap().silent[0].pg = pgid;
    let report = judge(&snapshot);
    assert!(found(&report, "BenthicOSDNoAnswer").is_none());
    finds(&report, "CephPGsInactive", Severity::Error);
    assert!(report.availability_percent.unwrap() < 100.0);
}

#[test]
fn refused_requests_say_nothing_about_the_cluster() {
    let mut snapshot = recorded("healthy");
    let (what, why) = ("class libraries in the OSDs".to_owned(), "no osd caps".to_owned());
    snapshot.missing.push(Missing { what, why, is_problem: false });
    let report = judge(&snapshot);
    finds(&report, "BenthicNotSeen", Severity::Info);
    assert_eq!(report.sources.benthic, super::report::View::default());
    assert_eq!((report.verdict, report.availability_percent), (Verdict::Healthy, Some(100.0)));
    assert!(report.numbers.osds.iter().all(|osd| osd.answers.is_none()));
    let error = ProbeError { step: "open".to_owned(), message: "refused".to_owned(), of_cluster: false };
    snapshot.probe =
        Some(Probe { pool: "test".to_owned(), write_ms: None, read_ms: None, error: Some(error) });
    let own = judge(&snapshot).sources.benthic;
    assert_eq!((own.verdict, own.availability_percent), (Some(Verdict::Degraded), None));
}

#[test]
fn a_failed_probe_lowers_the_availability() {
    let with = |step: &str, of_cluster, answers: bool| {
        let mut snapshot = if answers { answered_by("healthy", &[0, 1, 2], "") } else { recorded("healthy") };
        let error = ProbeError { step: step.to_owned(), message: "no answer".to_owned(), of_cluster };
        snapshot.probe =
            Some(Probe { pool: "it's".to_owned(), write_ms: None, read_ms: None, error: Some(error) });
        judge(&snapshot)
    };
    for answers in [true, false] {
        let report = with("write", true, answers);
        assert_eq!(report.verdict, Verdict::Down);
        assert!((50.0..100.0).contains(&report.availability_percent.unwrap()), "{report:?}");
        assert_eq!(with("remove", true, answers).availability_percent, Some(100.0), "no client waits");
        assert_eq!(with("write", false, answers).availability_percent, Some(100.0), "only caps are missing");
    }
    let failed = with("write", true, true);
    let next = &found(&failed, "BenthicProbeFailed").unwrap().next;
    assert!(next.ends_with(r"`ceph pg ls-by-pool 'it'\''s'`"), "{next}");
}

#[test]
fn commands_in_findings_name_the_pool() {
    let mut snapshot = recorded("healthy");
    for pool in &mut snapshot.map.as_mut().unwrap().pools[1..3] {
        (pool.size, pool.min_size) = (1, 1);
        pool.pg_num_target = Some(64);
    }
    snapshot.probe = Some(Probe {
        pool: "test".to_owned(),
        write_ms: None,
        read_ms: None,
        error: Some(ProbeError { step: "write".to_owned(), message: "no".to_owned(), of_cluster: false }),
    });
    let report = judge(&snapshot);
    assert!(report.findings.iter().all(|finding| !finding.next.contains("POOL")), "{report:?}");
    let next = &found(&report, "BenthicPoolOneReplica").unwrap().next;
    assert!(next.starts_with("`ceph osd pool set test size 3` (and for the other pools)"), "{next}");
}

#[test]
fn the_unknown_is_neither_zero_nor_healthy() {
    let snapshot = Snapshot { fsid: "a".to_owned(), ..Snapshot::default() };
    let report = judge(&snapshot);
    let unknown =
        ["monitors", "manager", "managers_standby", "osds", "pools", "pgs_by_state", "versions", "libraries"];
    assert_eq!(report.numbers.unknown, unknown);
    assert_eq!((report.availability_percent, report.sources.benthic.verdict), (None, None));
    assert!(report.is_stale, "no manager is known to report");
    let text = exported(&snapshot);
    for absent in
        ["benthic_mgr_", "benthic_availability", "ceph_", "benthic_osds_asked", "source=\"benthic\""]
    {
        assert!(
            !text.contains(&format!("\n{absent}")) && !text.contains("{source=\"benthic\"}"),
            "{absent} in {text}"
        );
    }
    let report = judge(&Snapshot::default());
    assert_eq!(report.sources.monitors, super::report::View::default());
    assert_eq!(report.sources.benthic.verdict, Some(Verdict::Down), "Benthic itself found no monitor");
    assert!(judge(&recorded("healthy")).numbers.unknown == ["libraries"]);
    // A poll that failed leaves no value of the last one.
    let failed = metrics::failed(7);
    let values: Vec<&str> = failed.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(values, ["benthic_health_read_unixtime_seconds 7"]);
}

#[test]
fn a_pool_that_the_manager_does_not_know_yet_has_no_count() {
    let mut snapshot = recorded("healthy");
    let pool = &mut snapshot.map.as_mut().unwrap().pools;
    let mut new = pool[0].clone();
    new.id = 999;
    pool.push(new);
    let pools = judge(&snapshot).numbers.pools;
    assert_eq!(pools.last().unwrap().pgs_taking_io, None);
    assert!(pools.iter().any(|pool| pool.pgs_taking_io == Some(3)), "{pools:?}");
    // No manager has ever reported: 0 of 0 placement groups is not 100%.
    (snapshot.pgs, snapshot.digest) = (None, None);
    // Nor are the numbers of a manager that is gone.
    let mut stale = recorded("no-manager");
    let report = judge(&stale);
    assert_eq!((report.availability_percent, report.numbers.slow_operations), (None, None));
    stale.osd_answers = answered_by("healthy", &[0, 1, 2], "").osd_answers;
    assert!(judge(&stale).availability_percent.is_some());
    super::tests::set_check(&mut snapshot, "MGR_DOWN", "HEALTH_WARN", "no active mgr");
    assert_eq!(judge(&snapshot).availability_percent, None);
    assert_eq!(snapshot.digest, None::<PgMapDigest>);
}

#[test]
fn every_finding_names_its_source() {
    let report = judge(&recorded("down"));
    assert!(report.findings.iter().all(|finding| finding.source == Source::Monitors));
    let json = json!(Finding::new("A", Severity::Info, "a", "b").own());
    assert_eq!(json["source"], "benthic");
}
