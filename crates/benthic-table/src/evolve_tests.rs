use super::{adapt, compact, rows_bytes};
use crate::schema::{Column, TableSchema};
use crate::types::widens;
use arrow::array::{Array, ArrayRef, AsArray, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Int64Type, TimeUnit};
use benthic_core::ErrorKind;
use std::sync::Arc;

fn column(id: u32, name: &str, data_type: DataType) -> Column {
    Column { id, name: name.to_owned(), data_type, nullable: true }
}

#[test]
fn types_widen_only_without_loss() {
    let decimal = DataType::Decimal128;
    for (from, to) in [
        (DataType::Int8, DataType::Int64),
        (DataType::UInt16, DataType::UInt32),
        (DataType::Float32, DataType::Float64),
        (decimal(5, 2), decimal(9, 2)),
        (DataType::Utf8, DataType::Utf8),
    ] {
        assert!(widens(&from, &to), "{from} {to}");
    }
    for (from, to) in [
        (DataType::Int64, DataType::Int8),
        (DataType::UInt8, DataType::Int16),
        (DataType::Int32, DataType::Float64),
        (decimal(5, 2), decimal(9, 3)),
        (decimal(9, 2), decimal(5, 2)),
        (DataType::Date32, DataType::Timestamp(TimeUnit::Second, None)),
        (DataType::Utf8, DataType::Binary),
    ] {
        assert!(!widens(&from, &to), "{from} {to}");
    }
}

#[test]
fn columns_are_adapted_by_id() {
    let old =
        [column(1, "a", DataType::Int32), column(2, "b", DataType::Utf8), column(3, "c", DataType::Int32)];
    let new =
        [column(4, "b", DataType::Utf8), column(1, "x", DataType::Int64), column(3, "a", DataType::Int32)];
    let (old, new) = (TableSchema::new(0, old.into()).unwrap(), TableSchema::new(1, new.into()).unwrap());
    let columns: [(&str, ArrayRef); 2] =
        [("c", Arc::new(Int32Array::from(vec![3]))), ("a", Arc::new(Int32Array::from(vec![1])))];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let adapted = adapt(&batch, &old, &new).unwrap();
    assert_eq!(adapted.schema_ref(), new.arrow());
    assert_eq!(adapted.column(0).null_count(), 1, "another column with the name of an old one");
    assert_eq!(adapted.column(1).as_primitive::<Int64Type>().value(0), 1);
    assert_eq!(adapted.column(2).as_ref(), batch.column(0).as_ref());

    let projected = new.project(&["a"]).unwrap();
    assert_eq!(adapt(&batch.project(&[0]).unwrap(), &old, &projected).unwrap().num_columns(), 1);
    let lacking = adapt(&batch.project(&[0]).unwrap(), &old, &new).unwrap_err();
    assert_eq!(lacking.kind(), ErrorKind::InvalidArgument);
    let alien = TableSchema::new(0, vec![column(1, "a", DataType::Utf8)]).unwrap();
    assert_eq!(adapt(&batch, &old, &alien).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn a_small_part_of_a_large_batch_is_copied() {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100_000));
    let words: ArrayRef = Arc::new(StringArray::from_iter_values((0..100_000).map(|id| id.to_string())));
    let batch = RecordBatch::try_from_iter([("id", ids), ("word", words)]).unwrap();
    let part = compact(batch.slice(500, 10)).unwrap();
    assert_eq!(part, batch.slice(500, 10));
    assert!(part.get_array_memory_size() < 2_000 && rows_bytes(&part) < 300);
    assert_eq!(compact(batch.clone()).unwrap(), batch);
}
