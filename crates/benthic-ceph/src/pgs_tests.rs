use super::{
    AutoscalerPlan, Basis, Check, REPLICAS_PER_OSD, Report, Settings, SizingInput, fitting, is_near, judge,
};
use crate::cluster_state::{Df, OsdMap, Pg, parse};
use crate::placement::crush::CrushMap;
use crate::placement::snapshot::Snapshot;
use benthic_core::{Error, ErrorKind};
use std::collections::BTreeMap;

/// The OSDs and the CRUSH map of a cluster of three sites with two OSDs each, and pools with these
/// names and numbers of placement groups.
fn state(pg_nums: &[(&str, u32)]) -> SizingInput {
    let mut map: OsdMap = parse(include_bytes!("placement/testdata/osds.json")).unwrap();
    let pool = map.pools.pop().unwrap();
    map.pools.clear();
    let mut pgs = Vec::new();
    for (id, (name, pg_num)) in (1..).zip(pg_nums) {
        let mut one = pool.clone();
        (one.id, one.name, one.pg_num) = (id, (*name).to_owned(), *pg_num);
        map.pools.push(one);
        pgs.extend((0..*pg_num).map(|number| Pg {
            pgid: format!("{id}.{number:x}"),
            state: "active+clean".to_owned(),
            up: Vec::new(),
            acting: (0..3).map(|replica| ((number + replica * 2) % 6).cast_signed()).collect(),
            acting_primary: Some(0),
            ..Pg::default()
        }));
    }
    let crush = CrushMap::parse(include_bytes!("placement/testdata/crush.json")).unwrap();
    let settings = Settings {
        memory_target_bytes: 4 << 30,
        log_entries_per_osd: 300_000,
        log_entries_min: 250,
        log_entries_max: 10_000,
        replicas_per_osd_max: 250,
    };
    let autoscaler = Err(Error::new(ErrorKind::Unavailable, "no manager"));
    SizingInput { snapshot: Snapshot { map, crush, pgs }, used_bytes: BTreeMap::new(), autoscaler, settings }
}

fn judged(state: &SizingInput) -> (Report, Vec<Check>) {
    let report = judge(state, &BTreeMap::new()).unwrap();
    let checks = report.findings.iter().map(|finding| finding.check).collect();
    (report, checks)
}

#[test]
fn a_good_number_of_placement_groups_has_no_findings() {
    let mut state = state(&[("a", 128), ("b", 32)]);
    state.used_bytes = [(1, 9 << 20), (2, 1 << 10)].into();
    let (report, checks) = judged(&state);
    assert_eq!(checks, []);
    let [group] = &report.groups[..] else { panic!("{report:?}") };
    assert_eq!((group.osds, group.least, group.most), (6, 80, 80));
    assert!((group.replicas_per_osd - 80.0).abs() < 0.1, "{group:?}");
    // The pools hold little data yet. 64 placement groups would fit each, and a factor of two is
    // not worth a change.
    let advice: Vec<_> = group.pools.iter().map(|pool| (pool.suggested, pool.basis)).collect();
    assert_eq!(advice, [(Some(128), Basis::Assumed), (Some(32), Basis::Assumed)]);
}

#[test]
fn an_empty_pool_gets_no_advice_without_a_share() {
    let mut state = state(&[("empty", 8), ("small", 8), ("unseen", 8)]);
    state.used_bytes = [(1, 0), (2, 5 << 20)].into();
    let advice = |requested: &[(&str, f64)]| {
        let requested = requested.iter().map(|(name, share)| ((*name).to_owned(), *share)).collect();
        let report = judge(&state, &requested).unwrap();
        report.groups[0]
            .pools
            .iter()
            .map(|pool| (pool.suggested, pool.basis, pool.no_advice))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        advice(&[]),
        [
            (None, Basis::Unknown, Some("it is empty")),
            (Some(128), Basis::Assumed, None),
            (None, Basis::Unknown, Some("its usage is not known")),
        ]
    );
    assert_eq!(advice(&[("empty", 0.5)])[0], (Some(64), Basis::Requested, None));
    state.used_bytes = [(1, 0), (2, 0), (3, 0)].into();
    let (report, checks) = judged(&state);
    assert_eq!(checks, [Check::Few]);
    assert!(report.findings[0].message.contains("--share"), "{report:?}");
    state.used_bytes = [(1, 0), (2, 3 << 30), (3, 1 << 30)].into();
    let pools = &judged(&state).0.groups[0].pools;
    let shares: Vec<_> = pools.iter().map(|pool| (pool.data_share, pool.basis)).collect();
    assert_eq!(shares, [(0.0, Basis::Unknown), (0.75, Basis::Measured), (0.25, Basis::Measured)]);
}

#[test]
fn too_few_too_many_and_uneven_numbers_are_found() {
    assert_eq!(judged(&state(&[("a", 8)])).1, [Check::Few]);
    assert_eq!(judged(&state(&[("a", 256)])).1, [Check::Many]);
    assert_eq!(judged(&state(&[("a", 512)])).1, [Check::Limit]);
    assert_eq!(judged(&state(&[("a", 150)])).1, [Check::PowerOfTwo]);
    let mut small = state(&[("a", 128)]);
    small.settings.memory_target_bytes = 64 << 20;
    assert_eq!(judged(&small).1, [Check::Memory]);
    let mut uneven = state(&[("a", 128)]);
    for pg in &mut uneven.snapshot.pgs {
        pg.acting = vec![0, 1, 2];
    }
    assert_eq!(judged(&uneven).1, [Check::Uneven]);
    assert_eq!(judged(&state(&[])).1, []);
}

#[test]
fn much_data_in_few_placement_groups_is_found() {
    let mut state = state(&[("large", 8), ("small", 128)]);
    state.used_bytes = [(1, 90 << 30), (2, 10 << 30)].into();
    let (report, checks) = judged(&state);
    assert_eq!(checks, [Check::Share]);
    assert_eq!(report.findings[0].pools, ["large"]);
    assert!(report.findings[0].message.contains("use 128"), "{report:?}");
    // With so little data, the future shares are unknown.
    state.used_bytes = [(1, 90 << 10), (2, 10 << 10)].into();
    assert_eq!(judged(&state).0.groups[0].pools[0].data_share, 0.5);
}

#[test]
fn plans_of_the_autoscaler_are_reported() {
    let mut state = state(&[("a", 128)]);
    let scaled = |mode: &str, would_adjust| AutoscalerPlan {
        pool: "a".to_owned(),
        pg_num: 32,
        would_adjust,
        mode: mode.to_owned(),
        share: 0.001,
    };
    for (mode, would_adjust, expected) in [
        ("on", true, vec![Check::Autoscaler]),
        ("on", false, vec![]),
        ("warn", true, vec![]),
        ("off", true, vec![]),
    ] {
        state.autoscaler = Ok(vec![scaled(mode, would_adjust)]);
        assert_eq!(judged(&state).1, expected, "{mode} {would_adjust}");
    }
}

#[test]
fn requested_shares_replace_the_present_ones() {
    let mut state = state(&[("a", 32), ("b", 32), ("c", 32)]);
    state.used_bytes = [(1, 0), (2, 30 << 30), (3, 10 << 30)].into();
    let shares = |requested: &[(&str, f64)]| {
        let requested = requested.iter().map(|(name, share)| ((*name).to_owned(), *share)).collect();
        judge(&state, &requested).map(|report| {
            let pools = &report.groups[0].pools;
            pools.iter().map(|pool| format!("{:.3}", pool.data_share)).collect::<Vec<_>>()
        })
    };
    assert_eq!(shares(&[("a", 0.6)]).unwrap(), ["0.600", "0.300", "0.100"]);
    assert_eq!(shares(&[("a", 0.5), ("b", 0.25), ("c", 0.25)]).unwrap(), ["0.500", "0.250", "0.250"]);
    assert_eq!(shares(&[("a", 0.6), ("b", 0.6)]).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(shares(&[("d", 0.6)]).unwrap_err().kind(), ErrorKind::NotFound);
}

/// The replicas of all pools count on an OSD, whichever other OSDs the pools use.
#[test]
fn pools_that_share_some_of_their_osds_are_counted_together() {
    let mut state = state(&[("everywhere", 64), ("also", 64)]);
    let (report, checks) = judged(&state);
    assert_eq!((report.groups.len(), report.groups[0].most, &checks[..]), (1, 64, &[][..]));
    for device in state.snapshot.crush.devices.iter_mut().filter(|device| device.id < 3) {
        device.class = Some("ssd".to_owned());
    }
    let mut rule = state.snapshot.crush.rules[0].clone();
    rule.rule_id = 7;
    rule.steps[0].item_name = Some("default~ssd".to_owned());
    state.snapshot.crush.rules.push(rule);
    state.snapshot.map.pools[1].crush_rule = 7;
    for pg in state.snapshot.pgs.iter_mut().filter(|pg| pg.pool() == Some(2)) {
        pg.acting = vec![0, 1, 2];
    }
    let report = judged(&state).0;
    let of = |osds: usize| report.groups.iter().find(|group| group.osds == osds).unwrap();
    assert_eq!((of(3).least, of(3).most), (96, 96));
    assert!(
        (of(3).replicas_per_osd - 96.0).abs() < 0.1 && (of(6).replicas_per_osd - 64.0).abs() < 0.1,
        "{report:?}"
    );
    assert_eq!(of(6).pools.len() + of(3).pools.len(), 2);
    // Without OSDs, there is no suggestion.
    for osd in &mut state.snapshot.map.osds {
        osd.weight = 0.0;
    }
    let report = judged(&state).0;
    assert!(
        report
            .groups
            .iter()
            .all(|group| group.osds == 0 && group.pools.iter().all(|pool| pool.suggested.is_none()))
    );
}

/// For all shares, OSDs get at most the upper target, and more than half of it if the minimum
/// allows it.
#[test]
fn suggestions_are_powers_of_two_that_fit() {
    for osds in [3_usize, 7, 48, 1_152] {
        for replicas in [1, 2, 3, 6] {
            for share in [1.0, 0.77, 0.5, 0.1, 0.001, 0.0] {
                let pg_num = fitting(osds, share, replicas);
                assert!(pg_num.is_power_of_two());
                let per_osd = f64::from(pg_num) * replicas as f64 / osds as f64;
                let fits =
                    per_osd <= REPLICAS_PER_OSD.1 * share && per_osd * 2.0 > REPLICAS_PER_OSD.1 * share;
                assert!(fits || pg_num == 8, "{osds} {replicas} {share}: {pg_num}");
            }
        }
    }
    assert!(is_near(64, 128) && is_near(128, 64) && !is_near(64, 256) && !is_near(96, 128));
}

#[test]
fn the_usage_of_pools_is_parsed() {
    let usage = br#"{"stats":{},"pools":[{"name":"a","id":3,"stats":{"bytes_used":7}},{"name":"b","id":4,"stats":{}}]}"#;
    assert_eq!(parse::<Df>(usage).unwrap().used_bytes(), [(3, 7)].into());
    assert_eq!(parse::<Df>(b"nonsense").unwrap_err().kind(), ErrorKind::Unsupported);
}
