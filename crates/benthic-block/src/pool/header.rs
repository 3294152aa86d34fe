//! The header: the properties of an image, and its snapshots. Only the writer changes it, each time
//! as a whole, in one operation that checks that the writer still holds the image's lock.

use super::objects::ImageId;
use crate::geometry::Geometry;
use benthic_core::codec::{Decoded, Decoder, Malformed, Wire};
use benthic_core::{Error, Pool, Result, wire_enum, wire_struct};

const MAGIC: &[u8; 8] = b"BNIMAGE\n";
const FORMAT: u32 = 1;
/// Size limit of a header.
const HEADER_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Limit of snapshots per image.
pub(crate) const SNAPSHOTS_MAX: usize = 4_096;

/// The attribute with the generation of the writer: on the header the current one, on map pages and
/// data objects the one that last fenced them.
pub(crate) const GENERATION_XATTR: &str = "generation";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub size_bytes: u64,
    pub geometry: Geometry,
    /// How often the image was opened for writing.
    pub generation: u64,
    /// A writer has the image open, or has ended without closing it.
    pub is_open: bool,
    pub is_removing: bool,
    /// The number of the head's map.
    pub map: u32,
    /// The version of new data objects: the highest number in use. Versions, maps and snapshots
    /// draw their numbers from one sequence.
    pub version: u32,
    /// The snapshot from which the head continues; 0 if none. Data objects with a greater version
    /// belong to the head alone, so the writer changes them in place.
    pub base: u32,
    /// In the order of their numbers.
    pub snapshots: Vec<Snapshot>,
    pub parent: Option<Parent>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// Also the number of its map. Greater than the version of every data object that it shows.
    pub number: u32,
    pub name: String,
    pub size_bytes: u64,
    pub created_unix_ms: u64,
    /// The snapshot from which this one continues; 0 if none.
    pub base: u32,
    pub state: SnapshotState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SnapshotState {
    Unprotected,
    /// It was removed, but its data objects may still be there.
    Removing,
    Protected,
}

/// The snapshot that an image was cloned from, in the same pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parent {
    pub image: u64,
    pub snapshot: u32,
}

wire_struct! {
    Snapshot { number, name, size_bytes, created_unix_ms, base, state }
    Parent { image, snapshot }
    Geometry { object_bytes, stripe_unit_bytes, stripe_count }
}

wire_enum! {
    SnapshotState {
        0 Unprotected {}
        1 Removing {}
        2 Protected {}
    }
}

impl Snapshot {
    pub fn is_removing(&self) -> bool {
        self.state == SnapshotState::Removing
    }
}

impl Wire for Header {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(MAGIC);
        FORMAT.put(out);
        self.size_bytes.put(out);
        self.geometry.put(out);
        self.generation.put(out);
        self.is_open.put(out);
        self.is_removing.put(out);
        self.map.put(out);
        self.version.put(out);
        self.base.put(out);
        self.snapshots.put(out);
        self.parent.put(out);
    }

    fn get(input: &mut Decoder<'_>) -> Decoded<Header> {
        if input.array()? != *MAGIC || input.u32()? != FORMAT {
            return Err(Malformed);
        }
        Ok(Header {
            size_bytes: Wire::get(input)?,
            geometry: Wire::get(input)?,
            generation: Wire::get(input)?,
            is_open: Wire::get(input)?,
            is_removing: Wire::get(input)?,
            map: Wire::get(input)?,
            version: Wire::get(input)?,
            base: Wire::get(input)?,
            snapshots: Wire::get(input)?,
            parent: Wire::get(input)?,
        })
    }
}

impl Header {
    pub async fn load(pool: &dyn Pool, id: ImageId) -> Result<Header> {
        let bytes = pool.read_range(&id.header()?, 0, HEADER_BYTES_MAX + 1).await?;
        Header::parse(&bytes).map_err(|error| error.with("image_id", id))
    }

    /// # Errors
    /// `Conflict` for an image that is being removed.
    pub fn check_live(&self) -> Result<()> {
        if !self.is_removing {
            return Ok(());
        }
        Err(Error::conflict("the image is being removed; if that was interrupted, remove it again"))
    }

    /// Decodes and checks a stored header.
    fn parse(bytes: &[u8]) -> Result<Header> {
        let header = Header::decode(bytes).map_err(|_| {
            Error::corrupt("the image's header cannot be decoded: it is damaged, or a newer program wrote it")
        })?;
        let corrupt = |message: &str| Err(Error::corrupt(message));
        let sizes = header.snapshots.iter().map(|snapshot| snapshot.size_bytes).chain([header.size_bytes]);
        for size_bytes in sizes {
            if header.geometry.check(size_bytes).is_err() {
                return corrupt("the image's header has an impossible size or geometry");
            }
        }
        let mut before = 0;
        for snapshot in &header.snapshots {
            if snapshot.number <= before
                || snapshot.number >= header.version
                || snapshot.base >= snapshot.number
            {
                return corrupt("the image's header has snapshots with impossible numbers");
            }
            before = snapshot.number;
        }
        // The map's entries have 31 bits for a version.
        if header.version > u32::MAX / 2 || header.map > header.version || header.base > before {
            return corrupt("the image's header has an impossible map or base");
        }
        Ok(header)
    }

    /// The snapshot with this name.
    pub fn snapshot(&self, name: &str) -> Result<&Snapshot> {
        self.live_snapshots()
            .find(|snapshot| snapshot.name == name)
            .ok_or_else(|| Error::not_found("the image has no such snapshot").with("snapshot", name))
    }

    pub fn snapshot_by_number(&self, number: u32) -> Option<&Snapshot> {
        self.snapshots.iter().find(|snapshot| snapshot.number == number)
    }

    pub fn live_snapshots(&self) -> impl Iterator<Item = &Snapshot> {
        self.snapshots.iter().filter(|snapshot| !snapshot.is_removing())
    }

    /// The number of views that continue from a snapshot.
    pub fn successors(&self, number: u32) -> usize {
        let snapshots = self.snapshots.iter().filter(|snapshot| snapshot.base == number).count();
        snapshots + usize::from(self.base == number)
    }

    /// Draws the next number of the sequence.
    pub fn next_number(&mut self) -> Result<u32> {
        // The map's entries have 31 bits for a version.
        if self.version >= u32::MAX / 2 {
            return Err(Error::limit_exceeded("the image has used up its version numbers"));
        }
        self.version += 1;
        Ok(self.version)
    }
}

#[cfg(test)]
#[path = "header_tests.rs"]
mod tests;
