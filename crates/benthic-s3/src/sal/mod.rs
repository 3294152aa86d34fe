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
//! Later features (locks on objects, lifecycle, policies, encryption) find room in [`Attributes`],
//! which a driver keeps without reading them.

mod buckets;
mod garbage;
mod ids;
pub mod limits;
mod listing;
mod objects;
mod records;
mod uploads;

pub use buckets::{Bucket, BucketCheck, Buckets, NewBucket, Quota, Usage, Versioning};
pub use garbage::{Collected, Garbage, Pending};
pub use ids::{Id, VersionId};
pub use listing::{After, Entry, List, Listed, ListedUpload, ListedVersion, What, Within};
pub use objects::{
    Condition, Delete, Deleted, Finish, Object, Objects, PartOf, Prefetch, Reader, Writer, Written,
};
pub use records::{RecordChange, RecordKind, Records};
pub use uploads::{Part, PartRef, Upload, Uploads};

use bytes::Bytes;
use std::collections::BTreeMap;

/// Named values that a gateway gives to buckets, objects, uploads and parts, and a driver only
/// keeps.
pub type Attributes = BTreeMap<String, Bytes>;

/// All traits of the storage abstraction layer. Every driver does all that they promise.
pub trait Sal: Records + Buckets + Objects + Uploads + Garbage {}

impl<T: Records + Buckets + Objects + Uploads + Garbage> Sal for T {}
