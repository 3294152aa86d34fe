//! Inputs and outputs of the `bucket` methods, and their limits.

use super::codec::Id;
use super::locks::{DefaultRetention, LOCK_ATTRIBUTE, Lock};
use super::state::{Attributes, Body, Group, Head, Manifest, Segment};
use benthic_core::codec::Wire;
use benthic_core::{Error, Result};
use bytes::Bytes;

/// Limit of an object's key, in bytes of UTF-8; the minimum is one byte.
pub const KEY_BYTES_MAX: usize = 1_024;
/// Limit of a listing's prefix, delimiter and marker.
pub const LIST_TEXT_BYTES_MAX: usize = 1_024;
/// Limit of the name of a storage class.
pub const CLASS_BYTES_MAX: usize = 64;
/// Limit of an entity tag.
pub const ETAG_BYTES_MAX: usize = 128;
/// Limit of the attributes of a version, an upload or a part.
pub const ATTRIBUTES_MAX: usize = 256;
/// Limit of the total bytes of attribute names and values.
pub const ATTRIBUTES_BYTES_MAX: usize = 64 * 1024;
/// The same limit for a part. It is small because one call reads all parts of an upload.
pub const PART_ATTRIBUTES_BYTES_MAX: usize = 1_024;
/// Limit of the segments of a version and of the parts of an upload.
pub const SEGMENTS_MAX: usize = 10_000;
/// Largest part number; the smallest is 1.
pub const PART_NUMBER_MAX: u16 = 10_000;
/// Limit of the data objects of one write.
pub const CHUNKS_MAX: u32 = 1 << 20;
/// Limit of the entries of a listing's page.
pub const LIST_ENTRIES_MAX: u32 = 1_000;
/// Limit of the writes that one `sweep` examines.
pub const SWEEP_MAX: usize = 1_000;
/// Limit of a body inside its version's entry; larger bodies are stored separately, so that
/// listings skip them.
pub const BODY_INLINE_BYTES_MAX: usize = 1_024;

/// Limit of the events of one change.
pub const EVENTS_MAX: usize = 200;
/// Limit of the name of a queue, which is not empty and consists of visible ASCII characters.
pub const QUEUE_NAME_BYTES_MAX: usize = 256;
/// Limit of the texts of an event.
pub const EVENT_TEXT_BYTES_MAX: usize = 512;
/// Limit of the details of an event.
pub const DETAIL_BYTES_MAX: usize = 2 * 1024;
/// Limit of the events that one `settle` processes.
pub const SETTLE_MAX: usize = 1_000;

crate::wire! {
    /// Input of `init`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Init {
        pub bucket: Id,
        pub shard: u32,
    }

    /// Input of `gate`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Gate {
        /// Revision of the bucket's record that demands the change.
        pub revision: u64,
        /// Whether to close the shard rather than open it.
        pub close: bool,
    }

    /// Input of `begin` and `renew`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Begin {
        pub write: Id,
        /// Expiry time of the intent, in milliseconds since 1970 (UTC).
        pub expires_ms: u64,
        /// Upper limit of the number of data objects; a later call may raise it.
        pub chunks: u32,
        /// Storage class of the data objects; `None` is the standard one.
        pub class: Option<String>,
        pub shared: Option<Group>,
    }

    /// The caller's time, and durations that depend on it; the module comment of the class explains
    /// why.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Times {
        /// The caller's time, in milliseconds since 1970 (UTC).
        pub now_ms: u64,
        /// Grace period during which replaced data may still be read.
        pub grace_ms: u64,
        /// How long the write's outcome is kept.
        pub outcome_ms: u64,
    }

    /// Input of `put`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Put {
        pub times: Times,
        pub write: Id,
        pub key: String,
        pub condition: Condition,
        pub mode: Mode,
        pub etag: String,
        /// Storage class of the data; `None` is the standard one.
        pub class: Option<String>,
        pub body: Body,
        /// The retention period of a version whose lock has none.
        pub default_retention: Option<DefaultRetention>,
        /// An intent to store for another write.
        pub reserve: Option<Reserve>,
        /// Events to store with the version.
        pub events: Vec<NewEvent>,
    }

    /// Input of `append`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Append {
        pub times: Times,
        pub write: Id,
        pub key: String,
        /// The current version before the call.
        pub seen: Seen,
        /// The new data.
        pub segment: Segment,
        /// The entity tag and the attributes after the call.
        pub etag: String,
        pub attributes: Attributes,
        /// Events to store with the change.
        pub events: Vec<NewEvent>,
    }

    /// An intent stored in advance for a later write of one data object.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Reserve {
        pub write: Id,
        pub expires_ms: u64,
    }

    /// Input of `delete`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Delete {
        pub times: Times,
        pub write: Id,
        pub key: String,
        /// The version to remove. Without it, the object is deleted as S3 defines it.
        pub version: Option<VersionRef>,
        /// Condition on the given version, or else on the current one.
        pub condition: Condition,
        pub mode: Mode,
        /// Whether to remove a version that is retained in governance mode.
        pub bypass_governance: bool,
        /// Time from which the deletion is allowed, in milliseconds since 1970 (UTC): on the clocks
        /// of the caller and of the store.
        pub due_ms: Option<u64>,
        /// Events to store with the change.
        pub events: Vec<NewEvent>,
    }

    /// Input of `transition`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Transition {
        pub times: Times,
        /// The write that has copied the data, or none if the version has no data.
        pub write: Id,
        pub key: String,
        pub version: VersionRef,
        /// Condition on the version.
        pub condition: Condition,
        /// The id of the data that were copied; see `Manifest::data_id`.
        pub data: Id,
        /// Size of the data that were copied. An append adds data under the same id.
        pub size_bytes: u64,
        /// The new storage class; `None` is the standard one.
        pub class: Option<String>,
        /// Time from which the transition is allowed, in milliseconds since 1970 (UTC): on the
        /// clocks of the caller and of the store.
        pub due_ms: Option<u64>,
        /// Events to store with the change.
        pub events: Vec<NewEvent>,
    }

    /// A version as a caller has seen it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Seen {
        pub write: Id,
        /// Number of changes of its attributes.
        pub revision: u32,
    }

    /// Input of `set_attributes`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct SetAttributes {
        pub key: String,
        pub version: VersionRef,
        /// The write that created the version.
        pub write: Id,
        /// Expected number of previous changes of its attributes.
        pub revision: u32,
        pub attributes: Attributes,
        /// The caller's time, in milliseconds since 1970 (UTC).
        pub now_ms: u64,
        /// Whether to shorten or remove a retention period in governance mode.
        pub bypass_governance: bool,
    }

    /// Input of `upload`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct NewUpload {
        /// The upload's id, which is also the id of its object's write.
        pub upload: Id,
        pub key: String,
        pub now_ms: u64,
        /// Storage class of the parts and of the object; `None` is the standard one.
        pub class: Option<String>,
        pub attributes: Attributes,
    }

    /// Input of `part`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct PutPart {
        pub times: Times,
        pub upload: Id,
        pub key: String,
        pub number: u16,
        pub write: Id,
        /// Storage class of the data, which must be that of the upload.
        pub class: Option<String>,
        pub segment: Option<Segment>,
        pub etag: String,
        pub attributes: Attributes,
    }

    /// Input of `complete`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Complete {
        pub times: Times,
        pub upload: Id,
        pub key: String,
        /// Condition on the current version.
        pub condition: Condition,
        pub mode: Mode,
        pub etag: String,
        pub attributes: Attributes,
        /// The retention period of a version whose lock has none.
        pub default_retention: Option<DefaultRetention>,
        /// The parts of the object, in order of their numbers.
        pub parts: Vec<PartRef>,
        /// Events to store with the version.
        pub events: Vec<NewEvent>,
    }

    /// A part in the input of `complete`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct PartRef {
        pub number: u16,
        /// The write that created the part.
        pub write: Id,
    }

    /// Input of `abort`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Abort {
        pub times: Times,
        pub upload: Id,
        pub key: String,
    }

    /// Input of `share`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Share {
        /// The write whose data are to be shared.
        pub group: Id,
        /// The write that will share them.
        pub tag: Id,
        /// Key of the version that wrote the data, needed if the data are not a group yet.
        pub key: String,
        /// The version that wrote the data.
        pub version: VersionRef,
    }

    /// Input of `release`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Unshare {
        /// The write whose data were shared.
        pub group: Id,
        /// The write that shared them.
        pub tag: Id,
        /// Time from which unreferenced data may be removed, in milliseconds since 1970 (UTC).
        pub free_at_ms: u64,
    }

    /// Input of `sweep`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Sweep {
        /// The caller's time, in milliseconds since 1970 (UTC). Intents and outcomes that expired
        /// by then are removed.
        pub now_ms: u64,
        /// The writes to examine; at most [`SWEEP_MAX`].
        pub writes: Vec<Id>,
        /// Whether to remove intents that have not expired: their own writers have abandoned them.
        pub given_up: bool,
    }

    /// An event to store with a change.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct NewEvent {
        /// The change at which it is stored.
        pub change: Change,
        pub queue: String,
        /// The name of the event, as the protocol has it.
        pub name: String,
        /// The rule that asks for the event.
        pub rule: String,
        /// Further facts about the change, which only the gateway interprets.
        pub detail: Bytes,
    }

    /// Input of `settle`. Events that are not where the call expects them are ignored.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Settle {
        pub queue: String,
        /// The caller's time, in milliseconds since 1970 (UTC).
        pub now_ms: u64,
        /// Events to remove, waiting or dead.
        pub done: Vec<u64>,
        /// Waiting events that become dead.
        pub dead: Vec<FailedEvent>,
        /// Dead events that wait again.
        pub revived: Vec<u64>,
    }

    /// An event that cannot be delivered.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct FailedEvent {
        pub number: u64,
        pub reason: String,
    }

    /// Input of `get`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Get {
        pub key: String,
        /// The version; the current one if absent.
        pub version: Option<VersionRef>,
    }

    /// Input of `list`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct List {
        pub kind: ListKind,
        /// Lists only keys that begin with this prefix.
        pub prefix: String,
        /// Groups keys that are equal up to this delimiter after the prefix into one entry. If
        /// empty, no keys are grouped.
        pub delimiter: String,
        /// The position to continue from.
        pub after: Option<ListPosition>,
        /// Limit of entries in the page, 1 to [`LIST_ENTRIES_MAX`].
        pub entries_max: u32,
    }

    /// The position from which a listing continues: after this key, or within it after a version or
    /// an upload.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ListPosition {
        /// The key. If it contains the delimiter after the prefix, the listing continues after all
        /// keys grouped with it, unless `within` is [`KeyPosition::Hidden`].
        pub key: String,
        /// The last entry of the key; `None` if all of them were listed.
        pub within: Option<KeyPosition>,
    }

    /// Output of `list`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ListOutput {
        pub entries: Vec<Entry>,
        /// The position to continue from; `None` at the end. A page may be empty without being the
        /// last.
        pub next: Option<ListPosition>,
    }

    /// A version in a listing.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ListedVersion {
        pub key: String,
        pub current: bool,
        /// The version, without its body.
        pub head: Head,
    }

    /// An upload in a listing.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ListedUpload {
        pub key: String,
        pub upload: Id,
        pub begun_ms: u64,
        pub class: Option<String>,
    }
}

crate::wire! {
    /// The condition of a write.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub enum Condition {
        #[default]
        0 = Always,
        1 = Exists,
        2 = Absent,
        /// The object exists and has this entity tag.
        3 = Matches(String),
        /// The object does not exist or has another entity tag.
        4 = Differs(String),
        /// The version has not changed, and is the current one.
        5 = Current(Seen),
        /// The version has not changed, and is not the current one.
        6 = Replaced(Seen),
    }

    /// The bucket's versioning mode: the fate of the current version when a new one is written.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Mode {
        /// Never versioned: the current version is removed.
        #[default]
        0 = Off,
        /// The current version is kept.
        1 = Enabled,
        /// The current version is kept unless it is the null version. The new version is the null
        /// version.
        2 = Suspended,
    }

    /// A change of a key, to which events belong.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Change {
        /// A version was created.
        0 = Created,
        /// A delete marker was created.
        1 = MarkerCreated,
        /// A version or a delete marker was removed.
        2 = Removed,
        /// The data of a version were moved to another storage class.
        3 = Moved,
    }

    /// Identifies a version of a key.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum VersionRef {
        0 = Null,
        /// The version with this sequence number, unless it is the null version.
        1 = Seq(u64),
    }

    /// The kind of entries that a listing returns.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ListKind {
        /// Objects: current versions that are not delete markers.
        0 = Objects,
        /// All versions, newest first.
        1 = Versions,
        /// Uploads, oldest first.
        2 = Uploads,
    }

    /// The last entry of a key in a listing.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum KeyPosition {
        /// The version with this sequence number, even if it is the null version.
        0 = Version(u64),
        1 = Upload(Id),
        /// None: the key is not listed, and the prefix that it shares with other keys was not
        /// listed yet.
        2 = Hidden,
    }

    /// An entry of a listing.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Entry {
        /// All keys with this prefix.
        0 = Prefix(String),
        1 = Version(ListedVersion),
        2 = Upload(ListedUpload),
    }
}

impl Head {
    pub fn version_ref(&self) -> VersionRef {
        if self.null { VersionRef::Null } else { VersionRef::Seq(self.seq) }
    }
}

impl List {
    pub fn check(&self) -> Result<()> {
        check_limit("the prefix is too long", self.prefix.len(), LIST_TEXT_BYTES_MAX)?;
        check_limit("the delimiter is too long", self.delimiter.len(), LIST_TEXT_BYTES_MAX)?;
        if let Some(after) = &self.after {
            check_limit("the marker is too long", after.key.len(), LIST_TEXT_BYTES_MAX)?;
        }
        if (1..=LIST_ENTRIES_MAX).contains(&self.entries_max) {
            return Ok(());
        }
        Err(Error::invalid_argument("the number of entries per page is out of range")
            .with("entries", self.entries_max)
            .with("entries_max", LIST_ENTRIES_MAX))
    }
}

impl Entry {
    /// The key by which entries are ordered and duplicates merged.
    pub fn key(&self) -> &str {
        match self {
            Entry::Prefix(key) => key,
            Entry::Version(version) => &version.key,
            Entry::Upload(upload) => &upload.key,
        }
    }

    pub fn position_after(&self, kind: ListKind) -> ListPosition {
        let within = match self {
            Entry::Version(version) if kind == ListKind::Versions => {
                Some(KeyPosition::Version(version.head.seq))
            }
            Entry::Upload(upload) => Some(KeyPosition::Upload(upload.upload)),
            Entry::Version(_) | Entry::Prefix(_) => None,
        };
        ListPosition { key: self.key().to_owned(), within }
    }
}

/// Checks the key of an object.
pub fn check_key(key: &str) -> Result<()> {
    if key.is_empty() {
        return Err(Error::invalid_argument("the object's key is empty"));
    }
    check_limit("the key is too long", key.len(), KEY_BYTES_MAX)
}

/// Checks the name of a storage class.
pub fn check_class(class: Option<&str>) -> Result<()> {
    let Some(name) = class else { return Ok(()) };
    check_limit("the name of the storage class is too long", name.len(), CLASS_BYTES_MAX)?;
    let is_allowed = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || b"_-".contains(&byte);
    if !name.is_empty() && name.bytes().all(is_allowed) {
        return Ok(());
    }
    Err(Error::invalid_argument("the name of a storage class has capital letters, digits, `_` and `-`")
        .with("class", name))
}

/// Checks an entity tag.
pub fn check_etag(etag: &str) -> Result<()> {
    check_limit("the entity tag is too long", etag.len(), ETAG_BYTES_MAX)
}

/// Checks attributes, also that a lock among them is valid.
pub fn check_attributes(attributes: &Attributes, len_bytes_max: usize) -> Result<()> {
    check_limit("there are too many attributes", attributes.len(), ATTRIBUTES_MAX)?;
    let len_bytes = attributes.iter().map(|(name, value)| name.len() + value.len()).sum();
    check_limit("the attributes are too large", len_bytes, len_bytes_max)?;
    attributes.get(LOCK_ATTRIBUTE).map_or(Ok(()), |lock| Lock::from_input(lock).map(drop))
}

/// Checks a part number.
pub fn check_part_number(number: u16) -> Result<()> {
    if (1..=PART_NUMBER_MAX).contains(&number) {
        return Ok(());
    }
    Err(Error::invalid_argument("the part number is out of range")
        .with("number", number)
        .with("number_max", PART_NUMBER_MAX))
}

impl Manifest {
    /// Size of the data. The sum saturates, which cannot happen within the limits.
    pub fn size_bytes(&self) -> u64 {
        self.segments.iter().fold(0, |sum, segment| sum.saturating_add(segment.len_bytes))
    }

    pub fn check(&self) -> Result<()> {
        check_limit("the object has too many segments", self.segments.len(), SEGMENTS_MAX)?;
        self.segments.iter().try_for_each(Segment::check)
    }
}

impl Segment {
    pub fn check(&self) -> Result<()> {
        if self.len_bytes > 0 && self.chunk_bytes > 0 && self.chunks().count <= CHUNKS_MAX {
            return Ok(());
        }
        Err(Error::invalid_argument("the sizes of a segment are not valid")
            .with("len_bytes", self.len_bytes)
            .with("chunk_bytes", self.chunk_bytes))
    }
}

/// Builds a call of a method of this class.
pub fn call(method: &str, input: &impl Wire) -> benthic_core::ClassCall {
    benthic_core::ClassCall::new("bucket", method, input.encode())
}

/// Checks a number against its limit.
///
/// # Errors
/// `LimitExceeded`.
pub fn check_limit(message: &'static str, found: usize, max: usize) -> Result<()> {
    if found <= max {
        return Ok(());
    }
    Err(Error::limit_exceeded(message).with("found", found).with("max", max))
}
