use super::{Level, Load, Shape, all_fail, check, map_text, moves};
use benthic_core::ErrorKind;

fn shape() -> Shape {
    Shape { rooms: 2, racks: 5, hosts: 11, osds_per_host: 3 }
}

fn load() -> Load {
    Load { pg_num: 64, replicas: 3, domain: Level::Rack, osd_bytes: 1e12, fill: 0.5, rate_bytes_per_s: 1e8 }
}

#[test]
fn buckets_are_even_and_the_first_have_the_lowest_osds() {
    let shape = shape();
    let racks: Vec<u32> = (0..13).map(|host| shape.rack_of(host)).collect();
    assert_eq!(racks, [0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 1, 2], "hosts more go where there are fewest");
    assert_eq!((0..5).map(|rack| shape.room_of(rack)).collect::<Vec<_>>(), [0, 0, 0, 1, 1]);
    let first = [Level::Osd, Level::Host, Level::Rack, Level::Room].map(|level| shape.osds_of_first(level));
    assert_eq!(first, [1, 3, 9, 21]);
}

/// CRUSH hashes bucket numbers, so a bucket that gets more hosts must keep its number.
#[test]
fn a_bucket_keeps_its_number_when_hosts_are_added() {
    let ids = |text: &str| -> Vec<String> {
        let lines: Vec<&str> = text.lines().collect();
        lines.windows(2).filter(|pair| pair[1].starts_with("\tid -")).map(|pair| pair.concat()).collect()
    };
    let (before, after) = (map_text(&shape(), 11, Level::Rack), map_text(&shape(), 12, Level::Rack));
    let (before, after) = (ids(&before), ids(&after));
    assert_eq!((before.len(), after.len()), (11 + 5 + 2 + 1, 12 + 5 + 2 + 1));
    assert!(before.iter().all(|bucket| after.contains(bucket)), "{before:?} {after:?}");
}

#[test]
fn a_moved_replica_is_copied_from_the_first_surviving_one() {
    let before = vec![vec![0, 1, 2], vec![1, 2, 3], vec![2, 3, 4]];
    // OSD 0 is lost: its replica is copied from OSD 1. Another replica moves and is copied from its
    // primary.
    let after = vec![vec![4, 1, 2], vec![1, 2, 3], vec![2, 3, 5]];
    assert_eq!(moves(&before, &after, &(0..1), 6), (2, 1));
    let nearer = vec![vec![1, 2, 4], vec![1, 2, 3], vec![2, 3, 1]];
    assert_eq!(moves(&before, &nearer, &(0..1), 6), (2, 2), "OSD 1 reads one and writes another");
    assert_eq!(moves(&before, &before, &(0..0), 6), (0, 0));
}

/// Compares with all ways in which `failed` of a few disks can fail.
#[test]
fn the_probability_of_loss_follows_from_the_failed_disks() {
    const OSDS: u32 = 9;
    for (held, failed) in [(1_u32, 1), (2, 2), (2, 4), (3, 3), (3, 5), (3, 2), (3, 9)] {
        let group = (1_u32 << held) - 1;
        let ways: Vec<u32> = (0_u32..1 << OSDS).filter(|disks| disks.count_ones() == failed).collect();
        let lost = ways.iter().filter(|disks| **disks & group == group).count();
        let expected = lost as f64 / ways.len() as f64;
        assert!((all_fail(held as usize, failed, OSDS) - expected).abs() < 1e-12, "{held} of {failed}");
    }
    assert!(all_fail(0, 3, OSDS) < f64::EPSILON, "a placement group that is nowhere has nothing to lose");
}

#[test]
fn impossible_clusters_are_refused() {
    let refused = |shape: Shape, load: Load| {
        assert_eq!(
            check(&shape, &load).unwrap_err().kind(),
            ErrorKind::InvalidArgument,
            "{shape:?} {load:?}"
        );
    };
    assert!(check(&shape(), &load()).is_ok());
    for (rooms, racks, hosts, osds_per_host) in [
        (0, 1, 1, 1),
        (2, 1, 4, 4),
        (1, 5, 4, 4),
        (1, 1, 1, 0),
        (1, 1, 20_001, 1),
        (1, 1, u32::MAX, u32::MAX),
    ] {
        refused(Shape { rooms, racks, hosts, osds_per_host }, load());
    }
    for load in [
        Load { pg_num: 0, ..load() },
        Load { pg_num: (1 << 20) + 1, ..load() },
        Load { replicas: 0, ..load() },
        Load { replicas: 6, ..load() },
        Load { domain: Level::Room, ..load() },
        Load { domain: Level::Osd, ..load() },
        Load { fill: 1.5, ..load() },
        Load { fill: f64::NAN, ..load() },
        Load { rate_bytes_per_s: 0.0, ..load() },
        Load { osd_bytes: f64::NAN, ..load() },
    ] {
        refused(shape(), load);
    }
}
