use super::changes;
use arrow::datatypes::{DataType, Field};
use benthic_core::ErrorKind;
use benthic_table::{Alter, Column, TableSchema};
use serde_json::{Value, json};
use std::sync::Arc;

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
fn nested_columns_are_added_and_kept_but_not_changed() {
    let list = |element: &str, id: u32| json!({ "type": "list", "element-id": id, "element": element, "element-required": false });
    let nested = |id: u32, name: &str, data_type: Value| json!({ "id": id, "name": name, "type": data_type });
    let mut fields = as_it_is().to_vec();
    // A client counts from the greatest id, which a field within a column has.
    fields.push(nested(1 << 25, "prices", list("decimal(9, 2)", (1 << 25) + 1)));
    let element = Field::new("element", DataType::Decimal128(9, 2), true);
    let prices = DataType::List(Arc::new(element));
    let added = changes(&schema(), 5, &wanted(&fields)).unwrap();
    assert_eq!(added, [Alter::Add { name: "prices".to_owned(), data_type: prices.clone() }]);
    let mut columns = schema().columns().to_vec();
    columns.push(column(5, "prices", prices));
    let schema = TableSchema::new(3, columns).unwrap();
    let first = (1 << 24) + (5 << 10);
    let with = |last: Value| wanted(&[&as_it_is()[..], &[last]].concat());
    let same = with(nested(5, "prices", list("decimal(9, 2)", first)));
    assert_eq!(changes(&schema, 6, &same).unwrap(), []);
    let renamed = with(nested(5, "costs", list("decimal(9,2)", first)));
    let expected = Alter::Rename { from: "prices".to_owned(), to: "costs".to_owned() };
    assert_eq!(changes(&schema, 6, &renamed).unwrap(), [expected]);
    for other in [list("decimal(10,2)", first), list("decimal(9,2)", first + 1), json!("string")] {
        let error = changes(&schema, 6, &with(nested(5, "prices", other))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }
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
        vec![id.clone(), text.clone(), small.clone(), field(5, "new", "uuid")],
        with("required", json!(true)),
        with("type", json!({ "type": "list" })),
        with("type", json!("fixed[2000000000]")),
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
