//! Conversions between the types of the SAL and those of the class `bucket`.

use crate::sal::{self, limits};
use benthic_classes::bucket::{codec, locks, state, wire};
use benthic_core::codec::Wire;
use benthic_core::{Error, Result};

// The class enforces the limits of the SAL, so both must be equal.
const _: () = assert!(
    limits::KEY_BYTES_MAX == wire::KEY_BYTES_MAX
        && limits::ETAG_BYTES_MAX == wire::ETAG_BYTES_MAX
        && limits::ATTRIBUTES_MAX == wire::ATTRIBUTES_MAX
        && limits::ATTRIBUTES_BYTES_MAX == wire::ATTRIBUTES_BYTES_MAX
        && limits::PART_ATTRIBUTES_BYTES_MAX == wire::PART_ATTRIBUTES_BYTES_MAX
        && limits::PART_NUMBER_MAX == wire::PART_NUMBER_MAX
        && limits::LIST_ENTRIES_MAX == wire::LIST_ENTRIES_MAX
);

impl From<sal::Id> for codec::Id {
    fn from(id: sal::Id) -> codec::Id {
        codec::Id(id.0)
    }
}

impl From<codec::Id> for sal::Id {
    fn from(id: codec::Id) -> sal::Id {
        sal::Id(id.0)
    }
}

/// Converts enums of the SAL and of the class that have the same variants, in both directions.
macro_rules! same_variants {
    ($($sal:ident = $module:ident::$wire:ident { $($variant:ident $(($value:ident))?),* })*) => {$(
        impl From<sal::$sal> for $module::$wire {
            fn from(value: sal::$sal) -> $module::$wire {
                match value {
                    $(sal::$sal::$variant $(($value))? => $module::$wire::$variant $(($value.into()))?,)*
                }
            }
        }

        impl From<$module::$wire> for sal::$sal {
            fn from(value: $module::$wire) -> sal::$sal {
                match value {
                    $($module::$wire::$variant $(($value))? => sal::$sal::$variant $(($value.into()))?,)*
                }
            }
        }
    )*};
}

same_variants! {
    VersionId = wire::VersionRef { Null, Seq(seq) }
    Versioning = wire::Mode { Off, Enabled, Suspended }
    Condition = wire::Condition { Always, Exists, Absent, Matches(etag), Differs(etag), Current(seen), Replaced(seen) }
    RetentionMode = locks::RetentionMode { Governance, Compliance }
    Change = wire::Change { Created, MarkerCreated, Removed, Moved }
    ListKind = wire::ListKind { Objects, Versions, Uploads }
    KeyPosition = wire::KeyPosition { Version(seq), Upload(upload), Hidden }
}

impl From<&state::Outcome> for sal::VersionId {
    fn from(outcome: &state::Outcome) -> sal::VersionId {
        if outcome.null { sal::VersionId::Null } else { sal::VersionId::Seq(outcome.seq) }
    }
}

impl From<&state::Usage> for sal::Usage {
    fn from(usage: &state::Usage) -> sal::Usage {
        let state::Usage { objects, versions, markers, bytes, uploads, parts, part_bytes } = *usage;
        sal::Usage { objects, versions, markers, bytes, uploads, parts, part_bytes }
    }
}

impl From<sal::Retention> for locks::Retention {
    fn from(retention: sal::Retention) -> locks::Retention {
        locks::Retention { mode: retention.mode.into(), until_ms: retention.until_ms }
    }
}

impl From<locks::Retention> for sal::Retention {
    fn from(retention: locks::Retention) -> sal::Retention {
        sal::Retention { mode: retention.mode.into(), until_ms: retention.until_ms }
    }
}

impl From<sal::DefaultRetention> for locks::DefaultRetention {
    fn from(retention: sal::DefaultRetention) -> locks::DefaultRetention {
        locks::DefaultRetention { mode: retention.mode.into(), duration_ms: retention.duration_ms }
    }
}

impl From<sal::Seen> for wire::Seen {
    fn from(seen: sal::Seen) -> wire::Seen {
        wire::Seen { write: seen.write.into(), revision: seen.revision }
    }
}

impl From<wire::Seen> for sal::Seen {
    fn from(seen: wire::Seen) -> sal::Seen {
        sal::Seen { write: seen.write.into(), revision: seen.revision }
    }
}

/// Adds a lock to attributes, where the class finds it.
pub(super) fn with_lock(mut attributes: sal::Attributes, lock: sal::Lock) -> state::Attributes {
    if lock != sal::Lock::default() {
        let retention = lock.retention.map(Into::into);
        let lock = locks::Lock { version: codec::Version, retention, legal_hold: lock.legal_hold };
        attributes.insert(locks::LOCK_ATTRIBUTE.to_owned(), lock.encode());
    }
    attributes
}

/// Separates a lock from attributes.
pub(super) fn split_lock(mut attributes: state::Attributes) -> Result<(sal::Attributes, sal::Lock)> {
    let Some(stored) = attributes.remove(locks::LOCK_ATTRIBUTE) else {
        return Ok((attributes, sal::Lock::default()));
    };
    let locks::Lock { retention, legal_hold, .. } = locks::Lock::from_stored(&stored)?;
    Ok((attributes, sal::Lock { retention: retention.map(Into::into), legal_hold }))
}

/// An object that is not visible yet: with its data, without a version.
pub(super) fn object_before(
    key: &str,
    write: sal::Id,
    manifest: state::Manifest,
    class: Option<String>,
    attributes: &sal::Attributes,
    now_ms: u64,
) -> sal::Object {
    sal::Object {
        key: key.to_owned(),
        version: sal::VersionId::Null,
        marker: false,
        size_bytes: manifest.size_bytes(),
        modified_ms: now_ms,
        etag: String::new(),
        attributes: attributes.clone(),
        lock: sal::Lock::default(),
        revision: 0,
        class,
        write,
        part_bytes: manifest.segments.iter().map(|segment| segment.len_bytes).collect(),
        location: std::sync::Arc::new(manifest),
    }
}

impl TryFrom<state::Upload> for sal::Upload {
    type Error = Error;

    fn try_from(upload: state::Upload) -> Result<sal::Upload> {
        let (attributes, lock) = split_lock(upload.attributes)?;
        Ok(sal::Upload { begun_ms: upload.begun_ms, attributes, lock, class: upload.class })
    }
}

impl From<state::Part> for sal::Part {
    fn from(part: state::Part) -> sal::Part {
        sal::Part {
            write: part.write.into(),
            size_bytes: part.size_bytes(),
            modified_ms: part.modified_ms,
            etag: part.etag,
            attributes: part.attributes,
        }
    }
}

impl From<&sal::PartRef> for wire::PartRef {
    fn from(part: &sal::PartRef) -> wire::PartRef {
        wire::PartRef { number: part.number, write: part.write.into() }
    }
}

impl From<&sal::List> for wire::List {
    fn from(list: &sal::List) -> wire::List {
        let sal::List { kind, prefix, delimiter, after, entries_max } = list.clone();
        let after =
            after.map(|after| wire::ListPosition { key: after.key, within: after.within.map(Into::into) });
        wire::List { kind: kind.into(), prefix, delimiter, after, entries_max }
    }
}

impl From<wire::ListPosition> for sal::ListPosition {
    fn from(after: wire::ListPosition) -> sal::ListPosition {
        sal::ListPosition { key: after.key, within: after.within.map(Into::into) }
    }
}

impl From<wire::Entry> for sal::Entry {
    fn from(entry: wire::Entry) -> sal::Entry {
        match entry {
            wire::Entry::Prefix(prefix) => sal::Entry::Prefix(prefix),
            wire::Entry::Version(wire::ListedVersion { key, current, head }) => {
                sal::Entry::Version(sal::ListedVersion {
                    key,
                    current,
                    version: head.version_ref().into(),
                    seq: head.seq,
                    marker: head.marker,
                    size_bytes: head.size_bytes,
                    modified_ms: head.modified_ms,
                    etag: head.etag,
                    write: head.write.into(),
                    revision: head.revision,
                    class: head.class,
                })
            }
            wire::Entry::Upload(wire::ListedUpload { key, upload, begun_ms, class }) => {
                sal::Entry::Upload(sal::ListedUpload { key, upload: upload.into(), begun_ms, class })
            }
        }
    }
}
