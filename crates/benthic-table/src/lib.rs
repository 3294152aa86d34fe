//! Benthic's tables: rows in immutable Parquet objects, found through one small object that changes.
//!
//! A table is a *head*, immutable *file lists* and immutable *data objects*, all in one pool (`docs/formats.md` draws them).
//! The head names schemas, snapshots and their lists; a list names data objects and says what is known of their values; a data
//! object is a Parquet file that any reader takes. There is no transaction over objects: what a writer makes is seen when its
//! last step, a compare-and-swap of the head, succeeds, all of it or nothing.
//!
//! ```
//! use arrow::array::{ArrayRef, Int64Array, RecordBatch};
//! use benthic_core::{Environment, Store};
//! use benthic_embedded::{MemStore, Options};
//! use benthic_table::{At, Definition, Table, WriterOptions};
//! use futures::TryStreamExt;
//! use std::sync::Arc;
//!
//! # fn main() -> benthic_core::Result<()> { futures::executor::block_on(async {
//! let store = MemStore::new(Options::default());
//! store.create_pool("p").await?;
//! let pool = store.open_pool("p").await?;
//!
//! let ids: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
//! let batch = RecordBatch::try_from_iter([("id", ids)]).expect("one column");
//! let definition = Definition::new(&batch.schema())?;
//! let table = Table::create(pool, "orders", &definition, Environment::default()).await?;
//!
//! let mut writer = table.writer(WriterOptions::default()).await?;
//! writer.write(&batch).await?;
//! writer.finish().await?;
//!
//! let snapshot = table.snapshot(At::Current).await?;
//! assert_eq!(snapshot.rows(), 3);
//! for entry in snapshot.entries().try_collect::<Vec<_>>().await? {
//!     let batches: Vec<RecordBatch> = snapshot.read(&entry, snapshot.schema()).await?.try_collect().await?;
//!     assert_eq!(batches[0].column(0).len(), 3);
//! }
//! # Ok(()) }) }
//! ```
//!
//! # Who does what in which order
//!
//! - A **writer** ([`Table::writer`]) registers in the head, writes data objects, then a list of them, and commits: snapshot
//!   added and registration removed in one step. If it fails at any point the last snapshot is as it was.
//! - A **vacuum** ([`vacuum()`]) drops snapshots and old registrations from the head, lists the table's objects, reads the head
//!   *again*, and removes what no snapshot has and no registered writer wrote. Because registration comes before creation, what
//!   it removes can never become part of a snapshot.
//! - A **drop** ([`drop_table`]) marks the head, removes the objects, then the head. In between the table is listed as being
//!   dropped, its name is taken, and a drop or vacuum goes on with it.
//! - A **reader** holds nothing. A snapshot that it reads may be vacuumed; then it hears so, with `NotFound`.
//!
//! What has an unknown outcome is found out by reading: every commit carries an id of its own.
//!
//! There is no query engine here, and no runtime: futures may be polled by anything, and encoding is done by whoever polls.

mod alter;
mod error;
mod evolve;
mod fsck;
pub mod head;
mod heads;
pub mod ids;
mod indexes;
mod list;
mod object;
mod partition;
mod pause;
mod schema;
mod snapshot;
mod statistics;
mod table;
mod types;
mod vacuum;
mod wire;
mod writer;

pub use alter::Alter;
pub use benthic_index::Definition as Index;
pub use error::suggest;
pub use evolve::adapt;
pub use fsck::Checked;
pub use head::INDEXES_MAX;
pub use indexes::Built;
pub use list::{FileEntry, list_schema};
pub use object::ObjectReader;
pub use partition::{PARTITIONS_MAX, Partitioning, Ranges, jump_hash};
pub use schema::{COLUMN_NAME_BYTES_MAX, COLUMNS_MAX, Column, FIELD_ID_KEY, TableSchema};
pub use snapshot::{At, Snapshot};
pub use table::{Definition, Table, TableEntry};
pub use types::widens;
pub use vacuum::{Dropped, VacuumOptions, Vacuumed, drop_table, vacuum};
pub use writer::{Writer, WriterOptions};

/// What Parquet objects say of who made them.
const CREATED_BY: &str = concat!("benthic ", env!("CARGO_PKG_VERSION"));
