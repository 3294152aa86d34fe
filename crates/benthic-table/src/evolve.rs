//! Converts rows of an earlier schema to a later one. Columns are matched by id, not by name.

use crate::error::{suggest, value_error};
use crate::schema::{Column, TableSchema};
use crate::types::{canonical, widens};
use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array};
use arrow::compute::{CastOptions, cast_with_options, take_record_batch};
use arrow::datatypes::{DataType, Field};
use benthic_core::{Error, Result};
use std::collections::HashMap;

/// Converts rows to a later schema: matches columns by id, applies the current names and types, and
/// fills columns that were added later with null.
///
/// `batch` has the columns of `file`, by name; it may lack those that `current` does not have.
/// `current` may be a [projection](TableSchema::project).
///
/// # Errors
/// `InvalidArgument` if `batch` lacks a column; `Corrupt` if the schemas cannot belong to one
/// table.
pub fn adapt(batch: &RecordBatch, file: &TableSchema, current: &TableSchema) -> Result<RecordBatch> {
    let given = batch.schema();
    let places = places(given.fields());
    let mut columns = Vec::with_capacity(current.columns().len());
    for column in current.columns() {
        let corrupt = |message: &str| Error::corrupt(message).with("column", &column.name);
        let Some(old) = file.by_id(column.id) else {
            if !column.nullable {
                return Err(corrupt("an object lacks a column that is never null"));
            }
            columns.push(new_null_array(&column.data_type, batch.num_rows()));
            continue;
        };
        let array = places.get(old.name.as_str()).map(|place| batch.column(*place)).ok_or_else(|| {
            Error::invalid_argument("a batch lacks a column of its schema").with("column", &old.name)
        })?;
        if !widens(&old.data_type, &column.data_type) {
            return Err(corrupt("the type of a column in an object cannot be widened to the table's type"));
        }
        columns.push(cast(array, column)?);
    }
    assemble(current, columns, batch.num_rows())
}

/// Converts a caller's rows to rows of the table: matches columns by name, fills missing ones with
/// null, widens types.
pub(crate) fn conform(batch: &RecordBatch, schema: &TableSchema) -> Result<RecordBatch> {
    let given = batch.schema();
    let places = places(given.fields());
    if places.len() < given.fields().len() {
        return Err(Error::invalid_argument("two columns of the data have the same name"));
    }
    if let Some(extra) = unknown_columns(batch, schema).first() {
        let missing = schema.columns().iter().filter(|column| !places.contains_key(column.name.as_str()));
        let hint = match suggest(extra.name(), missing.map(|column| column.name.as_str())) {
            Some(hint) => format!("did you mean {hint:?}?"),
            None => "add it to the table, or remove it from the data".to_owned(),
        };
        let message = format!("the data have a column that the table lacks; {hint}");
        return Err(Error::invalid_argument(message).with("column", extra.name()));
    }
    let mut columns = Vec::with_capacity(schema.columns().len());
    for column in schema.columns() {
        let invalid = |message: &str| Error::invalid_argument(message).with("column", &column.name);
        let array = match places.get(column.name.as_str()) {
            None => new_null_array(&column.data_type, batch.num_rows()),
            Some(place) => {
                let array = batch.column(*place);
                let data_type = array.data_type();
                let fits = || canonical(data_type).is_ok_and(|stored| widens(&stored, &column.data_type));
                if *data_type != DataType::Null && !fits() {
                    return Err(invalid("the column has another type in the table; cast it first")
                        .with("type", data_type)
                        .with("wanted", &column.data_type));
                }
                cast(array, column)?
            }
        };
        if !column.nullable && array.logical_null_count() > 0 {
            return Err(invalid(match places.contains_key(column.name.as_str()) {
                true => "the column has nulls, but the table does not allow nulls in it",
                false => "the data lack a column that may not be null",
            }));
        }
        columns.push(array);
    }
    compact(assemble(schema, columns, batch.num_rows())?)
}

pub(crate) fn unknown_columns(batch: &RecordBatch, schema: &TableSchema) -> Vec<Field> {
    let unknown = batch.schema_ref().fields().iter().filter(|field| !schema.has_name(field.name()));
    unknown.map(|field| field.as_ref().clone()).collect()
}

fn places(fields: &arrow::datatypes::Fields) -> HashMap<&str, usize> {
    fields.iter().enumerate().map(|(place, field)| (field.name().as_str(), place)).collect()
}

fn cast(array: &ArrayRef, column: &Column) -> Result<ArrayRef> {
    if *array.data_type() == column.data_type {
        return Ok(ArrayRef::clone(array));
    }
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(array, &column.data_type, &strict).map_err(|source| value_error(&column.name, source))
}

fn assemble(schema: &TableSchema, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema.arrow().clone(), columns, &options)
        .map_err(|source| crate::error::arrow("columns cannot be combined to a batch", source))
}

/// The bytes that the rows of a batch occupy, without the unused parts of its buffers.
pub(crate) fn rows_bytes(batch: &RecordBatch) -> usize {
    let bytes = |column: &ArrayRef| {
        column.to_data().get_slice_memory_size().unwrap_or_else(|_| column.get_array_memory_size())
    };
    batch.columns().iter().map(bytes).sum()
}

/// Copies the batch if it is a small part of large buffers, which it would otherwise keep in memory
/// for long.
pub(crate) fn compact(batch: RecordBatch) -> Result<RecordBatch> {
    if batch.get_array_memory_size() / 2 <= rows_bytes(&batch) + 64 * 1024 {
        return Ok(batch);
    }
    let all = UInt32Array::from_iter_values(0..u32::try_from(batch.num_rows()).unwrap_or(u32::MAX));
    take_record_batch(&batch, &all).map_err(|source| crate::error::arrow("rows cannot be copied", source))
}

#[cfg(test)]
#[path = "evolve_tests.rs"]
mod tests;
