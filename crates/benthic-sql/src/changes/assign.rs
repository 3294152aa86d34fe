//! Converts values of a query to the types of a table's columns. No digit is lost: a value that
//! does not fit its column exactly is an error.

use super::statement::wrong_number;
use crate::syntax::show_type;
use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, make_comparator};
use arrow::compute::kernels::cmp::distinct;
use arrow::compute::{CastOptions, SortOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::error::ArrowError;
use benthic_core::{Error, Result};
use benthic_table::{Column, TableSchema};
use std::sync::Arc;

/// The batch's columns as these columns of a table, by position.
///
/// # Errors
/// `InvalidArgument` for another number of columns, and for a value that does not fit; the error
/// names the column.
pub fn assign(batch: &RecordBatch, columns: &[&str], table: &TableSchema) -> Result<RecordBatch> {
    if batch.num_columns() != columns.len() {
        return Err(wrong_number(columns.len(), batch.num_columns()));
    }
    let (mut fields, mut arrays) = (Vec::new(), Vec::new());
    for (name, values) in columns.iter().zip(batch.columns()) {
        let column = table.by_name(name)?;
        arrays.push(values_of(values, column)?);
        fields.push(Field::new(*name, column.data_type.clone(), true));
    }
    let count = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &count)
        .map_err(|error| Error::internal("columns cannot form rows").with_source(error))
}

fn values_of(values: &ArrayRef, column: &Column) -> Result<ArrayRef> {
    let (from, to) = (values.data_type(), &column.data_type);
    if from == to {
        return Ok(Arc::clone(values));
    }
    let failed = |message: &str| {
        Error::invalid_argument(message)
            .with("column", &column.name)
            .with("type", show_type(to))
            .with("type_of_value", show_type(from))
    };
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let converted = cast_with_options(values, to, &options)
        .map_err(|error| failed("a value does not fit the type of its column").with_source(error))?;
    if may_lose_digits(from, to) {
        let back = cast_with_options(&converted, from, &options);
        let back =
            back.map_err(|error| failed("a value does not fit the type of its column").with_source(error))?;
        let differ = differ(&back, values);
        if differ.map_err(|error| failed("values cannot be compared").with_source(error))? {
            return Err(failed("a value does not fit its column exactly; round it or cast it"));
        }
    }
    Ok(converted)
}

/// Whether any value of two arrays of one type differs.
fn differ(one: &ArrayRef, other: &ArrayRef) -> Result<bool, ArrowError> {
    if !one.data_type().is_nested() {
        return Ok(distinct(one, other)?.true_count() > 0);
    }
    let compare = make_comparator(one, other, SortOptions::default())?;
    Ok((0..one.len()).any(|row| compare(row, row).is_ne()))
}

/// Whether a cast can return another value without an error. Text is parsed, which fails for text
/// that is no value; the digits of floating-point numbers are approximate already.
fn may_lose_digits(from: &DataType, to: &DataType) -> bool {
    let is_text = matches!(from, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    let to_text = matches!(to, DataType::Utf8 | DataType::Binary);
    match (parts(from).as_slice(), parts(to).as_slice()) {
        (from, to) if !from.is_empty() && from.len() == to.len() => {
            from.iter().zip(to).any(|(from, to)| may_lose_digits(from, to))
        }
        _ => {
            !(is_text
                || from.is_null()
                || to_text
                || to.is_floating() && !from.is_integer()
                || to.is_nested())
        }
    }
}

/// The types within a list, a struct or a map.
fn parts(data_type: &DataType) -> Vec<&DataType> {
    match data_type {
        DataType::List(part)
        | DataType::LargeList(part)
        | DataType::FixedSizeList(part, _)
        | DataType::Map(part, _) => vec![part.data_type()],
        DataType::Struct(parts) => parts.iter().map(|part| part.data_type()).collect(),
        _ => Vec::new(),
    }
}
