//! `benthic-sql sql` with local files as tables.

use crate::files::{arrow_file, arrow_file_compressed, arrow_stream, csv, json, parquet, trips};
use arrow::array::{ArrayRef, Date32Array, Int64Array, RecordBatch};
use benthic_core::Store;
use benthic_embedded::{EmbeddedStore, Options};
use benthic_testkit::program::{Home, failed, printed};
use futures::executor::block_on;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::sync::Arc;

const PROGRAM: &str = env!("CARGO_BIN_EXE_benthic-sql");

/// A directory without a store.
fn home() -> Home {
    Home::new(PROGRAM, &[])
}

/// The rows of a query, as lines of CSV.
#[track_caller]
fn rows(home: &Home, sql: &str) -> Vec<String> {
    let printed = home.ok(&["sql", "--output", "csv", sql]);
    printed.lines().skip(1).map(str::to_owned).collect()
}

#[test]
fn every_format_is_a_table_without_a_store() {
    let home = home();
    type Encode = fn(&RecordBatch) -> Vec<u8>;
    let formats: [(&str, Encode); 6] = [
        ("a.parquet", parquet),
        ("a.csv", csv),
        ("a.jsonl", json),
        ("a.feather", arrow_file),
        ("a.arrows", arrow_stream),
        ("a.ipc", arrow_file_compressed),
    ];
    for (name, encode) in formats {
        home.file(name, encode(&trips(0..30)));
        let sql = format!("SELECT count(*), sum(id), count(fare), min(name) FROM '{name}' WHERE id > 9");
        assert_eq!(rows(&home, &sql), ["20,390,17,trip 10"], "{name}");
        let columns = rows(&home, &format!("DESCRIBE '{name}'")).join(" ");
        assert!(columns.contains("id,Int64,") && columns.contains("fare,Float64,"), "{name}: {columns}");
    }
    // pandas gives no name to its column of row numbers.
    home.file("index.csv", ",id\n0,7\n");
    assert_eq!(rows(&home, "SELECT * FROM 'index.csv'"), ["0,7"]);
    home.file("a.tsv", "id\tname\n1\ta,b\n");
    assert_eq!(rows(&home, "SELECT * FROM 'a.tsv'"), ["1,\"a,b\""]);
    // In the single quotes of a shell, a path has double quotes.
    assert_eq!(rows(&home, "SELECT max(id) FROM \"a.csv\""), ["29"]);
    let stdin =
        home.pipe(&["sql", "--output", "csv"], b"SELECT max(id) FROM 'a.csv'; SELECT 1 FROM 'a.tsv';");
    assert_eq!(printed(&stdin, &["stdin"]).lines().count(), 4);
    assert!(!home.path("benthic-data").exists());
}

#[test]
fn a_pattern_or_a_directory_names_many_files() {
    let home = home();
    for (number, name) in
        ["one.csv", "two.csv", "sub/three.csv", ".hidden.csv", "_started"].iter().enumerate()
    {
        home.file(&format!("data/{name}"), format!("n\n{}\n", 10_u32.pow(number as u32)));
    }
    let absolute = home.path("data").display().to_string();
    for (path, sum) in [
        ("data/one.csv", "1"),
        ("data/*.csv", "11"),
        ("data/t??.csv", "10"),
        ("data/[!t]*.csv", "1"),
        ("data/**/*.csv", "111"),
        ("data/*/*.csv", "100"),
        ("data", "111"),
        ("./data/", "111"),
        (absolute.as_str(), "111"),
    ] {
        assert_eq!(rows(&home, &format!("SELECT sum(n) FROM '{path}'")), [sum], "{path}");
    }
    let mut command = home.command(&["sql", "--output", "csv", "SELECT sum(n) FROM '~/data/one.csv'"]);
    let output = command.env("HOME", home.dir()).output().unwrap();
    assert_eq!(printed(&output, &["~"]).lines().last(), Some("1"));
    // A name with the characters of a pattern is a name first.
    home.file("odd[1].csv", "n\n5\n");
    assert_eq!(rows(&home, "SELECT n FROM 'odd[1].csv'"), ["5"]);
}

#[test]
fn columns_of_several_files_match_by_name() {
    let home = home();
    home.file("texts/a.csv", "id,fare\n1,2\n");
    home.file("texts/b.csv", "city,fare,id\nRio,2.5,2\n");
    home.file("lines/a.json", "{\"id\": 1, \"fare\": 2}\n");
    home.file("lines/b.json", "{\"city\": \"Rio\", \"fare\": 2.5, \"id\": 2}\n");
    home.file("lines/none.json", "");
    let ids = |id: i64| -> ArrayRef { Arc::new(Int64Array::from_iter_values([id])) };
    let small: ArrayRef = Arc::new(arrow::array::Int32Array::from_iter_values([2]));
    let fare: ArrayRef = Arc::new(arrow::array::Float64Array::from_iter_values([2.5]));
    let city: ArrayRef = Arc::new(arrow::array::StringArray::from_iter_values(["Rio"]));
    let one = RecordBatch::try_from_iter([("id", ids(1)), ("fare", small)]).unwrap();
    let two = RecordBatch::try_from_iter([("city", city), ("fare", fare), ("id", ids(2))]).unwrap();
    home.file("columns/a.parquet", parquet(&one));
    home.file("columns/b.parquet", parquet(&two));
    home.file("arrows/a.arrow", arrow_file(&one));
    home.file("arrows/b.arrow", arrow_file(&two));
    for directory in ["texts", "lines", "columns", "arrows"] {
        let sql = format!("SELECT id, fare, city FROM '{directory}' ORDER BY id");
        assert_eq!(rows(&home, &sql), ["1,2.0,", "2,2.5,Rio"], "{directory}");
        let sql = format!("SELECT count(*), max(fare), min(fare), count(city) FROM '{directory}'");
        assert_eq!(rows(&home, &sql), ["2,2.5,2.0,1"], "{directory}");
        let sql = format!("SELECT id FROM '{directory}' WHERE city = 'Rio' AND fare > 2");
        assert_eq!(rows(&home, &sql), ["2"], "{directory}");
    }
}

#[test]
fn files_are_joined_with_tables_of_the_store() {
    let home = home();
    home.file("a.parquet", parquet(&trips(0..1_000)));
    home.file("names.csv", "id,nickname\n7,seven\n8,eight\n2000,none\n");
    let sql = "SELECT nickname, name FROM lake.trips JOIN 'names.csv' AS n ON trips.id = n.id ORDER BY n.id";
    let error = home.fails(3, &["sql", sql]);
    assert!(error.contains("there is no store here"), "{error}");
    let store = EmbeddedStore::open(&home.path("benthic-data"), true, Options::default()).unwrap();
    block_on(store.create_pool("lake")).unwrap();
    store.close().unwrap();
    home.ok(&["table", "create", "lake/trips", "a.parquet"]);
    assert_eq!(rows(&home, sql), ["seven,trip 7", "eight,trip 8"]);
    let sql =
        "SELECT count(*) FROM lake.trips t JOIN 'a.parquet' f ON t.id = f.id WHERE t.fare > 1 AND f.fare > 1";
    assert_eq!(rows(&home, &sql.replace("count(*)", "t.id % 2")).len(), 853);
    let plan = home.ok(&["sql", "--pushdown", "always", &format!("EXPLAIN ANALYZE {sql}")]);
    assert_eq!(plan.matches("objects_pushed=1").count(), 1, "only the table is pushed: {plan}");
    assert!(plan.contains("a.parquet") && plan.contains("bytes_scanned"), "{plan}");
    // A table that has the name of a file needs its pool.
    home.file("lake.trips", "id\n1\n");
    assert_eq!(rows(&home, "SELECT count(*) FROM lake.trips"), ["1000"]);
}

#[test]
fn mistakes_are_explained() {
    let home = home();
    home.file("a.csv", "id\n1\n");
    home.file("mixed/a.csv", "id\n1\n");
    home.file("mixed/b.parquet", parquet(&trips(0..1)));
    home.file("types/a.csv", "x\ntrue\n");
    home.file("types/b.csv", "x\n1\n");
    home.file("text.parquet", "id\n1\n");
    home.file("text.arrow", "id\n1\n");
    home.file("rows.csv", parquet(&trips(0..1)));
    home.file("array.json", "[{\"id\": 1}]\n");
    home.file("late.csv", format!("id\n{}x\n", "1\n".repeat(600_000)));
    home.file("twice.csv", "id,id\n1,2\n");
    home.file("a.txt", "id\n1\n");
    home.file("a.csv.gz", "");
    std::fs::create_dir(home.path("empty")).unwrap();
    symlink("/proc/self/mem", home.path("memory.csv")).unwrap();
    assert!(Command::new("mkfifo").arg(home.path("pipe.csv")).status().unwrap().success());
    for (path, status, hint) in [
        ("nothing.csv", 3, "no such file or directory; check the path from the working directory"),
        ("a.csv/b.csv", 3, "no such file or directory"),
        ("/nothing/b.csv", 3, "no such file or directory; check the path path="),
        ("none/*.csv", 3, "no file matches this pattern; check the path from the working directory"),
        ("empty", 3, "the directory has no files"),
        ("[a", 6, "the pattern is invalid"),
        ("mixed", 6, "the files have different formats; select those of one format, such as 'DIR/*.csv'"),
        ("mixed/*", 6, "the files have different formats"),
        ("types", 6, "a column has different types in these files; query them one by one"),
        ("a.txt", 6, "the file name does not tell the format; it must end in .parquet, .csv"),
        ("a.csv.gz", 6, "the file is compressed; decompress it first"),
        ("text.parquet", 6, "this is not a Parquet file, or it is damaged; the end of a file's name"),
        ("text.arrow", 6, "this is not an Arrow file or stream"),
        (
            "rows.csv",
            6,
            "the file's content has another format than its name; rename it to end in this extension",
        ),
        ("array.json", 6, "convert it with `jq"),
        ("late.csv", 6, "a line of the CSV cannot be read column=id line=600002"),
        ("twice.csv", 7, "two columns have the same name"),
        ("memory.csv", 12, "cannot read the file"),
        ("pipe.csv", 6, "only regular files can be queried; copy the data to a file first"),
    ] {
        let error = home.fails(status, &["sql", &format!("SELECT * FROM '{path}'")]);
        assert!(error.contains(hint) && error.contains("path="), "{path}: {error}");
        assert!(error.lines().count() == 1, "{path}: {error}");
    }
    let error = home.fails(3, &["sql", "SELECT * FROM 'nothing.csv'"]);
    assert!(error.contains(&format!("directory={}", home.dir().display())), "{error}");
    let error = home.fails(6, &["sql", "SELECT idd FROM 'a.csv'"]);
    assert!(error.contains("Did you mean"), "{error}");
    for sql in ["INSERT INTO 'a.csv' VALUES (2)", "COPY 'a.csv' TO 'b.csv'"] {
        let run = home.run(&["sql", sql]);
        assert!(!run.status.success() && !home.path("b.csv").exists(), "{sql}");
    }
    assert_eq!(home.read("a.csv"), b"id\n1\n");
}

#[test]
fn a_file_that_its_user_may_not_read_is_refused() {
    let home = home();
    home.file("a.csv", "id\n1\n");
    assert!(Command::new("chmod").args(["000", "a.csv"]).current_dir(home.dir()).status().unwrap().success());
    // Root may read every file, so run as another user.
    let mut command = match rustix::process::geteuid().is_root() {
        false => Command::new(PROGRAM),
        true => {
            let open = ["755", home.dir().to_str().unwrap()];
            assert!(Command::new("chmod").args(open).status().unwrap().success());
            let mut command = Command::new("setpriv");
            command.args(["--reuid=65534", "--clear-groups", PROGRAM]);
            command
        }
    };
    let output = command.args(["sql", "SELECT * FROM 'a.csv'"]).current_dir(home.dir()).output().unwrap();
    let error = failed(&output, 8);
    assert!(
        error.contains("no permission to read this path; `ls -ld` shows who has it path=a.csv"),
        "{error}"
    );
}

#[test]
fn a_pattern_follows_no_circle_and_ignores_names_that_are_not_text() {
    let home = home();
    home.file("d/a.csv", "n\n1\n");
    home.file("d/sub/b.csv", "n\n10\n");
    home.file("d/.hidden/c.csv", "n\n100\n");
    std::fs::write(home.path("d").join(OsStr::from_bytes(b"\xff.csv")), "n\n1000\n").unwrap();
    symlink(".", home.path("d/loop")).unwrap();
    symlink("sub", home.path("d/link")).unwrap();
    for (pattern, sum) in [
        ("d/**/*.csv", "11"),
        ("**/*.csv", "11"),
        ("d/*.csv", "1"),
        ("./d//*.csv", "1"),
        ("d/s*/b.csv", "10"),
        ("d/l[i]nk/*.csv", "10"),
        ("d/*/b.csv", "20"),
    ] {
        assert_eq!(rows(&home, &format!("SELECT sum(n) FROM '{pattern}'")), [sum], "{pattern}");
    }
}

#[test]
fn a_value_without_a_text_is_an_error_in_every_output() {
    let home = home();
    let dates: ArrayRef = Arc::new(Date32Array::from(vec![1, i32::MAX]));
    home.file("d.parquet", parquet(&RecordBatch::try_from_iter([("d", dates)]).unwrap()));
    for output in ["table", "csv", "json"] {
        home.fails(6, &["sql", "--output", output, "SELECT d FROM 'd.parquet'"]);
    }
    assert_eq!(home.json(&["sql", "SELECT 'ERROR: none' AS text"])[0]["text"], "ERROR: none");
    assert_eq!(rows(&home, "SELECT count(*) FROM 'd.parquet'"), ["2"]);
}

#[test]
fn a_file_without_values_does_not_turn_numbers_into_text() {
    let home = home();
    home.file("csv/a.csv", "a,b\n9,x\n10,y\n");
    home.file("csv/b.csv", "a,b\n");
    home.file("csv/c.csv", "a,b\n,z\n");
    home.file("json/a.json", "{\"a\":null}\n");
    home.file("json/b.json", "{\"a\":9}\n{\"a\":10}\n");
    for directory in ["csv", "json"] {
        assert_eq!(rows(&home, &format!("SELECT max(a), min(a) FROM '{directory}'")), ["10,9"]);
    }
    home.file("none.csv", "a\n\"\"\n");
    assert!(rows(&home, "DESCRIBE 'none.csv'")[0].starts_with("a,Utf8"));
    let store = EmbeddedStore::open(&home.path("benthic-data"), true, Options::default()).unwrap();
    block_on(store.create_pool("lake")).unwrap();
    store.close().unwrap();
    home.ok(&["table", "create", "lake/t", "csv/b.csv", "csv/c.csv", "csv/a.csv"]);
    assert_eq!(rows(&home, "SELECT max(a), count(*) FROM lake.t"), ["10,3"]);
}

#[test]
fn an_open_quote_is_an_error_that_names_its_line() {
    let home = home();
    home.file("open.csv", "a,b\n1,x\"y\n2,\"two \"\"lines\"\"\nhere\"\n3,\"open\n4,5\n");
    let error = home.fails_with("invalid_argument", &["sql", "SELECT count(*) FROM 'open.csv'"]);
    assert_eq!(
        (&error["message"], &error["context"]["line"]),
        (&"a quote is not closed".into(), &"5".into())
    );
    home.file("closed.csv", "a,b\n1,x\"y\n2,\"two \"\"lines\"\"\nhere\"\n3,\"\"");
    assert_eq!(rows(&home, "SELECT count(*) FROM 'closed.csv'"), ["3"]);
}

#[test]
fn json_cannot_have_two_columns_of_one_name() {
    let home = home();
    let sql = "SELECT x.a, y.a FROM (VALUES (1)) AS x(a), (VALUES (2)) AS y(a)";
    assert!(home.fails(6, &["sql", "--output", "json", sql]).contains("name one with AS"));
    assert_eq!(rows(&home, sql), ["1,2"]);
}
