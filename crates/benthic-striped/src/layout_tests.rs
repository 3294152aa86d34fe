use super::{Extent, Layout, MIB, PIECE_BYTES_MAX};
use benthic_core::ErrorKind;

fn layout(object_size: u64, stripe_unit: u64, stripe_count: u64) -> Layout {
    Layout { object_size, stripe_unit, stripe_count }
}

/// The piece and offset of a byte, as Ceph's documentation on striping computes them.
fn place(layout: Layout, offset_bytes: u64) -> (u64, u64) {
    let Layout { object_size, stripe_unit, stripe_count } = layout;
    let (unit, in_unit) = (offset_bytes / stripe_unit, offset_bytes % stripe_unit);
    let (stripe, place) = (unit / stripe_count, unit % stripe_count);
    let stripes_a_set = object_size / stripe_unit;
    let (set, stripe_in_set) = (stripe / stripes_a_set, stripe % stripes_a_set);
    (set * stripe_count + place, stripe_in_set * stripe_unit + in_unit)
}

#[test]
fn the_pieces_of_the_documented_example() {
    // Ceph's "Architecture, data striping": units 0 to 15 are in the first set of four objects,
    // unit 16 is in object 4.
    let four = layout(4, 1, 4);
    let extents =
        |piece| -> Vec<u64> { four.extents(32, piece).iter().map(|extent| extent.offset_bytes).collect() };
    assert_eq!(extents(0), [0, 4, 8, 12]);
    assert_eq!(extents(3), [3, 7, 11, 15]);
    assert_eq!(extents(4), [16, 20, 24, 28]);
    assert_eq!(extents(7), [19, 23, 27, 31]);
    assert_eq!(four.pieces(32), 8);
    assert_eq!((four.pieces(16), four.pieces(17), four.pieces(18)), (4, 5, 6));
}

#[test]
fn every_byte_is_at_the_documented_place() {
    let layouts = [layout(4, 4, 1), layout(4, 2, 1), layout(6, 2, 3), layout(4, 4, 3), layout(4, 1, 4)];
    for layout in layouts {
        for size_bytes in 0..80 {
            let mut seen = vec![None; usize::try_from(size_bytes).unwrap()];
            let pieces = layout.pieces(size_bytes);
            for piece in 0..pieces {
                let mut in_piece = 0;
                for Extent { offset_bytes, len_bytes } in layout.extents(size_bytes, piece) {
                    for at in offset_bytes..offset_bytes + len_bytes {
                        let slot = &mut seen[usize::try_from(at).unwrap()];
                        assert_eq!(
                            slot.replace((piece, in_piece)),
                            None,
                            "{layout} size {size_bytes} byte {at}"
                        );
                        in_piece += 1;
                    }
                }
                assert_eq!(in_piece, layout.piece_len(size_bytes, piece));
                assert!(in_piece > 0 || size_bytes == 0, "{layout} size {size_bytes}");
                assert!(in_piece <= layout.object_size, "{layout} size {size_bytes}");
            }
            assert_eq!(layout.piece_len(size_bytes, pieces), 0, "{layout} size {size_bytes}");
            for (at, found) in seen.iter().enumerate() {
                assert_eq!(*found, Some(place(layout, at as u64)), "{layout} size {size_bytes} byte {at}");
            }
        }
    }
}

#[test]
fn a_piece_of_a_plain_layout_is_one_range() {
    let plain = Layout::choose(10 * MIB, None, Some(64 * 1024), None).unwrap();
    assert_eq!((plain.object_size, plain.stripe_unit, plain.stripe_count), (4 * MIB, 64 * 1024, 1));
    assert_eq!(plain.extents(10 * MIB, 2), [Extent { offset_bytes: 8 * MIB, len_bytes: 2 * MIB }]);
}

#[test]
fn the_layout_is_chosen_by_size() {
    let chosen = |size_bytes| Layout::choose(size_bytes, None, None, None).unwrap();
    let gib = 1024 * MIB;
    for (size_bytes, object_size) in
        [(0, 4), (16 * gib, 4), (16 * gib + 1, 8), (64 * gib, 16), (128 * gib, 32), (1024 * gib, 32)]
    {
        let expected =
            Layout { object_size: object_size * MIB, stripe_unit: object_size * MIB, stripe_count: 1 };
        assert_eq!(chosen(size_bytes), expected, "{size_bytes}");
    }
    let turns = Layout::choose(gib, None, None, Some(4)).unwrap();
    assert_eq!((turns.object_size, turns.stripe_unit), (4 * MIB, MIB));
    assert_eq!(Layout::choose(gib, None, Some(3 * MIB), None).unwrap().object_size, 3 * MIB);
    assert_eq!(Layout::choose(gib, None, Some(6 * MIB), None).unwrap().object_size, 6 * MIB);
}

#[test]
fn layouts_that_libradosstriper_refuses_are_refused() {
    let kind = |object_size, stripe_unit, stripe_count| {
        Layout::choose(MIB, object_size, stripe_unit, stripe_count).err().map(|error| error.kind())
    };
    let k64 = Some(64 * 1024);
    for (object_size, stripe_unit, stripe_count) in [
        (Some(1000), None, None),
        (None, Some(1000), None),
        (None, Some(0), None),
        (Some(0), None, None),
        (k64, Some(128 * 1024), None),
        (Some(3 * 64 * 1024), Some(2 * 64 * 1024), None),
        (k64, k64, Some(0)),
    ] {
        let found = kind(object_size, stripe_unit, stripe_count);
        assert_eq!(
            found,
            Some(ErrorKind::InvalidArgument),
            "{object_size:?} {stripe_unit:?} {stripe_count:?}"
        );
    }
    assert_eq!(kind(Some(PIECE_BYTES_MAX + 64 * 1024), None, None), Some(ErrorKind::LimitExceeded));
    assert_eq!(kind(k64, k64, Some(1025)), Some(ErrorKind::LimitExceeded));
    let many = Layout::choose(1 << 40, k64, None, None).map_err(|error| error.kind());
    assert_eq!(many, Err(ErrorKind::LimitExceeded));
}

#[test]
fn impossible_layouts_are_refused() {
    let unit = 64 * 1024;
    for (object_size, stripe_unit, stripe_count) in
        [(unit, unit, 1), (128 * MIB, unit, 1), (128 * MIB, MIB, (1 << 31) - 1)]
    {
        let layout = layout(object_size, stripe_unit, stripe_count);
        layout.check().unwrap();
        assert!(layout.extents(u64::MAX >> 1, 0).len() <= 2048, "{layout}");
    }
    for (object_size, stripe_unit, stripe_count) in [
        (2048 * MIB, 1, 2),
        (2048 * MIB, 2048 * MIB, 1),
        (128 * MIB + unit, unit, 1),
        (unit, 1, 1),
        (unit, unit / 2, 1),
        (3 * unit, 2 * unit, 1),
        (unit, unit, 0),
        (unit, unit, 1 << 31),
        (0, unit, 1),
        (unit, 0, 1),
    ] {
        let layout = layout(object_size, stripe_unit, stripe_count);
        assert_eq!(layout.check().map_err(|error| error.kind()), Err(ErrorKind::InvalidArgument), "{layout}");
    }
}
