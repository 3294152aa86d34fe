//! Conversions between the types of the SAL and those of the class `bucket`.

use crate::sal::{self, limits};
use benthic_classes::bucket::{codec, state, wire};

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

impl From<sal::VersionId> for wire::VersionRef {
    fn from(version: sal::VersionId) -> wire::VersionRef {
        match version {
            sal::VersionId::Null => wire::VersionRef::Null,
            sal::VersionId::Seq(seq) => wire::VersionRef::Seq(seq),
        }
    }
}

impl From<wire::VersionRef> for sal::VersionId {
    fn from(version: wire::VersionRef) -> sal::VersionId {
        match version {
            wire::VersionRef::Null => sal::VersionId::Null,
            wire::VersionRef::Seq(seq) => sal::VersionId::Seq(seq),
        }
    }
}

impl From<&state::Outcome> for sal::VersionId {
    fn from(outcome: &state::Outcome) -> sal::VersionId {
        if outcome.null { sal::VersionId::Null } else { sal::VersionId::Seq(outcome.seq) }
    }
}

impl From<sal::Versioning> for wire::Mode {
    fn from(versioning: sal::Versioning) -> wire::Mode {
        match versioning {
            sal::Versioning::Off => wire::Mode::Off,
            sal::Versioning::Enabled => wire::Mode::Enabled,
            sal::Versioning::Suspended => wire::Mode::Suspended,
        }
    }
}

impl From<wire::Mode> for sal::Versioning {
    fn from(mode: wire::Mode) -> sal::Versioning {
        match mode {
            wire::Mode::Off => sal::Versioning::Off,
            wire::Mode::Enabled => sal::Versioning::Enabled,
            wire::Mode::Suspended => sal::Versioning::Suspended,
        }
    }
}

impl From<sal::Condition> for wire::Condition {
    fn from(condition: sal::Condition) -> wire::Condition {
        match condition {
            sal::Condition::Always => wire::Condition::Always,
            sal::Condition::Exists => wire::Condition::Exists,
            sal::Condition::Absent => wire::Condition::Absent,
            sal::Condition::Matches(etag) => wire::Condition::Matches(etag),
            sal::Condition::Differs(etag) => wire::Condition::Differs(etag),
        }
    }
}

impl From<&state::Usage> for sal::Usage {
    fn from(usage: &state::Usage) -> sal::Usage {
        let state::Usage { objects, versions, markers, bytes, uploads, parts, part_bytes } = *usage;
        sal::Usage { objects, versions, markers, bytes, uploads, parts, part_bytes }
    }
}

impl From<state::Upload> for sal::Upload {
    fn from(upload: state::Upload) -> sal::Upload {
        sal::Upload { begun_ms: upload.begun_ms, attributes: upload.attributes }
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
        let what = match list.kind {
            sal::ListKind::Objects => wire::What::Objects,
            sal::ListKind::Versions => wire::What::Versions,
            sal::ListKind::Uploads => wire::What::Uploads,
        };
        let after = list.after.as_ref().map(|after| wire::After {
            key: after.key.clone(),
            within: after.within.map(|within| match within {
                sal::KeyPosition::Version(seq) => wire::Within::Version(seq),
                sal::KeyPosition::Upload(upload) => wire::Within::Upload(upload.into()),
                sal::KeyPosition::Hidden => wire::Within::Hidden,
            }),
        });
        let (prefix, delimiter) = (list.prefix.clone(), list.delimiter.clone());
        wire::List { what, prefix, delimiter, after, entries_max: list.entries_max }
    }
}

impl From<wire::After> for sal::ListPosition {
    fn from(after: wire::After) -> sal::ListPosition {
        let within = after.within.map(|within| match within {
            wire::Within::Version(seq) => sal::KeyPosition::Version(seq),
            wire::Within::Upload(upload) => sal::KeyPosition::Upload(upload.into()),
            wire::Within::Hidden => sal::KeyPosition::Hidden,
        });
        sal::ListPosition { key: after.key, within }
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
                })
            }
            wire::Entry::Upload(wire::ListedUpload { key, upload, begun_ms }) => {
                sal::Entry::Upload(sal::ListedUpload { key, upload: upload.into(), begun_ms })
            }
        }
    }
}
