//! Queries of objects and tables in a real cluster: the same rows wherever the work runs, and little of an object moves if it
//! runs beside it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../it/data.rs"]
mod data;
#[allow(dead_code, reason = "shared with the tests on the other engines")]
#[path = "../it/made.rs"]
mod made;
#[path = "../it/queries.rs"]
mod queries;
#[path = "../it/slt/mod.rs"]
mod slt;
#[allow(dead_code, reason = "shared with the tests on the other engines")]
#[path = "../it/support.rs"]
mod support;
#[path = "../it/tpch.rs"]
mod tpch;

use benthic_core::{ErrorKind, Pool, Store};
use benthic_rados::{Options, RadosStore};
use benthic_sql::choice::Pushdown;
use benthic_sql::session::{Settings, SqlSession};
use benthic_table::{Definition, Environment, Table, WriterOptions, drop_table};
use data::{lineitem, parquet};
use futures::TryStreamExt;
use made::ways;
use parquet::basic::Compression;
use slt::files_hold;
use std::env;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use support::{ALL, POOL, explained, explained_when_free, metric, put, query, rows};

/// The cluster's configuration; the library of the class is installed beside it.
static CONF: LazyLock<PathBuf> = LazyLock::new(|| {
    let variable = "BENTHIC_TEST_CEPH_CONF";
    let conf = env::var_os(variable)
        .unwrap_or_else(|| panic!("{variable} names no cluster to test with; `make test` starts one"));
    let conf = PathBuf::from(conf);
    let program = env::current_exe().unwrap();
    let library = program.parent().unwrap().join("libcls_table_1.so");
    benthic_ceph::classes::install(&library, &conf.with_file_name("classes")).unwrap();
    conf
});

fn connect() -> Arc<dyn Store> {
    RadosStore::connect(Some(&CONF), None, Options::default()).unwrap()
}

async fn store() -> Arc<dyn Store> {
    let store = connect();
    match store.create_pool(POOL).await {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => panic!("{error}"),
        _ => store,
    }
}

async fn pool() -> Arc<dyn Pool> {
    store().await.open_pool(POOL).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_osd_answers_what_runs_here_and_moves_less() {
    let pool = pool().await;
    let object = parquet(&lineitem(60_000), Compression::SNAPPY);
    let object_bytes = object.len() as u64;
    put(&pool, "sql-lineitem", object).await;
    for sql in queries::PUSHED.iter().chain(&queries::OTHERS) {
        let expected = rows(&query(&pool, "sql-lineitem", Pushdown::Never, sql).await.unwrap());
        for pushdown in ALL {
            let answer = rows(&query(&pool, "sql-lineitem", pushdown, sql).await.unwrap());
            assert_eq!(answer, expected, "{pushdown:?} {sql}");
        }
    }
    for sql in [
        "SELECT flag, sum(price), avg(quantity), count(*) FROM object WHERE ship < DATE '1998-01-01' GROUP BY flag",
        "SELECT sum(price * discount) FROM object WHERE quantity < 24",
    ] {
        let there = explained_when_free(&pool, "sql-lineitem", Pushdown::Auto, sql).await;
        assert_eq!(metric(&there, "objects_pushed"), 1, "{there}");
        let here = explained(&pool, "sql-lineitem", Pushdown::Never, sql).await;
        let (moved, read_there) = (metric(&there, "bytes_moved"), metric(&there, "bytes_read_there"));
        let scanned = metric(&here, "bytes_scanned");
        assert!(moved < object_bytes / 50 && moved < scanned / 20, "{there}\n{here}");
        assert!(read_there > object_bytes / 20, "{there}");
    }
}

/// Rows of a query of tables, as text.
async fn rows_of_tables(store: &Arc<dyn Store>, pushdown: Pushdown, sql: &str) -> Vec<String> {
    let session = SqlSession::new(Arc::clone(store), support::settings(pushdown));
    let batches: Vec<_> = session.query(sql).await.unwrap().try_collect().await.unwrap();
    rows(&batches)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_answers_from_its_osds() {
    let (store, pool) = (store().await, pool().await);
    // A table that a killed run left.
    let environment = Environment::default();
    let _ = drop_table(Arc::clone(&pool), "items", true, &environment).await;
    let all = lineitem(60_000);
    let definition = Definition::new(&all.schema()).unwrap();
    let table = Table::create(Arc::clone(&pool), "items", &definition, environment.clone()).await.unwrap();
    for part in 0..12 {
        let mut writer = table.writer(WriterOptions::default()).await.unwrap();
        writer.write(&all.slice(part * 5_000, 5_000)).await.unwrap();
        writer.finish().await.unwrap();
    }
    let of_table = |sql: &str| sql.replace(" object", &format!(" \"{POOL}\".items"));
    for sql in queries::PUSHED.iter().chain(&queries::OTHERS) {
        let sql = of_table(sql);
        let expected = rows_of_tables(&store, Pushdown::Never, &sql).await;
        for pushdown in [Pushdown::Always, Pushdown::Auto] {
            assert_eq!(rows_of_tables(&store, pushdown, &sql).await, expected, "{pushdown:?} {sql}");
        }
    }
    let sql = of_table("EXPLAIN ANALYZE SELECT flag, sum(price) FROM object WHERE id >= 30000 GROUP BY flag");
    let explained = rows_of_tables(&store, Pushdown::Always, &sql).await.join("\n");
    assert!(explained.contains("objects=6, objects_pruned=6"), "{explained}");
    let worked_on = metric(&explained, "objects_pushed") + metric(&explained, "objects_pulled");
    assert!(metric(&explained, "objects_pushed") > 0 && worked_on == 6, "{explained}");
    assert!(drop_table(pool, "items", false, &environment).await.unwrap().finished);
}

#[tokio::test(flavor = "multi_thread")]
async fn tpch_is_answered_as_duckdb_does() {
    let store = connect();
    tpch::load(&store, 0.01).await;
    tpch::queries_are_answered(&store, "0.01", &ways()).await;
    let always = Settings { pushdown: Pushdown::Always, ..Settings::default() };
    let plan = tpch::explained(&store, always, 6).await;
    assert!(metric(&plan, "objects_pushed") + metric(&plan, "refused_busy") > 0, "{plan}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_files_hold() {
    // Without pruning all is as on the other engines.
    files_hold(&connect(), "slt", &ways()[1..]).await;
}
