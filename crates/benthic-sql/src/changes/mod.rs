//! Statements that change tables: INSERT, UPDATE, DELETE, MERGE, and CREATE TABLE … AS.
//!
//! A statement becomes a query that finds the rows to change, with their places (`statement.rs`,
//! `target.rs`). A writer then deletes these rows and adds the new ones, in one commit. A statement
//! sees one snapshot of each table. If another commit changed the same rows meanwhile, the
//! statement runs again on the new snapshot, so that its effect is as if it had run later.

mod assign;
mod run;
mod statement;
mod target;

pub use run::Target;
pub use statement::{Change, TARGET, TableName};
pub use target::TargetRows;

use crate::errors::from_datafusion;
use crate::work::Work;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{Field, Int64Type, Schema, SchemaRef, UInt32Type};
use assign::assign;
use benthic_core::{Error, Result};
use benthic_table::{FileEntry, Operation, Rows, Snapshot, Writer};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::memory::MemoryStream;
use futures::stream::StreamExt;
use parking_lot::Mutex;
use statement::{DELETE, INSERT, UPDATE, no_such_column};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use tokio::runtime::Handle;

/// Attempts at a statement. Each failed attempt means that another change succeeded.
pub const ATTEMPTS_MAX: usize = 10;
/// Limit of the ranges of changed rows that one statement may hold in memory: 128 MiB.
const RANGES_MAX: usize = 16 * 1024 * 1024;

/// The result of a statement that changes rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    pub inserted: u64,
    pub updated: u64,
    pub deleted: u64,
    /// The snapshot that the statement made, or the current one if it changed nothing.
    pub snapshot: u64,
}

impl Changed {
    /// One row with the numbers of rows.
    ///
    /// # Errors
    /// `Internal`.
    pub fn into_rows(self) -> Result<SendableRecordBatchStream> {
        let number = |name: &str, number: u64| {
            let values: ArrayRef =
                Arc::new(Int64Array::from(vec![i64::try_from(number).unwrap_or(i64::MAX)]));
            (Field::new(name, values.data_type().clone(), false), values)
        };
        let columns = [
            number("inserted", self.inserted),
            number("updated", self.updated),
            number("deleted", self.deleted),
            number("snapshot", self.snapshot),
        ];
        let (fields, columns): (Vec<Field>, Vec<ArrayRef>) = columns.into_iter().unzip();
        let schema: SchemaRef = Arc::new(Schema::new(fields));
        let internal = |error| Error::internal("a result cannot be made").with_source(error);
        let rows = RecordBatch::try_new(Arc::clone(&schema), columns).map_err(internal)?;
        let rows =
            MemoryStream::try_new(vec![rows], schema, None).map_err(|error| from_datafusion(&error))?;
        Ok(Box::pin(rows))
    }
}

/// Adds the rows of a query to a table. Without columns, the query has all columns of the table.
///
/// # Errors
/// `InvalidArgument` for values that do not fit; `Unavailable` if the statement is stopped; as
/// [`Writer::write`] and [`Writer::finish`].
pub async fn insert(
    writer: Writer,
    columns: &[String],
    rows: SendableRecordBatchStream,
    work: &Work,
) -> Result<Changed> {
    let mut undo = Undo(Some(writer));
    let filled = fill(undo.writer()?, columns, rows, work).await;
    undo.commit(filled).await
}

async fn fill(
    writer: &mut Writer,
    columns: &[String],
    mut rows: SendableRecordBatchStream,
    work: &Work,
) -> Result<Changed> {
    let schema = writer.schema().clone();
    let all: Vec<&str> = schema.columns().iter().map(|column| column.name.as_str()).collect();
    let columns: Vec<&str> = match columns {
        [] => all.clone(),
        columns => columns.iter().map(String::as_str).collect(),
    };
    if let Some(unknown) = columns.iter().find(|name| !all.contains(name)) {
        return Err(no_such_column(unknown, &all));
    }
    let mut changed = Changed::default();
    while let Some(batch) = next(&mut rows, work).await? {
        writer.write(&assign(&batch, &columns, &schema)?).await?;
        changed.inserted += batch.num_rows() as u64;
    }
    Ok(changed)
}

/// The writer of a statement. If the statement ends before it is committed, also because its future
/// is dropped, the writer's objects are removed.
struct Undo(Option<Writer>);

impl Undo {
    fn writer(&mut self) -> Result<&mut Writer> {
        self.0.as_mut().ok_or_else(|| Error::internal("a statement has ended already"))
    }

    /// Finishes the writer, or removes its objects.
    async fn commit(mut self, filled: Result<Changed>) -> Result<Changed> {
        let outcome = match filled {
            Ok(changed) => match self.writer()?.finish().await {
                Ok(snapshot) => Ok(Changed { snapshot: snapshot.id(), ..changed }),
                Err(error) => Err(error),
            },
            Err(error) => {
                abort(self.writer()?).await;
                Err(error)
            }
        };
        self.0 = None;
        outcome
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        if let (Some(mut writer), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            runtime.spawn(async move { abort(&mut writer).await });
        }
    }
}

async fn abort(writer: &mut Writer) {
    if let Err(left) = writer.abort().await {
        tracing::warn!(%left, "unused objects remain; `benthic table vacuum` removes them");
    }
}

async fn next(rows: &mut SendableRecordBatchStream, work: &Work) -> Result<Option<RecordBatch>> {
    // Encoding never waits. Yield so that other tasks can run.
    tokio::task::yield_now().await;
    let batch = tokio::select! {
        batch = rows.next() => batch,
        () = work.wait_for_stop() => {
            return Err(Error::unavailable("the statement was interrupted; nothing has changed"));
        }
    };
    batch.transpose().map_err(|error| from_datafusion(&error))
}

/// Deletes all rows of a snapshot, without reading them.
///
/// # Errors
/// As [`Snapshot::change`], [`Writer::finish`].
pub async fn delete_everything(snapshot: &Snapshot) -> Result<Changed> {
    let mut undo = Undo(Some(snapshot.change(Operation::Delete, Default::default()).await?));
    let writer = undo.writer()?;
    let filled = async {
        let mut changed = Changed::default();
        let mut entries = snapshot.entries();
        while let Some(entry) = entries.next().await.transpose()? {
            changed.deleted += entry.live_rows();
            writer.delete(&entry, &entry.stored_rows()?)?;
        }
        Ok(changed)
    };
    let filled = filled.await;
    undo.commit(filled).await
}

/// Changes the rows that a query found. `objects` are those that the query's places refer to.
///
/// # Errors
/// `InvalidArgument` if a row is found twice, except by DELETE, and for values that do not fit;
/// `Conflict` if another change affects the same rows; `LimitExceeded` for too many rows.
pub async fn change_rows(
    snapshot: &Snapshot,
    operation: Operation,
    rows: SendableRecordBatchStream,
    objects: &Mutex<Vec<FileEntry>>,
    work: &Work,
) -> Result<Changed> {
    let mut undo = Undo(Some(snapshot.change(operation, Default::default()).await?));
    let filled = apply(undo.writer()?, operation, rows, objects, work).await;
    undo.commit(filled).await
}

async fn apply(
    writer: &mut Writer,
    operation: Operation,
    mut rows: SendableRecordBatchStream,
    objects: &Mutex<Vec<FileEntry>>,
    work: &Work,
) -> Result<Changed> {
    let schema = writer.schema().clone();
    let columns: Vec<&str> = schema.columns().iter().map(|column| column.name.as_str()).collect();
    let mut changed = Changed::default();
    let mut found = FoundRows::default();
    while let Some(batch) = next(&mut rows, work).await? {
        let unexpected = || Error::internal("the query of a change has other columns");
        let [object, row, action] = batch.columns().get(..3).ok_or_else(unexpected)? else {
            return Err(unexpected());
        };
        let object = object.as_primitive_opt::<UInt32Type>().ok_or_else(unexpected)?;
        let row = row.as_primitive_opt::<UInt32Type>().ok_or_else(unexpected)?;
        let action = action.as_primitive_opt::<Int64Type>().ok_or_else(unexpected)?;
        for place in 0..batch.num_rows() {
            match action.value(place) {
                DELETE => changed.deleted += 1,
                UPDATE => changed.updated += 1,
                INSERT => changed.inserted += 1,
                _ => return Err(unexpected()),
            }
            if action.value(place) != INSERT {
                found.add(object.value(place), row.value(place))?;
            }
        }
        if operation != Operation::Delete {
            let is_written: BooleanArray = action.iter().map(|action| Some(action != Some(DELETE))).collect();
            let values: Vec<usize> = (3..batch.num_columns()).collect();
            let written = batch.project(&values).and_then(|batch| filter_record_batch(&batch, &is_written));
            let written = written.map_err(|error| Error::internal(error.to_string()))?;
            if written.num_rows() > 0 {
                writer.write(&assign(&written, &columns, &schema)?).await?;
            }
        }
    }
    let objects = objects.lock().clone();
    for (place, ranges) in found.objects {
        let entry = objects.get(place as usize);
        let entry = entry.ok_or_else(|| Error::internal("a changed row has no object"))?;
        let listed: u64 = ranges.iter().map(|range| u64::from(range.end - range.start)).sum();
        let rows = Rows::new(ranges, entry.stored_rows()?.of());
        if listed > rows.count() {
            if operation != Operation::Delete {
                let message = format!(
                    "{} matches a row of the table twice; each row may match once",
                    operation.name().to_uppercase()
                );
                return Err(Error::invalid_argument(message));
            }
            changed.deleted -= listed - rows.count();
        }
        writer.delete(entry, &rows)?;
    }
    Ok(changed)
}

/// The rows to change, by the place of their object.
#[derive(Default)]
struct FoundRows {
    objects: BTreeMap<u32, Vec<Range<u32>>>,
    ranges: usize,
}

impl FoundRows {
    fn add(&mut self, object: u32, row: u32) -> Result<()> {
        let ranges = self.objects.entry(object).or_default();
        match ranges.last_mut() {
            Some(last) if last.end == row => last.end += 1,
            _ => {
                ranges.push(row..row + 1);
                self.ranges += 1;
            }
        }
        if self.ranges > RANGES_MAX {
            let message = "the statement changes too many rows at once; change the table in several steps";
            return Err(Error::limit_exceeded(message).with("ranges_max", RANGES_MAX));
        }
        Ok(())
    }
}
