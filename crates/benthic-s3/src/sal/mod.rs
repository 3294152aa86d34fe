//! The storage abstraction layer (SAL): the interface between the S3 protocol and the store.
//!
//! Why not use [`Pool`](benthic_core::Pool) directly? A pool promises atomic operations on one
//! object. S3 promises more: a bucket lists its keys in order, a key has versions, an object of
//! terabytes appears at once, and a condition is checked when the object becomes visible. A driver
//! builds these guarantees from the operations of its store.
//!
//! Every driver makes these promises, and `tests/sal/` proves them:
//!
//! - A write becomes visible whole, at one moment, no later than its acknowledgement. The last
//!   writer wins; versions never mix. An acknowledged write is durable.
//! - A reader reads one version to its end, even if that version is replaced meanwhile.
//! - A listing shows every object that existed during the whole listing exactly once, in the byte
//!   order of the keys.
//! - Keys are data: any UTF-8 of 1 to 1,024 bytes, never a path.
//! - [`Usage`] is exact.
//! - A change and its events become visible at the same moment.
//! - A failed call changed nothing, except with `OutcomeUnknown`.
//!
//! A driver over a store that cannot express a call answers `Unsupported`, and has changed nothing.
//! `docs/design/0006-s3-sal.md` lists these calls for the driver of an upstream.
//!
//! Times are in milliseconds since 1970 (UTC). Entity tags have no quotes.
//!
//! Other features of the gateway use [`Attributes`], which a driver stores without interpreting
//! them. Only a [`Lock`] binds the driver: it removes and replaces no version that a lock protects.
//! The attribute [`encryption::ENCRYPTION`] marks encrypted data.
//!
//! A storage class is a name that the operator gives to a place for data. `None` is the standard
//! class, which every driver has.

mod buckets;
pub mod encryption;
mod events;
mod garbage;
mod ids;
pub mod limits;
mod listing;
mod locks;
mod objects;
mod records;
mod uploads;

pub use buckets::{Bucket, BucketCheck, Buckets, NewBucket, Quota, Usage, Versioning};
pub use encryption::DataKey;
pub use events::{Change, Event, EventState, Events, NewEvent, QueuePlace, QueueState, Settle};
pub use garbage::{CollectionStats, Garbage, PendingGarbage};
pub use ids::{Id, VersionId};
pub use listing::{Entry, KeyPosition, List, ListKind, ListPage, ListPosition, ListedUpload, ListedVersion};
pub use locks::{DefaultRetention, Lock, Retention, RetentionMode};
pub use objects::{
    Condition, Delete, DeleteResult, Finish, Object, Objects, PartId, Prefetch, Reader, Seen, Transition,
    WriteResult, Writer,
};
pub use records::{RecordChange, RecordKind, Records};
pub use uploads::{Part, PartRef, Upload, Uploads};

use bytes::Bytes;
use std::collections::BTreeMap;

/// Named values that the gateway attaches to buckets, objects, uploads and parts. A driver stores
/// them without interpreting them.
pub type Attributes = BTreeMap<String, Bytes>;

/// All traits of the storage abstraction layer. Every driver implements all of them.
pub trait Sal: Records + Buckets + Objects + Uploads + Events + Garbage {}

impl<T: Records + Buckets + Objects + Uploads + Events + Garbage> Sal for T {}
