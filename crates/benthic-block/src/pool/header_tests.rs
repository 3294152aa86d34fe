use super::{Header, Parent, Snapshot, SnapshotState};
use crate::Geometry;
use benthic_core::ErrorKind;
use benthic_core::codec::Wire;
use proptest::proptest;

fn header() -> Header {
    let snapshot = |number, base| Snapshot {
        number,
        name: format!("s{number}"),
        size_bytes: 1 << 20,
        created_unix_ms: 5,
        base,
        state: SnapshotState::Protected,
    };
    Header {
        size_bytes: 10 << 20,
        geometry: Geometry::default(),
        generation: 3,
        is_open: true,
        is_removing: false,
        map: 1,
        version: 6,
        base: 4,
        snapshots: vec![snapshot(2, 0), snapshot(4, 2)],
        parent: Some(Parent { image: 7, snapshot: 2 }),
    }
}

#[test]
fn a_header_is_stored_and_read_back() {
    assert_eq!(Header::parse(&header().encode()).unwrap(), header());
}

#[test]
fn impossible_headers_are_corrupt() {
    let changes: [fn(&mut Header); 6] = [
        |header| header.geometry.object_bytes = 3,
        |header| header.snapshots[0].size_bytes = u64::MAX,
        |header| header.snapshots[1].number = 2,
        |header| header.version = 4,
        |header| header.map = 7,
        |header| header.base = 5,
    ];
    for change in changes {
        let mut bad = header();
        change(&mut bad);
        assert_eq!(Header::parse(&bad.encode()).unwrap_err().kind(), ErrorKind::Corrupt, "{bad:?}");
    }
}

proptest! {
    #[test]
    fn damaged_headers_are_refused_or_sound(at in 0_usize..200, value: u8) {
        let mut bytes = header().encode().to_vec();
        let at = at % bytes.len();
        bytes[at] = value;
        // Must not panic, and must not allocate the memory that a false count asks for.
        let _ = Header::parse(&bytes);
        let _ = Header::parse(&bytes[..at]);
    }
}
