//! Events of a collider, whose columns are lists, structs and maps, and plans over them.

use super::{Expr, Numbers, Plan, filter, op, project, scan_of};
use arrow::array::{
    ArrayRef, Float32Array, Float64Array, Int32Builder, Int64Array, ListArray, MapBuilder, RecordBatch,
    StringArray, StringBuilder, StructArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use bytes::Bytes;
use datafusion_expr::{HigherOrderUDF, Operator, ScalarUDF};
use datafusion_physical_expr::expressions::{LambdaExpr, LambdaVariable, col, lit};
use datafusion_physical_expr::{HigherOrderFunctionExpr, ScalarFunctionExpr};
use parquet::arrow::ArrowWriter;
use std::sync::Arc;

pub const EVENTS: usize = 3_000;

pub struct Jet {
    pub pt: f32,
    pub tag: Option<String>,
}

/// An event: `None` for a null list.
pub type Event = Option<Vec<Jet>>;

pub fn events() -> Vec<Event> {
    let mut numbers = Numbers(3);
    let mut jet = || Jet {
        pt: numbers.below(2_000) as f32 / 10.0,
        tag: (numbers.below(4) > 0).then(|| format!("tag {}", numbers.below(30))),
    };
    (0..EVENTS).map(|id| (id % 11 != 5).then(|| (0..id % 7).map(|_| jet()).collect())).collect()
}

fn jet_fields() -> Fields {
    vec![Field::new("pt", DataType::Float32, true), Field::new("tag", DataType::Utf8, true)].into()
}

pub fn batch(events: &[Event]) -> RecordBatch {
    let jets: Vec<&Jet> = events.iter().flatten().flatten().collect();
    let pt: ArrayRef = Arc::new(jets.iter().map(|jet| Some(jet.pt)).collect::<Float32Array>());
    let tag: ArrayRef = Arc::new(jets.iter().map(|jet| jet.tag.as_deref()).collect::<StringArray>());
    let jets = StructArray::new(jet_fields(), vec![Arc::clone(&pt), tag], None);
    let lengths = || events.iter().map(|event| event.as_ref().map_or(0, Vec::len));
    let nulls = || Some(NullBuffer::from_iter(events.iter().map(Option::is_some)));
    let element = |data_type: &DataType| Arc::new(Field::new("element", data_type.clone(), true));
    let list = |values: ArrayRef| -> ArrayRef {
        let offsets = OffsetBuffer::from_lengths(lengths());
        Arc::new(ListArray::new(element(values.data_type()), offsets, values, nulls()))
    };
    let met: ArrayRef = Arc::new((0..events.len()).map(|id| Some(id as f64 / 2.0)).collect::<Float64Array>());
    let met_fields: Fields = vec![Field::new("pt", DataType::Float64, true)].into();
    let mut labels = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    for id in 0..events.len() {
        for label in 0..id % 3 {
            labels.keys().append_value(format!("label {label}"));
            labels.values().append_value(id as i32);
        }
        labels.append(id % 5 != 4).unwrap();
    }
    RecordBatch::try_from_iter_with_nullable([
        ("id", Arc::new(Int64Array::from_iter_values(0..events.len() as i64)) as ArrayRef, true),
        ("jets", list(Arc::new(jets)), true),
        ("pts", list(pt), true),
        ("met", Arc::new(StructArray::new(met_fields, vec![met], None)), true),
        ("labels", Arc::new(labels.finish()), true),
    ])
    .unwrap()
}

pub fn parquet(batch: &RecordBatch) -> Bytes {
    let mut writer =
        ArrowWriter::try_new(Vec::new(), batch.schema(), Some(super::bombs::properties().build())).unwrap();
    writer.write(batch).unwrap();
    Bytes::from(writer.into_inner().unwrap())
}

/// The type as a scan gives it, with views.
pub fn viewed(data_type: &DataType) -> DataType {
    let part = |field: &FieldRef| Arc::new(Field::clone(field).with_data_type(viewed(field.data_type())));
    match data_type {
        DataType::Utf8 => DataType::Utf8View,
        DataType::List(item) => DataType::List(part(item)),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(part).collect()),
        DataType::Map(entries, sorted) => DataType::Map(part(entries), *sorted),
        other => other.clone(),
    }
}

pub fn schema(batch: &RecordBatch) -> SchemaRef {
    let schema = batch.schema();
    let field = |field: &FieldRef| Field::clone(field).with_data_type(viewed(field.data_type()));
    Arc::new(Schema::new(schema.fields().iter().map(field).collect::<Vec<_>>()))
}

/// These columns of the events whose number is less than `below`.
pub fn some(schema: &SchemaRef, names: &[&str], below: i64) -> Plan {
    let scan = scan_of(Arc::clone(schema), names, None);
    let id = col("id", &scan.schema()).unwrap();
    filter(scan, op(id, Operator::Lt, lit(below)))
}

/// Reads all columns, and computes with the lists.
pub fn plan() -> Plan {
    let schema = schema(&batch(&events()[..1]));
    let input = some(&schema, &["id", "jets", "pts", "met", "labels"], 1 << 40);
    let of_input = input.schema();
    let columns =
        of_input.fields().iter().map(|field| (col(field.name(), &of_input).unwrap(), field.name().as_str()));
    let exprs = columns.chain([(sum_over(&of_input), "sum")]).collect();
    project(input, exprs)
}

pub fn call(function: Arc<ScalarUDF>, args: Vec<Expr>, schema: &Schema) -> Expr {
    Arc::new(ScalarFunctionExpr::try_new(function, args, schema, Arc::default()).unwrap())
}

/// A call whose lambda has the parameter `x`, an element of the list.
pub fn with_lambda(
    function: Arc<HigherOrderUDF>,
    list: Expr,
    schema: &Schema,
    body: impl FnOnce(Expr) -> Expr,
) -> Expr {
    let (DataType::List(item) | DataType::LargeList(item)) = list.data_type(schema).unwrap() else {
        unreachable!()
    };
    let field = Arc::new(Field::clone(&item).with_name("x"));
    let lambda = LambdaExpr::try_new(
        vec!["x".to_owned()],
        body(Arc::new(LambdaVariable::new(schema.fields().len(), field))),
    );
    let args = vec![list, Arc::new(lambda.unwrap()) as Expr];
    Arc::new(HigherOrderFunctionExpr::try_new_with_schema(function, args, schema, Arc::default()).unwrap())
}

/// Sums the momenta over 30 of each event's jets.
pub fn sum_over(schema: &Schema) -> Expr {
    let jets = col("jets", schema).unwrap();
    let high = with_lambda(higher("array_filter"), jets, schema, |jet| {
        op(field(jet, "pt", schema), Operator::Gt, lit(30.0_f32))
    });
    let to = DataType::List(Arc::new(Field::new_list_field(DataType::Float64, true)));
    let pts = with_lambda(higher("array_transform"), high, schema, |jet| field(jet, "pt", schema));
    let pts = datafusion_physical_expr::expressions::CastExpr::new(pts, to, None);
    call(datafusion_functions_nested::array_sum::array_sum_udf(), vec![Arc::new(pts)], schema)
}

pub fn field(of: Expr, name: &str, schema: &Schema) -> Expr {
    call(datafusion_functions::core::get_field(), vec![of, lit(name)], schema)
}

pub fn higher(name: &str) -> Arc<HigherOrderUDF> {
    let mut all = datafusion_functions_nested::all_default_higher_order_functions().into_iter();
    all.find(|function| function.name() == name).unwrap()
}
