use super::{NestedIds, added_bytes, last_nested_id, with_nested_ids};
use arrow::array::{RecordBatch, new_null_array};
use arrow::datatypes::{DataType, Field, Schema};
use benthic_core::ErrorKind;
use benthic_table::TableSchema;
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::schema::types::Type;
use std::sync::Arc;

fn list(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new("item", item, true)))
}

/// Columns with all kinds of nested fields, among others.
fn schema() -> TableSchema {
    let number = |name: &str| Field::new(name, DataType::Int64, true);
    let pair = Field::new("text", DataType::Utf8, false);
    let pair = DataType::Struct(vec![pair, number("count")].into());
    let counts = DataType::Map(Arc::new(Field::new("entries", pair, false)), false);
    let jet =
        vec![Field::new("pt", DataType::Float32, true), Field::new("counts", counts, true), number("flag")];
    let fields = vec![
        number("id"),
        Field::new("jets", list(DataType::Struct(jet.into())), true),
        Field::new("text", DataType::Utf8, true),
        Field::new("grid", list(list(DataType::Decimal128(9, 2))), true),
        Field::new("point", DataType::Struct(vec![number("x"), number("y")].into()), true),
    ];
    TableSchema::from_arrow(&Schema::new(fields)).unwrap()
}

fn file(schema: &TableSchema) -> Vec<u8> {
    let columns = schema.arrow().fields().iter().map(|field| new_null_array(field.data_type(), 3)).collect();
    let rows = RecordBatch::try_new(Arc::clone(schema.arrow()), columns).unwrap();
    let mut writer = ArrowWriter::try_new(Vec::new(), rows.schema(), None).unwrap();
    writer.write(&rows).unwrap();
    writer.into_inner().unwrap()
}

/// The start of a file's footer, and the footer.
fn footer(file: &[u8]) -> (usize, &[u8]) {
    let end = file.len() - 8;
    let len_bytes = u32::from_le_bytes(file[end..end + 4].try_into().unwrap()) as usize;
    (end - len_bytes, &file[end - len_bytes..end])
}

fn named(field: &Type, into: &mut Vec<(String, Option<i32>)>) {
    let info = field.get_basic_info();
    into.push((info.name().to_owned(), info.has_id().then(|| info.id())));
    if field.is_group() {
        field.get_fields().iter().for_each(|field| named(field, into));
    }
}

#[test]
fn fields_within_columns_get_ids_and_the_rows_stay() {
    let schema = schema();
    let file = file(&schema);
    let (start, old) = footer(&file);
    let new = with_nested_ids(old).unwrap().unwrap();
    assert_eq!((new.len() - old.len()) as u64, added_bytes(&schema).unwrap());
    let len_bytes = u32::try_from(new.len()).unwrap().to_le_bytes();
    let shown = [&file[..start], &new, &len_bytes, b"PAR1"].concat();
    let reader = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(shown)).unwrap();
    let mut found = Vec::new();
    reader.parquet_schema().root_schema().get_fields().iter().for_each(|field| named(field, &mut found));
    let base = |column: i32| (1 << 24) + (column << 10);
    let expected = [
        ("id", Some(1)),
        ("jets", Some(2)),
        ("list", None),
        ("element", Some(base(2))),
        ("pt", Some(base(2) + 1)),
        ("counts", Some(base(2) + 2)),
        ("key_value", None),
        ("key", Some(base(2) + 3)),
        ("value", Some(base(2) + 4)),
        ("flag", Some(base(2) + 5)),
        ("text", Some(3)),
        ("grid", Some(4)),
        ("list", None),
        ("element", Some(base(4))),
        ("list", None),
        ("element", Some(base(4) + 1)),
        ("point", Some(5)),
        ("x", Some(base(5))),
        ("y", Some(base(5) + 1)),
    ];
    assert_eq!(found, expected.map(|(name, id)| (name.to_owned(), id)));
    assert_eq!(last_nested_id(&schema), base(5).unsigned_abs() + 1);
    let rows: usize = reader.build().unwrap().map(|batch| batch.unwrap().num_rows()).sum();
    assert_eq!(rows, 3);
}

#[test]
fn a_file_without_nested_columns_stays_as_it_is() {
    let schema = schema().project(&["id", "text"]).unwrap();
    let file = file(&schema);
    assert_eq!(with_nested_ids(footer(&file).1).unwrap(), None);
    assert_eq!((added_bytes(&schema).unwrap(), last_nested_id(&schema)), (0, 0));
}

#[test]
fn the_number_of_nodes_is_limited() {
    // A list of empty nodes, and the end of the footer.
    let footer = |nodes: u32| {
        let len = [nodes as u8 | 0x80, (nodes >> 7) as u8 | 0x80, (nodes >> 14) as u8];
        let mut footer = vec![0x29_u8, 0xfc, len[0], len[1], len[2]];
        footer.resize(footer.len() + nodes as usize + 1, 0);
        footer
    };
    assert_eq!(with_nested_ids(&footer(1 << 16)).unwrap(), None);
    assert_eq!(with_nested_ids(&footer((1 << 16) + 1)).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn damaged_footers_are_errors() {
    let file = file(&schema());
    let (_, whole) = footer(&file);
    let with_ids = with_nested_ids(whole).unwrap().unwrap();
    let error = with_nested_ids(&with_ids).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "the fields have ids already");
    // No change of a byte makes it panic.
    for place in 0..whole.len().min(600) {
        for change in [0x01, 0x10, 0x7f, 0xff] {
            let mut changed = whole.to_vec();
            changed[place] ^= change;
            let _ = with_nested_ids(&changed);
        }
        let _ = with_nested_ids(&whole[..place]);
    }
}

#[test]
fn ids_end_before_those_that_iceberg_reserves() {
    let mut ids = NestedIds::of(1);
    let all: Vec<u32> = std::iter::from_fn(|| ids.draw().ok()).collect();
    assert_eq!((all.len(), all[0]), (1 << 10, (1 << 24) + (1 << 10)));
    assert_eq!(NestedIds::of(2).draw().unwrap(), all[1_023] + 1);
    assert!(NestedIds::of(2_000_000).draw().unwrap() < i32::MAX.unsigned_abs());
    for column in [0, 3_000_000, u32::MAX] {
        assert_eq!(NestedIds::of(column).draw().unwrap_err().kind(), ErrorKind::Unsupported);
    }
}
