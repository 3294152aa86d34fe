//! Limits on the Parquet files that fragments and queries of S3 Select read.
//!
//! Parquet's decoder trusts the file: the length of a list, the depth of the schema, the size of a
//! page. A fragment shares its process and memory with an OSD, and a failed allocation aborts that
//! process. These checks therefore run before decoding. They refuse files that would need too much
//! memory, and files that two decoders could interpret differently. The client can still fetch the
//! object and read it.

use crate::format::{
    BLOOM_FILTER_HEADER, COLUMN_CHUNK, DATA_PAGE, DATA_PAGE_V2, DICTIONARY_PAGE, FILE_METADATA, PAGE_HEADER,
    ROW_GROUP, SCHEMA_ELEMENT,
};
use crate::thrift::{self, Event, Malformed, Structure, TRUNCATED};
use arrow_schema::{DataType, Field, FieldRef, Fields, Schema};
use flate2::read::MultiGzDecoder;
use parquet::arrow::{ARROW_SCHEMA_META_KEY, encode_arrow_schema, parquet_to_arrow_schema};
use parquet::basic::{Compression, ConvertedType, Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{
    FileMetaData, KeyValue, ParquetMetaData, ParquetMetaDataBuilder, RowGroupMetaData,
};
use parquet::schema::types::{ColumnDescriptor, SchemaDescriptor};
use std::collections::HashMap;
use std::io::Read;
use std::ptr;
use std::sync::Arc;

/// Maximum size of a footer. A decoded footer takes many times as much memory.
pub const FOOTER_BYTES_MAX: u64 = 2 * 1024 * 1024;
const SCHEMA_ELEMENTS_MAX: usize = 10_001;
const SCHEMA_DEPTH_MAX: usize = 16;
const ROW_GROUPS_MAX: usize = 4_096;
/// Maximum number of column chunks in all row groups together.
const CHUNKS_MAX: usize = 16 * 1024;
const ROWS_MAX: i64 = i32::MAX as i64;
/// Maximum size of the columns of a row group that are in memory at once. It limits the stored size
/// and the decompressed size separately.
pub const FETCH_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Maximum memory for the decoded values of all lists and maps of a row group that are read. A page
/// of a few bytes can announce two billion values, and all of them may be in one row.
pub const LISTS_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Memory of a value in a list in addition to its own bytes: its levels, and an offset.
const LEVELS_BYTES: u64 = 8;
/// Maximum length of fixed-length values, which are decimals here. A dictionary would copy a wider
/// value into every row.
const FIXED_BYTES_MAX: i32 = 16;
/// Memory of a dictionary value in addition to its bytes: one view.
const VIEW_BYTES: u64 = 16;
const PAGE_BYTES: u64 = 64;
const GZIP_BUFFER_BYTES: usize = 8 * 1024;
/// Maximum size of all Bloom filters that a scan reads. They are in memory at once.
pub const BLOOM_FILTERS_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// Maximum number of lookups of a predicate's literals in Bloom filters. The scan does not check
/// the deadline between them.
pub const BLOOM_FILTER_LOOKUPS_MAX: usize = 1_000_000;
/// Size of a block, the part of a Bloom filter that one value selects.
const BLOOM_BLOCK_BYTES: u64 = 32;

/// `PLAIN`, `PLAIN_DICTIONARY`, `RLE`, `RLE_DICTIONARY`. Delta encodings of strings are refused
/// because a short page can decode to very much data.
const ENCODINGS: [i64; 4] = [0, 2, 3, 8];

/// An error of a file that no decoder should read.
pub fn corrupt(why: &str) -> ParquetError {
    ParquetError::General(format!("the Parquet file cannot be read beside objects: {why}"))
}

/// An error after which the client reads the object itself.
pub fn refusal(why: &str) -> ParquetError {
    ParquetError::NYI(format!("not read beside objects: {why}"))
}

/// Checks the bytes of a footer before they are decoded.
pub fn footer(bytes: &[u8]) -> Result<()> {
    let (mut row_groups, mut chunks) = (0, 0);
    let mut children: Vec<i64> = Vec::new();
    thrift::walk(bytes, &FILE_METADATA, &mut |structure, event| {
        match event {
            Event::Begin if ptr::eq(structure, &SCHEMA_ELEMENT) => children.push(0),
            Event::Begin if ptr::eq(structure, &ROW_GROUP) => row_groups += 1,
            Event::Begin if ptr::eq(structure, &COLUMN_CHUNK) => chunks += 1,
            Event::Number(5, count) if ptr::eq(structure, &SCHEMA_ELEMENT) => {
                if let Some(last) = children.last_mut() {
                    *last = count;
                }
            }
            _ => {}
        }
        if row_groups > ROW_GROUPS_MAX || chunks > CHUNKS_MAX || children.len() > SCHEMA_ELEMENTS_MAX {
            return Err("too many columns or row groups");
        }
        Ok(())
    })
    .and_then(|_| tree(&children))
    .map_err(corrupt)
}

/// Checks that the child counts of the nodes, parents first, describe exactly one tree.
fn tree(children: &[i64]) -> std::result::Result<(), Malformed> {
    // Number of missing children of each open ancestor.
    let mut open: Vec<i64> = Vec::new();
    for (place, count) in children.iter().enumerate() {
        if place > 0 {
            while open.pop_if(|left| *left == 0).is_some() {}
            *open.last_mut().ok_or("the schema has several roots")? -= 1;
        }
        if *count < 0 || *count > children.len() as i64 || open.len() >= SCHEMA_DEPTH_MAX {
            return Err("the schema is too deep, or is not a tree");
        }
        open.push(*count);
    }
    if open.iter().any(|left| *left != 0) { Err("the schema is truncated") } else { Ok(()) }
}

/// Column chunks by their starts.
pub type Chunks = HashMap<u64, Chunk>;

/// The footer's facts about a column chunk.
#[derive(Clone, Copy, Debug, Default)]
pub struct Chunk {
    /// Memory for one value of lists or maps.
    pub list_value_bytes: u64,
    /// Its pages need [`check_gzip`].
    pub is_gzip: bool,
}

/// Checks a decoded footer against the columns that the plan may read. Removes the writer's hint
/// about its Arrow types: the hint could select types that copy a dictionary value into every row.
pub fn metadata(metadata: ParquetMetaData, wanted: &Schema) -> Result<(ParquetMetaData, Chunks)> {
    let file = metadata.file_metadata();
    let columns = file.schema_descr();
    let found = parquet_to_arrow_schema(columns, None)?;
    let mut hint: Vec<FieldRef> = found.fields().to_vec();
    let mut read = Vec::new();
    for field in wanted.fields() {
        let mut same = columns
            .root_schema()
            .get_fields()
            .iter()
            .enumerate()
            .filter(|(_, node)| node.name() == field.name());
        let Some((root, node)) = same.next() else { continue };
        let mut leaves = (0..columns.num_columns()).filter(|leaf| columns.get_column_root_idx(*leaf) == root);
        let is_repeated =
            node.is_primitive() && leaves.clone().any(|leaf| columns.column(leaf).max_rep_level() > 0);
        if same.next().is_some() || is_repeated {
            return Err(refusal("a column that is repeated or occurs twice"));
        }
        read.extend(leaves.clone());
        if !becomes(columns, &mut leaves, hint[root].data_type(), field.data_type())
            || leaves.next().is_some()
        {
            return Err(refusal("a column of another type than the plan's"));
        }
        hint[root] = with_views(&hint[root]);
    }
    let chunks = row_groups(&metadata, &read)?;
    // Without a hint, the reader would read the strings in lists and structs as types that copy
    // them.
    let is_nested = wanted.fields().iter().any(|field| field.data_type().is_nested());
    let hint = is_nested.then(|| encode_arrow_schema(&Schema::new(hint)));
    let file = FileMetaData::new(
        file.version(),
        file.num_rows(),
        None,
        hint.map(|hint| vec![KeyValue::new(ARROW_SCHEMA_META_KEY.to_owned(), hint)]),
        file.schema_descr_ptr(),
        file.column_orders().cloned(),
    );
    let row_groups = metadata.into_builder().take_row_groups();
    Ok((ParquetMetaDataBuilder::new(file).set_row_groups(row_groups).build(), chunks))
}

/// A field with views for its strings, which do not copy them.
pub fn with_string_views(field: &FieldRef) -> FieldRef {
    let data_type = match field.data_type() {
        DataType::Utf8 => DataType::Utf8View,
        DataType::Binary => DataType::BinaryView,
        _ => return with_views(field),
    };
    Arc::new(Field::clone(field).with_data_type(data_type))
}

/// A nested field with views for its strings. Other fields stay as they are: the scan itself
/// chooses their types.
fn with_views(field: &FieldRef) -> FieldRef {
    let data_type = match field.data_type() {
        DataType::List(item) => DataType::List(with_string_views(item)),
        DataType::Map(entries, sorted) => DataType::Map(with_string_views(entries), *sorted),
        DataType::Struct(fields) => {
            DataType::Struct(fields.iter().map(with_string_views).collect::<Fields>())
        }
        _ => return Arc::clone(field),
    };
    Arc::new(Field::clone(field).with_data_type(data_type))
}

/// Whether the next leaves of the file, which have the type `found` without the writer's hint, can
/// be read as the plan's type.
fn becomes(
    columns: &SchemaDescriptor,
    leaves: &mut dyn Iterator<Item = usize>,
    found: &DataType,
    wanted: &DataType,
) -> bool {
    use DataType::{LargeList, List, Map, Struct};
    match (found, wanted) {
        (List(found), List(wanted) | LargeList(wanted)) => {
            becomes(columns, leaves, found.data_type(), wanted.data_type())
        }
        (Map(found, _), Map(wanted, _)) => match (found.data_type(), wanted.data_type()) {
            (Struct(found), Struct(wanted)) => all_become(columns, leaves, found, wanted),
            _ => false,
        },
        (Struct(found), Struct(wanted)) => {
            let same = |(found, wanted): (&FieldRef, &FieldRef)| found.name() == wanted.name();
            found.iter().zip(wanted).all(same) && all_become(columns, leaves, found, wanted)
        }
        _ if found.is_nested() || wanted.is_nested() => false,
        _ => leaves.next().is_some_and(|leaf| value_becomes(&columns.column(leaf), found, wanted)),
    }
}

fn all_become(
    columns: &SchemaDescriptor,
    leaves: &mut dyn Iterator<Item = usize>,
    found: &Fields,
    wanted: &Fields,
) -> bool {
    let mut pairs = found.iter().zip(wanted);
    found.len() == wanted.len()
        && pairs.all(|(found, wanted)| becomes(columns, leaves, found.data_type(), wanted.data_type()))
}

fn value_becomes(column: &ColumnDescriptor, found: &DataType, wanted: &DataType) -> bool {
    let bytes = column.physical_type() == Type::BYTE_ARRAY;
    match wanted {
        // The reader validates UTF-8 only in columns with this annotation. An expression over
        // other bytes would read out of bounds.
        DataType::Utf8View => bytes && column.converted_type() == ConvertedType::UTF8,
        DataType::BinaryView => bytes && found == &DataType::Binary,
        wanted => plain(column) && casts(found, wanted),
    }
}

fn plain(column: &ColumnDescriptor) -> bool {
    match column.physical_type() {
        Type::BYTE_ARRAY | Type::INT96 => false,
        Type::FIXED_LEN_BYTE_ARRAY => column.type_length() <= FIXED_BYTES_MAX,
        _ => true,
    }
}

/// Whether a type that was inferred without the writer's hint casts to the plan's type in the same
/// way as with the hint.
fn casts(found: &DataType, wanted: &DataType) -> bool {
    use DataType::{Decimal128, Timestamp};
    match (found, wanted) {
        (Timestamp(found, Some(_)), Timestamp(wanted, Some(_))) => found == wanted,
        (Decimal128(found, scale), Decimal128(wanted, wanted_scale)) => {
            found <= wanted && scale == wanted_scale
        }
        _ => {
            found == wanted
                || (found.is_integer() && wanted.is_integer())
                || (found.is_floating() && wanted.is_floating())
        }
    }
}

/// Checks the column chunks of these leaves in all row groups.
///
/// # Errors
/// Chunks that do not fit the schema or that need too much memory.
pub fn row_groups(metadata: &ParquetMetaData, leaves: &[usize]) -> Result<Chunks> {
    let columns = metadata.file_metadata().schema_descr();
    let mut chunks = Chunks::new();
    for group in metadata.row_groups() {
        row_group(group, columns, leaves, &mut chunks)?;
    }
    Ok(chunks)
}

fn row_group(
    group: &RowGroupMetaData,
    columns: &SchemaDescriptor,
    read: &[usize],
    chunks: &mut Chunks,
) -> Result<()> {
    use Compression::{GZIP, LZ4_RAW, SNAPPY, UNCOMPRESSED, ZSTD};
    if !(0..=ROWS_MAX).contains(&group.num_rows()) {
        return Err(corrupt("a row group of too many rows"));
    }
    for leaf in read {
        let chunk = group.columns().get(*leaf).ok_or_else(|| corrupt("a row group lacks a column"))?;
        let column = columns.column(*leaf);
        let start = chunk.dictionary_page_offset().unwrap_or(chunk.data_page_offset());
        if start < 0 || chunk.compressed_size() < 0 {
            return Err(corrupt("a column chunk has no place"));
        }
        let found = chunks.entry(chunk.byte_range().0).or_default();
        found.is_gzip |= matches!(chunk.compression(), GZIP(_));
        if column.max_rep_level() > 0 {
            found.list_value_bytes = found.list_value_bytes.max(LEVELS_BYTES + width(&column));
        } else if chunk.num_values() != group.num_rows() {
            return Err(corrupt("a column has more or fewer values than there are rows"));
        }
        // Of these, the decoder writes at most as many bytes as the page header says. For gzip,
        // `check_gzip` checks it.
        if !matches!(chunk.compression(), UNCOMPRESSED | SNAPPY | LZ4_RAW | ZSTD(_) | GZIP(_)) {
            return Err(refusal("a compression other than Snappy, LZ4_RAW, Zstandard and gzip"));
        }
    }
    Ok(())
}

/// Memory of a decoded value.
pub fn width(column: &ColumnDescriptor) -> u64 {
    match column.physical_type() {
        Type::BOOLEAN => 1,
        Type::INT32 | Type::FLOAT => 4,
        Type::INT64 | Type::DOUBLE => 8,
        Type::FIXED_LEN_BYTE_ARRAY => VIEW_BYTES.max(u64::try_from(column.type_length()).unwrap_or(u64::MAX)),
        Type::INT96 | Type::BYTE_ARRAY => VIEW_BYTES,
    }
}

/// Checks the column chunks of a row group before they are decompressed. Each chunk must consist of
/// whole pages.
pub fn chunks<'c>(chunks: impl Iterator<Item = (&'c [u8], Chunk)>) -> Result<()> {
    let (mut total_bytes, mut lists_bytes) = (0, 0_u64);
    for (data, chunk) in chunks {
        let mut rest = data;
        while !rest.is_empty() {
            let page = page(rest)?;
            total_bytes += page.memory_bytes;
            lists_bytes = lists_bytes.saturating_add(page.values.saturating_mul(chunk.list_value_bytes));
            if total_bytes > FETCH_BYTES_MAX || lists_bytes > LISTS_BYTES_MAX {
                return Err(refusal("a row group whose columns are too large"));
            }
            // After the check of the size, which the header claims: this takes time.
            if chunk.is_gzip {
                check_gzip(&page)?;
            }
            rest = page.rest;
        }
    }
    Ok(())
}

/// Checks that a page is not longer than its header says. The decoder of gzip does not know the
/// size and writes until the input ends, so the page is decompressed here into nothing first.
pub fn check_gzip(page: &Page<'_>) -> Result<()> {
    // An incomplete page is an error of the decoder.
    let mut found = MultiGzDecoder::new(page.compressed).take(page.decompressed_bytes + 1);
    let mut buffer = [0; GZIP_BUFFER_BYTES];
    let mut len_bytes = 0;
    while let Ok(count @ 1..) = found.read(&mut buffer) {
        len_bytes += count as u64;
    }
    if len_bytes > page.decompressed_bytes {
        return Err(corrupt("a page is longer than its header says"));
    }
    Ok(())
}

/// Checks the header of a Bloom filter before it is decoded. Returns the size of the header, and
/// that of the filter which follows.
pub fn bloom_filter(bytes: &[u8]) -> Result<(u64, u64)> {
    let mut filter_bytes = None;
    let rest = thrift::walk(bytes, &BLOOM_FILTER_HEADER, &mut |structure: &'static Structure, event| {
        if let Event::Number(1, value) = event
            && ptr::eq(structure, &BLOOM_FILTER_HEADER)
        {
            filter_bytes = u64::try_from(value).ok();
        }
        Ok(())
    })
    .map_err(corrupt)?;
    match filter_bytes {
        Some(filter_bytes) if filter_bytes > 0 && filter_bytes % BLOOM_BLOCK_BYTES == 0 => {
            Ok(((bytes.len() - rest.len()) as u64, filter_bytes))
        }
        _ => Err(corrupt("a Bloom filter has no blocks, or an incomplete one")),
    }
}

/// A page of a column chunk.
pub struct Page<'a> {
    /// Memory of the stored or of the decompressed page, and of a dictionary's views.
    pub memory_bytes: u64,
    compressed: &'a [u8],
    /// Size of these bytes by the header.
    decompressed_bytes: u64,
    /// Number of values, nulls and empty lists included.
    pub values: u64,
    /// The bytes after the page.
    pub rest: &'a [u8],
}

/// Reads the page at the start of these bytes.
///
/// # Errors
/// A page that must not be decoded, or that is longer than the bytes.
pub fn page(data: &[u8]) -> Result<Page<'_>> {
    let header = page_header(data)?.ok_or_else(|| corrupt(TRUNCATED))?;
    let stored = usize::try_from(header.stored_bytes).ok();
    let split = stored.and_then(|len| data[header.len_bytes..].split_at_checked(len));
    let (stored, rest) = split.ok_or_else(|| corrupt("a page is truncated"))?;
    let compressed = usize::try_from(header.levels_bytes).ok().and_then(|levels| stored.get(levels..));
    Ok(Page {
        compressed: compressed.ok_or_else(|| corrupt("a page has more levels than bytes"))?,
        decompressed_bytes: header.uncompressed_bytes - header.levels_bytes,
        memory_bytes: header.memory_bytes(),
        values: header.values,
        rest,
    })
}

/// The header of a page.
pub struct PageHeader {
    /// Size of the header.
    pub len_bytes: usize,
    /// Size of the page without the header, as it is stored.
    pub stored_bytes: u64,
    uncompressed_bytes: u64,
    levels_bytes: u64,
    views_bytes: u64,
    /// Number of values of a page of data; 0 of a dictionary.
    pub values: u64,
    /// A page of data, not a dictionary.
    pub has_data: bool,
}

impl PageHeader {
    /// Memory of the stored or of the decompressed page, and of a dictionary's views.
    pub fn memory_bytes(&self) -> u64 {
        PAGE_BYTES + self.uncompressed_bytes.max(self.stored_bytes) + self.views_bytes
    }
}

/// Reads the header of a page; `None` if it is longer than these bytes.
///
/// # Errors
/// A page that must not be decoded.
pub fn page_header(data: &[u8]) -> Result<Option<PageHeader>> {
    let (mut uncompressed_bytes, mut compressed_bytes, mut dictionary_values) = (None, None, 0);
    let (mut kind, mut kinds, mut values, mut levels_bytes) = (None, Vec::new(), 0, 0_i64);
    let walked = thrift::walk(data, &PAGE_HEADER, &mut |structure: &'static Structure, event| {
        let in_page = |page: &'static Structure| ptr::eq(structure, page);
        match event {
            Event::Begin if in_page(&DATA_PAGE) => kinds.push(0),
            Event::Begin if in_page(&DICTIONARY_PAGE) => kinds.push(2),
            Event::Begin if in_page(&DATA_PAGE_V2) => kinds.push(3),
            Event::Number(1, value) if in_page(&PAGE_HEADER) => kind = Some(value),
            Event::Number(2, value) if in_page(&PAGE_HEADER) => uncompressed_bytes = Some(value),
            Event::Number(3, value) if in_page(&PAGE_HEADER) => compressed_bytes = Some(value),
            Event::Number(1, value) if in_page(&DICTIONARY_PAGE) => dictionary_values = value,
            Event::Number(1, value) if in_page(&DATA_PAGE) || in_page(&DATA_PAGE_V2) => values = value,
            Event::Number(2..=4, value) if in_page(&DATA_PAGE) => encoding(value)?,
            Event::Number(2, value) if in_page(&DICTIONARY_PAGE) => encoding(value)?,
            Event::Number(4, value) if in_page(&DATA_PAGE_V2) => encoding(value)?,
            // Levels, which are not compressed.
            Event::Number(5 | 6, value) if in_page(&DATA_PAGE_V2) => {
                levels_bytes = levels_bytes.saturating_add(value);
            }
            _ => {}
        }
        Ok(())
    });
    let body = match walked {
        Ok(body) => body,
        Err(TRUNCATED) => return Ok(None),
        Err(why) => return Err(if why == ENCODING { refusal(why) } else { corrupt(why) }),
    };
    let size = |bytes: Option<i64>| bytes.and_then(|bytes| u64::try_from(bytes).ok());
    let (Some(uncompressed_bytes), Some(stored_bytes), Some(values), true) = (
        size(uncompressed_bytes),
        size(compressed_bytes),
        size(Some(values)),
        kind.is_some_and(|kind| kinds == [kind]),
    ) else {
        return Err(corrupt("a page has no kind or no size"));
    };
    let dictionary_values = size(Some(dictionary_values)).filter(|values| *values <= uncompressed_bytes);
    let views_bytes =
        dictionary_values.ok_or_else(|| corrupt("a dictionary of more values than bytes"))? * VIEW_BYTES;
    let levels_bytes = size(Some(levels_bytes)).filter(|levels| *levels <= uncompressed_bytes);
    Ok(Some(PageHeader {
        len_bytes: data.len() - body.len(),
        stored_bytes,
        uncompressed_bytes,
        levels_bytes: levels_bytes.ok_or_else(|| corrupt("a page has more levels than bytes"))?,
        views_bytes,
        values,
        has_data: kind != Some(2),
    }))
}

const ENCODING: Malformed = "an encoding other than plain, dictionary and runs";

fn encoding(value: i64) -> std::result::Result<(), Malformed> {
    if ENCODINGS.contains(&value) { Ok(()) } else { Err(ENCODING) }
}
