//! Keys and values of the key-value store. docs/formats.md draws them.

use super::checksum::crc32c;
use crate::listing;
use benthic_core::ObjectId;
use benthic_core::codec::{Decoded, Decoder, Encode, Malformed};
use bytes::Bytes;

/// Objects with at most this much data store it in the onode.
pub(crate) const INLINE_BYTES_MAX: u64 = 4_096;
/// Unit of allocation. Also the unit of checksums in chunks that were partly overwritten.
pub(crate) const BLOCK_BYTES: u64 = 4_096;
/// Unit of the map from object data to extents. Also the unit of checksums in data that was written
/// sequentially.
pub(crate) const CHUNK_BYTES: u64 = 65_536;
/// Limit on the size of the data file, so that damaged metadata cannot make the map of used blocks
/// huge.
pub(crate) const DATA_FILE_BYTES_MAX: u64 = 1 << 46;
pub(crate) const BLOCKS_PER_CHUNK: usize = (CHUNK_BYTES / BLOCK_BYTES) as usize;

pub(crate) const META: &[u8] = b"!";
/// The number of the last created pool. Numbers are never reused, because a client may still hold a
/// handle with an old one.
pub(crate) const LAST_POOL: &[u8] = b"#";
pub(crate) const PREFIX_ALLOCATION: u8 = b'A';
pub(crate) const PREFIX_CHUNK: u8 = b'D';
pub(crate) const PREFIX_GARBAGE: u8 = b'G';
pub(crate) const PREFIX_OMAP: u8 = b'M';
pub(crate) const PREFIX_ONODE: u8 = b'O';
pub(crate) const PREFIX_POOL: u8 = b'P';
pub(crate) const PREFIX_REMOVED_POOL: u8 = b'Q';
pub(crate) const PREFIX_XATTR: u8 = b'X';

pub(crate) fn allocation(region: u32) -> Vec<u8> {
    with_u32(PREFIX_ALLOCATION, region, b"")
}

pub(crate) fn pool(name: &str) -> Vec<u8> {
    [&[PREFIX_POOL], name.as_bytes()].concat()
}

pub(crate) fn removed_pool(pool: u32) -> Vec<u8> {
    with_u32(PREFIX_REMOVED_POOL, pool, b"")
}

pub(crate) fn onode(pool: u32, id: &ObjectId) -> Vec<u8> {
    with_u32(PREFIX_ONODE, pool, &listing::encode(id))
}

pub(crate) fn onodes(pool: u32, id_prefix: &[u8]) -> Vec<u8> {
    with_u32(PREFIX_ONODE, pool, id_prefix)
}

/// Offset of the object in the key of an onode.
pub(crate) const ONODE_ID_AT: usize = 5;

pub(crate) fn chunk(oid: u64, index: u32) -> Vec<u8> {
    with_u64(PREFIX_CHUNK, oid, &index.to_be_bytes())
}

pub(crate) fn chunk_index(key: &[u8]) -> Decoded<u32> {
    let tail = key.get(9..).ok_or(Malformed)?;
    Ok(u32::from_be_bytes(tail.try_into().map_err(|_| Malformed)?))
}

/// A key of a numbered owner: its chunks, attributes or omap.
pub(crate) fn with_u64(prefix: u8, id: u64, tail: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(9 + tail.len());
    key.push(prefix);
    key.extend_from_slice(&id.to_be_bytes());
    key.extend_from_slice(tail);
    key
}

/// Offset of the tail in a key of [`with_u64`].
pub(crate) const TAIL_AT: usize = 9;

fn with_u32(prefix: u8, id: u32, tail: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(5 + tail.len());
    key.push(prefix);
    key.extend_from_slice(&id.to_be_bytes());
    key.extend_from_slice(tail);
    key
}

/// The position of the key-value store in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Meta {
    /// The last operation that the key-value store contains.
    pub applied_lsn: u64,
    /// The next object or omap number.
    pub next_id: u64,
}

impl Meta {
    pub fn encode(&self) -> Vec<u8> {
        let mut value = Vec::with_capacity(16);
        value.put_u64(self.applied_lsn);
        value.put_u64(self.next_id);
        value
    }

    pub fn decode(value: &Bytes) -> Decoded<Meta> {
        let mut value = Decoder::sharing(value);
        let meta = Meta { applied_lsn: value.u64()?, next_id: value.u64()? };
        value.end()?;
        Ok(meta)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Data {
    /// All data is in the onode. Bytes between its end and the object's size read as zeros.
    Inline(Bytes),
    /// The data is in chunks with their own keys. A missing chunk reads as zeros.
    Chunks,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Onode {
    /// The number in the keys of the object's chunks and attributes.
    pub oid: u64,
    /// The number in the keys of the object's omap; 0 if it never had one.
    pub omap_id: u64,
    /// The log sequence number of the operation that last changed the object.
    pub version: u64,
    pub modified_unix_ns: u64,
    pub size_bytes: u64,
    pub has_xattrs: bool,
    pub data: Data,
}

impl Onode {
    pub fn encode(&self) -> Vec<u8> {
        let mut value = Vec::with_capacity(64);
        value.put_u64(self.oid);
        value.put_u64(self.omap_id);
        value.put_u64(self.version);
        value.put_u64(self.modified_unix_ns);
        value.put_u64(self.size_bytes);
        value.put_u8(self.has_xattrs.into());
        match &self.data {
            Data::Inline(data) => {
                let most_bytes = self.size_bytes.min(INLINE_BYTES_MAX);
                assert!(data.len() as u64 <= most_bytes, "inline data is within its limits");
                value.put_u8(0);
                value.put_bytes(data);
            }
            Data::Chunks => value.put_u8(1),
        }
        value
    }

    pub fn decode(value: &Bytes) -> Decoded<Onode> {
        let mut value = Decoder::sharing(value);
        let onode = Onode {
            oid: value.u64()?,
            omap_id: value.u64()?,
            version: value.u64()?,
            modified_unix_ns: value.u64()?,
            size_bytes: value.u64()?,
            has_xattrs: value.bool()?,
            data: match value.u8()? {
                0 => Data::Inline(value.bytes()?),
                1 => Data::Chunks,
                _ => return Err(Malformed),
            },
        };
        value.end()?;
        let inline_bytes = match &onode.data {
            Data::Inline(data) => data.len() as u64,
            Data::Chunks => 0,
        };
        if inline_bytes > onode.size_bytes.min(INLINE_BYTES_MAX) { Err(Malformed) } else { Ok(onode) }
    }
}

/// Position and checksum of 4 KiB of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub offset_bytes: u64,
    pub crc: u32,
}

/// Position and checksums of a chunk's data. Bytes that it does not cover read as zeros.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Chunk {
    /// One extent with one checksum.
    Stream { offset_bytes: u64, len_bytes: u32, crc: u32 },
    /// Separate blocks. A missing block reads as zeros.
    Blocks(Box<[Option<Block>; BLOCKS_PER_CHUNK]>),
}

impl Chunk {
    pub fn encode(&self) -> Vec<u8> {
        let mut value = Vec::with_capacity(17);
        match self {
            Chunk::Stream { offset_bytes, len_bytes, crc } => {
                let len = u64::from(*len_bytes);
                assert!(0 < len && len <= CHUNK_BYTES, "the length of a stream is within its limits");
                assert!(offset_bytes.is_multiple_of(BLOCK_BYTES), "a stream starts at a block boundary");
                value.put_u8(1);
                value.put_u64(*offset_bytes);
                value.put_u32(*len_bytes);
                value.put_u32(*crc);
            }
            Chunk::Blocks(blocks) => {
                value.put_u8(2);
                let present = blocks.iter().enumerate().filter(|(_, block)| block.is_some());
                value.put_u16(present.fold(0, |bits, (index, _)| bits | 1 << index));
                for block in blocks.iter().flatten() {
                    assert!(block.offset_bytes.is_multiple_of(BLOCK_BYTES), "a block is aligned");
                    value.put_u64(block.offset_bytes);
                    value.put_u32(block.crc);
                }
            }
        }
        value
    }

    pub fn decode(value: &Bytes) -> Decoded<Chunk> {
        let mut value = Decoder::sharing(value);
        let aligned = |offset_bytes: u64| {
            let sound = offset_bytes.is_multiple_of(BLOCK_BYTES) && offset_bytes < DATA_FILE_BYTES_MAX;
            if sound { Ok(offset_bytes) } else { Err(Malformed) }
        };
        let chunk = match value.u8()? {
            1 => Chunk::Stream {
                offset_bytes: aligned(value.u64()?)?,
                len_bytes: value.u32()?,
                crc: value.u32()?,
            },
            2 => {
                let present = value.u16()?;
                let mut blocks = Box::new([None; BLOCKS_PER_CHUNK]);
                for (index, block) in blocks.iter_mut().enumerate() {
                    if present & 1 << index != 0 {
                        *block = Some(Block { offset_bytes: aligned(value.u64()?)?, crc: value.u32()? });
                    }
                }
                Chunk::Blocks(blocks)
            }
            _ => return Err(Malformed),
        };
        value.end()?;
        match chunk {
            Chunk::Stream { len_bytes, .. } if u64::from(len_bytes) > CHUNK_BYTES || len_bytes == 0 => {
                Err(Malformed)
            }
            chunk => Ok(chunk),
        }
    }

    /// The extents that the chunk occupies.
    pub fn extents(&self) -> Vec<Extent> {
        match self {
            Chunk::Stream { offset_bytes, len_bytes, .. } => {
                vec![Extent {
                    offset_bytes: *offset_bytes,
                    len_bytes: u64::from(*len_bytes).next_multiple_of(BLOCK_BYTES),
                }]
            }
            Chunk::Blocks(blocks) => blocks
                .iter()
                .flatten()
                .map(|block| Extent { offset_bytes: block.offset_bytes, len_bytes: BLOCK_BYTES })
                .collect(),
        }
    }
}

/// A range of the data file, in whole blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub offset_bytes: u64,
    pub len_bytes: u64,
}

/// The checksum of data at `offset_bytes` of object `oid`. It includes both values, so that
/// misplaced data does not verify.
pub(crate) fn data_crc(oid: u64, offset_bytes: u64, data: &[u8]) -> u32 {
    crc32c(&[&oid.to_le_bytes(), &offset_bytes.to_le_bytes(), data])
}
