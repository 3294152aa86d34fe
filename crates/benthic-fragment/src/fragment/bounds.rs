//! Limits on the Parquet files that a fragment reads.
//!
//! Parquet's decoder trusts the file: the length of a list, the depth of the schema, the size of a
//! page. A fragment shares its process and memory with an OSD, and a failed allocation aborts that
//! process. These checks therefore run before decoding. They refuse files that would need too much
//! memory, and files that two decoders could interpret differently. The client can still fetch the
//! object and read it.

use super::format::{
    COLUMN_CHUNK, DATA_PAGE, DATA_PAGE_V2, DICTIONARY_PAGE, FILE_METADATA, PAGE_HEADER, ROW_GROUP,
    SCHEMA_ELEMENT,
};
use super::thrift::{self, Event, Malformed, Structure};
use arrow::datatypes::{DataType, Schema};
use parquet::arrow::parquet_to_arrow_schema;
use parquet::basic::{Compression, ConvertedType, Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{FileMetaData, ParquetMetaData, ParquetMetaDataBuilder, RowGroupMetaData};
use parquet::schema::types::ColumnDescriptor;
use std::ptr;

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
/// Maximum length of fixed-length values, which are decimals here. A dictionary would copy a wider
/// value into every row.
const FIXED_BYTES_MAX: i32 = 16;
/// Memory of a dictionary value in addition to its bytes: one view.
const VIEW_BYTES: u64 = 16;
const PAGE_BYTES: u64 = 64;

/// `PLAIN`, `PLAIN_DICTIONARY`, `RLE`, `RLE_DICTIONARY`. Delta encodings of strings are refused
/// because a short page can decode to very much data.
const ENCODINGS: [i64; 4] = [0, 2, 3, 8];

fn corrupt(why: Malformed) -> ParquetError {
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

/// Checks a decoded footer against the columns that the plan may read. Removes the writer's hint
/// about its Arrow types: the hint could select types that copy a dictionary value into every row.
pub fn metadata(metadata: ParquetMetaData, wanted: &Schema) -> Result<ParquetMetaData> {
    let file = metadata.file_metadata();
    let columns = file.schema_descr();
    let found = parquet_to_arrow_schema(columns, None)?;
    let mut read = Vec::new();
    for field in wanted.fields() {
        let mut same = columns
            .root_schema()
            .get_fields()
            .iter()
            .enumerate()
            .filter(|(_, node)| node.name() == field.name());
        let Some((root, node)) = same.next() else { continue };
        if same.next().is_some() || !node.is_primitive() {
            return Err(refusal("a column that is nested or occurs twice"));
        }
        let leaf = (0..columns.num_columns()).find(|leaf| columns.get_column_root_idx(*leaf) == root);
        let leaf = leaf.ok_or_else(|| corrupt("a column has no values"))?;
        let column = columns.column(leaf);
        let bytes = column.physical_type() == Type::BYTE_ARRAY;
        let text = column.converted_type() == ConvertedType::UTF8;
        let as_wanted = match field.data_type() {
            // The reader validates UTF-8 only in columns with this annotation. An expression over
            // other bytes would read out of bounds.
            DataType::Utf8View => bytes && text,
            DataType::BinaryView => bytes && found.field(root).data_type() == &DataType::Binary,
            wanted => plain(&column) && becomes(found.field(root).data_type(), wanted),
        };
        if !as_wanted || column.max_rep_level() > 0 {
            return Err(refusal("a column of another type than the plan's"));
        }
        read.push(leaf);
    }
    for group in metadata.row_groups() {
        row_group(group, &read)?;
    }
    let file = FileMetaData::new(
        file.version(),
        file.num_rows(),
        None,
        None,
        file.schema_descr_ptr(),
        file.column_orders().cloned(),
    );
    let row_groups = metadata.into_builder().take_row_groups();
    Ok(ParquetMetaDataBuilder::new(file).set_row_groups(row_groups).build())
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
fn becomes(found: &DataType, wanted: &DataType) -> bool {
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

fn row_group(group: &RowGroupMetaData, read: &[usize]) -> Result<()> {
    use Compression::{LZ4_RAW, SNAPPY, UNCOMPRESSED};
    if !(0..=ROWS_MAX).contains(&group.num_rows()) {
        return Err(corrupt("a row group of too many rows"));
    }
    for chunk in read.iter().map(|leaf| group.columns().get(*leaf)) {
        let chunk = chunk.ok_or_else(|| corrupt("a row group lacks a column"))?;
        if chunk.num_values() != group.num_rows() {
            return Err(corrupt("a column has more or fewer values than there are rows"));
        }
        if !matches!(chunk.compression(), UNCOMPRESSED | SNAPPY | LZ4_RAW) {
            let why = "a compression other than Snappy and LZ4_RAW, whose results have a known size";
            return Err(refusal(why));
        }
    }
    Ok(())
}

/// Checks the column chunks of a row group before they are decompressed. Each chunk must consist of
/// whole pages.
pub fn chunks(chunks: &[bytes::Bytes]) -> Result<()> {
    let mut total_bytes = 0;
    for chunk in chunks {
        let mut rest: &[u8] = chunk;
        while !rest.is_empty() {
            let (page_bytes, next) = page(rest)?;
            total_bytes += page_bytes;
            if total_bytes > FETCH_BYTES_MAX {
                return Err(refusal("a row group whose columns are too large"));
            }
            rest = next;
        }
    }
    Ok(())
}

/// Returns the memory that the first page needs, and the bytes after the page.
fn page(data: &[u8]) -> Result<(u64, &[u8])> {
    let (mut uncompressed_bytes, mut compressed_bytes, mut dictionary_values) = (None, None, 0);
    let (mut kind, mut kinds) = (None, Vec::new());
    let body = thrift::walk(data, &PAGE_HEADER, &mut |structure: &'static Structure, event| {
        let in_page = |page: &'static Structure| ptr::eq(structure, page);
        match event {
            Event::Begin if in_page(&DATA_PAGE) => kinds.push(0),
            Event::Begin if in_page(&DICTIONARY_PAGE) => kinds.push(2),
            Event::Begin if in_page(&DATA_PAGE_V2) => kinds.push(3),
            Event::Number(1, value) if in_page(&PAGE_HEADER) => kind = Some(value),
            Event::Number(2, value) if in_page(&PAGE_HEADER) => uncompressed_bytes = Some(value),
            Event::Number(3, value) if in_page(&PAGE_HEADER) => compressed_bytes = Some(value),
            Event::Number(1, value) if in_page(&DICTIONARY_PAGE) => dictionary_values = value,
            Event::Number(2..=4, value) if in_page(&DATA_PAGE) => encoding(value)?,
            Event::Number(2, value) if in_page(&DICTIONARY_PAGE) => encoding(value)?,
            Event::Number(4, value) if in_page(&DATA_PAGE_V2) => encoding(value)?,
            _ => {}
        }
        Ok(())
    })
    .map_err(|why| if why == ENCODING { refusal(why) } else { corrupt(why) })?;
    let size = |bytes: Option<i64>| bytes.and_then(|bytes| u64::try_from(bytes).ok());
    let (Some(uncompressed_bytes), Some(compressed_bytes), true) =
        (size(uncompressed_bytes), size(compressed_bytes), kind.is_some_and(|kind| kinds == [kind]))
    else {
        return Err(corrupt("a page has no kind or no size"));
    };
    let dictionary_values = size(Some(dictionary_values)).filter(|values| *values <= uncompressed_bytes);
    let views_bytes =
        dictionary_values.ok_or_else(|| corrupt("a dictionary of more values than bytes"))? * VIEW_BYTES;
    let body = usize::try_from(compressed_bytes).ok().and_then(|len| body.get(len..));
    Ok((
        PAGE_BYTES + uncompressed_bytes.max(compressed_bytes) + views_bytes,
        body.ok_or_else(|| corrupt("a page is truncated"))?,
    ))
}

const ENCODING: Malformed = "an encoding other than plain, dictionary and runs";

fn encoding(value: i64) -> std::result::Result<(), Malformed> {
    if ENCODINGS.contains(&value) { Ok(()) } else { Err(ENCODING) }
}
