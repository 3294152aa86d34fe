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

/// Converts enums of the SAL and of the class that have the same variants, in both directions.
macro_rules! same_variants {
    ($($sal:ident = $wire:ident { $($variant:ident $(($value:ident))?),* })*) => {$(
        impl From<sal::$sal> for wire::$wire {
            fn from(value: sal::$sal) -> wire::$wire {
                match value {
                    $(sal::$sal::$variant $(($value))? => wire::$wire::$variant $(($value.into()))?,)*
                }
            }
        }

        impl From<wire::$wire> for sal::$sal {
            fn from(value: wire::$wire) -> sal::$sal {
                match value {
                    $(wire::$wire::$variant $(($value))? => sal::$sal::$variant $(($value.into()))?,)*
                }
            }
        }
    )*};
}

same_variants! {
    VersionId = VersionRef { Null, Seq(seq) }
    Versioning = Mode { Off, Enabled, Suspended }
    Condition = Condition { Always, Exists, Absent, Matches(etag), Differs(etag) }
    ListKind = ListKind { Objects, Versions, Uploads }
    KeyPosition = KeyPosition { Version(seq), Upload(upload), Hidden }
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
                })
            }
            wire::Entry::Upload(wire::ListedUpload { key, upload, begun_ms }) => {
                sal::Entry::Upload(sal::ListedUpload { key, upload: upload.into(), begun_ms })
            }
        }
    }
}
