//! Finds the chunks of a dataset in an HDF5 file, from the dataset's layout and index of chunks.
//!
//! Source: the HDF5 File Format Specification, versions 2 and 3.

use super::contiguous::{Block, divide};
use super::{FileChunks, not_in_chunks, unreadable};
use benthic_array::decoders::ByteRange;
use benthic_array::{CHUNKS_MAX, Dtype};
use benthic_core::{Error, Result};
use hdf5_reader::btree_v1::{BTreeV1Key, collect_btree_v1_leaves_storage};
use hdf5_reader::chunk_index::{
    ChunkEntry, collect_implicit_chunk_entries, collect_v2_chunk_entries_storage, single_chunk_entry,
};
use hdf5_reader::error::Error as Hdf5Error;
use hdf5_reader::extensible_array::collect_extensible_array_chunk_entries_storage;
use hdf5_reader::filters::{FILTER_DEFLATE, FILTER_FLETCHER32, FILTER_SHUFFLE};
use hdf5_reader::fixed_array::collect_fixed_array_chunk_entries_storage;
use hdf5_reader::messages::HdfMessage;
use hdf5_reader::messages::filter_pipeline::FilterDescription;
use hdf5_reader::messages::layout::{ChunkIndexing, DataLayout};
use hdf5_reader::{ByteOrder, Dataset, Datatype, Hdf5File};
use serde_json::{Value, json};

/// The registered numbers of filters that netCDF-C writes and the crate lacks.
pub(super) const FILTER_BLOSC: u16 = 32001;
pub(super) const FILTER_ZSTD: u16 = 32015;
/// The level that `numcodecs` wants to know. Readers do not need it.
const DEFLATE_LEVEL: u32 = 4;
const ZSTD_LEVEL: u32 = 3;
/// The compressors of Blosc by their numbers.
const BLOSC_COMPRESSORS: [&str; 6] = ["blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"];

pub(super) fn failed(error: Hdf5Error) -> Error {
    match error {
        Hdf5Error::UnsupportedFilter(_) => {
            let message = "the file uses a filter that is not supported; h5repack -f GZIP=4 changes it";
            Error::unsupported(message).with_source(error)
        }
        error => unreadable("the file is not a sound netCDF or HDF5 file", error),
    }
}

pub(super) fn is_big_endian(datatype: &Datatype) -> bool {
    match datatype {
        Datatype::FixedPoint { byte_order, .. } | Datatype::FloatingPoint { byte_order, .. } => {
            *byte_order == ByteOrder::BigEndian
        }
        Datatype::Enum { base, .. } => is_big_endian(base),
        _ => false,
    }
}

/// Finds the chunks of a dataset. `stored_shape` is shorter than the dataset if others extend an
/// unlimited dimension.
///
/// # Errors
/// As [`ReadElements::chunks`](super::ReadElements::chunks).
pub fn chunks(file: &Hdf5File, dataset: &Dataset, stored_shape: &[u64], dtype: Dtype) -> Result<FileChunks> {
    let header = file.get_or_parse_header(dataset.address()).map_err(failed)?;
    let (mut layout, mut filters) = (None, &[][..]);
    for message in &header.messages {
        match message {
            HdfMessage::DataLayout(message) => layout = Some(&message.layout),
            HdfMessage::FilterPipeline(message) => filters = &message.filters[..],
            HdfMessage::ExternalFiles(_) => return Err(not_in_chunks("its data are in other files")),
            _ => {}
        }
    }
    let is_big_endian = is_big_endian(dataset.dtype());
    match layout {
        Some(DataLayout::Contiguous { address, size }) => {
            let shape = dataset.shape();
            let size_bytes = bytes(shape, dtype);
            if is_undefined(*address, file) {
                return Err(not_in_chunks("the file stores none of its elements"));
            }
            if *size != size_bytes || !filters.is_empty() {
                return Err(not_in_chunks("its layout is unusual"));
            }
            let block = Block { offset_bytes: in_file(*address, file)?, record_bytes: None };
            divide(shape, dtype, &block, is_big_endian)
        }
        Some(DataLayout::Chunked { address, chunk_indexing, .. }) => {
            let codecs = filters.iter().map(codec).collect::<Result<_>>()?;
            let chunk_dims = dataset.chunks().unwrap_or_default();
            let chunk_shape: Vec<u64> = chunk_dims.iter().map(|len| u64::from(*len)).collect();
            let mut grid = Grid::new(dataset.shape(), stored_shape, &chunk_shape)?;
            if !is_undefined(*address, file) {
                let source = Index { file, address: *address, stored_shape, chunk_dims: &chunk_dims };
                let entries = source.entries(dataset, chunk_indexing.as_ref(), dtype);
                let chunk_bytes = bytes(&chunk_shape, dtype);
                for entry in entries.map_err(failed)? {
                    let len_bytes = if filters.is_empty() { chunk_bytes } else { entry.size };
                    let offset_bytes = in_file(entry.address, file)?;
                    grid.add(&entry, ByteRange { offset_bytes, len_bytes })?;
                }
            }
            let ranges = grid.ranges;
            Ok(FileChunks { chunk_shape, is_clipped: false, is_big_endian, codecs, ranges })
        }
        Some(DataLayout::Compact { .. }) => Err(not_in_chunks("it is stored with its metadata")),
        None => Err(not_in_chunks("its layout is unusual")),
    }
}

fn bytes(shape: &[u64], dtype: Dtype) -> u64 {
    shape.iter().fold(dtype.size_bytes() as u64, |product, len| product.saturating_mul(*len))
}

/// Data that the file does not store have an address whose bits are all set.
fn is_undefined(address: u64, file: &Hdf5File) -> bool {
    let unused_bits = 64 - 8 * u32::from(file.superblock().offset_size.clamp(1, 8));
    address == u64::MAX >> unused_bits
}

/// An address is relative to the superblock, which may be after a user's block.
fn in_file(address: u64, file: &Hdf5File) -> Result<u64> {
    address.checked_add(file.superblock().base_address).ok_or_else(damaged)
}

fn damaged() -> Error {
    let error = Hdf5Error::InvalidData("the index of chunks is damaged".to_owned());
    unreadable("the file is not a sound netCDF or HDF5 file", error)
}

/// A filter as a codec of Zarr.
fn codec(filter: &FilterDescription) -> Result<Value> {
    let value = |index: usize| filter.client_data.get(index).copied();
    Ok(match filter.id {
        FILTER_DEFLATE => {
            let level = value(0).filter(|level| *level <= 9).unwrap_or(DEFLATE_LEVEL);
            json!({ "name": "numcodecs.zlib", "configuration": { "level": level } })
        }
        FILTER_SHUFFLE => match value(0) {
            Some(size) if size > 0 => {
                json!({ "name": "numcodecs.shuffle", "configuration": { "elementsize": size } })
            }
            _ => return Err(not_in_chunks("its shuffle has no size")),
        },
        FILTER_FLETCHER32 => json!({ "name": "numcodecs.fletcher32", "configuration": {} }),
        FILTER_ZSTD => {
            json!({ "name": "zstd", "configuration": { "level": ZSTD_LEVEL, "checksum": false } })
        }
        FILTER_BLOSC => {
            // Versions, size of elements, size of chunks, level, shuffle, compressor.
            let shuffle = ["noshuffle", "shuffle", "bitshuffle"][value(5).unwrap_or(0).min(2) as usize];
            let compressor = value(6).and_then(|number| BLOSC_COMPRESSORS.get(number as usize));
            json!({ "name": "blosc", "configuration": {
                "typesize": value(2).unwrap_or(1).max(1), "cname": compressor.unwrap_or(&"blosclz"),
                "clevel": value(4).unwrap_or(5).min(9), "shuffle": shuffle, "blocksize": 0,
            } })
        }
        _ => {
            return Err(not_in_chunks("its filters are not among gzip, shuffle, fletcher32, zstd and Blosc"));
        }
    })
}

/// The index of a dataset's chunks.
struct Index<'a> {
    file: &'a Hdf5File,
    address: u64,
    stored_shape: &'a [u64],
    chunk_dims: &'a [u32],
}

impl Index<'_> {
    fn entries(
        &self,
        dataset: &Dataset,
        indexing: Option<&ChunkIndexing>,
        dtype: Dtype,
    ) -> hdf5_reader::error::Result<Vec<ChunkEntry>> {
        let Index { file, address, stored_shape, chunk_dims } = *self;
        let (storage, superblock) = (file.storage(), file.superblock());
        let (offset_size, length_size) = (superblock.offset_size, superblock.length_size);
        let axes = stored_shape.len();
        match indexing {
            None => {
                let axes_of_index = Some(axes as u32);
                let leaves = collect_btree_v1_leaves_storage(
                    storage,
                    address,
                    offset_size,
                    length_size,
                    axes_of_index,
                    chunk_dims,
                    None,
                )?;
                let entry = |(key, address)| match key {
                    BTreeV1Key::RawData { chunk_size, filter_mask, mut offsets } => {
                        // The last offset is that within the element.
                        offsets.truncate(axes);
                        Ok(ChunkEntry { address, size: chunk_size.into(), filter_mask, offsets })
                    }
                    BTreeV1Key::Group { .. } => {
                        Err(Hdf5Error::InvalidData("the index of chunks has a group".to_owned()))
                    }
                };
                leaves.into_iter().map(entry).collect()
            }
            Some(ChunkIndexing::SingleChunk { filtered_size, filters }) => {
                Ok(vec![single_chunk_entry(address, *filtered_size, *filters, axes)])
            }
            Some(ChunkIndexing::BTreeV2) => collect_v2_chunk_entries_storage(
                storage,
                address,
                offset_size,
                length_size,
                axes as u32,
                chunk_dims,
                None,
            ),
            Some(ChunkIndexing::Implicit) => collect_implicit_chunk_entries(
                address,
                stored_shape,
                chunk_dims,
                dtype.size_bytes(),
                None,
                storage.len(),
            ),
            Some(ChunkIndexing::FixedArray { .. }) => collect_fixed_array_chunk_entries_storage(
                storage,
                address,
                offset_size,
                length_size,
                stored_shape,
                chunk_dims,
                None,
            ),
            Some(ChunkIndexing::ExtensibleArray { .. }) => collect_extensible_array_chunk_entries_storage(
                storage,
                address,
                offset_size,
                length_size,
                stored_shape,
                dataset.max_dims(),
                chunk_dims,
                None,
            ),
        }
    }
}

/// The chunks of an array by their positions.
struct Grid<'a> {
    stored_shape: &'a [u64],
    chunk_shape: &'a [u64],
    counts: Vec<u64>,
    ranges: Vec<Option<ByteRange>>,
}

impl<'a> Grid<'a> {
    fn new(shape: &[u64], stored_shape: &'a [u64], chunk_shape: &'a [u64]) -> Result<Grid<'a>> {
        if chunk_shape.len() != shape.len() || chunk_shape.contains(&0) {
            return Err(damaged());
        }
        // The last chunk of a dataset contains arbitrary bytes after the dataset's end.
        let ends_in_chunk =
            |((len, stored), chunk): ((&u64, &u64), &u64)| len != stored && !stored.is_multiple_of(*chunk);
        if shape.iter().zip(stored_shape).zip(chunk_shape).any(ends_in_chunk) {
            return Err(not_in_chunks("it is shorter than its dimension"));
        }
        let counts: Vec<u64> =
            shape.iter().zip(chunk_shape).map(|(len, chunk)| len.div_ceil(*chunk)).collect();
        let chunks = counts.iter().fold(1u64, |product, count| product.saturating_mul(*count));
        match chunks {
            0 => Err(not_in_chunks("it has no elements")),
            1..=CHUNKS_MAX => {
                Ok(Grid { stored_shape, chunk_shape, counts, ranges: vec![None; chunks as usize] })
            }
            _ => Err(not_in_chunks("it has too many chunks")),
        }
    }

    fn add(&mut self, entry: &ChunkEntry, range: ByteRange) -> Result<()> {
        let axes = entry.offsets.iter().zip(self.chunk_shape);
        if entry.offsets.len() != self.chunk_shape.len()
            || axes.clone().any(|(start, chunk)| !start.is_multiple_of(*chunk))
        {
            return Err(damaged());
        }
        // A dataset that was shrunk may keep chunks.
        if entry.offsets.iter().zip(self.stored_shape).any(|(start, len)| start >= len) {
            return Ok(());
        }
        if entry.filter_mask != 0 {
            return Err(not_in_chunks("some of its chunks lack a filter"));
        }
        let index =
            axes.zip(&self.counts).fold(0, |index, ((start, chunk), count)| index * count + start / chunk);
        let chunk = self.ranges.get_mut(index as usize).ok_or_else(damaged)?;
        if range.len_bytes == 0 || chunk.replace(range).is_some() {
            return Err(damaged());
        }
        Ok(())
    }
}
