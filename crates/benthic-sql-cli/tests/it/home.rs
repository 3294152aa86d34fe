//! A separate directory for each test, with a store that has the pool `lake`; runs the program
//! there.

pub use benthic_testkit::program::printed;

use arrow::array::RecordBatch;
use benthic_core::{Environment, Store};
use benthic_embedded::{EmbeddedStore, Options};
use benthic_table::{SnapshotSelector, Table};
use benthic_testkit::program;
use futures::TryStreamExt;
use futures::executor::block_on;
use serde_json::Value;
use std::ops::Deref;

/// Runs `benthic-sql table ARGS`, which `benthic table ARGS` calls.
pub struct Home(program::Home);

impl Home {
    pub fn new() -> Home {
        let home = Home(program::Home::new(env!("CARGO_BIN_EXE_benthic-sql"), &["table"]));
        home.with_store(async |store| store.create_pool("lake").await.unwrap());
        home
    }

    /// Opens the store in this process.
    pub fn with_store<T>(&self, work: impl AsyncFnOnce(&EmbeddedStore) -> T) -> T {
        let store = EmbeddedStore::open(&self.path("benthic-data"), true, Options::default()).unwrap();
        let done = block_on(work(&store));
        store.close().unwrap();
        done
    }

    /// All rows of a table as JSON, sorted by their text.
    pub fn rows(&self, table: &str) -> Vec<String> {
        let mut rows: Vec<String> = self.batches(table).iter().flat_map(json_rows).collect();
        rows.sort_unstable();
        rows
    }

    pub fn batches(&self, table: &str) -> Vec<RecordBatch> {
        self.with_store(async |store| {
            let pool = store.open_pool("lake").await.unwrap();
            let table = Table::open(pool, table, Environment::default()).await.unwrap();
            let snapshot = table.snapshot(SnapshotSelector::Current).await.unwrap();
            let mut batches = Vec::new();
            for entry in snapshot.entries().try_collect::<Vec<_>>().await.unwrap() {
                let rows = snapshot.read(&entry, snapshot.schema()).await.unwrap();
                batches.extend(rows.try_collect::<Vec<_>>().await.unwrap());
            }
            batches
        })
    }

    /// Namespaces and names of the tables' objects in the pool.
    pub fn objects(&self) -> Vec<String> {
        self.with_store(async |store| {
            let pool = store.open_pool("lake").await.unwrap();
            let all = benthic_core::Namespaces::All;
            let request =
                benthic_core::ListRequest { namespaces: all, ..benthic_core::ListRequest::default() };
            let page = pool.list(request).await.unwrap();
            assert!(page.next.is_none(), "one page is enough for a test");
            page.objects.iter().map(ToString::to_string).collect()
        })
    }

    /// The columns that `benthic table show` prints.
    #[track_caller]
    pub fn columns(&self, table: &str) -> Vec<String> {
        let shown = self.json(&["show", table]).remove(0);
        let column = |column: &Value| {
            let not_null = if column["nullable"] == true { "" } else { " not null" };
            format!("{} {}{not_null}", column["name"].as_str().unwrap(), column["type"].as_str().unwrap())
        };
        shown["columns"].as_array().unwrap().iter().map(column).collect()
    }
}

impl Deref for Home {
    type Target = program::Home;

    fn deref(&self) -> &program::Home {
        &self.0
    }
}

fn json_rows(batch: &RecordBatch) -> Vec<String> {
    let mut text = Vec::new();
    let mut writer = arrow::json::LineDelimitedWriter::new(&mut text);
    writer.write(batch).unwrap();
    writer.finish().unwrap();
    String::from_utf8(text).unwrap().lines().map(str::to_owned).collect()
}
