use super::LastKnown;
use benthic_ceph::health::judge::judge;
use benthic_ceph::health::overview::overview;
use benthic_ceph::health::snapshot::Snapshot;
use serde_json::json;

#[test]
fn unseen_values_keep_the_time_when_they_were_seen() {
    let mut known = LastKnown::default();
    let mut update = |snapshot: &Snapshot| {
        let report = judge(snapshot);
        json!(known.update(&report, &overview(snapshot, &report)))
    };
    let unseen = Snapshot { now_unix_s: 1, ..Snapshot::default() };
    assert_eq!(update(&unseen), json!({}), "nothing was ever seen");
    let seen = Snapshot {
        now_unix_s: 2,
        fsid: "a".to_owned(),
        map: serde_json::from_value(json!({ "pools": [], "osds": [{ "osd": 7, "up": 1, "in": 1 }] })).ok(),
        ..Snapshot::default()
    };
    let last = update(&seen);
    assert!(last["osds"].is_null() && last["pools"].is_null(), "{last}");
    let last = update(&Snapshot { now_unix_s: 9, ..Snapshot::default() });
    assert_eq!((&last["osds"]["unix_s"], &last["osds"]["value"][0]["osd"]), (&json!(2), &json!(7)), "{last}");
    assert_eq!(last["pools"], json!({ "unix_s": 2, "value": [] }), "no pool is a value too");
    assert!(last["io"].is_null(), "{last}");
}
