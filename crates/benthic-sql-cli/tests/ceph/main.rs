//! The program on a real cluster, as a user runs it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../benthic-sql/tests/it/data.rs"]
mod data;

use benthic_core::{ErrorKind, Store};
use benthic_rados::{Options, RadosStore};
use benthic_testkit::cluster::shared_conf;
use data::{lineitem, parquet};
use futures::executor::block_on;
use parquet::basic::Compression;
use std::process::Command;

const POOL: &str = "benthic-sql-cli-test";

#[test]
fn a_query_runs_in_the_osds() {
    let conf = shared_conf();
    let library = std::env::current_exe().unwrap().with_file_name("libcls_table_1.so");
    benthic_ceph::classes::install(&library, &conf.with_file_name("classes")).unwrap();
    let store = RadosStore::connect(Some(&conf), None, Options::default()).unwrap();
    match block_on(store.create_pool(POOL)) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => panic!("{error}"),
        _ => {}
    }
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("items.parquet"), parquet(&lineitem(60_000), Compression::SNAPPY))
        .unwrap();
    let uri = format!("ceph:?conf={}", conf.display());
    let run = |args: &[&str]| {
        let mut program = Command::new(env!("CARGO_BIN_EXE_benthic-sql"));
        program.args(["--store", &uri]).args(args).current_dir(home.path()).output().unwrap()
    };
    let table = format!("{POOL}/items");
    // Remove the table of a killed run.
    run(&["table", "drop", "--force", &table, "--yes", &table]);
    let created = run(&["table", "create", &table, "items.parquet", "--object-size", "1MiB"]);
    assert!(created.status.success(), "{}", String::from_utf8_lossy(&created.stderr));
    let sql = format!(
        "EXPLAIN ANALYZE SELECT flag, sum(price) FROM \"{POOL}\".items WHERE id >= 30000 GROUP BY flag"
    );
    let output = run(&["sql", "--pushdown", "always", &sql]);
    let explained = String::from_utf8(output.stdout).unwrap();
    let counts = |name: &str| {
        let mut values = explained.split(name).skip(1).map(|rest| rest.split([',', ']']).next());
        values.any(|value| value.is_some_and(|value| value != "0"))
    };
    assert!(output.status.success() && counts("objects_pushed="), "{explained}");
    assert!(!counts("refused_unsupported="), "{explained}");
    assert!(run(&["table", "drop", &table, "--yes", &table]).status.success());
}
