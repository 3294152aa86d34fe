//! The format of a stored object: a chunk, or a shard of inner chunks.
//!
//! [`ObjectFormat`] has all that a class needs in order to read an object that belongs to an array.
//! [`ObjectFormat::each_block`] decodes the parts of an object that a selection touches, in C
//! order. It reads only these parts of a shard.

use crate::block::{Block, Tick};
use crate::codec::{Pipeline, corrupt, decoded_bytes};
use crate::dtype::Dtype;
use crate::selection::{self, AXES_MAX, Bounded, Part, PerAxis, Slice, TouchedChunks, within};
use benthic_core::{Error, Result, wire_enum, wire_struct};
use bytes::Bytes;
use std::ops::Range;

/// Limit on the inner chunks of a shard.
const INNER_CHUNKS_MAX: u64 = 1 << 20;
/// Limit on the length of a chunk along an axis.
const CHUNK_LEN_MAX: u64 = 1 << 40;
/// An entry of a shard's index: offset and size of an inner chunk.
const INDEX_ENTRY_BYTES: u64 = 16;
const CHECKSUM_BYTES: u64 = 4;
/// Offset and size in the index of an inner chunk that is not stored.
const MISSING: u64 = u64::MAX;

/// The format of the objects of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectFormat {
    pub dtype: Dtype,
    /// Of the chunk or shard.
    pub shape: PerAxis<u64>,
    /// One element, little-endian.
    pub fill: Bytes,
    pub encoding: Encoding,
}

/// Whether an object is a chunk or a shard, and how its chunks are encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Encoding {
    Chunk { pipeline: Pipeline },
    Shard { inner_shape: PerAxis<u64>, pipeline: Pipeline, index: ShardIndexFormat },
}

/// The format of a shard's index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardIndexFormat {
    pub is_at_start: bool,
    pub is_big_endian: bool,
    pub has_checksum: bool,
}

wire_struct! {
    ObjectFormat { dtype, shape, fill, encoding }
    ShardIndexFormat { is_at_start, is_big_endian, has_checksum }
}

wire_enum! {
    Encoding {
        0 Chunk { pipeline: pipeline }
        1 Shard { inner_shape: inner_shape, pipeline: pipeline, index: index }
    }
}

/// The bytes of a larger object, such as a file, that hold a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    pub offset_bytes: u64,
    pub len_bytes: u64,
}

wire_struct! { ByteRange { offset_bytes, len_bytes } }

impl ByteRange {
    /// Checks a range that a client sent or that an index contains.
    ///
    /// # Errors
    /// `InvalidArgument` if the end is not a 64-bit number.
    pub fn check(self) -> Result<()> {
        match self.offset_bytes.checked_add(self.len_bytes) {
            Some(_) => Ok(()),
            None => Err(Error::invalid_argument("the range of a chunk is too far in the object")),
        }
    }

    /// Checks a valid range against the size of the object.
    ///
    /// # Errors
    /// `Corrupt` if the object ends before the range.
    pub fn check_within(self, size_bytes: u64) -> Result<()> {
        let end_bytes = self.offset_bytes + self.len_bytes;
        if end_bytes <= size_bytes {
            return Ok(());
        }
        let error = corrupt("an object is shorter than the chunks that it should have");
        Err(error.with("size_bytes", size_bytes).with("end_bytes", end_bytes))
    }
}

/// Reads one object, or a range of it. A method limits its time and memory here; its errors include
/// `LimitExceeded`.
pub trait ReadObject {
    fn size_bytes(&mut self) -> Result<u64>;

    /// Reads a range. The result is short if the object or range ends in it.
    fn read(&mut self, range: Range<u64>) -> Result<Bytes>;

    /// Announces memory that is kept until the end.
    fn reserve(&mut self, len_bytes: u64) -> Result<()>;

    /// Announces a decoded block of this size. The block before it is gone.
    fn before_decoding(&mut self, size_bytes: u64) -> Result<()>;

    /// Fails if there is no time left.
    fn check_deadline(&mut self) -> Result<()>;
}

impl ObjectFormat {
    /// Checks a format that a client sent or that metadata contain.
    ///
    /// # Errors
    /// `InvalidArgument`; `LimitExceeded` for a chunk that is too large.
    pub fn check(&self) -> Result<()> {
        let invalid = |message: &str| Err(Error::invalid_argument(message));
        let shape = &self.shape.0;
        if shape.len() > AXES_MAX {
            return Err(Error::limit_exceeded("an array has too many axes").with("axes_max", AXES_MAX));
        }
        if self.fill.len() != self.dtype.size_bytes() {
            return invalid("the fill value does not have the size of an element");
        }
        let check_lens = |shape: &[u64]| match shape.iter().all(|len| (1..=CHUNK_LEN_MAX).contains(len)) {
            true => Ok(()),
            false => Err(Error::invalid_argument("the length of a chunk along an axis is 0 or too large")
                .with("len_max", CHUNK_LEN_MAX)),
        };
        check_lens(shape)?;
        let (chunk_shape, pipeline) = match &self.encoding {
            Encoding::Chunk { pipeline } => (shape, pipeline),
            Encoding::Shard { inner_shape, pipeline, .. } => (&inner_shape.0, pipeline),
        };
        pipeline.check(shape.len())?;
        decoded_bytes(self.dtype, chunk_shape)?;
        if let Encoding::Shard { inner_shape, .. } = &self.encoding {
            check_lens(&inner_shape.0)?;
            let divides = |(len, inner): (&u64, &u64)| len.is_multiple_of(*inner);
            if inner_shape.0.len() != shape.len() || !shape.iter().zip(&inner_shape.0).all(divides) {
                return invalid("the inner chunks do not divide the shard");
            }
            if selection::elements(&inner_grid(shape, &inner_shape.0).collect::<Vec<_>>())? > INNER_CHUNKS_MAX
            {
                return Err(Error::limit_exceeded("a shard has too many inner chunks")
                    .with("inner_chunks_max", INNER_CHUNKS_MAX));
            }
        }
        Ok(())
    }

    /// The size of the decoded chunk or shard. Saturates.
    pub(crate) fn decoded_bytes(&self) -> u64 {
        let element_bytes = self.dtype.size_bytes() as u64;
        self.shape.0.iter().fold(element_bytes, |product, len| product.saturating_mul(*len))
    }

    /// The shape of the inner chunks, if the object is a shard.
    pub fn inner_shape(&self) -> Option<&[u64]> {
        match &self.encoding {
            Encoding::Chunk { .. } => None,
            Encoding::Shard { inner_shape, .. } => Some(&inner_shape.0),
        }
    }

    /// Checks slices against the shape of the object.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub fn check_slices(&self, slices: &[Slice]) -> Result<()> {
        check_slices(slices, &self.shape.0)
    }

    /// The size of the index of a shard, and whether it is at the start. `None` for a chunk.
    pub fn index_bytes(&self) -> Option<(u64, bool)> {
        let Encoding::Shard { inner_shape, index, .. } = &self.encoding else { return None };
        let entries = inner_grid(&self.shape.0, &inner_shape.0).product::<u64>();
        let checksum_bytes = if index.has_checksum { CHECKSUM_BYTES } else { 0 };
        Some((entries * INDEX_ENTRY_BYTES + checksum_bytes, index.is_at_start))
    }

    /// The range of the index, if the object is a shard of this size.
    ///
    /// # Errors
    /// `Corrupt` if the object is shorter than its index.
    pub fn index_range(&self, size_bytes: u64) -> Result<Option<Range<u64>>> {
        let Some((len_bytes, is_at_start)) = self.index_bytes() else { return Ok(None) };
        let Some(start) = size_bytes.checked_sub(len_bytes) else {
            return Err(corrupt("a shard is shorter than its index").with("size_bytes", size_bytes));
        };
        Ok(Some(if is_at_start { 0..len_bytes } else { start..size_bytes }))
    }

    /// The stored ranges of the inner chunks that a selection touches, in C order. `None` stands
    /// for an inner chunk that is not stored. `index` has the bytes of
    /// [`ObjectFormat::index_range`].
    ///
    /// # Errors
    /// `Corrupt` for an index that is damaged or points out of the object.
    pub fn inner_ranges(
        &self,
        slices: &[Slice],
        index: &Bytes,
        size_bytes: u64,
    ) -> Result<Vec<Option<Range<u64>>>> {
        let Encoding::Shard { inner_shape, index: format, .. } = &self.encoding else {
            return Ok(Vec::new());
        };
        let entries = match format.has_checksum {
            true => {
                let checksum = Bounded(vec![crate::codec::BytesCodec::Crc32c {}]);
                checksum.decode(index, index.len(), &mut || Ok(()))?
            }
            false => index.clone(),
        };
        let number = |bytes: &[u8]| {
            let mut number = [0; 8];
            number.copy_from_slice(bytes);
            if format.is_big_endian { u64::from_be_bytes(number) } else { u64::from_le_bytes(number) }
        };
        let strides = selection::strides(&inner_grid(&self.shape.0, &inner_shape.0).collect::<Vec<_>>());
        let range = |position: Vec<u64>| {
            let entry: u64 = position.iter().zip(&strides).map(|(index, stride)| index * stride).sum();
            let at = (entry * INDEX_ENTRY_BYTES) as usize;
            let entry = entries.get(at..at + INDEX_ENTRY_BYTES as usize);
            let entry = entry.ok_or_else(|| corrupt("the index of a shard is too short"))?;
            let (offset, len) = (number(&entry[..8]), number(&entry[8..]));
            if (offset, len) == (MISSING, MISSING) {
                return Ok(None);
            }
            match offset.checked_add(len) {
                Some(end) if end <= size_bytes => Ok(Some(offset..end)),
                _ => Err(corrupt("the index of a shard points out of it").with("offset_bytes", offset)),
            }
        };
        TouchedChunks::new(slices, &inner_shape.0).map(range).collect()
    }

    /// A block in which every element is the fill value.
    pub fn fill_block(&self) -> Block {
        Block::filled(self.dtype, &self.fill, self.shape.0.len())
    }

    /// Decodes the parts of an object that a selection touches, and calls a function with each, in
    /// C order of the inner chunks. The slices must be in range.
    ///
    /// # Errors
    /// Those of the object and of the function; `Corrupt` for damaged data; `LimitExceeded`.
    pub fn each_block(
        &self,
        slices: &[Slice],
        object: &mut dyn ReadObject,
        visit: &mut dyn FnMut(&Block, &Part, Tick<'_>) -> Result<()>,
    ) -> Result<()> {
        let size_bytes = object.size_bytes()?;
        let (inner_shape, pipeline) = match &self.encoding {
            Encoding::Chunk { pipeline } => {
                object.before_decoding(decoded_bytes(self.dtype, &self.shape.0)? as u64)?;
                let block =
                    pipeline.decode(self.dtype, &self.shape.0, &object.read(0..size_bytes)?, &mut || {
                        object.check_deadline()
                    })?;
                let whole = Part { slices: slices.to_vec(), first: vec![0; slices.len()] };
                return visit(&block, &whole, &mut || object.check_deadline());
            }
            Encoding::Shard { inner_shape, pipeline, .. } => (&inner_shape.0, pipeline),
        };
        let index = match self.index_range(size_bytes)? {
            Some(range) => {
                // The index, its copy without the checksum, and the ranges.
                object.reserve((range.end - range.start) * 4)?;
                read_exact(object, range)?
            }
            None => Bytes::new(),
        };
        let ranges = self.inner_ranges(slices, &index, size_bytes)?;
        drop(index);
        for (position, range) in TouchedChunks::new(slices, inner_shape).zip(ranges) {
            let origin: Vec<u64> = position.iter().zip(inner_shape).map(|(index, len)| index * len).collect();
            let Some(part) = within(slices, &origin, inner_shape) else { continue };
            let block = match range {
                None => {
                    object.check_deadline()?;
                    self.fill_block()
                }
                Some(range) => {
                    object.before_decoding(decoded_bytes(self.dtype, inner_shape)? as u64)?;
                    let encoded = read_exact(object, range)?;
                    pipeline.decode(self.dtype, inner_shape, &encoded, &mut || object.check_deadline())?
                }
            };
            visit(&block, &part, &mut || object.check_deadline())?;
        }
        Ok(())
    }
}

fn read_exact(object: &mut dyn ReadObject, range: Range<u64>) -> Result<Bytes> {
    let len_bytes = range.end - range.start;
    let data = object.read(range)?;
    if data.len() as u64 == len_bytes {
        return Ok(data);
    }
    Err(corrupt("an object ends within a chunk"))
}

/// The number of inner chunks along each axis of a shard.
fn inner_grid(shape: &[u64], inner_shape: &[u64]) -> impl Iterator<Item = u64> {
    shape.iter().zip(inner_shape).map(|(len, inner)| len / inner)
}

/// Checks that a selection has one slice for each axis, within the axis.
///
/// # Errors
/// `InvalidArgument`.
pub fn check_slices(slices: &[Slice], shape: &[u64]) -> Result<()> {
    if slices.len() != shape.len() {
        return Err(Error::invalid_argument("a selection needs a slice for each axis")
            .with("slices", slices.len())
            .with("axes", shape.len()));
    }
    slices.iter().zip(shape).try_for_each(|(slice, len)| slice.check(*len))
}
