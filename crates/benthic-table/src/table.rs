//! Tables by name: create, open, list, and change their heads.

use crate::error::suggest;
use crate::head::{Head, TableState};
use crate::heads::{Attempts, HeadStore, check_live, list_names, table_names};
use crate::ids::Id;
use crate::layout::Layout;
use crate::partition::Partitioning;
use crate::schema::TableSchema;
use arrow::datatypes::Schema;
use benthic_core::{Environment, Error, ErrorKind, Pool, Result};
use std::sync::Arc;
use std::time::Duration;

/// The properties with which a table is created.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    pub schema: TableSchema,
    pub partitioning: Partitioning,
    /// The layout of data objects.
    pub layout: Layout,
}

impl Definition {
    /// A table for data of this schema, without partitioning and with the default layout.
    pub fn new(schema: &Schema) -> Result<Definition> {
        let schema = TableSchema::from_arrow(schema)?;
        Ok(Definition { schema, partitioning: Partitioning::Rows, layout: Layout::default() })
    }

    fn check(&self) -> Result<()> {
        self.partitioning.check(&self.schema)?;
        self.layout.check(&self.schema)
    }
}

/// A table of a pool, in [`Table::list`].
#[derive(Debug)]
pub struct TableEntry {
    pub name: String,
    /// The head, or the error of reading it.
    pub head: Result<Head>,
}

/// An open table: its name, and its id at the time of opening. Cheap to clone; holds no resources.
#[derive(Clone)]
pub struct Table {
    pub(crate) heads: HeadStore,
    pub(crate) id: Id,
    pub(crate) environment: Environment,
}

impl Table {
    /// Creates a table without rows.
    ///
    /// # Errors
    /// `AlreadyExists`; `InvalidArgument`, `LimitExceeded` for an invalid name or definition; as
    /// [`Pool::write`].
    pub async fn create(
        pool: Arc<dyn Pool>,
        name: &str,
        definition: &Definition,
        environment: Environment,
    ) -> Result<Table> {
        let id = Id::draw(&environment)?;
        Table::create_with_id(pool, name, definition, environment, id).await
    }

    /// As [`Table::create`], with an id that the caller has drawn.
    ///
    /// # Errors
    /// As [`Table::create`]; `AlreadyExists` if the id is zero or a table with it has objects. Of
    /// two calls with the same id and name, one fails.
    pub async fn create_as(
        pool: Arc<dyn Pool>,
        name: &str,
        definition: &Definition,
        environment: Environment,
        id: Id,
    ) -> Result<Table> {
        if id.0 == 0 || !list_names(&pool, &id.namespace()).await?.is_empty() {
            let message = "the id of the new table belongs to another one; draw a new id";
            return Err(Error::already_exists(message).with("table", name).with("id", id));
        }
        Table::create_with_id(pool, name, definition, environment, id).await
    }

    async fn create_with_id(
        pool: Arc<dyn Pool>,
        name: &str,
        definition: &Definition,
        environment: Environment,
        id: Id,
    ) -> Result<Table> {
        let heads = HeadStore::new(pool, name, &environment)?;
        definition.check().map_err(|error| heads.add_context(error))?;
        let writer = Id::draw(&environment)?;
        let head = Head::new(id, definition, writer, environment.unix_ms())?;
        let table = Table { heads, id, environment };
        let mut attempts = Attempts::new(id);
        loop {
            attempts.next().await?;
            match table.heads.create(&head).await {
                Ok(true) => return Ok(table),
                // The next attempt would wait as long if the store does not answer.
                Ok(false) => match table.heads.read().await {
                    Ok((head, _)) if is_created_by(&head, id, writer) => return Ok(table),
                    Err(error) if error.kind() == ErrorKind::Unavailable => {
                        let message = "the store does not answer, and the table may have been created";
                        return Err(error.with_kind(ErrorKind::OutcomeUnknown).with("note", message));
                    }
                    _ => {}
                },
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    return table.resolve_create(error, writer).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Finds out whether this call created the existing head.
    async fn resolve_create(self, error: Error, writer: Id) -> Result<Table> {
        let message = match self.heads.read().await {
            Ok((head, _)) if is_created_by(&head, self.id, writer) => return Ok(self),
            Ok((head, _)) if head.state == TableState::Dropping => {
                "a table of this name is being dropped; drop it again to complete the drop"
            }
            _ => "the table already exists; append to it, or drop it first",
        };
        Err(self.heads.add_context(Error::already_exists(message)).with_source(error))
    }

    /// Opens a table.
    ///
    /// # Errors
    /// `NotFound`, with a suggestion of a similar name; `Corrupt`; `Unsupported` for a format newer
    /// than this build's.
    pub async fn open(pool: Arc<dyn Pool>, name: &str, environment: Environment) -> Result<Table> {
        Ok(Table::open_with_head(pool, name, environment).await?.0)
    }

    /// The table name in a pool that is most similar to `name`; `None` if a table with this name
    /// exists or no name is similar.
    pub async fn suggest(pool: &Arc<dyn Pool>, name: &str) -> Result<Option<String>> {
        let names = table_names(pool).await?;
        let hint = suggest(name, names.iter().map(String::as_str));
        Ok(hint.filter(|hint| *hint != name).map(str::to_owned))
    }

    /// Opens a table together with its current head. One round trip.
    ///
    /// # Errors
    /// As [`Table::open`].
    pub async fn open_with_head(
        pool: Arc<dyn Pool>,
        name: &str,
        environment: Environment,
    ) -> Result<(Table, Head)> {
        let heads = HeadStore::new(pool, name, &environment)?;
        let (head, _) = match heads.read().await {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let message = match Table::suggest(&heads.pool, name).await? {
                    Some(hint) => format!("no such table; did you mean {hint:?}"),
                    None => {
                        format!("no such table; `benthic table ls {}` lists the tables", heads.pool.name())
                    }
                };
                return Err(heads.add_context(Error::not_found(message)));
            }
            outcome => outcome?,
        };
        check_live(&head, head.id).map_err(|error| heads.add_context(error))?;
        Ok((Table { heads, id: head.id, environment }, head))
    }

    /// The tables of a pool, sorted by name, including tables that are being dropped or are
    /// damaged.
    pub async fn list(pool: Arc<dyn Pool>) -> Result<Vec<TableEntry>> {
        let mut tables = Vec::new();
        for name in table_names(&pool).await? {
            let head = Table::read_head(Arc::clone(&pool), &name).await;
            // Skip a table that was removed since the listing.
            if !matches!(&head, Err(error) if error.kind() == ErrorKind::NotFound) {
                tables.push(TableEntry { name, head });
            }
        }
        Ok(tables)
    }

    /// Reads the head of a table in any state, also of one that is being dropped.
    ///
    /// # Errors
    /// `NotFound`, `Corrupt`, `Unsupported`; `InvalidArgument` for an invalid name.
    pub async fn read_head(pool: Arc<dyn Pool>, name: &str) -> Result<Head> {
        let heads = HeadStore::new(pool, name, &Environment::default())?;
        Ok(heads.read().await?.0)
    }

    pub fn name(&self) -> &str {
        &self.heads.name
    }

    /// The table as POOL/NAME.
    pub fn address(&self) -> String {
        self.heads.address()
    }

    pub fn id(&self) -> Id {
        self.id
    }

    pub fn pool(&self) -> &Arc<dyn Pool> {
        &self.heads.pool
    }

    /// The round-trip time of a small read: the shortest time that a read of the head took. `None`
    /// before the first read.
    pub fn round_trip(&self) -> Option<Duration> {
        self.heads.round_trip()
    }

    /// Reads the current head.
    ///
    /// # Errors
    /// `NotFound` if the table was dropped, `Corrupt`.
    pub async fn head(&self) -> Result<Head> {
        Ok(self.live().await?.0)
    }

    pub(crate) async fn live(&self) -> Result<(Head, u64)> {
        let (head, version) = self.heads.read().await?;
        check_live(&head, self.id).map_err(|error| self.heads.add_context(error))?;
        Ok((head, version))
    }

    /// Changes the head as [`HeadStore::commit`], if it still belongs to this table.
    pub(crate) async fn commit<T>(
        &self,
        seed: Id,
        mut change: impl FnMut(&mut Head) -> Result<T> + Send,
    ) -> Result<(T, Head)> {
        let id = self.id;
        self.heads
            .commit(seed, |head| {
                check_live(head, id)?;
                change(head)
            })
            .await
    }
}

/// Whether a head is of the table that a call created with this id and writer. Another call may
/// have the same id.
fn is_created_by(head: &Head, id: Id, writer: Id) -> bool {
    head.id == id && head.snapshots.iter().any(|snapshot| snapshot.writer == writer)
}
