//! Pages of listings, of objects, versions or uploads.

use super::{Id, VersionId};

/// A page to list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List {
    /// What to list.
    pub what: What,
    /// Only keys that begin so.
    pub prefix: String,
    /// Keys that are equal up to this, behind the prefix, are one entry; no such entries if it is
    /// empty.
    pub delimiter: String,
    /// Where to go on.
    pub after: Option<After>,
    /// At most so many entries, 1 to [`LIST_ENTRIES_MAX`](super::limits::LIST_ENTRIES_MAX).
    pub entries_max: u32,
}

/// What to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Keys whose current version is an object.
    Objects,
    /// All versions, newest first.
    Versions,
    /// Uploads, oldest first.
    Uploads,
}

/// Where a listing goes on: behind this key, or within it behind a version or an upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct After {
    /// The key. If it has the delimiter, the listing goes on behind all keys that are one entry
    /// with it, unless it is [`Within::Hidden`].
    pub key: String,
    /// The last entry of the key that was listed; all of them if absent.
    pub within: Option<Within>,
}

/// The last entry of a key that was listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Within {
    /// The version with this number, also if it is the null version.
    Version(u64),
    /// The upload.
    Upload(Id),
    /// None: the key is not shown, and neither was the prefix that it has in common with other
    /// keys.
    Hidden,
}

/// A page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Entries in order.
    pub entries: Vec<Entry>,
    /// Where to go on; absent at the end. A page may be empty and not the last.
    pub next: Option<After>,
}

/// An entry of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// All keys that begin so.
    Prefix(String),
    /// A version.
    Version(ListedVersion),
    /// An upload.
    Upload(ListedUpload),
}

/// A version in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedVersion {
    /// The key.
    pub key: String,
    /// Whether it is the current version.
    pub current: bool,
    /// The version.
    pub version: VersionId,
    /// Its number, also if it is the null version.
    pub seq: u64,
    /// Whether it is a delete marker.
    pub marker: bool,
    /// Size of the data.
    pub size_bytes: u64,
    /// When it was made, in milliseconds since 1970 (UTC).
    pub modified_ms: u64,
    /// Entity tag, without quotes.
    pub etag: String,
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

impl Entry {
    /// The key or prefix, by which entries are ordered and equal prefixes merged.
    pub fn key(&self) -> &str {
        match self {
            Entry::Prefix(key) => key,
            Entry::Version(version) => &version.key,
            Entry::Upload(upload) => &upload.key,
        }
    }

    /// Where a listing goes on behind the entry.
    pub fn place(&self, what: What) -> After {
        let within = match self {
            Entry::Version(version) if what == What::Versions => Some(Within::Version(version.seq)),
            Entry::Upload(upload) => Some(Within::Upload(upload.upload)),
            Entry::Version(_) | Entry::Prefix(_) => None,
        };
        After { key: self.key().to_owned(), within }
    }
}
