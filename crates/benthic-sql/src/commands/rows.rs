//! Printing rows.

use arrow::array::RecordBatch;
use arrow::csv;
use arrow::json::WriterBuilder;
use arrow::json::writer::LineDelimited;
use arrow::util::pretty::pretty_format_batches_with_schema;
use benthic_cli::exit::Outcome;
use benthic_cli::output::Output;
use benthic_core::Error;
use benthic_sql::errors::told;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use futures::TryStreamExt;

/// How rows are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// A table for people; all of it is in memory
    Table,
    /// Comma-separated values with a line of names
    Csv,
    /// One JSON object a line
    Json,
}

/// Prints all rows; `named` says more of an error.
pub async fn print(
    out: &Output,
    mut rows: SendableRecordBatchStream,
    format: Format,
    named: impl Fn(Error) -> Error,
) -> Outcome {
    let failed = |error: DataFusionError| named(told(&error));
    let schema = rows.schema();
    if format == Format::Table {
        let batches: Vec<RecordBatch> = rows.try_collect().await.map_err(failed)?;
        let table = pretty_format_batches_with_schema(schema, &batches);
        return out.exact(format!("{}\n", table.map_err(|error| failed(error.into()))?).as_bytes());
    }
    if format == Format::Csv {
        out.exact(&as_csv(&RecordBatch::new_empty(schema), true).map_err(failed)?)?;
    }
    while let Some(batch) = rows.try_next().await.map_err(failed)? {
        let text = match format {
            Format::Csv => as_csv(&batch, false),
            _ => as_json(&batch),
        };
        out.exact(&text.map_err(failed)?)?;
        out.flush()?;
    }
    Ok(())
}

fn as_csv(batch: &RecordBatch, with_names: bool) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    csv::WriterBuilder::new().with_header(with_names).build(&mut text).write(batch)?;
    Ok(text)
}

fn as_json(batch: &RecordBatch) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    WriterBuilder::new().with_explicit_nulls(true).build::<_, LineDelimited>(&mut text).write(batch)?;
    Ok(text)
}
