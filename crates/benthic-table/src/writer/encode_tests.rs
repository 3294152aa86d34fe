use super::{RowGroupLimits, encode_object};
use crate::evolve::rows_bytes;
use crate::layout::{Codec, Layout};
use crate::schema::TableSchema;
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use benthic_testkit::random::Rng;
use bytes::Bytes;
use futures::FutureExt;
use futures::executor::block_on;
use parquet::file::reader::{FileReader, SerializedFileReader};
use std::pin::pin;
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

fn encode(batch: &RecordBatch, layout: &Layout, bytes_target: usize) -> (Vec<u8>, usize) {
    let schema = TableSchema::from_arrow(&batch.schema()).unwrap();
    let (mut objects, taken) = block_on(encode_object(batch, layout, &schema, bytes_target)).unwrap();
    assert_eq!(objects.len(), 1);
    (objects.remove(0), taken)
}

/// The object of the other columns and the companion have the same row groups, and the larger one
/// has the target size.
#[test]
fn the_objects_of_column_groups_have_the_same_row_groups() {
    let text = wide(40 * 1_024).column(0).clone();
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..40 * 1_024));
    let batch = RecordBatch::try_from_iter([("text", text), ("id", ids)]).unwrap();
    let schema = TableSchema::from_arrow(&batch.schema()).unwrap();
    let layout = Layout { groups: vec![vec![1]], sort: vec![2, 1], ..Layout::default() };
    let (objects, taken) = block_on(encode_object(&batch, &layout, &schema, 20 * MIB)).unwrap();
    let [main, texts] = objects.try_into().unwrap();
    assert!(
        (19 * MIB..22 * MIB).contains(&texts.len()) && main.len() < MIB,
        "{} {}",
        main.len(),
        texts.len()
    );
    let (main, texts) = (row_groups(main), row_groups(texts));
    assert!(texts.len() >= 3 && texts.iter().all(|group| group.1 < 9 * MIB), "{texts:?}");
    let rows = |groups: &[(usize, usize)]| groups.iter().map(|group| group.0).collect::<Vec<_>>();
    assert_eq!((rows(&main), rows(&main).iter().sum::<usize>()), (rows(&texts), taken));
}

#[test]
fn row_groups_are_bounded_by_rows() {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..300_000));
    let batch = RecordBatch::try_from_iter([("id", ids)]).unwrap();
    for (row_group_bytes, group_rows) in
        [(8 * MIB, 128 * 1_024), (MIB, 16 * 1_024), (64 * MIB, 1_024 * 1_024)]
    {
        let layout = Layout { sort: vec![1], row_group_bytes: row_group_bytes as u64, ..Layout::default() };
        let (bytes, taken) = encode(&batch, &layout, 64 * MIB);
        assert_eq!(taken, 300_000);
        let rows: Vec<usize> = row_groups(bytes).iter().map(|group| group.0).collect();
        let full = rows.iter().filter(|rows| **rows == group_rows).count();
        assert_eq!((full, rows.iter().sum()), (300_000 / group_rows, 300_000));
        assert_eq!(rows.len(), 300_000_usize.div_ceil(group_rows));
    }
}

#[test]
fn row_groups_are_bounded_by_bytes_and_objects_by_their_target() {
    let batch = wide(40 * 1_024);
    let (bytes, taken) = encode(&batch, &Layout::default(), 20 * MIB);
    assert!((19 * MIB..22 * MIB).contains(&bytes.len()) && taken < 22 * 1_024, "{} {taken}", bytes.len());
    let groups = row_groups(bytes);
    assert!(groups.len() >= 3 && groups.iter().all(|group| group.1 < 9 * MIB), "{groups:?}");
    assert_eq!(groups.iter().map(|group| group.0).sum::<usize>(), taken);
}

#[test]
fn columns_get_bloom_filters_of_bounded_size() {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values((0..300_000).map(|id| id * 7)));
    let names: ArrayRef =
        Arc::new(StringArray::from_iter_values((0..300_000).map(|id| format!("name {}", id % 100))));
    let batch = RecordBatch::try_from_iter([("id", ids), ("a.b", names)]).unwrap();
    let layout = Layout { bloom: vec![1, 2], ..Layout::default() };
    let (bytes, _) = encode(&batch, &layout, 64 * MIB);
    let reader = SerializedFileReader::new(Bytes::from(bytes)).unwrap();
    for group in reader.metadata().row_groups() {
        let [ids, names] = [0, 1].map(|column| group.column(column).bloom_filter_length().unwrap() as usize);
        assert!(ids <= layout.row_group_rows() * 2 + 64 && names < 1_024, "{ids} {names}");
    }
    let layout = Layout { bloom: vec![2], ..Layout::default() };
    let (bytes, _) = encode(&batch, &layout, 64 * MIB);
    let reader = SerializedFileReader::new(Bytes::from(bytes)).unwrap();
    assert!(reader.metadata().row_group(0).column(0).bloom_filter_offset().is_none());
}

#[test]
fn row_groups_are_bounded_by_their_size_in_memory() {
    // 96 MiB of texts, each of 4 KiB, that compress to almost nothing.
    let texts = StringArray::from_iter_values((0..24 * 1_024).map(|row| format!("{row:04096}")));
    let batch = RecordBatch::try_from_iter([("text", Arc::new(texts) as ArrayRef)]).unwrap();
    let raw_bytes = |layout: &Layout| {
        let (bytes, taken) = encode(&batch, layout, 32 * MIB);
        assert_eq!(taken, 24 * 1_024);
        let reader = SerializedFileReader::new(Bytes::from(bytes)).unwrap();
        let groups = reader.metadata().row_groups().iter();
        groups.map(|group| group.num_rows() as usize * 4_096).collect::<Vec<_>>()
    };
    let zstd = Layout { codec: Codec::Zstd { level: 1 }, ..Layout::default() };
    let sizes = raw_bytes(&zstd);
    assert!(sizes.len() <= 4 && sizes.iter().all(|bytes| *bytes <= 32 * MIB), "{sizes:?}");
    let sizes = raw_bytes(&Layout { row_group_bytes: 64 << 20, ..zstd });
    assert!(sizes.len() == 2 && sizes[0] > 32 * MIB && sizes[0] <= 64 * MIB, "{sizes:?}");
}

/// Code in an OSD refuses more than 16,384 column chunks.
#[test]
fn objects_of_many_columns_have_few_column_chunks() {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100_000));
    let layout = Layout { row_group_bytes: 1 << 20, ..Layout::default() };
    for columns in [3, 300, 600, 2_048, 2_700, 10_000] {
        let named = (0..columns).map(|column| (format!("c{column}"), Arc::clone(&ids)));
        let batch = RecordBatch::try_from_iter(named).unwrap();
        let limits = RowGroupLimits::new(&layout, &batch);
        let groups = 1
            + batch.num_rows() / limits.rows
            + 64 * MIB / limits.bytes
            + rows_bytes(&batch) / limits.memory_bytes;
        assert!(groups * columns <= 16 * 1_024, "{columns} {groups}");
        // Other objects keep the layout's limits.
        assert_eq!((limits.rows, limits.bytes) == (16 * 1_024, MIB), columns == 3, "{columns}");
    }
}

/// Between steps other tasks run, such as one that handles signals.
#[test]
fn encoding_yields() {
    let batch = wide(8 * 1_024);
    let (layout, schema) = (Layout::default(), TableSchema::from_arrow(&batch.schema()).unwrap());
    let mut encoding = pin!(encode_object(&batch, &layout, &schema, 64 * MIB));
    let mut yields = 0;
    let (_, taken) = loop {
        match encoding.as_mut().now_or_never() {
            Some(encoded) => break encoded.unwrap(),
            None => yields += 1,
        }
    };
    assert_eq!(taken, 8 * 1_024);
    assert!(yields >= 8, "{yields}");
}

/// The filters of a row group are written after its rows, so an object keeps room for them.
#[test]
fn objects_with_bloom_filters_stay_below_their_limit() {
    let text = wide(40 * 1_024).column(0).clone();
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..40 * 1_024));
    let numbers = (0..15).map(|place| (format!("n{place}"), ids.clone()));
    let columns = [("text".to_owned(), text)].into_iter().chain(numbers);
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let layout = Layout { row_group_bytes: 64 * MIB as u64, bloom: (1..=16).collect(), ..Layout::default() };
    let filters_bytes = 16 * 2 * layout.row_group_rows();
    let (bytes, taken) = encode(&batch, &layout, 64 * MIB);
    assert!(taken > 0 && bytes.len() + filters_bytes < 64 * MIB, "{} {filters_bytes} {taken}", bytes.len());
}
