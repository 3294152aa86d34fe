//! Every column type that a table supports.

use crate::support::{append, create, entries, environment, memory_pool, on_both_engines, read};
use arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeBinaryArray, FixedSizeListArray, Float32Array, Float64Array,
    Int32Builder, Int64Array, ListArray, MapBuilder, RecordBatch, StringBuilder, StructArray,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Float64Type, Int32Type, Schema, TimeUnit, UInt64Type};
use benthic_table::{Definition, FIELD_ID_KEY, Partitioning};
use futures::TryStreamExt;
use futures::executor::block_on;
use std::sync::Arc;

const ROWS: i64 = 1_000;

/// A column of each type, in which every seventh value is null.
pub fn every_type() -> RecordBatch {
    let numbers: ArrayRef =
        Arc::new(Int64Array::from_iter((0..ROWS).map(|row| (row % 7 != 3).then_some(row % 100))));
    let (seconds, milliseconds) = (TimeUnit::Second, TimeUnit::Millisecond);
    let (microseconds, nanoseconds) = (TimeUnit::Microsecond, TimeUnit::Nanosecond);
    let small = cast(&numbers, &DataType::Int32).unwrap();
    let text = cast(&numbers, &DataType::Utf8).unwrap();
    let from = |source: &ArrayRef, data_type: DataType| cast(source, &data_type).unwrap();
    let mut columns: Vec<ArrayRef> = vec![
        from(&numbers, DataType::Boolean),
        from(&numbers, DataType::Int8),
        from(&numbers, DataType::Int16),
        small.clone(),
        numbers.clone(),
        from(&numbers, DataType::UInt8),
        from(&numbers, DataType::UInt16),
        from(&numbers, DataType::UInt32),
        from(&numbers, DataType::UInt64),
        from(&numbers, DataType::Float16),
        from(&numbers, DataType::Float32),
        from(&numbers, DataType::Float64),
        text.clone(),
        from(&text, DataType::Binary),
        from(&small, DataType::Date32),
        from(&numbers, DataType::Decimal128(7, 2)),
        from(&numbers, DataType::Decimal128(38, 30)),
        from(&numbers, DataType::Decimal256(76, 20)),
        from(&small, DataType::Time32(seconds)),
        from(&small, DataType::Time32(milliseconds)),
        from(&numbers, DataType::Time64(microseconds)),
        from(&numbers, DataType::Time64(nanoseconds)),
        from(&numbers, DataType::Timestamp(seconds, None)),
        from(&numbers, DataType::Timestamp(milliseconds, Some("+02:00".into()))),
        from(&numbers, DataType::Timestamp(microseconds, Some("Europe/Berlin".into()))),
        from(&numbers, DataType::Timestamp(nanoseconds, None)),
        from(&text, DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))),
        from(&text, DataType::Utf8View),
        from(&text, DataType::LargeUtf8),
    ];
    let valid = |row: i64| row % 7 != 3;
    columns.push(Arc::new(
        FixedSizeBinaryArray::try_from_sparse_iter_with_size(
            (0..ROWS).map(|row| valid(row).then(|| row.to_le_bytes())),
            8,
        )
        .unwrap(),
    ));
    let list =
        |row: i64| valid(row).then(|| (0..row % 4).map(|n| (n != 1).then_some(n as i32)).collect::<Vec<_>>());
    columns.push(Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>((0..ROWS).map(list))));
    let pair = |row: i64| valid(row).then(|| vec![Some(row as i32), None]);
    columns
        .push(Arc::new(FixedSizeListArray::from_iter_primitive::<Int32Type, _, _>((0..ROWS).map(pair), 2)));
    let fields = [("word", text), ("n", numbers.clone())];
    let (names, arrays): (Vec<_>, Vec<_>) = fields
        .map(|(name, array)| (Field::new(name, array.data_type().clone(), true), array))
        .into_iter()
        .unzip();
    columns.push(Arc::new(StructArray::new(names.into(), arrays, numbers.nulls().cloned())));
    let mut map = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    for row in 0..ROWS {
        for entry in 0..row % 3 {
            map.keys().append_value(format!("key {entry}"));
            map.values().append_option(valid(row).then_some(row as i32));
        }
        map.append(valid(row)).unwrap();
    }
    columns.push(Arc::new(map.finish()));
    RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().enumerate().map(|(at, column)| (format!("c{at}"), column, true)),
    )
    .unwrap()
}

#[test]
fn every_type_is_read_back() {
    on_both_engines(|pool, _| {
        let (environment, _) = environment();
        let batch = every_type();
        let definition = Definition::new(&batch.schema()).unwrap();
        let table = create(&pool, "t", &definition, &environment);
        let back = read(&append(&table, &batch));
        for (at, (column, field)) in back.columns().iter().zip(definition.schema.arrow().fields()).enumerate()
        {
            assert_eq!(field.metadata()[FIELD_ID_KEY], (at + 1).to_string());
            assert_eq!(column, &cast(batch.column(at), field.data_type()).unwrap(), "{field}");
            assert!(column.null_count() > 0 && column.null_count() < batch.num_rows());
        }
    });
}

#[test]
fn columns_of_every_type_can_be_partitioned_by_or_are_refused() {
    let (environment, _) = environment();
    let batch = every_type();
    for column in Definition::new(&batch.schema()).unwrap().schema.columns() {
        let definition = Definition {
            partitioning: Partitioning::Hash { field: column.id, buckets: 4 },
            ..Definition::new(&batch.schema()).unwrap()
        };
        if column.data_type.is_nested() {
            assert!(definition.partitioning.check(&definition.schema).is_err());
            continue;
        }
        let table = create(&memory_pool(), "t", &definition, &environment);
        let snapshot = append(&table, &batch);
        assert_eq!(snapshot.rows(), ROWS as u64, "{}", column.data_type);
        let partitions: Vec<_> = entries(&snapshot).iter().map(|entry| entry.partition.unwrap()).collect();
        assert!(partitions.iter().all(|partition| (0..4).contains(partition)) && partitions.len() > 1);
    }
}

/// NaN and both zeros in the statistics that the writer stores in the file list: their bounds
/// include every value that a filter could match.
#[test]
fn list_statistics_handle_nan_and_both_zeros() {
    let (environment, _) = environment();
    let columns: [(&str, ArrayRef); 2] = [
        ("x", Arc::new(Float64Array::from(vec![Some(0.0), Some(f64::NAN), None, Some(-0.0)]))),
        ("y", Arc::new(Float32Array::from(vec![f32::NAN; 4]))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let table = create(&memory_pool(), "t", &Definition::new(&batch.schema()).unwrap(), &environment);
    let snapshot = append(&table, &batch);
    let files: Vec<RecordBatch> = block_on(snapshot.files(&["x", "y"]).unwrap().try_collect()).unwrap();
    let column = |name: &str| files[0].column_by_name(name).unwrap().clone();
    let bits = |name: &str| column(name).as_primitive::<Float64Type>().value(0).to_bits();
    assert_eq!((bits("min_1"), bits("max_1")), ((-0.0_f64).to_bits(), 0.0_f64.to_bits()));
    let count = |name: &str| column(name).as_primitive::<UInt64Type>().value(0);
    assert_eq!((count("nulls_1"), count("nans_1"), count("nulls_2"), count("nans_2")), (1, 1, 0, 4));
    assert_eq!(column("max_2").null_count(), 1);
    assert!(column("exact_2").as_boolean().value(0));
}

#[test]
fn only_the_requested_columns_are_read() {
    let (environment, _) = environment();
    let batch = every_type();
    let table = create(&memory_pool(), "t", &Definition::new(&batch.schema()).unwrap(), &environment);
    let snapshot = append(&table, &batch);
    let wanted = snapshot.schema().project(&["c30", "c4"]).unwrap();
    let entry = entries(&snapshot)[0].clone();
    let rows: Vec<RecordBatch> =
        block_on(async { snapshot.read(&entry, &wanted).await.unwrap().try_collect().await }).unwrap();
    assert_eq!(rows[0].schema_ref(), wanted.arrow());
    assert_eq!(rows[0].column(1).as_ref(), batch.column(4).as_ref());
    let none: Schema = Schema::empty();
    assert!(Definition::new(&none).is_err(), "a table has columns");
}
