use super::{Geometry, MIB};
use benthic_core::ErrorKind;
use std::collections::BTreeMap;

#[test]
fn every_byte_has_its_own_place() {
    for (object_bytes, stripe_unit_bytes, stripe_count) in
        [(4096, 4096, 1), (8192, 4096, 1), (16384, 4096, 3), (8192, 4096, 5), (4096, 4096, 4)]
    {
        let geometry = Geometry { object_bytes, stripe_unit_bytes, stripe_count };
        let size_bytes = 100_000;
        geometry.check(size_bytes).unwrap();
        let mut places = BTreeMap::new();
        for at in 0..size_bytes {
            let piece = geometry.pieces(at, 1).next().unwrap();
            assert!(u64::from(piece.object) < geometry.objects(size_bytes));
            assert!(piece.offset_bytes < object_bytes);
            assert_eq!(places.insert((piece.object, piece.offset_bytes), at), None);
        }
        // A longer request has the same places as its bytes.
        for (offset_bytes, len_bytes) in [(0, size_bytes), (1_000, 9_000), (4_095, 2), (8_192, 0)] {
            let mut at = offset_bytes;
            for piece in geometry.pieces(offset_bytes, len_bytes) {
                assert_eq!(piece.image_offset_bytes, at);
                for index in 0..piece.len_bytes {
                    assert_eq!(places[&(piece.object, piece.offset_bytes + index)], at);
                    at += 1;
                }
            }
            assert_eq!(at, offset_bytes + len_bytes);
        }
    }
}

/// The example of Ceph's documentation: units of 64 KiB over 16 objects of 4 MiB.
#[test]
fn units_alternate_between_the_objects_of_a_set() {
    let kib = 1024;
    let geometry = Geometry { object_bytes: 4096 * kib, stripe_unit_bytes: 64 * kib, stripe_count: 16 };
    let place = |at| geometry.pieces(at, 1).next().map(|piece| (piece.object, piece.offset_bytes)).unwrap();
    assert_eq!(place(0), (0, 0));
    assert_eq!(place(64 * kib), (1, 0));
    assert_eq!(place(16 * 64 * kib), (0, 64 * kib));
    assert_eq!(place(64 * MIB), (16, 0));
}

#[test]
fn bad_geometries_are_refused() {
    let good = Geometry::default();
    for bad in [
        Geometry { object_bytes: 0, ..good },
        Geometry { object_bytes: 2048, stripe_unit_bytes: 2048, ..good },
        Geometry { object_bytes: 64 * MIB, ..good },
        Geometry { object_bytes: 3 * MIB, stripe_unit_bytes: 3 * MIB, ..good },
        Geometry { stripe_unit_bytes: 0, ..good },
        Geometry { stripe_unit_bytes: 512, ..good },
        Geometry { stripe_unit_bytes: 3 * 4096, ..good },
        Geometry { stripe_unit_bytes: 8 * MIB, ..good },
        Geometry { stripe_count: 0, ..good },
        Geometry { stripe_count: 1025, ..good },
    ] {
        assert_eq!(bad.check(MIB).unwrap_err().kind(), ErrorKind::InvalidArgument, "{bad:?}");
    }
    assert_eq!(good.check(u64::MAX).unwrap_err().kind(), ErrorKind::LimitExceeded);
    assert!(good.check(16 * 1024 * 1024 * MIB).is_ok());
}
