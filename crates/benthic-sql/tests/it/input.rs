//! Reading files: types, type guessing, and bytes that are damaged anywhere.

use crate::files::{arrow_file, arrow_file_compressed, arrow_stream, csv, parquet, trips};
use arrow::array::{Array, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::Schema;
use benthic_core::{ErrorKind, ObjectAddress, ObjectId, Pool, Result, Store, WriteOp};
use benthic_embedded::MemStore;
use benthic_sql::input::{BATCH_ROWS, Format, Options, Source, find_objects, text_if_unknown};
use benthic_sql::syntax::{parse_columns, show_column};
use benthic_table::{Definition, TableSchema};
use futures::executor::block_on;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

fn table(columns: &str) -> TableSchema {
    Definition::new(&Schema::new(parse_columns(columns).unwrap())).unwrap().schema
}

fn open(dir: &TempDir, name: &str, content: &[u8], options: &Options) -> Result<Source> {
    let path = dir.path().join(name);
    std::fs::write(&path, content).unwrap();
    Source::open(&path, options)
}

/// The columns of a table created from the text.
#[track_caller]
fn guessed(name: &str, text: &str) -> String {
    let dir = TempDir::new().unwrap();
    let schema = open(&dir, name, text.as_bytes(), &Options::default()).unwrap().schema().unwrap();
    let definition = Definition::new(&text_if_unknown(&schema)).unwrap();
    definition.schema.columns().iter().map(show_column).collect::<Vec<_>>().join(", ")
}

/// Reads a text for a table with these columns; returns its rows as JSON lines.
#[track_caller]
fn read(name: &str, text: &str, columns: &str, options: &Options) -> Vec<String> {
    let dir = TempDir::new().unwrap();
    let source = open(&dir, name, text.as_bytes(), options).unwrap();
    let batches: Vec<RecordBatch> =
        source.batches(&table(columns)).unwrap().map(|batch| batch.unwrap().rows).collect();
    let all = concat_batches(&batches[0].schema(), &batches).unwrap();
    let mut text = Vec::new();
    arrow::json::LineDelimitedWriter::new(&mut text).write(&all).unwrap();
    String::from_utf8(text).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn file_names_determine_the_format() {
    for (name, format) in [
        ("a.parquet", Some(Format::Parquet)),
        ("a.CSV", Some(Format::Csv)),
        ("dir.csv/a.tsv", Some(Format::Tsv)),
        ("a.ndjson", Some(Format::Json)),
        ("a.json", Some(Format::Json)),
        ("a.arrows", Some(Format::Arrow)),
        ("a.feather", Some(Format::Arrow)),
        ("a.csv.gz", None),
        ("csv", None),
    ] {
        assert_eq!(Format::of(Path::new(name)), format, "{name}");
    }
}

#[test]
fn types_of_text_are_guessed() {
    let csv = "i,f,b,d,t,s,n,q\n1,1,true,2024-01-31,2024-01-31T10:00:00,x,,\"1\n2\"\n,2.5,false,,2024-01-31 10:00:00.5,1,,\n";
    assert_eq!(
        guessed("a.csv", csv),
        "i int64, f float64, b bool, d date, t timestamp(us), s utf8, n utf8, q utf8"
    );
    assert_eq!(
        guessed("a.csv", "\u{feff}id;x\n1;2\n"),
        "id;x utf8",
        "a byte order mark is no part of a name"
    );
    assert_eq!(guessed("a.csv", "id\n"), "id utf8");
    assert_eq!(guessed("a.tsv", "a\tb\r\n1\t2\r\n"), "a int64, b int64");
    let json = "{\"z\": 1, \"a\": 1.5, \"l\": [1], \"s\": {\"y\": true, \"x\": null}}\n\n{\"m\": [], \"z\": null, \"a\": 2}\n";
    assert_eq!(
        guessed("a.jsonl", json),
        "z int64, a float64, l list(int64), s struct(x utf8, y bool), m list(utf8)"
    );
    assert_eq!(guessed("a.jsonl", "{\"a\": 1}\n{\"a\": \"x\"}\n"), "a utf8");
}

#[test]
fn text_is_read_as_the_types_of_the_table() {
    let csv = "s,i,u,p,at,t,f\n007,1,255,1.50,2024-01-31T10:00:00Z,10:00:00.5,1e3\n,,,,,,\n";
    let columns =
        "i int8, u uint8, s utf8, p decimal(9, 4), at timestamp(ns), t time(ms), f float32, other utf8";
    assert_eq!(
        read("a.csv", csv, columns, &Options::default()),
        [
            r#"{"s":"007","i":1,"u":255,"p":1.5000,"at":"2024-01-31T10:00:00","t":"10:00:00.500","f":1000.0}"#,
            "{}"
        ]
    );
    let json = "{\"i\": \"-1\", \"s\": 12345678901234567890, \"p\": 12.50, \"l\": [{\"x\": 1}]}\n";
    assert_eq!(
        read("a.json", json, "i int8, s utf8, p decimal(9, 4), l list(struct(x int64))", &Options::default()),
        [r#"{"i":-1,"s":"12345678901234567890","p":12.5000,"l":[{"x":1}]}"#]
    );
}

#[test]
fn parts_of_lists_and_structs_are_read_exactly_too() {
    let columns = "l list(int64), s struct(p decimal(6, 2), at list(timestamp(ms))), m map(utf8, int8), f list(float64, 2)";
    let line = r#"{"l":[1,null],"s":{"p":1.50,"at":["2024-01-31T10:00:00.123"]},"m":{"a":7},"f":[1.0,2.5]}"#;
    assert_eq!(
        read("a.json", &format!("{line}\n{{\"l\": []}}\n"), columns, &Options::default()),
        [line, r#"{"l":[]}"#]
    );
    let dir = TempDir::new().unwrap();
    for (text, word) in [
        (r#"{"l": [1, 1.5]}"#, "1.5"),
        (r#"{"s": {"p": 1.005}}"#, "1.005"),
        (r#"{"s": {"at": ["2024-01-31T10:00:00.1234"]}}"#, "10:00:00.1234"),
        (r#"{"m": {"a": 300}}"#, "300"),
        (r#"{"s": {"q": 1}}"#, "'q'"),
    ] {
        let source = open(&dir, "a.json", format!("{{}}\n{text}\n").as_bytes(), &Options::default()).unwrap();
        let error = source.batches(&table(columns)).unwrap().next().unwrap().unwrap_err().to_string();
        assert!(error.contains(word) && error.contains("line=2"), "{text}: {error}");
    }
}

#[test]
fn csv_uses_the_given_null_and_delimiter() {
    let options = Options { null: "N/A (none)".to_owned(), delimiter: Some(b';'), ..Options::default() };
    assert_eq!(
        read("a.csv", "a;b\n1;\"x;y\"\nN/A (none);\n2;N/A (none)\n", "a int64, b utf8", &options),
        [r#"{"a":1,"b":"x;y"}"#, r#"{"b":""}"#, r#"{"a":2}"#]
    );
}

#[test]
fn lines_are_counted_over_batches() {
    let dir = TempDir::new().unwrap();
    for (name, line) in [("a.csv", "x\n"), ("a.jsonl", "{\"i\": \"x\"}\n")] {
        let good = if name == "a.csv" { "1\n" } else { "{\"i\": 1}\n" };
        let header = if name == "a.csv" { "i\n" } else { "" };
        let rows = 3 * BATCH_ROWS + 10;
        let text = format!("{header}{}{line}{good}", good.repeat(rows));
        let source = open(&dir, name, text.as_bytes(), &Options::default()).unwrap();
        let mut batches = source.batches(&table("i int64")).unwrap();
        for _ in 0..3 {
            assert_eq!(batches.next().unwrap().unwrap().rows.num_rows(), BATCH_ROWS);
        }
        let error = batches.next().unwrap().unwrap_err().to_string();
        let line = format!("line={}", rows + 1 + header.lines().count());
        assert!(error.contains(&line), "{line}: {error}");
        assert!(batches.next().is_none());
    }
}

#[test]
fn large_rows_make_small_batches() {
    let dir = TempDir::new().unwrap();
    let cell = "x".repeat(100_000);
    for (name, header, row) in
        [("a.csv", "s\n", format!("{cell}\n")), ("a.jsonl", "", format!("{{\"s\": \"{cell}\"}}\n"))]
    {
        let text = format!("{header}{}", row.repeat(400));
        let source = open(&dir, name, text.as_bytes(), &Options::default()).unwrap();
        let rows: Vec<usize> =
            source.batches(&table("s utf8")).unwrap().map(|batch| batch.unwrap().rows.num_rows()).collect();
        assert_eq!(rows.iter().sum::<usize>(), 400);
        assert!(rows.iter().all(|rows| *rows <= 100), "{name}: {rows:?}");
    }
}

#[test]
fn progress_adds_up_to_the_file() {
    let dir = TempDir::new().unwrap();
    let rows = trips(0..30_000);
    for (name, content) in [
        ("a.parquet", parquet(&rows)),
        ("a.csv", crate::files::csv(&rows)),
        ("a.json", crate::files::json(&rows)),
        ("a.arrow", arrow_file(&rows)),
    ] {
        let source = open(&dir, name, &content, &Options::default()).unwrap();
        let batches = source.batches(&table("id int64, fare float64, name utf8")).unwrap();
        let read: u64 = batches.map(|batch| batch.unwrap().read_bytes).sum();
        let len_bytes = content.len() as u64;
        assert!(read <= len_bytes && read + 1_024 > len_bytes, "{name}: {read} of {len_bytes}");
    }
}

/// Whether the whole file can be read. If not, the error must name the file.
fn reads(dir: &TempDir, name: &str, content: &[u8], columns: &TableSchema) -> bool {
    let all = open(dir, name, content, &Options::default()).and_then(|source| {
        source.batches(columns)?.map(|batch| Ok(batch?.rows.num_rows())).sum::<Result<usize>>()
    });
    if let Err(error) = &all {
        assert!(error.to_string().contains(name), "{error}");
    }
    all.is_ok()
}

#[test]
fn a_flipped_byte_never_causes_a_panic() {
    let dir = TempDir::new().unwrap();
    let rows = trips(0..2_000);
    let columns = table("id int64, fare float64, name utf8");
    for (name, whole) in [
        ("a.parquet", parquet(&rows)),
        ("a.arrow", arrow_file(&rows)),
        ("b.arrow", arrow_file_compressed(&rows)),
        ("a.arrows", arrow_stream(&rows)),
    ] {
        assert!(reads(&dir, name, &whole, &columns));
        // The ends of a file locate the rest, so damage each byte there.
        let ends = (0..600).chain(whole.len() - 800..whole.len());
        let places: Vec<usize> = ends.chain((600..whole.len() - 800).step_by(997)).collect();
        let failed = places.iter().enumerate().filter(|(bit, at)| {
            let mut content = whole.clone();
            content[**at] ^= 1 << (bit % 8);
            !reads(&dir, name, &content, &columns)
        });
        let failed = failed.count();
        assert!(failed > 100, "{name}: some of these bytes matter: {failed}");
    }
}

#[test]
fn empty_files_have_no_rows() {
    let dir = TempDir::new().unwrap();
    for (name, content) in [("a.csv", "id\n"), ("a.jsonl", ""), ("a.jsonl", "\n \n")] {
        let source = open(&dir, name, content.as_bytes(), &Options::default()).unwrap();
        let rows: usize =
            source.batches(&table("id int64")).unwrap().map(|batch| batch.unwrap().rows.num_rows()).sum();
        assert_eq!(rows, 0);
    }
    let none = trips(0..0);
    let source = open(&dir, "a.parquet", &parquet(&none), &Options::default()).unwrap();
    assert!(source.schema().unwrap().fields().len() == 3 && none.column(0).is_empty());
}

/// An object that another process overwrites after it was found is a conflict in every format, also
/// where the reader first copies the object to a file.
#[test]
fn objects_that_change_before_they_are_read_are_conflicts() {
    let store = MemStore::new(benthic_embedded::Options::default());
    block_on(store.create_pool("p")).unwrap();
    let pool: Arc<dyn Pool> = block_on(store.open_pool("p")).unwrap();
    for (name, data) in [("a.csv", csv(&trips(0..10))), ("a.parquet", parquet(&trips(0..10)))] {
        let object = ObjectId::new(name).unwrap();
        let write = || block_on(pool.write(&object, WriteOp::new().write_full(data.clone()))).unwrap();
        write();
        let address = ObjectAddress { pool: "p".to_owned(), object: object.clone() };
        let found = block_on(find_objects(&pool, &address)).unwrap();
        assert!(Source::open_object(&found[0], &Options::default()).is_ok(), "{name}");
        write();
        let error = Source::open_object(&found[0], &Options::default()).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{name} {error}");
        assert!(error.to_string().contains("changed while it was read; load it again"), "{error}");
    }
}
