//! Random records and queries, against a slow and obvious evaluation.

use super::tests::{request, run_in_pieces};
use super::wire::{CsvInput, CsvOutput, Header, Input, Output};
use benthic_testkit::random::Rng;
use benthic_testkit::seed;

/// A field of a random record: a small number, a word, or a text that needs quotes.
fn field(rng: &mut Rng) -> String {
    const FIELDS: [&str; 14] =
        ["", "0", "1", "2", "-1", "10", "1.5", "a", "ab", "b", "a,b", "\"", "x\"y", " a "];
    FIELDS[rng.below(FIELDS.len())].to_owned()
}

fn quoted(field: &str, always: bool) -> String {
    if always || field.contains([',', '"', '\n']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

fn number(text: &str) -> Option<f64> {
    text.trim().parse().ok()
}

/// A condition as SQL, and its value for a record.
type Condition = (String, Box<dyn Fn(&[String]) -> Option<bool>>);

fn condition(rng: &mut Rng, depth: usize) -> Condition {
    let column = rng.below(3);
    let name = format!("s._{}", column + 1);
    match rng.below(if depth == 0 { 5 } else { 8 }) {
        0 => {
            let number_wanted = rng.below(12) as f64 - 1.0;
            let (symbol, holds): (&str, fn(f64, f64) -> bool) = match rng.below(4) {
                0 => ("<", |left, right| left < right),
                1 => (">=", |left, right| left >= right),
                2 => ("=", |left, right| left == right),
                _ => ("<>", |left, right| left != right),
            };
            let check =
                move |record: &[String]| number(&record[column]).map(|value| holds(value, number_wanted));
            (format!("{name} {symbol} {number_wanted}"), Box::new(check))
        }
        1 => {
            let other = field(rng);
            let sql = format!("{name} > '{other}'");
            (sql, Box::new(move |record: &[String]| Some(record[column] > other)))
        }
        2 => {
            let letter = ["a", "b", "1"][rng.below(3)];
            let sql = format!("{name} LIKE '%{letter}%'");
            (sql, Box::new(move |record: &[String]| Some(record[column].contains(letter))))
        }
        3 => {
            let sql = format!("{name} BETWEEN 0 AND 2");
            let check =
                move |record: &[String]| number(&record[column]).map(|value| (0.0..=2.0).contains(&value));
            (sql, Box::new(check))
        }
        4 => {
            let sql = format!("{name} IN ('a', 'ab', '')");
            (sql, Box::new(move |record: &[String]| Some(["a", "ab", ""].contains(&record[column].as_str()))))
        }
        5 => {
            let (sql, inner) = condition(rng, depth - 1);
            (format!("NOT ({sql})"), Box::new(move |record: &[String]| inner(record).map(|value| !value)))
        }
        kind => {
            let ((left_sql, left), (right_sql, right)) =
                (condition(rng, depth - 1), condition(rng, depth - 1));
            let is_and = kind == 6;
            let word = if is_and { "AND" } else { "OR" };
            let check = move |record: &[String]| match (left(record), right(record)) {
                (Some(value), _) | (_, Some(value)) if value != is_and => Some(value),
                (Some(_), Some(_)) => Some(is_and),
                _ => None,
            };
            (format!("({left_sql}) {word} ({right_sql})"), Box::new(check))
        }
    }
}

#[test]
fn random_queries_select_what_they_say() {
    let cases = if seed::is_long() { 20_000 } else { 600 };
    let (mut selected, mut refused) = (0, 0);
    for seed in seed::many(cases) {
        let rng = &mut Rng(seed);
        let records: Vec<Vec<String>> =
            (0..rng.below(12)).map(|_| (0..3).map(|_| field(rng)).collect()).collect();
        let mut data = String::from("one,two,three\n");
        for record in &records {
            let fields: Vec<String> = record.iter().map(|field| quoted(field, rng.one_in(4))).collect();
            data.push_str(&fields.join(","));
            data.push('\n');
        }
        let (sql, holds) = condition(rng, 3);
        let limit = rng.below(8);
        let mut query = request(
            &format!("SELECT s.two, s._1 FROM S3Object s WHERE {sql} LIMIT {limit}"),
            Input::Csv(CsvInput { header: Header::Use, ..CsvInput::default() }),
        );
        let chosen: Vec<&Vec<String>> = records.iter().filter(|record| holds(record) == Some(true)).collect();
        let line =
            |record: &&Vec<String>| format!("{},{}\n", quoted(&record[1], false), quoted(&record[0], false));
        let expected: String = chosen.iter().take(limit).map(line).collect();
        let piece_bytes = 1 + rng.below(40);
        let ran = run_in_pieces(&query, data.as_bytes(), piece_bytes);
        assert_eq!(ran.unwrap(), expected, "seed {seed}: {}\n{data}", query.expression);
        selected += chosen.len();
        refused += records.len() - chosen.len();

        let numbers: Vec<f64> = chosen.iter().filter_map(|record| number(&record[2])).collect();
        query.expression = format!(
            "SELECT COUNT(*), COUNT(CASE WHEN s.three >= -99 THEN 1 END), \
             SUM(CAST(CASE WHEN s.three >= -99 THEN s.three END AS FLOAT)) FROM S3Object s WHERE {sql}"
        );
        let sum =
            if numbers.is_empty() { String::new() } else { format!("{:?}", numbers.iter().sum::<f64>()) };
        let expected = format!("{},{},{sum}\n", chosen.len(), numbers.len());
        let ran = run_in_pieces(&query, data.as_bytes(), piece_bytes);
        assert_eq!(ran.unwrap(), expected, "seed {seed}: {}\n{data}", query.expression);
    }
    // The test decides something.
    assert!(seed::many(cases).count() == 1 || (selected > 100 && refused > 100), "{selected} {refused}");
}

/// A query reads the output of another one: in all forms of CSV, and through JSON.
#[test]
fn random_records_survive_every_form() {
    for seed in seed::many(300) {
        let rng = &mut Rng(seed);
        let plain = CsvOutput::default();
        let other = CsvOutput {
            record_delimiter: ["\n", "\r\n", "|", "ab"][rng.below(4)].to_owned(),
            field_delimiter: ["\t", ";", "é"][rng.below(3)].to_owned(),
            quote: ["\"", "'"][rng.below(2)].to_owned(),
            escape: ["\"", "\\", "'"][rng.below(3)].to_owned(),
            always_quotes: true,
        };
        let mut data = String::new();
        for _ in 0..rng.below(10) {
            let fields: Vec<String> = (0..3).map(|_| quoted(&(field(rng) + &field(rng)), true)).collect();
            data.push_str(&(fields.join(",") + "\n"));
        }
        let form = |output: &CsvOutput| {
            Input::Csv(CsvInput {
                record_delimiter: output.record_delimiter.clone(),
                field_delimiter: output.field_delimiter.clone(),
                quote: output.quote.clone(),
                escape: output.escape.clone(),
                quoted_record_delimiter: true,
                ..CsvInput::default()
            })
        };
        let convert = |data: &str, input: Input, output: Output| {
            let mut all = request("SELECT * FROM S3Object s", input);
            all.output = output;
            run_in_pieces(&all, data.as_bytes(), 1 + seed as usize % 9).unwrap()
        };
        let always = CsvOutput { always_quotes: true, ..plain.clone() };
        let there = convert(&data, form(&plain), Output::Csv(other.clone()));
        assert_eq!(convert(&there, form(&other), Output::Csv(always.clone())), data, "seed {seed}: {there}");
        let json = convert(&data, form(&plain), Output::Json("\n".into()));
        for input in [Input::JsonLines, Input::JsonDocument] {
            assert_eq!(convert(&json, input, Output::Csv(always.clone())), data, "seed {seed}: {json}");
        }
    }
}
