//! Prints the rows of a query.

use arrow::array::{AsArray, RecordBatch};
use arrow::csv;
use arrow::datatypes::SchemaRef;
use arrow::ipc::writer::StreamWriter;
use arrow::json::WriterBuilder;
use arrow::json::writer::LineDelimited;
use arrow::util::pretty::pretty_format_batches_with_schema;
use benthic_core::Error;
use benthic_program::exit::Outcome;
use benthic_program::output::Output;
use benthic_program::progress::Progress;
use benthic_program::units;
use benthic_sql::errors::from_datafusion;
use benthic_sql::work::Work;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::logical_expr::LogicalPlan;
use futures::TryStreamExt;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// How rows are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// A table for people; it needs memory for all rows
    Table,
    /// Comma-separated values with a header line
    Csv,
    /// One JSON object per line
    Json,
    /// A stream of Arrow IPC
    Arrow,
    /// A Parquet file
    Parquet,
}

/// Prints all rows and returns their number. `named` adds context to an error.
pub async fn print(
    out: &Output,
    rows: SendableRecordBatchStream,
    work: &Work,
    format: Format,
    named: impl Fn(Error) -> Error,
) -> Outcome<usize> {
    let failed = |error: DataFusionError| named(from_datafusion(&error));
    let schema = rows.schema();
    let mut rows = RowsWithProgress { rows, work, bar: None };
    if format == Format::Table {
        let mut batches = Vec::new();
        while let Some(batch) = rows.next().await.map_err(failed)? {
            batches.push(batch);
        }
        drop(rows);
        let text = if *schema == *LogicalPlan::explain_schema() {
            plans(&batches)
        } else {
            let table = pretty_format_batches_with_schema(schema, &batches);
            format!("{}\n", table.map_err(|error| failed(error.into()))?)
        };
        out.write_bytes(text.as_bytes())?;
        return Ok(batches.iter().map(RecordBatch::num_rows).sum());
    }
    let mut encoder = Encoder::new(format, schema).map_err(failed)?;
    let mut count = 0;
    while let Some(batch) = rows.next().await.map_err(failed)? {
        count += batch.num_rows();
        let text = encoder.encode(&batch).map_err(failed)?;
        rows.suspend(|| out.write_bytes(&text).and_then(|()| out.flush()))?;
    }
    drop(rows);
    out.write_bytes(&encoder.finish().map_err(failed)?)?;
    Ok(count)
}

/// Formats the answer of `EXPLAIN` without a table around it, because its lines are long.
fn plans(batches: &[RecordBatch]) -> String {
    let plans = batches.iter().filter_map(|batch| {
        let (kinds, plans) =
            (batch.column(0).as_string_opt::<i32>()?, batch.column(1).as_string_opt::<i32>()?);
        Some(kinds.iter().flatten().zip(plans.iter().flatten()))
    });
    plans
        .flatten()
        .map(|(kind, plan)| format!("{kind}\n{}\n", plan.trim_end()))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Delay before the progress is shown, and interval of its updates.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);

/// Rows of a query, with a progress bar while the program waits for them.
struct RowsWithProgress<'a> {
    rows: SendableRecordBatchStream,
    work: &'a Work,
    bar: Option<Progress>,
}

impl RowsWithProgress<'_> {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Ok(batch) = timeout(PROGRESS_INTERVAL, self.rows.try_next()).await {
                return batch;
            }
            let (done, objects) = (self.work.done_objects(), self.work.objects());
            if objects > 0 {
                let bar = self.bar.get_or_insert_with(|| Progress::steps("reading objects", objects));
                bar.set_position(done, objects);
                bar.set_message(&units::size(self.work.moved_bytes()));
            }
        }
    }

    /// Hides the progress bar while `print` runs.
    fn suspend<T>(&self, print: impl FnOnce() -> T) -> T {
        match &self.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }
}

/// Encodes rows as bytes, batch by batch.
enum Encoder {
    Csv { has_names: bool, schema: SchemaRef },
    Json,
    Arrow(Box<StreamWriter<Vec<u8>>>),
    Parquet(Box<ArrowWriter<Vec<u8>>>),
}

impl Encoder {
    fn new(format: Format, schema: SchemaRef) -> Result<Encoder> {
        Ok(match format {
            Format::Table | Format::Csv => Encoder::Csv { has_names: false, schema },
            Format::Json => Encoder::Json,
            Format::Arrow => Encoder::Arrow(Box::new(StreamWriter::try_new(Vec::new(), &schema)?)),
            Format::Parquet => {
                let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
                Encoder::Parquet(Box::new(ArrowWriter::try_new(Vec::new(), schema, Some(properties))?))
            }
        })
    }

    /// Encodes a batch and returns the bytes that are ready to print.
    fn encode(&mut self, batch: &RecordBatch) -> Result<Vec<u8>> {
        let mut text = Vec::new();
        match self {
            Encoder::Csv { has_names, .. } => {
                csv::WriterBuilder::new().with_header(!*has_names).build(&mut text).write(batch)?;
                *has_names = true;
            }
            Encoder::Json => {
                WriterBuilder::new()
                    .with_explicit_nulls(true)
                    .build::<_, LineDelimited>(&mut text)
                    .write(batch)?;
            }
            Encoder::Arrow(writer) => {
                writer.write(batch)?;
                text = std::mem::take(writer.get_mut());
            }
            Encoder::Parquet(writer) => {
                writer.write(batch)?;
                text = std::mem::take(writer.inner_mut());
            }
        }
        Ok(text)
    }

    fn finish(mut self) -> Result<Vec<u8>> {
        match &mut self {
            // Print the column names even if there are no rows.
            Encoder::Csv { has_names: false, schema } => {
                let none = RecordBatch::new_empty(Arc::clone(schema));
                self.encode(&none)
            }
            Encoder::Csv { .. } | Encoder::Json => Ok(Vec::new()),
            Encoder::Arrow(writer) => {
                writer.finish()?;
                Ok(std::mem::take(writer.get_mut()))
            }
            Encoder::Parquet(writer) => {
                writer.finish()?;
                Ok(std::mem::take(writer.inner_mut()))
            }
        }
    }
}
