//! Reads of the data file by other processes, without a request to the owner.
//!
//! The first read of a range goes through the owner. With the data, the owner returns the
//! [`Location`] of the range in the data file, and the *revision* of the object. The client reads
//! the same range again by itself: it reads the extents, verifies their checksums, and then checks
//! that the object still has that revision. A writer changes the revision before it changes the
//! object and before it is acknowledged. So if the revision is the same after the read, the data
//! was the object's data at that moment, and no extent of it was reused before. If it differs, the
//! client asks the owner again.
//!
//! Revisions are in a file in memory, which the owner passes to its clients read-only. There is one
//! revision for each object lock. It changes only if a client has it, so writers of other objects
//! pay nothing. The revisions of a dead owner do not change any more. So the client also checks
//! that the text of the lock file still names this owner: the next owner replaces it before it
//! changes anything.
//!
//! Alternatives: with an epoch under which the owner keeps freed extents, a stopped client would
//! keep them for ever, and the client would still need to know whether the object has changed.
//! Mapping the revisions into memory needs `unsafe`, and saves half a microsecond of a read.

use super::data::{DataFile, Source};
use super::keys::{CHUNK_BYTES, Chunk};
use benthic_core::codec::{Decoded, Decoder, Encode, Malformed, Wire};
use benthic_core::{Error, ObjectId, ReadOp, ReadOutput, ReadReply, ReadStep, Result};
use bytes::Bytes;
use parking_lot::Mutex;
use rustix::fs::{MemfdFlags, memfd_create};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering, fence};

const REVISION_BYTES: u64 = 8;
/// Each of the two generations of a client's locations has at most this many objects.
const GENERATION_OBJECTS_MAX: usize = 4_096;

/// The place of a part of an object's data. The chunks are streams without a hole between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    /// The object's lock, which has the revision.
    pub slot: u32,
    pub revision: u64,
    pub oid: u64,
    /// The object's version.
    pub version: u64,
    pub size_bytes: u64,
    pub chunks: BTreeMap<u32, Chunk>,
}

/// A range of an object that a client reads.
#[derive(Clone, Copy)]
pub(crate) struct ReadRange {
    offset_bytes: u64,
    len_bytes: u64,
}

/// The part of a [`ReadRange`] within an object, and the chunks that it touches.
pub(crate) struct Part {
    len_bytes: u64,
    pub first_chunk: u32,
    pub last_chunk: u32,
}

impl ReadRange {
    /// The range of an operation that does nothing else and so can be repeated directly.
    pub fn of(op: &ReadOp) -> Option<ReadRange> {
        match op.steps[..] {
            [ReadStep::Read { offset_bytes, len_bytes }] if op.guards.is_empty() && op.check().is_ok() => {
                Some(ReadRange { offset_bytes, len_bytes })
            }
            _ => None,
        }
    }

    /// Returns `None` if the part is empty or too long to be read directly.
    pub fn within(self, size_bytes: u64) -> Option<Part> {
        let ReadRange { offset_bytes, len_bytes } = self;
        let len_bytes = len_bytes.min(size_bytes.saturating_sub(offset_bytes));
        if len_bytes == 0 || Source::Memory.check(len_bytes).is_err() {
            return None;
        }
        let chunk = |byte| (byte / CHUNK_BYTES) as u32;
        let last_chunk = chunk(offset_bytes + len_bytes - 1);
        Some(Part { len_bytes, first_chunk: chunk(offset_bytes), last_chunk })
    }
}

/// The owner's side of the revisions.
pub(crate) struct Revisions {
    file: File,
    random: RandomState,
    changes: AtomicU64,
}

impl Revisions {
    pub fn create(slots: usize) -> io::Result<Revisions> {
        let file = File::from(memfd_create("benthic-revisions", MemfdFlags::CLOEXEC)?);
        file.write_all_at(&vec![0; slots * REVISION_BYTES as usize], 0)?;
        Ok(Revisions { file, random: RandomState::new(), changes: AtomicU64::new(0) })
    }

    /// The file for a client, which can only read it.
    pub fn share(&self) -> io::Result<File> {
        File::open(format!("/proc/self/fd/{}", self.file.as_raw_fd()))
    }

    /// Gives a lock's objects a new revision. The caller holds the lock and has not changed
    /// anything yet. The number is random, so that a mix of the bytes of two revisions, which a
    /// concurrent reader may see, is not an older revision.
    pub fn change(&self, slot: usize) -> Result<u64> {
        let revision = self.random.hash_one(self.changes.fetch_add(1, Ordering::Relaxed));
        self.file.write_all_at(&revision.to_le_bytes(), slot as u64 * REVISION_BYTES).map_err(|e| {
            let message = "other processes cannot be told that the object changes; try again";
            Error::unavailable(message).with_source(e)
        })?;
        Ok(revision)
    }
}

/// A client's access to the data file of an owner.
pub(crate) struct DirectReader {
    data: DataFile,
    revisions: File,
    lock: File,
    /// The end of the lock file's text while the owner owns the store.
    owner: String,
    locations: Mutex<Locations>,
    random: RandomState,
}

/// Locations by the hash of pool and object. When the young generation is full, it becomes the old
/// one. An object that is read moves to the young generation.
#[derive(Default)]
struct Locations {
    young: HashMap<u64, Located>,
    old: HashMap<u64, Located>,
}

struct Located {
    pool: u32,
    id: ObjectId,
    location: Location,
}

impl Located {
    fn is_of(&self, pool: u32, id: &ObjectId) -> bool {
        self.pool == pool && self.id == *id
    }
}

impl DirectReader {
    /// Opens the files in the owner's directory. `revisions` and `owner` are the owner's.
    pub fn open(dir: &Path, revisions: File, owner: u64) -> Result<DirectReader> {
        let unusable = |e| Error::unavailable("the lock cannot be read").with_source(e);
        let lock = File::open(super::lock_path(dir)).map_err(unusable)?;
        let data = DataFile::open_with_overlay(&dir.join("data"), BTreeMap::new())?;
        let (locations, random) = (Mutex::default(), RandomState::new());
        Ok(DirectReader { data, revisions, lock, owner: super::dir::owner_mark(owner), locations, random })
    }

    /// Runs the operation if it only reads a range whose location is known and whose data is in the
    /// page cache. Otherwise the owner must run it. This includes damaged data, for which the owner
    /// returns the error.
    pub fn read(&self, pool: u32, id: &ObjectId, op: &ReadOp) -> Option<ReadReply> {
        let range = ReadRange::of(op)?;
        let key = self.random.hash_one((pool, id));
        let (location, len_bytes) = self.locations.lock().find(key, pool, id, range)?;
        let Location { slot, revision, oid, version, chunks, .. } = location;
        let data = self.data.read_chunks(oid, &chunks, range.offset_bytes, len_bytes, Source::Memory);
        // The checks read files too, and must not see an earlier state than the read above.
        fence(Ordering::SeqCst);
        if !(self.has_revision(slot, revision) && self.has_owner()) {
            self.locations.lock().remove(key);
            return None;
        }
        Some(ReadReply { version, outputs: vec![ReadOutput::Data(data.ok()?)] })
    }

    /// Adds a location that the owner returned.
    pub fn insert(&self, pool: u32, id: &ObjectId, location: Location) {
        let key = self.random.hash_one((pool, id));
        self.locations.lock().insert(key, Located { pool, id: id.clone(), location });
    }

    fn has_revision(&self, slot: u32, revision: u64) -> bool {
        let mut found = [0; REVISION_BYTES as usize];
        let at = u64::from(slot) * REVISION_BYTES;
        self.revisions.read_exact_at(&mut found, at).is_ok() && u64::from_le_bytes(found) == revision
    }

    fn has_owner(&self) -> bool {
        let mut text = [0; 64];
        let read = self.lock.read_at(&mut text, 0);
        read.is_ok_and(|len| text[..len].ends_with(self.owner.as_bytes()))
    }
}

impl Locations {
    /// The location with the chunks of a range, and the length of the range within the object.
    fn find(&mut self, key: u64, pool: u32, id: &ObjectId, range: ReadRange) -> Option<(Location, u64)> {
        if let Some(located) = self.old.remove(&key) {
            self.add(key, located);
        }
        let located = self.young.get(&key).filter(|located| located.is_of(pool, id))?;
        let Location { slot, revision, oid, version, size_bytes, ref chunks } = located.location;
        let Part { len_bytes, first_chunk, last_chunk } = range.within(size_bytes)?;
        let chunks = chunks.range(first_chunk..=last_chunk).map(|(index, chunk)| (*index, chunk.clone()));
        let chunks: BTreeMap<_, _> = chunks.collect();
        let complete = chunks.len() as u64 == u64::from(last_chunk - first_chunk) + 1;
        complete.then_some((Location { slot, revision, oid, version, size_bytes, chunks }, len_bytes))
    }

    fn insert(&mut self, key: u64, mut new: Located) {
        self.old.remove(&key);
        if let Some(known) = self.young.remove(&key)
            && known.is_of(new.pool, &new.id)
            && known.location.revision == new.location.revision
        {
            new.location.chunks.extend(known.location.chunks);
        }
        self.add(key, new);
    }

    fn add(&mut self, key: u64, located: Located) {
        if self.young.len() >= GENERATION_OBJECTS_MAX {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, located);
    }

    fn remove(&mut self, key: u64) {
        self.young.remove(&key);
    }
}

impl Wire for Location {
    fn put(&self, out: &mut Vec<u8>) {
        out.put_u32(self.slot);
        for number in [self.revision, self.oid, self.version, self.size_bytes] {
            out.put_u64(number);
        }
        out.put_len(self.chunks.len());
        for (index, chunk) in &self.chunks {
            out.put_u32(*index);
            out.put_bytes(&chunk.encode());
        }
    }

    fn get(input: &mut Decoder<'_>) -> Decoded<Location> {
        let (slot, revision, oid) = (input.u32()?, input.u64()?, input.u64()?);
        let (version, size_bytes) = (input.u64()?, input.u64()?);
        let mut chunks = BTreeMap::new();
        for _ in 0..input.len(8)? {
            let index = input.u32()?;
            let chunk = Chunk::decode(&Bytes::copy_from_slice(&input.bytes()?))?;
            let in_order = chunks.last_key_value().is_none_or(|(last, _)| *last < index);
            if !in_order || !matches!(chunk, Chunk::Stream { .. }) {
                return Err(Malformed);
            }
            chunks.insert(index, chunk);
        }
        Ok(Location { slot, revision, oid, version, size_bytes, chunks })
    }
}

#[cfg(test)]
#[path = "direct_tests.rs"]
mod tests;
