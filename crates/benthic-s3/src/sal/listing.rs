//! Pages of listings: of objects, versions or uploads.

use super::{Id, VersionId};

/// A request for one page of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List {
    pub kind: ListKind,
    /// Only keys with this prefix are listed.
    pub prefix: String,
    /// Keys that are equal from the end of the prefix up to the first delimiter are listed as one
    /// entry. An empty delimiter lists every key on its own.
    pub delimiter: String,
    /// Where to continue; the start of the listing if absent.
    pub after: Option<ListPosition>,
    /// Entry limit, 1 to [`LIST_ENTRIES_MAX`](super::limits::LIST_ENTRIES_MAX).
    pub entries_max: u32,
}

impl List {
    /// The entry that stands for a key and all others with the same common prefix; `None` if the
    /// key has an entry of its own, or does not belong to the listing.
    pub fn common_prefix<'k>(&self, key: &'k str) -> Option<&'k str> {
        let rest = key.strip_prefix(&self.prefix)?;
        let end = rest.find(&self.delimiter).filter(|_| !self.delimiter.is_empty())?;
        Some(&key[..self.prefix.len() + end + self.delimiter.len()])
    }

    /// The common prefix that [`List::after`] skips.
    pub fn passed_prefix(&self) -> Option<&str> {
        let after = self.after.as_ref().filter(|after| after.within != Some(KeyPosition::Hidden))?;
        self.common_prefix(&after.key)
    }

    /// Whether a key, or a common prefix, is before the page.
    pub fn is_passed(&self, key: &str) -> bool {
        let Some(after) = &self.after else { return false };
        key <= after.key.as_str() || self.passed_prefix().is_some_and(|prefix| key.starts_with(prefix))
    }
}

/// The kind of entries to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListKind {
    /// Keys whose current version is an object.
    Objects,
    /// All versions, newest first.
    Versions,
    /// Uploads, oldest first.
    Uploads,
}

/// The position after which a listing continues: after a key, or after one version or upload of a
/// key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListPosition {
    /// If the key contains the delimiter, the listing skips all keys with the same common prefix,
    /// unless `within` is [`KeyPosition::Hidden`].
    pub key: String,
    /// The last version or upload of the key that was listed; if absent, the whole key is skipped.
    pub within: Option<KeyPosition>,
}

/// A position inside a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyPosition {
    /// After the version with this sequence number, even if it is the null version.
    Version(u64),
    Upload(Id),
    /// After the key. Neither the key nor a common prefix that contains it has appeared in the
    /// listing.
    Hidden,
}

/// One page of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListPage {
    pub entries: Vec<Entry>,
    /// Where to continue; absent at the end of the listing. A page may be empty without being the
    /// last.
    pub next: Option<ListPosition>,
}

/// An entry of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// All keys with this common prefix.
    Prefix(String),
    Version(ListedVersion),
    Upload(ListedUpload),
}

/// A version in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedVersion {
    pub key: String,
    /// Whether this is the current version of its key.
    pub current: bool,
    pub version: VersionId,
    /// The sequence number, which the null version has too.
    pub seq: u64,
    pub marker: bool,
    pub size_bytes: u64,
    pub modified_ms: u64,
    pub etag: String,
    pub write: Id,
    /// Number of changes of its attributes and its lock.
    pub revision: u32,
    /// Storage class of the data.
    pub class: Option<String>,
}

/// An upload in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedUpload {
    pub key: String,
    pub upload: Id,
    pub begun_ms: u64,
    pub class: Option<String>,
}

impl Entry {
    /// The key or prefix. Entries are ordered by it, and equal prefixes are merged.
    pub fn key(&self) -> &str {
        match self {
            Entry::Prefix(key) => key,
            Entry::Version(version) => &version.key,
            Entry::Upload(upload) => &upload.key,
        }
    }

    /// The position at which a listing continues after this entry.
    pub fn position(&self, kind: ListKind) -> ListPosition {
        let within = match self {
            Entry::Version(version) if kind == ListKind::Versions => Some(KeyPosition::Version(version.seq)),
            Entry::Upload(upload) => Some(KeyPosition::Upload(upload.upload)),
            Entry::Version(_) | Entry::Prefix(_) => None,
        };
        ListPosition { key: self.key().to_owned(), within }
    }
}
