//! The rows of a table with their places, for statements that change them.
//!
//! Fragments do not know the place of a row, so the client reads these rows: the columns that the
//! statement needs, of the objects that the file lists do not exclude.

use super::statement::{OBJECT, ROW};
use crate::columns::{schema_in_queries, type_in_queries};
use crate::errors::external;
use crate::partition::partition_of_objects;
use crate::table::TableRows;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use benthic_table::{FileEntry, Snapshot};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::datasource::TableType;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::streaming::StreamingTableExec;
use futures::stream::{Stream, StreamExt, TryStreamExt};
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;

/// The rows of a snapshot with the columns [`OBJECT`] and [`ROW`].
pub struct TargetRows {
    rows: TableRows,
    schema: SchemaRef,
    objects: Arc<Mutex<Vec<FileEntry>>>,
}

impl TargetRows {
    /// `rows` are the rows of the table without places. The scan adds the objects that it reads to
    /// `objects`; the column [`OBJECT`] contains places in this list.
    pub fn new(rows: TableRows, objects: Arc<Mutex<Vec<FileEntry>>>) -> TargetRows {
        let columns = schema_in_queries(rows.snapshot().schema().arrow());
        let places = [OBJECT, ROW].map(|name| Arc::new(Field::new(name, DataType::UInt32, false)));
        let fields: Vec<_> = columns.fields().iter().cloned().chain(places).collect();
        TargetRows { rows, schema: Arc::new(Schema::new(fields)), objects }
    }
}

impl fmt::Debug for TargetRows {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?} with places", self.rows)
    }
}

#[async_trait]
impl TableProvider for TargetRows {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        self.rows.supports_filters_pushdown(filters)
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let is_place = |name: &str| name == OBJECT || name == ROW;
        let of_columns = |filter: &&Expr| !filter.column_refs().iter().any(|column| is_place(&column.name));
        let filters: Vec<Expr> = filters.iter().filter(of_columns).cloned().collect();
        let kept = self.rows.prune(session, &[], &filters).await?;
        let schema = match projection {
            Some(columns) => Arc::new(self.schema.project(columns)?),
            None => Arc::clone(&self.schema),
        };
        self.rows.work().add_objects(kept.entries.len() as u64);
        let first = self.objects.lock().len();
        let places: Vec<(u32, FileEntry)> = (first as u32..).zip(kept.entries.iter().cloned()).collect();
        self.objects.lock().extend(kept.entries);
        let groups = session.config().target_partitions().clamp(1, places.len().max(1));
        let group = |group: usize| {
            let objects = places.iter().skip(group).step_by(groups).cloned().collect();
            let (snapshot, of) = (self.rows.snapshot().clone(), Arc::clone(&schema));
            let read = move |object| read(snapshot.clone(), object, Arc::clone(&of));
            partition_of_objects(&schema, objects, self.rows.work(), read)
        };
        let groups = (0..groups).map(group).collect();
        Ok(Arc::new(StreamingTableExec::try_new(Arc::clone(&schema), groups, None, None, false, None)?))
    }
}

/// The rows of an object with these columns, among them their places.
async fn read(
    snapshot: Snapshot,
    (place, entry): (u32, FileEntry),
    schema: SchemaRef,
) -> Result<impl Stream<Item = Result<RecordBatch>> + Send> {
    let names = schema.fields().iter().map(|field| field.name().as_str());
    let names: Vec<&str> = names.filter(|name| *name != OBJECT && *name != ROW).collect();
    let wanted = snapshot.schema().project(&names).map_err(external)?;
    let rows = snapshot.read(&entry, &wanted).await.map_err(external)?;
    let live = entry.undeleted_rows().map_err(external)?;
    let mut numbers = live.ranges().to_vec().into_iter().flatten();
    Ok(rows.map_err(external).map(move |batch| {
        let batch = batch?;
        let rows: UInt32Array = numbers.by_ref().take(batch.num_rows()).collect();
        with_places(&batch, place, rows, &schema)
    }))
}

fn with_places(
    batch: &RecordBatch,
    object: u32,
    rows: UInt32Array,
    schema: &SchemaRef,
) -> Result<RecordBatch> {
    let rows: ArrayRef = Arc::new(rows);
    let column = |field: &Arc<Field>| -> Result<ArrayRef> {
        Ok(match field.name().as_str() {
            OBJECT => Arc::new(UInt32Array::from_value(object, batch.num_rows())),
            ROW => Arc::clone(&rows),
            name => {
                let place = batch.schema_ref().index_of(name)?;
                cast(batch.column(place), &type_in_queries(field.data_type()))?
            }
        })
    };
    let columns = schema.fields().iter().map(column).collect::<Result<Vec<_>>>()?;
    let count = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &count)?)
}
