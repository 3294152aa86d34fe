//! Lists, structs and maps.

use crate::common::bombs::{file, properties};
use crate::common::events::{self, EVENTS, batch, call, field, higher, parquet, some, with_lambda};
use crate::common::{Expr, Object, Plan, aggregate, filter, op, partial, project, scan_of};
use arrow::array::{
    Array, ArrayRef, AsArray, DictionaryArray, Float64Array, Int32Array, Int64Array, ListArray, RecordBatch,
    StringArray,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::{DataType, Field, Float64Type, Int32Type, Schema, UInt64Type};
use arrow::ipc::reader::StreamReader;
use benthic_fragment::fragment::{Envelope, Reply, Status, accepts, encode, run};
use bytes::Bytes;
use datafusion_common::ScalarValue;
use datafusion_expr::Operator;
use datafusion_functions::string::upper;
use datafusion_functions_aggregate::count::count_udaf;
use datafusion_functions_aggregate::min_max::max_udaf;
use datafusion_functions_nested::extract::array_element_udf;
use datafusion_functions_nested::length::array_length_udf;
use datafusion_physical_expr::expressions::{CastExpr, LambdaVariable, col, lit};
use std::io::Cursor;
use std::sync::Arc;

fn answer(object: &Bytes, plan: &Plan) -> Reply {
    run(&mut Object(object.clone()), &Envelope::new(encode(plan).unwrap()).to_bytes()).unwrap()
}

fn rows(object: &Bytes, plan: &Plan) -> RecordBatch {
    let reply = answer(object, plan);
    assert_eq!(reply.status, i32::from(Status::Ok), "{}", reply.message);
    let reader = StreamReader::try_new(Cursor::new(reply.ipc), None).unwrap();
    let schema = reader.schema();
    concat_batches(&schema, &reader.map(Result::unwrap).collect::<Vec<_>>()).unwrap()
}

#[test]
fn nested_columns_come_back_as_they_are() {
    let all = batch(&events::events());
    let schema = events::schema(&all);
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    let found = rows(&parquet(&all), &some(&schema, &names, 2_000));
    assert_eq!(found.num_rows(), 2_000);
    for (found, stored) in found.columns().iter().zip(all.slice(0, 2_000).columns()) {
        assert_eq!(&cast(found, stored.data_type()).unwrap(), stored);
    }
}

#[test]
fn a_narrow_answer_of_wide_rows_is_small() {
    let all = batch(&events::events());
    let plan = some(&events::schema(&all), &["id", "jets", "labels"], 10);
    let reply = answer(&parquet(&all), &plan);
    assert!(reply.rows == 10 && reply.ipc.len() < 20_000, "{} rows, {} bytes", reply.rows, reply.ipc.len());
}

#[test]
fn functions_of_lists_give_the_numbers_of_a_loop() {
    let events = events::events();
    let all = batch(&events);
    let input = some(&events::schema(&all), &["id", "jets", "pts", "met"], EVENTS as i64);
    let schema = input.schema();
    let of = |name: &str| col(name, &schema).unwrap();
    let tagged = with_lambda(higher("array_any_match"), of("jets"), &schema, |jet| {
        op(field(jet, "tag", &schema), Operator::Eq, lit(ScalarValue::Utf8View(Some("tag 7".to_owned()))))
    });
    let plan = project(
        input,
        vec![
            (call(array_length_udf(), vec![of("jets")], &schema), "length"),
            (call(array_element_udf(), vec![of("pts"), lit(2_i64)], &schema), "second"),
            (tagged, "tagged"),
            (events::sum_over(&schema), "sum"),
            (field(of("met"), "pt", &schema), "met"),
        ],
    );
    let found = rows(&parquet(&all), &plan);
    assert_eq!(found.num_rows(), EVENTS);
    for (row, event) in events.iter().enumerate() {
        let some = |name: &str| {
            let column = found.column_by_name(name).unwrap();
            column.is_valid(row).then(|| column.slice(row, 1))
        };
        let length = some("length").map(|value| value.as_primitive::<UInt64Type>().value(0) as usize);
        assert_eq!(length, event.as_ref().map(Vec::len));
        let second =
            some("second").map(|value| value.as_primitive::<arrow::datatypes::Float32Type>().value(0));
        assert_eq!(second, event.as_ref().and_then(|jets| Some(jets.get(1)?.pt)));
        let tags = event.as_ref().map(|jets| jets.iter().map(|jet| jet.tag.as_deref()).collect::<Vec<_>>());
        let tagged = tags.and_then(|tags| match () {
            () if tags.contains(&Some("tag 7")) => Some(true),
            () if tags.contains(&None) => None,
            () => Some(false),
        });
        assert_eq!(some("tagged").map(|value| value.as_boolean().value(0)), tagged, "{row}");
        let high = event.iter().flatten().map(|jet| f64::from(jet.pt)).filter(|pt| *pt > 30.0);
        let sum = high.reduce(|sum, pt| sum + pt);
        assert_eq!(some("sum").map(|value| value.as_primitive::<Float64Type>().value(0)), sum);
        assert_eq!(
            some("met").map(|value| value.as_primitive::<Float64Type>().value(0)),
            Some(row as f64 / 2.0)
        );
    }
}

#[test]
fn a_row_of_many_elements_is_left_to_the_client() {
    let list = |count: usize| -> Bytes {
        let values = Float64Array::from_iter_values((0..count).map(|value| value as f64));
        let item = Arc::new(Field::new("element", DataType::Float64, true));
        let list = ListArray::new(item, OffsetBuffer::from_lengths([1, count - 1]), Arc::new(values), None);
        file(Arc::new(list), properties()).into()
    };
    let schema = Arc::new(Schema::new(vec![Field::new_list(
        "s",
        Field::new("element", DataType::Float64, true),
        false,
    )]));
    let scan = || scan_of(Arc::clone(&schema), &["s"], None);
    let length = call(array_length_udf(), vec![col("s", &schema).unwrap()], &schema);
    let plan = project(scan(), vec![(length, "length")]);
    let found = rows(&list(50_000), &plan);
    assert_eq!(found.column(0).as_primitive::<UInt64Type>().values(), &[1, 49_999]);
    let reply = answer(&list(1_000_000), &plan);
    assert_eq!(reply.status, i32::from(Status::TooLarge), "{}", reply.message);
    assert!(reply.message.contains("lists"), "{}", reply.message);
}

/// Plans over lists that a hostile client could send. The class refuses them before it reads the
/// object.
#[test]
fn expressions_that_could_grow_are_refused() {
    let all = batch(&events::events());
    let schema = events::schema(&all);
    let input = || some(&schema, &["id", "jets", "pts", "labels"], 1_000);
    let fields = input().schema();
    let of = |name: &str| col(name, &fields).unwrap();
    let transform =
        |body: &dyn Fn(Expr) -> Expr| with_lambda(higher("array_transform"), of("jets"), &fields, body);
    let tag = |jet: Expr| field(jet, "tag", &fields);
    let as_text = |expr: Expr| -> Expr { Arc::new(CastExpr::new(expr, DataType::Utf8View, None)) };
    let count_tags = |jet: Expr| {
        with_lambda(higher("array_any_match"), of("jets"), &fields, |other| {
            op(field(other, "pt", &fields), Operator::Gt, field(jet, "pt", &fields))
        })
    };
    let refused = [
        ("a lambda in a lambda", transform(&count_tags)),
        ("a lambda that gives a text", transform(&tag)),
        ("a lambda that gives a literal", transform(&|_| lit("x"))),
        (
            "a lambda that makes texts",
            transform(&|jet| {
                let upper = call(upper(), vec![tag(jet)], &fields);
                op(upper, Operator::Eq, lit("TAG 1"))
            }),
        ),
        ("a list in a lambda", transform(&|_| call(array_length_udf(), vec![of("pts")], &fields))),
        ("a list as text", as_text(of("pts"))),
        ("a comparison of lists", op(of("pts"), Operator::Eq, of("pts"))),
        ("a map and a number of a list", op(of("labels"), Operator::Eq, of("labels"))),
    ];
    for (name, expr) in refused {
        let plan = project(input(), vec![(expr, "e")]);
        let envelope = Envelope::new(encode(&plan).unwrap());
        let why = accepts(&envelope).expect_err(name);
        assert!(why.contains("does not run beside objects") || why.contains("a lambda"), "{name}: {why}");
        let reply = answer(&parquet(&all), &plan);
        assert_eq!((reply.status, reply.reads), (Status::Unsupported.into(), 0), "{name}: {}", reply.message);
    }
    let texts = project(input(), vec![(as_text(of("id")), "text"), (of("pts"), "pts")]);
    let schema = texts.schema();
    let searched = with_lambda(higher("array_any_match"), col("pts", &schema).unwrap(), &schema, |_| {
        let text = ScalarValue::Utf8View(Some("7".to_owned()));
        op(col("text", &schema).unwrap(), Operator::Eq, lit(text))
    });
    accepts(&Envelope::new(encode(&project(texts, vec![(searched, "e")])).unwrap()))
        .expect_err("a text that is searched for each element");
    let max = partial(input(), &[], vec![aggregate(&input(), max_udaf(), of("pts"), "m")]);
    accepts(&Envelope::new(encode(&max).unwrap())).expect_err("the maximum of lists");
    accepts(&Envelope::new(encode(&partial(input(), &["pts"], vec![])).unwrap()))
        .expect_err("groups of lists");
    let count = partial(input(), &[], vec![aggregate(&input(), count_udaf(), of("pts"), "c")]);
    let counted = rows(&parquet(&all), &count);
    let lists = all.column_by_name("pts").unwrap().slice(0, 1_000);
    let expected = (lists.len() - lists.null_count()) as i64;
    assert_eq!(counted.column(0).as_any().downcast_ref::<Int64Array>().unwrap().value(0), expected);
}

/// If it named a column, each element would get a copy of the row's value.
#[test]
fn the_index_of_a_variable_in_a_plan_is_ignored() {
    let all = batch(&events::events());
    let input = some(&events::schema(&all), &["id", "pts"], 1_000);
    let schema = input.schema();
    let plan = |index: usize| {
        let element = Arc::new(Field::new("x", DataType::Float32, true));
        let high = op(Arc::new(LambdaVariable::new(index, element)), Operator::Gt, lit(30.0_f32));
        let lambda = with_lambda(higher("array_any_match"), col("pts", &schema).unwrap(), &schema, |_| high);
        project(Arc::clone(&input), vec![(lambda, "e")])
    };
    let expected = rows(&parquet(&all), &plan(2));
    assert!(expected.column(0).as_boolean().true_count() > 0);
    for index in [0, 1, 7] {
        assert_eq!(rows(&parquet(&all), &plan(index)), expected, "{index}");
    }
}

/// A long text that every element of every list has.
#[test]
fn a_long_text_in_every_element_is_not_copied() {
    let text: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(100 * 1024)]));
    let same = DictionaryArray::<Int32Type>::new(Int32Array::from(vec![0; 20_000]), text);
    let item = Arc::new(Field::new("element", same.data_type().clone(), true));
    let list = ListArray::new(item, OffsetBuffer::from_lengths(vec![4; 5_000]), Arc::new(same), None);
    let object = file(Arc::new(list), properties().set_dictionary_page_size_limit(4 * 1024 * 1024));
    let element = Field::new("element", DataType::Utf8View, true);
    let schema = Arc::new(Schema::new(vec![Field::new_list("s", element, false)]));
    let scan = scan_of(Arc::clone(&schema), &["s"], None);
    let long = call(array_length_udf(), vec![col("s", &schema).unwrap()], &schema);
    let filtered = filter(scan, op(long, Operator::Eq, lit(4_u64)));
    let count = aggregate(&filtered, count_udaf(), lit(1_i64), "c");
    let found = rows(&object.into(), &partial(filtered, &[], vec![count]));
    assert_eq!(found.column(0).as_any().downcast_ref::<Int64Array>().unwrap().value(0), 5_000);
}
