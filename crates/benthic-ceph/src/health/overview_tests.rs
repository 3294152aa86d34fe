use super::{BucketOverview, Overview, overview};
use crate::cluster_state::{Df, PoolIo};
use crate::health::judge::judge;
use crate::health::metrics;
use crate::health::snapshot::Snapshot;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn answer<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn bucket(id: i32, name: &str, kind: &str, children: &[i32]) -> Value {
    json!({ "id": id, "name": name, "type": kind, "children": children })
}

fn osd(id: i32) -> Value {
    json!({ "id": id, "name": format!("osd.{id}"), "type": "osd", "device_class": "ssd" })
}

/// Two sites that are also linked under a second root. The answers have the form of 16.2.15.
fn two_sites() -> Snapshot {
    let pool = |id: i64, name: &str, kind: u32, profile: &str| {
        json!({ "pool": id, "pool_name": name, "type": kind, "size": 3, "min_size": 2, "pg_num": 4,
            "erasure_code_profile": profile })
    };
    let osds: Vec<Value> = (0..4).map(|id| json!({ "osd": id, "up": u8::from(id != 3), "in": 1 })).collect();
    let pg = |pgid: &str, primary: Option<i32>, acting: &[i32]| {
        let mut pg = json!({ "pgid": pgid, "state": "active+clean", "up": acting, "acting": acting });
        if let Some(primary) = primary {
            pg["acting_primary"] = json!(primary);
        }
        pg
    };
    Snapshot {
        fsid: "a".to_owned(),
        digest: Some(answer(json!({ "num_pgs": 3, "read_bytes_sec": 4_096, "write_op_per_sec": 7, "recovering_objects_per_sec": 3 }))),
        manager: Some(answer(json!({ "epoch": 1, "available": true, "active_name": "x" }))),
        map: Some(answer(json!({
            "pools": [pool(1, "a", 1, ""), pool(2, "b", 3, "code")],
            "osds": osds,
            "erasure_code_profiles": { "code": { "k": "2", "m": "1" } },
        }))),
        tree: Some(answer(json!({ "nodes": [
            bucket(-9, "both", "root", &[-2, -3]),
            bucket(-1, "default", "root", &[-4]),
            bucket(-4, "all", "region", &[-2, -3]),
            bucket(-2, "um", "datacenter", &[0, 1]),
            bucket(-3, "msu", "datacenter", &[2, 3]),
            osd(0), osd(1), osd(2), osd(3),
        ] }))),
        usage: Some(answer(json!([{ "id": 0, "kb": 100, "kb_used": 10 }, { "id": 1, "kb": 100, "kb_used": 20 }]))),
        pgs: Some(answer(json!([
            pg("1.0", Some(1), &[0, 1]), pg("1.1", None, &[2, 0]), pg("1.2", Some(-1), &[]),
        ]))),
        stored: Some(answer::<Df>(json!({ "pools": [
            { "name": "a", "id": 1, "stats": { "stored": 5, "objects": 2, "bytes_used": 15, "max_avail": 9 } },
        ] })).pools),
        pool_io: Some(answer::<Vec<PoolIo>>(json!([
            { "pool_name": "a", "pool_id": 1, "recovery": {}, "client_io_rate": { "read_bytes_sec": 9, "read_op_per_sec": 1 } },
            { "pool_name": "b", "pool_id": 2, "client_io_rate": {},
                "recovery_rate": { "recovering_bytes_per_sec": 5, "recovering_keys_per_sec": 7 } },
        ]))),
        ..Snapshot::default()
    }
}

fn shown(snapshot: &Snapshot) -> Overview {
    overview(snapshot, &judge(snapshot))
}

#[test]
fn the_tree_has_the_osds_below_each_bucket() {
    let shown = shown(&two_sites());
    let names = |places: &[BucketOverview]| places.iter().map(|place| place.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&shown.places), ["default", "both"]);
    let sites = &shown.places[0].places[0].places;
    assert_eq!(names(sites), ["um", "msu"]);
    let (um, msu) = (&sites[0], &sites[1]);
    assert_eq!(
        (um.osds, um.osds_up, um.total_bytes, um.used_bytes),
        (2, Some(2), Some(200 * 1024), Some(30 * 1024))
    );
    assert_eq!((msu.osds_up, msu.osds_in, msu.total_bytes), (Some(1), Some(2), None), "no size is no 0");
    assert_eq!((um.own_osds[1].osd, um.own_osds[1].device_class.as_deref()), (1, Some("ssd")));
    let again = &shown.places[1];
    assert_eq!((again.osds, again.places[0].is_repeated, again.places[0].own_osds.len()), (4, true, 0));
}

#[test]
fn osds_of_an_unknown_map_are_not_down() {
    let mut snapshot = two_sites();
    snapshot.map = None;
    let places = shown(&snapshot).places;
    assert_eq!((places[0].osds, places[0].osds_up, places[0].used_bytes), (4, None, None));
}

#[test]
fn pools_have_their_usage_and_primaries_by_site() {
    let shown = shown(&two_sites());
    let (a, b) = (&shown.pools[0], &shown.pools[1]);
    assert_eq!((a.stored_bytes, a.objects, a.data_chunks), (Some(5), Some(2), None));
    let io = a.io.unwrap();
    assert_eq!((io.read_bytes_per_s, io.read_ops_per_s, io.write_bytes_per_s), (9, 1, 0));
    assert_eq!(json!(a.primaries), json!({ "um": 1, "msu": 1 }));
    assert_eq!((b.stored_bytes, b.data_chunks, b.io.unwrap().read_ops_per_s), (None, Some(2), 0));
    assert!(b.primaries.is_empty());
    let io = shown.io.unwrap();
    assert_eq!((io.read_bytes_per_s, io.write_ops_per_s), (4_096, 7));
}

#[test]
fn stale_rates_are_none() {
    let mut snapshot = two_sites();
    snapshot.manager.as_mut().unwrap().available = false;
    let shown = shown(&snapshot);
    assert!(shown.io.is_none() && shown.pools.iter().all(|pool| pool.io.is_none()));
    assert!(shown.recovery.is_none() && shown.pools.iter().all(|pool| pool.recovery.is_none()));
    let text = metrics::text(&judge(&snapshot), &shown);
    assert!(!text.contains("_per_sec") && text.contains("\nceph_pool_stored{pool_id=\"1\"} 5\n"), "{text}");
}

#[test]
fn metrics_have_client_io_and_recovery() {
    let mut snapshot = two_sites();
    snapshot.map.as_mut().unwrap().pools[0].name = "a\"b".to_owned();
    let text = metrics::text(&judge(&snapshot), &shown(&snapshot));
    for line in [
        r#"ceph_pool_stored{pool_id="1"} 5"#,
        r#"ceph_pool_objects{pool_id="1"} 2"#,
        r#"benthic_pool_read_bytes_per_second{pool_id="1",name="a\"b"} 9"#,
        r#"benthic_pool_write_bytes_per_second{pool_id="1",name="a\"b"} 0"#,
        r#"benthic_pool_read_operations_per_second{pool_id="1",name="a\"b"} 1"#,
        r#"benthic_pool_write_operations_per_second{pool_id="2",name="b"} 0"#,
        r#"ceph_pool_recovering_bytes_per_sec{pool_id="2"} 5"#,
        r#"ceph_pool_recovering_objects_per_sec{pool_id="2"} 0"#,
        "benthic_client_read_bytes_per_second 4096",
        "benthic_client_write_bytes_per_second 0",
        "benthic_client_read_operations_per_second 0",
        "benthic_client_write_operations_per_second 7",
        "benthic_recovery_bytes_per_second 0",
        "benthic_recovery_objects_per_second 3",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in {text}");
    }
    // A value without an answer is absent from the output.
    assert!(!text.contains("ceph_pool_stored{pool_id=\"2\"}"), "{text}");
}

#[test]
fn a_tree_with_loops_ends() {
    let mut snapshot = two_sites();
    snapshot.tree = Some(answer(json!({ "nodes": [
        bucket(-1, "default", "root", &[-2, -2, 0, 77]),
        bucket(-2, "a", "host", &[-3, -1]),
        bucket(-3, "b", "host", &[-2, -3, -99]),
        bucket(-5, "top", "root", &[-1]),
    ] })));
    let top = shown(&snapshot).places.remove(0);
    assert_eq!((top.name.as_str(), top.osds, top.osds_up), ("top", 2, Some(1)));
    let deep = (1..200).map(|id| bucket(-id, "x", "host", &[-id - 1])).collect::<Vec<_>>();
    snapshot.tree = Some(answer(json!({ "nodes": deep })));
    assert_eq!(shown(&snapshot).places.len(), 1);
    snapshot.tree = None;
    assert!(shown(&snapshot).places.is_empty());
}
