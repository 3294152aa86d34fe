//! The storage abstraction layer: what a gateway asks of whatever keeps its objects.
//!
//! Why not [`Pool`](benthic_core::Pool) itself? A pool promises atomic operations on one object. S3 promises more: a bucket lists
//! its keys in order, a key has versions, an object of terabytes appears at once, a condition is checked where the
//! object becomes visible. The driver makes these of what its store has.
//!
//! What every driver promises, and `tests/sal/` proves:
//!
//! - A write becomes visible whole, at one moment, when it is acknowledged at the latest; last writer wins, never a mix. What
//!   was acknowledged is durable.
//! - A reader reads one version to its end, also if that is replaced meanwhile.
//! - A listing shows every object that was there all the time, once, in the order of the bytes of the keys.
//! - Keys are data: any UTF-8 of 1 to 1,024 bytes, never a path.
//! - [`Usage`] is exact.
//! - A call that fails changed nothing, but for `OutcomeUnknown`.
//!
//! What is to come (locks on objects, lifecycle, policies, encryption) finds room in [`Attributes`], which a driver keeps
//! without looking at them, and in [`Capabilities`].

mod buckets;
mod garbage;
pub mod limits;
mod objects;
mod records;
mod uploads;

pub use benthic_classes::bucket::codec::Id;
pub use benthic_classes::bucket::state::{Attributes, Manifest, Part, Segment, Upload, Usage};
pub use benthic_classes::bucket::wire::{
    After, Condition, Entry, List, Listed, ListedUpload, ListedVersion, Mode as Versioning, PartRef,
    VersionRef as VersionId, What, Within,
};
pub use buckets::{Bucket, BucketCheck, Buckets, NewBucket, Quota};
pub use garbage::{Collected, Garbage, Pending};
pub use objects::{Ahead, Delete, Deleted, Finish, Object, Objects, PartOf, Reader, Writer, Written};
pub use records::{RecordChange, RecordKind, Records};
pub use uploads::Uploads;

/// All of it.
pub trait Sal: Records + Buckets + Objects + Uploads + Garbage {
    /// What this driver can do.
    fn capabilities(&self) -> Capabilities;
}

/// What a driver can do. What it cannot a gateway answers with NotImplemented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Versions, null versions and delete markers.
    pub versioning: bool,
    /// Uploads in parts.
    pub uploads: bool,
    /// Copies that share the data of what was copied.
    pub shared_copies: bool,
    /// Limits on a bucket.
    pub quotas: bool,
}
