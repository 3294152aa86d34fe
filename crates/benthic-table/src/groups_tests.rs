use super::{ColumnGroup, GROUPS_MAX, check, decode, encode, forget_columns, join_footers, places};
use crate::ids::{Id, Role, TableObject};
use crate::layout::Layout;
use crate::list::FileEntry;
use crate::schema::TableSchema;
use crate::writer::encode::encode_object;
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use benthic_core::ErrorKind;
use bytes::{Bytes, BytesMut};
use futures::executor::block_on;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder, RowSelection,
};
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaDataReader};
use std::sync::Arc;

fn schema(columns: usize) -> TableSchema {
    let field = |column| Field::new(format!("c{column}"), DataType::Int64, true);
    TableSchema::from_arrow(&Schema::new((1..=columns).map(field).collect::<Vec<_>>())).unwrap()
}

fn entry(groups: Vec<ColumnGroup>) -> FileEntry {
    let object = TableObject { role: Role::Data, writer: Id(7), number: 4 };
    FileEntry { object, schema: 0, partition: None, rows: 10, bytes: 100, deleted: None, groups }
}

#[test]
fn groups_are_disjoint_and_leave_columns() {
    let schema = schema(12);
    check(&[], &schema).unwrap();
    check(&[vec![2], vec![12, 1]], &schema).unwrap();
    let too_many = (1..=GROUPS_MAX as u32 + 1).map(|id| vec![id]).collect();
    let all = vec![(1..=6).collect(), (7..=12).collect()];
    for wrong in [vec![vec![]], vec![vec![1, 1]], vec![vec![1], vec![2, 1]], vec![vec![13]], all, too_many] {
        assert_eq!(check(&wrong, &schema).unwrap_err().kind(), ErrorKind::InvalidArgument, "{wrong:?}");
    }
}

#[test]
fn dropped_columns_leave_their_group() {
    let forgotten = |mut groups: Vec<Vec<u32>>| {
        forget_columns(&mut groups, &schema(3));
        check(&groups, &schema(3)).unwrap();
        groups
    };
    assert_eq!(forgotten(vec![vec![4, 2], vec![5]]), [vec![2]]);
    // Of the columns that remain, at least one is in no group.
    assert_eq!(forgotten(vec![vec![4, 2], vec![1, 3]]), [vec![1, 3]]);
    assert_eq!(forgotten(vec![vec![3, 2, 1]]), Vec::<Vec<u32>>::new());
}

#[test]
fn groups_survive_encoding() {
    let groups = vec![
        ColumnGroup { columns: vec![3, 2], bytes: u64::MAX },
        ColumnGroup { columns: vec![u32::MAX], bytes: 0 },
    ];
    let encoded = encode(&groups);
    assert_eq!(decode(&encoded).unwrap(), groups);
    for len in 0..encoded.len() {
        let _ = decode(&encoded[..len]);
    }
    let many = vec![groups[1].clone(); GROUPS_MAX + 1];
    assert_eq!(decode(&encode(&many)).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn a_query_needs_the_objects_with_its_columns() {
    let group = |columns: &[u32], bytes| ColumnGroup { columns: columns.to_vec(), bytes };
    let (file, grouped) = (schema(5), entry(vec![group(&[4, 2], 1_000), group(&[5], 10)]));
    assert_eq!((grouped.all_bytes(), grouped.largest_bytes()), (1_110, 1_000));
    let parts = |wanted: &[u32]| {
        let (parts, columns) = grouped.parts_with(&file, |column| wanted.contains(&column.id)).unwrap();
        let parts: Vec<_> = parts.iter().map(|part| (part.object.number, part.start, part.bytes)).collect();
        (parts, columns.columns().iter().map(|column| column.id).collect::<Vec<_>>())
    };
    assert_eq!(parts(&[3]), (vec![(4, 0, 100)], vec![1, 3]));
    assert_eq!(parts(&[2]), (vec![(5, 0, 1_000)], vec![2, 4]));
    assert_eq!(parts(&[5, 2]), (vec![(5, 0, 1_000), (6, 1_000, 10)], vec![2, 4, 5]));
    assert_eq!(parts(&[1, 2, 5]), (vec![(4, 0, 100), (5, 100, 1_000), (6, 1_100, 10)], vec![1, 3, 2, 4, 5]));
    // Without columns, or with columns that were added later, rows are counted.
    assert_eq!(parts(&[]), parts(&[3]));
    assert_eq!(parts(&[6]), parts(&[3]));
    let (whole, columns) = entry(Vec::new()).parts_with(&file, |_| false).unwrap();
    assert_eq!((whole.len(), columns), (1, file.clone()));
    for damaged in [vec![group(&[9], 1)], vec![group(&[1, 2, 3, 4, 5], 1)], vec![group(&[], 1)]] {
        let error = entry(damaged).parts_with(&file, |_| true).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
    }
}

fn rows() -> RecordBatch {
    let ids = 0..60_000_i64;
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values(ids.clone().map(|id| format!("text {id}"))));
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(ids.clone().map(|id| id % 97)));
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(ids));
    RecordBatch::try_from_iter([("id", ids), ("text", texts), ("number", numbers)]).unwrap()
}

/// Joined objects are read as one file, by any selection of rows and columns.
#[test]
fn joined_objects_read_as_one_file() {
    let rows = rows();
    let schema = TableSchema::from_arrow(&rows.schema()).unwrap();
    let layout = Layout {
        groups: vec![vec![2], vec![3]],
        row_group_bytes: 1 << 20,
        bloom: vec![2],
        ..Layout::default()
    };
    let (objects, taken) = block_on(encode_object(&rows, &layout, &schema, 64 << 20)).unwrap();
    assert_eq!((taken, objects.len()), (60_000, 3));
    let groups = vec![
        ColumnGroup { columns: vec![2], bytes: objects[1].len() as u64 },
        ColumnGroup { columns: vec![3], bytes: objects[2].len() as u64 },
    ];
    let entry = FileEntry { bytes: objects[0].len() as u64, ..entry(groups) };
    let footer = |object: &Vec<u8>, pages| {
        let mut reader = ParquetMetaDataReader::new().with_page_index_policy(pages);
        reader.try_parse(&Bytes::from(object.clone())).unwrap();
        Arc::new(reader.finish().unwrap())
    };
    let mut file = BytesMut::new();
    objects.iter().for_each(|object| file.extend_from_slice(object));
    let file = file.freeze();
    for pages in [PageIndexPolicy::Required, PageIndexPolicy::Skip] {
        let parts: Vec<_> = entry.parts().zip(objects.iter().map(|object| footer(object, pages))).collect();
        let joined = Arc::new(join_footers(&parts).unwrap());
        assert_eq!(joined.offset_index().is_some(), pages == PageIndexPolicy::Required);
        assert!(joined.num_row_groups() > 2 && joined.file_metadata().num_rows() == 60_000);
        let metadata = ArrowReaderMetadata::try_new(joined, ArrowReaderOptions::new()).unwrap();
        let read = |selection: std::ops::Range<usize>| {
            let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file.clone(), metadata.clone());
            assert!(builder.get_row_group_column_bloom_filter(0, 1).unwrap().is_some());
            let selection = RowSelection::from_consecutive_ranges([selection].into_iter(), 60_000);
            let batches = builder.with_row_selection(selection).with_batch_size(60_000).build().unwrap();
            let batches: Vec<RecordBatch> = batches.map(Result::unwrap).collect();
            arrow::compute::concat_batches(&batches[0].schema(), &batches).unwrap()
        };
        assert_eq!(read(0..60_000).columns(), rows.columns());
        for (start, len) in [(0, 1), (8_191, 2), (16_383, 5), (59_999, 1), (20_000, 30_000)] {
            assert_eq!(read(start..start + len).columns(), rows.slice(start, len).columns());
        }
    }
}

#[test]
fn objects_with_other_row_groups_are_not_joined() {
    let rows = rows();
    let schema = TableSchema::from_arrow(&rows.schema()).unwrap();
    let entry = entry(vec![ColumnGroup { columns: vec![2], bytes: 1 }]);
    let footer = |rows: &RecordBatch, row_group_bytes| {
        let layout = Layout { row_group_bytes, ..Layout::default() };
        let (objects, _) = block_on(encode_object(rows, &layout, &schema, 64 << 20)).unwrap();
        let mut reader = ParquetMetaDataReader::new();
        reader.try_parse(&Bytes::from(objects[0].clone())).unwrap();
        Arc::new(reader.finish().unwrap())
    };
    let first = footer(&rows, 8 << 20);
    for other in [footer(&rows, 1 << 20), footer(&rows.slice(0, 59_999), 8 << 20)] {
        let parts: Vec<_> = entry.parts().zip([Arc::clone(&first), other]).collect();
        assert_eq!(join_footers(&parts).unwrap_err().kind(), ErrorKind::Corrupt);
    }
    assert_eq!(join_footers(&[]).unwrap_err().kind(), ErrorKind::Internal);
    assert_eq!(places(&[vec![2]], &schema), [vec![0, 2], vec![1]]);
}
