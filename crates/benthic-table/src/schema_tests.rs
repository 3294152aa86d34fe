use super::{COLUMNS_MAX, Column, FIELD_ID_KEY, TableSchema};
use arrow::datatypes::{DataType, Field, Fields, Schema, TimeUnit};
use benthic_core::ErrorKind;
use std::sync::Arc;

/// A schema with every type that a table can store.
pub(crate) fn every_type() -> TableSchema {
    let list = |name: &str, inner: DataType| Arc::new(Field::new(name, inner, true));
    let pair =
        Fields::from(vec![Field::new("k", DataType::Utf8, false), Field::new("v", DataType::Int8, true)]);
    let types = [
        DataType::Boolean,
        DataType::Int8,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::UInt8,
        DataType::UInt16,
        DataType::UInt32,
        DataType::UInt64,
        DataType::Float16,
        DataType::Float32,
        DataType::Float64,
        DataType::Utf8,
        DataType::Binary,
        DataType::Date32,
        DataType::FixedSizeBinary(7),
        DataType::Decimal128(38, 0),
        DataType::Decimal128(9, 9),
        DataType::Decimal256(76, 20),
        DataType::Time32(TimeUnit::Millisecond),
        DataType::Time64(TimeUnit::Microsecond),
        DataType::Time64(TimeUnit::Nanosecond),
        DataType::Timestamp(TimeUnit::Millisecond, None),
        DataType::Timestamp(TimeUnit::Nanosecond, Some("Europe/Berlin".into())),
        DataType::List(list("x", DataType::List(list("y", DataType::Utf8View)))),
        DataType::FixedSizeList(list("z", DataType::Float32), 3),
        DataType::Struct(Fields::from(vec![Field::new("s", DataType::LargeBinary, true)])),
        DataType::Map(Arc::new(Field::new("e", DataType::Struct(pair), false)), false),
        DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::LargeUtf8)),
    ];
    let fields = types
        .into_iter()
        .enumerate()
        .map(|(at, data_type)| Field::new(format!("c{at} ä"), data_type, at % 2 == 0));
    TableSchema::from_arrow(&Schema::new(fields.collect::<Vec<_>>())).unwrap()
}

#[test]
fn every_type_survives_encoding_and_decoding() {
    let schema = every_type();
    assert_eq!(TableSchema::decode(0, &schema.encode().unwrap()).unwrap(), schema);
    assert_eq!(schema.columns()[28].data_type, DataType::Utf8, "dictionaries are their values");
    let seconds = Field::new("t", DataType::Timestamp(TimeUnit::Second, None), true);
    let milliseconds = DataType::Timestamp(TimeUnit::Millisecond, None);
    assert_eq!(Column::from_arrow(1, &seconds).unwrap().data_type, milliseconds, "as Parquet has them");
    assert_eq!(schema.arrow().field(3).metadata()[FIELD_ID_KEY], "4");
}

#[test]
fn hostile_schemas_are_refused() {
    let bytes = every_type().encode().unwrap();
    for len in 0..bytes.len() {
        if let Ok(schema) = TableSchema::decode(0, &bytes[..len]) {
            assert!(schema.columns().len() < 29);
        }
    }
    let mut refused = 0;
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << bit;
            refused += usize::from(TableSchema::decode(0, &flipped).is_err());
        }
    }
    assert!(refused > bytes.len(), "refused={refused}");
    // Lists of lists of lists: each node is a child of the one before.
    let deep = [10, 4, 32, 21, 64, 1].repeat(5_000);
    assert_eq!(TableSchema::decode(0, &deep).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn the_number_of_columns_is_limited() {
    let columns = |count: usize| -> Vec<Column> {
        (1..=count as u32)
            .map(|id| Column { id, name: format!("column {id}"), data_type: DataType::Utf8, nullable: true })
            .collect()
    };
    let schema = TableSchema::new(0, columns(COLUMNS_MAX)).unwrap();
    let bytes = schema.encode().unwrap();
    assert!(bytes.len() < 400_000, "len_bytes={}", bytes.len());
    assert_eq!(TableSchema::decode(0, &bytes).unwrap(), schema);
    assert_eq!(TableSchema::new(0, columns(COLUMNS_MAX + 1)).unwrap_err().kind(), ErrorKind::LimitExceeded);
}

#[test]
fn column_names_and_ids_are_unique() {
    let column =
        |id: u32, name: &str| Column { id, name: name.to_owned(), data_type: DataType::Int8, nullable: true };
    for columns in [
        vec![],
        vec![column(1, "")],
        vec![column(1, "a\0")],
        vec![column(0, "a")],
        vec![column(1, "a"), column(2, "a")],
        vec![column(1, "a"), column(1, "b")],
    ] {
        assert_eq!(TableSchema::new(0, columns).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    let view = Column { data_type: DataType::Utf8View, ..column(1, "a") };
    assert_eq!(TableSchema::new(0, vec![view]).unwrap_err().kind(), ErrorKind::Unsupported);
    let schema = TableSchema::new(0, vec![column(1, "Name"), column(2, "other")]).unwrap();
    assert!(schema.by_name("name").unwrap_err().to_string().contains("did you mean \"Name\""));
    assert!(!schema.by_name("x").unwrap_err().to_string().contains("did you mean"));
}
