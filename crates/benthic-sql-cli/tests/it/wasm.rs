//! `benthic sql` with methods of deployed WebAssembly classes.

use crate::files::{parquet, trips};
use crate::home::Home;
use crate::text_class::deploy;
use benthic_core::Store;
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
