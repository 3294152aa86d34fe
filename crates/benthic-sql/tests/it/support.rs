//! Stores with objects, and queries of them.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Float64Type};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use benthic_core::pushdown::Pushdown;
use benthic_core::{Class, ClassRegistry, ObjectAddress, Pool, Result, Store};
use benthic_embedded::{EmbeddedStore, MemStore, Options};
use benthic_sql::errors::from_datafusion;
use benthic_sql::object::DataObject;
use benthic_sql::objects::Objects;
use benthic_sql::session::{self, Settings};
use bytes::Bytes;
use futures::TryStreamExt;
use std::sync::Arc;
use tempfile::TempDir;

pub const ALL: [Pushdown; 3] = [Pushdown::Never, Pushdown::Always, Pushdown::Auto];

/// The pool of these tests; its name must not clash on a shared cluster.
pub const POOL: &str = "benthic-sql-test";

/// A memory store with the pool and this class.
pub async fn memory(class: Option<impl Class + 'static>) -> Arc<dyn Pool> {
    memory_with(class.map_or_else(ClassRegistry::new, |class| ClassRegistry::new().with(class))).await
}

/// A memory store with the pool and these classes.
pub async fn memory_with(classes: ClassRegistry) -> Arc<dyn Pool> {
    let store: Arc<dyn Store> = MemStore::new(Options::default().with_classes(classes));
    pool_of(&store).await
}

/// An embedded store with the pool and this class. The store closes when it is dropped.
pub async fn embedded(dir: &TempDir, class: impl Class + 'static) -> (Arc<dyn Store>, Arc<dyn Pool>) {
    let options = Options::default().with_classes(ClassRegistry::new().with(class));
    let store: Arc<dyn Store> = EmbeddedStore::open(dir.path(), true, options).unwrap();
    let pool = pool_of(&store).await;
    (store, pool)
}

async fn pool_of(store: &Arc<dyn Store>) -> Arc<dyn Pool> {
    store.create_pool(POOL).await.unwrap();
    store.open_pool(POOL).await.unwrap()
}

pub fn address(name: &str) -> ObjectAddress {
    format!("{POOL}/{name}").parse().unwrap()
}

pub async fn put(pool: &Arc<dyn Pool>, name: &str, data: Bytes) {
    pool.write_full(&address(name).object, data).await.unwrap();
}

pub async fn open(pool: &Arc<dyn Pool>, name: &str) -> Result<Objects> {
    let object = DataObject::open(Arc::clone(pool), address(name)).await?;
    Objects::of_one(Arc::new(object)).await
}

pub fn settings(pushdown: Pushdown) -> Settings {
    Settings { pushdown, ..Settings::default() }
}

pub async fn query(
    pool: &Arc<dyn Pool>,
    name: &str,
    pushdown: Pushdown,
    sql: &str,
) -> Result<Vec<RecordBatch>> {
    let rows = session::query(open(pool, name).await?, &settings(pushdown), sql).await?;
    rows.try_collect().await.map_err(|error| from_datafusion(&error))
}

/// The rows as sorted text. Floating-point numbers are rounded, because a sum depends on the order.
pub fn rows(batches: &[RecordBatch]) -> Vec<String> {
    let mut rows: Vec<String> = batches.iter().flat_map(rows_of).collect();
    rows.sort_unstable();
    rows
}

fn rows_of(batch: &RecordBatch) -> Vec<String> {
    let options = FormatOptions::default().with_null("null");
    let columns: Vec<Box<dyn Fn(usize) -> String + '_>> = batch
        .columns()
        .iter()
        .map(|column| -> Box<dyn Fn(usize) -> String + '_> {
            if *column.data_type() == DataType::Float64 {
                let floats = column.as_primitive::<Float64Type>();
                return Box::new(|row| match floats.is_null(row) {
                    true => "null".to_owned(),
                    false => format!("{:.9e}", floats.value(row)),
                });
            }
            let text = ArrayFormatter::try_new(column, &options).unwrap();
            Box::new(move |row| text.value(row).to_string())
        })
        .collect();
    (0..batch.num_rows())
        .map(|row| columns.iter().map(|text| text(row)).collect::<Vec<_>>().join("|"))
        .collect()
}

/// Returns the output of EXPLAIN ANALYZE for a query.
pub async fn explained(pool: &Arc<dyn Pool>, name: &str, pushdown: Pushdown, sql: &str) -> String {
    let plan = query(pool, name, pushdown, &format!("EXPLAIN ANALYZE {sql}")).await.unwrap();
    rows(&plan).join("\n")
}

/// Like [`explained`], but repeats the query while other tests' fragments keep the class busy.
pub async fn explained_when_free(pool: &Arc<dyn Pool>, name: &str, pushdown: Pushdown, sql: &str) -> String {
    loop {
        let explained = explained(pool, name, pushdown, sql).await;
        if metric(&explained, "refused_busy") == 0 {
            return explained;
        }
    }
}

/// The sum of a metric over all nodes of an explained plan, with the few digits that the plan
/// shows.
pub fn metric(explained: &str, name: &str) -> u64 {
    let key = format!("{name}=");
    let sums = explained.match_indices(&key).map(|(at, found)| {
        let value = explained[at + found.len()..].split([',', ']']).next().unwrap();
        let (number, unit) = value.split_once(' ').unwrap_or((value, ""));
        let factor = match unit {
            "" | "B" => 1.0,
            "K" | "KB" => 1e3,
            "M" | "MB" => 1e6,
            _ => panic!("a metric has an unknown unit: {value}"),
        };
        (number.parse::<f64>().unwrap() * factor) as u64
    });
    sums.sum()
}
