use super::{chunk_shape, slab_shape};
use crate::source::{FileChunks, ReadElements, SourceArray};
use benthic_array::Dtype;
use benthic_core::{Error, ErrorKind, Result};
use std::sync::Arc;

struct Nothing;

impl ReadElements for Nothing {
    fn read(&self, _: &[u64], _: &[u64]) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }

    fn chunks(&self) -> Result<Option<FileChunks>> {
        Err(Error::new(ErrorKind::Unsupported, "no file"))
    }
}

fn chosen(shape: &[u64], of_file: Option<&[u64]>, of_user: &[u64]) -> Vec<u64> {
    let array = SourceArray {
        name: "t".to_owned(),
        dtype: Dtype::Float32,
        shape: shape.to_vec(),
        chunk_shape: of_file.map(<[u64]>::to_vec),
        fill: vec![0; 4].into(),
        dimensions: vec![None; shape.len()],
        attributes: Vec::new(),
        elements: Arc::new(Nothing),
    };
    chunk_shape(&array, of_user)
}

#[test]
fn chunks_of_the_user_are_taken_for_arrays_with_as_many_axes() {
    assert_eq!(chosen(&[100, 200], None, &[10, 1000]), [10, 200]);
    assert_eq!(chosen(&[100], None, &[10, 10]), [100]);
    assert_eq!(chosen(&[], None, &[10]), [0u64; 0]);
    assert_eq!(chosen(&[0, 5], None, &[]), [1, 5]);
}

#[test]
fn chunks_of_the_file_are_kept_unless_they_are_small_or_large() {
    assert_eq!(chosen(&[8760, 721, 1440], Some(&[1, 721, 1440]), &[]), [1, 721, 1440]);
    // 40 kB become multiples.
    let grown = chosen(&[8760, 1000, 1000], Some(&[1, 100, 100]), &[]);
    assert!(grown[1..].iter().all(|len| len.is_multiple_of(100)), "{grown:?}");
    for (shape, of_file) in [
        (&[8760, 721, 1440][..], None),
        (&[8760, 1000, 1000], Some(&[1, 100, 100][..])),
        (&[8760, 721, 1440], Some(&[8760, 721, 100])),
        (&[1_000_000_000], None),
        (&[1 << 40, 2], Some(&[1, 2])),
    ] {
        let bytes = 4 * chosen(shape, of_file, &[]).iter().product::<u64>();
        assert!((2 << 20..=4 << 20).contains(&bytes), "{shape:?} {of_file:?}: {bytes}");
    }
}

#[test]
fn slabs_are_whole_chunks() {
    assert_eq!(slab_shape(&[100, 100], &[10, 10], 4), [100, 100]);
    assert_eq!(slab_shape(&[8760, 721, 1440], &[137, 91, 90], 4), [137, 91, 1440]);
    assert_eq!(slab_shape(&[8760, 721, 1440], &[1, 721, 1440], 4), [32, 721, 1440]);
    assert_eq!(slab_shape(&[], &[], 8), [0u64; 0]);
    assert_eq!(slab_shape(&[0, 5], &[1, 5], 8), [1, 5]);
}

#[test]
fn huge_arrays_do_not_overflow() {
    for shape in [&[u64::MAX][..], &[u64::MAX, 0], &[1 << 60, 1 << 60], &[u64::MAX, u64::MAX]] {
        for of_file in [None, Some(&[u64::MAX, u64::MAX][..shape.len()]), Some(&[3, 3][..shape.len()])] {
            let chunk_shape = chosen(shape, of_file, &[]);
            slab_shape(shape, &chunk_shape, 8);
        }
    }
}
