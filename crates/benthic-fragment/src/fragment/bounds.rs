//! What an object may ask of its reader. Parquet's decoder believes what a file says of itself: how long a list is, how
//! large a page will be. A fragment that runs beside an object has a memory that others share, so what would take too much
//! of it is refused before it is decoded; the client can still fetch the object and read it.

use super::thrift::{self, Field, Malformed};
use parquet::basic::{Compression, Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{FileMetaData, ParquetMetaData, ParquetMetaDataBuilder};

/// Largest footer, page index of a row group, or anything else that describes data.
pub const DESCRIPTION_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// Largest page, decompressed; usual are 1 MiB.
const PAGE_BYTES_MAX: i64 = 8 * 1024 * 1024;
/// Values of one page; of a dictionary at most its bytes.
const PAGE_VALUES_MAX: i64 = 16 * 1024 * 1024;
/// Columns of fixed width: decimals, identifiers, intervals. A dictionary would repeat a wide one in every row.
const FIXED_BYTES_MAX: i32 = 16;

/// `PLAIN`, `PLAIN_DICTIONARY`, `RLE`, `RLE_DICTIONARY`. Deltas of strings make much of little.
const ENCODINGS: [i64; 4] = [0, 2, 3, 8];

const UNCOMPRESSED_BYTES: Field = Field { parent: 0, id: 2 };
const COMPRESSED_BYTES: Field = Field { parent: 0, id: 3 };
const DICTIONARY_VALUES: Field = Field { parent: 7, id: 1 };
/// How many values, in the three kinds of pages.
const VALUES: [Field; 3] = [Field { parent: 5, id: 1 }, DICTIONARY_VALUES, Field { parent: 8, id: 1 }];
/// The encodings: of values and of levels.
const ENCODED: [Field; 5] = [
    Field { parent: 5, id: 2 },
    Field { parent: 5, id: 3 },
    Field { parent: 5, id: 4 },
    Field { parent: 7, id: 2 },
    Field { parent: 8, id: 4 },
];

fn corrupt(why: Malformed) -> ParquetError {
    ParquetError::General(format!("not a good Parquet file: {why}"))
}

fn refused(why: &str) -> ParquetError {
    ParquetError::NYI(format!("not read beside objects: {why}"))
}

/// Checks a footer, a column index or an offset index before it is decoded.
pub fn description(bytes: &[u8]) -> Result<()> {
    thrift::skip(bytes, &mut |_, _| {}).map(drop).map_err(corrupt)
}

/// Checks a decoded footer, and takes from it the hint what Arrow types the writer had: the plan says what types it wants,
/// and a hint could name some that copy a dictionary's value for every row.
pub fn footer(metadata: ParquetMetaData) -> Result<ParquetMetaData> {
    let columns = metadata.file_metadata().schema_descr().columns();
    if columns.iter().any(|column| {
        column.physical_type() == Type::FIXED_LEN_BYTE_ARRAY && column.type_length() > FIXED_BYTES_MAX
    }) {
        return Err(refused("a column of wide values"));
    }
    let mut chunks = metadata.row_groups().iter().flat_map(|group| group.columns());
    if !chunks.all(|chunk| {
        matches!(chunk.compression(), Compression::UNCOMPRESSED | Compression::SNAPPY | Compression::LZ4_RAW)
    }) {
        return Err(refused("a compression other than Snappy and LZ4_RAW, whose results have a known size"));
    }
    let file = metadata.file_metadata();
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

/// Checks the page indexes in a part of the object, before they are decoded.
pub fn indexes(metadata: &ParquetMetaData, start: u64, bytes: &[u8]) -> Result<()> {
    let part = |offset: Option<i64>, len: Option<i32>| {
        let at = usize::try_from(u64::try_from(offset?).ok()?.checked_sub(start)?).ok()?;
        bytes.get(at..at.checked_add(usize::try_from(len?).ok()?)?)
    };
    let mut chunks = metadata.row_groups().iter().flat_map(|group| group.columns());
    chunks.try_for_each(|chunk| {
        let indexes = [
            part(chunk.column_index_offset(), chunk.column_index_length()),
            part(chunk.offset_index_offset(), chunk.offset_index_length()),
        ];
        indexes.into_iter().flatten().try_for_each(description)
    })
}

/// Checks pages that follow each other, before they are decompressed.
pub fn pages(mut data: &[u8]) -> Result<()> {
    while !data.is_empty() {
        data = page(data)?;
    }
    Ok(())
}

fn page(data: &[u8]) -> Result<&[u8]> {
    let (mut uncompressed_bytes, mut compressed_bytes, mut dictionary_values) = (None, None, 0);
    let mut bad = None;
    let body = thrift::skip(data, &mut |field, value| match field {
        // Whichever of two the decoder takes, this might have looked at the other.
        UNCOMPRESSED_BYTES if uncompressed_bytes.replace(value).is_some() => {
            bad = Some("a page has two sizes")
        }
        COMPRESSED_BYTES if compressed_bytes.replace(value).is_some() => bad = Some("a page has two sizes"),
        field if VALUES.contains(&field) => {
            if field == DICTIONARY_VALUES {
                dictionary_values = dictionary_values.max(value);
            }
            if !(0..=PAGE_VALUES_MAX).contains(&value) {
                bad = Some("a page of too many values");
            }
        }
        field if ENCODED.contains(&field) && !ENCODINGS.contains(&value) => {
            bad = Some("an encoding other than plain, dictionary and runs");
        }
        _ => {}
    })
    .map_err(corrupt)?;
    if let Some(why) = bad {
        return Err(refused(why));
    }
    let (Some(uncompressed_bytes), Some(compressed_bytes)) = (uncompressed_bytes, compressed_bytes) else {
        return Err(corrupt("a page has no size"));
    };
    if !(0..=PAGE_BYTES_MAX).contains(&uncompressed_bytes) || dictionary_values > uncompressed_bytes {
        return Err(refused("a page that is too large"));
    }
    usize::try_from(compressed_bytes)
        .ok()
        .and_then(|len| body.get(len..))
        .ok_or_else(|| corrupt("a page is cut"))
}
