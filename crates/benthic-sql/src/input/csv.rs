//! CSV files with a header line.

use super::exact;
use super::quotes::Quotes;
use super::reader::{Batch, Raw, Reader, format_error, text_if_unknown, unreadable};
use super::text::{SAMPLE_ROWS, Text};
use arrow::array::RecordBatch;
use arrow::csv::reader::{BufReader, Format, ReaderBuilder};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow::error::ArrowError;
use benthic_core::{Error, Result};
use benthic_table::TableSchema;
use regex::Regex;
use std::sync::Arc;

const UNREADABLE: &str = "a line of the CSV cannot be read";

pub(super) struct Csv {
    text: Text,
    format: Format,
    null: Option<Regex>,
    delimiter: u8,
}

impl Csv {
    pub(super) fn open(raw: Raw, delimiter: u8, null: &str) -> Result<Csv> {
        let text = Text::open(raw.stream()).map_err(unreadable)?;
        let missing = |message: &str| Err(Error::invalid_argument(message));
        if text.sample.is_empty() {
            return missing(match text.is_whole {
                true => "the file is empty; the first line of CSV must name the columns",
                false => "the first line is too long; it must name the columns",
            });
        }
        // Without an explicit null text, an empty value is null.
        let null = match null {
            "" => None,
            null => Some(Regex::new(&format!(r"\A{}\z", regex::escape(null))).map_err(|source| {
                Error::invalid_argument("this text cannot represent null").with_source(source)
            })?),
        };
        // The sample may end within a row.
        let mut format =
            Format::default().with_header(true).with_delimiter(delimiter).with_truncated_rows(true);
        if let Some(null) = &null {
            format = format.with_null_regex(null.clone());
        }
        Ok(Csv { text, format, null, delimiter })
    }
}

impl Reader for Csv {
    fn schema(&self) -> Result<SchemaRef> {
        let inferred = self.format.infer_schema(self.text.sample.as_slice(), Some(SAMPLE_ROWS));
        let (schema, _) = inferred.map_err(|error| explain(error, &Schema::empty()))?;
        let field = |field: &Arc<Field>| Field::new(field.name(), widen_guess(field.data_type()), true);
        Ok(Arc::new(Schema::new(schema.fields().iter().map(field).collect::<Vec<_>>())))
    }

    fn batches(
        self: Box<Self>,
        known: &TableSchema,
    ) -> Result<Box<dyn Iterator<Item = Result<Batch>> + Send>> {
        let guessed = text_if_unknown(self.schema()?.as_ref());
        let mut wanted = Vec::new();
        for field in guessed.fields() {
            let data_type = match known.by_name(field.name()) {
                Ok(column) => column.data_type.clone(),
                Err(_) => field.data_type().clone(),
            };
            if matches!(data_type, DataType::Binary | DataType::FixedSizeBinary(_)) || data_type.is_nested() {
                let message = "CSV cannot represent values of this type; load them from another format";
                return Err(Error::unsupported(message)
                    .with("column", field.name())
                    .with("type", crate::syntax::show_type(&data_type)));
            }
            wanted.push(Field::new(field.name(), data_type, true));
        }
        let wanted = Arc::new(Schema::new(wanted));
        let as_read = wanted.fields().iter().map(|field| match is_read_as_text(field.data_type()) {
            true => Field::new(field.name(), DataType::Utf8, true),
            false => field.as_ref().clone(),
        });
        let as_read = Arc::new(Schema::new(as_read.collect::<Vec<_>>()));
        let rows = self.text.batch_rows();
        let mut builder = ReaderBuilder::new(as_read)
            .with_header(true)
            .with_delimiter(self.delimiter)
            .with_batch_size(rows);
        if let Some(null) = self.null {
            builder = builder.with_null_regex(null);
        }
        let Text { reader, meter, .. } = self.text;
        let quotes = Quotes::new(reader, self.delimiter);
        let buffered = std::io::BufReader::with_capacity(256 * 1024, quotes);
        let mut reader: BufReader<_> =
            builder.build_buffered(buffered).map_err(|error| format_error(UNREADABLE, error))?;
        // Line 1 is the header.
        let mut line = 2;
        Ok(Box::new(std::iter::from_fn(move || {
            let batch = reader
                .next()?
                .map_err(|error| explain(error, &wanted))
                .and_then(|batch| convert_batch(&batch, &wanted, line));
            line += batch.as_ref().map_or(0, RecordBatch::num_rows);
            Some(batch.map(|rows| Batch { rows, read_bytes: meter.take() }))
        })))
    }
}

fn is_read_as_text(data_type: &DataType) -> bool {
    // Arrow's CSV reader loses no digits of integers.
    exact::is_read_as_text(data_type) && !data_type.is_integer()
}

/// Converts a batch to the wanted types. `line` is the line of its first row, if every earlier row
/// is one line.
fn convert_batch(batch: &RecordBatch, wanted: &SchemaRef, line: usize) -> Result<RecordBatch> {
    let mut columns = Vec::with_capacity(batch.num_columns());
    for (column, field) in batch.columns().iter().zip(wanted.fields()) {
        let values = exact::values(column, field.data_type());
        columns.push(
            values.map_err(|(row, error)| error.with("column", field.name()).with("line", line + row))?,
        );
    }
    RecordBatch::try_new(Arc::clone(wanted), columns).map_err(|error| format_error(UNREADABLE, error))
}

/// Generalizes an inferred type so that later rows are likely to fit: microseconds for timestamps.
fn widen_guess(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Timestamp(TimeUnit::Second | TimeUnit::Millisecond, zone) => {
            DataType::Timestamp(TimeUnit::Microsecond, zone.clone())
        }
        other => other.clone(),
    }
}

/// Converts Arrow's error about a line: a shorter message, with line and column as context.
fn explain(error: ArrowError, names: &Schema) -> Error {
    let wrong = Error::invalid_argument(UNREADABLE);
    match &error {
        ArrowError::CsvError(text) => match number_behind(text, " line ") {
            Some(line) => wrong.with("line", line).with_source(text.clone()),
            None => wrong.with_source(text.clone()),
        },
        ArrowError::ParseError(text) => {
            // The message contains the value and its position, and then the whole row, which may be
            // long.
            let place = text.split(". Row data: ").next().unwrap_or_default();
            let cause = place.rsplit_once(" for column ").map_or(place, |(cause, _)| cause).to_owned();
            let column = number_behind(place, " for column ").and_then(|column| names.fields().get(column));
            let wrong = column.into_iter().fold(wrong, |wrong, column| wrong.with("column", column.name()));
            // In this message the header is line 0.
            let line = number_behind(place, " at line ").map(|line| line + 1);
            line.into_iter().fold(wrong, |wrong, line| wrong.with("line", line)).with_source(cause)
        }
        _ => format_error(UNREADABLE, error),
    }
}

fn number_behind(text: &str, words: &str) -> Option<usize> {
    let (_, behind) = text.rsplit_once(words)?;
    let end = behind.find(|c: char| !c.is_ascii_digit()).unwrap_or(behind.len());
    behind[..end].parse().ok()
}
