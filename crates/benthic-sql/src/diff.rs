//! The rows that differ between two snapshots of a table.
//!
//! Snapshots share data objects, which never change. So only two kinds of rows can differ: rows of
//! an object that one of the snapshots lacks, and rows that only one of them has deleted. The query
//! reads these rows in the client. It counts equal rows on both sides, because a compaction writes
//! rows again without changing them. `EXCEPT` over both snapshots would read the whole table, and
//! would lose how often a row occurs.

use crate::errors::{external, from_datafusion};
use crate::partition::partition_of_objects;
use crate::prepared;
use crate::session::{SqlSession, StartingQuery, context};
use crate::work::Work;
use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use benthic_core::Result;
use benthic_table::ids::TableObject;
use benthic_table::{FileEntry, Rows, Snapshot, TableSchema};
use datafusion::catalog::streaming::StreamingTable;
use datafusion::common::{Column, DataFusionError};
use datafusion::functions_aggregate::expr_fn::sum;
use datafusion::logical_expr::{Expr, lit};
use datafusion::prelude::{DataFrame, SessionContext};
use futures::stream::{Stream, StreamExt, TryStreamExt};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The column that counts rows, while rows are read.
const COUNT: &str = "benthic:count";

impl SqlSession {
    /// Starts to compare two snapshots of one table. The first column of the rows, `change`, says
    /// how many more such rows `to` has: it is 1 for a new row, and -1 for a row that only `from`
    /// has. If the table has a column `change`, the name gets underscores in front. The other
    /// columns are those of the newer schema. Rows are sorted by the columns that are not nested.
    /// Counts progress in `work`.
    ///
    /// # Errors
    /// `NotFound` if a snapshot was vacuumed; `LimitExceeded` if the rows need more memory than the
    /// settings allow.
    pub fn diff<'a>(&'a self, from: Snapshot, to: Snapshot, work: &'a Arc<Work>) -> StartingQuery<'a> {
        Box::pin(async move {
            let parts = changed_parts(&from, &to).await?;
            work.add_objects(parts.len() as u64);
            let newer = if to.schema().id < from.schema().id { &from } else { &to };
            let columns = newer.schema().clone();
            let table = table(&parts, &columns, self.settings.partitions, work);
            let context = context(&self.settings, work)?;
            let rows = async { prepared::start(compared(&context, table?, &columns)?).await };
            rows.await.map_err(|error: DataFusionError| from_datafusion(&error))
        })
    }
}

/// Rows of one snapshot that the other one may lack.
#[derive(Clone)]
struct Part {
    snapshot: Snapshot,
    entry: FileEntry,
    /// 1 for rows that are new, -1 for rows that are gone.
    count: i64,
}

async fn changed_parts(from: &Snapshot, to: &Snapshot) -> Result<Vec<Part>> {
    let part = |snapshot: &Snapshot, entry, count| Part { snapshot: snapshot.clone(), entry, count };
    let before = from.entries().map_ok(|entry| (entry.object, entry));
    let mut before: BTreeMap<TableObject, FileEntry> = before.try_collect().await?;
    let mut parts = Vec::new();
    let mut after = to.entries();
    while let Some(entry) = after.try_next().await? {
        match before.remove(&entry.object) {
            None => parts.push(part(to, entry, 1)),
            Some(old) if old.deleted != entry.deleted => {
                let (was, is) = (old.undeleted_rows()?, entry.undeleted_rows()?);
                if let Some(removed) = only(old, &was.without(&is))? {
                    parts.push(part(from, removed, -1));
                }
                if let Some(added) = only(entry, &is.without(&was))? {
                    parts.push(part(to, added, 1));
                }
            }
            Some(_) => {}
        }
    }
    parts.extend(before.into_values().map(|entry| part(from, entry, -1)));
    Ok(parts)
}

/// An object with only these rows; `None` if there are none.
fn only(entry: FileEntry, rows: &Rows) -> Result<Option<FileEntry>> {
    let others = entry.stored_rows()?.without(rows);
    Ok((!rows.is_empty()).then(|| FileEntry { deleted: Some(Arc::new(others)), ..entry }))
}

/// The rows of the parts, with the columns and [`COUNT`].
fn table(
    parts: &[Part],
    columns: &TableSchema,
    partitions: usize,
    work: &Arc<Work>,
) -> datafusion::common::Result<StreamingTable> {
    let fields = columns.columns().iter();
    let fields = fields.map(|column| Field::new(&column.name, column.data_type.clone(), true));
    let count = Field::new(COUNT, DataType::Int64, true);
    let schema = Arc::new(Schema::new(fields.chain([count]).collect::<Vec<_>>()));
    let groups = partitions.clamp(1, parts.len().max(1));
    let group = |group: usize| {
        let parts = parts.iter().skip(group).step_by(groups).cloned().collect();
        let (columns, of) = (columns.clone(), Arc::clone(&schema));
        partition_of_objects(&schema, parts, work, move |part| read(part, columns.clone(), Arc::clone(&of)))
    };
    StreamingTable::try_new(Arc::clone(&schema), (0..groups).map(group).collect())
}

/// The rows of which one snapshot has more than the other one.
fn compared(
    context: &SessionContext,
    table: StreamingTable,
    schema: &TableSchema,
) -> datafusion::common::Result<DataFrame> {
    let mut change = "change".to_owned();
    while schema.has_name(&change) {
        change.insert(0, '_');
    }
    let column = |name: &str| Expr::from(Column::from_name(name));
    let columns: Vec<Expr> = schema.columns().iter().map(|of| column(&of.name)).collect();
    // Nested values have no order.
    let sorted = schema.columns().iter().filter(|of| !of.data_type.is_nested());
    let order = sorted.map(|of| column(&of.name)).chain([column(&change)]);
    context
        .read_table(Arc::new(table))?
        .aggregate(columns.clone(), vec![sum(column(COUNT)).alias(&change)])?
        .filter(column(&change).not_eq(lit(0_i64)))?
        .select([column(&change)].into_iter().chain(columns))?
        .sort(order.map(|expr| expr.sort(true, true)).collect())
}

/// The rows of a part, with these columns and [`COUNT`].
async fn read(
    Part { snapshot, entry, count }: Part,
    columns: TableSchema,
    schema: SchemaRef,
) -> datafusion::common::Result<impl Stream<Item = datafusion::common::Result<RecordBatch>> + Send> {
    let rows = snapshot.read(&entry, &columns).await.map_err(external)?;
    Ok(rows.map_err(external).map(move |batch| counted(&batch?, count, &schema)))
}

fn counted(batch: &RecordBatch, count: i64, schema: &SchemaRef) -> datafusion::common::Result<RecordBatch> {
    let count: ArrayRef = Arc::new(Int64Array::from_value(count, batch.num_rows()));
    let columns = batch.columns().iter().cloned().chain([count]).collect();
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}
