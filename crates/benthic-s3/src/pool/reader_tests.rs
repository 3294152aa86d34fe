use super::{Piece, pieces};
use crate::sal::Id;
use benthic_classes::bucket::state::{Manifest, Segment};

fn segment(number: u8, len_bytes: u64, chunk_bytes: u32) -> Segment {
    Segment { write: Id([number; 16]).into(), len_bytes, chunk_bytes }
}

#[test]
fn pieces_cover_exactly_the_range() {
    let manifest = Manifest {
        segments: vec![segment(1, 10, 4), segment(2, 3, 8), segment(3, 9, 3)],
        ..Manifest::default()
    };
    // Compute the location of every byte. A range must return the locations of its bytes.
    let places: Vec<(Id, u32, u64)> = manifest
        .segments
        .iter()
        .flat_map(|segment| {
            let chunk_bytes = u64::from(segment.chunk_bytes);
            (0..segment.len_bytes)
                .map(move |at| (segment.write.into(), (at / chunk_bytes) as u32, at % chunk_bytes))
        })
        .collect();
    for start in 0..=22 {
        for end in start..=22 {
            let found: Vec<_> = pieces(&manifest, start..end, false)
                .flat_map(|Piece { write, chunk, offset_bytes, len_bytes, .. }| {
                    (offset_bytes..offset_bytes + len_bytes).map(move |at| (write, chunk, at))
                })
                .collect();
            assert_eq!(found, places[start as usize..end as usize], "{start}..{end}");
        }
    }
}

#[test]
fn large_chunks_are_read_in_pieces() {
    let manifest = Manifest { segments: vec![segment(1, 6 << 20, 16 << 20)], ..Manifest::default() };
    let lens: Vec<u64> = pieces(&manifest, 1..6 << 20, false).map(|piece| piece.len_bytes).collect();
    assert_eq!(lens, [256 << 10, 512 << 10, 1 << 20, 2 << 20, 2 << 20, (256 << 10) - 1]);
}

#[test]
fn moved_data_are_numbered_through() {
    let segments = vec![segment(1, 10, 4), segment(2, 3, 8), segment(3, 9, 3)];
    let moved = Manifest { moved: Some(Id([9; 16]).into()), segments, ..Manifest::default() };
    let places = |range| -> Vec<_> {
        pieces(&moved, range, false).map(|piece| (piece.write.0[0], piece.chunk, piece.stored)).collect()
    };
    let stored = |number| (Id([9; 16]), number);
    let all = [(1, 0), (1, 1), (1, 2), (2, 0), (3, 0), (3, 1), (3, 2)];
    let all: Vec<_> =
        all.into_iter().zip(0..).map(|((write, chunk), at)| (write, chunk, stored(at))).collect();
    assert_eq!(places(0..22), all);
    assert_eq!(places(17..19), all[5..6]);
    assert_eq!(moved.chunks().iter().map(|chunks| chunks.count).sum::<u32>(), 7);
}
