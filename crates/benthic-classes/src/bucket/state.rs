//! The values in a shard's omap.

use super::codec::{Id, Version};
use bytes::Bytes;
use std::collections::BTreeMap;

/// Named values of an object. The index stores them without interpreting them.
pub type Attributes = BTreeMap<String, Bytes>;

crate::wire! {
    /// The shard's header, under `h`: one per shard.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Header {
        pub version: Version,
        pub bucket: Id,
        pub shard: u32,
        /// The revision of the bucket's record that last opened or closed the shard. Only a later
        /// revision may change that.
        pub gate: u64,
        /// Whether the shard refuses writes because its bucket is being deleted.
        pub closed: bool,
        /// The sequence number that the next version gets.
        pub next_seq: u64,
        /// Exact totals of the shard's content.
        pub usage: Usage,
    }

    /// Storage usage. The sums over the shards are those of the bucket.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Usage {
        /// Keys whose current version is an object.
        pub objects: u64,
        /// Versions that are objects, including the current ones.
        pub versions: u64,
        /// Versions that are delete markers.
        pub markers: u64,
        /// Bytes of all versions. Shared data count once per version.
        pub bytes: u64,
        /// Uploads that are neither complete nor aborted.
        pub uploads: u64,
        /// Parts of these uploads.
        pub parts: u64,
        /// Bytes of these parts.
        pub part_bytes: u64,
    }

    /// The current version of a key, under `k`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Current {
        /// Sequence number of the null version if it is not the current version; else 0.
        pub null_seq: u64,
        pub head: Head,
    }

    /// A version of a key; under `v` if it is not current.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Head {
        pub version: Version,
        /// Sequence number; grows from version to version within a shard.
        pub seq: u64,
        pub null: bool,
        /// Whether it is a delete marker, which has no data.
        pub marker: bool,
        pub write: Id,
        pub size_bytes: u64,
        /// Creation time, in milliseconds since 1970 (UTC).
        pub modified_ms: u64,
        /// Number of changes of its attributes.
        pub revision: u32,
        /// Entity tag, without quotes.
        pub etag: String,
        /// The storage class of the data; `None` is the standard one.
        pub class: Option<String>,
        /// The rest; `None` if it is stored separately, under `b`.
        pub body: Option<Body>,
    }

    /// The part of a version that a listing does not need.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Body {
        pub manifest: Manifest,
        pub attributes: Attributes,
    }

    /// The location of a version's data.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Manifest {
        /// The group of the data, if another version's write created them.
        pub shared: Option<Group>,
        /// The write that moved the data to another storage class. Its data objects `ID.0`, `ID.1`,
        /// … are those of all segments, one after the other, with the same contents.
        pub moved: Option<Id>,
        pub segments: Vec<Segment>,
    }

    /// Data that one version wrote and other versions may share.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub struct Group {
        /// The bucket for which the data were written.
        pub bucket: Id,
        /// The shard that stores the group's tags.
        pub shard: u32,
        /// The write of the version that had the data first.
        pub write: Id,
    }

    /// Data in objects `ID.0`, `ID.1`, … of equal size, except that the last may be shorter.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Segment {
        pub write: Id,
        pub len_bytes: u64,
        pub chunk_bytes: u32,
    }

    /// Data objects of one storage class.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Data {
        /// `None` is the standard class.
        pub class: Option<String>,
        pub chunks: Vec<Chunks>,
    }

    /// Data objects of one write. Some of those to remove may not exist.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Chunks {
        pub write: Id,
        /// Upper limit of the number of objects.
        pub count: u32,
    }

    /// A write intent, under `w` until the write is visible.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Intent {
        /// Expiry time of its lease, in milliseconds since 1970 (UTC).
        pub expires_ms: u64,
        /// Upper limit of the number of data objects.
        pub chunks: u32,
        /// Storage class of these data objects; `None` is the standard one.
        pub class: Option<String>,
        /// Data that the write will share.
        pub shared: Option<Group>,
    }

    /// The outcome of a write, under `w`: the answer to a repetition of it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Outcome {
        /// Time from which it may be removed, in milliseconds since 1970 (UTC).
        pub expires_ms: u64,
        /// The version that the write created or removed.
        pub seq: u64,
        pub null: bool,
        pub marker: bool,
    }

    /// A multipart upload, under `u`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Upload {
        pub version: Version,
        /// Start time, in milliseconds since 1970 (UTC).
        pub begun_ms: u64,
        /// Storage class of the parts and of the object; `None` is the standard one.
        pub class: Option<String>,
        pub attributes: Attributes,
    }

    /// A part of an upload, under `p`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Part {
        pub version: Version,
        /// The data; `None` for an empty part.
        pub segment: Option<Segment>,
        pub write: Id,
        /// Write time, in milliseconds since 1970 (UTC).
        pub modified_ms: u64,
        /// Entity tag, without quotes.
        pub etag: String,
        pub attributes: Attributes,
    }

    /// The state of a queue of events, under `q`.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Queue {
        pub version: Version,
        /// Events that wait for delivery.
        pub waiting: u64,
        /// Events that could not be delivered.
        pub dead: u64,
        /// Events that were lost because the queue was full.
        pub lost: u64,
        /// Bytes of all waiting and dead events.
        pub bytes: u64,
    }

    /// A change of a version, under `e` while it waits for delivery, and later perhaps under `d`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Event {
        pub version: Version,
        /// The name of the event, as the protocol has it.
        pub name: String,
        /// The rule that asks for the event.
        pub rule: String,
        pub key: String,
        /// Sequence number of the version.
        pub seq: u64,
        pub null: bool,
        /// The write that made the change.
        pub write: Id,
        pub size_bytes: u64,
        /// Entity tag, without quotes.
        pub etag: String,
        /// Time of the change, in milliseconds since 1970 (UTC).
        pub time_ms: u64,
        /// Since when it waits, in milliseconds since 1970 (UTC).
        pub queued_ms: u64,
        /// Further facts about the change, which only the gateway interprets.
        pub detail: Bytes,
        /// Why a dead event was not delivered.
        pub reason: String,
    }

    /// A tag to remove from a group.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Release {
        pub group: Group,
        /// The tag: the id of the write that referred to the group.
        pub tag: Id,
    }
}

crate::wire! {
    /// The state of a write, under `w`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Write {
        1 = Intent(Intent),
        2 = Outcome(Outcome),
    }

    /// Garbage to collect, under `x`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Garbage {
        /// Data that no version refers to.
        1 = Data(Data),
        /// A tag of a version that no longer exists.
        2 = Release(Release),
    }
}

impl Segment {
    /// The data objects of the segment.
    pub fn chunks(&self) -> Chunks {
        let count = self.len_bytes.div_ceil(u64::from(self.chunk_bytes.max(1)));
        Chunks { write: self.write, count: u32::try_from(count).unwrap_or(u32::MAX) }
    }
}

impl Manifest {
    /// The id of the data of a version: that of the write that stored them.
    pub fn data_id(&self, write: Id) -> Id {
        self.moved.or(self.shared.map(|group| group.write)).unwrap_or(write)
    }

    /// The data objects.
    pub fn chunks(&self) -> Vec<Chunks> {
        let of_segments = self.segments.iter().map(Segment::chunks);
        match self.moved {
            None => of_segments.collect(),
            Some(write) => {
                let count = of_segments.fold(0, |sum: u32, chunks| sum.saturating_add(chunks.count));
                vec![Chunks { write, count }]
            }
        }
    }
}

impl Part {
    pub fn size_bytes(&self) -> u64 {
        self.segment.map_or(0, |segment| segment.len_bytes)
    }
}

impl Usage {
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
