//! `benthic table`: the verbs that users need.

use crate::files::{arrow_file, arrow_file_compressed, arrow_stream, csv, json, parquet, trips};
use crate::home::{Home, printed};
use arrow::array::{
    ArrayRef, Decimal128Array, DictionaryArray, Int32Array, LargeStringArray, RecordBatch, StringViewArray,
    TimestampSecondArray,
};
use arrow::datatypes::Int8Type;
use benthic_table::{Table, WriterOptions};
use serde_json::{Value, json};
use std::sync::Arc;

type Encode = fn(&RecordBatch) -> Vec<u8>;

const FORMATS: [(&str, &str, Encode); 6] = [
    ("parquet", "parquet", parquet),
    ("csv", "csv", csv),
    ("jsonl", "json", json),
    ("feather", "arrow", arrow_file),
    ("arrows", "arrow", arrow_stream),
    ("ipc", "arrow", arrow_file_compressed),
];

/// The keys of a JSON object.
fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn every_format_makes_the_same_table_from_files_and_from_stdin() {
    let home = Home::new();
    let expected: Vec<String> = {
        home.file("a.parquet", parquet(&trips(0..30)));
        home.ok(&["create", "lake/expected", "a.parquet"]);
        home.rows("expected")
    };
    assert_eq!(expected.len(), 30);
    for (extension, format, encode) in FORMATS {
        let (first, second) = (format!("one.{extension}"), format!("two.{extension}"));
        home.file(&first, encode(&trips(0..10)));
        home.file(&second, encode(&trips(10..20)));
        let table = format!("lake/{extension}");
        let told = home.ok(&["create", &table, &first, &second]);
        assert!(told.starts_with(&format!("{table}: 20 rows in 1 object, ")), "{told}");
        assert!(told.ends_with(", snapshot 2\n"), "one commit after the creation: {told}");
        let told = home.pipe(&["append", &table, "-", "--format", format], &encode(&trips(20..30)));
        let told = printed(&told, &["append"]);
        assert!(told.starts_with(&format!("{table}: 10 rows added, 30 rows in 2 objects, ")), "{told}");
        assert_eq!(home.rows(extension), expected, "{extension}");
        assert_eq!(home.columns(&table), ["id int64", "fare float64", "name utf8"], "{extension}");
    }
}

#[test]
fn results_have_these_fields_in_json() {
    let home = Home::new();
    home.file("a.parquet", parquet(&trips(0..1_000)));
    let created = home.json(&["create", "lake/t", "a.parquet", "--sort-by", "id"]).remove(0);
    let held = ["objects", "pool", "rows", "size_bytes", "snapshot", "table"];
    assert_eq!(keys(&created), held);
    assert_eq!(
        (&created["rows"], &created["objects"], &created["snapshot"]),
        (&json!(1_000), &json!(1), &json!(2))
    );
    let appended = home.json(&["append", "lake/t", "a.parquet"]).remove(0);
    assert_eq!(keys(&appended), ["objects", "pool", "rows", "rows_added", "size_bytes", "snapshot", "table"]);
    assert_eq!((&appended["rows_added"], &appended["rows"]), (&json!(1_000), &json!(2_000)));
    let listed = home.json(&["ls", "lake"]).remove(0);
    let fields =
        ["id", "objects", "pool", "rows", "size_bytes", "snapshot", "state", "table", "time_unix_ms"];
    assert_eq!(keys(&listed), fields);
    assert_eq!(
        (&listed["table"], &listed["state"], &listed["rows"]),
        (&json!("t"), &json!("live"), &json!(2_000))
    );
    let shown = home.json(&["show", "lake/t"]).remove(0);
    let fields = [
        "bloom_filters",
        "codec",
        "column_groups",
        "columns",
        "id",
        "indexes",
        "object_size_bytes",
        "objects",
        "operation",
        "partition_by",
        "pool",
        "row_group_size_bytes",
        "rows",
        "size_bytes",
        "snapshot",
        "sort_by",
        "table",
        "text_indexes",
        "time_unix_ms",
        "writers",
    ];
    assert_eq!(keys(&shown), fields);
    assert_eq!(shown["columns"][1], json!({ "id": 2, "name": "fare", "type": "float64", "nullable": true }));
    assert_eq!((&shown["sort_by"], &shown["partition_by"]), (&json!(["id"]), &json!("rows")));
    let history = home.json(&["history", "lake/t"]);
    let operations: Vec<_> = history.iter().map(|snapshot| snapshot["operation"].as_str().unwrap()).collect();
    assert_eq!(operations, ["create", "append", "append"]);
    assert_eq!(
        keys(&history[0]),
        ["objects", "operation", "pool", "rows", "size_bytes", "snapshot", "table", "time_unix_ms"]
    );
    let vacuumed = home.json(&["vacuum", "lake/t", "--keep", "0s"]).remove(0);
    let fields =
        ["dropped", "objects_removed", "pool", "snapshots_removed", "strangers", "table", "writers_given_up"];
    assert_eq!((keys(&vacuumed), &vacuumed["snapshots_removed"]), (fields.to_vec(), &json!(2)));
    let altered = home.json(&["alter", "lake/t", "--rename", "fare:price"]).remove(0);
    assert_eq!(keys(&altered), held);
    let dropped = home.json(&["drop", "lake/t", "--yes", "lake/t"]).remove(0);
    assert_eq!(keys(&dropped), ["objects_removed", "pool", "table"]);
}

#[test]
fn a_table_is_looked_at() {
    let home = Home::new();
    home.file("a.parquet", parquet(&trips(0..1_200)));
    home.ok(&["create", "lake/trips", "a.parquet", "--partition-by", "hash(id, 2)", "--sort-by", "name,id"]);
    let shown = home.ok(&["show", "lake/trips"]);
    for line in [
        "rows             1,200\n",
        "partitioned by   hash(id, 2)\n",
        "sorted by        name, id\n",
        "\n       2  fare float64",
    ] {
        assert!(shown.contains(line), "{line:?}: {shown}");
    }
    assert!(home.ok(&["show", "lake/trips", "--snapshot", "1"]).contains("1 of 2, create"));
    let error = home.fails(3, &["show", "lake/trips", "--snapshot", "9"]);
    assert!(error.contains("oldest=1 newest=2"), "{error}");
    assert_eq!(home.ok(&["history", "lake/trips"]).lines().count(), 2);
    assert_eq!(home.ok(&["ls"]), "lake/trips\n");
    let long = home.ok(&["ls", "lake", "--long"]);
    assert!(long.contains(" 1,200 ") && long.ends_with(" live     lake/trips\n"), "{long}");
}

#[test]
fn rows_are_partitioned_and_sorted() {
    let home = Home::new();
    home.file(
        "days.csv",
        "day,n\n2024-02-03,3\n2024-01-31,2\n2024-02-01,1\n,0\n2024-01-01,5\n2024-02-02,9\n",
    );
    let by_month = ["--partition-by", "range(day, month)", "--sort-by", "n"];
    home.ok(&[&["create", "lake/m", "days.csv"], by_month.as_slice()].concat());
    let mut objects: Vec<Vec<i64>> = Vec::new();
    for batch in home.batches("m") {
        let n = batch.column_by_name("n").unwrap();
        objects.push(arrow::array::AsArray::as_primitive::<arrow::datatypes::Int64Type>(n).values().to_vec());
    }
    objects.sort_unstable();
    assert_eq!(objects, [vec![0], vec![1, 3, 9], vec![2, 5]], "an object a month, each sorted by n");
    let shown = home.json(&["show", "lake/m"]).remove(0);
    assert_eq!(shown["partition_by"], "range(day, month)");
    let told = home.ok(&["create", "lake/b", "days.csv", "--partition-by", "range(n, 2, 5)"]);
    assert!(told.starts_with("lake/b: 6 rows in 3 objects"), "{told}");
    for (by, hint) in [
        ("hash(dy, 4)", "did you mean \"day\""),
        ("range(n, month)", "does not support this kind of partitioning"),
        ("hash(n, 0)", "the number of buckets or bounds is out of range"),
    ] {
        let error = home.fails(6, &["create", "lake/x", "days.csv", "--partition-by", by]);
        assert!(error.contains(hint) && error.contains("table=lake/x"), "{by}: {error}");
    }
    assert!(
        home.fails(2, &["create", "lake/x", "days.csv", "--partition-by", "month(day)"])
            .contains("hash(COLUMN")
    );
    assert!(home.fails(6, &["create", "lake/x", "days.csv", "--sort-by", "m"]).contains("no such column"));
    assert!(
        home.fails(6, &["create", "lake/x", "days.csv", "--object-size", "1KiB"]).contains("1 MiB to 64 MiB")
    );
    assert_eq!(home.ok(&["ls", "lake"]), "lake/b\nlake/m\n");
}

#[test]
fn objects_have_about_the_size_that_was_asked_for() {
    let home = Home::new();
    // Random bits do not compress.
    let noise = |row: i64| {
        (row as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17).wrapping_mul(row as u64 | 1)
    };
    let rows: String =
        (0..150_000).map(|row| format!("{},{}\n", noise(row) >> 2, noise(row + 1) >> 3)).collect();
    home.file("n.csv", format!("a,b\n{rows}"));
    let told = home.json(&["create", "lake/n", "n.csv", "--object-size", "1MiB"]).remove(0);
    let (objects, size_bytes) = (told["objects"].as_u64().unwrap(), told["size_bytes"].as_u64().unwrap());
    assert!((2..=4).contains(&objects) && size_bytes > 2_000_000, "{told}");
}

#[test]
fn a_table_without_files_has_the_columns_that_were_said() {
    let home = Home::new();
    let schema = "id int64 not null, \"at time\" timestamp(us, 'UTC'), price decimal(10, 2), tags list(utf8), \
                  where struct(x float32, y float32 not null), m map(utf8, int32), raw binary(4), d date, t time(ms)";
    let told = home.ok(&["create", "lake/e", "--schema", schema]);
    assert_eq!(told, "lake/e: 0 rows in 0 objects, 0 B, snapshot 1\n");
    let mut columns = home.columns("lake/e");
    columns[1] = format!("\"at time\"{}", columns[1].strip_prefix("at time").unwrap());
    assert_eq!(columns.join(", "), schema);
    let error = home.fails(2, &["create", "lake/f"]);
    assert!(error.contains("--schema"), "{error}");
    for (schema, hint) in [
        ("id", "a type is bool"),
        ("id int", ""),
        ("id integr", "a type is bool"),
        ("id int64, id utf8", "same name"),
        ("id timestamp(s)", "ms, us or ns"),
        ("id int64 nonsense", "unexpected text"),
    ] {
        if hint.is_empty() {
            home.ok(&["create", "lake/g", "--schema", schema]);
        } else {
            let error = home.fails(6, &["create", "lake/f", "--schema", schema]);
            assert!(error.contains(hint), "{schema}: {error}");
        }
    }
}

#[test]
fn said_types_are_what_files_are_read_as() {
    let home = Home::new();
    home.file("a.csv", "id,price,at\n1,2.50,2024-01-31T12:00:00.123456Z\n2,,\n");
    home.file("b.jsonl", "{\"id\": 3, \"price\": 7.25, \"at\": \"2024-01-31 12:00:00\"}\n{\"id\": 4}\n");
    let schema = "id int16 not null, price decimal(10, 2), at timestamp(us, 'UTC')";
    home.ok(&["create", "lake/t", "a.csv", "b.jsonl", "--schema", schema]);
    assert_eq!(
        home.rows("t"),
        [
            r#"{"id":1,"price":2.50,"at":"2024-01-31T12:00:00.123456Z"}"#,
            r#"{"id":2}"#,
            r#"{"id":3,"price":7.25,"at":"2024-01-31T12:00:00Z"}"#,
            r#"{"id":4}"#,
        ]
    );
}

#[test]
fn types_of_files_are_kept_as_tables_have_them() {
    let home = Home::new();
    let seconds = || TimestampSecondArray::from(vec![1_700_000_000]).with_timezone("Europe/Berlin");
    let columns: [(&str, ArrayRef, bool); 6] = [
        ("plain", Arc::new(Int32Array::from(vec![7])), false),
        ("large", Arc::new(LargeStringArray::from(vec!["a"])), true),
        ("view", Arc::new(StringViewArray::from(vec!["b"])), true),
        ("coded", Arc::new(vec!["c"].into_iter().collect::<DictionaryArray<Int8Type>>()), true),
        ("at", Arc::new(seconds()), true),
        ("price", Arc::new(Decimal128Array::from(vec![1234]).with_precision_and_scale(9, 2).unwrap()), true),
    ];
    let rows = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    home.file("a.arrow", arrow_file(&rows));
    home.file("a.parquet", parquet(&rows));
    home.ok(&["create", "lake/t", "a.arrow", "a.parquet"]);
    assert_eq!(
        home.columns("lake/t"),
        [
            "plain int32 not null",
            "large utf8",
            "view utf8",
            "coded utf8",
            "at timestamp(ms, 'Europe/Berlin')",
            "price decimal(9, 2)",
        ]
    );
    let row =
        r#"{"plain":7,"large":"a","view":"b","coded":"c","at":"2023-11-14T23:13:20+01:00","price":12.34}"#;
    assert_eq!(home.rows("t"), [row, row]);
}

#[test]
fn a_pipe_with_a_name_is_read_as_a_file() {
    let home = Home::new();
    home.file("a.parquet", parquet(&trips(0..10)));
    home.file("a.arrow", arrow_file(&trips(10..20)));
    let program = env!("CARGO_BIN_EXE_benthic-sql");
    let script = format!(
        "{program} table create lake/t <(cat a.parquet) --format parquet && \
         {program} table append lake/t <(cat a.arrow) --format arrow"
    );
    let mut shell = std::process::Command::new("bash");
    shell.args(["-c", &script]).current_dir(home.dir()).env_remove("BENTHIC_STORE");
    printed(&shell.output().unwrap(), &["bash"]);
    assert_eq!(home.rows("t").len(), 20);
}

#[test]
fn columns_are_added_dropped_renamed_and_widened() {
    let home = Home::new();
    home.file("a.csv", "id,fare\n1,2.5\n");
    home.ok(&["create", "lake/t", "a.csv", "--schema", "id int16, fare float32"]);
    assert_eq!(
        home.ok(&["alter", "lake/t", "--add", "tip decimal(8, 2)", "--add", "note utf8"]),
        "lake/t: 4 columns, snapshot 3\n"
    );
    home.ok(&["alter", "lake/t", "--widen", "id int64", "--widen", "fare float64"]);
    home.ok(&["alter", "lake/t", "--rename", "fare:price"]);
    home.ok(&["alter", "lake/t", "--drop", "note"]);
    assert_eq!(home.columns("lake/t"), ["id int64", "price float64", "tip decimal(8, 2)"]);
    home.file("b.csv", "id,price,tip\n5000000000,1.5,0.25\n");
    home.ok(&["append", "lake/t", "b.csv"]);
    assert_eq!(home.rows("t"), [r#"{"id":1,"price":2.5}"#, r#"{"id":5000000000,"price":1.5,"tip":0.25}"#]);
    assert!(home.ok(&["show", "lake/t", "--snapshot", "2"]).contains("2  fare float32"));
    for (change, value, hint) in [
        ("--widen", "id int32", "can change only to a larger integer"),
        ("--drop", "prise", "did you mean \"price\""),
        ("--rename", "price", "FROM:TO"),
        ("--rename", "price:id", "same name"),
        ("--add", "id utf8", "same name"),
        ("--add", "x int64 not null", "leave out 'not null'"),
    ] {
        let error = home.fails(6, &["alter", "lake/t", change, value]);
        assert!(error.contains(hint), "{change} {value}: {error}");
    }
    home.fails(2, &["alter", "lake/t"]);
    home.fails(2, &["alter", "lake/t", "--drop", "tip", "--add", "y utf8"]);
}

#[test]
fn new_columns_of_files_are_added_if_that_is_said() {
    let home = Home::new();
    home.file("a.csv", "id\n1\n");
    home.file("b.csv", "id,day,code\n2,2024-05-06,x\n");
    home.ok(&["create", "lake/t", "a.csv"]);
    let error = home.fails(6, &["append", "lake/t", "b.csv"]);
    assert!(error.contains("column=day") && error.contains("path=b.csv"), "{error}");
    home.ok(&["append", "lake/t", "b.csv", "--add-columns"]);
    assert_eq!(home.columns("lake/t"), ["id int64", "day date", "code utf8"]);
    assert_eq!(home.rows("t"), [r#"{"id":1}"#, r#"{"id":2,"day":"2024-05-06","code":"x"}"#]);
}

#[test]
fn what_is_dropped_is_gone() {
    let home = Home::new();
    home.file("a.parquet", parquet(&trips(0..10)));
    home.ok(&["create", "lake/t", "a.parquet"]);
    assert_eq!(home.objects().len(), 3);
    home.ok(&["append", "lake/t", "a.parquet"]);
    for (args, expected) in [
        (&["drop", "lake/t"][..], "20 rows, 2 objects with "),
        (&["drop", "lake/t"], ", 3 snapshots; add --yes lake/t to confirm"),
        (&["drop", "lake/t", "--yes", "t"], r#"the name of the table is "lake/t", not "t""#),
    ] {
        let error = home.fails(2, args);
        assert!(error.contains(expected), "{args:?}: {error}");
    }
    let error = home.fails(2, &["--json", "drop", "lake/t"]);
    assert!(error.contains(r#""kind":"usage""#), "{error}");
    assert_eq!(home.objects().len(), 5, "nothing was removed");
    assert_eq!(home.ok(&["drop", "lake/t", "--yes", "lake/t"]), "lake/t: dropped, 4 objects removed\n");
    assert_eq!((home.objects().len(), home.ok(&["ls"]).as_str()), (0, ""));
    home.fails(3, &["show", "lake/t"]);
}

#[test]
fn a_table_with_a_writer_at_work_keeps_its_name_until_forced() {
    let home = Home::new();
    home.file("a.parquet", parquet(&trips(0..10)));
    home.ok(&["create", "lake/t", "a.parquet"]);
    home.with_store(async |store| {
        let pool = benthic_core::Store::open_pool(store, "lake").await.unwrap();
        let table = Table::open(pool, "t", benthic_core::Environment::default()).await.unwrap();
        // Simulate a killed writer: it stays registered.
        drop(table.writer(WriterOptions::default()).await.unwrap());
    });
    assert_eq!(home.json(&["show", "lake/t"])[0]["writers"], 1);
    let error = home.fails(10, &["drop", "lake/t", "--yes", "lake/t"]);
    assert!(error.contains("--force"), "{error}");
    assert_eq!(home.json(&["ls"])[0]["state"], "dropping");
    assert!(home.fails(4, &["create", "lake/t", "a.parquet"]).contains("drop it again"));
    assert!(home.fails(3, &["append", "lake/t", "a.parquet"]).contains("being dropped"));
    home.ok(&["drop", "lake/t", "--force"]);
    home.ok(&["create", "lake/t", "a.parquet"]);
}

#[test]
fn vacuum_keeps_what_is_asked_for() {
    let home = Home::new();
    home.file("a.parquet", parquet(&trips(0..10)));
    home.ok(&["create", "lake/t", "a.parquet"]);
    home.ok(&["append", "lake/t", "a.parquet"]);
    home.ok(&["append", "lake/t", "a.parquet"]);
    assert_eq!(
        home.ok(&["vacuum", "lake/t"]),
        "lake/t: 0 snapshots and 0 objects removed\n",
        "all are young"
    );
    assert_eq!(
        home.ok(&["vacuum", "lake/t", "--keep", "0s", "--keep-snapshots", "2"]),
        "lake/t: 2 snapshots and 0 objects removed\n"
    );
    assert_eq!(home.ok(&["history", "lake/t"]).lines().count(), 2);
    assert_eq!(home.rows("t").len(), 30);
    for age in ["1", "h", "-1h", "1w"] {
        home.fails(2, &["vacuum", "lake/t", &format!("--keep={age}")]);
    }
}

#[test]
fn names_that_are_none_say_what_may_be_meant() {
    let home = Home::new();
    home.file("a.parquet", parquet(&trips(0..10)));
    home.ok(&["create", "lake/trips", "a.parquet"]);
    for args in [
        &["show", "lake/tips"][..],
        &["history", "lake/tips"],
        &["append", "lake/tips", "a.parquet"],
        &["alter", "lake/tips", "--drop", "id"],
        &["drop", "lake/tips"],
        &["vacuum", "lake/tips"],
    ] {
        let error = home.fails(3, args);
        assert!(
            error.contains("did you mean \"trips\"") && error.contains("table=lake/tips"),
            "{args:?}: {error}"
        );
    }
    assert!(home.fails(3, &["show", "lakes/trips"]).contains("did you mean \"lake\""));
    for (address, hint) in [
        ("trips", "a table is POOL/TABLE"),
        ("lake:ns/trips", "tables have no namespaces"),
        ("lake/a/b", "the table's name"),
        ("/trips", "pool name"),
    ] {
        assert!(home.fails(2, &["show", address]).contains(hint), "{address}");
    }
    assert!(home.fails(4, &["create", "lake/trips", "a.parquet"]).contains("append to it"));
    assert_eq!(home.rows("trips").len(), 10);
}

#[test]
fn a_damaged_table_is_listed_and_told() {
    let home = Home::new();
    home.file("a.parquet", parquet(&trips(0..10)));
    home.ok(&["create", "lake/good", "a.parquet"]);
    home.with_store(async |store| {
        let pool = benthic_core::Store::open_pool(store, "lake").await.unwrap();
        let head = benthic_table::ids::head_object("bad").unwrap();
        pool.write_full(&head, "nonsense").await.unwrap();
    });
    let run = home.run(&["ls", "lake", "--long"]);
    let (text, error) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert_eq!(run.status.code(), Some(12), "{error}");
    assert!(text.contains("damaged  lake/bad\n") && text.contains("lake/good\n"), "{text}");
    assert!(error.contains("table=lake/bad"), "{error}");
}

#[test]
fn every_verb_has_help_with_an_example() {
    let home = Home::new();
    for verb in ["create", "append", "ls", "show", "history", "alter", "drop", "vacuum"] {
        let help = home.ok(&[verb, "--help"]);
        assert!(
            help.contains("Example") && help.contains(&format!("benthic table {verb}")),
            "{verb}: {help}"
        );
    }
    assert!(home.ok(&["--help"]).contains("benthic table create"));
}
