//! Creates tables from rows, and sessions that query them.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use benthic_core::pushdown::Pushdown;
use benthic_core::{ClassRegistry, Environment, ErrorKind, Pool, Result, Store};
use benthic_embedded::{MemStore, Options};
use benthic_sql::errors::from_datafusion;
use benthic_sql::session::{Settings, SqlSession};
use benthic_table::{Definition, SnapshotSelector, Table, WriterOptions, drop_table};
use futures::TryStreamExt;
use std::sync::Arc;

/// A memory store that can run fragments.
pub fn memory_store() -> Arc<dyn Store> {
    MemStore::new(options())
}

/// Options of a store that can run fragments.
pub fn options() -> Options {
    Options::default().with_classes(ClassRegistry::new().with(benthic_fragment::Table))
}

/// All ways to answer a query, with their names; the first is the simplest.
pub fn ways() -> Vec<(&'static str, Settings)> {
    let way = |pushdown, pruning| Settings { pushdown, pruning, index: pruning, ..Settings::default() };
    vec![
        ("never, unpruned", way(Pushdown::Never, false)),
        ("never", way(Pushdown::Never, true)),
        ("always", way(Pushdown::Always, true)),
        ("auto", way(Pushdown::Auto, true)),
    ]
}

/// Builds the index pages that objects lack.
pub async fn build_indexes(table: &Table) {
    let snapshot = table.snapshot(SnapshotSelector::Current).await.unwrap();
    let built: Vec<_> = snapshot.build_indexes(false).try_collect().await.unwrap();
    assert_eq!(built.len() as u64, snapshot.objects());
}

/// Opens the pool; creates it if it is missing.
pub async fn pool(store: &Arc<dyn Store>, name: &str) -> Arc<dyn Pool> {
    match store.create_pool(name).await {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => panic!("{error}"),
        _ => store.open_pool(name).await.unwrap(),
    }
}

/// Creates a table, and first drops a table of that name that an earlier run left on the cluster.
pub async fn create(pool: &Arc<dyn Pool>, name: &str, definition: &Definition) -> Table {
    match drop_table(Arc::clone(pool), name, true, &Environment::default()).await {
        Err(error) if error.kind() != ErrorKind::NotFound => panic!("{error}"),
        _ => Table::create(Arc::clone(pool), name, definition, Environment::default()).await.unwrap(),
    }
}

/// Appends rows in one commit: one object, or one for each partition.
pub async fn append(table: &Table, rows: &[RecordBatch]) {
    let mut writer = table.writer(WriterOptions::default()).await.unwrap();
    for batch in rows {
        writer.write(batch).await.unwrap();
    }
    writer.finish().await.unwrap();
}

pub fn session(store: &Arc<dyn Store>, settings: Settings) -> SqlSession {
    SqlSession::new(Arc::clone(store), settings)
}

/// Runs a query and collects all rows.
pub async fn answer(session: &SqlSession, sql: &str) -> Result<(SchemaRef, Vec<RecordBatch>)> {
    let rows = session.query(sql).await?;
    let schema = rows.schema();
    Ok((schema, rows.try_collect().await.map_err(|error| from_datafusion(&error))?))
}
