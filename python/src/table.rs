//! Tables: creating, scanning, appending, comparing, compacting, vacuuming and dropping them.

use crate::errors::to_exception;
use crate::filter::Filter;
use crate::ipc::{Message, plain_schema, read_stream};
use crate::rows::Rows;
use crate::runtime::wait;
use crate::slot::Slot;
use crate::store::{Shared, Store, table_address};
use crate::writer::Writer;
use benthic_core::{Environment, Error, ErrorKind, Result};
use benthic_sql::cluster::Cluster;
use benthic_sql::session::Selection;
use benthic_sql::syntax::{parse_partitioning, show_partitioning};
use benthic_table::{
    Definition, FileEntry, LayoutChange, RowStream, Snapshot, SnapshotSelector, VacuumOptions, WriterOptions,
    drop_table, vacuum,
};
use futures::lock::Mutex;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::{Bound, PyAny, PyAnyMethods, PyRef, PyResult, Python};
use pyo3::types::{PyBool, PyBytes};
use pyo3::{FromPyObject, pyclass, pymethods};
use std::sync::Arc;
use std::time::Duration;

/// Shorter waits of a compaction add up before it waits.
const WAIT_MIN: Duration = Duration::from_millis(20);

#[pyclass(frozen)]
pub struct Table {
    table: Arc<Slot<benthic_table::Table>>,
}

/// A snapshot: id, time, operation, rows, objects, bytes.
pub type SnapshotFacts = (u64, u64, &'static str, u64, u64, u64);

pub fn facts(snapshot: &Snapshot) -> SnapshotFacts {
    (
        snapshot.id(),
        snapshot.time_ms(),
        snapshot.operation().name(),
        snapshot.rows(),
        snapshot.objects(),
        snapshot.data_bytes(),
    )
}

/// The id of a snapshot. Python's bool is an int, but no id.
fn snapshot_id(value: &Bound<'_, PyAny>) -> PyResult<u64> {
    match value.is_instance_of::<PyBool>() {
        true => Err(PyTypeError::new_err("the id of a snapshot must be an int, not a bool")),
        false => value.extract(),
    }
}

fn any_snapshot_id(value: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
    if value.is_none() { Ok(None) } else { snapshot_id(value).map(Some) }
}

/// A snapshot that Python names.
#[derive(FromPyObject)]
enum SnapshotName {
    Id(#[pyo3(from_py_with = snapshot_id)] u64),
    Tag(String),
}

impl SnapshotName {
    fn selector(self) -> SnapshotSelector {
        match self {
            SnapshotName::Id(id) => SnapshotSelector::Id(id),
            SnapshotName::Tag(tag) => SnapshotSelector::Tag(tag),
        }
    }
}

fn at(snapshot: Option<u64>) -> SnapshotSelector {
    snapshot.map_or(SnapshotSelector::Current, SnapshotSelector::Id)
}

impl Table {
    pub async fn open(shared: &Shared, address: &str) -> Result<Table> {
        let (pool, name) = table_address(address)?;
        let pool = shared.pool(pool).await?;
        let table = benthic_table::Table::open(pool, name, Environment::default()).await?;
        Ok(Table { table: shared.slots().add(table) })
    }

    /// Creates a table without rows. `schema` is an Arrow IPC stream.
    pub async fn create(
        shared: &Shared,
        address: &str,
        schema: &[u8],
        partition_by: &str,
        sort_by: &[String],
        object_bytes: u64,
    ) -> Result<Table> {
        let (pool, name) = table_address(address)?;
        let (schema, _) = read_stream(schema.to_vec())?;
        let define = || {
            let mut definition = Definition::new(&schema)?;
            definition.partitioning = parse_partitioning(partition_by)?.resolve(&definition.schema)?;
            let change = LayoutChange {
                sort: Some(sort_by.to_vec()),
                object_bytes: Some(object_bytes),
                ..LayoutChange::default()
            };
            definition.layout = definition.layout.with(&change, &definition.schema)?;
            Ok(definition)
        };
        let definition = define().map_err(|error: Error| error.with("table", address))?;
        let pool = shared.pool(pool).await?;
        let table = benthic_table::Table::create(pool, name, &definition, Environment::default()).await?;
        Ok(Table { table: shared.slots().add(table) })
    }

    /// The table, while its store is open.
    ///
    /// # Errors
    /// `InvalidArgument` after the store was closed.
    pub fn opened(&self) -> Result<benthic_table::Table> {
        self.table.get()
    }
}

/// Drops a table; returns the number of objects removed.
///
/// # Errors
/// `Busy` while a writer is at work; those of [`drop_table`].
pub async fn drop(shared: &Shared, address: &str, force: bool) -> Result<u64> {
    let (pool, name) = table_address(address)?;
    let pool = shared.pool(pool).await?;
    let dropped = match drop_table(Arc::clone(&pool), name, force, &Environment::default()).await {
        // The error of opening a missing table suggests a similar name.
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return match benthic_table::Table::open(pool, name, Environment::default()).await {
                Err(hinted) => Err(hinted),
                Ok(_) => Err(error),
            };
        }
        dropped => dropped?,
    };
    if !dropped.finished {
        let message = "a writer is still active; the rows are removed, but not the writer's objects; drop the table again \
            when the writer has ended, or with force=True if it died";
        return Err(Error::busy(message).with("table", address));
    }
    Ok(dropped.objects)
}

#[pymethods]
impl Table {
    /// Id and columns of the given snapshot, or of the current one. Columns are an Arrow IPC stream
    /// without rows.
    fn schema<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = any_snapshot_id)] snapshot: Option<u64>,
    ) -> PyResult<(u64, Bound<'py, PyBytes>)> {
        let snapshot = wait(py, async || self.opened()?.snapshot(at(snapshot)).await)?;
        let schema = plain_schema(snapshot.schema().arrow());
        let columns = Message::of_schema(&schema).map_err(|error| to_exception(&error))?.into_bytes(py)?;
        Ok((snapshot.id(), columns))
    }

    /// Partitioning, sort columns, and target size of data objects in bytes.
    fn layout(&self, py: Python<'_>) -> PyResult<(String, Vec<String>, u64)> {
        let head = wait(py, async || self.opened()?.head().await)?;
        let (_, schema) = head.current().map_err(|error| to_exception(&error))?;
        let name = |id: &u32| schema.by_id(*id).map(|column| column.name.clone());
        let sort = head.layout.sort.iter().filter_map(name).collect();
        Ok((show_partitioning(&head.partitioning, schema), sort, head.layout.object_bytes))
    }

    fn snapshot(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = any_snapshot_id)] snapshot: Option<u64>,
    ) -> PyResult<SnapshotFacts> {
        let snapshot = wait(py, async || self.opened()?.snapshot(at(snapshot)).await)?;
        Ok(facts(&snapshot))
    }

    fn history(&self, py: Python<'_>) -> PyResult<Vec<SnapshotFacts>> {
        let history = wait(py, async || self.opened()?.history().await)?;
        Ok(history.iter().map(facts).collect())
    }

    #[allow(clippy::too_many_arguments, reason = "Python gives them their names")]
    fn scan(
        &self,
        py: Python<'_>,
        store: PyRef<'_, Store>,
        columns: Option<Vec<String>>,
        filter: Option<PyRef<'_, Filter>>,
        sql: Option<String>,
        limit: Option<usize>,
        #[pyo3(from_py_with = any_snapshot_id)] snapshot: Option<u64>,
        pushdown: &str,
        objects: Option<Vec<String>>,
    ) -> PyResult<Rows> {
        let shared = store.shared()?;
        let filters = filter.map(|filter| filter.pushed()).unwrap_or_default();
        let selection = Selection { columns, filters, sql, limit, objects };
        wait(py, async || {
            let snapshot = self.opened()?.snapshot(at(snapshot)).await?;
            shared.rows(shared.sql(pushdown)?.select(snapshot, selection).await?)
        })
    }

    /// Names, rows and bytes of the data objects that a scan with this filter would read.
    fn objects(
        &self,
        py: Python<'_>,
        store: PyRef<'_, Store>,
        filter: Option<PyRef<'_, Filter>>,
        sql: Option<String>,
        #[pyo3(from_py_with = any_snapshot_id)] snapshot: Option<u64>,
    ) -> PyResult<Vec<(String, u64, u64)>> {
        let shared = store.shared()?;
        let filters = filter.map(|filter| filter.pushed()).unwrap_or_default();
        let selection = Selection { filters, sql, ..Selection::default() };
        wait(py, async || {
            let snapshot = self.opened()?.snapshot(at(snapshot)).await?;
            let entries = shared.sql("never")?.objects(snapshot, selection).await?;
            let facts = |entry: FileEntry| (entry.object.to_string(), entry.live_rows(), entry.all_bytes());
            Ok(entries.into_iter().map(facts).collect())
        })
    }

    /// Fails, with a suggestion, if the table has no such column.
    fn check_column(
        &self,
        py: Python<'_>,
        name: &str,
        #[pyo3(from_py_with = any_snapshot_id)] snapshot: Option<u64>,
    ) -> PyResult<()> {
        wait(py, async || {
            let table = self.opened()?;
            let snapshot = table.snapshot(at(snapshot)).await?;
            let found = snapshot.schema().by_name(name).map(|_| ());
            found.map_err(|error| error.with("table", table.address()))
        })
    }

    fn writer(&self, py: Python<'_>, add_columns: bool, store: PyRef<'_, Store>) -> PyResult<Writer> {
        let shared = store.shared()?;
        let options = WriterOptions { add_columns, ..WriterOptions::default() };
        let writer = wait(py, async || self.opened()?.writer(options).await)?;
        Ok(Writer::new(shared.slots().add(Arc::new(Mutex::new(writer)))))
    }

    fn diff(
        &self,
        py: Python<'_>,
        store: PyRef<'_, Store>,
        old: SnapshotName,
        new: Option<SnapshotName>,
    ) -> PyResult<Rows> {
        let shared = store.shared()?;
        let new = new.map_or(SnapshotSelector::Current, SnapshotName::selector);
        wait(py, async || {
            let table = self.opened()?;
            let old = table.snapshot(old.selector()).await?;
            let new = table.snapshot(new).await?;
            shared.rows(shared.sql("auto")?.diff(old, new, &Arc::default()).await?)
        })
    }

    /// Writes objects again, and clusters the rows of all objects if columns are given. Returns the
    /// number of objects that were replaced.
    fn compact(
        &self,
        py: Python<'_>,
        all: bool,
        cluster_by: Option<Vec<String>>,
        is_z_order: bool,
        memory_bytes: usize,
        bytes_per_second: Option<u64>,
    ) -> PyResult<usize> {
        let options = WriterOptions {
            buffer_bytes_max: memory_bytes,
            keeps_order: cluster_by.is_some(),
            ..WriterOptions::default()
        };
        wait(py, async || {
            let table = self.opened()?;
            let snapshot = table.snapshot(SnapshotSelector::Current).await?;
            let schema = snapshot.schema();
            let cluster = cluster_by.map(|columns| match is_z_order {
                true => Cluster::z_order(columns, memory_bytes, schema),
                false => Cluster::new(columns, memory_bytes, schema),
            });
            let cluster = cluster.transpose().map_err(|error| error.with("table", table.address()))?;
            let mut order =
                async |snapshot: &Snapshot, objects: &[FileEntry], rows: RowStream| -> Result<RowStream> {
                    match &cluster {
                        Some(cluster) => cluster.order(snapshot, objects, rows).await,
                        None => Ok(rows),
                    }
                };
            let mut debt = Duration::ZERO;
            let mut pace = async |bytes: u64| -> Result<()> {
                // Reading may not wait. Yield so that Ctrl-C is noticed.
                tokio::task::yield_now().await;
                if let Some(rate) = bytes_per_second {
                    debt += Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64);
                }
                if debt >= WAIT_MIN {
                    tokio::time::sleep(debt).await;
                    debt = Duration::ZERO;
                }
                Ok(())
            };
            let (mut objects, mut conflict) = (0, None);
            for group in snapshot.to_compact(all || cluster.is_some(), &options).await? {
                match table.rewrite_in_order(&group, &options, &mut order, &mut pace).await {
                    Ok(done) => objects += done.replaced.len(),
                    Err(error) if error.kind() == ErrorKind::Conflict => conflict = Some(error),
                    Err(error) => return Err(error),
                }
            }
            conflict.map_or(Ok(objects), |error| {
                let message =
                    "other changes of the table prevented a part of the compaction; compact it again";
                let prevented = Error::conflict(message).with("table", table.address());
                Err(prevented.with_source(error))
            })
        })
    }

    /// Drops the table if nothing has changed it since its creation.
    fn drop_if_unchanged(&self, py: Python<'_>) -> PyResult<()> {
        wait(py, async || {
            let table = self.opened()?;
            let head = table.head().await?;
            if head.snapshots.len() > 1 || !head.intents.is_empty() {
                return Err(Error::conflict("another writer already uses the table"));
            }
            let pool = Arc::clone(table.pool());
            drop_table(pool, table.name(), false, &Environment::default()).await.map(|_| ())
        })
    }

    /// Returns the numbers of snapshots, writers and objects that vacuum removed.
    fn vacuum(&self, py: Python<'_>, keep_snapshots: usize, keep_ms: u64) -> PyResult<(usize, usize, u64)> {
        let options = VacuumOptions { keep_snapshots, keep_ms, ..VacuumOptions::default() };
        let done = wait(py, async || {
            let table = self.opened()?;
            vacuum(Arc::clone(table.pool()), table.name(), &options, &Environment::default()).await
        })?;
        Ok((done.snapshots, done.writers, done.objects))
    }
}
