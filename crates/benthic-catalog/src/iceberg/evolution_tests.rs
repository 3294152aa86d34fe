use super::changes;
use arrow::datatypes::DataType;
use benthic_core::ErrorKind;
use benthic_table::{Alter, Column, TableSchema};
use serde_json::{Value, json};

fn column(id: u32, name: &str, data_type: DataType) -> Column {
    Column { id, name: name.to_owned(), data_type, nullable: id != 1 }
}

/// A table with the columns 1 to 4, of which 3 was dropped.
fn schema() -> TableSchema {
    let columns = [(1, "id", DataType::Int32), (2, "text", DataType::Utf8), (4, "small", DataType::Int16)];
    TableSchema::new(2, columns.map(|(id, name, data_type)| column(id, name, data_type)).to_vec()).unwrap()
}

fn field(id: u32, name: &str, data_type: &str) -> Value {
    json!({ "id": id, "name": name, "type": data_type, "required": id == 1 })
}

fn wanted(fields: &[Value]) -> Value {
    json!({ "type": "struct", "fields": fields })
}

fn as_it_is() -> [Value; 3] {
    [field(1, "id", "int"), field(2, "text", "string"), field(4, "small", "int")]
}

#[test]
fn the_same_schema_changes_nothing() {
    assert_eq!(changes(&schema(), 5, &wanted(&as_it_is())).unwrap(), []);
}

#[test]
fn columns_are_dropped_renamed_widened_and_added_in_this_order() {
    let fields = [field(1, "text", "long"), field(4, "small", "int"), field(5, "new", "decimal(9, 2)")];
    let expected = [
        Alter::Drop { name: "text".to_owned() },
        Alter::Rename { from: "id".to_owned(), to: "text".to_owned() },
        Alter::Widen { name: "text".to_owned(), data_type: DataType::Int64 },
        Alter::Add { name: "new".to_owned(), data_type: DataType::Decimal128(9, 2) },
    ];
    assert_eq!(changes(&schema(), 5, &wanted(&fields)).unwrap(), expected);
}

#[test]
fn what_a_table_cannot_do_is_refused() {
    let [id, text, small] = as_it_is();
    let with = |attribute: &str, value: Value| {
        let mut field = field(5, "new", "int");
        field[attribute] = value;
        vec![id.clone(), text.clone(), small.clone(), field]
    };
    let refused = [
        vec![text.clone(), id.clone(), small.clone()],
        vec![id.clone(), field(5, "new", "int"), text.clone(), small.clone()],
        vec![id.clone(), field(2, "small", "string"), field(4, "text", "int")],
        vec![id.clone(), field(2, "id", "string"), small.clone()],
        vec![json!({ "id": 1, "name": "id", "type": "int", "required": false }), text.clone(), small.clone()],
        vec![id.clone(), text.clone(), small.clone(), field(3, "back", "int")],
        vec![id.clone(), text.clone(), small.clone(), field(6, "late", "int")],
        vec![id.clone(), text.clone(), small.clone(), field(5, "new", "uuid")],
        with("required", json!(true)),
        with("type", json!({ "type": "list" })),
        with("doc", json!("a comment")),
        with("write-default", json!(5)),
    ];
    for fields in refused {
        let error = changes(&schema(), 5, &wanted(&fields)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{fields:?}");
    }
    let mut keyed = wanted(&as_it_is());
    keyed["identifier-field-ids"] = json!([1]);
    assert_eq!(changes(&schema(), 5, &keyed).unwrap_err().kind(), ErrorKind::Unsupported);
    for invalid in
        [json!({}), json!([]), wanted(&[json!({ "id": 1 })]), wanted(&[json!({ "name": "x", "id": -1 })])]
    {
        assert_eq!(
            changes(&schema(), 5, &invalid).unwrap_err().kind(),
            ErrorKind::InvalidArgument,
            "{invalid}"
        );
    }
}
