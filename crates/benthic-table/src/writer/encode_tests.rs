use super::{ROW_GROUP_BYTES, ROW_GROUP_ROWS, encode_object};
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use benthic_testkit::random::Rng;
use bytes::Bytes;
use parquet::file::reader::{FileReader, SerializedFileReader};
use std::sync::Arc;

const MIB: usize = 1024 * 1024;

fn row_groups(bytes: Vec<u8>) -> Vec<(usize, usize)> {
    let reader = SerializedFileReader::new(Bytes::from(bytes)).unwrap();
    let groups = reader.metadata().row_groups().iter();
    groups.map(|group| (group.num_rows() as usize, group.compressed_size() as usize)).collect()
}

/// Rows of 1 KiB that do not compress.
fn wide(rows: usize) -> RecordBatch {
    let mut random = Rng(1);
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..rows).map(|_| random.text(1_024))));
    RecordBatch::try_from_iter([("text", texts)]).unwrap()
}

#[test]
fn row_groups_are_bounded_by_rows() {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..300_000));
    let batch = RecordBatch::try_from_iter([("id", ids)]).unwrap();
    let (bytes, taken) = encode_object(&batch, &[0], 64 * MIB).unwrap();
    assert_eq!(taken, 300_000);
    let rows: Vec<usize> = row_groups(bytes).iter().map(|group| group.0).collect();
    assert_eq!(rows, [ROW_GROUP_ROWS, ROW_GROUP_ROWS, 300_000 - 2 * ROW_GROUP_ROWS]);
}

#[test]
fn row_groups_are_bounded_by_bytes_and_objects_by_their_target() {
    let batch = wide(40 * 1_024);
    let (bytes, taken) = encode_object(&batch, &[], 20 * MIB).unwrap();
    assert!((19 * MIB..22 * MIB).contains(&bytes.len()) && taken < 22 * 1_024, "{} {taken}", bytes.len());
    let groups = row_groups(bytes);
    assert!(groups.len() >= 3 && groups.iter().all(|group| group.1 < ROW_GROUP_BYTES + MIB), "{groups:?}");
    assert_eq!(groups.iter().map(|group| group.0).sum::<usize>(), taken);
}
