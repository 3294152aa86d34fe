//! `benthic sql` with methods of deployed WebAssembly classes.

use crate::files::{parquet, trips};
use crate::home::Home;
use crate::text_class::deploy;
use benthic_core::{ObjectId, Store};
use benthic_testkit::program;
use benthic_wasm::Limits;
use std::process::Output;

fn sql(home: &Home, args: &[&str]) -> Output {
    // The directory is that of `home`; this verb is `sql`.
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_benthic-sql"));
    command.arg("sql").args(args).current_dir(home.dir()).env_remove("BENTHIC_STORE");
    command.output().unwrap()
}

fn home() -> Home {
    let home = Home::new();
    home.file("a.parquet", parquet(&trips(0..30)));
    home.ok(&["create", "lake/trips", "a.parquet"]);
    home.with_store(async |store| {
        let pool = store.open_pool("lake").await.unwrap();
        deploy(&*pool, 1, Limits::default()).await;
    });
    home
}

#[test]
fn a_query_calls_a_deployed_class() {
    let home = home();
    for pushdown in ["auto", "always", "never"] {
        let query = "SELECT id, wasm('texts.upper', name) AS name FROM lake.trips \
            WHERE wasm('texts.upper', name) IN ('TRIP 3', 'TRIP 10') ORDER BY id";
        let printed = program::printed(
            &sql(&home, &["--output", "csv", "--pushdown", pushdown, query]),
            &["sql", query],
        );
        assert_eq!(printed, "id,name\n3,TRIP 3\n10,TRIP 10\n");
    }
}

#[test]
fn an_error_names_class_and_method() {
    let home = home();
    let query = "SELECT wasm('texts.traps', name) FROM lake.trips";
    let error = program::failed(&sql(&home, &[query]), 13);
    assert!(error.contains("class=texts") && error.contains("method=traps"), "{error}");
    let error = program::failed(&sql(&home, &["SELECT wasm('other.upper', name) FROM lake.trips"]), 3);
    assert!(error.contains("`benthic class ls --pool POOL`") && error.contains("class=other"), "{error}");
    let error = program::failed(&sql(&home, &["SELECT wasm('texts.upper', 'text')"]), 3);
    assert!(error.contains("names no table of a pool"), "{error}");
}

/// A pool with the class and some objects, not in a table.
fn notes() -> Home {
    let home = Home::new();
    home.with_store(async |store| {
        store.create_pool("notes").await.unwrap();
        let pool = store.open_pool("notes").await.unwrap();
        deploy(&*pool, 1, Limits::default()).await;
        for number in 0..40 {
            let object = ObjectId::new(format!("day/{number:02}")).unwrap();
            pool.write_full(&object, vec![b'x'; number]).await.unwrap();
        }
        let other = ObjectId::new("other").unwrap();
        pool.write_full(&other, "not a day").await.unwrap();
        let inside = ObjectId::in_namespace("old", "day/00").unwrap();
        pool.write_full(&inside, "in a namespace").await.unwrap();
    });
    home
}

#[test]
fn a_method_of_each_object_is_a_table() {
    let home = notes();
    let csv = |query: &str| {
        program::printed(&sql(&home, &["--output", "csv", query]), &["sql", query]).replace('\n', ";")
    };
    let days = "wasm('texts.size', 'notes/day/')";
    let counted = csv(&format!("SELECT count(*) AS n, sum(CAST(output AS BIGINT)) AS bytes FROM {days}"));
    assert_eq!(counted, "n,bytes;40,780;");
    let largest = csv(&format!("SELECT object FROM {days} ORDER BY CAST(output AS INT) DESC LIMIT 2"));
    assert_eq!(largest, "object;day/39;day/38;");
    assert_eq!(csv(&format!("SELECT object FROM {days} LIMIT 1")), "object;day/00;");
    assert_eq!(csv("SELECT count(*) AS n FROM wasm('texts.size', 'notes')"), "n;41;");
    assert_eq!(
        csv("SELECT object, output FROM wasm('texts.size', 'notes:old/')"),
        "object,output;day/00,14;"
    );
    assert_eq!(csv("SELECT count(*) AS n FROM wasm('texts.size', 'notes/none')"), "n;0;");
    // The input, and two calls in one query.
    let joined = csv("SELECT a.output, b.output FROM wasm('texts.upper', 'notes/other', 'abc') AS a, \
        wasm('texts.size', 'notes/other') AS b");
    assert_eq!(joined, "output,output;ABC,09;");
    // The method fails on an object that the limit leaves out, but that is called at the same time.
    let failing = "wasm('texts.traps_at_ten', 'notes/day/')";
    assert_eq!(csv(&format!("SELECT object FROM {failing} LIMIT 2")), "object;day/00;day/01;");
    let all = format!("SELECT object FROM {failing}");
    assert!(program::failed(&sql(&home, &[&all]), 13).contains("object=notes/day/10"));
    // An output that is no text.
    assert_eq!(csv("SELECT output_bytes FROM wasm('texts.not_a_text', 'notes/other')"), "output_bytes;ff;");
    let query = "SELECT output FROM wasm('texts.not_a_text', 'notes/other')";
    assert!(program::failed(&sql(&home, &[query]), 13).contains("select output_bytes"));
}

#[test]
fn a_call_for_each_object_that_cannot_be_made_says_why() {
    let home = notes();
    for (arguments, status, text) in [
        ("'texts.size'", 6, "FROM wasm('CLASS.METHOD', 'POOL/PREFIX', 'INPUT')"),
        ("'texts.size', lower('NOTES/')", 6, "FROM wasm('CLASS.METHOD'"),
        ("'size', 'notes/'", 6, "FROM wasm('CLASS.METHOD'"),
        ("'texts.size', 'note/'", 3, "did you mean \"notes\""),
        ("'texts.size', 'a/b:c/'", 3, "no such pool"),
        ("'text.size', 'notes/'", 3, "`benthic class ls --pool POOL`"),
        ("'texts.length', 'notes/'", 7, "`benthic class show"),
        ("'texts.writes', 'notes/'", 6, "the method writes"),
        ("'texts.traps', 'notes/'", 13, "object=notes/day/00"),
    ] {
        let query = format!("SELECT * FROM wasm({arguments})");
        let error = program::failed(&sql(&home, &[&query]), status);
        assert!(error.contains(text), "{arguments}: {error}");
    }
}
