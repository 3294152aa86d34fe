//! Encodes rows as a Parquet object, or as one for each column group.

use crate::CREATED_BY;
use crate::bloom;
use crate::error;
use crate::evolve::rows_bytes;
use crate::groups;
use crate::layout::{FOOTER_KEY, Layout, ROWS_BYTES_KEY};
use crate::pause::yield_now;
use crate::schema::TableSchema;
use arrow::array::RecordBatch;
use arrow::compute::{SortColumn, SortOptions, lexsort_to_indices, take_record_batch};
use arrow::datatypes::DataType;
use benthic_core::{Result, limits};
use parquet::arrow::ArrowWriter;
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::{EnabledStatistics, WriterProperties};

const PAGE_ROWS: usize = 8 * 1024;
/// Bytes to encode before the size is checked again.
const STEP_BYTES: usize = 1024 * 1024;
/// Size limit of an object with its footer, unless a single row is larger.
const OBJECT_BYTES_MAX: usize = limits::OPERATION_BYTES_MAX as usize - 4 * 1024 * 1024;
/// Limit of a row group in memory, unless its target size is larger. Code in an OSD refuses a row
/// group of which a query needs more than 64 MiB, decompressed.
const ROW_GROUP_MEMORY_BYTES: usize = 32 * 1024 * 1024;
/// Column chunks that the limits of row groups permit in an object. Code in an OSD refuses an
/// object of more than 16,384, of more than 4,096 row groups, and with a footer of more than 2 MiB.
const CHUNKS_MAX: usize = 8 * 1024;
const ROW_GROUPS_MAX: usize = 2 * 1024;

/// Limits of the row groups of an object. Each ends row groups independently of the others.
struct RowGroupLimits {
    rows: usize,
    /// Compressed bytes.
    bytes: usize,
    memory_bytes: usize,
}

impl RowGroupLimits {
    /// The limits of a layout, raised where an object of these rows would otherwise have too many
    /// column chunks.
    fn new(layout: &Layout, rows: &RecordBatch) -> RowGroupLimits {
        let target = usize::try_from(layout.row_group_bytes).unwrap_or(usize::MAX);
        let leaves: usize = rows.schema_ref().fields().iter().map(|field| leaves(field.data_type())).sum();
        let groups = (CHUNKS_MAX / leaves.max(1)).clamp(1, ROW_GROUPS_MAX);
        // Each of the three limits may end so many row groups; one is then the last.
        match groups.div_ceil(3) {
            1 => RowGroupLimits { rows: usize::MAX, bytes: usize::MAX, memory_bytes: usize::MAX },
            groups => RowGroupLimits {
                rows: layout.row_group_rows().max(rows.num_rows() / groups),
                bytes: target.max(OBJECT_BYTES_MAX / groups),
                memory_bytes: target.max(ROW_GROUP_MEMORY_BYTES).max(rows_bytes(rows) / groups),
            },
        }
    }
}

/// The number of Parquet columns of a type.
fn leaves(data_type: &DataType) -> usize {
    match data_type {
        DataType::List(item) | DataType::LargeList(item) | DataType::Map(item, _) => leaves(item.data_type()),
        DataType::FixedSizeList(item, _) => leaves(item.data_type()),
        DataType::Struct(fields) => fields.iter().map(|field| leaves(field.data_type())).sum(),
        _ => 1,
    }
}

/// A Bloom filter has ten bits for each row that a row group may have, rounded up to a power of
/// two.
const FILTER_BYTES_OF_ROW: usize = 2;

/// The places of a layout's sort columns.
fn sort_places(layout: &Layout, schema: &TableSchema) -> Vec<usize> {
    let place = |id: &u32| schema.columns().iter().position(|column| column.id == *id);
    layout.sort.iter().filter_map(place).collect()
}

/// Sorts rows by a layout's sort columns.
pub(crate) fn sort_rows(rows: RecordBatch, layout: &Layout, schema: &TableSchema) -> Result<RecordBatch> {
    let places = sort_places(layout, schema);
    if places.is_empty() {
        return Ok(rows);
    }
    let options = Some(SortOptions { descending: false, nulls_first: true });
    let columns: Vec<SortColumn> =
        places.iter().map(|place| SortColumn { values: rows.column(*place).clone(), options }).collect();
    let sorted = lexsort_to_indices(&columns, None).and_then(|order| take_record_batch(&rows, &order));
    sorted.map_err(|source| error::arrow("rows cannot be sorted", source))
}

/// Encodes the columns of one object.
struct Encoder {
    /// The places of the columns.
    places: Vec<usize>,
    parquet: ArrowWriter<Vec<u8>>,
    /// Size in memory of the rows in the row group.
    group_bytes: usize,
}

impl Encoder {
    fn new(rows: &RecordBatch, places: Vec<usize>, layout: &Layout, schema: &TableSchema) -> Result<Encoder> {
        let named = KeyValue::new(FOOTER_KEY.to_owned(), layout.to_string());
        let mut properties = WriterProperties::builder()
            .set_compression(layout.codec.compression()?)
            .set_created_by(CREATED_BY.to_owned())
            .set_key_value_metadata(Some(vec![named]))
            .set_max_row_group_row_count(None)
            .set_data_page_row_count_limit(PAGE_ROWS)
            .set_write_batch_size(1024)
            .set_statistics_enabled(EnabledStatistics::Page);
        let columns = project(rows, &places)?;
        // Rows are sorted by the sort columns before the first one that the object lacks.
        let sort: Vec<usize> = sort_places(layout, schema)
            .iter()
            .map_while(|sorted| places.iter().position(|place| place == sorted))
            .collect();
        if let Some(columns) = sorting_columns(&columns, &sort) {
            properties = properties.set_sorting_columns(Some(columns));
        }
        properties = bloom::add(properties, layout, schema);
        let parquet = ArrowWriter::try_new(Vec::new(), columns.schema(), Some(properties.build()));
        Ok(Encoder { places, parquet: parquet.map_err(error::parquet)?, group_bytes: 0 })
    }

    fn bytes(&self) -> usize {
        self.parquet.bytes_written() + self.parquet.in_progress_size()
    }

    /// Whether the row group must end before these rows.
    fn is_full(&self, step: &RecordBatch, limits: &RowGroupLimits) -> bool {
        let (rows, bytes) = (self.parquet.in_progress_rows(), self.parquet.in_progress_size());
        rows > 0
            && (rows >= limits.rows
                || bytes.saturating_add(bytes / rows * step.num_rows()) > limits.bytes
                || self.group_bytes.saturating_add(rows_bytes(step)) > limits.memory_bytes)
    }

    fn write(&mut self, step: &RecordBatch) -> Result<()> {
        self.group_bytes += rows_bytes(step);
        self.parquet.write(step).map_err(error::parquet)
    }

    fn end_row_group(&mut self) -> Result<()> {
        self.group_bytes = 0;
        self.parquet.flush().map_err(error::parquet)
    }
}

fn project(rows: &RecordBatch, places: &[usize]) -> Result<RecordBatch> {
    rows.project(places).map_err(|source| error::arrow("columns cannot be selected", source))
}

/// Encodes the first rows of `rows` until an object has about `bytes_target` bytes. Returns the
/// object with the columns of no group, those of the column groups, and the number of encoded rows.
/// The rows are sorted already. All objects have the same row groups. Yields after each step,
/// because some codecs take minutes for an object.
pub(crate) async fn encode_object(
    rows: &RecordBatch,
    layout: &Layout,
    schema: &TableSchema,
    bytes_target: usize,
) -> Result<(Vec<Vec<u8>>, usize)> {
    let limits = RowGroupLimits::new(layout, rows);
    let places = groups::places(&layout.groups, schema).into_iter();
    let encoders = places.map(|places| Encoder::new(rows, places, layout, schema));
    let mut encoders = encoders.collect::<Result<Vec<Encoder>>>()?;
    let (mut taken, mut taken_bytes) = (0, 0);
    // The filters of a row group are written after its rows.
    let filters_bytes = layout.bloom.len() * FILTER_BYTES_OF_ROW * limits.rows;
    while taken < rows.num_rows() {
        let group_rows = encoders.first().map_or(0, |encoder| encoder.parquet.in_progress_rows());
        let room = if group_rows < limits.rows { limits.rows - group_rows } else { limits.rows };
        let mut step = rows.slice(taken, PAGE_ROWS.min(rows.num_rows() - taken).min(room));
        let mut step_bytes = rows_bytes(&step);
        while step_bytes > STEP_BYTES && step.num_rows() > 1 {
            step = step.slice(0, step.num_rows() / 2);
            step_bytes = rows_bytes(&step);
        }
        let so_far = encoders.iter().map(Encoder::bytes).max().unwrap_or(0);
        if taken > 0 && (so_far >= bytes_target || so_far + step_bytes + filters_bytes > OBJECT_BYTES_MAX) {
            break;
        }
        let parts = encoders.iter().map(|encoder| project(&step, &encoder.places));
        let parts = parts.collect::<Result<Vec<_>>>()?;
        if encoders.iter().zip(&parts).any(|(encoder, part)| encoder.is_full(part, &limits)) {
            encoders.iter_mut().try_for_each(Encoder::end_row_group)?;
        }
        encoders.iter_mut().zip(&parts).try_for_each(|(encoder, part)| encoder.write(part))?;
        taken += step.num_rows();
        taken_bytes += step_bytes;
        yield_now().await;
    }
    let rows_bytes = KeyValue::new(ROWS_BYTES_KEY.to_owned(), taken_bytes.to_string());
    let mut objects = Vec::with_capacity(encoders.len());
    for Encoder { mut parquet, .. } in encoders {
        parquet.append_key_value_metadata(rows_bytes.clone());
        objects.push(parquet.into_inner().map_err(error::parquet)?);
    }
    Ok((objects, taken))
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
