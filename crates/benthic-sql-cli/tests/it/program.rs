//! `benthic-sql sql`, as a user runs it.

use crate::data::{lineitem, parquet};
use benthic_core::{ObjectAddress, Store};
use benthic_embedded::{EmbeddedStore, Options};
use benthic_testkit::program::{Home, check_help, failed};
use futures::executor::block_on;
use parquet::basic::Compression;
use std::process::Command;

const PROGRAM: &str = env!("CARGO_BIN_EXE_benthic-sql");

/// A directory with a store that has one object.
fn home() -> Home {
    let home = Home::new(PROGRAM, &["sql", "--object", "lake:raw/items.parquet"]);
    let store = EmbeddedStore::open(&home.path("benthic-data"), true, Options::default()).unwrap();
    let address: ObjectAddress = "lake:raw/items.parquet".parse().unwrap();
    let data = parquet(&lineitem(10_000), Compression::SNAPPY);
    block_on(async {
        store.create_pool("lake").await.unwrap();
        store.open_pool("lake").await.unwrap().write_full(&address.object, data).await.unwrap();
    });
    store.close().unwrap();
    home
}

#[track_caller]
fn fails(home: &Home, status: i32, args: &[&str]) -> String {
    let output = home.run(args);
    let error = failed(&output, status);
    assert!(error.starts_with("benthic: ") && output.stdout.is_empty(), "{error}");
    error
}

#[test]
fn every_command_has_help_with_an_example() {
    for verb in ["sql", "table"] {
        check_help(PROGRAM, &["benthic", verb], &[]);
    }
}

#[test]
fn rows_are_printed_in_three_ways() {
    let home = home();
    let sql = "SELECT id, quantity, ratio, flag, ship, returned FROM object WHERE id < 2 ORDER BY id";
    let csv = home.ok(&["--output", "csv", sql]);
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!((lines.len(), lines[0]), (3, "id,quantity,ratio,flag,ship,returned"));
    let json = home.ok(&["--output", "json", sql]);
    let first: serde_json::Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
    assert_eq!((json.lines().count(), &first["id"]), (2, &serde_json::json!(0)));
    let table = home.ok(&[sql]);
    assert!(table.contains("| id |") && table.lines().count() == 6, "{table}");
    for format in ["csv", "json", "table"] {
        let none = home.ok(&["--output", format, "SELECT id FROM object WHERE id < 0"]);
        assert_eq!(none.contains("id"), format != "json", "{none}");
    }
}

#[test]
fn pushdown_is_selected_and_shown() {
    let home = home();
    let sql = "EXPLAIN ANALYZE SELECT count(*) FROM object WHERE quantity > 30";
    assert!(home.ok(&["--pushdown", "always", sql]).contains("objects_pushed=1"));
    for pushdown in ["auto", "never"] {
        let plan = home.ok(&["--pushdown", pushdown, sql]);
        assert!(!plan.contains("objects_pushed") && plan.contains("bytes_scanned"), "{plan}");
    }
    let plan = home.ok(&["EXPLAIN SELECT id FROM object WHERE quantity > 30"]);
    assert!(plan.starts_with("logical_plan\n") && plan.contains("\n\nphysical_plan\n"), "{plan}");
    assert!(!plan.contains('|'), "{plan}");
}

#[test]
fn the_table_can_be_looked_at() {
    let home = home();
    assert!(home.ok(&["DESCRIBE object"]).contains("quantity"));
    assert!(home.ok(&["SHOW TABLES"]).contains("object"));
    assert!(home.ok(&["SHOW COLUMNS FROM object"]).contains("comment"));
}

#[test]
fn a_wrong_query_says_what_may_be_meant() {
    let home = home();
    for (sql, hint) in [
        ("SELECT quantty FROM object", "Did you mean 'object.quantity'?"),
        ("SELECT at FROM object", "double quotes"),
        ("SELECT 1 FROM objekt", "objekt"),
        ("SELEC 1", "Expected"),
        ("SELECT nosuch(id) FROM object", "nosuch"),
        ("", "No SQL"),
    ] {
        let error = fails(&home, 6, &[sql]);
        assert!(error.contains(hint), "{sql}: {error}");
    }
}

#[test]
fn one_query_at_a_time() {
    let error = fails(&home(), 7, &["SELECT 1; SELECT 2"]);
    assert!(error.contains("single SQL statement"), "{error}");
}

#[test]
fn statements_that_write_are_refused_by_their_verb() {
    let home = home();
    for (sql, verb) in [
        ("COPY (SELECT 1) TO 'x.csv'", "COPY"),
        ("CREATE EXTERNAL TABLE x STORED AS CSV LOCATION '/etc/passwd'", "CREATE EXTERNAL TABLE"),
        ("CREATE TABLE x AS SELECT 1", "CREATE"),
        ("INSERT INTO object VALUES (1)", "INSERT"),
        ("UPDATE object SET id = 1", "UPDATE"),
        ("DELETE FROM object", "DELETE"),
        ("DROP TABLE object", "DROP"),
        ("SET datafusion.execution.batch_size = 1", "SET"),
        ("EXPLAIN INSERT INTO object SELECT * FROM object", "INSERT"),
    ] {
        let error = fails(&home, 7, &[sql]);
        assert!(error.contains(&format!("{verb} is not allowed: queries only read")), "{sql}: {error}");
    }
    assert!(!home.path("x.csv").exists());
}

#[test]
fn missing_objects_and_stores_are_named() {
    let home = home();
    let mut command = Command::new(PROGRAM);
    command.args(["sql", "--object", "lake/nothing", "SELECT 1"]).current_dir(home.dir());
    let error = failed(&command.env_remove("BENTHIC_STORE").output().unwrap(), 3);
    assert!(error.starts_with("benthic: no such object") && error.contains("nothing"), "{error}");
    let error = fails(&home, 3, &["--store", "file:nowhere", "SELECT 1"]);
    assert!(error.contains("store=file:nowhere"), "{error}");
    fails(&home, 6, &["--store", "nonsense", "SELECT 1"]);
}

#[test]
fn an_error_on_a_row_names_the_object() {
    let home = home();
    let error = fails(&home, 6, &["SELECT 1 / (id - 17) FROM object"]);
    assert!(error.contains("Divide by zero error object=lake:raw/items.parquet"), "{error}");
}
