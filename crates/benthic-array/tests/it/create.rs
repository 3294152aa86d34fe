//! Making and removing arrays, with a crash at every write.

use crate::common::{object, place};
use crate::pool;
use benthic_array::{
    Array, ArrayWriter, AttributeValue, CREATION_MARKER, Compressor, Creation, Dtype, NewArray, Node, Place,
    Values, WriteStats, group_document, remove,
};
use benthic_core::pushdown::Pushdown;
use benthic_core::{Error, ErrorKind, Pool, Result};
use benthic_testkit::faulty::FaultyPool;
use bytes::Bytes;
use futures::TryStreamExt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

const FILL: i16 = -1;

fn array() -> NewArray {
    NewArray {
        dtype: Dtype::Int16,
        shape: vec![5, 4],
        chunk_shape: vec![2, 3],
        fill: Bytes::copy_from_slice(&FILL.to_le_bytes()),
        dimensions: vec![Some("y".to_owned()), None],
        attributes: vec![("units".to_owned(), AttributeValue::Text("K".to_owned()))],
        compressor: Compressor::Blosc,
    }
}

fn values(first: i16, shape: &[u64], count: u64) -> Values {
    let data = (0..count).flat_map(|index| (first + index as i16).to_le_bytes()).collect();
    Values { dtype: Dtype::Int16, shape: shape.to_vec(), data }
}

/// Makes the group `g` with the array `g/t`, in two boxes. The second one is fill values with
/// `fill`.
async fn make(pool: &Arc<dyn Pool>, fill: bool, overwrite: bool) -> Result<u64> {
    let group = place(pool, "g");
    let stats = Arc::new(WriteStats::default());
    let writer = ArrayWriter::new(group.below("t"), &array(), Arc::clone(&stats))?;
    let creation = Creation::start(&group, overwrite).await?;
    write(&writer, fill).await?;
    creation.finish(documents(&writer)).await?;
    assert_eq!(stats.done_bytes(), 40);
    Ok(stats.chunks())
}

async fn write(writer: &ArrayWriter, fill: bool) -> Result<()> {
    writer.write(&[0, 0], values(0, &[2, 4], 8)).await?;
    let mut rest = values(100, &[3, 4], 12);
    if fill {
        rest.data = FILL.to_le_bytes().repeat(12);
    }
    writer.write(&[2, 0], rest).await
}

fn documents(writer: &ArrayWriter) -> Vec<(String, Bytes)> {
    [("zarr.json", group_document(&Vec::new()).unwrap()), ("t/zarr.json", writer.document().clone())]
        .map(|(key, document)| (key.to_owned(), document))
        .into()
}

async fn read(place: Place) -> Result<Vec<i16>> {
    let array = Array::open(place).await?;
    let values = array.read(&array.whole(), Pushdown::Never, &Arc::default()).await?;
    Ok(values.data.chunks_exact(2).map(|bytes| i16::from_le_bytes([bytes[0], bytes[1]])).collect())
}

fn expected(fill: bool) -> Vec<i16> {
    (0..8).chain((100..112).map(|value| if fill { FILL } else { value })).collect()
}

async fn names(pool: &Arc<dyn Pool>) -> Vec<String> {
    let pages: Vec<_> = place(pool, "").names().try_collect().await.unwrap();
    pages.into_iter().flatten().map(|object| object.name().to_owned()).collect()
}

/// The pool, on which writes fail from the one with this number on.
fn failing(pool: &Arc<dyn Pool>, writes: usize) -> Arc<dyn Pool> {
    Arc::new(FaultyPool::over(Arc::clone(pool), move |number, op, _| match number < writes {
        true => Ok(op),
        false => Err(Error::new(ErrorKind::Unavailable, "no power")),
    }))
}

#[tokio::test]
async fn an_array_has_its_values_and_no_chunk_of_fill_values() {
    for fill in [false, true] {
        let pool = pool().await;
        assert_eq!(make(&pool, fill, false).await.unwrap(), if fill { 2 } else { 6 });
        assert_eq!(read(place(&pool, "g/t")).await.unwrap(), expected(fill));
        let array = Array::open(place(&pool, "g/t")).await.unwrap();
        assert_eq!(array.metadata().attributes["units"], "K");
        assert_eq!(array.check(Pushdown::Never, &Arc::default()).await.unwrap().findings.len(), 0);
        assert!(matches!(place(&pool, "g").node().await.unwrap(), Node::Group(_)));
        assert_eq!(make(&pool, fill, false).await.unwrap_err().kind(), ErrorKind::AlreadyExists);
    }
}

#[tokio::test]
async fn a_crash_while_an_array_is_made_leaves_no_wrong_array() {
    for writes in 0.. {
        let pool = pool().await;
        let outcome = make(&failing(&pool, writes), false, false).await;
        match read(place(&pool, "g/t")).await {
            Ok(found) => assert_eq!(found, expected(false), "writes={writes}"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "writes={writes}"),
        }
        if outcome.is_ok() {
            assert_eq!(writes, 10);
            assert!(place(&pool, "g").node().await.is_ok());
            return;
        }
        let left = names(&pool).await;
        // The first write is that of the marker.
        assert_eq!(left.contains(&format!("g/{CREATION_MARKER}")), writes > 0, "writes={writes}");
        if writes > 0 {
            let error = make(&pool, true, false).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::AlreadyExists, "writes={writes}");
            assert!(error.message().contains("was interrupted"), "{error}");
            assert_eq!(names(&pool).await, left, "writes={writes}");
        }
        // The next attempt has fill values where the first one may have stored chunks.
        assert_eq!(make(&pool, true, true).await.unwrap(), 2, "writes={writes}");
        assert_eq!(read(place(&pool, "g/t")).await.unwrap(), expected(true), "writes={writes}");
        assert_eq!(names(&pool).await.len(), 4, "writes={writes}");
    }
}

#[tokio::test]
async fn a_crash_while_an_array_is_replaced_leaves_no_wrong_array() {
    for writes in 0.. {
        let pool = pool().await;
        make(&pool, false, false).await.unwrap();
        let outcome = make(&failing(&pool, writes), true, true).await;
        match read(place(&pool, "g/t")).await {
            Ok(found) => assert!(found == expected(false) || found == expected(true), "writes={writes}"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "writes={writes}"),
        }
        if outcome.is_ok() {
            assert!(writes >= 14, "writes={writes}");
            return;
        }
        let other = NewArray { chunk_shape: vec![5, 4], ..array() };
        let group = place(&pool, "g");
        let writer = ArrayWriter::new(group.below("t"), &other, Arc::default()).unwrap();
        let creation = Creation::start(&group, true).await.unwrap();
        writer.write(&[0, 0], values(7, &[5, 4], 20)).await.unwrap();
        creation.finish(documents(&writer)).await.unwrap();
        assert_eq!(read(place(&pool, "g/t")).await.unwrap(), (7..27).collect::<Vec<i16>>());
        assert_eq!(names(&pool).await, ["g/t/c/0/0", "g/t/zarr.json", "g/zarr.json"], "writes={writes}");
    }
}

#[tokio::test]
async fn a_replaced_creation_makes_no_array() {
    let pool = pool().await;
    let group = place(&pool, "g");
    let writer = ArrayWriter::new(group.below("t"), &array(), Arc::default()).unwrap();
    let first = Creation::start(&group, false).await.unwrap();
    write(&writer, false).await.unwrap();
    // Creations in an outer group and in this one see it.
    for path in ["", "g", "g/t", "g/t/x"] {
        let error = Creation::start(&place(&pool, path), false).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{path}");
    }
    let before = names(&pool).await;
    let error = Creation::start(&place(&pool, "g/t"), true).await.unwrap_err();
    assert!(error.message().contains("`create` of an outer group"), "{error}");
    assert_eq!(names(&pool).await, before);
    let second = Creation::start(&group, true).await.unwrap();
    assert_eq!(names(&pool).await, [format!("g/{CREATION_MARKER}")]);
    assert_eq!(first.finish(documents(&writer)).await.unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(names(&pool).await, [format!("g/{CREATION_MARKER}")]);
    write(&writer, true).await.unwrap();
    second.finish(documents(&writer)).await.unwrap();
    assert_eq!(read(place(&pool, "g/t")).await.unwrap(), expected(true));
}

#[tokio::test]
async fn a_check_explains_the_marker() {
    let pool = pool().await;
    make(&pool, false, false).await.unwrap();
    pool.write_full(&object("g/t/.benthic-create"), "1").await.unwrap();
    let array = Array::open(place(&pool, "g/t")).await.unwrap();
    let findings = array.check(Pushdown::Never, &Arc::default()).await.unwrap().findings;
    assert!(findings[0].error.message().contains("`create` was interrupted"), "{findings:?}");
}

#[tokio::test]
async fn a_crash_during_a_removal_leaves_no_wrong_array() {
    for writes in 0.. {
        let pool = pool().await;
        make(&pool, false, false).await.unwrap();
        let group = place(&pool, "g");
        let outcome = remove(&place(&failing(&pool, writes), "g"), &AtomicU64::new(0)).await;
        match read(group.below("t")).await {
            Ok(found) => assert_eq!(found, expected(false), "writes={writes}"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "writes={writes}"),
        }
        let is_done = outcome.is_ok();
        remove(&group, &AtomicU64::new(0)).await.unwrap();
        assert_eq!(names(&pool).await, [""; 0], "writes={writes}");
        if is_done {
            assert!(writes >= 8, "writes={writes}");
            return;
        }
    }
}

#[tokio::test]
async fn other_objects_stop_a_creation_and_remain() {
    let group = r#"{"zarr_format": 3, "node_type": "group"}"#;
    let of_array = r#"{"zarr_format": 2, "shape": [], "chunks": [], "dtype": "<i2", "order": "C", "fill_value": 0, "filters": null, "compressor": null}"#;
    for (name, data, message) in [
        ("g/cat.jpg", "cat", "objects exist here already"),
        ("g/2024", "a year", "objects exist here already"),
        ("g/t/c/0/0", "a chunk of another program", "objects exist here already"),
        ("g/t/zarr.json", group, "objects exist here already"),
        ("g/zarr.json", "damaged", "objects exist here already"),
        ("g/zarr.json", group, "a group exists here already"),
        ("g/.zgroup", r#"{"zarr_format": 2}"#, "a group exists here already"),
        ("g/.zarray", of_array, "an array exists here already"),
        ("g/.benthic-create", "1", "another `create` runs here or was interrupted"),
        (".benthic-create", "1", "a `create` of an outer group runs or was interrupted"),
    ] {
        let pool = pool().await;
        pool.write_full(&object(name), data).await.unwrap();
        let error = make(&pool, false, false).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{name}");
        assert!(error.message().starts_with(message), "{name}: {error}");
        assert_eq!(names(&pool).await, [name]);
        assert_eq!(pool.read_range(&object(name), 0, 1 << 20).await.unwrap(), data, "{name}");
        if name.starts_with("g/") {
            make(&pool, false, true).await.unwrap();
            assert_eq!(read(place(&pool, "g/t")).await.unwrap(), expected(false), "{name}");
            assert_eq!(names(&pool).await.len(), 8, "{name}");
        }
    }
    // An object whose name only begins as the group's.
    let pool = pool().await;
    pool.write_full(&object("gg/cat.jpg"), "cat").await.unwrap();
    make(&pool, false, false).await.unwrap();
    remove(&place(&pool, "g"), &AtomicU64::new(0)).await.unwrap();
    assert_eq!(names(&pool).await, ["gg/cat.jpg"]);
}

#[tokio::test]
async fn an_array_contains_no_others() {
    let pool = pool().await;
    make(&pool, false, false).await.unwrap();
    let before = names(&pool).await;
    for path in ["g/t/x", "g/t/c", "g/t/c/0"] {
        let inside = place(&pool, path);
        for overwrite in [false, true] {
            let error = Creation::start(&inside, overwrite).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{path}");
        }
        let error = remove(&inside, &AtomicU64::new(0)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{path}");
        assert!(error.message().contains("remove the whole array"), "{error}");
    }
    assert_eq!(names(&pool).await, before);
    Creation::start(&place(&pool, "g/x"), false).await.unwrap().finish(Vec::new()).await.unwrap();
    assert_eq!(names(&pool).await, before);
}

#[tokio::test]
async fn an_array_may_be_the_root_of_a_pool() {
    let pool = pool().await;
    let root = place(&pool, "");
    let writer = ArrayWriter::new(root.clone(), &array(), Arc::default()).unwrap();
    let creation = Creation::start(&root, false).await.unwrap();
    write(&writer, false).await.unwrap();
    creation.finish(vec![("zarr.json".to_owned(), writer.document().clone())]).await.unwrap();
    assert_eq!(read(root.clone()).await.unwrap(), expected(false));
    let before = names(&pool).await;
    for path in ["g", "c", "c/0"] {
        let inside = place(&pool, path);
        let error = Creation::start(&inside, true).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{path}");
        let error = remove(&inside, &AtomicU64::new(0)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{path}");
    }
    assert_eq!(names(&pool).await, before);
    assert_eq!(Creation::start(&root, false).await.unwrap_err().kind(), ErrorKind::AlreadyExists);
    remove(&root, &AtomicU64::new(0)).await.unwrap();
    assert_eq!(names(&pool).await, [""; 0]);
}

#[tokio::test]
async fn boxes_and_chunks_are_checked() {
    let pool = pool().await;
    let writer = |array: &NewArray| ArrayWriter::new(place(&pool, "t"), array, Arc::default());
    let sound = writer(&array()).unwrap();
    for (start, shape, count) in
        [([1, 0], [2, 4], 8), ([0, 0], [1, 4], 4), ([4, 0], [2, 4], 8), ([0, 0], [2, 4], 7)]
    {
        let error = sound.write(&start, values(0, &shape, count)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{start:?} {shape:?}");
    }
    let large = NewArray { shape: vec![1 << 20, 64], chunk_shape: vec![1 << 20, 64], ..array() };
    assert_eq!(writer(&large).unwrap_err().kind(), ErrorKind::LimitExceeded);
    let long = ArrayWriter::new(place(&pool, &"x".repeat(2040)), &array(), Arc::default());
    assert_eq!(long.unwrap_err().kind(), ErrorKind::LimitExceeded);
    let uneven = NewArray { chunk_shape: vec![2], ..array() };
    assert_eq!(writer(&uneven).unwrap_err().kind(), ErrorKind::InvalidArgument);
}
