//! Orders the rows of a table so that rows with near values of some columns get into the same
//! objects. Then the bounds of these columns exclude most objects from a query with a condition on
//! any of them.
//!
//! For one column, the order is a sort. For several, the rows are sorted by the first column and
//! cut into slices of equally many rows. Each slice is sorted by the next column and cut in the
//! same way, and so on ("STR: a simple and efficient algorithm for R-tree packing", Leutenegger et
//! al., 1997).
//!
//! Z-order is the alternative: it interleaves the bits of one number for each column, so that the
//! row groups and pages of an object have a range of each column, too. The values of a column are
//! divided into 1,024 ranges with equally many rows, as in the Z-order of Delta Lake, and the
//! number of a value is that of its range. Ranks give the ranges of all types that can be sorted.
//! Rejected: the bits of the values, because cells of equal size get very different numbers of rows
//! where values are not spread evenly.

use crate::errors::{external, from_datafusion};
use crate::partition::partition;
use crate::relations::quoted;
use crate::session::{Settings, context};
use benthic_core::{Error, ErrorKind, Result};
use benthic_table::{FileEntry, RowStream, Snapshot, TableSchema};
use datafusion::catalog::streaming::StreamingTable;
use datafusion::common::DataFusionError;
use datafusion::execution::memory_pool::{FairSpillPool, MemoryPool};
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt, TryStreamExt};
use parking_lot::Mutex;
use std::sync::Arc;

/// Limit of the columns. With more, each column would have only a few slices.
pub const CLUSTER_COLUMNS_MAX: usize = 4;
/// Bits of the number of a value's range in Z-order. Four columns of them fit into an `int64`.
const RANGE_BITS: usize = 10;
/// The sorts of several columns run at the same time, and each reserves 10 MiB.
const MEMORY_BYTES_MIN: usize = 128 * 1024 * 1024;
/// The name of the rows in the query.
const ROWS: &str = "given_rows";

/// The columns by which a rewrite clusters the rows of a table.
#[derive(Clone, Debug)]
pub struct Cluster {
    columns: Vec<String>,
    is_z_order: bool,
    memory_bytes: usize,
}

impl Cluster {
    /// Sorts use about this much memory, at least 128 MiB, and temporary files.
    ///
    /// # Errors
    /// `InvalidArgument` for a missing column, with a hint, a column of lists, structs or maps, a
    /// column that is given twice, and for more than [`CLUSTER_COLUMNS_MAX`] columns.
    pub fn new(columns: Vec<String>, memory_bytes: usize, schema: &TableSchema) -> Result<Cluster> {
        if columns.len() > CLUSTER_COLUMNS_MAX {
            let message =
                "a table can be clustered by four columns at most; choose those with the most conditions";
            return Err(Error::invalid_argument(message).with("columns", columns.len()));
        }
        for (place, name) in columns.iter().enumerate() {
            let invalid = |message: &str| Err(Error::invalid_argument(message).with("column", name));
            if schema.by_name(name)?.data_type.is_nested() {
                return invalid("a table cannot be clustered by lists, structs and maps");
            }
            if columns[..place].contains(name) {
                return invalid("a table cannot be clustered by a column twice");
            }
        }
        Ok(Cluster { columns, is_z_order: false, memory_bytes: memory_bytes.max(MEMORY_BYTES_MIN) })
    }

    /// As [`Cluster::new`], with the rows in Z-order.
    ///
    /// # Errors
    /// As `new`; `InvalidArgument` for fewer than two columns.
    pub fn z_order(columns: Vec<String>, memory_bytes: usize, schema: &TableSchema) -> Result<Cluster> {
        if columns.len() < 2 {
            let message = "Z-order needs two to four columns; `--cluster-by` clusters by one";
            return Err(Error::invalid_argument(message).with("columns", columns.len()));
        }
        Ok(Cluster { is_z_order: true, ..Cluster::new(columns, memory_bytes, schema)? })
    }

    /// The rows of these objects of the snapshot, in the new order. For
    /// [`Table::rewrite_in_order`](benthic_table::Table::rewrite_in_order).
    ///
    /// # Errors
    /// `InvalidArgument` if the snapshot lacks a column; in the stream: `LimitExceeded` if the
    /// memory is too small.
    pub fn order<'a>(
        &'a self,
        snapshot: &'a Snapshot,
        objects: &'a [FileEntry],
        rows: RowStream,
    ) -> BoxFuture<'a, Result<RowStream>> {
        Box::pin(self.start(snapshot, objects, rows))
    }

    async fn start(&self, snapshot: &Snapshot, objects: &[FileEntry], rows: RowStream) -> Result<RowStream> {
        let schema = snapshot.schema();
        for name in &self.columns {
            schema.by_name(name)?;
        }
        let sum = |of: fn(&FileEntry) -> u64| objects.iter().map(of).fold(0, u64::saturating_add);
        let rows_count = sum(FileEntry::live_rows);
        let (from, order) = match self.is_z_order {
            true => z_ordered(&self.columns, rows_count),
            false => {
                let wanted = sum(FileEntry::largest_bytes).div_ceil(snapshot.layout().object_bytes.max(1));
                sliced(&self.columns, rows_count, wanted)
            }
        };
        let all: Vec<String> = schema.columns().iter().map(|column| quoted(&column.name)).collect();
        let query = format!("SELECT {} FROM {from} ORDER BY {order}", all.join(", "));
        let memory = Some(Arc::new(FairSpillPool::new(self.memory_bytes)) as Arc<dyn MemoryPool>);
        // Several partitions would only share the memory.
        let settings = Settings { partitions: 1, memory, ..Settings::default() };
        let context = context(&settings, &Arc::default())?;
        // The rows can be read once.
        let rows = Mutex::new(Some(rows));
        let start = move || stream::iter(rows.lock().take()).flatten().map_err(external);
        let given = partition(schema.arrow(), start);
        let ordered = async {
            let given = StreamingTable::try_new(Arc::clone(schema.arrow()), vec![given])?;
            context.register_table(ROWS, Arc::new(given))?;
            context.sql(&query).await?.execute_stream().await
        };
        let memory_bytes = self.memory_bytes;
        let explained = move |error: DataFusionError| match from_datafusion(&error) {
            error if error.kind() == ErrorKind::LimitExceeded => {
                let message = "the rows need more memory to be sorted; raise the memory limit";
                let explained = Error::limit_exceeded(message);
                explained.with("memory_bytes", memory_bytes).with_source(error)
            }
            error => error,
        };
        Ok(ordered.await.map_err(explained)?.map_err(explained).boxed())
    }
}

/// A query with the rows, and the order in which they fill this number of objects slice by slice.
fn sliced(columns: &[String], rows: u64, objects: u64) -> (String, String) {
    let slices = (objects as f64).powf(1.0 / columns.len().max(1) as f64).ceil().max(1.0) as u64;
    let (mut from, mut order, mut slice_rows) = (ROWS.to_owned(), Vec::new(), rows);
    for (place, column) in columns.iter().enumerate() {
        let sorted = format!("{} NULLS FIRST", quoted(column));
        if place + 1 == columns.len() {
            order.push(sorted);
            break;
        }
        slice_rows = slice_rows.div_ceil(slices).max(1);
        let slice = quoted(&format!("benthic:slice{place}"));
        let within = match order.is_empty() {
            true => String::new(),
            false => format!("PARTITION BY {} ", order.join(", ")),
        };
        from = format!(
            "(SELECT *, (CAST(row_number() OVER ({within}ORDER BY {sorted}) AS BIGINT) - 1) / {slice_rows} AS {slice} \
             FROM {from})"
        );
        order.push(slice);
    }
    (from, order.join(", "))
}

/// A query with the rows, and their Z-order. Equal values are in one range, and nulls in the first.
fn z_ordered(columns: &[String], rows: u64) -> (String, String) {
    let (mut from, mut order) = (ROWS.to_owned(), Vec::new());
    for (place, column) in columns.iter().enumerate() {
        let [range, bits] = ["range", "bits"].map(|name| quoted(&format!("benthic:{name}{place}")));
        // Of the bits of equal weight, the first column has the highest.
        let to = |bit: usize| 1_u64 << (bit * columns.len() + columns.len() - 1 - place);
        let spread = |bit: usize| format!("{range} / {} % 2 * {}", 1_u64 << bit, to(bit));
        let spread: Vec<String> = (0..RANGE_BITS).map(spread).collect();
        // A query of its own for the range, so that it is computed once.
        from = format!(
            "(SELECT *, {} AS {bits} FROM (SELECT *, \
             (CAST(rank() OVER (ORDER BY {} NULLS FIRST) AS BIGINT) - 1) * {} / {} AS {range} FROM {from}))",
            spread.join(" + "),
            quoted(column),
            1_u64 << RANGE_BITS,
            rows.max(1),
        );
        order.push(bits);
    }
    (from, order.join(" + "))
}
