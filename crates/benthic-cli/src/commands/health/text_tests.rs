use super::page;
use benthic_ceph::health::judge::judge;
use benthic_ceph::health::snapshot::{OsdAnswers, SilentOsd, Snapshot};
use serde_json::json;

#[test]
fn numbers_show_their_source_and_age() {
    let map = json!({ "pools": [], "osds": [{ "osd": 0, "up": 1, "in": 1 }] });
    let silent = SilentOsd { osd: 0, pg: "1.0".to_owned() };
    let snapshot = Snapshot {
        now_unix_s: 100,
        monitors_unix_s: 88,
        fsid: "a".to_owned(),
        health: serde_json::from_value(json!({ "status": "HEALTH_OK" })).ok(),
        map: serde_json::from_value(map).ok(),
        osd_answers: Some(OsdAnswers { unix_s: 100, silent: vec![silent], ..OsdAnswers::default() }),
        ..Snapshot::default()
    };
    let page = page(&judge(&snapshot));
    for line in [
        "verdict       down: 1 error; by the monitors healthy (12 s ago), by Benthic's own requests down (now); Ceph says HEALTH_OK",
        "availability  0%; by the monitors 100% (12 s ago) (stale: no manager answers), by Benthic's own requests 0% (now)",
        "OSDs          1 up, 1 in, of 1, say the monitors (12 s ago); 0 of 1 answered Benthic (now)",
    ] {
        assert!(page.lines().any(|found| found == line), "{line} in\n{page}");
    }
}

#[test]
fn the_unknown_is_not_shown_as_zero() {
    let page = page(&judge(&Snapshot { fsid: "a".to_owned(), ..Snapshot::default() }));
    for name in ["monitors", "manager", "OSDs", "PGs", "space", "scrubs", "versions", "classes"] {
        assert!(page.contains(&format!("\n{name:<13} not known\n")), "{name} in\n{page}");
    }
    assert!(page.contains("\navailability  not known\n"), "{page}");
}
