//! The tables of the pool `t`, which the files query.

use crate::fixtures::{append, build_indexes, create, pool};
use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, FixedSizeBinaryArray,
    FixedSizeListArray, Float32Array, Float64Array, Int8Array, Int32Array, Int32Builder, Int64Array,
    ListArray, MapBuilder, RecordBatch, StringArray, StringBuilder, StructArray, Time64MicrosecondArray,
    TimestampMicrosecondArray,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Int32Type, TimeUnit};
use benthic_core::{Pool, Store};
use benthic_table::{
    Alter, Definition, INDEXES_MAX, Layout, Partitioning, Ranges, SnapshotSelector, Table, WriterOptions,
};
use std::sync::Arc;

/// 2024-01-01, in days since 1970.
const DAY: i32 = 19_723;
const DAY_US: i64 = 86_400_000_000;

/// Creates all tables.
pub async fn load(store: &Arc<dyn Store>) {
    let pool = pool(store, "t").await;
    plain(&pool, "nums", &(0..5).map(|part| nums(part * 8..part * 8 + 8)).collect::<Vec<_>>()).await;
    plain(&pool, "floats", &floats()).await;
    plain(&pool, "texts", &texts()).await;
    plain(&pool, "times", &times()).await;
    plain(&pool, "nested", &[nested(0..4), nested(4..9)]).await;
    plain(&pool, "guard", &guard()).await;
    plain(&pool, "series", &(0..8).map(|part| series(part * 250..part * 250 + 250)).collect::<Vec<_>>())
        .await;
    plain(&pool, "late", &[late(0..4), late(4..8)]).await;
    plain(&pool, "dept", &[dept()]).await;
    plain(&pool, "emp", &emp()).await;
    plain(&pool, "Odd Name", &[odd_names()]).await;
    create(&pool, "nothing", &Definition::new(&nums(0..1).schema()).unwrap()).await;
    plain(&pool, "logs", &[logs(0..4), logs(4..8)]).await;
    docs(&pool).await;
    evolved(&pool).await;
    partitioned(&pool).await;
}

type Columns = Vec<(&'static str, ArrayRef)>;

fn batch(columns: Columns) -> RecordBatch {
    let columns = columns.into_iter().map(|(name, column)| (name, column, true));
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

/// Creates a table with one object for each batch.
async fn plain(pool: &Arc<dyn Pool>, name: &str, batches: &[RecordBatch]) {
    let table = create(pool, name, &Definition::new(&batches[0].schema()).unwrap()).await;
    objects(&table, batches).await;
}

/// Appends the batches, and indexes the first columns and the elements of lists. The first object's
/// pages are built later; the writer makes those of the others.
async fn objects(table: &Table, batches: &[RecordBatch]) {
    for (place, batch) in batches.iter().enumerate() {
        append(table, std::slice::from_ref(batch)).await;
        if place == 0 {
            let schema = table.snapshot(SnapshotSelector::Current).await.unwrap().schema().clone();
            let flat = schema.columns().iter().filter(|column| !column.data_type.is_nested());
            let names: Vec<&str> = flat.map(|column| column.name.as_str()).collect();
            for name in names.iter().take(INDEXES_MAX - 1) {
                table.add_index(&[name]).await.unwrap();
            }
            if names.len() > 1 {
                table.add_index(&[names[names.len() - 1], names[0]]).await.unwrap();
            }
            if schema.has_name("list") {
                table.add_index(&["list"]).await.unwrap();
            }
        }
    }
    build_indexes(table).await;
}

/// Texts with an index of their words. The first object's pages are built later, and the last
/// object has none.
async fn docs(pool: &Arc<dyn Pool>) {
    let body = |id: i64| {
        Some(match id {
            5 => String::new(),
            6 => "Die Straße am KORALLENRIFF; Ωμέγα und ΩΜΈΓΑΣ".to_owned(),
            7 => "珊瑚礁 report".to_owned(),
            8 => "x".repeat(300),
            9 => "Don't e-mail 3.14, foo_bar, l'été!".to_owned(),
            _ if id % 37 == 0 => return None,
            _ => {
                let kind = match id % 10 {
                    3 => "Coral reef",
                    4 => "reef of coral",
                    _ => "sea floor",
                };
                format!("Report {id}: {kind} at station{}", id % 40)
            }
        })
    };
    let rows = |ids: std::ops::Range<i64>| {
        let kind = |id: i64| format!("kind {}", id * 3 % 8);
        batch(vec![
            ("id", Arc::new(Int64Array::from_iter_values(ids.clone()))),
            ("body", Arc::new(StringArray::from_iter(ids.clone().map(body)))),
            ("kind", Arc::new(StringArray::from_iter_values(ids.map(kind)))),
        ])
    };
    let table = create(pool, "docs", &Definition::new(&rows(0..1).schema()).unwrap()).await;
    append(&table, &[rows(0..80)]).await;
    // This writer does not know the indexes.
    let mut late = table.writer(WriterOptions::default()).await.unwrap();
    table.add_text_index("body").await.unwrap();
    table.add_index(&["id"]).await.unwrap();
    table.add_index(&["kind"]).await.unwrap();
    append(&table, &[rows(80..160)]).await;
    build_indexes(&table).await;
    late.write(&rows(160..200)).await.unwrap();
    late.finish().await.unwrap();
}

/// Texts in JSON, and others.
fn logs(ids: std::ops::Range<i64>) -> RecordBatch {
    let doc = |id: i64| match id {
        0 => Some(
            r#"{"kind": "push", "user": {"name": "Ada", "age": 36}, "size": 1.5, "ok": true, "tags": ["a", "b"]}"#,
        ),
        1 => Some(r#"{"user":{"name":"Bo"},"kind":"pull","size":2,"ok":false,"tags":[]}"#),
        2 => Some(r#" { "kind" : "push" } "#),
        3 => Some("{}"),
        4 => Some("not json"),
        6 => Some(
            r#"{"tags": ["x", null, 3], "size": -1e3, "kind": "push", "user": {"age": 7, "name": null}}"#,
        ),
        7 => Some("[1, 2]"),
        _ => None,
    };
    batch(vec![
        ("id", Arc::new(Int64Array::from_iter_values(ids.clone()))),
        ("doc", Arc::new(StringArray::from_iter(ids.map(doc)))),
    ])
}

/// Numbers of all kinds, with nulls. Rows 0 and 1 hold the least and the greatest value of each
/// type.
fn nums(ids: std::ops::Range<i64>) -> RecordBatch {
    let some = |id: i64| (id % 7 != 3).then_some(id);
    let ints = |least: i128, greatest: i128, step: i128, data_type: DataType| {
        let value = |id: i64| {
            Some(match some(id)? {
                0 => least,
                1 => greatest,
                id => i128::from(id - 20) * step + if least == 0 { 20 * step } else { 0 },
            })
        };
        let values: Decimal128Array = ids.clone().map(value).collect();
        cast(&values.with_precision_and_scale(38, 0).unwrap(), &data_type).unwrap()
    };
    let decimals = |step: i128, greatest: i128, precision, scale| -> ArrayRef {
        let value = |id: i64| match some(id)? {
            0 => Some(-greatest),
            1 => Some(greatest),
            id => Some(i128::from(id - 20) * step),
        };
        let values: Decimal128Array = ids.clone().map(value).collect();
        Arc::new(values.with_precision_and_scale(precision, scale).unwrap())
    };
    let quarters: Float64Array = ids.clone().map(|id| some(id).map(|id| (id - 20) as f64 / 4.0)).collect();
    batch(vec![
        ("id", Arc::new(Int64Array::from_iter_values(ids.clone()))),
        ("i8", ints(i8::MIN.into(), i8::MAX.into(), 3, DataType::Int8)),
        ("i16", ints(i16::MIN.into(), i16::MAX.into(), 300, DataType::Int16)),
        ("i32", ints(i32::MIN.into(), i32::MAX.into(), 1, DataType::Int32)),
        ("i64", ints(i64::MIN.into(), i64::MAX.into(), 10_000_000_000, DataType::Int64)),
        ("u8", ints(0, u8::MAX.into(), 1, DataType::UInt8)),
        ("u16", ints(0, u16::MAX.into(), 100, DataType::UInt16)),
        ("u32", ints(0, u32::MAX.into(), 100_000, DataType::UInt32)),
        ("u64", ints(0, u64::MAX.into(), 100_000_000_000, DataType::UInt64)),
        ("f32", cast(&quarters, &DataType::Float32).unwrap()),
        ("f64", Arc::new(quarters)),
        ("dec", decimals(125, 999_999_999, 9, 2)),
        ("big", decimals(12_500_000_000, 10_i128.pow(38) - 1, 38, 10)),
        ("wide", cast(&decimals(12_500, 10_i128.pow(38) - 1, 38, 5), &DataType::Decimal256(50, 5)).unwrap()),
    ])
}

/// Objects with different mixes of special floating-point values.
fn floats() -> Vec<RecordBatch> {
    let (nan, inf) = (Some(f64::NAN), Some(f64::INFINITY));
    let objects: [&[Option<f64>]; 8] = [
        &[Some(1.5), Some(2.5), None, Some(-3.0)],
        &[nan, nan, nan],
        &[nan, Some(10.0), None, Some(-0.0)],
        &[Some(0.0), Some(-0.0), None],
        &[inf, Some(f64::NEG_INFINITY), nan],
        &[None, None, None],
        &[Some(-0.0), Some(-0.0)],
        &[Some(0.0), Some(0.0)],
    ];
    let mut id = 0;
    let object = |values: &&[Option<f64>]| {
        let ids = id..id + values.len() as i64;
        id = ids.end;
        let x = Float64Array::from(values.to_vec());
        let y = cast(&x, &DataType::Float32).unwrap();
        batch(vec![("id", Arc::new(Int64Array::from_iter_values(ids))), ("x", Arc::new(x)), ("y", y)])
    };
    objects.iter().map(object).collect()
}

/// Texts with special cases of comparison, slicing and matching: characters of several bytes, long
/// common prefixes, the last character before the surrogates and the first after them, and the last
/// character of all.
fn texts() -> Vec<RecordBatch> {
    let long = "x".repeat(64);
    let (long_a, long_z, high) = (format!("{long}a"), format!("{long}z"), "\u{10ffff}".repeat(17));
    let objects: [&[Option<&str>]; 4] = [
        &[Some(""), Some("a"), Some("A"), Some("ab"), None, Some("b")],
        &[Some("ä"), Some("größer"), Some("日本"), Some("日本語"), Some("🐟"), Some("e\u{301}")],
        &[Some(&long), Some(&long_a), Some(&long_z), Some("100%"), Some("a_b"), Some("it's")],
        &[Some("\u{d7ff}"), Some("\u{e000}"), Some(&high), None, Some("a\\b"), Some("AB")],
    ];
    let mut id = 0;
    let object = |values: &&[Option<&str>]| {
        let ids = id..id + values.len() as i64;
        id = ids.end;
        let bytes = values.iter().map(|value| value.map(str::as_bytes));
        let four = ids.clone().map(|id| (id % 5 != 4).then(|| (id as u32 * 7_000_000).to_be_bytes()));
        let tag = ids.clone().map(|id| (id % 6 != 5).then(|| ["red", "green", "blue"][id as usize % 3]));
        let flag = ids.clone().map(|id| (id % 4 != 3).then_some(id % 4 == 0));
        batch(vec![
            ("id", Arc::new(Int64Array::from_iter_values(ids.clone()))),
            ("s", Arc::new(StringArray::from(values.to_vec()))),
            ("b", Arc::new(BinaryArray::from_iter(bytes))),
            ("four", Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(four, 4).unwrap())),
            ("tag", Arc::new(tag.collect::<DictionaryArray<Int32Type>>())),
            ("flag", Arc::new(flag.collect::<BooleanArray>())),
        ])
    };
    objects.iter().map(object).collect()
}

/// Dates and times. One object is before 1970; one is around the hour that occurs twice in Berlin.
fn times() -> Vec<RecordBatch> {
    let object = |first: i64, days: Vec<Option<i32>>, micros: Vec<Option<i64>>| {
        let ids = Int64Array::from_iter_values(first..first + days.len() as i64);
        let us: ArrayRef = Arc::new(TimestampMicrosecondArray::from(micros.clone()));
        let of_day = micros.iter().map(|us| us.map(|us| us.rem_euclid(DAY_US)));
        let zoned = |unit, zone: &str| {
            let utc = TimestampMicrosecondArray::from(micros.clone()).with_timezone("UTC");
            cast(&utc, &DataType::Timestamp(unit, Some(zone.into()))).unwrap()
        };
        batch(vec![
            ("id", Arc::new(ids)),
            ("d", Arc::new(Date32Array::from(days))),
            ("us", Arc::clone(&us)),
            ("berlin", zoned(TimeUnit::Microsecond, "Europe/Berlin")),
            ("plus2", zoned(TimeUnit::Millisecond, "+02:00")),
            ("ns", cast(&us, &DataType::Timestamp(TimeUnit::Nanosecond, None)).unwrap()),
            ("s", cast(&us, &DataType::Timestamp(TimeUnit::Second, None)).unwrap()),
            ("clock", Arc::new(Time64MicrosecondArray::from_iter(of_day))),
        ])
    };
    // 2024-10-27 00:00:00 UTC. One hour later, Berlin's clocks go back from 03:00 to 02:00.
    let autumn_us = 20_023 * DAY_US;
    let half_hours = (0..6).map(|half| Some(autumn_us + half * DAY_US / 48)).collect();
    let at_us = |day: i32, seconds: i64| Some(i64::from(day) * DAY_US + seconds * 1_000_000);
    vec![
        object(0, vec![Some(-1), Some(-365), None, Some(0)], vec![Some(-1), Some(-DAY_US), None, Some(0)]),
        object(
            4,
            (0..8).map(|day| Some(DAY + 28 * day)).collect(),
            (0..8).map(|day| at_us(DAY + 28 * day, 3_723 * i64::from(day))).collect(),
        ),
        object(12, vec![Some(20_023); 6], half_hours),
        object(18, vec![None, None], vec![None, None]),
    ]
}

fn nested(ids: std::ops::Range<i64>) -> RecordBatch {
    let valid = |id: i64| id % 4 != 3;
    let list = |id: i64| valid(id).then(|| (0..id).map(|n| (n != 2).then_some(n as i32)).collect::<Vec<_>>());
    let two = |id: i64| valid(id).then(|| vec![Some(id as i32), (id % 2 == 0).then_some(-(id as i32))]);
    let words = ids.clone().map(|id| (id % 3 != 1).then(|| format!("word {id}"))).collect::<StringArray>();
    let numbers = ids.clone().map(|id| (id % 5 != 4).then_some(id as i32 * 10)).collect::<Int32Array>();
    let fields = vec![Field::new("word", DataType::Utf8, true), Field::new("n", DataType::Int32, true)];
    let nulls = ids.clone().map(valid).collect::<Vec<_>>().into();
    let pair = StructArray::new(fields.into(), vec![Arc::new(words), Arc::new(numbers)], Some(nulls));
    let mut map = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    for id in ids.clone() {
        for entry in 0..id % 3 {
            map.keys().append_value(format!("k{entry}"));
            map.values().append_option((entry == 0).then_some(id as i32));
        }
        map.append(valid(id)).unwrap();
    }
    batch(vec![
        ("id", Arc::new(Int64Array::from_iter_values(ids.clone()))),
        ("list", Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(ids.clone().map(list)))),
        ("two", Arc::new(FixedSizeListArray::from_iter_primitive::<Int32Type, _, _>(ids.map(two), 2))),
        ("pair", Arc::new(pair)),
        ("map", Arc::new(map.finish())),
    ])
}

/// Divisors, by object: none is zero, all are zero, some are zero or null, only the last is zero.
fn guard() -> Vec<RecordBatch> {
    let objects: [&[Option<i64>]; 4] = [
        &[Some(1), Some(2), Some(-3), Some(4)],
        &[Some(0), Some(0), Some(0), Some(0)],
        &[Some(0), Some(5), None, Some(-5), Some(0), Some(1)],
        &[Some(2), Some(2), Some(2), Some(2), Some(2), Some(2), Some(2), Some(0)],
    ];
    let mut id = 0;
    let object = |divisors: &&[Option<i64>]| {
        let ids = id..id + divisors.len() as i64;
        id = ids.end;
        batch(vec![
            ("id", Arc::new(Int64Array::from_iter_values(ids.clone()))),
            ("a", Arc::new(Int64Array::from_iter_values(ids.map(|id| id * 3 - 6)))),
            ("b", Arc::new(Int64Array::from(divisors.to_vec()))),
        ])
    };
    objects.iter().map(object).collect()
}

fn series(ids: std::ops::Range<i64>) -> RecordBatch {
    let text = |id: i64| (id % 11 != 10).then(|| format!("row {:04}", id * 7 % 2000));
    batch(vec![
        ("id", Arc::new(Int64Array::from_iter_values(ids.clone()))),
        ("v", Arc::new(Int32Array::from_iter_values(ids.clone().map(|id| id as i32 % 10)))),
        (
            "w",
            Arc::new(ids.clone().map(|id| (id % 13 != 12).then_some(id * 31 % 1009)).collect::<Int64Array>()),
        ),
        ("s", Arc::new(ids.map(text).collect::<StringArray>())),
    ])
}

/// Columns that have values only from the second object on. Their statistics are not exact.
fn late(ids: std::ops::Range<i64>) -> RecordBatch {
    let some = |id: i64| (id >= 4).then_some(id);
    let float = |id: i64| if id % 3 == 0 { f64::NAN } else { id as f64 };
    let text = |id: i64| format!("{}{id}", "long ".repeat(20));
    batch(vec![
        ("id", Arc::new(Int64Array::from_iter_values(ids.clone()))),
        ("x", Arc::new(ids.clone().map(|id| some(id).map(float)).collect::<Float64Array>())),
        ("s", Arc::new(ids.map(|id| some(id).map(text)).collect::<StringArray>())),
    ])
}

fn dept() -> RecordBatch {
    batch(vec![
        ("id", Arc::new(Int32Array::from(vec![Some(1), Some(2), Some(3), Some(4), None]))),
        ("name", Arc::new(StringArray::from(vec!["sales", "research", "support", "archive", "nowhere"]))),
        ("budget", Arc::new(Int64Array::from(vec![Some(1_000), Some(5_000), None, Some(0), Some(7)]))),
    ])
}

/// Number, name, department, salary in hundredths, first working day as a day of the year 2024, and
/// boss.
type Employee = (i32, &'static str, Option<i32>, Option<i64>, i32, Option<i32>);

fn emp() -> Vec<RecordBatch> {
    let object = |rows: &[Employee]| {
        let salaries: Decimal128Array = rows.iter().map(|row| row.3.map(i128::from)).collect();
        batch(vec![
            ("id", Arc::new(Int32Array::from_iter_values(rows.iter().map(|row| row.0)))),
            ("name", Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.1)))),
            ("dept", Arc::new(Int32Array::from_iter(rows.iter().map(|row| row.2)))),
            ("salary", Arc::new(salaries.with_precision_and_scale(9, 2).unwrap())),
            ("hired", Arc::new(Date32Array::from_iter_values(rows.iter().map(|row| DAY + row.4)))),
            ("boss", Arc::new(Int32Array::from_iter(rows.iter().map(|row| row.5)))),
        ])
    };
    vec![
        object(&[
            (1, "Ada", Some(1), Some(700_050), 0, None),
            (2, "Bo", Some(1), Some(350_000), 31, Some(1)),
            (3, "Cy", Some(2), Some(500_000), 60, Some(1)),
        ]),
        object(&[
            (4, "Di", Some(2), Some(500_000), 60, Some(3)),
            (5, "Ed", Some(2), None, 91, Some(3)),
            (6, "Flo", None, Some(120_025), 121, None),
        ]),
        object(&[
            (7, "Gus", Some(9), Some(99_999), 366, Some(6)),
            (8, "Hal", Some(3), Some(410_000), 400, Some(2)),
            (9, "Ida", Some(1), Some(350_000), 31, Some(2)),
        ]),
    ]
}

/// Names that must be quoted, and a column named like an SQL keyword.
fn odd_names() -> RecordBatch {
    batch(vec![
        ("Id", Arc::new(Int64Array::from(vec![1, 2, 3]))),
        ("select", Arc::new(StringArray::from(vec!["x", "y", "z"]))),
        ("with space", Arc::new(Int64Array::from(vec![Some(10), None, Some(30)]))),
        ("größe", Arc::new(Float64Array::from(vec![1.5, 2.5, f64::NAN]))),
        ("a.b", Arc::new(Int64Array::from(vec![7, 8, 9]))),
    ])
}

/// A table of four objects, each written under another schema, and a table whose schema changed
/// without new rows.
async fn evolved(pool: &Arc<dyn Pool>) {
    let ids = |start: i32| Arc::new(Int32Array::from_iter_values(start..start + 4));
    let long_ids = |start: i64| Arc::new(Int64Array::from_iter_values(start..start + 4));
    let texts = |values: [&str; 4]| -> ArrayRef { Arc::new(StringArray::from_iter_values(values)) };
    let prices = |values: [i128; 4], precision| -> ArrayRef {
        Arc::new(Decimal128Array::from_iter_values(values).with_precision_and_scale(precision, 2).unwrap())
    };
    let first = batch(vec![
        ("id", ids(0)),
        ("a", Arc::new(Int8Array::from(vec![Some(1), None, Some(127), Some(-128)]))),
        ("b", Arc::new(Float32Array::from(vec![Some(0.5), None, Some(f32::NAN), Some(-0.25)]))),
        ("gone", texts(["p", "q", "r", "s"])),
        ("name", texts(["zero", "one", "two", "three"])),
        ("price", prices([100, 250, 99_999, -1], 7)),
    ]);
    let table = create(pool, "evolved", &Definition::new(&first.schema()).unwrap()).await;
    append(&table, &[first]).await;

    let add = |name: &str, data_type| Alter::Add { name: name.to_owned(), data_type };
    let rename = |from: &str, to: &str| Alter::Rename { from: from.to_owned(), to: to.to_owned() };
    let widen = |name: &str, data_type| Alter::Widen { name: name.to_owned(), data_type };
    let changes =
        [add("c", DataType::Int64), Alter::Drop { name: "gone".to_owned() }, rename("name", "label")];
    table.alter(&changes).await.unwrap();
    append(
        &table,
        &[batch(vec![
            ("id", ids(4)),
            ("a", Arc::new(Int8Array::from(vec![4, 5, 6, 7]))),
            ("b", Arc::new(Float32Array::from(vec![4.0, 5.0, 6.0, 7.0]))),
            ("label", texts(["four", "five", "six", "seven"])),
            ("price", prices([400, 500, 600, 700], 7)),
            ("c", Arc::new(Int64Array::from(vec![Some(40), None, Some(60), Some(70)]))),
        ])],
    )
    .await;

    let changes = [
        widen("id", DataType::Int64),
        widen("a", DataType::Int32),
        widen("b", DataType::Float64),
        widen("price", DataType::Decimal128(12, 2)),
        add("gone", DataType::Int64),
    ];
    table.alter(&changes).await.unwrap();
    append(
        &table,
        &[batch(vec![
            ("id", long_ids(8)),
            ("a", Arc::new(Int32Array::from(vec![8, 1_000_000, -1_000_000, 127]))),
            ("b", Arc::new(Float64Array::from(vec![8.0, f64::NAN, 1e300, -0.0]))),
            ("label", texts(["eight", "nine", "ten", "eleven"])),
            ("price", prices([800, 9_999_999_999, 1_000, 1_100], 12)),
            ("c", Arc::new(Int64Array::from(vec![80, 90, 100, 110]))),
            ("gone", Arc::new(Int64Array::from(vec![Some(-8), Some(-9), None, Some(-11)]))),
        ])],
    )
    .await;

    table.alter(&[rename("c", "d"), add("c", DataType::Utf8)]).await.unwrap();
    append(
        &table,
        &[batch(vec![
            ("id", long_ids(12)),
            ("label", texts(["twelve", "thirteen", "fourteen", "fifteen"])),
            ("c", texts(["C12", "C13", "C14", "C15"])),
            ("d", Arc::new(Int64Array::from(vec![120, 130, 140, 150]))),
        ])],
    )
    .await;

    let empty = create(pool, "changed", &Definition::new(&nums(0..1).schema()).unwrap()).await;
    empty.alter(&[add("more", DataType::Utf8), rename("i8", "tiny")]).await.unwrap();
}

/// The same rows, without partitions, in every kind of partitioning, and with column groups.
async fn partitioned(pool: &Arc<dyn Pool>) {
    let rows = [events(0..130), events(130..200)];
    let definition = Definition::new(&rows[0].schema()).unwrap();
    let id = |column: &str| definition.schema.by_name(column).unwrap().id;
    let range = |column: &str, ranges| Partitioning::Range { field: id(column), ranges };
    let tables = [
        ("events", Partitioning::Rows, vec![]),
        ("by_hash", Partitioning::Hash { field: id("kind"), buckets: 4 }, vec![]),
        ("by_float", Partitioning::Hash { field: id("x"), buckets: 3 }, vec![]),
        ("by_day", range("day", Ranges::Day), vec!["id"]),
        ("by_month", range("day", Ranges::Month), vec!["kind", "id"]),
        ("by_year", range("moment", Ranges::Year), vec![]),
        ("by_bounds", range("n", Ranges::Bounds(vec![-50, 0, 50])), vec!["n"]),
        ("sorted", Partitioning::Rows, vec!["kind", "n"]),
        ("grouped", Partitioning::Rows, vec![]),
    ];
    for (name, partitioning, sort) in tables {
        let sort = sort.into_iter().map(id).collect();
        let groups =
            if name == "grouped" { vec![vec![id("x"), id("kind")], vec![id("day")]] } else { vec![] };
        let layout = Layout { sort, groups, ..definition.layout.clone() };
        let table = create(pool, name, &Definition { partitioning, layout, ..definition.clone() }).await;
        objects(&table, &rows).await;
    }
}

fn events(ids: std::ops::Range<i64>) -> RecordBatch {
    let kinds = ["ant", "bee", "cat", "dog", "eel"];
    let kind = |id: i64| (id % 17 != 16).then(|| kinds[(id * id % 5) as usize]);
    let day = |id: i64| (id % 19 != 18).then(|| DAY - 40 + (id % 25) as i32 * 5);
    let x = |id: i64| match id % 9 {
        7 => None,
        8 => Some(f64::NAN),
        0 => Some(if id % 2 == 0 { 0.0 } else { -0.0 }),
        rest => Some(rest as f64 / 2.0),
    };
    let moment = |id: i64| Some(i64::from(day(id)?) * DAY_US + id * 1_000_000);
    batch(vec![
        ("id", Arc::new(Int64Array::from_iter_values(ids.clone()))),
        ("kind", Arc::new(ids.clone().map(kind).collect::<StringArray>())),
        (
            "n",
            Arc::new(
                ids.clone().map(|id| (id % 23 != 22).then_some(id * 37 % 201 - 100)).collect::<Int64Array>(),
            ),
        ),
        ("x", Arc::new(ids.clone().map(x).collect::<Float64Array>())),
        ("day", Arc::new(ids.clone().map(day).collect::<Date32Array>())),
        ("moment", Arc::new(ids.map(moment).collect::<TimestampMicrosecondArray>().with_timezone("UTC"))),
    ])
}
