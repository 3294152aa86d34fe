//! Arrays whose chunks are ranges of a file.

use crate::common::{Expected, Numbers, Stored, encode, place, positions};
use crate::pool;
use benthic_array::decoders::ByteRange;
use benthic_array::{
    Array, AxisRole, Bounded, CHUNK_INDEX_KEY, Compressor, Dtype, FileParts, NewArray, PART_BYTES, Place,
    ReadStats, Reduction, ReductionKind, References, Slice,
};
use benthic_core::pushdown::Pushdown;
use benthic_core::{ErrorKind, Result};
use serde_json::json;
use std::sync::Arc;

fn references(token: &str) -> References {
    References { file: "../file.nc".to_owned(), token: token.to_owned(), is_clipped: true }
}

async fn put(place: &Place, key: &str, data: impl Into<bytes::Bytes>) {
    place.pool.write_full(&place.object(key).unwrap(), data.into()).await.unwrap();
}

/// Stores the metadata of big-endian elements.
async fn put_document(place: &Place, array: &Expected, chunk: &[u64], references: &References) {
    let array = NewArray {
        dtype: array.dtype,
        shape: array.shape.clone(),
        chunk_shape: chunk.to_vec(),
        fill: vec![0; array.dtype.size_bytes()].into(),
        dimensions: vec![None; chunk.len()],
        attributes: Vec::new(),
        compressor: Compressor::None,
    };
    put(place, "zarr.json", array.document_in_file(true, Vec::new(), references).unwrap()).await;
}

/// Chunks without padding, in any order and with gaps, in a file.
async fn store(numbers: &mut Numbers, place: &Place, array: &Expected, chunk: &[u64]) -> Array {
    let (mut file, mut ranges) = (Vec::new(), Vec::new());
    let grid: Vec<u64> = array.shape.iter().zip(chunk).map(|(len, chunk)| len.div_ceil(*chunk)).collect();
    for cell in positions(&grid) {
        let origin: Vec<u64> = cell.iter().zip(chunk).map(|(index, len)| index * len).collect();
        let rest = origin.iter().zip(chunk).zip(&array.shape);
        let slices: Vec<Slice> = rest
            .map(|((start, chunk), len)| Slice { start: *start, step: 1, count: *chunk.min(&(len - start)) })
            .collect();
        let selected = array.selected(&slices);
        let data: Vec<u8> =
            selected.iter().flat_map(|(_, value)| encode(array.dtype, *value, true)).collect();
        if selected.iter().all(|(_, value)| *value == 0.0) {
            ranges.push(None);
            continue;
        }
        file.extend(vec![0xEE; numbers.below(9) as usize]);
        ranges.push(Some(ByteRange { offset_bytes: file.len() as u64, len_bytes: data.len() as u64 }));
        file.extend(data);
    }
    let parts = FileParts::new(file.len() as u64, ranges.iter().flatten().copied()).unwrap();
    let file_object = benthic_core::ObjectId::new(place.sibling("file.nc").path).unwrap();
    place.pool.write_full(&file_object, bytes::Bytes::from(file)).await.unwrap();
    put(place, CHUNK_INDEX_KEY, parts.index(&ranges)).await;
    put_document(place, array, chunk, &references("1")).await;
    Array::open(place.clone()).await.unwrap()
}

async fn sum(array: &Array, pushdown: Pushdown, stats: &Arc<ReadStats>) -> Result<Vec<u8>> {
    let axes = Bounded(vec![AxisRole::Reduce {}; array.metadata().shape.len()]);
    let reduction = Reduction { kind: ReductionKind::Sum {}, axes, skip_nan: true, decoding: None };
    array.reduce(&array.whole(), reduction, pushdown, stats).await.map(|values| values.data)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arrays_in_files_equal_arrays_of_chunks() {
    let pool = pool().await;
    let mut numbers = Numbers(benthic_testkit::seed::one());
    for case in 0..60 {
        let dtype = numbers.pick(&Dtype::ALL);
        let axes = numbers.below(4);
        let shape: Vec<u64> = (0..axes).map(|_| numbers.below(9) + 1).collect();
        let chunk: Vec<u64> = shape.iter().map(|len| numbers.below(*len) + 1).collect();
        let mut expected = Expected::random(&mut numbers, dtype, &shape);
        if numbers.below(2) == 0 {
            // Some chunks have only the fill value.
            let half = expected.values.len() / 2;
            expected.values[half..].fill(0.0);
        }
        let ours = store(&mut numbers, &place(&pool, &format!("file-{case}/a")), &expected, &chunk).await;
        let stored = Stored {
            chunk: chunk.clone(),
            inner: None,
            codec: "none",
            is_big_endian: false,
            is_transposed: false,
            is_index_at_start: false,
        };
        let theirs = stored.store(&place(&pool, &format!("chunks-{case}")), &expected, 0.0).await;
        let slices: Vec<Slice> = shape
            .iter()
            .map(|len| {
                let (start, step) = (numbers.below(*len), numbers.below(3) + 1);
                Slice { start, step, count: numbers.below((len - start).div_ceil(step)) + 1 }
            })
            .collect();
        for pushdown in [Pushdown::Always, Pushdown::Never] {
            let stats = Arc::new(ReadStats::default());
            let found = ours.read(&slices, pushdown, &stats).await.unwrap();
            assert_eq!(
                found,
                theirs.read(&slices, pushdown, &Arc::default()).await.unwrap(),
                "{shape:?} {chunk:?}"
            );
            assert_eq!(
                sum(&ours, pushdown, &stats).await.unwrap(),
                sum(&theirs, pushdown, &Arc::default()).await.unwrap()
            );
            let pushed = stats.pushed_chunks();
            assert_eq!(
                pushed,
                if pushdown == Pushdown::Always { stats.chunks() - stats.missing_chunks() } else { 0 }
            );
            let check = ours.check(pushdown, &Arc::default()).await.unwrap();
            assert!(check.findings.is_empty(), "{check:?}");
        }
    }
}

/// An array of 100 elements in two chunks, with an index of these numbers and a valid checksum.
async fn with_index(place: &Place, index: &[u64]) -> Result<Array> {
    let expected = Expected { dtype: Dtype::Float64, shape: vec![100], values: vec![1.0; 100] };
    put_document(place, &expected, &[50], &references("1")).await;
    let mut data: Vec<u8> = index.iter().flat_map(|number| number.to_le_bytes()).collect();
    data.extend(crc32c::crc32c(&data).to_le_bytes());
    put(place, CHUNK_INDEX_KEY, data).await;
    Array::open(place.clone()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_indexes_are_refused() {
    let pool = pool().await;
    let place = place(&pool, "g/a");
    let file = crate::object("g/file.nc");
    pool.write_full(&file, vec![0u8; 800]).await.unwrap();
    let kinds = async |index: &[u64]| {
        let array = with_index(&place, index).await.unwrap();
        let mut kinds = Vec::new();
        for pushdown in [Pushdown::Always, Pushdown::Never] {
            kinds.push(sum(&array, pushdown, &Arc::default()).await.map_err(|error| error.kind()).err());
        }
        assert_eq!(kinds[0], kinds[1], "{index:?}");
        // A check finds the damage that a read finds.
        assert_eq!(
            kinds[0].is_some(),
            !array.check(Pushdown::Always, &Arc::default()).await.unwrap().findings.is_empty()
        );
        kinds[0]
    };
    assert_eq!(kinds(&[1, 0, 0, 400, 400, 400]).await, None);
    assert_eq!(kinds(&[1, 0, 0, 400, u64::MAX, u64::MAX]).await, None);
    let corrupt = Some(ErrorKind::Corrupt);
    for index in [
        // After the end, far after it, with other sizes, and in a part that does not exist.
        [1, 0, 0, 400, 401, 400],
        [1, 0, 0, 400, 1 << 62, 400],
        [1, 0, 0, 400, 400, 392],
        [1, 0, 0, 400, 0, 0],
        [1, 0, 0, 800, 0, 400],
        [1, 0, 0, 400, 0, u64::MAX],
    ] {
        assert_eq!(kinds(&index).await, corrupt, "{index:?}");
    }
    assert_eq!(kinds(&[2, 0, 400, 0, 400, 400, 400]).await, corrupt);
    assert_eq!(
        with_index(&place, &[1, 0, 0, 400, 2, u64::MAX]).await.unwrap_err().kind(),
        ErrorKind::Corrupt
    );
    // The metadata.
    let document = place.pool.read_range(&place.object("zarr.json").unwrap(), 0, 1 << 20).await.unwrap();
    let mut document: serde_json::Value = serde_json::from_slice(&document).unwrap();
    document["shape"] = json!([1u64 << 60]);
    put(&place, "zarr.json", document.to_string()).await;
    assert_eq!(Array::open(place.clone()).await.unwrap_err().kind(), ErrorKind::LimitExceeded);
    document["shape"] = json!([100]);
    for file in ["../../../file.nc", "", "../"] {
        document["benthic_references"]["file"] = json!(file);
        put(&place, "zarr.json", document.to_string()).await;
        put(&place, CHUNK_INDEX_KEY, FileParts::new(800, []).unwrap().index(&[None, None])).await;
        let opened = Array::open(place.clone()).await;
        assert_eq!(opened.err().map(|error| error.kind()), corrupt, "{file}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replaced_file_is_a_conflict() {
    let pool = pool().await;
    let place = place(&pool, "g/a");
    let file = crate::object("g/file.nc");
    pool.write_full(&file, vec![0u8; 800]).await.unwrap();
    let array = with_index(&place, &[1, 0, 0, 400, 400, 400]).await.unwrap();
    let kind = async || sum(&array, Pushdown::Always, &Arc::default()).await.unwrap_err().kind();
    // The same shape and the same sizes, but another file.
    let expected = Expected { dtype: Dtype::Float64, shape: vec![100], values: vec![1.0; 100] };
    put_document(&place, &expected, &[50], &references("2")).await;
    assert_eq!(kind().await, ErrorKind::Conflict);
    pool.remove(&file).await.unwrap();
    assert_eq!(kind().await, ErrorKind::Conflict);
    pool.remove(&place.object("zarr.json").unwrap()).await.unwrap();
    assert_eq!(kind().await, ErrorKind::NotFound);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_file_has_several_objects() {
    let pool = pool().await;
    let place = place(&pool, "g/a");
    let expected = Expected { dtype: Dtype::Float64, shape: vec![100], values: vec![1.0; 100] };
    put_document(&place, &expected, &[50], &references("1")).await;
    // The second chunk would be cut after 32 MiB.
    let range = |offset_bytes| ByteRange { offset_bytes, len_bytes: 400 };
    let ranges = [range(1000), range(PART_BYTES - 100)];
    let parts = FileParts::new(PART_BYTES + 5000, ranges).unwrap();
    for (name, range) in parts.objects("g/file.nc") {
        let chunk = ranges.iter().position(|chunk| range.contains(&chunk.offset_bytes)).unwrap();
        let mut data = vec![0; (range.end - range.start) as usize];
        let start = (ranges[chunk].offset_bytes - range.start) as usize;
        for element in data[start..start + 400].chunks_exact_mut(8) {
            element.copy_from_slice(&(chunk as f64 + 1.0).to_be_bytes());
        }
        pool.write_full(&crate::object(&name), data).await.unwrap();
    }
    put(&place, CHUNK_INDEX_KEY, parts.index(&ranges.map(Some))).await;
    let array = Array::open(place.clone()).await.unwrap();
    for pushdown in [Pushdown::Always, Pushdown::Never] {
        assert_eq!(sum(&array, pushdown, &Arc::default()).await.unwrap(), 150.0f64.to_le_bytes());
    }
}
