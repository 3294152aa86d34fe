//! Where things are: shards, and the objects that data are in.

use crate::sal::Id;
use benthic_core::{ObjectId, Result};
use xxhash_rust::xxh3::xxh3_64;

const MIB: u64 = 1024 * 1024;

/// Data of up to so many bytes are in objects of that size. Few and large ones are read and written fastest; but each that is
/// being written is in memory.
const LAYOUT: [(u64, u32); 3] = [(64 * MIB, 4 << 20), (1024 * MIB, 8 << 20), (u64::MAX, 16 << 20)];

/// What an object is expected to be if nobody says.
const SIZE_BYTES_DEFAULT: u64 = 64 * MIB;

/// The size of the objects that data of such a size are in.
pub fn chunk_bytes(size_bytes: Option<u64>) -> u32 {
    let size_bytes = size_bytes.unwrap_or(SIZE_BYTES_DEFAULT);
    LAYOUT.iter().find(|(max, _)| size_bytes <= *max).map_or(16 << 20, |(_, chunk_bytes)| *chunk_bytes)
}

/// The shard that has a key.
pub fn shard_of(key: &str, shards: u32) -> u32 {
    // Less than `shards`, which is a u32.
    (xxh3_64(key.as_bytes()) % u64::from(shards.max(1))) as u32
}

/// The names of objects in the pools.
#[derive(Clone)]
pub struct Names {
    /// Of the index; the data of a bucket are in one of their own, with its id behind this and a dot.
    pub namespace: String,
}

impl Names {
    fn index(&self, name: String) -> Result<ObjectId> {
        ObjectId::in_namespace(self.namespace.clone(), name)
    }

    /// The directory.
    pub fn directory(&self) -> Result<ObjectId> {
        self.index("directory".to_owned())
    }

    /// A shard.
    pub fn shard(&self, bucket: impl Into<Id>, shard: u32) -> Result<ObjectId> {
        self.index(format!("index.{}.{shard}", bucket.into()))
    }

    /// The namespace of a bucket's data.
    pub fn data_namespace(&self, bucket: Id) -> String {
        format!("{}.{bucket}", self.namespace)
    }

    /// An object of data.
    pub fn chunk(&self, bucket: Id, write: impl Into<Id>, number: u32) -> Result<ObjectId> {
        ObjectId::in_namespace(self.data_namespace(bucket), format!("{}.{number}", write.into()))
    }
}
