//! The contract of block images. The conformance suite in `tests/it/conformance.rs` defines its
//! meaning, and every implementation runs it.

use crate::{Geometry, ImageGroups, Limits};
use async_trait::async_trait;
use benthic_core::{Durability, Finding, ObjectId, Result};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;

/// The images of a pool.
#[async_trait]
pub trait Images: Send + Sync {
    /// Creates an image whose bytes are all zero.
    ///
    /// # Errors
    /// `AlreadyExists`; `InvalidArgument` for a bad name or geometry; `LimitExceeded` for too many
    /// objects.
    async fn create(&self, name: &str, options: CreateOptions) -> Result<()>;

    /// The names of all images, in bytewise order.
    async fn list(&self) -> Result<Vec<String>>;

    /// The RADOS namespaces of the pool that have images of their own, which this trait does not
    /// reach. Only RBD's format has them.
    async fn namespaces(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    /// Opens an image, or one of its snapshots, which is always read-only.
    ///
    /// # Errors
    /// `NotFound`; `Busy` if another program has the image open for writing; `InvalidArgument` for
    /// a snapshot opened for writing; `Conflict` for an image whose removal was interrupted. A
    /// killed program counts until its lease ends. In Benthic's own format, one of this machine
    /// does not.
    async fn open(&self, name: &str, snapshot: Option<&str>, mode: OpenMode) -> Result<Arc<dyn Image>>;

    /// The programs that have an image open for writing, by names for people. Usually one; other
    /// clients of RBD may share an image.
    ///
    /// # Errors
    /// `NotFound`.
    async fn writers(&self, name: &str) -> Result<Vec<String>>;

    /// Changes an image, also while another program has it open for writing: then that program
    /// makes the change.
    ///
    /// # Errors
    /// Those of the change; `Busy` if the other program does not answer.
    async fn change(&self, name: &str, change: Change) -> Result<()>;

    /// Creates an image that shows the snapshot's bytes and copies the blocks that are written. The
    /// snapshot cannot be removed while the clone exists.
    ///
    /// # Errors
    /// `NotFound` for the snapshot, `AlreadyExists` for the clone.
    async fn clone_snapshot(&self, name: &str, snapshot: &str, clone: &str) -> Result<()>;

    /// As [`Images::clone_snapshot`], with the clone in another pool.
    ///
    /// # Errors
    /// Those of `clone_snapshot`; `NotFound` for the pool; `Unsupported` in Benthic's own format.
    async fn clone_to_pool(&self, name: &str, snapshot: &str, pool: &str, clone: &str) -> Result<()>;

    /// Renames an image, which may be open.
    ///
    /// # Errors
    /// `NotFound`, `AlreadyExists`.
    async fn rename(&self, from: &str, to: &str) -> Result<()>;

    /// Removes an image. An interrupted removal can be repeated; the image cannot be opened
    /// meanwhile.
    ///
    /// # Errors
    /// `NotFound`; `Busy` if a program has the image open for writing; `Conflict` if it has
    /// snapshots or belongs to a group.
    async fn remove(&self, name: &str) -> Result<()>;

    /// Moves an image to the trash. Its name is free then, and no program can open it. Its clones
    /// keep working. `keep` is how long a purge should leave it there.
    ///
    /// # Errors
    /// `NotFound`; `Busy` if a program has the image open for writing; `Conflict` if it belongs to
    /// a group.
    async fn move_to_trash(&self, name: &str, keep: Duration) -> Result<()>;

    /// The images in the trash, oldest first.
    async fn trash(&self) -> Result<Vec<TrashedImage>>;

    /// Takes an image out of the trash and gives it a name.
    ///
    /// # Errors
    /// `NotFound`; `AlreadyExists` for the name.
    async fn restore(&self, id: &str, name: &str) -> Result<()>;

    /// Removes an image that is in the trash, also before its time is over.
    ///
    /// # Errors
    /// `NotFound`; `Conflict` if it has snapshots.
    async fn purge(&self, id: &str) -> Result<()>;

    /// The groups of the pool's images.
    fn groups(&self) -> &dyn ImageGroups;

    /// Replaces the limits of an image's requests, also while another program has it open for
    /// writing. A new image has none, and neither has a clone.
    ///
    /// # Errors
    /// `NotFound`; `InvalidArgument` for a limit out of its range.
    async fn set_limits(&self, name: &str, limits: Limits) -> Result<()>;
}

/// An open image or snapshot.
///
/// A request beyond the image's end is `InvalidArgument` and has no effect. A request of 0 bytes
/// succeeds and does nothing. Requests in flight at the same time have no order. A request of one
/// sector (512 bytes) is never torn, not even by a power cut.
///
/// Wait for the end of every request: one that is dropped may still take effect, even after
/// [`close`](Image::close).
///
/// Changes are durable after a later [`flush`](Image::flush), or at once with
/// [`Durability::Durable`].
#[async_trait]
pub trait Image: Send + Sync {
    /// The last known facts about the image; the call does not wait. After another program has
    /// resized the image, the new size shows a moment later.
    fn info(&self) -> ImageInfo;

    /// # Errors
    /// `NotFound` for a snapshot that was removed after it was opened; [`Image::extents`] too.
    async fn read(&self, offset_bytes: u64, len_bytes: u64) -> Result<Bytes>;

    /// # Errors
    /// `PermissionDenied` for an image that was opened read-only; `Conflict` for an image that is
    /// closed, that another program has taken over, or that may have lost writes which were not
    /// flushed. A failed request may have been executed in part.
    async fn write(&self, offset_bytes: u64, data: Bytes, durability: Durability) -> Result<()>;

    /// Makes a range read as zeros, and frees its space with [`Zeroes::Punch`].
    ///
    /// # Errors
    /// As [`Image::write`].
    async fn write_zeroes(
        &self,
        offset_bytes: u64,
        len_bytes: u64,
        zeroes: Zeroes,
        durability: Durability,
    ) -> Result<()>;

    /// Makes all completed changes durable.
    async fn flush(&self) -> Result<()>;

    /// Divides a range into extents of data and of holes, which read as zeros. Data may be zero
    /// too. With `since`, a snapshot's name, extents also show the changes since that snapshot; an
    /// unchanged extent may be reported as changed, never the reverse.
    ///
    /// # Errors
    /// `NotFound` for the snapshot.
    async fn extents(&self, offset_bytes: u64, len_bytes: u64, since: Option<&str>) -> Result<Vec<Extent>>;

    /// The limits of the image's requests, as [`Images::set_limits`] stored them last, also after
    /// the image was opened. A snapshot has those of its image.
    async fn limits(&self) -> Result<Limits>;

    /// Looks for damage, and for the remains of interrupted operations. With `repair`, removes the
    /// latter, unless there is damage: then nothing tells which objects are still needed. Reads no
    /// data: the store checks each byte when it is read.
    ///
    /// # Errors
    /// As [`Image::write`].
    async fn check(&self, repair: bool) -> Result<Check>;

    /// Changes the size. The bytes behind the new end are lost; new bytes are zero.
    ///
    /// # Errors
    /// As [`Image::write`]; `LimitExceeded` for too many objects.
    async fn resize(&self, size_bytes: u64) -> Result<()>;

    /// The image's snapshots, oldest first.
    async fn snapshots(&self) -> Result<Vec<SnapshotInfo>>;

    /// Takes a snapshot: it contains every write completed before the call, and none that starts
    /// after it.
    ///
    /// # Errors
    /// As [`Image::write`]; `AlreadyExists`.
    async fn create_snapshot(&self, name: &str) -> Result<()>;

    /// Removes a snapshot. An interrupted removal continues with the next one.
    ///
    /// # Errors
    /// As [`Image::write`]; `NotFound`; `Conflict` if the snapshot has clones or is protected.
    async fn remove_snapshot(&self, name: &str) -> Result<()>;

    /// Protects a snapshot from removal, or ends that. Has no effect on one that already is so.
    ///
    /// # Errors
    /// As [`Image::write`]; `NotFound`; `Conflict` if the snapshot has clones of RBD's format 1,
    /// which need a protected snapshot.
    async fn protect_snapshot(&self, name: &str, protect: bool) -> Result<()>;

    /// Gives the image the bytes and the size of a snapshot.
    ///
    /// # Errors
    /// As [`Image::write`]; `NotFound`.
    async fn roll_back(&self, snapshot: &str) -> Result<()>;

    /// Copies the blocks that still come from the parent, and makes the image independent of it. An
    /// interrupted flattening continues when it is repeated.
    ///
    /// # Errors
    /// As [`Image::write`]; `InvalidArgument` if the image is not a clone; `Conflict` if it has
    /// snapshots, which show the parent too. RBD's format flattens them as well.
    async fn flatten(&self) -> Result<()>;

    /// Flushes, and lets other programs open the image for writing. Later requests fail. An image
    /// that is dropped without this is free only after its lease ends.
    async fn close(&self) -> Result<()>;
}

/// A change for [`Images::change`]; the methods of [`Image`] of the same names describe them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    CreateSnapshot { name: String },
    RemoveSnapshot { name: String },
    ProtectSnapshot { name: String, protect: bool },
    Resize { size_bytes: u64 },
    Flatten {},
}

/// How a program opens an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// Any number of programs at once. They see all that was flushed before they opened the image,
    /// and may see some of the later writes. Open a snapshot to read one state.
    ReadOnly,
    /// One program at a time.
    Write,
    /// As `Write`, but the program that has the image open loses it: none of its later writes has
    /// an effect.
    TakeOver,
}

/// How [`Image::write_zeroes`] stores the zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zeroes {
    /// Frees the space.
    Punch,
    /// Keeps the space allocated, so that later writes to it need no new space.
    Allocate,
}

/// Properties of a new image.
#[derive(Clone, Debug)]
pub struct CreateOptions {
    pub size_bytes: u64,
    pub geometry: Geometry,
    /// Another pool for the data, such as an erasure-coded one. Only RBD's format has this.
    pub data_pool: Option<String>,
}

impl CreateOptions {
    /// An image whose data are in its own pool.
    pub fn new(size_bytes: u64, geometry: Geometry) -> CreateOptions {
        CreateOptions { size_bytes, geometry, data_pool: None }
    }
}

/// An image in the trash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrashedImage {
    /// Identifies the image; several images in the trash may have had the same name.
    pub id: String,
    /// Its name before it was moved.
    pub name: String,
    pub trashed_unix_ms: u64,
    pub keep_until_unix_ms: u64,
}

/// The findings of [`Image::check`]. Each list has at most [`FINDINGS_MAX`] findings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Check {
    /// How many objects the image has.
    pub objects: u64,
    /// Damage that no repair undoes: bytes are lost.
    pub damage: Vec<Finding>,
    /// Leftovers that a repair removes. No byte of the image is lost.
    pub repairable: Vec<Finding>,
    /// How many findings of either kind there are.
    pub damage_count: u64,
    pub repairable_count: u64,
}

/// Limit of the findings that a [`Check`] lists.
pub const FINDINGS_MAX: usize = 1_000;

impl Check {
    /// Adds damage.
    pub fn damage(&mut self, object: Option<ObjectId>, message: String) {
        self.damage_count += 1;
        if self.damage.len() < FINDINGS_MAX {
            self.damage.push(Finding { object: object.map(|object| object.to_string()), message });
        }
    }

    /// Adds the remains that a repair removes.
    pub fn repairable(&mut self, object: Option<&ObjectId>, message: &str) {
        self.repairable_count += 1;
        if self.repairable.len() < FINDINGS_MAX {
            let object = object.map(ObjectId::to_string);
            self.repairable.push(Finding { object, message: message.to_owned() });
        }
    }
}

/// The properties of an open image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageInfo {
    /// `POOL/IMAGE` or `POOL/IMAGE@SNAPSHOT`.
    pub address: String,
    pub size_bytes: u64,
    pub geometry: Geometry,
    pub read_only: bool,
    /// The snapshot that this image was cloned from, as `POOL/IMAGE@SNAPSHOT`.
    pub parent: Option<String>,
    /// The size for which writes are fastest after a snapshot: the image copies whole blocks of
    /// this size.
    pub copy_block_bytes: u64,
    /// The features of the format that the image has, by the names that `rbd` uses; empty for
    /// Benthic's own format.
    pub features: Vec<String>,
}

/// A snapshot of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotInfo {
    pub name: String,
    pub size_bytes: u64,
    pub created_unix_ms: u64,
    pub is_protected: bool,
}

/// A range of an image; extents of one answer are adjacent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    pub len_bytes: u64,
    pub kind: ExtentKind,
}

/// The content of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtentKind {
    /// Data; with `since`, changed data.
    Data,
    /// Reads as zeros; with `since`, changed to zeros.
    Hole,
    /// Only with `since`.
    Unchanged,
}
