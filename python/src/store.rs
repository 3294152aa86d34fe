//! Opening a store, and its pools, tables and queries.

use crate::array::{Array, place};
use crate::errors::to_exception;
use crate::meter::MeteredStore;
use crate::pool::Pool;
use crate::rows::Rows;
use crate::runtime::wait;
use crate::slot::{Slot, Slots};
use crate::table::Table;
use benthic_array::{ArrayClass, Node};
use benthic_core::names::check_pool_name;
use benthic_core::pushdown::Pushdown;
use benthic_core::{Error, ErrorKind, Meter, Result};
use benthic_program::log_panics;
use benthic_program::store::{OpenStore, open};
use benthic_sql::session::{Settings, SqlSession};
use benthic_table::ids::check_table_name;
use benthic_table::suggest;
use pyo3::prelude::{Bound, PyResult, Python};
use pyo3::types::PyBytes;
use pyo3::{pyclass, pyfunction, pymethods};
use std::sync::{Arc, Once};

#[pyclass(frozen)]
pub struct Store {
    slot: Slot<Arc<Shared>>,
}

/// State that all handles of a store share.
pub struct Shared {
    opened: OpenStore,
    store: Arc<dyn benthic_core::Store>,
    meter: Arc<Meter>,
    sql: SqlSession,
    slots: Slots,
}

#[pyfunction]
pub fn connect(py: Python<'_>, uri: &str, create: bool) -> PyResult<Store> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| log_panics(false));
    let opened = wait(py, async || {
        open(uri, create, benthic_sql::classes().with(ArrayClass)).await.map_err(|error| match error.kind() {
            ErrorKind::NotFound if uri.starts_with("file:") => {
                let message = "there is no store here; connect with create=True to create one";
                Error::not_found(message).with("store", uri)
            }
            _ => error,
        })
    })?;
    let meter = Arc::new(Meter::default());
    let store = Arc::new(MeteredStore { store: Arc::clone(&opened.store), meter: Arc::clone(&meter) });
    let sql = SqlSession::new(Arc::clone(&store) as Arc<dyn benthic_core::Store>, Settings::default());
    let shared = Shared { opened, store, meter, sql, slots: Slots::default() };
    Ok(Store { slot: Slot::new(Arc::new(shared)) })
}

impl Shared {
    /// Opens a pool. If the pool is missing, the error suggests a similar name.
    pub async fn pool(&self, name: &str) -> Result<Arc<dyn benthic_core::Pool>> {
        check_pool_name(name)?;
        match self.store.open_pool(name).await {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let pools = self.store.list_pools().await?;
                let message = match suggest(name, pools.iter().map(String::as_str)) {
                    Some(pool) => format!("no such pool; did you mean {pool:?}"),
                    None => "no such pool; create_pool creates one, and pools lists all".to_owned(),
                };
                Err(Error::not_found(message).with("pool", name))
            }
            opened => opened,
        }
    }

    /// Parses a pushdown mode, and resolves `auto` for the store.
    ///
    /// # Errors
    /// `InvalidArgument` for an unknown mode.
    pub fn pushdown(&self, pushdown: &str) -> Result<Pushdown> {
        let pushdown = match pushdown {
            "auto" => Pushdown::Auto,
            "always" => Pushdown::Always,
            "never" => Pushdown::Never,
            other => {
                let message = "pushdown is \"auto\", \"always\" or \"never\"";
                return Err(Error::invalid_argument(message).with("got", other));
            }
        };
        Ok(pushdown.in_store(&*self.store))
    }

    /// Creates a session for queries.
    ///
    /// # Errors
    /// `InvalidArgument` for an unknown pushdown mode.
    pub fn sql(&self, pushdown: &str) -> Result<SqlSession> {
        let pushdown = self.pushdown(pushdown)?;
        Ok(self.sql.with_settings(Settings { pushdown, ..Settings::default() }))
    }

    /// Wraps query results so that closing the store closes them.
    pub fn rows(&self, rows: datafusion::execution::SendableRecordBatchStream) -> Result<Rows> {
        Rows::new(rows, &self.slots)
    }

    pub fn opened(&self) -> &OpenStore {
        &self.opened
    }

    pub fn slots(&self) -> &Slots {
        &self.slots
    }
}

/// Splits a table's address into pool and table name, and checks both.
///
/// # Errors
/// `InvalidArgument`.
pub fn table_address(address: &str) -> Result<(&str, &str)> {
    let invalid = |message: &str| Error::invalid_argument(message).with("got", address);
    let (pool, table) = address.split_once('/').ok_or_else(|| invalid("a table is \"POOL/TABLE\""))?;
    if pool.contains(':') {
        return Err(invalid("a table is \"POOL/TABLE\"; tables have no namespaces"));
    }
    check_pool_name(pool)?;
    check_table_name(table)?;
    Ok((pool, table))
}

impl Store {
    /// The shared state, while the store is open.
    ///
    /// # Errors
    /// `InvalidArgument` after it was closed.
    pub fn shared(&self) -> PyResult<Arc<Shared>> {
        self.slot.get().map_err(|error| to_exception(&error))
    }
}

#[pymethods]
impl Store {
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let shared = py.detach(|| self.slot.close()).map_err(|error| to_exception(&error))?;
        let Some(shared) = shared else { return Ok(()) };
        wait(py, async || {
            shared.slots.close();
            shared.opened.close().await
        })
    }

    fn pools(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let shared = self.shared()?;
        wait(py, async || shared.store.list_pools().await)
    }

    fn create_pool(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        let shared = self.shared()?;
        wait(py, async || shared.store.create_pool(name).await)
    }

    fn remove_pool(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        let shared = self.shared()?;
        wait(py, async || shared.store.remove_pool(name).await)
    }

    fn pool(&self, py: Python<'_>, name: &str, namespace: String) -> PyResult<Pool> {
        let shared = self.shared()?;
        let pool = wait(py, async || {
            benthic_core::names::check_namespace(&namespace)?;
            shared.pool(name).await
        })?;
        let pool = shared.slots.add((pool, Arc::clone(&shared)));
        Ok(Pool::new(pool, namespace))
    }

    fn classes(&self, py: Python<'_>) -> PyResult<String> {
        let shared = self.shared()?;
        wait(py, async || {
            let classes = shared.store.classes().await?;
            serde_json::to_string(&classes)
                .map_err(|error| Error::internal("classes cannot be described").with_source(error))
        })
    }

    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        let shared = self.shared()?;
        wait(py, async || shared.store.flush().await)
    }

    fn moved(&self) -> PyResult<(u64, u64, u64)> {
        let meter = &self.shared()?.meter;
        Ok((meter.operations(), meter.sent_bytes(), meter.received_bytes()))
    }

    fn sql(&self, py: Python<'_>, sql: &str, pushdown: &str) -> PyResult<Rows> {
        let shared = self.shared()?;
        wait(py, async || shared.rows(shared.sql(pushdown)?.query(sql).await?))
    }

    fn tables(&self, py: Python<'_>, pool: &str) -> PyResult<Vec<String>> {
        let shared = self.shared()?;
        wait(py, async || {
            let tables = benthic_table::Table::list(shared.pool(pool).await?).await?;
            Ok(tables.into_iter().map(|table| table.name).collect())
        })
    }

    fn table(&self, py: Python<'_>, address: &str) -> PyResult<Table> {
        let shared = self.shared()?;
        wait(py, async || Table::open(&shared, address).await)
    }

    fn create_table(
        &self,
        py: Python<'_>,
        address: &str,
        schema: &[u8],
        partition_by: &str,
        sort_by: Vec<String>,
        object_bytes: u64,
    ) -> PyResult<Table> {
        let shared = self.shared()?;
        wait(py, async || Table::create(&shared, address, schema, partition_by, &sort_by, object_bytes).await)
    }

    fn array(&self, py: Python<'_>, address: &str) -> PyResult<Array> {
        let shared = self.shared()?;
        wait(py, async || Array::open(&shared, address).await)
    }

    /// Paths of arrays and groups, and whether each is an array.
    fn arrays(&self, py: Python<'_>, address: &str) -> PyResult<Vec<(String, bool)>> {
        let shared = self.shared()?;
        let listed = wait(py, async || benthic_array::list(&place(&shared, address).await?).await)?;
        let is_array = |node: &Result<Node>| !matches!(node, Ok(Node::Group(_)));
        Ok(listed.into_iter().map(|entry| (entry.path, is_array(&entry.node))).collect())
    }

    /// The format version of a group, and the document with its attributes.
    fn group<'py>(&self, py: Python<'py>, address: &str) -> PyResult<(u8, Bound<'py, PyBytes>)> {
        let shared = self.shared()?;
        let group = wait(py, async || match place(&shared, address).await?.node().await? {
            Node::Group(group) => Ok(group),
            Node::Array(_) => {
                let message = "this is an array; name the group that has it";
                Err(Error::invalid_argument(message).with("array", address))
            }
        })?;
        Ok((group.zarr_format, PyBytes::new(py, &group.document)))
    }

    fn drop_table(&self, py: Python<'_>, address: &str, force: bool) -> PyResult<u64> {
        let shared = self.shared()?;
        wait(py, async || crate::table::drop(&shared, address, force).await)
    }
}
