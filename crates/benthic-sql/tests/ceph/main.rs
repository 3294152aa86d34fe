//! Queries of objects and tables on a real cluster: every pushdown mode returns the same rows, and
//! pushed work moves little data.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../it/data.rs"]
mod data;
#[allow(dead_code, reason = "shared with the tests on the other engines")]
#[path = "../it/fixtures.rs"]
mod fixtures;
mod outage;
#[path = "../it/queries.rs"]
mod queries;
#[path = "../it/slt/mod.rs"]
mod slt;
#[allow(dead_code, reason = "shared with the tests on the other engines")]
#[path = "../it/support.rs"]
mod support;
#[path = "../it/tpch.rs"]
mod tpch;

use benthic_core::pushdown::Pushdown;
use benthic_core::{Environment, ErrorKind, ManualClock, Pool, Store};
use benthic_rados::{Options, RadosStore};
use benthic_sql::session::{Settings, SqlSession};
use benthic_table::{Definition, SnapshotSelector, Table, WriterOptions, drop_table};
use benthic_testkit::cluster::shared_conf;
use data::{lineitem, parquet};
use fixtures::{build_indexes, create, ways};
use futures::TryStreamExt;
use parquet::basic::Compression;
use slt::files_hold;
use std::env;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, LazyLock};
use support::{ALL, POOL, explained, explained_when_free, metric, put, query, rows};

/// The cluster's configuration. The first access also installs the class library.
static CONF: LazyLock<PathBuf> = LazyLock::new(|| {
    let conf = shared_conf();
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

/// Runs a query of tables and returns its rows as text.
async fn rows_of_tables(store: &Arc<dyn Store>, pushdown: Pushdown, sql: &str) -> Vec<String> {
    let session = SqlSession::new(Arc::clone(store), support::settings(pushdown));
    let batches: Vec<_> = session.query(sql).await.unwrap().try_collect().await.unwrap();
    rows(&batches)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_answers_from_its_osds() {
    let (store, pool) = (store().await, pool().await);
    // Remove the table of a killed run.
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

/// A look-up in an index gives the same rows in the OSDs as in this process.
#[tokio::test(flavor = "multi_thread")]
async fn an_index_is_looked_up_in_the_osds() {
    let (store, pool) = (store().await, pool().await);
    let all = lineitem(30_000);
    let table = create(&pool, "indexed", &Definition::new(&all.schema()).unwrap()).await;
    fixtures::append(&table, &[all.slice(0, 5_000)]).await;
    for columns in [&["price"][..], &["discount", "price"]] {
        table.add_index(columns).await.unwrap();
    }
    for part in 1..6 {
        fixtures::append(&table, &[all.slice(part * 5_000, 5_000)]).await;
    }
    // Build the first object's pages now; the writer made those of the others.
    build_indexes(&table).await;
    for condition in [
        "price BETWEEN 100 AND 150",
        "price < 80.5",
        "price IN (1, 2.5, 77)",
        "discount IS NULL AND price < 1000",
        "price = -1",
    ] {
        let sql = format!("SELECT id, price, flag FROM \"{POOL}\".indexed WHERE {condition} ORDER BY id");
        let plain = Settings { index: false, ..support::settings(Pushdown::Never) };
        let expected = rows(&fixtures::answer(&fixtures::session(&store, plain), &sql).await.unwrap().1);
        for pushdown in ALL {
            assert_eq!(rows_of_tables(&store, pushdown, &sql).await, expected, "{pushdown:?} {sql}");
        }
    }
    let sql = format!("EXPLAIN ANALYZE SELECT id FROM \"{POOL}\".indexed WHERE price < 80.5");
    let plain = Settings { index: false, ..support::settings(Pushdown::Always) };
    let whole = rows(&fixtures::answer(&fixtures::session(&store, plain), &sql).await.unwrap().1).join("\n");
    // Requests take no time on this clock, so the cluster is near, also on a busy machine. A client
    // that is far away would read all of such small objects.
    let near = Environment { clock: Arc::new(ManualClock::default()), ..Environment::default() };
    for pushdown in [Pushdown::Never, Pushdown::Always] {
        let settings = Settings { environment: near.clone(), ..support::settings(pushdown) };
        let plan = rows(&fixtures::answer(&fixtures::session(&store, settings), &sql).await.unwrap().1);
        let plan = plan.join("\n");
        assert!(plan.contains("index=(price)") && metric(&plan, "index_pages") >= 6, "{plan}");
        assert!(metric(&plan, "rows_by_index") < 600, "{plan}");
        if metric(&plan, "objects_pushed") == 6 && metric(&whole, "objects_pushed") == 6 {
            assert!(
                metric(&plan, "bytes_read_there") <= metric(&whole, "bytes_read_there"),
                "{plan}\n{whole}"
            );
        }
    }
    let checked: Vec<_> = table
        .snapshot(SnapshotSelector::Current)
        .await
        .unwrap()
        .fsck(false)
        .try_collect::<Vec<_>>()
        .await
        .unwrap();
    assert!(
        checked.iter().all(|checked| checked.findings.is_empty() && checked.unindexed == 0),
        "{checked:?}"
    );
    assert!(drop_table(pool, "indexed", false, &Environment::default()).await.unwrap().finished);
}

fn ceph(words: &[&str]) {
    let output = Command::new("ceph").arg("--conf").arg(&*CONF).args(words).output().unwrap();
    assert!(output.status.success(), "ceph {words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Indexes are stored in omaps, which erasure-coded pools lack.
#[tokio::test(flavor = "multi_thread")]
async fn a_table_in_an_erasure_coded_pool_takes_no_index() {
    let name = format!("indexed.{}", std::process::id());
    ceph(&["osd", "erasure-code-profile", "set", &name, "k=2", "m=1", "crush-failure-domain=osd"]);
    ceph(&["osd", "pool", "create", &name, "1", "1", "erasure", &name]);
    let store = connect();
    let rows = lineitem(100);
    let outcome = async {
        let pool = store.open_pool(&name).await?;
        let definition = Definition::new(&rows.schema())?;
        let table = Table::create(pool, "t", &definition, Environment::default()).await?;
        fixtures::append(&table, std::slice::from_ref(&rows)).await;
        let refused = table.add_index(&["id"]).await;
        Ok::<_, benthic_core::Error>((
            refused,
            table.head().await?.indexes,
            table.snapshot(SnapshotSelector::Current).await?.rows(),
        ))
    };
    let outcome = outcome.await;
    store.remove_pool(&name).await.unwrap();
    ceph(&["osd", "crush", "rule", "rm", &name]);
    ceph(&["osd", "erasure-code-profile", "rm", &name]);
    let (refused, indexes, rows) = outcome.unwrap();
    let error = refused.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("replicated pool"), "{error}");
    assert_eq!((indexes, rows), (Vec::new(), 100));
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
    // Skip the way without pruning, which does not depend on the engine.
    files_hold(&connect(), "slt", &ways()[1..]).await;
}
