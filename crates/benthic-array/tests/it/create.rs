//! Making and removing arrays, with a crash at every write.

use crate::common::{object, place};
use crate::pool;
use benthic_array::{
    Array, ArrayWriter, AttributeValue, Compressor, Dtype, NewArray, Node, Place, Values, WriteStats,
    group_document, make_room, remove, write_document,
};
use benthic_core::pushdown::Pushdown;
use benthic_core::{Error, ErrorKind, Pool, Result};
use benthic_testkit::faulty::FaultyPool;
use bytes::Bytes;
use futures::TryStreamExt;
use std::collections::BTreeMap;
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

/// Makes the group `g` with the array `g/t`, in two boxes. The second one is fill values with `fill`.
async fn make(pool: &Arc<dyn Pool>, fill: bool) -> Result<u64> {
    let group = place(pool, "g");
    let stats = Arc::new(WriteStats::default());
    let writer = ArrayWriter::new(group.below("t"), &array(), Arc::clone(&stats))?;
    let document = group_document(&Vec::new())?;
    let documents: BTreeMap<String, Bytes> =
        [("zarr.json", document.clone()), ("t/zarr.json", writer.document().clone())]
            .map(|(key, document)| (key.to_owned(), document))
            .into();
    make_room(&group, &documents, false).await?;
    writer.write(&[0, 0], values(0, &[2, 4], 8)).await?;
    let mut rest = values(100, &[3, 4], 12);
    if fill {
        rest.data = FILL.to_le_bytes().repeat(12);
    }
    writer.write(&[2, 0], rest).await?;
    writer.finish().await?;
    write_document(&group, "zarr.json", document).await?;
    assert_eq!(stats.done_bytes(), 40);
    Ok(stats.chunks())
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
        assert_eq!(make(&pool, fill).await.unwrap(), if fill { 2 } else { 6 });
        assert_eq!(read(place(&pool, "g/t")).await.unwrap(), expected(fill));
        let array = Array::open(place(&pool, "g/t")).await.unwrap();
        assert_eq!(array.metadata().attributes["units"], "K");
        assert_eq!(array.check(Pushdown::Never, &Arc::default()).await.unwrap().findings.len(), 0);
        assert!(matches!(place(&pool, "g").node().await.unwrap(), Node::Group(_)));
        assert_eq!(make(&pool, fill).await.unwrap_err().kind(), ErrorKind::AlreadyExists);
    }
}

#[tokio::test]
async fn a_crash_while_an_array_is_made_leaves_no_wrong_array() {
    for writes in 0.. {
        let pool = pool().await;
        let outcome = make(&failing(&pool, writes), false).await;
        let is_done = outcome.is_ok();
        match read(place(&pool, "g/t")).await {
            Ok(found) => assert_eq!(found, expected(false), "writes={writes}"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "writes={writes}"),
        }
        assert_eq!(place(&pool, "g").node().await.is_ok(), is_done, "writes={writes}");
        if is_done {
            assert!(writes >= 8, "writes={writes}");
            return;
        }
        // The next attempt has fill values where the first one may have stored chunks.
        assert_eq!(make(&pool, true).await.unwrap(), 2, "writes={writes}");
        assert_eq!(read(place(&pool, "g/t")).await.unwrap(), expected(true), "writes={writes}");
    }
}

#[tokio::test]
async fn a_crash_during_a_removal_leaves_no_wrong_array() {
    for writes in 0.. {
        let pool = pool().await;
        make(&pool, false).await.unwrap();
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
async fn other_objects_are_not_in_the_way_and_not_removed() {
    let kind = async |name: &str, data: &'static str| {
        let pool = pool().await;
        pool.write_full(&object(name), data).await.unwrap();
        let made = make(&pool, false).await;
        assert!(names(&pool).await.contains(&name.to_owned()) || made.is_ok(), "{name}");
        made.err().map(|error| error.kind())
    };
    let group = r#"{"zarr_format": 3, "node_type": "group"}"#;
    let of_array = r#"{"zarr_format": 2, "shape": [], "chunks": [], "dtype": "<i2", "order": "C", "fill_value": 0, "filters": null, "compressor": null}"#;
    assert_eq!(kind("gg/cat.jpg", "cat").await, None);
    assert_eq!(kind("g/t/c/9/9", "a chunk of an interrupted attempt").await, None);
    assert_eq!(kind("g/cat.jpg", "cat").await, Some(ErrorKind::AlreadyExists));
    assert_eq!(kind("g/other/zarr.json", group).await, Some(ErrorKind::AlreadyExists));
    assert_eq!(kind("g/t/zarr.json", group).await, Some(ErrorKind::AlreadyExists));
    assert_eq!(kind("g/.zgroup", r#"{"zarr_format": 2}"#).await, Some(ErrorKind::AlreadyExists));
    assert_eq!(kind("g/.zarray", of_array).await, Some(ErrorKind::AlreadyExists));
}

#[tokio::test]
async fn an_array_contains_no_others() {
    let pool = pool().await;
    make(&pool, false).await.unwrap();
    let error = make_room(&place(&pool, "g/t/x"), &BTreeMap::new(), true).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    make_room(&place(&pool, "g/x"), &BTreeMap::new(), false).await.unwrap();
    make_room(&place(&pool, "g"), &BTreeMap::new(), true).await.unwrap();
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
    let uneven = NewArray { chunk_shape: vec![2], ..array() };
    assert_eq!(writer(&uneven).unwrap_err().kind(), ErrorKind::InvalidArgument);
}
