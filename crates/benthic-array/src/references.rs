//! Arrays whose chunks are ranges of a file that is stored unchanged, such as an HDF5, netCDF
//! or GRIB file.
//!
//! The metadata have an extension field, which names the file. Programs that do not know it must
//! refuse the array: they would take all chunks for fill values. An index beside the metadata has
//! the range of each chunk. `docs/formats.md` draws it.
//!
//! A file larger than [`PART_BYTES`] is several objects. The program that stores the file knows all
//! ranges, and divides it where no chunk is cut. So each chunk is in one object, which the class
//! can read. Small parts also spread the chunks over the OSDs.

use crate::array::Place;
use crate::codec::corrupt;
use crate::format::ByteRange;
use crate::metadata::Attributes;
use crate::selection;
use benthic_core::{Error, ErrorKind, ObjectId, Result, limits};
use bytes::Bytes;
use serde_json::{Value, json};
use std::ops::Range;

/// The field of `zarr.json`.
pub const REFERENCES_FIELD: &str = "benthic_references";
/// The object with the ranges of the chunks, beside the metadata.
pub const CHUNK_INDEX_KEY: &str = ".benthic-chunks";
/// The version of the field and of the index.
const VERSION: u64 = 1;

/// Limit on the chunks of an array in a file. The index is then read at once.
pub const CHUNKS_MAX: u64 = 1 << 21;
/// Limit on the parts of a file.
const PARTS_MAX: u64 = 1 << 16;
/// Limit on a stored chunk, and on a part.
pub const PART_BYTES: u64 = 32 << 20;

const NUMBER_BYTES: usize = 8;
const ENTRY_BYTES: usize = 2 * NUMBER_BYTES;
const CHECKSUM_BYTES: usize = 4;
/// Offset and length of a chunk that is not stored.
const MISSING: u64 = u64::MAX;

/// The file in which an array has its chunks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct References {
    /// The object name of the file, relative to the array, such as `../era5.nc`.
    pub file: String,
    /// A random text. It tells a new array from an older one at the same place.
    pub token: String,
    /// Whether a chunk that exceeds the array is stored without the elements outside.
    pub is_clipped: bool,
}

impl References {
    /// The value of the field.
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "must_understand": true, "version": VERSION, "file": self.file, "token": self.token,
            "clipped": self.is_clipped,
        })
    }

    /// Parses the field.
    ///
    /// # Errors
    /// `Corrupt`; `Unsupported` for another version.
    pub(crate) fn parse(value: &Value) -> Result<References> {
        let malformed = || corrupt("the metadata are malformed: the references to a file");
        let text = |name: &str| value.get(name).and_then(Value::as_str).ok_or_else(malformed);
        match value.get("version").and_then(Value::as_u64) {
            Some(VERSION) => {}
            Some(version) => {
                let message = "a newer version of benthic made this array; use that version";
                return Err(Error::unsupported(message).with("version", version));
            }
            None => return Err(malformed()),
        }
        let is_clipped = value.get("clipped").and_then(Value::as_bool).ok_or_else(malformed)?;
        Ok(References { file: text("file")?.to_owned(), token: text("token")?.to_owned(), is_clipped })
    }

    /// The object name of the file of an array at this place.
    ///
    /// # Errors
    /// `Corrupt` for a path out of the pool.
    pub(crate) fn file_name(&self, place: &Place) -> Result<String> {
        let mut parts: Vec<&str> = place.path.split('/').filter(|part| !part.is_empty()).collect();
        let mut file = &self.file[..];
        while let Some(rest) = file.strip_prefix("../") {
            parts.pop().ok_or_else(|| corrupt("the file of an array is out of the pool"))?;
            file = rest;
        }
        if file.is_empty() {
            return Err(corrupt("the file of an array has no name"));
        }
        parts.push(file);
        Ok(parts.join("/"))
    }
}

/// The ranges of the chunks of one array, and the parts of the file.
#[derive(Clone, Debug)]
pub struct ChunkIndex {
    /// The first byte of each part.
    starts: Vec<u64>,
    /// Offset and length of each chunk, in C order.
    entries: Bytes,
}

impl ChunkIndex {
    /// Decodes an index of this number of chunks.
    ///
    /// # Errors
    /// `Corrupt` if it is damaged, or a chunk is not in one part.
    pub fn decode(data: &Bytes, chunks: u64) -> Result<ChunkIndex> {
        let damaged = || corrupt("the index of an array in a file is damaged");
        let (content, checksum) = data.split_last_chunk::<CHECKSUM_BYTES>().ok_or_else(damaged)?;
        if crc32c::crc32c(content) != u32::from_le_bytes(*checksum) {
            return Err(damaged());
        }
        let (parts, rest) = content.split_first_chunk::<NUMBER_BYTES>().ok_or_else(damaged)?;
        let parts = u64::from_le_bytes(*parts);
        if parts == 0 || parts > PARTS_MAX || chunks > CHUNKS_MAX {
            return Err(damaged());
        }
        let starts_bytes = parts as usize * NUMBER_BYTES;
        if rest.len() != starts_bytes + chunks as usize * ENTRY_BYTES {
            return Err(damaged());
        }
        let starts: Vec<u64> = rest[..starts_bytes].chunks_exact(NUMBER_BYTES).map(number).collect();
        if starts[0] != 0 || !starts.is_sorted_by(|left, right| left < right) {
            return Err(damaged());
        }
        let index = ChunkIndex { starts, entries: data.slice_ref(&rest[starts_bytes..]) };
        for chunk in 0..chunks {
            if let Some(range) = index.file_range(chunk) {
                range.check().map_err(|_| damaged())?;
                let (_, part) = index.part(range.offset_bytes);
                if range.offset_bytes + range.len_bytes > part.end {
                    return Err(damaged());
                }
            }
        }
        Ok(index)
    }

    /// The range of a chunk in the whole file.
    fn file_range(&self, chunk: u64) -> Option<ByteRange> {
        let entry = &self.entries[chunk as usize * ENTRY_BYTES..][..ENTRY_BYTES];
        let (offset_bytes, len_bytes) = (number(&entry[..NUMBER_BYTES]), number(&entry[NUMBER_BYTES..]));
        ((offset_bytes, len_bytes) != (MISSING, MISSING)).then_some(ByteRange { offset_bytes, len_bytes })
    }

    /// The number and the bytes of the part with this byte. The end of the last part is not known.
    fn part(&self, offset_bytes: u64) -> (usize, Range<u64>) {
        let part = self.starts.partition_point(|start| *start <= offset_bytes) - 1;
        (part, self.starts[part]..self.starts.get(part + 1).copied().unwrap_or(u64::MAX))
    }

    /// The name of the object with a chunk, and the range in it. `None` if the chunk is not stored.
    pub fn object_range(&self, file: &str, chunk: u64) -> Option<(String, ByteRange)> {
        let range = self.file_range(chunk)?;
        let (_, part) = self.part(range.offset_bytes);
        let name = part_name(file, part.start, self.starts.len());
        Some((name, ByteRange { offset_bytes: range.offset_bytes - part.start, ..range }))
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

fn part_name(file: &str, start: u64, parts: usize) -> String {
    if parts == 1 { file.to_owned() } else { format!("{file}@{start:016x}") }
}

/// The parts into which a file is divided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileParts {
    starts: Vec<u64>,
    size_bytes: u64,
}

impl FileParts {
    /// Divides a file so that these ranges are not cut.
    ///
    /// # Errors
    /// `Corrupt` if a range is not in the file, or too many overlap; `LimitExceeded` if the file is
    /// too large.
    pub fn new(size_bytes: u64, ranges: impl IntoIterator<Item = ByteRange>) -> Result<FileParts> {
        let mut ranges: Vec<ByteRange> = ranges.into_iter().filter(|range| range.len_bytes > 0).collect();
        ranges.sort_unstable_by_key(|range| range.offset_bytes);
        let mut blocks: Vec<Range<u64>> = Vec::new();
        for range in ranges {
            range.check()?;
            range.check_within(size_bytes)?;
            let range = range.offset_bytes..range.offset_bytes + range.len_bytes;
            match blocks.last_mut() {
                Some(last) if range.start < last.end => last.end = last.end.max(range.end),
                _ => blocks.push(range),
            }
        }
        let mut starts = vec![0];
        let mut start = 0;
        while size_bytes - start > PART_BYTES {
            let mut end = start + PART_BYTES;
            // The first block that ends after the part.
            let block = &blocks[blocks.partition_point(|block| block.end <= end)..];
            if let Some(block) = block.first()
                && block.start < end
            {
                if block.start <= start {
                    return Err(corrupt("chunks of the file overlap").with("offset_bytes", block.start));
                }
                end = block.start;
            }
            start = end;
            starts.push(start);
            if starts.len() as u64 > PARTS_MAX {
                let message = "the file is too large to be stored as it is; create without --reference copies its arrays";
                return Err(Error::limit_exceeded(message)
                    .with("size_bytes", size_bytes)
                    .with("parts_max", PARTS_MAX));
            }
        }
        Ok(FileParts { starts, size_bytes })
    }

    /// The name of each part's object, and its bytes.
    pub fn objects(&self, file: &str) -> Vec<(String, Range<u64>)> {
        let ends = self.starts[1..].iter().copied().chain([self.size_bytes]);
        let parts = self.starts.iter().zip(ends);
        parts.map(|(start, end)| (part_name(file, *start, self.starts.len()), *start..end)).collect()
    }

    /// The index of an array with these chunks, in C order. `None` stands for a chunk that is not
    /// stored.
    pub fn index(&self, chunks: &[Option<ByteRange>]) -> Bytes {
        let missing = ByteRange { offset_bytes: MISSING, len_bytes: MISSING };
        let entries = chunks.iter().map(|chunk| chunk.unwrap_or(missing));
        let numbers = [self.starts.len() as u64].into_iter().chain(self.starts.iter().copied());
        let numbers = numbers.chain(entries.flat_map(|range| [range.offset_bytes, range.len_bytes]));
        let mut data: Vec<u8> = numbers.flat_map(u64::to_le_bytes).collect();
        data.extend(crc32c::crc32c(&data).to_le_bytes());
        data.into()
    }
}

/// An array's chunks in a file.
#[derive(Debug)]
pub(crate) struct FileChunks {
    file: String,
    index: ChunkIndex,
    /// The number of chunks after each step along an axis, in C order.
    strides: Vec<u64>,
}

impl FileChunks {
    /// Reads the index of an array.
    ///
    /// # Errors
    /// `Corrupt`, also if there is no index; `LimitExceeded` for too many chunks; those of the
    /// pool.
    pub(crate) async fn open(
        place: &Place,
        references: &References,
        shape: &[u64],
        chunk_shape: &[u64],
    ) -> Result<FileChunks> {
        let grid: Vec<u64> = shape.iter().zip(chunk_shape).map(|(len, chunk)| len.div_ceil(*chunk)).collect();
        let chunks = grid.iter().fold(1u64, |product, len| product.saturating_mul(*len));
        if chunks > CHUNKS_MAX {
            return Err(Error::limit_exceeded("an array in a file has too many chunks")
                .with("chunks", chunks)
                .with("chunks_max", CHUNKS_MAX));
        }
        let object = place.object(CHUNK_INDEX_KEY)?;
        let data = match place.pool.read_range(&object, 0, limits::OPERATION_BYTES_MAX).await {
            Ok(data) => data,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(corrupt("the index of an array in a file is missing").with("object", object));
            }
            Err(error) => return Err(error),
        };
        let index = ChunkIndex::decode(&data, chunks).map_err(|error| error.with("object", object))?;
        Ok(FileChunks { file: references.file_name(place)?, index, strides: selection::strides(&grid) })
    }

    /// The object with a chunk, and the range in it. `None` if the chunk is not stored.
    pub(crate) fn find(&self, place: &Place, position: &[u64]) -> Result<Option<(ObjectId, ByteRange)>> {
        let chunk: u64 = position.iter().zip(&self.strides).map(|(index, stride)| index * stride).sum();
        let Some((name, range)) = self.index.object_range(&self.file, chunk) else { return Ok(None) };
        let object = ObjectId::in_namespace(place.namespace.clone(), name);
        Ok(Some((object.map_err(|error| corrupt(error.message()))?, range)))
    }
}

/// Parses the field, if the document has it.
pub(crate) fn references_of(fields: &Attributes) -> Result<Option<References>> {
    fields.get(REFERENCES_FIELD).map(References::parse).transpose()
}

#[cfg(test)]
#[path = "references_tests.rs"]
mod tests;
