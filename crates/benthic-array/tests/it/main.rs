//! Arrays through the public interface, on the memory engine.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../common/mod.rs"]
mod common;
mod corpus;
mod create;
mod references;

use async_trait::async_trait;
use benthic_array::{
    Array, AxisRole, Bounded, Decoding, Dtype, Groups, ReadStats, Reduction, ReductionKind, Slice,
};
use benthic_core::pushdown::Pushdown;
use benthic_core::{
    ClassCall, ClassRegistry, Error, ErrorKind, ListPage, ListRequest, ListToken, ObjectId, Pool, ReadOp,
    ReadReply, Result, Store, WriteOp, WriteReply,
};
use benthic_embedded::MemStore;
use bytes::Bytes;
use common::{Expected, Stored, object, place};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

async fn pool() -> Arc<dyn Pool> {
    let classes = ClassRegistry::new().with(benthic_array::ArrayClass);
    let store = MemStore::new(benthic_embedded::Options::default().with_classes(classes));
    store.create_pool("p").await.unwrap();
    store.open_pool("p").await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_arrays_read_and_reduce_as_expected() {
    let pushed = common::suite::run(&pool().await, 400).await;
    assert!(pushed > 0, "the class did not run");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_arrays_are_regridded_as_expected() {
    let pushed = common::regrid::run(&pool().await, 400).await;
    assert!(pushed > 0, "the class did not run");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_inputs_and_objects_are_refused() {
    common::hostile::run(&pool().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statistics_change_no_result() {
    common::statistics::run(&pool().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statistics_in_a_directory_change_no_result() {
    let directory = tempfile::tempdir().unwrap();
    let classes = ClassRegistry::new().with(benthic_array::ArrayClass);
    let options = benthic_embedded::Options::default().with_classes(classes);
    let store = benthic_embedded::EmbeddedStore::open(&directory.path().join("s"), true, options).unwrap();
    store.create_pool("p").await.unwrap();
    common::statistics::run(&store.open_pool("p").await.unwrap()).await;
    store.close().unwrap();
}

fn plain(chunk: &[u64]) -> Stored {
    Stored {
        chunk: chunk.to_vec(),
        inner: None,
        codec: "zstd",
        is_big_endian: false,
        is_transposed: false,
        is_index_at_start: false,
    }
}

async fn floats(pool: &Arc<dyn Pool>, path: &str, chunk: u64, values: &[f64]) -> Array {
    let array = Expected { dtype: Dtype::Float64, shape: vec![values.len() as u64], values: values.to_vec() };
    plain(&[chunk]).store(&place(pool, path), &array, 0.0).await
}

fn over_all(kind: ReductionKind, decoding: Option<Decoding>) -> Reduction {
    Reduction { kind, axes: Bounded(vec![AxisRole::Reduce {}]), skip_nan: true, decoding }
}

async fn number(array: &Array, reduction: Reduction) -> f64 {
    let work = Arc::new(ReadStats::default());
    let values = array.reduce(&array.whole(), reduction, Pushdown::Always, &work).await.unwrap();
    benthic_array::element_json(values.dtype, &values.data).as_f64().unwrap_or(f64::INFINITY)
}

#[tokio::test]
async fn sums_are_compensated() {
    let pool = pool().await;
    // In plain arithmetic the ones are lost.
    let values = [1.0, 1e20, 1.0, -1e20].repeat(1_000);
    for chunk in [1, 3, 100, 4_000] {
        let array = floats(&pool, &format!("sum-{chunk}"), chunk, &values).await;
        assert_eq!(number(&array, over_all(ReductionKind::Sum {}, None)).await, 2_000.0);
        assert_eq!(number(&array, over_all(ReductionKind::Mean {}, None)).await, 0.5);
    }
    let array = floats(&pool, "infinite", 2, &[1.0, f64::INFINITY, 2.0]).await;
    assert!(number(&array, over_all(ReductionKind::Sum {}, None)).await.is_infinite());
}

#[tokio::test]
async fn variances_of_large_numbers_keep_their_digits() {
    let values: Vec<f64> = (0..1_000).map(|index| 1e9 + f64::from(index % 2)).collect();
    let array = floats(&pool().await, "variance", 7, &values).await;
    let variance = number(&array, over_all(ReductionKind::Variance { ddof: 0 }, None)).await;
    assert!((variance - 0.25).abs() < 1e-9, "{variance}");
}

#[tokio::test]
async fn values_are_decoded_by_the_cf_conventions() {
    let pool = pool().await;
    let array = Expected { dtype: Dtype::Int16, shape: vec![5], values: vec![-1.0, 10.0, 20.0, 99.0, 30.0] };
    let array = plain(&[2]).store(&place(&pool, "packed"), &array, 0.0).await;
    let decoding = Decoding {
        missing: Bounded(vec![Bytes::copy_from_slice(&(-1i16).to_le_bytes())]),
        valid_max: Some(50.0),
        scale: Some(0.5),
        offset: Some(100.0),
        ..Decoding::default()
    };
    let of = async |kind| number(&array, over_all(kind, Some(decoding.clone()))).await;
    assert_eq!(of(ReductionKind::Count {}).await, 3.0);
    assert_eq!(of(ReductionKind::Sum {}).await, 330.0);
    assert_eq!(of(ReductionKind::Min {}).await, 105.0);
    assert_eq!(of(ReductionKind::Argmax {}).await, 4.0);
}

#[tokio::test]
async fn values_out_of_the_wanted_range_are_missing() {
    let pool = pool().await;
    let array = Expected { dtype: Dtype::Int16, shape: vec![5], values: vec![1.0, 2.0, 3.0, 4.0, 5.0] };
    let array = plain(&[2]).store(&place(&pool, "wanted"), &array, 0.0).await;
    let of = async |wanted_min, wanted_max, is_single| {
        let scale = Some(0.1);
        let decoding = Decoding { scale, wanted_min, wanted_max, is_single, ..Decoding::default() };
        number(&array, over_all(ReductionKind::Count {}, Some(decoding))).await
    };
    assert_eq!(of(Some(0.2), None, false).await, 4.0);
    assert_eq!(of(None, Some(0.2), false).await, 2.0);
    assert_eq!(of(Some(0.2), Some(0.4), false).await, 3.0);
    // The nearest float32 to 0.2 is more than 0.2, and a bound is rounded in the same way.
    assert_eq!(of(None, Some(0.2), true).await, 2.0);
}

#[tokio::test]
async fn neighbours_are_grouped() {
    let pool = pool().await;
    let array = floats(&pool, "neighbours", 3, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]).await;
    let groups = Groups::of_neighbours(7, 2).unwrap();
    let axes = Bounded(vec![AxisRole::Group { groups }]);
    let reduction = Reduction { kind: ReductionKind::Sum {}, axes, skip_nan: true, decoding: None };
    let sums = array.reduce(&array.whole(), reduction, Pushdown::Always, &Arc::default()).await.unwrap();
    assert_eq!(sums.shape, [4]);
    let expected = [3.0f64, 7.0, 11.0, 7.0];
    assert_eq!(sums.data, expected.iter().flat_map(|sum| sum.to_le_bytes()).collect::<Vec<u8>>());
    // No chunk is read whose positions are in no group.
    let groups = Groups { count: 1, of: Bounded([[Groups::NONE; 6].as_slice(), &[0]].concat()) };
    let axes = Bounded(vec![AxisRole::Group { groups }]);
    let reduction = Reduction { kind: ReductionKind::Sum {}, axes, skip_nan: true, decoding: None };
    let stats = Arc::new(ReadStats::default());
    let last = array.reduce(&array.whole(), reduction, Pushdown::Always, &stats).await.unwrap();
    assert_eq!(
        (last.data, stats.pushed_chunks(), stats.done_chunks()),
        (7.0f64.to_le_bytes().to_vec(), 1, 3)
    );
    assert!(Groups::of_neighbours(7, 0).is_err());
    assert!(Groups::of_neighbours(1 << 40, 2).is_err());
}

#[tokio::test]
async fn an_array_that_was_removed_is_not_one_of_fill_values() {
    let pool = pool().await;
    let array = floats(&pool, "removed", 2, &[1.0, 2.0, 3.0]).await;
    for name in ["zarr.json", "c/0", "c/1"] {
        pool.remove(&object(&format!("removed/{name}"))).await.unwrap();
    }
    let work = Arc::new(ReadStats::default());
    for pushdown in [Pushdown::Never, Pushdown::Always] {
        let read = array.read(&array.whole(), pushdown, &work).await;
        assert_eq!(read.unwrap_err().kind(), ErrorKind::NotFound);
    }
}

#[tokio::test]
async fn a_check_finds_damaged_and_stray_objects() {
    let pool = pool().await;
    let array = floats(&pool, "checked", 2, &[1.0, 2.0, 3.0, 4.0, 5.0]).await;
    let work = Arc::new(ReadStats::default());
    for pushdown in [Pushdown::Never, Pushdown::Always] {
        let check = array.check(pushdown, &work).await.unwrap();
        assert_eq!((check.chunks, check.findings.len()), (3, 0));
    }
    pool.write_full(&object("checked/c/1"), "damage").await.unwrap();
    pool.write_full(&object("checked/c/3"), "stray").await.unwrap();
    let check = array.check(Pushdown::Auto, &work).await.unwrap();
    let mut found: Vec<_> =
        check.findings.iter().map(|finding| (finding.object.name(), finding.error.kind())).collect();
    found.sort();
    assert_eq!(found, [("checked/c/1", ErrorKind::Corrupt), ("checked/c/3", ErrorKind::InvalidArgument)]);
}

#[tokio::test]
async fn a_check_reports_an_index_that_points_into_itself() {
    let pool = pool().await;
    let values: Vec<f64> = (0..10).map(f64::from).collect();
    let array = Expected { dtype: Dtype::Float64, shape: vec![10], values };
    let stored = Stored { inner: Some(vec![5]), codec: "none", ..plain(&[10]) };
    let array = stored.store(&place(&pool, "circular"), &array, 0.0).await;
    let chunk = object("circular/c/0");
    let good = pool.read_range(&chunk, 0, 1 << 20).await.unwrap();
    let end = good.len() - 4;
    for (offset, len) in [(0, good.len() as u64), (40, good.len() as u64 - 40), (good.len() as u64 - 9, 9)] {
        let mut bad = good.to_vec();
        bad[end - 32..end - 24].copy_from_slice(&u64::to_le_bytes(offset));
        bad[end - 24..end - 16].copy_from_slice(&u64::to_le_bytes(len));
        let checksum = crc32c::crc32c(&bad[end - 32..end]);
        bad[end..].copy_from_slice(&checksum.to_le_bytes());
        pool.write_full(&chunk, bad).await.unwrap();
        for pushdown in [Pushdown::Never, Pushdown::Always] {
            let check = array.check(pushdown, &Arc::default()).await.unwrap();
            assert_eq!(check.findings.len(), 1, "{offset} {pushdown:?}");
        }
    }
}

#[tokio::test]
async fn a_small_part_of_a_shard_moves_few_bytes() {
    let pool = pool().await;
    let values: Vec<f64> = (0..100_000).map(f64::from).collect();
    let array = Expected { dtype: Dtype::Float64, shape: vec![100_000], values };
    let stored = Stored { inner: Some(vec![1_000]), codec: "none", ..plain(&[100_000]) };
    let array = stored.store(&place(&pool, "shard"), &array, 0.0).await;
    let work = Arc::new(ReadStats::default());
    let slices = [Slice { start: 50_500, step: 1, count: 10 }];
    array.read(&slices, Pushdown::Never, &work).await.unwrap();
    assert!(work.moved_bytes() < 12_000, "{} bytes moved", work.moved_bytes());
}

#[tokio::test]
async fn arrays_and_groups_are_listed() {
    let pool = pool().await;
    floats(&pool, "a/b", 2, &[1.0]).await;
    pool.write_full(&object("a/zarr.json"), r#"{"zarr_format": 3, "node_type": "group"}"#).await.unwrap();
    pool.write_full(&object("a/old/.zgroup"), r#"{"zarr_format": 2}"#).await.unwrap();
    pool.write_full(&object("a/bad/zarr.json"), "{").await.unwrap();
    let listed = benthic_array::list(&place(&pool, "")).await.unwrap();
    let found: Vec<_> = listed.iter().map(|entry| (&entry.path[..], entry.node.is_ok())).collect();
    assert_eq!(found, [("a", true), ("a/b", true), ("a/bad", false), ("a/old", true)]);
}

/// A pool that counts the names that it lists.
struct Counting {
    pool: Arc<dyn Pool>,
    names: AtomicU64,
    is_ordered: bool,
}

#[async_trait]
impl Pool for Counting {
    fn name(&self) -> &str {
        self.pool.name()
    }

    async fn read(&self, object: &ObjectId, op: ReadOp) -> Result<ReadReply> {
        self.pool.read(object, op).await
    }

    async fn write(&self, object: &ObjectId, op: WriteOp) -> Result<WriteReply> {
        self.pool.write(object, op).await
    }

    async fn exec(&self, object: &ObjectId, call: ClassCall) -> Result<Bytes> {
        self.pool.exec(object, call).await
    }

    async fn list(&self, request: ListRequest) -> Result<ListPage> {
        let page = self.pool.list(request).await?;
        self.names.fetch_add(page.objects.len() as u64, Ordering::Relaxed);
        Ok(page)
    }

    fn token_after(&self, object: &ObjectId) -> Option<ListToken> {
        self.pool.token_after(object).filter(|_| self.is_ordered)
    }
}

#[tokio::test]
async fn a_listing_skips_the_chunks_of_arrays() {
    let inner = pool().await;
    floats(&inner, "a/large", 1, &[1.0; 3_000]).await;
    for path in ["a/large-too", "a/next", "z"] {
        floats(&inner, path, 2, &[1.0]).await;
    }
    // Nothing below an array is a node.
    let group = r#"{"zarr_format": 3, "node_type": "group"}"#;
    inner.write_full(&object("a/large/c/1/zarr.json"), group).await.unwrap();
    for number in 0..300 {
        inner.write_full(&object(&format!("logs/{number}")), "").await.unwrap();
    }
    for is_ordered in [true, false] {
        let counting = Arc::new(Counting { pool: Arc::clone(&inner), names: 0.into(), is_ordered });
        let pool = Arc::clone(&counting) as Arc<dyn Pool>;
        for (path, expected) in
            [("", &["a/large", "a/large-too", "a/next", "z"][..]), ("a/large", &["a/large"][..])]
        {
            let listed = benthic_array::list(&place(&pool, path)).await.unwrap();
            let found: Vec<_> = listed.iter().map(|entry| &entry.path[..]).collect();
            assert_eq!(found, expected);
            let names = counting.names.swap(0, Ordering::Relaxed);
            assert_eq!(names < 1_000, is_ordered, "{names} names of {path:?}");
        }
    }
}

/// A pool that is far away, or that changes an object after each of its first reads.
struct Changing {
    pool: Arc<dyn Pool>,
    changes: AtomicU64,
    delay: Duration,
}

#[async_trait]
impl Pool for Changing {
    fn name(&self) -> &str {
        self.pool.name()
    }

    async fn read(&self, object: &ObjectId, op: ReadOp) -> Result<ReadReply> {
        tokio::time::sleep(self.delay).await;
        let reply = self.pool.read(object, op).await;
        let left =
            self.changes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if left.is_ok() && object.name().contains("/c/") {
            self.pool.write(object, WriteOp::new().set_xattr("changed", "")).await?;
        }
        reply
    }

    async fn write(&self, object: &ObjectId, op: WriteOp) -> Result<WriteReply> {
        self.pool.write(object, op).await
    }

    async fn exec(&self, object: &ObjectId, call: ClassCall) -> Result<Bytes> {
        if self.delay.is_zero() {
            return Err(Error::new(ErrorKind::Unsupported, "this engine has no classes"));
        }
        self.pool.exec(object, call).await
    }

    async fn list(&self, request: ListRequest) -> Result<ListPage> {
        self.pool.list(request).await
    }
}

#[tokio::test]
async fn an_object_that_changes_is_read_again_and_a_missing_class_is_replaced() {
    let inner = pool().await;
    let values: Vec<f64> = (0..100).map(f64::from).collect();
    let array = Expected { dtype: Dtype::Float64, shape: vec![100], values };
    let stored = Stored { inner: Some(vec![10]), ..plain(&[100]) };
    stored.store(&place(&inner, "changing"), &array, 0.0).await;
    for (changes, expected) in [(3, Ok(45.0)), (u64::MAX, Err(ErrorKind::Conflict))] {
        let pool: Arc<dyn Pool> =
            Arc::new(Changing { pool: Arc::clone(&inner), changes: changes.into(), delay: Duration::ZERO });
        let array = Array::open(place(&pool, "changing")).await.unwrap();
        let slices = [Slice { start: 0, step: 1, count: 10 }];
        let stats = Arc::new(ReadStats::default());
        let sum = over_all(ReductionKind::Sum {}, None);
        let reduced = array.reduce(&slices, sum, Pushdown::Always, &stats).await;
        let found = reduced.map(|values| f64::from_le_bytes(values.data.try_into().unwrap()));
        assert_eq!(found.map_err(|error| error.kind()), expected);
        assert_eq!(stats.pushed_chunks(), 0);
    }
}

#[tokio::test]
async fn a_chunk_that_is_too_large_for_a_method_is_read_by_the_client() {
    let pool = pool().await;
    let len = 40u64 << 20;
    let document = serde_json::json!({
        "zarr_format": 3, "node_type": "array", "shape": [len], "data_type": "uint8", "fill_value": 7,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [len]}},
        "chunk_key_encoding": "default", "codecs": ["bytes"],
    });
    pool.write_full(&object("large/zarr.json"), document.to_string()).await.unwrap();
    pool.write_full(&object("large/c/0"), vec![3; len as usize]).await.unwrap();
    let array = Array::open(place(&pool, "large")).await.unwrap();
    for pushdown in [Pushdown::Always, Pushdown::Auto, Pushdown::Never] {
        let stats = Arc::new(ReadStats::default());
        let values = array.read(&array.whole(), pushdown, &stats).await.unwrap();
        assert!(values.data.iter().all(|byte| *byte == 3), "{pushdown:?}");
        assert_eq!(stats.pushed_chunks(), 0);
        let sum = array.reduce(&array.whole(), over_all(ReductionKind::Sum {}, None), pushdown, &stats).await;
        assert_eq!(sum.unwrap().data, (3 * len).to_le_bytes());
    }
}

#[tokio::test]
async fn results_that_are_too_large_are_refused() {
    let pool = pool().await;
    let document = |shape: &[u64]| {
        serde_json::json!({
            "zarr_format": 3, "node_type": "array", "shape": shape, "data_type": "int8", "fill_value": 0,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": vec![1 << 10; shape.len()]}},
            "chunk_key_encoding": "default", "codecs": ["bytes"],
        })
    };
    let stats = Arc::new(ReadStats::default());
    let (keep, reduce) = (AxisRole::Keep {}, AxisRole::Reduce {});
    for axes in [[reduce.clone(), reduce.clone()], [keep, reduce]] {
        let shape = &[1 << 33, 1 << 33];
        pool.write_full(&object("sparse/zarr.json"), document(shape).to_string()).await.unwrap();
        let array = Array::open(place(&pool, "sparse")).await.unwrap();
        let kind = ReductionKind::Sum {};
        let reduction = Reduction { kind, axes: Bounded(axes.to_vec()), skip_nan: true, decoding: None };
        let reduced = array.reduce(&array.whole(), reduction, Pushdown::Auto, &stats).await;
        assert_eq!(reduced.unwrap_err().kind(), ErrorKind::LimitExceeded);
        let read = array.read(&array.whole(), Pushdown::Auto, &stats).await;
        assert_eq!(read.unwrap_err().kind(), ErrorKind::LimitExceeded);
    }
}

#[tokio::test]
async fn a_replaced_array_is_not_one_of_fill_values() {
    let pool = pool().await;
    let old = floats(&pool, "replaced", 2, &[1.0, 2.0, 3.0]).await;
    for name in ["c/0", "c/1"] {
        pool.remove(&object(&format!("replaced/{name}"))).await.unwrap();
    }
    floats(&pool, "replaced", 3, &[1.0, 2.0, 3.0]).await;
    pool.remove(&object("replaced/c/0")).await.unwrap();
    let read = old.read(&old.whole(), Pushdown::Never, &Arc::default()).await;
    assert_eq!(read.unwrap_err().kind(), ErrorKind::Conflict);
}

#[tokio::test]
async fn results_for_a_far_client_are_packed() {
    let inner = pool().await;
    let len = 100_000u64;
    let values: Vec<f64> = (0..4 * len).map(|index| f64::from(index as u32 % 977)).collect();
    let array = Expected { dtype: Dtype::Float32, shape: vec![4, len], values };
    plain(&[4, len]).store(&place(&inner, "far"), &array, 0.0).await;
    let far: Arc<dyn Pool> =
        Arc::new(Changing { pool: Arc::clone(&inner), changes: 0.into(), delay: Duration::from_millis(4) });
    for kind in [ReductionKind::Mean {}, ReductionKind::Std { ddof: 0 }, ReductionKind::Argmax {}] {
        let axes = Bounded(vec![AxisRole::Reduce {}, AxisRole::Keep {}]);
        let reduction = Reduction { kind, axes, skip_nan: true, decoding: None };
        let mut found = Vec::new();
        for pool in [&inner, &far] {
            let array = Array::open(place(pool, "far")).await.unwrap();
            let stats = Arc::new(ReadStats::default());
            let reduced = array.reduce(&array.whole(), reduction.clone(), Pushdown::Always, &stats).await;
            let read = array.read(&[Slice::all(1), Slice::all(len)], Pushdown::Always, &stats).await;
            found.push((reduced.unwrap(), read.unwrap(), stats.moved_bytes()));
        }
        assert_eq!((&found[0].0, &found[0].1), (&found[1].0, &found[1].1));
        let unpacked_bytes = reduction.state_bytes(&[4, len]) + 4 * len;
        assert!(found[1].2 * 3 < unpacked_bytes, "{reduction:?}: {} of {unpacked_bytes} bytes", found[1].2);
    }
}
