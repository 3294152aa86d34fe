//! Input and output of the `bucket` methods, and their limits.

use super::codec::Id;
use super::state::{Attributes, Body, Group, Head, Manifest, Segment};
use benthic_core::{Error, ErrorKind, Result};
use std::fmt;
use std::str::FromStr;

/// Longest key of an object, in bytes of UTF-8. It has one byte at least.
pub const KEY_BYTES_MAX: usize = 1_024;
/// Longest prefix, delimiter and marker of a listing.
pub const LIST_TEXT_BYTES_MAX: usize = 1_024;
/// Longest entity tag.
pub const ETAG_BYTES_MAX: usize = 128;
/// Most attributes of a version, an upload or a part.
pub const ATTRIBUTES_MAX: usize = 256;
/// Most bytes of names and values of attributes.
pub const ATTRIBUTES_BYTES_MAX: usize = 64 * 1024;
/// The same of a part: one call reads all parts of an upload.
pub const PART_ATTRIBUTES_BYTES_MAX: usize = 1_024;
/// Most segments of a version, and most parts of an upload.
pub const SEGMENTS_MAX: usize = 10_000;
/// Largest number of a part; the least is 1.
pub const PART_NUMBER_MAX: u16 = 10_000;
/// Most data objects of one write.
pub const CHUNKS_MAX: u32 = 1 << 20;
/// Most entries of a page of a listing.
pub const LIST_ENTRIES_MAX: u32 = 1_000;
/// Most writes that one call looks at, and most garbage that it forgets.
pub const SWEEP_MAX: usize = 1_000;
/// Largest body that stands in its version's entry; listings read past it.
pub const BODY_INLINE_BYTES_MAX: usize = 1_024;

crate::wire! {
    /// Of `init`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Init {
        /// The bucket.
        pub bucket: Id,
        /// The number of this shard.
        pub shard: u32,
    }

    /// Of `gate`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Gate {
        /// Of the bucket's record that says so.
        pub revision: u64,
        /// Whether to close.
        pub close: bool,
    }

    /// Of `begin`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Begin {
        /// The write.
        pub write: Id,
        /// When it may be given up, in milliseconds since 1970 (UTC).
        pub expires_ms: u64,
        /// How many data objects there may be; a later call may raise it.
        pub chunks: u32,
        /// Data that it wants to share.
        pub shared: Option<Group>,
    }

    /// The time at which a method is called, and what follows from it. It is the caller's: see the head of the class.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Times {
        /// Now, in milliseconds since 1970 (UTC).
        pub now_ms: u64,
        /// How long what is replaced may still be read.
        pub grace_ms: u64,
        /// How long the write's outcome is kept.
        pub outcome_ms: u64,
    }

    /// Of `put`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Put {
        /// Time.
        pub times: Times,
        /// The write.
        pub write: Id,
        /// The object.
        pub key: String,
        /// What must hold.
        pub condition: Condition,
        /// What becomes of the version that is replaced.
        pub mode: Mode,
        /// Entity tag.
        pub etag: String,
        /// The rest.
        pub body: Body,
        /// One more intent to note, for another write.
        pub reserve: Option<Reserve>,
    }

    /// An intent that nobody needs yet: of a write of one data object.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Reserve {
        /// The write.
        pub write: Id,
        /// When it may be given up, in milliseconds since 1970 (UTC).
        pub expires_ms: u64,
    }

    /// Of `delete`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Delete {
        /// Time.
        pub times: Times,
        /// The write.
        pub write: Id,
        /// The object.
        pub key: String,
        /// The version to remove; absent: what S3 means by deleting an object.
        pub version: Option<VersionRef>,
        /// What must hold of the version, or of the current one.
        pub condition: Condition,
        /// What becomes of the current version.
        pub mode: Mode,
    }

    /// Of `set_attributes`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct SetAttributes {
        /// The object.
        pub key: String,
        /// Its version.
        pub version: VersionRef,
        /// The write that made it.
        pub write: Id,
        /// How often its attributes were changed so far.
        pub revision: u32,
        /// The new ones.
        pub attributes: Attributes,
    }

    /// Of `upload`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct NewUpload {
        /// The upload; also the write of its object.
        pub upload: Id,
        /// The object.
        pub key: String,
        /// Now, in milliseconds since 1970 (UTC).
        pub now_ms: u64,
        /// What the object is to get.
        pub attributes: Attributes,
    }

    /// Of `part`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct PutPart {
        /// Time.
        pub times: Times,
        /// The upload.
        pub upload: Id,
        /// Its object.
        pub key: String,
        /// The part's number.
        pub number: u16,
        /// The write.
        pub write: Id,
        /// The data; absent if it has none.
        pub segment: Option<Segment>,
        /// Entity tag.
        pub etag: String,
        /// Attributes.
        pub attributes: Attributes,
    }

    /// Of `complete`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Complete {
        /// Time.
        pub times: Times,
        /// The upload.
        pub upload: Id,
        /// Its object.
        pub key: String,
        /// What must hold of the current version.
        pub condition: Condition,
        /// What becomes of the version that is replaced.
        pub mode: Mode,
        /// Entity tag.
        pub etag: String,
        /// Attributes.
        pub attributes: Attributes,
        /// The parts of the object in order of their numbers, and the writes that made them.
        pub parts: Vec<PartRef>,
    }

    /// A part as `complete` names it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct PartRef {
        /// Its number.
        pub number: u16,
        /// The write that made it.
        pub write: Id,
    }

    /// Of `abort`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Abort {
        /// Time.
        pub times: Times,
        /// The upload.
        pub upload: Id,
        /// Its object.
        pub key: String,
    }

    /// Of `share`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Share {
        /// The write whose data are wanted.
        pub group: Id,
        /// The write that wants them.
        pub tag: Id,
        /// Where the group's own version is, if it has none but that.
        pub key: String,
        /// Its version.
        pub version: VersionRef,
    }

    /// Of `release`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Unshare {
        /// The write whose data were wanted.
        pub group: Id,
        /// The write that wanted them.
        pub tag: Id,
        /// When what nobody wants any longer may be removed.
        pub free_at_ms: u64,
    }

    /// Of `sweep`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Sweep {
        /// Now, in milliseconds since 1970 (UTC): intents and outcomes that expired before are given up.
        pub now_ms: u64,
        /// Those to look at; at most [`SWEEP_MAX`].
        pub writes: Vec<Id>,
        /// Intents to give up whether they expired or not: their own writers say so.
        pub given_up: bool,
    }

    /// Of `get`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Get {
        /// The object.
        pub key: String,
        /// The version; the current one if absent.
        pub version: Option<VersionRef>,
    }

    /// Of `list`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct List {
        /// What to list.
        pub what: What,
        /// Only keys that begin so.
        pub prefix: String,
        /// Keys that are equal up to this, behind the prefix, are one entry; no such entries if it is empty.
        pub delimiter: String,
        /// Where to go on.
        pub after: Option<After>,
        /// At most so many entries, 1 to [`LIST_ENTRIES_MAX`].
        pub entries_max: u32,
    }

    /// Where a listing goes on: behind this key, or within it behind a version or an upload.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct After {
        /// The key. If it has the delimiter, the listing goes on behind all keys that are one entry with it, unless it is
        /// [`Within::Hidden`].
        pub key: String,
        /// What of the key came last; all of it if absent.
        pub within: Option<Within>,
    }

    /// Output of `list`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Listed {
        /// Entries in order.
        pub entries: Vec<Entry>,
        /// Where to go on; absent at the end. A page may be empty and not the last.
        pub next: Option<After>,
    }

    /// A version in a listing.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ListedVersion {
        /// The key.
        pub key: String,
        /// Whether it is the current version.
        pub current: bool,
        /// The version, without its body.
        pub head: Head,
    }

    /// An upload in a listing.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ListedUpload {
        /// The key.
        pub key: String,
        /// The upload.
        pub upload: Id,
        /// When it was begun, in milliseconds since 1970 (UTC).
        pub begun_ms: u64,
    }
}

crate::wire! {
    /// What must hold for a write to happen.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub enum Condition {
        /// Nothing.
        #[default]
        0 = Always,
        /// The object is there.
        1 = Exists,
        /// It is not.
        2 = Absent,
        /// It is there and has this entity tag.
        3 = Matches(String),
        /// It is not there or has another one.
        4 = Differs(String),
    }

    /// What becomes of the current version when a new one comes.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Mode {
        /// There never were versions: it goes.
        #[default]
        0 = Off,
        /// It is kept.
        1 = Enabled,
        /// It is kept, but for the null version: the new one is the null version.
        2 = Suspended,
    }

    /// A version of a key.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum VersionRef {
        /// Its null version.
        0 = Null,
        /// The version with this number, if that is not the null version.
        1 = Seq(u64),
    }

    /// What a listing shows.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum What {
        /// Objects: current versions that are no delete markers.
        0 = Objects,
        /// All versions, newest first.
        1 = Versions,
        /// Uploads, oldest first.
        2 = Uploads,
    }

    /// What of a key came last.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Within {
        /// The version with this number, also if it is the null version.
        0 = Version(u64),
        /// The upload.
        1 = Upload(Id),
        /// Nothing: it is not shown, and what it has in common with other keys was not shown yet.
        2 = Hidden,
    }

    /// An entry of a listing.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Entry {
        /// All keys that begin so.
        0 = Prefix(String),
        /// A version.
        1 = Version(ListedVersion),
        /// An upload.
        2 = Upload(ListedUpload),
    }
}

impl Head {
    /// Its name among the versions of its key.
    pub fn version_ref(&self) -> VersionRef {
        if self.null { VersionRef::Null } else { VersionRef::Seq(self.seq) }
    }
}

/// `null`, or 16 hexadecimal digits.
impl fmt::Display for VersionRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VersionRef::Null => f.write_str("null"),
            VersionRef::Seq(seq) => write!(f, "{seq:016x}"),
        }
    }
}

impl FromStr for VersionRef {
    type Err = Error;

    fn from_str(text: &str) -> Result<VersionRef> {
        if text == "null" {
            return Ok(VersionRef::Null);
        }
        let seq = u64::from_str_radix(text, 16).ok().map(VersionRef::Seq);
        seq.filter(|version| version.to_string() == text).ok_or_else(|| {
            Error::new(ErrorKind::InvalidArgument, "this names no version").with("version", text)
        })
    }
}

impl List {
    /// Checks the request.
    ///
    /// # Errors
    /// `LimitExceeded`, `InvalidArgument`.
    pub fn check(&self) -> Result<()> {
        check_most("the prefix is too long", self.prefix.len(), LIST_TEXT_BYTES_MAX)?;
        check_most("the delimiter is too long", self.delimiter.len(), LIST_TEXT_BYTES_MAX)?;
        if let Some(after) = &self.after {
            check_most("the marker is too long", after.key.len(), LIST_TEXT_BYTES_MAX)?;
        }
        if (1..=LIST_ENTRIES_MAX).contains(&self.entries_max) {
            return Ok(());
        }
        Err(Error::new(ErrorKind::InvalidArgument, "a page has one entry at least, and not too many")
            .with("entries", self.entries_max)
            .with("entries_max", LIST_ENTRIES_MAX))
    }
}

impl Entry {
    /// By what entries are ordered, and equal ones merged.
    pub fn key(&self) -> &str {
        match self {
            Entry::Prefix(key) => key,
            Entry::Version(version) => &version.key,
            Entry::Upload(upload) => &upload.key,
        }
    }

    /// Where a listing goes on behind it.
    pub fn place(&self, what: What) -> After {
        let within = match self {
            Entry::Version(version) if what == What::Versions => Some(Within::Version(version.head.seq)),
            Entry::Upload(upload) => Some(Within::Upload(upload.upload)),
            Entry::Version(_) | Entry::Prefix(_) => None,
        };
        After { key: self.key().to_owned(), within }
    }
}

/// Checks the key of an object.
///
/// # Errors
/// `InvalidArgument` if it is empty, `LimitExceeded`.
pub fn check_key(key: &str) -> Result<()> {
    if key.is_empty() {
        return Err(Error::new(ErrorKind::InvalidArgument, "the key of an object is not empty"));
    }
    check_most("the key is too long", key.len(), KEY_BYTES_MAX)
}

/// Checks an entity tag.
///
/// # Errors
/// `LimitExceeded`.
pub fn check_etag(etag: &str) -> Result<()> {
    check_most("the entity tag is too long", etag.len(), ETAG_BYTES_MAX)
}

/// Checks attributes.
///
/// # Errors
/// `LimitExceeded`.
pub fn check_attributes(attributes: &Attributes, len_bytes_max: usize) -> Result<()> {
    check_most("there are too many attributes", attributes.len(), ATTRIBUTES_MAX)?;
    let len_bytes = attributes.iter().map(|(name, value)| name.len() + value.len()).sum();
    check_most("the attributes are too large", len_bytes, len_bytes_max)
}

/// Checks the number of a part.
///
/// # Errors
/// `InvalidArgument`.
pub fn check_part_number(number: u16) -> Result<()> {
    if (1..=PART_NUMBER_MAX).contains(&number) {
        return Ok(());
    }
    Err(Error::new(ErrorKind::InvalidArgument, "no part has this number")
        .with("number", number)
        .with("number_max", PART_NUMBER_MAX))
}

impl Manifest {
    /// Size of the data; saturated, which no segments within the limits are.
    pub fn size_bytes(&self) -> u64 {
        self.segments.iter().fold(0, |sum, segment| sum.saturating_add(segment.len_bytes))
    }

    /// Checks number and sizes of the segments.
    ///
    /// # Errors
    /// `LimitExceeded`, `InvalidArgument`.
    pub fn check(&self) -> Result<()> {
        check_most("the object has too many segments", self.segments.len(), SEGMENTS_MAX)?;
        self.segments.iter().try_for_each(Segment::check)
    }
}

impl Segment {
    /// Checks the size.
    ///
    /// # Errors
    /// `InvalidArgument` if it has no data or no data object.
    pub fn check(&self) -> Result<()> {
        if self.len_bytes > 0 && self.chunk_bytes > 0 && self.chunks().count <= CHUNKS_MAX {
            return Ok(());
        }
        Err(Error::new(ErrorKind::InvalidArgument, "a segment makes no sense")
            .with("len_bytes", self.len_bytes)
            .with("chunk_bytes", self.chunk_bytes))
    }
}

/// A call of a method of this class.
pub fn call(method: &str, input: &impl benthic_core::codec::Wire) -> benthic_core::ClassCall {
    benthic_core::ClassCall { class: "bucket".to_owned(), method: method.to_owned(), input: input.encode() }
}

pub(super) fn check_most(message: &'static str, found: usize, max: usize) -> Result<()> {
    if found <= max {
        return Ok(());
    }
    Err(Error::new(ErrorKind::LimitExceeded, message).with("found", found).with("max", max))
}
