use super::{Block, divide};
use benthic_array::Dtype;
use benthic_array::decoders::ByteRange;

fn divided(shape: &[u64], record_bytes: Option<u64>) -> (Vec<u64>, Vec<ByteRange>) {
    let block = Block { offset_bytes: 100, record_bytes };
    let chunks = divide(shape, Dtype::Float32, &block, true).unwrap();
    (chunks.chunk_shape, chunks.ranges.into_iter().flatten().collect())
}

#[test]
fn the_first_axes_are_divided() {
    // Every byte is in one chunk, in the order of the file.
    for (shape, chunk_shape) in [
        (&[][..], &[][..]),
        (&[10, 7], &[10, 7]),
        (&[8761, 100, 100], &[104, 100, 100]),
        (&[3, 5, 1000, 1000], &[1, 1, 1000, 1000]),
        (&[3, 2000, 1000], &[1, 1048, 1000]),
        (&[2, 3_000_000], &[1, 1_048_576]),
        (&[1 << 22], &[1 << 20]),
    ] {
        let (found, ranges) = divided(shape, None);
        assert_eq!(found, chunk_shape, "{shape:?}");
        let mut end = 100;
        for range in ranges {
            assert_eq!(range.offset_bytes, end);
            assert!((1..=4 << 20).contains(&range.len_bytes));
            end += range.len_bytes;
        }
        assert_eq!(end - 100, 4 * shape.iter().product::<u64>());
    }
}

#[test]
fn records_are_apart() {
    let range = |offset_bytes, len_bytes| ByteRange { offset_bytes, len_bytes };
    assert_eq!(
        divided(&[3, 10], Some(64)),
        (vec![1, 10], vec![range(100, 40), range(164, 40), range(228, 40)])
    );
    assert_eq!(divided(&[2], Some(64)), (vec![1], vec![range(100, 4), range(164, 4)]));
    // The only variable with records.
    assert_eq!(divided(&[3, 10], Some(40)), (vec![3, 10], vec![range(100, 120)]));
    let (shape, ranges) = divided(&[2, 3, 1 << 20], Some(1 << 24));
    assert_eq!((shape, ranges.len(), ranges[3].offset_bytes), (vec![1, 1, 1 << 20], 6, 100 + (1 << 24)));
}

#[test]
fn hostile_shapes_do_not_overflow() {
    for shape in [&[0][..], &[u64::MAX, 0], &[u64::MAX], &[u64::MAX, u64::MAX], &[1 << 40, 1 << 40]] {
        for record_bytes in [None, Some(0), Some(1), Some(u64::MAX)] {
            let block = Block { offset_bytes: u64::MAX - 5, record_bytes };
            let _ = divide(shape, Dtype::Float64, &block, false);
        }
    }
    assert!(divided(&[3, 10], Some(u64::MAX)).1[2].check().is_err());
}
