//! The object map of a view (the head or a snapshot): for each object of the image, the data object
//! that holds its bytes.
//!
//! A map is stored in pages, objects with [`PAGE_ENTRIES`] entries of 4 bytes (little-endian).
//! Bytes that a page does not have are zero.

use super::objects::{self, ImageId};
use benthic_core::{Error, ErrorKind, Pool, Result, WriteOp};
use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};

pub(crate) const PAGE_ENTRIES: usize = 65_536;
const ENTRY_BYTES: usize = 4;
const PAGES_IN_FLIGHT: usize = 8;

/// The place of one object's bytes. The lowest bit says that nothing older shows through; the
/// others are the version of the data object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry(u32);

impl Entry {
    /// Never written: the parent shows through, or zeros without one.
    pub const NONE: Entry = Entry(0);
    /// Reads as zeros.
    pub const ZEROS: Entry = Entry(1);

    /// A data object that has all bytes.
    pub fn whole(version: u32) -> Entry {
        Entry(version << 1 | 1)
    }

    /// A data object that may lack blocks, which are in older versions or in the parent.
    pub fn partial(version: u32) -> Entry {
        Entry(version << 1)
    }

    pub fn version(self) -> Option<u32> {
        Some(self.0 >> 1).filter(|version| *version > 0)
    }

    pub fn is_whole(self) -> bool {
        self.0 & 1 == 1
    }

    fn to_bytes(self) -> [u8; ENTRY_BYTES] {
        self.0.to_le_bytes()
    }
}

/// The page of an object's entry and the entry's offset in it.
pub(crate) fn place(object: u32) -> (u32, u64) {
    let (page, index) = (object as usize / PAGE_ENTRIES, object as usize % PAGE_ENTRIES);
    (page as u32, (index * ENTRY_BYTES) as u64)
}

pub(crate) fn pages(objects: usize) -> u32 {
    objects.div_ceil(PAGE_ENTRIES) as u32
}

/// The data of adjacent entries.
pub(crate) fn encode(entries: &[Entry]) -> Bytes {
    entries.iter().flat_map(|entry| entry.to_bytes()).collect::<Vec<_>>().into()
}

fn decode(bytes: &[u8]) -> impl Iterator<Item = Entry> {
    bytes
        .chunks_exact(ENTRY_BYTES)
        .map(|chunk| Entry(u32::from_le_bytes([chunk[0], chunk[1], chunk[2], chunk[3]])))
}

/// Reads a map with this number of entries.
pub(crate) async fn load(pool: &dyn Pool, id: ImageId, map: u32, objects: usize) -> Result<Vec<Entry>> {
    let loaded: Vec<Bytes> = stream::iter(0..pages(objects))
        .map(|page| async move {
            pool.read_range(&id.map_page(map, page)?, 0, (PAGE_ENTRIES * ENTRY_BYTES) as u64).await
        })
        .buffered(PAGES_IN_FLIGHT)
        .try_collect()
        .await
        .map_err(|error| match error.kind() {
            ErrorKind::NotFound => Error::corrupt("a page of the image's map is missing").with_source(error),
            _ => error,
        })?;
    let mut entries = Vec::with_capacity(objects);
    for (page, bytes) in loaded.iter().enumerate() {
        entries.extend(decode(bytes));
        entries.resize(((page + 1) * PAGE_ENTRIES).min(objects), Entry::NONE);
    }
    Ok(entries)
}

/// Writes a whole map. It replaces the remains of an interrupted earlier attempt.
pub(crate) async fn store(pool: &dyn Pool, id: ImageId, map: u32, entries: &[Entry]) -> Result<()> {
    let encoded: Vec<Bytes> = entries.chunks(PAGE_ENTRIES).map(encode).collect();
    stream::iter(encoded.into_iter().enumerate())
        .map(|(page, entries)| async move {
            let op = WriteOp::new().write_full(entries).buffered();
            pool.write(&id.map_page(map, page as u32)?, op).await
        })
        .buffer_unordered(PAGES_IN_FLIGHT)
        .try_for_each(|_| async { Ok(()) })
        .await
}

/// Removes a map of this number of entries.
pub(crate) async fn remove(pool: &dyn Pool, id: ImageId, map: u32, entries: usize) -> Result<()> {
    for page in 0..pages(entries) {
        objects::remove(pool, &id.map_page(map, page)?).await?;
    }
    Ok(())
}
