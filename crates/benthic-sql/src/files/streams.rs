//! Files that are read from their beginning, as a table: CSV, TSV, JSON lines and Arrow.

use super::local_file::LocalFile;
use crate::columns::{check_names, schema_in_queries, union_by_name};
use crate::errors::{external, from_datafusion};
use crate::input::{Format, Input, Options, Source, feed, text_if_unknown};
use crate::partition::partition;
use arrow::array::{RecordBatch, RecordBatchOptions, new_null_array};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use benthic_core::{Error, Result};
use benthic_table::TableSchema;
use datafusion::catalog::streaming::StreamingTable;
use futures::future::ready;
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use std::path::PathBuf;
use std::sync::Arc;

/// A table of these files. The columns are those of all files; in text formats, the first rows of
/// each file determine their types. Blocks.
pub(super) fn table(format: Format, mut files: Vec<LocalFile>, partitions: usize) -> Result<StreamingTable> {
    if format == Format::Json && files.iter().any(|file| file.size_bytes() > 0) {
        // JSON lines without a line have no columns.
        files.retain(|file| file.size_bytes() > 0);
    }
    let mut columns: Option<Schema> = None;
    for file in &files {
        let more = Source::open(file.path(), &Options::default())?.schema()?;
        let more = schema_in_queries(&more);
        let merged = check_names(&more).and_then(|()| match &columns {
            Some(known) => union_by_name(known, &more),
            None => Ok(more),
        });
        columns = Some(merged.map_err(|error| error.with("path", file.path().display()))?);
    }
    let columns = columns.unwrap_or_else(Schema::empty);
    let schema = Arc::new(match format {
        Format::Arrow => columns,
        // No file has a value of such a column.
        _ => schema_in_queries(&text_if_unknown(&columns)),
    });
    let known = match format {
        // An Arrow file has types of its own, also those that tables do not have.
        Format::Arrow => Schema::new(vec![Field::new("unused", DataType::Boolean, true)]),
        // Tables refuse the empty name that some programs give to a column of row numbers.
        _ => Schema::new(
            schema.fields().iter().filter(|field| !field.name().is_empty()).cloned().collect::<Vec<_>>(),
        ),
    };
    let known = TableSchema::from_arrow(&known)?;
    let parts = partitions.clamp(1, files.len());
    let part = |part: usize| {
        let files = files.iter().skip(part).step_by(parts).map(|file| file.path().to_owned());
        let (files, known, of) = (files.collect::<Vec<_>>(), known.clone(), Arc::clone(&schema));
        partition(&schema, move || rows(&files, &known, &of))
    };
    let parts = (0..parts).map(part).collect();
    StreamingTable::try_new(Arc::clone(&schema), parts).map_err(|error| from_datafusion(&error))
}

/// The rows of files that are read one after the other. `known` has the types of text values.
fn rows(
    files: &[PathBuf],
    known: &TableSchema,
    schema: &SchemaRef,
) -> BoxStream<'static, datafusion::common::Result<RecordBatch>> {
    let inputs = files.iter().cloned().map(Input::Path).collect();
    let feed = match feed(inputs, Options::default(), known.clone()) {
        Err(error) => return stream::once(ready(Err(external(error)))).boxed(),
        Ok(feed) => feed,
    };
    let rows = stream::try_unfold((feed, Arc::clone(schema)), |(mut feed, schema)| async move {
        let Some((path, batch)) = feed.next().await? else { return Ok(None) };
        let rows = conform(&batch.rows, &schema).map_err(|error| {
            let message = "the rows do not fit the columns of the other files";
            let error = Error::invalid_argument(message).with_source(error);
            error.with("path", path.display())
        })?;
        Ok::<_, Error>(Some((rows, (feed, schema))))
    });
    rows.map_err(external).boxed()
}

/// Converts rows to a schema that has all their columns.
fn conform(rows: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    let columns = schema.fields().iter().map(|field| match rows.column_by_name(field.name()) {
        Some(column) => cast_with_options(column, field.data_type(), &strict),
        None => Ok(new_null_array(field.data_type(), rows.num_rows())),
    });
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns.collect::<Result<_, _>>()?, &options)
}
