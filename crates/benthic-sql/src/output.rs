//! Printing: rows to stdout, errors to stderr.

use arrow::array::RecordBatch;
use arrow::csv;
use arrow::json::WriterBuilder;
use arrow::json::writer::LineDelimited;
use arrow::util::pretty::pretty_format_batches_with_schema;
use benthic_core::{Action, Error};
use benthic_sql::errors::plain;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use futures::TryStreamExt;
use std::io::{self, Write};

/// How rows are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// A table for people; all of it is in memory
    #[default]
    Table,
    /// Comma-separated values with a line of names
    Csv,
    /// One JSON object a line
    Json,
}

/// Prints all rows.
pub async fn print(mut rows: SendableRecordBatchStream, format: Format) -> Result<()> {
    let schema = rows.schema();
    if format == Format::Table {
        let batches: Vec<RecordBatch> = rows.try_collect().await?;
        let table = pretty_format_batches_with_schema(schema, &batches)?;
        return written(format!("{table}\n").as_bytes()).map(drop);
    }
    let mut text = Vec::new();
    if format == Format::Csv {
        csv::Writer::new(&mut text).write(&RecordBatch::new_empty(schema))?;
    }
    loop {
        if !written(&text)? {
            return Ok(());
        }
        text.clear();
        let Some(batch) = rows.try_next().await? else {
            return Ok(());
        };
        if format == Format::Csv {
            csv::WriterBuilder::new().with_header(false).build(&mut text).write(&batch)?;
        } else {
            WriterBuilder::new()
                .with_explicit_nulls(true)
                .build::<_, LineDelimited>(&mut text)
                .write(&batch)?;
        }
    }
}

/// Says whether whoever reads wants more.
fn written(text: &[u8]) -> Result<bool> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => {
            let error = Error::io(Action::Write, "cannot write to stdout", error);
            Err(DataFusionError::External(Box::new(error)))
        }
    }
}

/// Prints an error. Nobody is left to be told if that fails.
pub fn error_line(error: &Error) {
    let _ = writeln!(io::stderr().lock(), "benthic-sql: {}", plain(error));
}
