//! JSON lines: one object per line.

use super::exact;
use super::reader::{BATCH_BYTES, BATCH_ROWS, Batch, Raw, Reader, format_error, text_if_unknown, unreadable};
use super::text::{Meter, Metered, SAMPLE_ROWS, Text};
use arrow::array::{Array, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::json::ReaderBuilder;
use arrow::json::reader::{Decoder, infer_json_schema_from_iterator};
use benthic_core::{Error, Result};
use benthic_table::TableSchema;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use std::collections::HashMap;
use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;

const LINE_BYTES_MAX: u64 = 64 * 1024 * 1024;
const UNREADABLE: &str = "a line is not a JSON object with the table's columns";

pub(super) struct Json {
    text: Text,
}

impl Json {
    pub(super) fn open(raw: Raw) -> Result<Json> {
        let text = Text::open(raw.stream()).map_err(unreadable)?;
        if text.sample.is_empty() && !text.is_whole {
            return Err(too_long());
        }
        Ok(Json { text })
    }

    /// The columns of the sample with their types, in order of appearance.
    fn sample_fields(&self) -> Result<Vec<Field>> {
        let (mut objects, mut places) = (Vec::new(), HashMap::new());
        for (line, text) in (1..).zip(self.text.sample.split(|byte| *byte == b'\n')) {
            if text.trim_ascii().is_empty() {
                continue;
            }
            let wrong = |error: serde_json::Error| {
                if text.trim_ascii_start().starts_with(b"[") {
                    let message = "this is an array, but JSON lines have one object per line; convert it with `jq -c '.[]'`";
                    return Error::invalid_argument(message).with("line", line);
                }
                Error::invalid_argument(UNREADABLE).with("line", line).with_source(error)
            };
            let Names(names) = serde_json::from_slice(text).map_err(wrong)?;
            for name in names {
                let next = places.len();
                places.entry(name).or_insert(next);
            }
            objects.push(serde_json::from_slice::<Value>(text).map_err(wrong)?);
            if objects.len() == SAMPLE_ROWS {
                break;
            }
        }
        let schema = infer_json_schema_from_iterator(objects.iter().map(Ok::<_, ArrowError>));
        let schema = schema.map_err(|error| format_error(UNREADABLE, error))?;
        let mut fields: Vec<Field> = schema.fields().iter().map(normalize_field).collect();
        fields.sort_by_key(|field| places.get(field.name()).copied().unwrap_or(usize::MAX));
        Ok(fields)
    }
}

impl Reader for Json {
    fn schema(&self) -> Result<SchemaRef> {
        let fields = self.sample_fields()?;
        if fields.is_empty() {
            let message = "the first lines have no columns; `benthic table create --schema` sets them";
            return Err(Error::invalid_argument(message));
        }
        Ok(Arc::new(Schema::new(fields)))
    }

    fn batches(
        self: Box<Self>,
        known: &TableSchema,
    ) -> Result<Box<dyn Iterator<Item = Result<Batch>> + Send>> {
        // Read all columns of the table, because columns that the sample lacks may appear later.
        let columns =
            known.columns().iter().map(|column| Field::new(&column.name, column.data_type.clone(), true));
        let mut wanted: Vec<Field> = columns.collect();
        let guessed = text_if_unknown(&Schema::new(self.sample_fields()?));
        wanted.extend(
            guessed
                .fields()
                .iter()
                .map(|field| field.as_ref().clone())
                .filter(|field| !known.has_name(field.name())),
        );
        let wanted = Arc::new(Schema::new(wanted));
        let as_read = wanted
            .fields()
            .iter()
            .map(|field| Field::new(field.name(), exact::read_as(field.data_type()), true));
        let Text { reader, meter, .. } = self.text;
        let mut lines = Lines {
            from: BufReader::with_capacity(256 * 1024, reader),
            meter,
            known: known.columns().len(),
            as_read: Arc::new(Schema::new(as_read.collect::<Vec<_>>())),
            wanted,
            text: Vec::new(),
            first: 1,
        };
        Ok(Box::new(std::iter::from_fn(move || lines.next().transpose())))
    }
}

struct Lines {
    from: BufReader<Metered>,
    meter: Arc<Meter>,
    as_read: SchemaRef,
    wanted: SchemaRef,
    /// The first `known` columns of the schema belong to the table.
    known: usize,
    /// The lines of the current batch, kept to find the line that causes an error.
    text: Vec<u8>,
    first: usize,
}

impl Lines {
    fn next(&mut self) -> Result<Option<Batch>> {
        self.text.clear();
        let mut ends = Vec::new();
        while ends.len() < BATCH_ROWS && self.text.len() < BATCH_BYTES {
            let read = (&mut self.from).take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut self.text);
            match read.map_err(unreadable)? as u64 {
                0 => break,
                len_bytes if len_bytes > LINE_BYTES_MAX => {
                    return Err(too_long().with("line", self.first + ends.len()));
                }
                _ => ends.push(self.text.len()),
            }
        }
        if ends.is_empty() {
            return Ok(None);
        }
        let rows = match self.decode(&self.text) {
            Ok(rows) => rows,
            // One of the lines fails alone, so find it.
            Err(error) => {
                return Err(self.find_bad_line(&ends).unwrap_or_else(|| error.with("line", self.first)));
            }
        };
        self.first += ends.len();
        Ok(Some(Batch { rows, read_bytes: self.meter.take() }))
    }

    fn find_bad_line(&self, ends: &[usize]) -> Option<Error> {
        let mut start = 0;
        for (line, end) in (self.first..).zip(ends) {
            if let Err(error) = self.decode(&self.text[start..*end]) {
                return Some(error.with("line", line));
            }
            start = *end;
        }
        None
    }

    fn decode(&self, text: &[u8]) -> Result<RecordBatch> {
        // A full decoder accepts no more input, not even a line end.
        let mut text = text.trim_ascii_end();
        let failed = |error| format_error(UNREADABLE, error);
        let mut decoder: Decoder = ReaderBuilder::new(Arc::clone(&self.as_read))
            .with_batch_size(BATCH_ROWS)
            .with_strict_mode(true)
            // Read numbers as text, to lose no digits.
            .with_coerce_primitive(true)
            .build_decoder()
            .map_err(failed)?;
        while !text.is_empty() {
            let read = decoder.decode(text).map_err(failed)?;
            if read == 0 {
                return Err(Error::invalid_argument("a line has more than one JSON object"));
            }
            text = &text[read..];
        }
        let rows = decoder.flush().map_err(failed)?;
        let rows = rows.unwrap_or_else(|| RecordBatch::new_empty(Arc::clone(&self.as_read)));
        let (mut fields, mut columns) = (Vec::new(), Vec::new());
        for (place, (column, field)) in rows.columns().iter().zip(self.wanted.fields()).enumerate() {
            // Omit a table column that has no values in this batch. It counts as missing, not as a
            // column of the file.
            if place < self.known && column.null_count() == rows.num_rows() {
                continue;
            }
            fields.push(Arc::clone(field));
            let values = exact::values(column, field.data_type());
            columns.push(values.map_err(|(_, error)| error.with("column", field.name()))?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options).map_err(failed)
    }
}

fn too_long() -> Error {
    Error::limit_exceeded("a line is too long; JSON lines have one object per line")
        .with("len_bytes_max", LINE_BYTES_MAX)
}

/// Normalizes an inferred field: nulls in lists and structs become text, and struct fields are
/// sorted by name because their inferred order is arbitrary.
fn normalize_field(field: &FieldRef) -> Field {
    fn inner(field: &FieldRef) -> Field {
        match field.data_type() {
            DataType::Null => Field::new(field.name(), DataType::Utf8, true),
            _ => normalize_field(field),
        }
    }
    fn data_type(given: &DataType) -> DataType {
        match given {
            DataType::List(element) => DataType::List(Arc::new(inner(element))),
            DataType::Struct(fields) => {
                let mut fields: Vec<Field> = fields.iter().map(inner).collect();
                fields.sort_by(|a, b| a.name().cmp(b.name()));
                DataType::Struct(Fields::from(fields))
            }
            other => other.clone(),
        }
    }
    Field::new(field.name(), data_type(field.data_type()), true)
}

struct Names(Vec<String>);

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Names, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Names;

            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> std::result::Result<Names, M::Error> {
                let mut names = Vec::new();
                while let Some((name, IgnoredAny)) = map.next_entry::<String, IgnoredAny>()? {
                    names.push(name);
                }
                Ok(Names(names))
            }
        }
        from.deserialize_map(Members)
    }
}
