//! What a shard stores under its omap keys.

use super::codec::{Id, Version};
use bytes::Bytes;
use std::collections::BTreeMap;

/// Named values that the owner of an object gives it and the index only keeps.
pub type Attributes = BTreeMap<String, Bytes>;

crate::wire! {
    /// Under `h`: one a shard.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Header {
        /// Of this form.
        pub version: Version,
        /// The bucket.
        pub bucket: Id,
        /// The number of this shard.
        pub shard: u32,
        /// The revision of the bucket's record that opened or closed the shard last; only a later one may again.
        pub gate: u64,
        /// Whether the shard takes no writes, because its bucket is being deleted.
        pub closed: bool,
        /// What the next version gets.
        pub next_seq: u64,
        /// Exact sums over what the shard holds.
        pub usage: Usage,
    }

    /// What is stored. Sums over the shards are those of the bucket.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Usage {
        /// Keys whose current version is an object.
        pub objects: u64,
        /// Versions that are objects, the current ones among them.
        pub versions: u64,
        /// Versions that are delete markers.
        pub markers: u64,
        /// Bytes of all versions. What several versions share counts for each.
        pub bytes: u64,
        /// Uploads that are neither complete nor aborted.
        pub uploads: u64,
        /// Their parts.
        pub parts: u64,
        /// Bytes of these parts.
        pub part_bytes: u64,
    }

    /// Under `k`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Current {
        /// The version that is the null version but not current; 0 if there is none.
        pub null_seq: u64,
        /// The version.
        pub head: Head,
    }

    /// A version of a key; under `v` if it is not current.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Head {
        /// Of this form.
        pub version: Version,
        /// Grows from version to version of a shard.
        pub seq: u64,
        /// Whether it is its key's null version.
        pub null: bool,
        /// Whether it is a delete marker, and has no data.
        pub marker: bool,
        /// The write that made it.
        pub write: Id,
        /// Size of the data.
        pub size_bytes: u64,
        /// When it was made, in milliseconds since 1970 (UTC).
        pub modified_ms: u64,
        /// How often its attributes were changed.
        pub revision: u32,
        /// Entity tag, without quotes.
        pub etag: String,
        /// The rest; absent if it is under `b`.
        pub body: Option<Body>,
    }

    /// The part of a version that a listing does not need.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Body {
        /// Where the data are.
        pub manifest: Manifest,
        /// Attributes.
        pub attributes: Attributes,
    }

    /// Where the data of a version are.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Manifest {
        /// The group to which the data belong, if another version's write made them.
        pub shared: Option<Group>,
        /// The data, one after the other.
        pub segments: Vec<Segment>,
    }

    /// Data that were written by one version and may be shared by others.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub struct Group {
        /// The bucket that the data were written for.
        pub bucket: Id,
        /// The shard that knows who refers to them.
        pub shard: u32,
        /// The write of the version that had them first.
        pub write: Id,
    }

    /// Data in objects of one size, but for the last: `ID.0`, `ID.1`, …
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Segment {
        /// The write that made them.
        pub write: Id,
        /// Size of the data.
        pub len_bytes: u64,
        /// Size of an object.
        pub chunk_bytes: u32,
    }

    /// Data to remove: so many objects, of which not all need be there.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Chunks {
        /// The write that made them.
        pub write: Id,
        /// At most so many.
        pub count: u32,
    }

    /// Under `w` before the write is visible.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Intent {
        /// When it may be given up, in milliseconds since 1970 (UTC).
        pub expires_ms: u64,
        /// How many data objects there may be.
        pub chunks: u32,
        /// Data that it wants to share.
        pub shared: Option<Group>,
    }

    /// Under `w` after the write: what a repetition of it is answered.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Outcome {
        /// When it may be forgotten, in milliseconds since 1970 (UTC).
        pub expires_ms: u64,
        /// The version that was made or removed.
        pub seq: u64,
        /// Whether that was the null version.
        pub null: bool,
        /// Whether that was a delete marker.
        pub marker: bool,
    }

    /// Under `u`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Upload {
        /// Of this form.
        pub version: Version,
        /// When it was begun, in milliseconds since 1970 (UTC).
        pub begun_ms: u64,
        /// What its object is to get.
        pub attributes: Attributes,
    }

    /// Under `p`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Part {
        /// Of this form.
        pub version: Version,
        /// The data; absent if it has none.
        pub segment: Option<Segment>,
        /// The write that made it.
        pub write: Id,
        /// When it was written, in milliseconds since 1970 (UTC).
        pub modified_ms: u64,
        /// Entity tag, without quotes.
        pub etag: String,
        /// Attributes, such as checksums.
        pub attributes: Attributes,
    }

    /// A tag to remove from a group.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Release {
        /// The group.
        pub group: Group,
        /// The tag: the write that referred to the group.
        pub tag: Id,
    }
}

crate::wire! {
    /// Under `w`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Write {
        /// It is not visible yet.
        1 = Intent(Intent),
        /// It is done.
        2 = Outcome(Outcome),
    }

    /// Under `x`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Garbage {
        /// Data that nobody refers to.
        1 = Data(Vec<Chunks>),
        /// A reference that nobody has any longer.
        2 = Release(Release),
    }
}

impl Segment {
    /// The data objects, of which the last may be shorter.
    pub fn chunks(&self) -> Chunks {
        let count = self.len_bytes.div_ceil(u64::from(self.chunk_bytes.max(1)));
        Chunks { write: self.write, count: u32::try_from(count).unwrap_or(u32::MAX) }
    }
}

impl Part {
    /// Size of its data.
    pub fn size_bytes(&self) -> u64 {
        self.segment.map_or(0, |segment| segment.len_bytes)
    }
}

impl Usage {
    /// Adds another shard's.
    pub fn add(&mut self, other: &Usage) {
        let sums = self.fields_mut().into_iter().zip(other.clone().fields_mut().map(|field| *field));
        for (sum, addend) in sums {
            *sum = sum.saturating_add(addend);
        }
    }

    fn fields_mut(&mut self) -> [&mut u64; 7] {
        let Usage { objects, versions, markers, bytes, uploads, parts, part_bytes } = self;
        [objects, versions, markers, bytes, uploads, parts, part_bytes]
    }
}
