//! Regular expressions, and values in JSON: what they find, and how much they take.

use crate::common::bombs::{file, properties};
use crate::common::{self, Object};
use arrow::array::{ArrayRef, AsArray, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::ipc::reader::StreamReader;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use benthic_fragment::fragment::{Envelope, Reply, Status, encode, run};
use benthic_fragment::json;
use datafusion_common::ScalarValue;
use datafusion_expr::Operator;
use datafusion_physical_expr::ScalarFunctionExpr;
use datafusion_physical_expr::expressions::{Column, lit};
use std::sync::Arc;

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("s", DataType::Utf8View, true)]))
}

fn column() -> common::Expr {
    Arc::new(Column::new("s", 0))
}

fn matching(operator: Operator, pattern: &str) -> Envelope {
    let pattern = lit(ScalarValue::Utf8View(Some(pattern.to_owned())));
    let scan = common::scan_of(schema(), &["s"], None);
    Envelope::new(encode(&common::filter(scan, common::op(column(), operator, pattern))).unwrap())
}

fn answer(texts: &[Option<&str>], envelope: &Envelope) -> Reply {
    let texts: ArrayRef = Arc::new(StringArray::from(texts.to_vec()));
    run(&mut Object(file(texts, properties()).into()), &envelope.to_bytes()).unwrap()
}

fn batches(reply: &Reply) -> Vec<RecordBatch> {
    assert_eq!(reply.status, i32::from(Status::Ok), "{}", reply.message);
    StreamReader::try_new(reply.ipc.as_ref(), None).unwrap().map(Result::unwrap).collect()
}

const TEXTS: [Option<&str>; 9] = [
    Some("red fox"),
    Some("Red Fox"),
    Some("FOX"),
    None,
    Some(""),
    Some("one\ntwo"),
    Some("straße"),
    Some("naïve über 42"),
    Some("aaaaaaaaaaaaaaaaaaaaaaaaaaaa!"),
];

#[test]
fn patterns_find_what_the_client_finds() {
    let patterns = [
        "fox",
        "^(red|one)",
        "o.t",
        "(?s)o.t",
        r"\d+$",
        r"\bfox\b",
        "^$",
        "",
        "[à-ï]",
        "(a+)+$",
        "x{2,5}",
        r"\p{Lu}",
    ];
    let operators = [
        (Operator::RegexMatch, false, false),
        (Operator::RegexIMatch, false, true),
        (Operator::RegexNotMatch, true, false),
        (Operator::RegexNotIMatch, true, true),
    ];
    for pattern in patterns {
        for (operator, is_negated, ignores_case) in operators {
            // A word boundary needs a text in ASCII.
            let texts: Vec<_> = TEXTS
                .into_iter()
                .filter(|text| !pattern.contains(r"\b") || text.is_none_or(str::is_ascii))
                .collect();
            let oracle = regex_automata::meta::Builder::new()
                .syntax(regex_automata::util::syntax::Config::new().case_insensitive(ignores_case))
                .build(pattern)
                .unwrap();
            let expected: Vec<&str> =
                texts.iter().flatten().copied().filter(|text| oracle.is_match(text) != is_negated).collect();
            let found = batches(&answer(&texts, &matching(operator, pattern)));
            let found: Vec<&str> = found
                .iter()
                .flat_map(|batch| batch.column(0).as_string_view().iter())
                .map(Option::unwrap)
                .collect();
            assert_eq!(found, expected, "{pattern:?} {operator:?}");
        }
    }
}

#[test]
fn patterns_that_are_too_large_are_refused() {
    for pattern in ["(a{1000}){1000}", "((a{100}){100}){100}", r"(\pL{50}){50}", "(", &"(".repeat(100)] {
        let reply = answer(&[Some("a")], &matching(Operator::RegexMatch, pattern));
        assert_eq!(reply.status, i32::from(Status::Unsupported), "{pattern}: {}", reply.message);
        assert!(reply.message.contains("a regular expression"), "{pattern}: {}", reply.message);
    }
}

#[test]
fn a_pattern_takes_bounded_time_on_every_text() {
    let long = "ab".repeat(500_000);
    for pattern in [r"[ab]*a[ab]{18}c", r"(.*)(.*)(.*)(.*)c", r"(a|b|ab)*c", r"(\w+\w+)+c", "a[ab]{200}c"] {
        let reply = answer(&[Some(&long)], &matching(Operator::RegexMatch, pattern));
        let is_bounded =
            [Status::Ok, Status::TooLarge, Status::Unsupported].map(i32::from).contains(&reply.status);
        assert!(is_bounded, "{pattern}: {}", reply.message);
        assert!(reply.run_us < 20_000_000, "{pattern}: {} us", reply.run_us);
    }
    let reply = answer(&[Some("über fox")], &matching(Operator::RegexMatch, r"\bfox"));
    assert_eq!(
        reply.status,
        i32::from(Status::TooLarge),
        "the client has another automaton: {}",
        reply.message
    );
}

/// The values of a function in the fragment, as text.
fn values(texts: &[Option<&str>], function: &str, path: &[ScalarValue]) -> Vec<String> {
    let function = json::functions().into_iter().find(|known| known.name() == function).unwrap();
    let args = [column()].into_iter().chain(path.iter().cloned().map(lit)).collect();
    let call = ScalarFunctionExpr::try_new(function, args, &schema(), Arc::default()).unwrap();
    let plan = common::project(common::scan_of(schema(), &["s"], None), vec![(Arc::new(call), "v")]);
    let options = FormatOptions::default().with_null("null");
    let mut values = Vec::new();
    for batch in batches(&answer(texts, &Envelope::new(encode(&plan).unwrap()))) {
        let text = ArrayFormatter::try_new(batch.column(0), &options).unwrap();
        values.extend((0..batch.num_rows()).map(|row| text.value(row).to_string()));
    }
    values
}

fn key(key: &str) -> ScalarValue {
    ScalarValue::Utf8View(Some(key.to_owned()))
}

fn position(position: i64) -> ScalarValue {
    ScalarValue::Int64(Some(position))
}

#[test]
fn values_in_json_are_found() {
    let texts = [
        Some(r#" {"a": {"b": [1, 2.5, "x\u00e9\n", true, null]}, "n": -7, "a\"": 1} "#),
        Some(r#"{"b": 1, "n": "7", "a": [ {"c" :[]} , {}]}"#),
        Some("[10, [20, 30], {}]"),
        Some("no json"),
        Some(r#"{"a": {"b": [1, 2"#),
        Some("7"),
        None,
    ];
    let (b, n) = ([key("a"), key("b")], [key("n")]);
    let none = "null".to_owned();
    let of = |function: &str, path: &[ScalarValue]| values(&texts, function, path);
    let json = |first: &str| [first, "null", "null", "null", "null", "null", "null"].map(str::to_owned);
    assert_eq!(of("json_get", &b), json(r#"[1, 2.5, "x\u00e9\n", true, null]"#));
    assert_eq!(of("json_length", &b), json("5"));
    assert_eq!(of("json_length", &[]), ["3", "3", "3", "null", "null", "null", "null"]);
    let item = |place: i64| [b[0].clone(), b[1].clone(), position(place)];
    assert_eq!(of("json_get_str", &item(2)), json("xé\n"));
    assert_eq!(of("json_as_text", &item(2)), json("xé\n"));
    assert_eq!(of("json_get", &item(2)), json(r#""x\u00e9\n""#));
    assert_eq!(of("json_as_text", &item(4)), json("null"));
    assert_eq!(of("json_get_bool", &item(-2)), json("true"));
    // The text that ends too early has the first element before its end.
    assert_eq!(of("json_get_int", &item(0))[0], "1");
    assert_eq!(of("json_get_int", &item(-6)), vec![none.clone(); 7]);
    assert_eq!(of("json_get_float", &item(1))[0], "2.5");
    assert_eq!(of("json_get_int", &item(1))[0], none, "it is no integer");
    assert_eq!(of("json_get_int", &n)[..2], ["-7", "null"], "a text is no integer");
    assert_eq!(of("json_as_text", &n)[..2], ["-7", "7"]);
    assert_eq!(of("json_get_int", &[])[5], "7", "the empty path is the whole text");
    assert_eq!(of("json_get_int", &[key("a\"")])[0], "1", "keys have escapes");
    assert_eq!(of("json_get_int", &[position(1), position(-1)])[2], "30");
    assert_eq!(of("json_contains", &n), ["true", "true", "false", "false", "false", "false", "null"]);
    assert_eq!(of("json_contains", &[ScalarValue::Utf8View(None)])[..1], ["false"]);
}

#[test]
fn json_of_any_depth_is_read() {
    for depth in [127, 128, 129, 200_000] {
        let inner = format!("{}1{}", "[".repeat(depth - 1), "]".repeat(depth - 1));
        let outer = format!("[{inner}, 2]");
        let texts = [Some(outer.as_str())];
        assert_eq!(values(&texts, "json_get", &[position(0)]), [inner.as_str()], "{depth}");
        assert_eq!(values(&texts, "json_as_text", &[position(0)]), [inner.as_str()], "{depth}");
        assert_eq!(values(&texts, "json_get_int", &[position(1)]), ["2"], "{depth}");
        assert_eq!(values(&texts, "json_length", &[]), ["2"], "{depth}");
        assert_eq!(values(&texts, "json_contains", &[position(0), position(0)]), ["true"], "{depth}");
    }
    // The objects do not end.
    let objects = r#"{"a":"#.repeat(100_000);
    for function in ["json_get", "json_as_text", "json_length", "json_get_int"] {
        assert_eq!(values(&[Some(&objects)], function, &[key("a")]), ["null"], "{function}");
    }
}

#[test]
fn floats_in_json_are_the_nearest_ones() {
    let texts = ["51.248178375505404", " -0.1e1 ", "1e999", "7", "true", "\"7\""];
    let expected = ["51.248178375505404", "-1.0", "null", "7.0", "null", "null"];
    assert_eq!(values(&texts.map(Some), "json_get_float", &[]), expected);
}
