use super::{NO_OSD, OsdMap, Primaries, describe};
use crate::in_flight::SentOperation;
use std::time::Duration;

const GRACE: Duration = Duration::from_secs(20);

fn sent(object: &str) -> SentOperation {
    SentOperation { object: object.parse().unwrap(), since: Duration::from_secs(100) }
}

/// The text after a wait of `waited_s` for the primary of an object in a pool that needs two OSDs.
fn text(acting: &[i64], waited_s: u64) -> String {
    let primary = acting.first().copied().unwrap_or(-1);
    let map = OsdMap { acting: acting.to_vec(), acting_primary: primary };
    let noted = Primaries::default().note(&sent("photos/a.jpg"), primary, Duration::ZERO);
    describe(&noted, &map, 2, false, Duration::from_secs(waited_s), GRACE).to_string()
}

#[test]
fn the_primary_is_named_with_the_outlook() {
    assert_eq!(
        text(&[1, 0, 2], 2),
        "osd.1, the primary of photos/a.jpg; if it is dead, it is marked down in about 18 s"
    );
    assert!(text(&[1, 0, 2], 25).ends_with("; if it is dead, it is marked down soon"));
    assert!(text(&[1, 0, 2], 29).contains("have not marked it down; `benthic health`"));
}

#[test]
fn missing_osds_are_counted() {
    let lacks = |up: &str| {
        format!(
            "OSDs of photos/a.jpg that are down, {up} up, and the pool needs 2; `benthic health` shows which are down"
        )
    };
    assert_eq!(text(&[], 2), lacks("0"));
    assert_eq!(text(&[2], 2), lacks("1"));
    assert_eq!(text(&[2, NO_OSD, NO_OSD], 2), lacks("1"));
}

#[test]
fn a_new_primary_is_told_apart_from_the_old_one() {
    let primaries = Primaries::default();
    let at = Duration::from_secs;
    let first = primaries.note(&sent("p/o"), 1, at(102));
    assert_eq!((first.since, first.before), (at(100), None));
    assert_eq!(primaries.note(&sent("p/o"), 1, at(110)), first);
    let second = primaries.note(&sent("p/o"), 0, at(121));
    assert_eq!((second.osd, second.since, second.before), (0, at(121), Some(1)));
    let map = OsdMap { acting: vec![0, 2], acting_primary: 0 };
    let wait = describe(&second, &map, 2, false, at(1), GRACE);
    assert_eq!(wait.to_string(), "osd.0, the new primary of p/o; it takes over from osd.1");
    // Another object starts again.
    assert_eq!(primaries.note(&sent("p/other"), 0, at(130)).before, None);
}

#[test]
fn a_read_from_a_replica_may_wait_for_any_of_them() {
    let map = OsdMap { acting: vec![0, 2], acting_primary: 0 };
    let primary = Primaries::default().note(&sent("p/o"), 0, Duration::ZERO);
    let wait = describe(&primary, &map, 2, true, Duration::ZERO, GRACE);
    assert_eq!(wait.whom, "osd.0 or osd.2");
    assert!(wait.details.starts_with("an OSD of p/o; "), "{wait}");
}
