//! Bloom filters of columns in data objects.
//!
//! A filter says that a row group has no row with a value, so that a query for one value skips the
//! row group. It takes up to 2 bytes for each different value. An index is larger and finds the
//! rows. The Parquet writer makes the filters; this file decides which columns can have one.

use crate::layout::Layout;
use crate::schema::TableSchema;
use arrow::datatypes::DataType;
use benthic_core::{Error, Result};
use parquet::file::properties::WriterPropertiesBuilder;
use parquet::schema::types::ColumnPath;

/// Maximum number of columns with a filter.
const COLUMNS_MAX: usize = 16;
/// A filter wrongly finds this part of the values that are not in the row group.
const FALSE_POSITIVES: f64 = 0.01;

/// Checks which columns get filters.
///
/// # Errors
/// `InvalidArgument`, with the column.
pub(crate) fn check(ids: &[u32], schema: &TableSchema) -> Result<()> {
    let invalid = |message: &str| Error::invalid_argument(message);
    if ids.len() > COLUMNS_MAX {
        return Err(invalid("too many columns have Bloom filters").with("columns_max", COLUMNS_MAX));
    }
    for (place, id) in ids.iter().enumerate() {
        let column =
            schema.by_id(*id).ok_or_else(|| invalid("the table has no such column").with("id", id))?;
        if ids[..place].contains(id) {
            return Err(invalid("a column cannot have two Bloom filters").with("column", &column.name));
        }
        if !is_used(&column.data_type) {
            let message = "no query would use a Bloom filter of this column; columns of text, bytes, decimals, and \
                integers of 32 or 64 bits can have one";
            return Err(invalid(message).with("column", &column.name));
        }
    }
    Ok(())
}

/// Whether DataFusion looks up values of this type.
fn is_used(data_type: &DataType) -> bool {
    use DataType as T;
    matches!(
        data_type,
        T::Utf8
            | T::LargeUtf8
            | T::Utf8View
            | T::Binary
            | T::LargeBinary
            | T::BinaryView
            | T::Int32
            | T::Int64
            | T::UInt32
            | T::UInt64
            | T::Decimal128(..)
    )
}

/// Adds the filters of a layout to the properties of a data object.
pub(crate) fn add(
    mut properties: WriterPropertiesBuilder,
    layout: &Layout,
    schema: &TableSchema,
) -> WriterPropertiesBuilder {
    for column in layout.bloom.iter().filter_map(|id| schema.by_id(*id)) {
        let path = ColumnPath::new(vec![column.name.clone()]);
        properties = properties
            .set_column_bloom_filter_enabled(path.clone(), true)
            .set_column_bloom_filter_fpp(path, FALSE_POSITIVES);
    }
    properties
}
