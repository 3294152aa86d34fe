//! Object names and sizes: the shard of a key, and the data objects of a write.

use crate::sal::Id;
use crate::sal::encryption::FRAME_BYTES;
use benthic_core::{ObjectId, Result};
use xxhash_rust::xxh3::xxh3_64;

const MIB: u64 = 1024 * 1024;

/// Pairs of the maximum size of the data and the size of their data objects, in bytes. A few large
/// objects are the fastest to read and write, but each one that is being written takes memory.
const LAYOUT: [(u64, u32); 3] = [(64 * MIB, 4 << 20), (1024 * MIB, 8 << 20), (u64::MAX, 16 << 20)];

const _: () = {
    let mut at = 0;
    while at < LAYOUT.len() {
        assert!((LAYOUT[at].1 as u64).is_multiple_of(FRAME_BYTES));
        at += 1;
    }
};

/// Assumed size of an object if the client does not declare one.
const SIZE_BYTES_DEFAULT: u64 = 64 * MIB;

/// The size of the data objects for data of this size, in bytes.
pub fn chunk_bytes(size_bytes: Option<u64>) -> u32 {
    let size_bytes = size_bytes.unwrap_or(SIZE_BYTES_DEFAULT);
    LAYOUT.iter().find(|(max, _)| size_bytes <= *max).map_or(16 << 20, |(_, chunk_bytes)| *chunk_bytes)
}

/// The index shard that holds a key.
pub fn shard_of(key: &str, shards: u32) -> u32 {
    // The remainder is less than `shards`, so it fits into a u32.
    (xxh3_64(key.as_bytes()) % u64::from(shards.max(1))) as u32
}

/// Names of objects in the pools.
#[derive(Clone)]
pub struct Names {
    pub namespace: String,
}

impl Names {
    fn index(&self, name: String) -> Result<ObjectId> {
        ObjectId::in_namespace(self.namespace.clone(), name)
    }

    pub fn directory(&self) -> Result<ObjectId> {
        self.index("directory".to_owned())
    }

    pub fn shard(&self, bucket: impl Into<Id>, shard: u32) -> Result<ObjectId> {
        self.index(format!("index.{}.{shard}", bucket.into()))
    }

    pub fn data_namespace(&self, bucket: Id) -> String {
        format!("{}.{bucket}", self.namespace)
    }

    pub fn chunk(&self, bucket: Id, write: impl Into<Id>, number: u32) -> Result<ObjectId> {
        ObjectId::in_namespace(self.data_namespace(bucket), format!("{}.{number}", write.into()))
    }
}
