use super::crush::{CrushMap, Sites};
use super::latency::RoundTrips;
use super::plan::{Plan, warnings};
use super::preview::Mappings;
use super::rule::site_first;
use super::snapshot::{OsdMap, Snapshot, parse, parse_pgs, repeats};
use super::spread::spread;
use benthic_core::ErrorKind;

/// Dumps of a cluster of 16.2.15 with three sites 10 ms apart, each a host of two OSDs, and a pool `near` of 32 placement groups.
pub const CRUSH: &[u8] = include_bytes!("testdata/crush.json");
const OSDS: &[u8] = include_bytes!("testdata/osds.json");
const PGS: &[u8] = include_bytes!("testdata/pgs.json");
const PINGS: &[u8] = include_bytes!("testdata/pings.json");

pub fn crush() -> CrushMap {
    CrushMap::parse(CRUSH).unwrap()
}

fn snapshot() -> Snapshot {
    let map: OsdMap = parse(OSDS).unwrap();
    Snapshot { map, crush: crush(), pgs: parse_pgs(PGS).unwrap() }
}

fn sites(crush: &CrushMap, domain: Option<&str>) -> Sites {
    crush.sites(crush.bucket("default").unwrap(), domain).unwrap()
}

#[test]
fn sites_are_the_highest_buckets_of_which_there_are_several() {
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
fn the_spread_of_a_pool_is_where_its_placement_groups_are() {
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
fn placement_groups_that_only_look_whole_are_seen() {
    let mut snapshot = snapshot();
    for (at, acting) in [vec![0, 0, 1], vec![0, 1], vec![0, 3, 1]].into_iter().enumerate() {
        let pg = snapshot.pgs.iter_mut().filter(|pg| pg.pgid.starts_with("2.")).nth(at).unwrap();
        pg.acting = acting;
    }
    let found = spread(&snapshot, snapshot.pool("near").unwrap(), None).unwrap();
    assert_eq!((found.undersized, found.repeating, found.doubled_at_a_site), (2, 1, 1));
    assert!(repeats(&[1, 2, 1]) && !repeats(&[1, i32::MAX, 2, i32::MAX]));
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
fn what_cannot_be_placed_is_refused() {
    let crush = crush();
    let all = sites(&crush, None);
    let refused = |site: &str, replicas, class| site_first(&crush, &all, site, replicas, class).unwrap_err();
    // Two more replicas for each of two other sites, which have one host each.
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
fn the_network_adds_what_osds_measured() {
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
    // Not yet measured.
    let young = RoundTrips::parse(br#"{"osd_stats":[{"osd":0}]}"#, &sites).unwrap();
    assert_eq!(young.latencies(&sites, &mappings(&[0, 1, 2])), []);
}

#[test]
fn a_site_that_will_be_full_first_is_told() {
    let mut snapshot = snapshot();
    let after = Mappings::from([("2.0".to_owned(), vec![0, 1, 2]), ("2.1".to_owned(), vec![3, 4, 5])]);
    let mut sites = sites(&snapshot.crush, None);
    let told = |snapshot: &Snapshot, sites: &Sites| {
        warnings(snapshot, snapshot.pool("near").unwrap(), sites, &after)
    };
    assert_eq!(told(&snapshot, &sites), Vec::<String>::new());
    sites.sites[1].weight /= 4.0;
    let warned = told(&snapshot, &sites);
    assert_eq!(warned, ["um will hold 33% of the data with 11% of the space: it is full first"]);
    snapshot.map.pg_upmap_items =
        vec![serde_json::json!({ "pgid": "2.0" }), serde_json::json!({ "pgid": "22.0" })];
    assert!(told(&snapshot, &sites)[1].contains("placed 1 of the placement groups"));
}

#[test]
fn what_is_no_plan_is_refused() {
    for text in ["", "{}", "[]", "{\"format\":2}", "{\"format\":1}", "\u{0}"] {
        let error = Plan::parse(text.as_bytes()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{text:?}: {error}");
    }
}
