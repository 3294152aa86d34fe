//! Random tables, layouts and queries, against a slow and obvious evaluation.

use crate::{batch, file, run};
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, Decimal128Array, Int64Array, ListArray, RecordBatch, StringArray};
use benthic_testkit::random::Rng;
use benthic_testkit::seed;
use parquet::basic::{Compression, Encoding, GzipLevel, ZstdLevel};
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder, WriterVersion};
use std::sync::Arc;

#[derive(Clone, Debug)]
struct Record {
    number: Option<i64>,
    text: Option<String>,
    /// Hundredths.
    price: Option<i128>,
    list: Option<Vec<Option<i32>>>,
}

fn record(rng: &mut Rng) -> Record {
    let maybe = |rng: &mut Rng| !rng.one_in(4);
    Record {
        number: maybe(rng).then(|| rng.below(9) as i64 - 2),
        text: maybe(rng).then(|| ["", "a", "ab", "b", "long text of many bytes"][rng.below(5)].to_owned()),
        price: maybe(rng).then(|| rng.below(500) as i128 - 100),
        list: maybe(rng)
            .then(|| (0..rng.below(4)).map(|_| maybe(rng).then(|| rng.below(5) as i32)).collect::<Vec<_>>()),
    }
}

fn table(records: &[Record]) -> RecordBatch {
    let prices = records.iter().map(|record| record.price).collect::<Decimal128Array>();
    let lists =
        ListArray::from_iter_primitive::<Int32Type, _, _>(records.iter().map(|record| record.list.clone()));
    batch([
        ("number", Arc::new(records.iter().map(|record| record.number).collect::<Int64Array>()) as ArrayRef),
        ("text", Arc::new(records.iter().map(|record| record.text.clone()).collect::<StringArray>())),
        ("price", Arc::new(prices.with_precision_and_scale(9, 2).unwrap())),
        ("list", Arc::new(lists)),
    ])
}

fn layout(rng: &mut Rng) -> WriterPropertiesBuilder {
    let compression = [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::GZIP(GzipLevel::default()),
        Compression::ZSTD(ZstdLevel::default()),
        Compression::LZ4_RAW,
    ][rng.below(5)];
    let properties = WriterProperties::builder()
        .set_compression(compression)
        .set_data_page_row_count_limit(1 + rng.below(20))
        .set_write_batch_size(1 + rng.below(20))
        .set_max_row_group_row_count(Some(1 + rng.below(40)));
    let properties = if rng.one_in(2) {
        properties
    } else {
        properties.set_dictionary_enabled(false).set_encoding(Encoding::PLAIN)
    };
    if rng.one_in(2) { properties } else { properties.set_writer_version(WriterVersion::PARQUET_2_0) }
}

/// A condition as SQL, and its value for a record.
type Condition = (String, Box<dyn Fn(&Record) -> Option<bool>>);

fn condition(rng: &mut Rng, depth: usize) -> Condition {
    match rng.below(if depth == 0 { 5 } else { 7 }) {
        0 => {
            let wanted = rng.below(9) as i64 - 2;
            (
                format!("s.number < {wanted}"),
                Box::new(move |record| record.number.map(|number| number < wanted)),
            )
        }
        1 => {
            let wanted = rng.below(500) as i128 - 100;
            let literal = format!(
                "{}{}.{:02}",
                if wanted < 0 { "-" } else { "" },
                wanted.abs() / 100,
                wanted.abs() % 100
            );
            (
                format!("s.price >= {literal}"),
                Box::new(move |record| record.price.map(|price| price >= wanted)),
            )
        }
        2 => ("s.text LIKE '%a%'".to_owned(), Box::new(|record| Some(record.text.as_ref()?.contains('a')))),
        3 => (
            "s.list[1] = 3".to_owned(),
            Box::new(|record| {
                let item = record.list.as_ref()?.get(1).copied().flatten();
                item.map(|item| item == 3)
            }),
        ),
        4 => ("s.text IS NULL".to_owned(), Box::new(|record| Some(record.text.is_none()))),
        5 => {
            let (sql, inner) = condition(rng, depth - 1);
            (format!("NOT ({sql})"), Box::new(move |record| inner(record).map(|value| !value)))
        }
        _ => {
            let ((left_sql, left), (right_sql, right)) =
                (condition(rng, depth - 1), condition(rng, depth - 1));
            let is_and = rng.one_in(2);
            let check = move |record: &Record| match (left(record), right(record)) {
                (Some(value), _) | (_, Some(value)) if value != is_and => Some(value),
                (Some(_), Some(_)) => Some(is_and),
                _ => None,
            };
            (format!("({left_sql}) {} ({right_sql})", if is_and { "AND" } else { "OR" }), Box::new(check))
        }
    }
}

fn shown<T: ToString>(value: Option<T>) -> String {
    value.map_or("null".to_owned(), |value| value.to_string())
}

fn decimal(hundredths: i128) -> String {
    format!(
        "{}{}.{:02}",
        if hundredths < 0 { "-" } else { "" },
        hundredths.abs() / 100,
        hundredths.abs() % 100
    )
}

fn line(record: &Record) -> String {
    let list = record.list.as_ref().map(|list| {
        let items: Vec<String> = list.iter().map(|item| shown(*item)).collect();
        format!("[{}]", items.join(","))
    });
    format!(
        "{{\"price\":{},\"list\":{},\"text\":{}}}\n",
        shown(record.price.map(decimal)),
        shown(list),
        shown(record.text.as_ref().map(|text| format!("\"{text}\""))),
    )
}

#[test]
fn random_queries_select_what_they_say() {
    let mut selected = 0;
    for seed in seed::many(if seed::is_long() { 5_000 } else { 200 }) {
        let rng = &mut Rng(seed);
        let records: Vec<Record> = (0..1 + rng.below(120)).map(|_| record(rng)).collect();
        let data = file(&table(&records), layout(rng));
        let (sql, holds) = condition(rng, 3);
        let limit = rng.below(60);
        let chosen: Vec<&Record> = records.iter().filter(|record| holds(record) == Some(true)).collect();
        let query = format!("SELECT s.price, s.list, s.text FROM S3Object s WHERE {sql} LIMIT {limit}");
        let expected: String = chosen.iter().take(limit).map(|record| line(record)).collect();
        assert_eq!(run(&query, &data).unwrap(), expected, "{query}, seed {seed}");
        selected += expected.len();
        let sum: i128 = chosen.iter().filter_map(|record| record.price).sum();
        let count = chosen.iter().filter(|record| record.price.is_some()).count();
        let query = format!(
            "SELECT COUNT(*) AS n, SUM(s.price) AS sum, MIN(s.number) AS min FROM S3Object s WHERE {sql}"
        );
        let expected = format!(
            "{{\"n\":{},\"sum\":{},\"min\":{}}}\n",
            chosen.len(),
            shown((count > 0).then(|| decimal(sum))),
            shown(chosen.iter().filter_map(|record| record.number).min()),
        );
        assert_eq!(run(&query, &data).unwrap(), expected, "{query}, seed {seed}");
    }
    assert!(selected > 1_000, "hardly any query selected a record");
}
