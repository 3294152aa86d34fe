use super::crush::{CrushMap, Sites};
use super::latency::RoundTrips;
use super::plan::{Plan, warnings};
use super::preview::Mappings;
use super::resize::{Limits, Resize, Space, extend, target_replicas};
use super::rule::site_first;
use super::snapshot::{Snapshot, check_complete};
use super::spread::spread;
use crate::cluster_state::{OsdMap, OsdUsage, has_duplicates, parse};
use benthic_core::ErrorKind;

/// Dumps of a cluster of 16.2.15 with three sites 10 ms apart, each a host with two OSDs, and a
/// pool `near` of 32 placement groups.
pub const CRUSH: &[u8] = include_bytes!("testdata/crush.json");
const OSDS: &[u8] = include_bytes!("testdata/osds.json");
const PGS: &[u8] = include_bytes!("testdata/pgs.json");
const PINGS: &[u8] = include_bytes!("testdata/pings.json");

pub fn crush() -> CrushMap {
    CrushMap::parse(CRUSH).unwrap()
}

fn snapshot() -> Snapshot {
    let map: OsdMap = parse(OSDS).unwrap();
    Snapshot { map, crush: crush(), pgs: check_complete(parse(PGS).unwrap()).unwrap() }
}

fn sites(crush: &CrushMap, domain: Option<&str>) -> Sites {
    crush.sites(crush.bucket("default").unwrap(), domain).unwrap()
}

#[test]
fn sites_are_the_highest_level_with_several_buckets() {
    let crush = crush();
    let found = sites(&crush, None);
    assert_eq!(found.domain, "datacenter");
    let names: Vec<_> = found.sites.iter().map(|site| site.name.as_str()).collect();
    assert_eq!(names, ["msu", "um", "wsu"]);
    assert_eq!(found.sites[1].osds, [0, 3].into());
    assert_eq!((found.of(4), found.of(99)), (Some(0), None));
    assert_eq!(sites(&crush, Some("host")).sites.len(), 3);
    for domain in ["rack", "osd", "planet", ""] {
        let error = crush.sites(crush.bucket("default").unwrap(), Some(domain)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{domain}: {error}");
    }
    assert!(found.find("mars").unwrap_err().message().contains("msu, um, wsu"));
}

#[test]
fn the_spread_counts_primaries_and_replicas_by_site() {
    let snapshot = snapshot();
    let found = spread(&snapshot, snapshot.pool("near").unwrap(), None).unwrap();
    assert_eq!((found.pgs, found.replicas, found.rule.as_str()), (32, 3, "replicated_rule"));
    assert_eq!((found.undersized, found.repeating, found.doubled_at_a_site, found.unclean), (0, 0, 0, 0));
    assert_eq!(found.sites.iter().map(|site| site.primaries).sum::<usize>(), 32);
    for site in &found.sites {
        assert_eq!((site.replicas, site.osds, site.osds_serving), (32, 2, 2), "{site:?}");
        assert!(site.primaries > 4, "{site:?}");
    }
    assert_eq!(snapshot.pool("far").unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn a_repeated_osd_makes_a_placement_group_undersized() {
    let mut snapshot = snapshot();
    for (at, acting) in [vec![0, 0, 1], vec![0, 1], vec![0, 3, 1]].into_iter().enumerate() {
        let pg = snapshot.pgs.iter_mut().filter(|pg| pg.pgid.starts_with("2.")).nth(at).unwrap();
        pg.acting = acting;
    }
    let found = spread(&snapshot, snapshot.pool("near").unwrap(), None).unwrap();
    assert_eq!((found.undersized, found.repeating, found.doubled_at_a_site), (2, 1, 1));
    assert!(has_duplicates(&[1, 2, 1]) && !has_duplicates(&[1, i32::MAX, 2, i32::MAX]));
}

#[test]
fn a_rule_puts_the_primary_first_and_spreads_the_rest() {
    let crush = crush();
    let sites = sites(&crush, None);
    let addition = site_first(&crush, &sites, "um", 3, None).unwrap();
    assert_eq!(
        addition.steps,
        [
            "take um",
            "chooseleaf firstn 1 type host",
            "emit",
            "take benthic-not-um",
            "chooseleaf firstn -1 type datacenter",
            "emit",
        ]
    );
    let below = ["msu".to_owned(), "wsu".to_owned()].to_vec();
    assert_eq!(addition.root, Some(("benthic-not-um".to_owned(), below)));
    let of_class = site_first(&crush, &sites, "um", 3, Some("hdd")).unwrap();
    assert_eq!(
        (of_class.steps[0].as_str(), of_class.rule.as_str()),
        ("take um class hdd", "benthic-um-first-hdd")
    );
}

#[test]
fn impossible_placements_are_refused() {
    let crush = crush();
    let all = sites(&crush, None);
    let refused = |site: &str, replicas, class| site_first(&crush, &all, site, replicas, class).unwrap_err();
    // Each of the two other sites would hold two more replicas, but has only one host.
    let error = refused("um", 5, None);
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    assert!(error.to_string().contains("has=1") && error.to_string().contains("needs=2"), "{error}");
    assert_eq!(refused("mars", 3, None).kind(), ErrorKind::NotFound);
    assert_eq!(refused("um", 1, None).kind(), ErrorKind::InvalidArgument);
    assert_eq!(refused("um", 3, Some("ssd")).kind(), ErrorKind::LimitExceeded, "no OSD has this class");
    let mut one = all.clone();
    one.sites.retain(|site| site.name == "um");
    let error = site_first(&crush, &one, "um", 3, None).unwrap_err();
    assert!(
        error.kind() == ErrorKind::InvalidArgument && error.message().contains("only one site"),
        "{error}"
    );
}

#[test]
fn latencies_are_sums_of_measured_round_trips() {
    let crush = crush();
    let sites = sites(&crush, None);
    let round_trips = RoundTrips::parse(PINGS, &sites).unwrap();
    let mappings = |osds: &[i32]| Mappings::from([("2.0".to_owned(), osds.to_vec())]);
    let latencies = round_trips.latencies(&sites, &mappings(&[0, 1, 2]));
    let of = |site: &str| latencies.iter().find(|latency| latency.site == site).unwrap();
    assert!(of("um").read_ms < 2.0, "{latencies:?}");
    assert!((10.0..13.0).contains(&of("msu").read_ms), "{latencies:?}");
    assert!((10.0..15.0).contains(&of("um").write_ms), "{latencies:?}");
    assert!((20.0..26.0).contains(&of("msu").write_ms), "{latencies:?}");
    // OSDs that have not measured round trips yet.
    let young = RoundTrips::parse(br#"{"osd_stats":[{"osd":0}]}"#, &sites).unwrap();
    assert_eq!(young.latencies(&sites, &mappings(&[0, 1, 2])), []);
}

#[test]
fn a_plan_warns_of_a_site_that_will_be_full_first() {
    let mut snapshot = snapshot();
    let after = Mappings::from([("2.0".to_owned(), vec![0, 1, 2]), ("2.1".to_owned(), vec![3, 4, 5])]);
    let mut sites = sites(&snapshot.crush, None);
    let warnings_of = |snapshot: &Snapshot, sites: &Sites| {
        warnings(snapshot, snapshot.pool("near").unwrap(), sites, &after)
    };
    assert_eq!(warnings_of(&snapshot, &sites), Vec::<String>::new());
    sites.sites[1].weight /= 4.0;
    let warned = warnings_of(&snapshot, &sites);
    assert_eq!(warned, ["um will hold 33% of the data with 11% of the space: it will be full first"]);
    snapshot.map.pg_upmap_items =
        vec![serde_json::json!({ "pgid": "2.0" }), serde_json::json!({ "pgid": "22.0" })];
    assert!(warnings_of(&snapshot, &sites)[1].contains("placed 1 of the placement groups"));
}

#[test]
fn a_file_that_is_no_plan_is_refused() {
    for text in
        ["", "{}", "[]", "{\"format\":0}", "{\"format\":1}", "{\"format\":2}", "{\"format\":3}", "\u{0}"]
    {
        let error = Plan::parse(text.as_bytes()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{text:?}: {error}");
    }
}

fn refused<T: std::fmt::Debug>(result: benthic_core::Result<T>, kind: ErrorKind, word: &str) {
    let error = result.unwrap_err();
    assert!(error.kind() == kind && error.to_string().contains(word), "{error}");
}

#[test]
fn the_number_of_replicas_has_bounds() {
    let snapshot = snapshot();
    let pool = snapshot.pool("near").unwrap();
    assert_eq!((target_replicas(pool, None).unwrap(), target_replicas(pool, Some(2)).unwrap()), (3, 2));
    for count in [0, 1] {
        refused(target_replicas(pool, Some(count)), ErrorKind::InvalidArgument, "no copy");
    }
    for count in [11, usize::MAX] {
        refused(target_replicas(pool, Some(count)), ErrorKind::LimitExceeded, "replicas_max=10");
    }
}

#[test]
fn a_plan_respects_the_limits_of_the_monitors() {
    let mut snapshot = snapshot();
    let check = |snapshot: &Snapshot, pgs_per_osd, min_size, replicas| {
        Limits { pgs_per_osd, min_size }.check(snapshot, snapshot.pool("near").unwrap(), replicas)
    };
    // 32 placement groups of this pool, and one of another pool with three replicas, on six OSDs.
    check(&snapshot, 22, 0, 4).unwrap();
    refused(check(&snapshot, 21, 0, 4), ErrorKind::LimitExceeded, "pg_replicas=131");
    check(&snapshot, 1, 0, 2).unwrap();
    // Ceph would set min_size to four, and there are three copies.
    check(&snapshot, 250, 0, 6).unwrap();
    refused(check(&snapshot, 250, 0, 7), ErrorKind::LimitExceeded, "two plans");
    refused(check(&snapshot, 250, 4, 4), ErrorKind::LimitExceeded, "min_size=4");
    refused(check(&snapshot, 250, 3, 2), ErrorKind::LimitExceeded, "min_size=3");
    snapshot.map.pools[1].flags_names = "hashpspool,nosizechange".to_owned();
    refused(check(&snapshot, 250, 0, 4), ErrorKind::Unsupported, "nosizechange false");
    snapshot.map.pools[1].flags_names = "hashpspool".to_owned();
    snapshot.map.pools[1].size = 1;
    refused(check(&snapshot, 250, 0, 2), ErrorKind::Unsupported, "could not be undone");
}

#[test]
fn new_replicas_follow_the_existing_ones() {
    let snapshot = snapshot();
    let pool = snapshot.pool("near").unwrap();
    let then = |osds: &[&[i32]]| -> Mappings {
        let name = |seed: usize| format!("2.{seed:x}");
        osds.iter().enumerate().map(|(seed, osds)| (name(seed), osds.to_vec())).collect()
    };
    let chosen = vec![vec![0, 1, 2, 4], vec![3, 4, 5, 1], vec![0, 4, 5, 1]];
    // The first placement group has another primary by affinity. The balancer moved the other two,
    // the last one to the OSD that the rule chooses for the new replica.
    let found = extend(then(&[&[1, 0, 2], &[3, 4, 2], &[0, 1, 5]]), &chosen, pool, 2).unwrap();
    assert_eq!(found, then(&[&[1, 0, 2, 4], &[3, 4, 2, 1], &[0, 4, 5, 1]]));
    let strange = then(&[&[1, 0, 2], &[3, 4, 2], &[0, 1, 5]]);
    refused(extend(strange, &chosen, pool, 1), ErrorKind::Unavailable, "pgp_num");
    refused(extend(then(&[&[0, 1, 2]]), &Vec::new(), pool, 0), ErrorKind::Unavailable, "pgs=1");
}

#[test]
fn more_replicas_need_space_on_each_osd() {
    const GIB: u64 = 1 << 30;
    let mut snapshot = snapshot();
    snapshot.map.nearfull_ratio = 0.85;
    snapshot.map.backfillfull_ratio = 0.9;
    let mappings = |osds: &[i32]| Mappings::from([("2.0".to_owned(), osds.to_vec())]);
    let (before, after) = (mappings(&[0, 1]), mappings(&[0, 1, 2]));
    let bytes = [("2.0".to_owned(), 8 * GIB)].into();
    let resize = |used_gib: u64, pool_bytes, replicas: usize, min_size| {
        let usage = |id, used_kib| OsdUsage { id, total_kib: 100 << 20, used_kib };
        // The fullest OSD holds nothing of this pool.
        let usages =
            vec![usage(0, 30 << 20), usage(1, 40 << 20), usage(2, used_gib << 20), usage(3, 99 << 20)];
        let mut pool = snapshot.pool("near").unwrap().clone();
        (pool.size, pool.min_size) = if replicas == 3 { (2, min_size) } else { (3, min_size) };
        let moves = if replicas == 3 { (&before, &after) } else { (&after, &before) };
        Resize::new(&snapshot, &pool, replicas, &Space::new(usages, pool_bytes), moves, &bytes)
    };
    let fits = resize(70, 0, 3, 2).unwrap();
    assert_eq!((fits.disk_bytes, fits.new_disk_bytes), (16 * GIB, 24 * GIB));
    assert_eq!((fits.fullest_osd, (100.0 * fits.fullest_share).round() as u64), (2, 78));
    assert_eq!((fits.old_min_size, fits.min_size, fits.warnings(&snapshot)), (2, 2, vec![]));
    // The pool takes twice its size on disks.
    let larger = resize(70, 32 * GIB, 3, 2).unwrap();
    assert_eq!((larger.disk_bytes, larger.new_disk_bytes), (32 * GIB, 48 * GIB));
    assert_eq!(larger.warnings(&snapshot), ["osd.2 will be 86% full, and the cluster warns from 85%"]);
    refused(resize(80, 32 * GIB, 3, 2), ErrorKind::LimitExceeded, "osd=2");
    assert!(resize(70, 0, 3, 1).unwrap().warnings(&snapshot)[0].contains("acknowledged with one copy"));
    // Fewer replicas free space, and min_size is at most their number.
    let fewer = resize(95, 0, 2, 3).unwrap();
    assert_eq!((fewer.disk_bytes, fewer.new_disk_bytes), (24 * GIB, 16 * GIB));
    assert_eq!((fewer.old_min_size, fewer.min_size), (3, 2));
    assert!(fewer.warnings(&snapshot)[0].contains("min_size becomes 2"));
}

#[test]
fn a_plan_applies_only_to_its_numbers_of_replicas() {
    let mut snapshot = snapshot();
    let effect = serde_json::json!({ "before": [], "after": [], "pgs_moving": 0, "primaries_moving": 0, "replicas_moving": 0,
        "bytes_moving": 0, "bytes": 0, "latency_before": [], "latency_after": [], "warnings": [] });
    let mut json = serde_json::json!({ "format": 1, "fsid": snapshot.map.fsid, "pool": "near", "pool_id": 2, "replicas": 3,
        "pgs": 32, "crush_version": 9, "old_rule": "replicated_rule", "new_rule": "benthic-um-first", "steps": [],
        "adds_rule": true, "other_root": "benthic-not-um", "adds_root_of": null, "domain": "datacenter",
        "primary_site": "um", "max_backfills": null, "effect": effect });
    let old = Plan::parse(json.to_string().as_bytes()).unwrap();
    assert_eq!((old.new_replicas(), &old.resize), (3, &None));
    json["format"] = 2.into();
    json["resize"] = serde_json::json!({ "replicas": 2, "old_min_size": 2, "min_size": 2, "disk_bytes": 0,
        "new_disk_bytes": 0, "fullest_osd": 0, "fullest_share": 0.5 });
    let new = Plan::parse(json.to_string().as_bytes()).unwrap();
    assert_eq!(Plan::parse(&serde_json::to_vec(&new).unwrap()).unwrap(), new);
    let allowed = |plan: &Plan, snapshot: &Snapshot| plan.check(snapshot).map(|pool| pool.size);
    for (size, by_old, by_new) in [(3, true, true), (2, false, true), (4, false, false)] {
        snapshot.map.pools[1].size = size;
        for (plan, allows) in [(&old, by_old), (&new, by_new)] {
            match allowed(plan, &snapshot) {
                Ok(found) => assert!(allows && found == size, "{size}"),
                Err(error) => assert!(!allows && error.kind() == ErrorKind::Conflict, "{size}: {error}"),
            }
        }
    }
}
