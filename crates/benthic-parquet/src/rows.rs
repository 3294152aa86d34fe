//! The rows of a Parquet object, for S3 Select.
//!
//! The reader decodes only the columns of the query, a batch of rows at a time, and holds the pages
//! of one batch: see [`Feed`]. It skips row groups whose statistics of integers exclude all rows.
//! The same code runs in an OSD, as the method `select` of the class `table`, and in the S3
//! gateway.

use crate::bounds::{self, Chunks};
use crate::cells::{self, cell, is_supported, unsupported_type};
use crate::feed::{Budget, Feed, Window, fault_of, too_large};
use arrow_array::ArrayRef;
use arrow_schema::{DataType, Field, Fields, TimeUnit};
use benthic_classes::select::wire::Totals;
use benthic_classes::select::{Cell, Failure, Fault, Host, IntegerRange, Rows, Select};
use bytes::Bytes;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, RowGroups};
use parquet::arrow::{FieldLevels, ProjectionMask, parquet_to_arrow_field_levels, parquet_to_arrow_schema};
use parquet::basic::{Compression, ConvertedType, LogicalType, Type};
use parquet::column::page::{PageIterator, PageReader};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::FOOTER_SIZE;
use parquet::file::metadata::{FooterTail, ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData};
use parquet::file::reader::SerializedPageReader;
use parquet::file::statistics::Statistics;
use parquet::schema::types::ColumnDescriptor;
use std::collections::HashMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Memory of a query: the pages of a batch, the values of lists, the batch, the footer, and the
/// evaluator's memory.
pub const MEMORY_BYTES: u64 = 240 * 1024 * 1024;
/// Size of the first read, at the end of the object. It contains the whole footer of most objects.
const FOOTER_GUESS_BYTES: u64 = 64 * 1024;
/// Rows of a batch, at most, and the bytes of their values that a batch should have.
const BATCH_ROWS_MAX: u64 = 1024;
const BATCH_BYTES: u64 = 4 * 1024 * 1024;
/// Rows that have no columns count together.
const EMPTY_ROWS: u64 = 64 * 1024;
/// Limit of values of a fixed length. The decoder copies them.
const FIXED_BYTES_MAX: i32 = 64 * 1024;
/// Bytes that the windows of all columns read ahead together, and the bounds for one column.
const AHEAD_BYTES: u64 = 16 * 1024 * 1024;
const AHEAD_OF_COLUMN: Range<u64> = 64 * 1024..1024 * 1024;

/// Runs a query on a Parquet object of this size.
///
/// # Errors
/// A fault of the data or of the query for them; the host's own errors. Records before it were
/// written.
pub fn run(select: &Select, host: &mut dyn Host, size_bytes: u64) -> Result<Totals, Fault> {
    if !select.needs_rows() {
        return Err(Failure::new("InvalidDataSource", "the query is not one on Parquet").into());
    }
    let mut rows = Parquet::open(host, size_bytes)?;
    select.run_rows(&mut rows, host)
}

/// The rows of a Parquet object.
pub struct Parquet {
    metadata: Arc<ParquetMetaData>,
    names: Vec<String>,
    /// The types of all columns, with views.
    types: Fields,
    source: Source,
    opened: Opened,
    /// The row group after the one that is read.
    next_group: usize,
    group: Option<Group>,
    /// The columns of the batch.
    batch: Vec<ArrayRef>,
}

/// The parts of the object that the query reads.
#[derive(Default)]
struct Opened {
    leaves: Vec<usize>,
    chunks: Chunks,
    levels: Option<FieldLevels>,
    /// The place in a batch of each column; `None` if the query does not read it.
    places: Vec<Option<usize>>,
    count: usize,
    /// Memory of a row in arrays, without the texts of views.
    row_bytes: u64,
    /// The integers of leaves that the query can select.
    ranges: Vec<IntegerRange>,
}

impl Opened {
    /// Whether the statistics of a row group exclude all of its rows.
    fn excludes(&self, group: &RowGroupMetaData) -> bool {
        self.ranges.iter().any(|(leaf, range)| {
            let found = match group.column(*leaf).statistics() {
                Some(Statistics::Int32(found)) => (
                    found.min_opt().map(|least| i128::from(*least)),
                    found.max_opt().map(|most| i128::from(*most)),
                ),
                Some(Statistics::Int64(found)) => (
                    found.min_opt().map(|least| i128::from(*least)),
                    found.max_opt().map(|most| i128::from(*most)),
                ),
                _ => (None, None),
            };
            matches!(found, (Some(least), Some(most)) if least > *range.end() || most < *range.start())
        })
    }
}

/// A row group that is being read.
struct Group {
    rows: u64,
    done: u64,
    batch_rows: u64,
    feeds: Vec<Feed>,
    budget: Budget,
    reader: ParquetRecordBatchReader,
}

/// Reads ranges of the object.
struct Source {
    size_bytes: u64,
    /// The end of the object, from this place on.
    tail: (u64, Bytes),
    scanned_bytes: u64,
}

impl Source {
    fn read(&mut self, host: &mut dyn Host, range: Range<u64>) -> Result<Bytes, Fault> {
        if range.start > range.end || range.end > self.size_bytes {
            return Err(corrupt("the footer points beyond the end of the object"));
        }
        if range.start >= self.tail.0 {
            let at = |place: u64| (place - self.tail.0) as usize;
            return Ok(self.tail.1.slice(at(range.start)..at(range.end)));
        }
        self.scanned_bytes += range.end - range.start;
        Ok(host.read_range(range)?)
    }
}

fn corrupt(why: &str) -> Fault {
    fault_of(&bounds::corrupt(why))
}

fn parse_result<T>(result: ParquetResult<T>) -> Result<T, Fault> {
    result.map_err(|error| fault_of(&error))
}

/// Runs Parquet's decoder, which may panic at data that it does not expect.
fn catch_panic<T>(decode: impl FnOnce() -> ParquetResult<T>) -> Result<T, Fault> {
    match catch_unwind(AssertUnwindSafe(decode)) {
        Ok(result) => parse_result(result),
        Err(_) => Err(corrupt("the decoder does not expect such data")),
    }
}

impl Parquet {
    /// Reads the footer.
    ///
    /// # Errors
    /// An object that is not a Parquet file, or one that must not be decoded; the host's own
    /// errors.
    pub fn open(host: &mut dyn Host, size_bytes: u64) -> Result<Parquet, Fault> {
        let mut source = Source { size_bytes, tail: (size_bytes, Bytes::new()), scanned_bytes: 0 };
        let start = size_bytes.saturating_sub(FOOTER_GUESS_BYTES);
        let tail = source.read(host, start..size_bytes)?;
        source.tail = (start, tail.clone());
        let last = tail.last_chunk().ok_or_else(|| corrupt("the object is too short"))?;
        let last = parse_result(FooterTail::try_new(last))?;
        let footer_bytes = last.metadata_length() as u64;
        if last.is_encrypted_footer() {
            return Err(fault_of(&bounds::refusal("an encrypted footer")));
        }
        if footer_bytes > bounds::FOOTER_BYTES_MAX {
            return Err(too_large("the footer is larger than 2 MiB"));
        }
        let end = size_bytes - FOOTER_SIZE as u64;
        let start = end.checked_sub(footer_bytes).ok_or_else(|| corrupt("the object is too short"))?;
        let footer = source.read(host, start..end)?;
        parse_result(bounds::footer(&footer))?;
        let metadata = catch_panic(|| ParquetMetaDataReader::decode_metadata(&footer))?;
        let columns = metadata.file_metadata().schema_descr();
        let names: Vec<String> =
            columns.root_schema().get_fields().iter().map(|field| field.name().to_owned()).collect();
        let found = catch_panic(|| parquet_to_arrow_schema(columns, None))?;
        if found.fields().len() != names.len() {
            return Err(fault_of(&bounds::refusal("a group without columns")));
        }
        let roots = columns.root_schema().get_fields();
        let types = found.fields().iter().zip(roots).map(|(field, root)| {
            // Nanoseconds in 64 bits end in 2262, and Spark writes the year 9999. So the decoder
            // makes microseconds of the old type of times.
            if root.is_primitive() && root.get_physical_type() == Type::INT96 {
                let micros = DataType::Timestamp(TimeUnit::Microsecond, None);
                return Arc::new(Field::clone(field).with_data_type(micros));
            }
            bounds::with_string_views(field)
        });
        let types = types.collect();
        Ok(Parquet {
            metadata: Arc::new(metadata),
            names,
            types,
            source,
            opened: Opened::default(),
            next_group: 0,
            group: None,
            batch: Vec::new(),
        })
    }

    fn begin(&self, index: usize) -> Result<Group, Fault> {
        let group = self.metadata.row_group(index);
        let rows = u64::try_from(group.num_rows()).map_err(|_| corrupt("a row group of too many rows"))?;
        let columns = self.metadata.file_metadata().schema_descr();
        let opened = &self.opened;
        let count = (opened.leaves.len() as u64).max(1);
        let read_bytes = (AHEAD_BYTES / count).clamp(AHEAD_OF_COLUMN.start, AHEAD_OF_COLUMN.end);
        let mut feeds = Vec::new();
        let mut windows = HashMap::new();
        let mut data_bytes = 0_u64;
        for leaf in &opened.leaves {
            let column = group.column(*leaf);
            let (start, len_bytes) = column.byte_range();
            let end = start.checked_add(len_bytes).filter(|end| *end <= self.source.size_bytes);
            let end = end.ok_or_else(|| corrupt("the footer points beyond the end of the object"))?;
            let chunk = opened.chunks.get(&start).copied().unwrap_or_default();
            let has_lists = columns.column(*leaf).max_rep_level() > 0;
            let feed = Feed::new(start..end, chunk, has_lists, read_bytes);
            windows.insert(*leaf, feed.window());
            feeds.push(feed);
            let values = u64::try_from(column.num_values()).unwrap_or(u64::MAX);
            data_bytes = data_bytes
                .saturating_add(u64::try_from(column.uncompressed_size()).unwrap_or(u64::MAX))
                .saturating_add(values.saturating_mul(chunk.list_value_bytes));
        }
        let row_bytes = opened.row_bytes.max(data_bytes / rows.max(1)).max(1);
        let batch_rows = (BATCH_BYTES / row_bytes).clamp(1, BATCH_ROWS_MAX);
        let one = OneGroup { metadata: &self.metadata, index, rows: rows as usize, windows };
        let levels = opened.levels.as_ref().ok_or_else(|| corrupt("no columns are open"))?;
        let reader = catch_panic(|| {
            ParquetRecordBatchReader::try_new_with_row_groups(levels, &one, batch_rows as usize, None)
        })?;
        Ok(Group { rows, done: 0, batch_rows, feeds, budget: Budget::full(), reader })
    }
}

impl Rows for Parquet {
    fn names(&self) -> &[String] {
        &self.names
    }

    fn open(&mut self, columns: &[usize], ranges: &[IntegerRange]) -> Result<(), Fault> {
        let schema = self.metadata.file_metadata().schema_descr();
        let leaves: Vec<usize> = (0..schema.num_columns())
            .filter(|leaf| columns.contains(&schema.get_column_root_idx(*leaf)))
            .collect();
        let mut row_bytes = 0;
        for column in columns {
            if !is_supported(self.types[*column].data_type()) {
                return Err(unsupported_type(self.types[*column].data_type()));
            }
        }
        for leaf in &leaves {
            let leaf = schema.column(*leaf);
            // The decoder would copy a text for each number.
            let is_wide = match leaf.physical_type() {
                Type::BYTE_ARRAY => is_decimal(&leaf),
                Type::FIXED_LEN_BYTE_ARRAY => !(0..=FIXED_BYTES_MAX).contains(&leaf.type_length()),
                _ => false,
            };
            if is_wide {
                return Err(fault_of(&bounds::refusal(
                    "decimals of any length, or values of a fixed length above 64 KiB",
                )));
            }
            if leaf.physical_type() == Type::INT96 && leaf.path().parts().len() > 1 {
                return Err(fault_of(&bounds::refusal("times of the type INT96 in lists, structs and maps")));
            }
            row_bytes += bounds::width(&leaf) + 1;
        }
        for group in self.metadata.row_groups() {
            for leaf in &leaves {
                check_compression(group, *leaf)?;
            }
        }
        let chunks = parse_result(bounds::row_groups(&self.metadata, &leaves))?;
        let mask = ProjectionMask::roots(schema, columns.iter().copied());
        let levels = catch_panic(|| parquet_to_arrow_field_levels(schema, mask, Some(&self.types)))?;
        let mut places = vec![None; self.names.len()];
        let mut ordered = columns.to_vec();
        ordered.sort_unstable();
        for (place, column) in ordered.into_iter().enumerate() {
            places[column] = Some(place);
        }
        let of_leaf = |(column, range): &IntegerRange| {
            let leaf = leaves.iter().find(|leaf| schema.get_column_root_idx(**leaf) == *column)?;
            self.types[*column].data_type().is_signed_integer().then(|| (*leaf, range.clone()))
        };
        let ranges = ranges.iter().filter_map(of_leaf).collect();
        let count = columns.len();
        self.opened = Opened { leaves, chunks, levels: Some(levels), places, count, row_bytes, ranges };
        Ok(())
    }

    fn next(&mut self, host: &mut dyn Host, totals: &mut Totals) -> Result<usize, Fault> {
        self.batch.clear();
        loop {
            host.check(*totals)?;
            let Some(group) = &mut self.group else {
                if self.next_group == self.metadata.num_row_groups() {
                    return Ok(0);
                }
                if !self.opened.excludes(self.metadata.row_group(self.next_group)) {
                    self.group = Some(self.begin(self.next_group)?);
                }
                self.next_group += 1;
                continue;
            };
            if group.done == group.rows {
                self.group = None;
                continue;
            }
            let left = group.rows - group.done;
            if self.opened.count == 0 {
                let count = left.min(EMPTY_ROWS);
                group.done += count;
                totals.scanned_bytes = self.source.scanned_bytes;
                return Ok(count as usize);
            }
            let count = left.min(group.batch_rows);
            for feed in &mut group.feeds {
                feed.free(group.done, &mut group.budget);
            }
            let source = &mut self.source;
            for feed in &mut group.feeds {
                let mut read = |range| source.read(host, range);
                let processed = feed.advance(group.done + count, &mut group.budget, &mut read);
                totals.scanned_bytes = source.scanned_bytes;
                totals.processed_bytes += processed?;
                host.check(*totals)?;
            }
            let reader = &mut group.reader;
            let batch = catch_panic(|| reader.next().transpose().map_err(ParquetError::from))?;
            let batch = batch.filter(|batch| batch.num_rows() as u64 == count);
            let batch = batch.ok_or_else(|| corrupt("a column has fewer rows than its row group"))?;
            group.done += count;
            self.batch = batch.columns().iter().map(cells::as_bytes).collect();
            return Ok(count as usize);
        }
    }

    fn cell(&self, column: usize, row: usize) -> Result<Cell<'_>, Fault> {
        let place = self.opened.places.get(column).copied().flatten();
        match place.and_then(|place| self.batch.get(place)).filter(|values| row < values.len()) {
            Some(values) => cell(values, row),
            None => Err(corrupt("a column is not open")),
        }
    }
}

fn is_decimal(leaf: &ColumnDescriptor) -> bool {
    leaf.converted_type() == ConvertedType::DECIMAL
        || matches!(leaf.logical_type_ref(), Some(LogicalType::Decimal { .. }))
}

fn check_compression(group: &RowGroupMetaData, leaf: usize) -> Result<(), Fault> {
    let codec = group.columns().get(leaf).map(|chunk| chunk.compression());
    match codec {
        Some(codec @ (Compression::LZO | Compression::BROTLI(_) | Compression::LZ4)) => {
            let message =
                format!("the compression {codec} is not supported; use Snappy, Zstandard, LZ4_RAW or gzip");
            Err(Failure::new("ParquetUnsupportedCompressionCodec", message).into())
        }
        _ => Ok(()),
    }
}

/// One row group, whose pages are in the windows.
struct OneGroup<'a> {
    metadata: &'a ParquetMetaData,
    index: usize,
    rows: usize,
    windows: HashMap<usize, Arc<Window>>,
}

impl RowGroups for OneGroup<'_> {
    fn num_rows(&self) -> usize {
        self.rows
    }

    fn column_chunks(&self, leaf: usize) -> ParquetResult<Box<dyn PageIterator>> {
        let window = self.windows.get(&leaf);
        let window = window.ok_or_else(|| ParquetError::General("a column is not open".to_owned()))?;
        let chunk = self.metadata.row_group(self.index).column(leaf);
        let pages = SerializedPageReader::new(Arc::clone(window), chunk, self.rows, None)?;
        Ok(Box::new(OneChunk(Some(Box::new(pages)))))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(std::iter::once(self.metadata.row_group(self.index)))
    }

    fn metadata(&self) -> &ParquetMetaData {
        self.metadata
    }
}

/// The pages of the only chunk of a column.
struct OneChunk(Option<Box<dyn PageReader>>);

impl Iterator for OneChunk {
    type Item = ParquetResult<Box<dyn PageReader>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.take().map(Ok)
    }
}

impl PageIterator for OneChunk {}
