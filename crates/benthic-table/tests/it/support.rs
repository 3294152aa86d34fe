//! Stores, rows and clocks for the tests.

use arrow::array::{Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Schema};
use benthic_core::{Environment, ListRequest, ManualClock, Namespaces, Pool, Random, Result, Store};
use benthic_embedded::{EmbeddedStore, MemStore, Options};
use benthic_table::{
    Definition, FileEntry, Layout, Snapshot, SnapshotSelector, Table, Writer, WriterOptions,
};
use benthic_testkit::random::Rng;
use futures::TryStreamExt;
use futures::executor::block_on;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

pub const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// Distinct pseudorandom numbers, identical in every run.
#[derive(Default)]
pub struct SequenceRandom(Mutex<Rng>);

impl Random for SequenceRandom {
    fn fill(&self, bytes: &mut [u8]) -> Result<()> {
        bytes.copy_from_slice(&self.0.lock().unwrap().bytes(bytes.len()));
        Ok(())
    }
}

/// An environment whose clock moves only when a test advances it.
pub fn environment() -> (Environment, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    clock.advance_ms(1_000 * DAY_MS);
    (Environment { clock: clock.clone(), random: Arc::new(SequenceRandom::default()) }, clock)
}

pub fn memory_pool() -> Arc<dyn Pool> {
    let store = MemStore::new(Options::default());
    block_on(store.create_pool("p")).unwrap();
    block_on(store.open_pool("p")).unwrap()
}

/// Runs a test on both engines. Passes the pool and a second handle of it, as another process would
/// open it.
pub fn on_both_engines(test: impl Fn(Arc<dyn Pool>, Arc<dyn Pool>)) {
    let pool = memory_pool();
    test(Arc::clone(&pool), pool);
    let dir = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(dir.path(), true, Options::default()).unwrap();
    block_on(store.create_pool("p")).unwrap();
    // The second store is not the owner, so it goes through the socket.
    let other = EmbeddedStore::open(dir.path(), false, Options::default()).unwrap();
    assert!(store.is_owner() && !other.is_owner());
    test(block_on(store.open_pool("p")).unwrap(), block_on(other.open_pool("p")).unwrap());
    other.close().unwrap();
    store.close().unwrap();
}

/// Rows with the columns `id`, `price` and `name`, whose values derive from the id.
pub fn rows(ids: std::ops::Range<i64>) -> RecordBatch {
    let prices = Float64Array::from_iter(ids.clone().map(|id| (id % 7 != 0).then_some(id as f64 / 4.0)));
    let names = StringArray::from_iter_values(ids.clone().map(|id| format!("row {id}")));
    RecordBatch::try_new(
        Arc::new(schema()),
        vec![Arc::new(Int64Array::from_iter_values(ids)), Arc::new(prices), Arc::new(names)],
    )
    .unwrap()
}

pub fn schema() -> Schema {
    Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("price", DataType::Float64, true),
        Field::new("name", DataType::Utf8, true),
    ])
}

pub fn definition() -> Definition {
    definition_of(&schema(), 1024 * 1024)
}

/// A table with these columns, and objects of this size.
pub fn definition_of(schema: &Schema, object_bytes: u64) -> Definition {
    let layout = Layout { object_bytes, ..Layout::default() };
    Definition { layout, ..Definition::new(schema).unwrap() }
}

pub fn create(pool: &Arc<dyn Pool>, name: &str, definition: &Definition, environment: &Environment) -> Table {
    block_on(Table::create(Arc::clone(pool), name, definition, environment.clone())).unwrap()
}

pub async fn try_append(table: &Table, batches: &[RecordBatch], options: WriterOptions) -> Result<Snapshot> {
    let mut writer: Writer = table.writer(options).await?;
    for batch in batches {
        if let Err(error) = writer.write(batch).await {
            writer.abort().await?;
            return Err(error);
        }
    }
    writer.finish().await
}

pub fn append(table: &Table, batch: &RecordBatch) -> Snapshot {
    block_on(try_append(table, std::slice::from_ref(batch), WriterOptions::default())).unwrap()
}

pub fn current(table: &Table) -> Snapshot {
    block_on(table.snapshot(SnapshotSelector::Current)).unwrap()
}

pub fn entries(snapshot: &Snapshot) -> Vec<FileEntry> {
    block_on(snapshot.entries().try_collect()).unwrap()
}

pub async fn try_read(snapshot: &Snapshot) -> Result<RecordBatch> {
    let mut batches = Vec::new();
    for entry in snapshot.entries().try_collect::<Vec<_>>().await? {
        let mut rows = snapshot.read(&entry, snapshot.schema()).await?;
        while let Some(batch) = rows.try_next().await? {
            batches.push(batch);
        }
    }
    Ok(concat_batches(snapshot.schema().arrow(), &batches).unwrap())
}

/// Reads all rows of a snapshot.
pub fn read(snapshot: &Snapshot) -> RecordBatch {
    block_on(try_read(snapshot)).unwrap()
}

/// The sorted values of `id`.
pub fn ids(snapshot: &Snapshot) -> Vec<i64> {
    sorted_ids(&read(snapshot))
}

pub fn sorted_ids(batch: &RecordBatch) -> Vec<i64> {
    use arrow::array::AsArray;
    let column = batch.column_by_name("id").unwrap();
    let mut ids = column.as_primitive::<arrow::datatypes::Int64Type>().values().to_vec();
    ids.sort_unstable();
    ids
}

/// The names of all objects in a namespace.
pub fn names(pool: &Arc<dyn Pool>, namespace: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut request =
        ListRequest { namespaces: Namespaces::One(namespace.to_owned()), ..ListRequest::default() };
    loop {
        let page = block_on(pool.list(request.clone())).unwrap();
        names.extend(page.objects.iter().map(|object| object.name().to_owned()));
        match page.next {
            Some(next) => request.after = Some(next),
            None => return names,
        }
    }
}

/// The names of all objects to which a table's snapshots refer.
pub fn referred(table: &Table) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for snapshot in block_on(table.history()).unwrap() {
        names.extend(snapshot.lists().iter().map(|list| list.object.to_string()));
        let entries = entries(&snapshot);
        names.extend(entries.iter().flat_map(FileEntry::parts).map(|part| part.object.to_string()));
    }
    names
}

/// Writes groups of data objects again. Returns the number of replaced objects.
pub async fn try_rewrite(table: &Table, groups: Vec<Vec<FileEntry>>) -> Result<usize> {
    let mut replaced = 0;
    for group in groups {
        let options = WriterOptions::default();
        replaced += table.rewrite(&group, &options, &mut async |_| Ok(())).await?.replaced.len();
    }
    Ok(replaced)
}

/// Writes all objects again that have another layout than the table.
pub async fn try_rewrite_all(table: &Table) -> Result<usize> {
    let snapshot = table.snapshot(SnapshotSelector::Current).await?;
    try_rewrite(table, snapshot.to_rewrite(snapshot.layout()).await?).await
}

/// The faults that fsck finds.
pub fn findings(snapshot: &Snapshot) -> Vec<String> {
    let checked: Vec<_> = block_on(snapshot.fsck(false).try_collect()).unwrap();
    checked.iter().flat_map(|checked| &checked.findings).map(ToString::to_string).collect()
}
