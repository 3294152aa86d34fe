//! Envelopes that the fragment class must refuse, each with the reason.

use super::{FIRST_DAY, Plan, filter, partial, point, q1, q6, scan};
use benthic_fragment::fragment::{Envelope, WasmMethod, encode};
use bytes::Bytes;
use datafusion_common::ScalarValue;
use datafusion_expr::Operator;
use datafusion_physical_expr::expressions::{Column, lit};
use datafusion_proto_models::datafusion_common::ArrowType;
use datafusion_proto_models::datafusion_common::arrow_type::ArrowTypeEnum;
use datafusion_proto_models::datafusion_common::{self as messages, EmptyMessage, ParquetOptions};
use datafusion_proto_models::protobuf;
use datafusion_proto_models::protobuf::physical_expr_node::ExprType;
use datafusion_proto_models::protobuf::physical_plan_node::PhysicalPlanType;
use prost::Message;
use std::sync::Arc;

/// A name for the log, the envelope, and part of the refusal's message.
pub type Hostile = (&'static str, Envelope, &'static str);

fn node(plan: &Plan) -> protobuf::PhysicalPlanNode {
    protobuf::PhysicalPlanNode::decode(encode(plan).unwrap().as_ref()).unwrap()
}

fn plan(kind: PhysicalPlanType) -> Envelope {
    let node = protobuf::PhysicalPlanNode { physical_plan_type: Some(kind) };
    Envelope::new(Bytes::from(node.encode_to_vec()))
}

/// A scan with a modified protobuf node.
fn scan_with(change: impl FnOnce(&mut protobuf::ParquetScanExecNode)) -> Envelope {
    let mut node = node(&scan(&["l_orderkey"], None));
    let Some(PhysicalPlanType::ParquetScan(scan)) = &mut node.physical_plan_type else { unreachable!() };
    change(scan);
    Envelope::new(Bytes::from(node.encode_to_vec()))
}

/// A scan with this predicate.
fn predicate(expr: ExprType) -> Envelope {
    scan_with(|scan| {
        scan.predicate = Some(protobuf::PhysicalExprNode { expr_id: None, expr_type: Some(expr) });
    })
}

fn file_at(url: &str) -> Envelope {
    scan_with(|scan| {
        let conf = scan.base_conf.as_mut().unwrap();
        conf.object_store_url = url.to_owned();
        let file =
            protobuf::PartitionedFile { path: "etc/passwd".to_owned(), size: 1_000, ..Default::default() };
        conf.file_groups = vec![protobuf::FileGroup { files: vec![file] }];
    })
}

fn column(index: u32) -> protobuf::PhysicalExprNode {
    let column = protobuf::PhysicalColumn { name: "l_orderkey".to_owned(), index };
    protobuf::PhysicalExprNode { expr_id: None, expr_type: Some(ExprType::Column(column)) }
}

fn call(name: &str, fun_definition: Option<Vec<u8>>) -> ExprType {
    ExprType::ScalarUdf(protobuf::PhysicalScalarUdfNode {
        name: name.to_owned(),
        args: vec![column(0)],
        fun_definition,
        return_type: Some(ArrowType { arrow_type_enum: Some(ArrowTypeEnum::Bool(EmptyMessage {})) }),
        nullable: true,
        return_field_name: "f".to_owned(),
    })
}

fn call_of(name: &str, args: Vec<protobuf::PhysicalExprNode>) -> ExprType {
    let ExprType::ScalarUdf(call) = call(name, None) else { unreachable!() };
    ExprType::ScalarUdf(protobuf::PhysicalScalarUdfNode { args, ..call })
}

fn operands(op: &str, count: usize) -> ExprType {
    let operands = (0..count).map(|_| column(0)).collect();
    ExprType::BinaryExpr(Box::new(protobuf::PhysicalBinaryExprNode {
        l: None,
        r: None,
        op: op.to_owned(),
        operands,
    }))
}

/// NOT NOT NOT …, encoded from the inside out, because the encoder would recurse.
fn nested_nots(count: usize) -> Envelope {
    let wrap = |tag: u32, inner: &[u8]| {
        let mut bytes = Vec::with_capacity(inner.len() + 8);
        prost::encoding::encode_varint(u64::from(tag << 3 | 2), &mut bytes);
        prost::encoding::encode_varint(inner.len() as u64, &mut bytes);
        bytes.extend_from_slice(inner);
        bytes
    };
    let mut expr = column(0).encode_to_vec();
    for _ in 0..count {
        // PhysicalNot.expr is 1, PhysicalExprNode.not_expr is 7.
        expr = wrap(7, &wrap(1, &expr));
    }
    let base = node(&scan(&["l_orderkey"], None));
    let Some(PhysicalPlanType::ParquetScan(scan)) = base.physical_plan_type else { unreachable!() };
    // ParquetScanExecNode.predicate is 3, PhysicalPlanNode.parquet_scan is 1.
    let mut scan = scan.encode_to_vec();
    scan.extend(wrap(3, &expr));
    Envelope::new(Bytes::from(wrap(1, &scan)))
}

fn filter_with(change: impl FnOnce(&mut protobuf::FilterExecNode)) -> Envelope {
    let mut node = node(&point(1));
    let Some(PhysicalPlanType::Filter(filter)) = &mut node.physical_plan_type else { unreachable!() };
    change(filter);
    Envelope::new(Bytes::from(node.encode_to_vec()))
}

fn sort(change: impl FnOnce(&mut protobuf::SortExecNode)) -> Envelope {
    let key = Arc::new(Column::new("l_orderkey", 0));
    let mut node = node(&super::first(scan(&["l_orderkey"], None), vec![key], false, 10));
    let Some(PhysicalPlanType::Sort(sort)) = &mut node.physical_plan_type else { unreachable!() };
    change(sort);
    Envelope::new(Bytes::from(node.encode_to_vec()))
}

/// A hint for which a decoder would reserve memory.
pub fn huge_limit() -> Envelope {
    aggregate(|node| {
        node.limit = Some(protobuf::AggLimit { limit: 1 << 40, descending: Some(true) });
    })
}

fn nested_filters(count: usize) -> Envelope {
    let mut plan = scan(&["l_orderkey"], None);
    for _ in 0..count {
        plan = filter(plan, lit(true));
    }
    Envelope::new(encode(&plan).unwrap())
}

fn aggregate(change: impl FnOnce(&mut protobuf::AggregateExecNode)) -> Envelope {
    let mut node = node(&q1());
    let Some(PhysicalPlanType::Aggregate(aggregate)) = &mut node.physical_plan_type else { unreachable!() };
    change(aggregate);
    Envelope::new(Bytes::from(node.encode_to_vec()))
}

/// Q1 with one aggregate: this function of the first column and other arguments.
fn aggregate_of(
    name: &str,
    others: Vec<protobuf::PhysicalExprNode>,
    change: impl FnOnce(&mut protobuf::PhysicalAggregateExprNode),
) -> Envelope {
    use protobuf::physical_aggregate_expr_node::AggregateFunction::UserDefinedAggrFunction;
    aggregate(|node| {
        node.aggr_expr.truncate(1);
        node.aggr_expr_name.truncate(1);
        node.filter_expr.truncate(1);
        let Some(ExprType::AggregateExpr(expr)) = &mut node.aggr_expr[0].expr_type else { unreachable!() };
        expr.aggregate_function = Some(UserDefinedAggrFunction(name.to_owned()));
        expr.expr.extend(others);
        change(expr);
    })
}

fn number(value: messages::scalar_value::Value) -> protobuf::PhysicalExprNode {
    expr(ExprType::Literal(messages::ScalarValue { value: Some(value) }))
}

fn quantile(centroids: protobuf::PhysicalExprNode) -> Envelope {
    let half = number(messages::scalar_value::Value::Float64Value(0.5));
    aggregate_of("approx_percentile_cont", vec![half, centroids], |_| {})
}

/// The groups of Q1, in each of so many sets.
fn grouping_sets(count: usize, change: impl FnOnce(&mut protobuf::AggregateExecNode)) -> Envelope {
    aggregate(|node| {
        node.has_grouping_set = true;
        node.groups = vec![false; count * node.group_expr.len()];
        node.null_expr = vec![text(String::new()); node.group_expr.len()];
        change(node);
    })
}

/// A filter that calls the method `a.b` this many times, with the node of the last call changed.
fn method_calls(count: usize, change: impl Fn(&mut protobuf::PhysicalScalarUdfNode)) -> Envelope {
    let literal =
        messages::ScalarValue { value: Some(messages::scalar_value::Value::Utf8Value("a.b".to_owned())) };
    let literal = protobuf::PhysicalExprNode { expr_id: None, expr_type: Some(ExprType::Literal(literal)) };
    let calls = (1..=count).map(|number| {
        let Some(ExprType::ScalarUdf(mut call)) = Some(call("wasm", None)) else { unreachable!() };
        call.args = vec![literal.clone(), column(0)];
        if number == count {
            change(&mut call);
        }
        protobuf::PhysicalExprNode { expr_id: None, expr_type: Some(ExprType::ScalarUdf(call)) }
    });
    let mut node = node(&filter(scan(&["l_orderkey"], None), lit(true)));
    let Some(PhysicalPlanType::Filter(filter)) = &mut node.physical_plan_type else { unreachable!() };
    let operands = calls.collect();
    let and = protobuf::PhysicalBinaryExprNode { op: "And".to_owned(), operands, ..Default::default() };
    let and =
        protobuf::PhysicalExprNode { expr_id: None, expr_type: Some(ExprType::BinaryExpr(Box::new(and))) };
    filter.expr = Some(and);
    let methods =
        vec![WasmMethod { name: "a.b".to_owned(), module: vec![0; 32].into(), ..Default::default() }];
    Envelope { methods, ..Envelope::new(Bytes::from(node.encode_to_vec())) }
}

/// A filter with one call of a method in the scan's predicate.
fn predicate_with_method() -> Envelope {
    let calls = method_calls(1, |_| {});
    let node = protobuf::PhysicalPlanNode::decode(calls.plan.clone()).unwrap();
    let Some(PhysicalPlanType::Filter(filter)) = node.physical_plan_type else { unreachable!() };
    let scan = scan_with(|scan| scan.predicate = filter.expr);
    Envelope { methods: calls.methods, ..scan }
}

/// All envelopes that are refused before any plan is built.
pub fn refused() -> Vec<Hostile> {
    let input = || Some(Box::new(node(&scan(&["l_orderkey"], None))));
    let sink = protobuf::ParquetSinkExecNode { input: input(), ..Default::default() };
    let csv_sink = protobuf::CsvSinkExecNode { input: input(), ..Default::default() };
    let json_sink = protobuf::JsonSinkExecNode { input: input(), ..Default::default() };
    let merge = protobuf::CoalescePartitionsExecNode { input: input(), ..Default::default() };
    let repartition = protobuf::RepartitionExecNode { input: input(), ..Default::default() };
    let list = lit(ScalarValue::List(ScalarValue::new_list_nullable(
        &[ScalarValue::Int64(Some(1))],
        &arrow::datatypes::DataType::Int64,
    )));
    let list = filter(scan(&["l_orderkey"], None), list_is_null(list));
    let point = Envelope::new(encode(&point(1)).unwrap());
    vec![
        ("parquet sink", plan(PhysicalPlanType::ParquetSink(Box::new(sink))), "a node of the plan"),
        ("csv sink", plan(PhysicalPlanType::CsvSink(Box::new(csv_sink))), "a node of the plan"),
        ("json sink", plan(PhysicalPlanType::JsonSink(Box::new(json_sink))), "a node of the plan"),
        ("csv scan", plan(PhysicalPlanType::CsvScan(Default::default())), "a node of the plan"),
        ("spawning merge", plan(PhysicalPlanType::Merge(Box::new(merge))), "a node of the plan"),
        ("repartition", plan(PhysicalPlanType::Repartition(Box::new(repartition))), "a node of the plan"),
        ("extension", plan(PhysicalPlanType::Extension(Default::default())), "a node of the plan"),
        ("no node", Envelope::new(Bytes::new()), "a node of the plan"),
        ("file scan", file_at("file:///"), "files other than the object"),
        ("scan without address", file_at(""), "files other than the object"),
        ("other file of the object's address", file_at("benthic://object/"), "files other than the object"),
        ("unknown function", predicate(call("read_file", None)), "a function"),
        ("function that makes much", predicate(call("repeat", None)), "a function"),
        ("function that is not pure", predicate(call("random", None)), "a function"),
        ("function with a payload", predicate(call("abs", Some(vec![1, 2, 3]))), "a function"),
        ("methods where none may run", method_calls(4, |_| {}), "no WebAssembly methods"),
        ("too many calls of methods", method_calls(5, |_| {}), "too many methods"),
        (
            "too many methods",
            Envelope { methods: vec![WasmMethod::default(); 5], ..method_calls(1, |_| {}) },
            "names too many methods",
        ),
        ("method in a scan", predicate_with_method(), "a scan calls a method"),
        ("method without a value", method_calls(1, |call| call.args.truncate(1)), "two arguments"),
        ("method that is no literal", method_calls(2, |call| call.args.swap(0, 1)), "does not have"),
        (
            "method that is not sent",
            Envelope { methods: Vec::new(), ..method_calls(1, |_| {}) },
            "does not have",
        ),
        (
            "method with a payload",
            method_calls(1, |call| call.fun_definition = Some(vec![1])),
            "does not have",
        ),
        ("unknown operator", predicate(operands("Explode", 2)), "an operator"),
        ("many operands", predicate(operands("And", 1_000)), "too deep"),
        ("very many operands", predicate(operands("And", 60_000)), "too many nodes"),
        ("nested deeply", nested_nots(2_000), "the plan cannot be decoded"),
        ("nested plans", nested_filters(80), "the plan cannot be decoded"),
        ("nested literal", Envelope::new(encode(&list).unwrap()), "a literal"),
        (
            "final aggregate",
            aggregate(|node| node.mode = protobuf::AggregateMode::Final as i32),
            "not a partial",
        ),
        (
            "groups of nothing",
            aggregate(|node| {
                node.group_expr.clear();
                node.group_expr_name.clear();
            }),
            "not complete",
        ),
        (
            "unknown aggregate",
            aggregate(|node| {
                let Some(ExprType::AggregateExpr(expr)) = &mut node.aggr_expr[0].expr_type else {
                    unreachable!()
                };
                expr.aggregate_function =
                    Some(protobuf::physical_aggregate_expr_node::AggregateFunction::UserDefinedAggrFunction(
                        "array_agg".to_owned(),
                    ));
            }),
            "an aggregate function",
        ),
        ("exact median", aggregate_of("median", Vec::new(), |_| {}), "an aggregate function"),
        (
            "distinct values",
            aggregate_of("bit_xor", Vec::new(), |expr| expr.distinct = true),
            "a distinct or ordered",
        ),
        (
            "an ordered sum",
            aggregate_of("sum", Vec::new(), |expr| expr.ordering_req = vec![Default::default()]),
            "a distinct or ordered",
        ),
        (
            "a quantile in two orders",
            aggregate_of("approx_median", Vec::new(), |expr| {
                expr.ordering_req = vec![Default::default(); 2];
            }),
            "quantiles",
        ),
        ("many centroids", quantile(number(messages::scalar_value::Value::Int64Value(1_001))), "centroids"),
        ("minus one centroid", quantile(number(messages::scalar_value::Value::Int64Value(-1))), "centroids"),
        ("centroids of a column", quantile(column(0)), "centroids"),
        (
            "many quantiles",
            aggregate(|node| {
                use protobuf::physical_aggregate_expr_node::AggregateFunction::UserDefinedAggrFunction;
                let Some(ExprType::AggregateExpr(expr)) = &mut node.aggr_expr[0].expr_type else {
                    unreachable!()
                };
                expr.aggregate_function = Some(UserDefinedAggrFunction("approx_median".to_owned()));
                node.aggr_expr = vec![node.aggr_expr[0].clone(); 17];
                node.aggr_expr_name = vec![String::new(); 17];
                node.filter_expr = vec![Default::default(); 17];
            }),
            "quantiles",
        ),
        (
            "many aggregates",
            aggregate(|node| {
                node.aggr_expr = vec![node.aggr_expr[0].clone(); 101];
                node.aggr_expr_name = vec![String::new(); 101];
                node.filter_expr = vec![Default::default(); 101];
            }),
            "too many functions",
        ),
        (
            "a scan that copies strings",
            scan_with(|scan| {
                let columns = &mut scan.base_conf.as_mut().unwrap().schema.as_mut().unwrap().columns;
                let utf8 = ArrowType { arrow_type_enum: Some(ArrowTypeEnum::Utf8(EmptyMessage {})) };
                columns[15].arrow_type = Some(Box::new(utf8));
            }),
            "views",
        ),
        (
            "a scan that computes",
            scan_with(|scan| {
                let conf = scan.base_conf.as_mut().unwrap();
                let expr = protobuf::PhysicalExprNode { expr_id: None, expr_type: Some(call("upper", None)) };
                conf.projection_exprs.as_mut().unwrap().projections[0].expr = Some(expr);
            }),
            "a scan computes",
        ),
        ("a list of fixed length", scan_of(ArrowTypeEnum::FixedSizeList(Box::new(fixed_list()))), "a type"),
        ("a list without a type", scan_of(ArrowTypeEnum::List(Box::default())), "a type"),
        ("lists in lists", scan_of(lists(9, int64())), "a type is nested too deeply"),
        ("a list that copies strings", scan_of(lists(2, ArrowTypeEnum::Utf8(EmptyMessage {}))), "views"),
        ("a struct of very many columns", scan_of(wide_struct()), "too many columns"),
        ("a lambda alone", predicate(lambda(&["x"], column(0))), "an expression"),
        ("a variable alone", predicate(variable()), "an expression"),
        ("a lambda of two", predicate(any_match(&["x", "y"], column(0))), "several parameters"),
        (
            "a lambda in a lambda",
            predicate(any_match(&["x"], expr(any_match(&["y"], column(0))))),
            "in another",
        ),
        (
            "a lambda that is none",
            predicate(higher_order("array_filter", vec![column(0); 2], None)),
            "other arguments",
        ),
        ("unknown lambda function", predicate(higher_order("array_reduce", vec![], None)), "a function"),
        (
            "a lambda function with a payload",
            predicate(higher_order(
                "array_filter",
                vec![column(0), expr(lambda(&["x"], column(0)))],
                Some(vec![1]),
            )),
            "a function",
        ),
        (
            "elements of two lists",
            predicate(call_of("array_has_all", vec![column(0), column(0)])),
            "a function",
        ),
        ("many lists", predicate(call_of("array_sum", vec![column(0), column(0)])), "more arguments"),
        (
            "a method in a lambda",
            predicate(any_match(&["x"], expr(call_of("wasm", vec![text("a.b".to_owned()), column(0)])))),
            "a function",
        ),
        ("a long literal", long_literal(), "literals are too long"),
        (
            "a scan that filters",
            scan_with(|scan| {
                let global = ParquetOptions { pushdown_filters: true, ..ParquetOptions::default() };
                let options = scan.parquet_options.get_or_insert_default();
                options.global = Some(global);
            }),
            "a scan filters",
        ),
        ("a sort of all rows", sort(|sort| sort.fetch = -1), "a sort of all rows"),
        ("a sort of no rows", sort(|sort| sort.fetch = 0), "a sort of all rows"),
        ("a sort of many rows", sort(|sort| sort.fetch = 8_193), "a sort of all rows"),
        ("a sort of very many rows", sort(|sort| sort.fetch = i64::MAX), "a sort of all rows"),
        ("a sort without an order", sort(|sort| sort.expr = vec![column(0)]), "without an order"),
        ("a sort by nothing", sort(|sort| sort.expr.clear()), "without an order"),
        ("a sort by many keys", sort(|sort| sort.expr = vec![sort.expr[0].clone(); 33]), "too many strings"),
        (
            "a sort by an unknown function",
            sort(|sort| {
                let Some(ExprType::Sort(key)) = &mut sort.expr[0].expr_type else { unreachable!() };
                key.expr = Some(Box::new(expr(call("read_file", None))));
            }),
            "a function",
        ),
        ("a scan of very many columns", wide_scan(), "too many columns"),
        (
            "a filter of very many columns",
            filter_with(|filter| filter.projection = vec![0; 100_000]),
            "too many columns",
        ),
        ("groups of no set", aggregate(|node| node.groups = vec![false; 100_000]), "grouping sets"),
        ("very many grouping sets", grouping_sets(33, |_| {}), "grouping sets"),
        ("no grouping sets", grouping_sets(0, |_| {}), "grouping sets"),
        ("half of a grouping set", grouping_sets(1, |node| node.groups.truncate(1)), "grouping sets"),
        ("grouping sets without nulls", grouping_sets(1, |node| node.null_expr.clear()), "grouping sets"),
        (
            "grouping sets of columns",
            grouping_sets(1, |node| node.null_expr = node.group_expr.clone()),
            "grouping sets",
        ),
        (
            "grouping sets of nothing",
            grouping_sets(1, |node| {
                node.group_expr.clear();
                node.group_expr_name.clear();
                node.null_expr.clear();
            }),
            "grouping sets",
        ),
        ("a pattern for each row", predicate(like(column(15))), "not the same for all rows"),
        ("a long pattern", predicate(like(text("%x".repeat(100)))), "patterns"),
        ("many patterns", many_patterns(), "patterns"),
        (
            "a search for each row",
            predicate(call_of("contains_words", vec![column(15), column(15)])),
            "not the same for all rows",
        ),
        (
            "a long search",
            predicate(call_of("contains_phrase", vec![column(15), text("x ".repeat(100))])),
            "patterns",
        ),
        ("a search for nothing", predicate(call_of("contains_prefix", vec![column(15)])), "two arguments"),
        ("trimming by a column", predicate(trim_by_column()), "trimming"),
        ("many literals", many_literals(), "literals are too long"),
        ("nested cases", predicate(cases(5)), "nested too deep"),
        ("many strings", many_strings(), "too many strings"),
        ("batches of nothing", Envelope { batch_rows: 0, ..point.clone() }, "the batch"),
        ("huge batches", Envelope { batch_rows: u32::MAX, ..point.clone() }, "the batch"),
        ("huge answer", Envelope { output_bytes_max: u64::MAX, ..point.clone() }, "the batch"),
        (
            "no plan",
            Envelope { plan: Bytes::from_static(b"\xff\xff\xff"), ..point },
            "the plan cannot be decoded",
        ),
    ]
}

/// Searches of texts, and filters of joins, that are refused before any plan is built.
pub fn refused_filters() -> Vec<Hostile> {
    vec![
        (
            "a regular expression for each row",
            predicate(operands("RegexMatch", 2)),
            "not the same for all rows",
        ),
        ("a regular expression of three", predicate(operands("RegexNotIMatch", 3)), "two operands"),
        ("a long regular expression", predicate(regex(&"x".repeat(129))), "patterns"),
        ("many regular expressions", any((0..5).map(|_| expr(regex("x+"))).collect()), "are too many"),
        ("a membership filter without blocks", predicate(membership(&[], 1)), "incomplete"),
        ("a membership filter with a part of a block", predicate(membership(&[0xff; 33], 1)), "incomplete"),
        (
            "a membership filter that is too large",
            predicate(membership(&[0xff; 256 * 1024 + 32], 1)),
            "too large",
        ),
        (
            "membership filters that are too large together",
            any((0..3).map(|_| expr(membership(&[0xff; 128 * 1024], 1))).collect()),
            "too large",
        ),
        ("a membership filter without keys", predicate(membership(&[0xff; 32], 0)), "no keys"),
        ("a membership filter of many keys", predicate(membership(&[0xff; 32], 9)), "no keys, or too many"),
        (
            "a membership filter in a lambda",
            predicate(any_match(&["x"], expr(membership(&[0xff; 32], 1)))),
            "a function",
        ),
        (
            "a path in JSON for each row",
            predicate(call_of("json_get", vec![column(15), column(15)])),
            "a path in JSON",
        ),
        (
            "a long path in JSON",
            predicate(call_of("json_get", [vec![column(15)], vec![text("a".to_owned()); 17]].concat())),
            "a path in JSON",
        ),
    ]
}

fn int64() -> ArrowTypeEnum {
    ArrowTypeEnum::Int64(EmptyMessage {})
}

fn field(kind: ArrowTypeEnum) -> messages::Field {
    let kind = ArrowType { arrow_type_enum: Some(kind) };
    messages::Field { name: "f".to_owned(), arrow_type: Some(Box::new(kind)), ..Default::default() }
}

fn lists(depth: usize, of: ArrowTypeEnum) -> ArrowTypeEnum {
    (0..depth).fold(of, |item, _| {
        ArrowTypeEnum::List(Box::new(messages::List { field_type: Some(Box::new(field(item))) }))
    })
}

fn fixed_list() -> messages::FixedSizeList {
    messages::FixedSizeList { field_type: Some(Box::new(field(int64()))), list_size: i32::MAX }
}

fn wide_struct() -> ArrowTypeEnum {
    ArrowTypeEnum::Struct(messages::Struct { sub_field_types: vec![field(int64()); 10_000] })
}

/// A scan whose first column has this type.
fn scan_of(kind: ArrowTypeEnum) -> Envelope {
    scan_with(|scan| {
        let columns = &mut scan.base_conf.as_mut().unwrap().schema.as_mut().unwrap().columns;
        columns[0].arrow_type = Some(Box::new(ArrowType { arrow_type_enum: Some(kind) }));
    })
}

fn lambda(params: &[&str], body: protobuf::PhysicalExprNode) -> ExprType {
    ExprType::Lambda(Box::new(protobuf::PhysicalLambdaExprNode {
        params: params.iter().map(|name| (*name).to_owned()).collect(),
        body: Some(Box::new(body)),
    }))
}

fn variable() -> ExprType {
    ExprType::LambdaVariable(protobuf::PhysicalLambdaVariableExprNode {
        index: 99,
        field: Some(field(int64())),
    })
}

fn higher_order(
    name: &str,
    args: Vec<protobuf::PhysicalExprNode>,
    fun_definition: Option<Vec<u8>>,
) -> ExprType {
    ExprType::HigherOrderUdf(protobuf::PhysicalHigherOrderUdfNode {
        name: name.to_owned(),
        args,
        fun_definition,
    })
}

fn any_match(params: &[&str], body: protobuf::PhysicalExprNode) -> ExprType {
    higher_order("array_any_match", vec![column(0), expr(lambda(params, body))], None)
}

/// `upper` of `upper` of …
fn many_strings() -> Envelope {
    let mut expr = call("upper", None);
    for _ in 0..32 {
        let ExprType::ScalarUdf(mut outer) = call("upper", None) else { unreachable!() };
        outer.args = vec![protobuf::PhysicalExprNode { expr_id: None, expr_type: Some(expr) }];
        expr = ExprType::ScalarUdf(outer);
    }
    predicate(expr)
}

fn long_literal() -> Envelope {
    let scan = scan(&["l_comment"], None);
    let same = super::op(Arc::new(Column::new("l_comment", 0)), Operator::Eq, lit("x".repeat(4_097)));
    Envelope::new(encode(&filter(scan, same)).unwrap())
}

fn expr(kind: ExprType) -> protobuf::PhysicalExprNode {
    protobuf::PhysicalExprNode { expr_id: None, expr_type: Some(kind) }
}

fn text(text: String) -> protobuf::PhysicalExprNode {
    let value = messages::scalar_value::Value::Utf8ViewValue(text);
    expr(ExprType::Literal(messages::ScalarValue { value: Some(value) }))
}

fn like(pattern: protobuf::PhysicalExprNode) -> ExprType {
    ExprType::LikeExpr(Box::new(protobuf::PhysicalLikeExprNode {
        expr: Some(Box::new(column(15))),
        pattern: Some(Box::new(pattern)),
        ..Default::default()
    }))
}

fn regex(pattern: &str) -> ExprType {
    ExprType::BinaryExpr(Box::new(protobuf::PhysicalBinaryExprNode {
        op: "RegexMatch".to_owned(),
        operands: vec![column(15), text(pattern.to_owned())],
        ..Default::default()
    }))
}

fn regex_of(index: u32) -> ExprType {
    let ExprType::BinaryExpr(mut binary) = regex("x") else { unreachable!() };
    binary.operands[0] = column(index);
    ExprType::BinaryExpr(binary)
}

fn membership(filter: &[u8], keys: usize) -> ExprType {
    let ExprType::ScalarUdf(call) = call("membership_filter", Some(filter.to_vec())) else { unreachable!() };
    ExprType::ScalarUdf(protobuf::PhysicalScalarUdfNode { args: vec![column(0); keys], ..call })
}

fn any(exprs: Vec<protobuf::PhysicalExprNode>) -> Envelope {
    predicate(ExprType::BinaryExpr(Box::new(protobuf::PhysicalBinaryExprNode {
        l: None,
        r: None,
        op: "Or".to_owned(),
        operands: exprs,
    })))
}

fn many_patterns() -> Envelope {
    any((0..17).map(|_| expr(like(text("x%".to_owned())))).collect())
}

fn many_literals() -> Envelope {
    any((0..5).map(|_| text("x".repeat(1_000))).collect())
}

fn trim_by_column() -> ExprType {
    call_of("btrim", vec![column(15), column(15)])
}

fn cases(depth: usize) -> ExprType {
    let inner = if depth == 0 { column(0) } else { expr(cases(depth - 1)) };
    ExprType::Case(Box::new(protobuf::PhysicalCaseNode { expr: Some(Box::new(inner)), ..Default::default() }))
}

/// Projects the same column a thousand times.
fn wide_scan() -> Envelope {
    scan_with(|scan| {
        let projections = scan.base_conf.as_mut().unwrap().projection_exprs.as_mut().unwrap();
        let one = projections.projections[0].clone();
        projections.projections = vec![one; 1_000];
    })
}

fn list_is_null(list: super::Expr) -> super::Expr {
    Arc::new(datafusion_physical_expr::expressions::IsNullExpr::new(list))
}

/// Wrong plans that pass the first check of the envelope. The fragment must reply and must not
/// panic.
pub fn wrong() -> Vec<(&'static str, Envelope)> {
    let aggregates = match q6().downcast_ref::<datafusion_physical_plan::aggregates::AggregateExec>() {
        Some(q6) => q6.aggr_expr().to_vec(),
        None => unreachable!(),
    };
    let mut lie = node(&scan(&["l_orderkey", "l_comment"], None));
    let Some(PhysicalPlanType::ParquetScan(scan_node)) = &mut lie.physical_plan_type else { unreachable!() };
    let columns = &mut scan_node.base_conf.as_mut().unwrap().schema.as_mut().unwrap().columns;
    let (first, last) = (columns[0].arrow_type.clone(), columns[15].arrow_type.clone());
    columns[0].arrow_type = last;
    columns[15].arrow_type = first;
    vec![
        ("a filter that is no boolean", scan_with(|scan| scan.predicate = Some(column(0)))),
        ("a column behind the schema", scan_with(|scan| scan.predicate = Some(column(999)))),
        (
            "types that do not compare",
            Envelope::new(
                encode(&scan(
                    &["l_orderkey"],
                    Some(super::op(Arc::new(Column::new("l_comment", 15)), Operator::Lt, lit(FIRST_DAY))),
                ))
                .unwrap(),
            ),
        ),
        (
            "a sort by a column behind the schema",
            sort(|sort| {
                let Some(ExprType::Sort(key)) = &mut sort.expr[0].expr_type else { unreachable!() };
                key.expr = Some(Box::new(column(999)));
            }),
        ),
        ("a schema that lies", Envelope::new(Bytes::from(lie.encode_to_vec()))),
        (
            "an aggregate of another input",
            Envelope::new(encode(&partial(scan(&["l_comment"], None), &[], aggregates)).unwrap()),
        ),
        ("no input schema columns", aggregate(|node| node.input_schema.as_mut().unwrap().columns.clear())),
        (
            "grouping sets with nulls of another type",
            grouping_sets(2, |node| {
                let value = messages::scalar_value::Value::Int64Value(1);
                let number = expr(ExprType::Literal(messages::ScalarValue { value: Some(value) }));
                node.null_expr = vec![number; node.group_expr.len()];
            }),
        ),
        ("a conjunction of decimals", aggregate_of("bool_and", Vec::new(), |_| {})),
        ("bits of decimals", aggregate_of("bit_or", Vec::new(), |_| {})),
        ("a quantile of decimals", aggregate_of("approx_median", Vec::new(), |_| {})),
        ("a quantile without a percentage", aggregate_of("approx_percentile_cont", Vec::new(), |_| {})),
        ("a correlation of one column", aggregate_of("corr", Vec::new(), |_| {})),
        ("a deviation of two columns", aggregate_of("stddev", vec![column(0)], |_| {})),
        ("a function of a wrong type", predicate(call("starts_with", None))),
        ("a function whose argument is not cast", predicate(call("sin", None))),
        ("a function of two types", predicate(call_of("gcd", vec![column(0), column(4)]))),
        ("JSON in a number", predicate(call_of("json_get", vec![column(0), text("a".to_owned())]))),
        ("a regular expression on a column behind the schema", predicate(regex_of(999))),
        ("a lambda over a number", predicate(any_match(&["x"], expr(variable())))),
        ("a length of a number", predicate(call("array_length", None))),
        ("a field of a number", predicate(call_of("get_field", vec![column(0), text("a".to_owned())]))),
        ("an element of a number", predicate(call_of("array_element", vec![column(0), column(0)]))),
        ("a function without arguments", predicate(call_of("lcm", Vec::new()))),
        (
            "a projection behind the schema",
            scan_with(|scan| {
                let conf = scan.base_conf.as_mut().unwrap();
                conf.projection_exprs.as_mut().unwrap().projections[0].expr = Some(column(500));
            }),
        ),
    ]
}
