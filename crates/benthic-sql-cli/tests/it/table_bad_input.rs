//! `benthic table` with bad files: each error names the file, and nothing changes.

use crate::files::{arrow_file, arrow_stream, csv, parquet, trips};
use crate::home::Home;
use arrow::array::{ArrayRef, DurationSecondArray, Int64Array, RecordBatch};
use serde_json::Value;
use std::sync::Arc;

/// Creates a table of `id int64 not null, fare float64, name utf8, day date, price decimal(6, 2),
/// at timestamp(ms)` with one row.
fn home() -> Home {
    let home = Home::new();
    let schema =
        "id int64 not null, fare float64, name utf8, day date, price decimal(6, 2), at timestamp(ms)";
    home.file("first.csv", "id,fare\n1,1.5\n");
    home.ok(&["create", "lake/t", "first.csv", "--schema", schema]);
    home
}

fn state(home: &Home) -> (Value, Vec<String>) {
    (home.json(&["show", "lake/t"]).remove(0), home.objects())
}

/// Appends a good file and a bad one. The call must fail with this status and these words, and
/// change nothing. Creating a table from the bad file must fail too, but its words may differ.
#[track_caller]
fn refused(home: &Home, status: i32, name: &str, content: impl AsRef<[u8]>, words: &[&str]) {
    home.file("good.csv", "id,name\n2,two\n");
    home.file(name, content);
    let before = state(home);
    let error = home.fails(status, &["append", "lake/t", "good.csv", name]);
    for word in words.iter().chain(&[format!("path={name}").as_str()]) {
        assert!(error.contains(word), "{word:?}: {error}");
    }
    assert_eq!(error.lines().count(), 1, "{error}");
    assert_eq!(state(home), before, "{error}");
}

/// Creating a table from the file must fail and leave nothing behind.
#[track_caller]
fn makes_no_table(home: &Home, name: &str) {
    let before = home.objects();
    let error = home.fails(6, &["create", "lake/new", name]);
    assert!(error.contains(&format!("path={name}")), "{error}");
    assert_eq!(home.objects(), before, "nothing is left");
}

#[test]
fn a_file_that_cannot_be_read() {
    let home = home();
    let before = state(&home);
    std::fs::create_dir(home.path("dir.csv")).unwrap();
    home.file("data.bin", "x");
    home.file("good.csv", "id\n2\n");
    for (status, args, word) in [
        (3, &["missing.csv"][..], "path=missing.csv"),
        (6, &["dir.csv"], "name the files in it"),
        (6, &["data.bin"], "--format"),
        (6, &["-"], "--format"),
        (2, &["-", "-", "--format", "csv"], "only once"),
        (2, &[], "or - for stdin"),
        (2, &["good.csv", "--format", "xml"], "invalid value"),
        (2, &["good.csv", "--delimiter", "||"], "one ASCII character"),
    ] {
        let error = home.fails(status, &[&["append", "lake/t"], args].concat());
        assert!(error.contains(word), "{args:?}: {error}");
    }
    // The program opens all files before it writes anything.
    home.fails(3, &["create", "lake/new", "good.csv", "missing.csv"]);
    assert_eq!(state(&home), before);
}

#[test]
fn invalid_csv_is_refused() {
    let home = home();
    for (content, words) in [
        (&b""[..], &["must name the columns"][..]),
        (b"id,fare\n1,2\n3,4,5\n", &["line=3", "expected 2"]),
        (b"id,fare\n1,2\n3\n", &["line=3", "expected 2 got 1"]),
        (b"id,fare\n1,2\n3,x\n", &["line=3", "'x'", "Float64", "column=fare"]),
        (b"id,fare\n1,2\n99999999999999999999,2\n", &["line=3", "Int64"]),
        (b"id,fare\n1.5,2\n", &["line=2", "Int64"]),
        (b"id,name\n1,a\n2,\xff\n", &["UTF-8"]),
        (b"id,id\n1,2\n", &["same name"]),
        (b"id,nmae\n1,a\n", &["did you mean \"name\"", "column=nmae"]),
        (b"fare\n1\n", &["column=id", "may not be null"]),
        (b"id,fare\n,1\n", &["column=id", "nulls"]),
        (b"id,day\n1,2024-01-01\n2,2024-13-01\n", &["line=3", "2024-13-01"]),
        (b"id,day\n1,2024-01-01T10:00:00\n", &["line=2", "cannot hold the whole value", "column=day"]),
        (
            b"id,price\n1,1.25\n2,1.255\n",
            &["line=3", "cannot hold the whole value", "1.255", "decimal(6, 2)"],
        ),
        (b"id,price\n1,12345.00\n", &["line=2", "12345.00", "decimal(6, 2)"]),
        (b"id,at\n1,2024-01-01T10:00:00.0001\n", &["line=2", "cannot hold the whole value"]),
        (b"id,at\n1,yesterday\n", &["line=2", "yesterday", "timestamp(ms)"]),
    ] {
        refused(&home, 6, "bad.csv", content, words);
    }
    for content in [&b""[..], b"id,fare\n1,2\n3,4,5\n", b"id,id\n1,2\n", b"a,b\n1,\xff\n", b",b\n1,2\n"] {
        home.file("bad.csv", content);
        makes_no_table(&home, "bad.csv");
    }
}

#[test]
fn a_csv_value_beyond_the_rows_that_its_type_was_guessed_from() {
    let home = home();
    let mut text = "id,n\n".to_owned();
    for id in 0..200_000 {
        text += &format!("{id},{id}\n");
    }
    text += "200000,1.5\n";
    home.file("late.csv", &text);
    let error = home.fails(6, &["create", "lake/new", "late.csv"]);
    assert!(error.contains("line=200002") && error.contains("'1.5'"), "{error}");
    assert_eq!(home.objects().len(), 3, "objects of the table that was there");
    home.ok(&["create", "lake/new", "late.csv", "--schema", "id int64, n float64"]);
}

#[test]
fn invalid_json_is_refused() {
    let home = home();
    for (content, words) in [
        ("{\"id\": 2}\n{\"id\": 3\n", &["line=2"][..]),
        ("{\"id\": 2}\n\n{\"id\": 3}}\n", &["line=3"]),
        ("[{\"id\": 2}]\n", &["array", "line=1"]),
        ("{\"id\": 2}\n17\n", &["line=2"]),
        ("not json\n", &["line=1"]),
        ("{\"id\": 2}\n{\"id\": \"x\"}\n", &["line=2", "column=id", "value=x"]),
        ("{\"id\": 1.5}\n", &["line=1", "column=id", "1.5"]),
        ("{\"id\": 2, \"fare\": true}\n", &["line=1"]),
        ("{\"id\": 2, \"fare\": [1]}\n", &["line=1"]),
        ("{\"id\": 2, \"price\": 1.001}\n", &["line=1", "column=price"]),
        ("{\"id\": 2, \"far\": 1}\n", &["did you mean \"fare\"", "column=far"]),
        ("{\"fare\": 2}\n", &["column=id", "may not be null"]),
    ] {
        refused(&home, 6, "bad.jsonl", content, words);
    }
    for content in ["", "\n\n", "{}\n", "[1]\n", "{\"a\": 1}\n{\"a\"\n"] {
        home.file("bad.jsonl", content);
        makes_no_table(&home, "bad.jsonl");
    }
}

#[test]
fn a_json_column_that_comes_late_is_not_lost() {
    let home = home();
    let mut text = String::new();
    for id in 0..20_000 {
        text += &format!("{{\"id\": {id}}}\n");
    }
    text += "{\"id\": 20000, \"late\": 1}\n";
    refused(&home, 6, "late.jsonl", &text, &["line=20001", "'late'"]);
    makes_no_table(&home, "late.jsonl");
}

#[test]
fn invalid_parquet_and_arrow_are_refused() {
    let home = home();
    let rows = trips(0..20_000);
    let whole = [("parquet", parquet(&rows)), ("arrow", arrow_file(&rows)), ("arrows", arrow_stream(&rows))];
    for (extension, whole) in whole {
        let name = format!("bad.{extension}");
        for content in [
            &b""[..],
            b"x",
            b"nonsense nonsense nonsense",
            &whole[..whole.len() / 2],
            &whole[1..],
            &csv(&rows),
        ] {
            refused(&home, 6, &name, content, &[]);
            makes_no_table(&home, &name);
        }
    }
    // The footer is intact, but a page is damaged.
    let mut torn = parquet(&rows);
    let middle = torn.len() / 2;
    torn[middle - 500..middle + 500].fill(0xff);
    refused(&home, 6, "bad.parquet", &torn, &[]);
    makes_no_table(&home, "bad.parquet");
}

#[test]
fn columns_that_do_not_fit() {
    let home = home();
    let text = RecordBatch::try_from_iter([
        ("id", Arc::new(Int64Array::from(vec![2])) as ArrayRef),
        ("fare", Arc::new(arrow::array::StringArray::from(vec!["1.5"])) as ArrayRef),
    ]);
    refused(
        &home,
        6,
        "bad.parquet",
        parquet(&text.unwrap()),
        &["column=fare", "type=Utf8", "wanted=Float64"],
    );
    let nulls =
        RecordBatch::try_from_iter([("id", Arc::new(Int64Array::from(vec![Some(2), None])) as ArrayRef)]);
    refused(&home, 6, "bad.parquet", parquet(&nulls.unwrap()), &["column=id", "nulls"]);
    let duration: ArrayRef = Arc::new(DurationSecondArray::from(vec![1]));
    home.file("bad.arrow", arrow_file(&RecordBatch::try_from_iter([("took", duration)]).unwrap()));
    let error = home.fails(7, &["create", "lake/new", "bad.arrow"]);
    assert!(error.contains("column=took") && error.contains("cast it first"), "{error}");
    home.ok(&["create", "lake/nested", "--schema", "id int64, tags list(utf8)"]);
    home.file("tags.csv", "id,tags\n1,a\n");
    let error = home.fails(7, &["append", "lake/nested", "tags.csv"]);
    assert!(error.contains("CSV cannot represent") && error.contains("path=tags.csv"), "{error}");
}
