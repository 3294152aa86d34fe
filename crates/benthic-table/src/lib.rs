//! Tables: rows in immutable Parquet objects, found through one small mutable object.
//!
//! A table consists of a *head*, immutable *file lists* and immutable *data objects*, all in one
//! pool (`docs/formats.md` draws them). The head names schemas, snapshots and their lists. A list
//! names data objects and holds statistics of their values. A data object is a Parquet file that
//! any Parquet reader can read. Pools have no transactions across objects. So a writer's rows
//! become visible, all or none, when its last step succeeds: a compare-and-swap of the head.
//!
//! ```
//! use arrow::array::{ArrayRef, Int64Array, RecordBatch};
//! use benthic_core::{Environment, Store};
//! use benthic_embedded::{MemStore, Options};
//! use benthic_table::{Definition, SnapshotSelector, Table, WriterOptions};
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
//! let snapshot = table.snapshot(SnapshotSelector::Current).await?;
//! assert_eq!(snapshot.rows(), 3);
//! for entry in snapshot.entries().try_collect::<Vec<_>>().await? {
//!     let batches: Vec<RecordBatch> = snapshot.read(&entry, snapshot.schema()).await?.try_collect().await?;
//!     assert_eq!(batches[0].column(0).len(), 3);
//! }
//! # Ok(()) }) }
//! ```
//!
//! # The order of steps
//!
//! - A **writer** ([`Table::writer`]) registers an intent in the head, writes data objects, then a
//!   list of them, and commits: one step adds the snapshot and removes the intent. If the writer
//!   fails at any point, the last snapshot is unchanged.
//! - A **vacuum** ([`vacuum()`]) drops old snapshots and old intents from the head, lists the
//!   table's objects, reads the head *again*, and removes each listed object that belongs to no
//!   snapshot and no registered writer. Because a writer registers before it creates objects, a
//!   removed object can never become part of a snapshot.
//! - A **drop** ([`drop_table`]) marks the head, removes the objects, then the head. In between,
//!   listings show the table as being dropped, its name is taken, and another drop or vacuum
//!   continues the work.
//! - A **reader** holds no lock. If a vacuum removes the snapshot that it reads, the reader fails
//!   with `NotFound`.
//!
//! A caller resolves an unknown outcome by reading: every commit carries its own id.
//!
//! This crate contains no query engine and no runtime. Any executor may poll the futures; encoding
//! runs on the polling thread.

mod access;
mod advice;
mod alter;
mod bloom;
mod compact;
mod error;
mod evolve;
mod fsck;
mod groups;
pub mod head;
mod heads;
pub mod ids;
mod indexes;
mod layout;
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
mod versions;
mod wire;
mod writer;

pub use access::{
    ACCESS_BYTES_MAX, Access, AccessShape, AccessSums, ConditionKind, SHAPE_AGE_MS_MAX, SHAPE_COLUMNS_MAX,
    SHAPES_MAX,
};
pub use advice::{Advice, Suggested, Suggestion, advise};
pub use alter::Alter;
pub use benthic_index::{Definition as Index, Distribution, IndexKind, Rows};
pub use compact::{Rewritten, RowStream};
pub use error::suggest;
pub use evolve::adapt;
pub use fsck::FsckResult;
pub use groups::{ColumnGroup, GROUPS_MAX, ObjectPart, join_footers};
pub use head::{INDEXES_MAX, Operation, TAGS_MAX};
pub use indexes::IndexBuildResult;
pub use layout::{Codec, Layout, LayoutChange};
pub use list::{FileEntry, list_schema};
pub use object::ObjectReader;
pub use partition::{PARTITIONS_MAX, Partitioning, Ranges, jump_hash};
pub use schema::{COLUMN_NAME_BYTES_MAX, COLUMNS_MAX, Column, FIELD_ID_KEY, TableSchema};
pub use snapshot::{Snapshot, SnapshotSelector};
pub use table::{Definition, Table, TableEntry};
pub use types::widens;
pub use vacuum::{DropResult, VacuumOptions, VacuumResult, drop_table, vacuum};
pub use versions::TAG_BYTES_MAX;
pub use writer::{Writer, WriterOptions};

/// The `created_by` field of the Parquet objects.
const CREATED_BY: &str = concat!("benthic ", env!("CARGO_PKG_VERSION"));
