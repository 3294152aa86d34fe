use super::{MAGIC, PAGE_CHUNKS, Page, Record, is_statistics};
use crate::block::Block;
use crate::dtype::Dtype;
use crate::reduce::{Decoding, Number, Summary};
use crate::selection::{Bounded, Slice};
use benthic_core::codec::Wire;
use bytes::Bytes;
use proptest::prelude::{Strategy, any, prop};
use proptest::{prop_assert, proptest};

fn page(records: u32) -> Page {
    let record = |chunk: u32| Record {
        chunk: chunk * 2,
        version: u64::from(chunk),
        modified_unix_ns: 5,
        summary: Summary { min: -1.5, max: f64::INFINITY, values: 9, missing: 1 },
    };
    Page {
        format: Bytes::from_static(b"format"),
        shape: Bounded(vec![95, 40]),
        missing: Bounded(vec![Bytes::from_static(&[1; 4])]),
        records: Bounded((0..records).map(record).collect()),
    }
}

#[test]
fn pages_are_decoded_and_damage_is_found() {
    let page = page(3);
    let bytes = page.to_bytes();
    assert_eq!(Page::from_bytes(&bytes), Ok(page.clone()));
    assert_eq!(page.record(4).map(|record| record.version), Some(2));
    assert_eq!(page.record(3), None);
    for bit in 0..bytes.len() * 8 {
        let mut bad = bytes.to_vec();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(Page::from_bytes(&bad).is_err(), "{bit}");
    }
    for len in 0..bytes.len() {
        assert!(Page::from_bytes(&bytes[..len]).is_err(), "{len}");
    }
}

#[test]
fn pages_of_other_formats_and_orders_are_refused() {
    let sealed = |version: u32, payload: &[u8]| {
        let bytes = [&MAGIC[..], &version.to_le_bytes(), payload].concat();
        Page::from_bytes(&Page::seal(bytes)).is_ok()
    };
    let good = page(3);
    assert!(sealed(1, &good.encode()));
    assert!(!sealed(2, &good.encode()));
    assert!(!sealed(1, &[&good.encode()[..], &[0]].concat()));
    let mut unsorted = good;
    unsorted.records.0.swap(0, 1);
    assert!(!sealed(1, &unsorted.encode()));
    assert!(!sealed(1, &page(PAGE_CHUNKS as u32 + 1).encode()));
    assert!(sealed(1, &page(PAGE_CHUNKS as u32).encode()));
}

#[test]
fn keys_of_pages_are_known() {
    assert!(is_statistics(".benthic-statistics/0") && is_statistics(".benthic-statistics/4711"));
    for key in [
        ".benthic-statistics/",
        ".benthic-statistics/01",
        ".benthic-statistics/-1",
        "c/0",
        "x/.benthic-statistics/0",
    ] {
        assert!(!is_statistics(key), "{key}");
    }
}

fn number() -> impl Strategy<Value = f64> {
    (any::<bool>(), any::<f64>(), -1000i32..1000).prop_map(
        |(is_any, any, near)| {
            if is_any { any } else { f64::from(near) / 8.0 }
        },
    )
}

proptest! {
    /// No value of an excluded chunk is in the range, whatever is rounded and overflows.
    #[test]
    fn only_chunks_without_wanted_values_are_excluded(
        mut values in prop::collection::vec(number(), 1..40),
        scale in prop::option::of(number()),
        offset in prop::option::of(number()),
        is_single: bool,
        wanted_min in prop::option::of(-1000f64..1000.0),
        wanted_max in prop::option::of(-1000f64..1000.0),
        is_float32: bool,
    ) {
        let decoding = Decoding { scale, offset, is_single, wanted_min, wanted_max, ..Decoding::default() };
        let mut dtype = Dtype::Float64;
        if is_float32 {
            dtype = Dtype::Float32;
            values.iter_mut().for_each(|value| *value = f64::from(*value as f32));
        }
        let data = values.iter().flat_map(|value| match is_float32 {
            true => (*value as f32).to_le_bytes().to_vec(),
            false => value.to_le_bytes().to_vec(),
        });
        let block = Block { dtype, data: data.collect(), strides: vec![1] };
        let mut decoded = Vec::new();
        block
            .rows(&[Slice::all(values.len() as u64)], &mut || Ok(()), |row, _, _| {
                f64::read(&row, Some(&decoding), &mut decoded);
                Ok(())
            })
            .unwrap();
        let known = || values.iter().copied().filter(|value| !value.is_nan());
        let (min, max) = (known().fold(f64::INFINITY, f64::min), known().fold(f64::NEG_INFINITY, f64::max));
        if decoding.excludes(min, max) {
            prop_assert!(decoded.iter().all(|value| value.is_nan()), "{decoded:?}");
        }
    }
}
