//! Encodes rows as a Parquet object.

use crate::CREATED_BY;
use crate::error;
use crate::evolve::rows_bytes;
use arrow::array::RecordBatch;
use benthic_core::{Result, limits};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::metadata::SortingColumn;
use parquet::file::properties::{EnabledStatistics, WriterProperties};

/// Limits of a row group. They are small because code inside an OSD, which has little memory,
/// decodes whole row groups.
const ROW_GROUP_ROWS: usize = 128 * 1024;
const ROW_GROUP_BYTES: usize = 8 * 1024 * 1024;
const PAGE_ROWS: usize = 8 * 1024;
/// Bytes to encode before the size is checked again.
const STEP_BYTES: usize = 1024 * 1024;
/// Size limit of an object with its footer, unless a single row is larger.
const OBJECT_BYTES_MAX: usize = limits::OPERATION_BYTES_MAX as usize - 4 * 1024 * 1024;

/// Encodes the first rows of `rows` until the object has about `bytes_target` bytes. Returns the
/// object and the number of encoded rows.
pub(super) fn encode_object(
    rows: &RecordBatch,
    sort: &[usize],
    bytes_target: usize,
) -> Result<(Vec<u8>, usize)> {
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by(CREATED_BY.to_owned())
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .set_max_row_group_bytes(Some(ROW_GROUP_BYTES))
        .set_data_page_row_count_limit(PAGE_ROWS)
        .set_write_batch_size(1024)
        .set_statistics_enabled(EnabledStatistics::Page);
    if let Some(columns) = sorting_columns(rows, sort) {
        properties = properties.set_sorting_columns(Some(columns));
    }
    let mut encoder =
        ArrowWriter::try_new(Vec::new(), rows.schema(), Some(properties.build())).map_err(error::parquet)?;
    let mut taken = 0;
    while taken < rows.num_rows() {
        let mut step = rows.slice(taken, PAGE_ROWS.min(rows.num_rows() - taken));
        let mut step_bytes = rows_bytes(&step);
        while step_bytes > STEP_BYTES && step.num_rows() > 1 {
            step = step.slice(0, step.num_rows() / 2);
            step_bytes = rows_bytes(&step);
        }
        let so_far = encoder.bytes_written() + encoder.in_progress_size();
        if taken > 0 && (so_far >= bytes_target || so_far + step_bytes > OBJECT_BYTES_MAX) {
            break;
        }
        encoder.write(&step).map_err(error::parquet)?;
        taken += step.num_rows();
    }
    Ok((encoder.into_inner().map_err(error::parquet)?, taken))
}

/// The sort order in Parquet's form. Parquet counts leaves, which match columns only if no column
/// is nested.
fn sorting_columns(rows: &RecordBatch, sort: &[usize]) -> Option<Vec<SortingColumn>> {
    let flat = rows.schema_ref().fields().iter().all(|field| !field.data_type().is_nested());
    let column = |place: &usize| {
        Some(SortingColumn { column_idx: i32::try_from(*place).ok()?, descending: false, nulls_first: true })
    };
    (flat && !sort.is_empty()).then(|| sort.iter().map(column).collect()).flatten()
}

#[cfg(test)]
#[path = "encode_tests.rs"]
mod tests;
