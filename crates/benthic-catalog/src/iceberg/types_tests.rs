use super::{iceberg_type, shortest, single_value};
use arrow::array::{ArrayRef, Int64Array, StringArray, TimestampMillisecondArray};
use arrow::datatypes::{DataType, Field, TimeUnit};
use benthic_core::ErrorKind;
use benthic_table::Column;
use serde_json::json;
use std::sync::Arc;

fn column(data_type: DataType) -> Column {
    Column { id: 1, name: "c".to_owned(), data_type, nullable: true }
}

#[test]
fn types_have_the_names_of_the_specification() {
    let named = [
        (DataType::Int16, "int"),
        (DataType::Int64, "long"),
        (DataType::Decimal128(15, 2), "decimal(15,2)"),
        (DataType::FixedSizeBinary(16), "fixed[16]"),
        (DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())), "timestamptz"),
    ];
    for (data_type, name) in named {
        assert_eq!(iceberg_type(&column(data_type)).unwrap(), name);
    }
    let list = |item| DataType::List(Arc::new(Field::new("element", item, false)));
    let expected = json!({
        "type": "list",
        "element-id": (1 << 24) + (1 << 10),
        "element": { "type": "list", "element-id": (1 << 24) + (1 << 10) + 1, "element": "int", "element-required": true },
        "element-required": true,
    });
    assert_eq!(iceberg_type(&column(list(list(DataType::Int32)))).unwrap(), expected);
    assert_eq!(iceberg_type(&column(list(DataType::UInt32))).unwrap_err().kind(), ErrorKind::Unsupported);
    for data_type in [DataType::UInt64, DataType::Timestamp(TimeUnit::Nanosecond, None), DataType::Float16] {
        let error = iceberg_type(&column(data_type)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }
}

/// The examples for decimals in the documentation of Java's `BigInteger.toByteArray`, which the
/// specification names.
#[test]
fn decimals_take_the_least_bytes() {
    let all: [(i128, &[u8]); 8] = [
        (0, &[0]),
        (1, &[1]),
        (-1, &[0xff]),
        (127, &[0x7f]),
        (128, &[0, 0x80]),
        (-128, &[0x80]),
        (-129, &[0xff, 0x7f]),
        (1_420, &[0x05, 0x8c]),
    ];
    for (number, bytes) in all {
        assert_eq!(shortest(number), bytes, "{number}");
    }
    assert_eq!(shortest(i128::MIN), i128::MIN.to_be_bytes());
}

#[test]
fn values_are_little_endian() {
    let longs: ArrayRef = Arc::new(Int64Array::from(vec![Some(-2), None]));
    assert_eq!(single_value(&longs, 0), Some((-2_i64).to_le_bytes().to_vec()));
    assert_eq!(single_value(&longs, 1), None);
    let text: ArrayRef = Arc::new(StringArray::from(vec!["ä"]));
    assert_eq!(single_value(&text, 0), Some("ä".as_bytes().to_vec()));
    let times: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![7, i64::MAX]));
    assert_eq!(single_value(&times, 0), Some(7_000_i64.to_le_bytes().to_vec()));
    // A bound that microseconds cannot hold is left out.
    assert_eq!(single_value(&times, 1), None);
}
