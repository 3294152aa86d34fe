//! Prints the rows of a query.

use super::table::count;
use arrow::array::{AsArray, RecordBatch};
use arrow::csv;
use arrow::datatypes::SchemaRef;
use arrow::ipc::writer::StreamWriter;
use arrow::json::WriterBuilder;
use arrow::json::writer::LineDelimited;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use arrow::util::pretty::pretty_format_batches_with_schema;
use benthic_core::Error;
use benthic_program::exit::{Failure, Outcome};
use benthic_program::output::Output;
use benthic_program::progress::Progress;
use benthic_program::units;
use benthic_sql::errors::{external, from_datafusion};
use benthic_sql::work::Work;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::logical_expr::LogicalPlan;
use futures::TryStreamExt;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use std::collections::HashSet;
use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// How rows are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// A table for people; it needs memory for all rows that it shows
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

/// Number of rows of a table that a terminal shows unless the user wants all.
const TERMINAL_ROWS_MAX: usize = 40;

/// The parts of a query's result that are printed.
#[derive(Clone, Copy, Debug)]
pub struct View {
    pub format: Format,
    /// Whether to print all rows. Otherwise the rows after the first few are only counted.
    pub all: bool,
    /// Whether to print the number of rows below them.
    has_count: bool,
    /// Whether to print the time of the query, too.
    pub has_time: bool,
}

impl View {
    /// The view for the options of a command that only reads. The output then ends with its reader.
    ///
    /// # Errors
    /// A failure of usage for a binary format on a terminal.
    pub fn of_options(out: &Output, format: Option<Format>, all: bool) -> Outcome<View> {
        out.end_with_reader();
        let format = format.unwrap_or(if out.is_json() { Format::Json } else { Format::Table });
        if matches!(format, Format::Arrow | Format::Parquet) && io::stdout().is_terminal() {
            let message = "this format is binary; redirect it to a file: … > rows.parquet";
            return Err(Failure::Usage(message.to_owned()));
        }
        Ok(View::new(out, format, all))
    }

    /// Only a table on a terminal is shortened and has a line below it, because programs may read
    /// everything else.
    fn new(out: &Output, format: Format, all: bool) -> View {
        let is_read_by_people = out.is_terminal() && !out.is_json() && format == Format::Table;
        View {
            format,
            all: all || !is_read_by_people,
            has_count: is_read_by_people,
            has_time: is_read_by_people,
        }
    }

    /// Prints the line below the rows of a query. `all` is what a user types to see all rows.
    pub fn summarize(&self, out: &Output, printed: &Printed, time: Duration, all: &str) -> Outcome {
        if printed.is_plan || !(self.has_count || self.has_time) {
            return Ok(());
        }
        let mut line = count(printed.rows as u64, "row");
        if printed.shown < printed.rows {
            line = format!("the first {} of {line}", printed.shown);
        }
        if self.has_time {
            line.push_str(&format!(", {:.3} s", time.as_secs_f64()));
        }
        if printed.shown < printed.rows {
            line.push_str(&format!("; `{all}` shows all"));
        }
        out.note(line)
    }
}

/// The rows of a query that were printed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Printed {
    rows: usize,
    shown: usize,
    is_plan: bool,
}

/// Prints the rows of a query. `named` adds context to an error.
pub async fn print(
    out: &Output,
    rows: SendableRecordBatchStream,
    work: &Work,
    view: &View,
    named: impl Fn(Error) -> Error,
) -> Outcome<Printed> {
    let failed = |error: DataFusionError| named(from_datafusion(&error));
    let schema = rows.schema();
    let mut rows = RowsWithProgress { rows, work, bar: None };
    let mut printed = Printed::default();
    if view.format == Format::Table {
        printed.is_plan = *schema == *LogicalPlan::explain_schema();
        let rows_max = if view.all { usize::MAX } else { TERMINAL_ROWS_MAX };
        let mut batches = Vec::new();
        while let Some(batch) = rows.next().await.map_err(failed)? {
            printed.rows += batch.num_rows();
            let shown = batch.num_rows().min(rows_max - printed.shown);
            if shown > 0 {
                batches.push(batch.slice(0, shown));
                printed.shown += shown;
            }
        }
        drop(rows);
        let text = if printed.is_plan {
            plans(&batches)
        } else {
            let table = pretty_format_batches_with_schema(schema, &batches);
            let text = format!("{}\n", table.map_err(|error| failed(error.into()))?);
            batches.iter().try_for_each(|batch| check_values(&text, batch)).map_err(failed)?;
            text
        };
        out.write_bytes(text.as_bytes())?;
        return Ok(printed);
    }
    let mut encoder = Encoder::new(view.format, schema).map_err(failed)?;
    while let Some(batch) = rows.next().await.map_err(failed)? {
        printed.rows += batch.num_rows();
        let text = encoder.encode(&batch).map_err(failed)?;
        rows.suspend(|| out.write_bytes(&text).and_then(|()| out.flush()))?;
    }
    drop(rows);
    out.write_bytes(&encoder.finish().map_err(failed)?)?;
    printed.shown = printed.rows;
    Ok(printed)
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
        if let Some(bar) = &self.bar { bar.suspend(print) } else { print() }
    }
}

/// Encodes rows as bytes, batch by batch.
enum Encoder {
    Csv { has_names: bool, schema: SchemaRef },
    Json,
    Arrow(Box<StreamWriter<Vec<u8>>>),
    Parquet(Box<ArrowWriter<Vec<u8>>>),
}

/// Fails if a value of the batch has no text, such as a time beyond the calendar. The formatters
/// print the text of the error instead of the value.
fn check_values(text: &str, batch: &RecordBatch) -> Result<()> {
    if !text.contains("ERROR: ") {
        return Ok(());
    }
    let options = FormatOptions::new().with_display_error(false);
    for column in batch.columns() {
        let values = ArrayFormatter::try_new(column, &options)?;
        (0..batch.num_rows()).try_for_each(|row| values.value(row).try_to_string().map(drop))?;
    }
    Ok(())
}

impl Encoder {
    fn new(format: Format, schema: SchemaRef) -> Result<Encoder> {
        Ok(match format {
            Format::Table | Format::Csv => Encoder::Csv { has_names: false, schema },
            Format::Json => {
                let mut names = HashSet::new();
                if let Some(twice) = schema.fields().iter().find(|field| !names.insert(field.name())) {
                    let message =
                        "two columns have the same name, which JSON cannot tell apart; name one with AS";
                    let error = Error::invalid_argument(message);
                    return Err(external(error.with("column", twice.name())));
                }
                Encoder::Json
            }
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
                check_values(&String::from_utf8_lossy(&text), batch)?;
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
