//! Groups of images, for snapshots of several disks at one moment: for example of a database with
//! its data on one disk and its log on another.

use async_trait::async_trait;
use benthic_core::Result;

/// The groups of a pool's images. An image belongs to one group at most.
#[async_trait]
pub trait ImageGroups: Send + Sync {
    /// Creates a group without images.
    ///
    /// # Errors
    /// `AlreadyExists`; `InvalidArgument` for a bad name, by the rule of images.
    async fn create(&self, group: &str) -> Result<()>;

    /// The names of all groups, in bytewise order.
    async fn list(&self) -> Result<Vec<String>>;

    /// Removes a group. Its images stay.
    ///
    /// # Errors
    /// `NotFound`; `Conflict` if the group has snapshots.
    async fn remove(&self, group: &str) -> Result<()>;

    /// The names of a group's images, in bytewise order.
    ///
    /// # Errors
    /// `NotFound`.
    async fn images(&self, group: &str) -> Result<Vec<String>>;

    /// Adds an image of the same pool. Has no effect if the image already belongs to the group.
    ///
    /// # Errors
    /// `NotFound` for the group or the image; `AlreadyExists` if the image belongs to another
    /// group; `LimitExceeded`.
    async fn add_image(&self, group: &str, image: &str) -> Result<()>;

    /// # Errors
    /// `NotFound` for the group, or for an image that does not belong to it.
    async fn remove_image(&self, group: &str, image: &str) -> Result<()>;

    /// The snapshots of a group, in the order of their names.
    ///
    /// # Errors
    /// `NotFound`.
    async fn snapshots(&self, group: &str) -> Result<Vec<String>>;

    /// Takes a snapshot of all images of a group at one moment: if it contains a write, it contains
    /// all writes to any of the images that were completed before that write began.
    ///
    /// In Benthic's own format, every image then has a snapshot of this name. In RBD's, the
    /// snapshots are visible only as the group's.
    ///
    /// # Errors
    /// `NotFound`; `AlreadyExists`; `InvalidArgument` for a group without images; `Busy` if a
    /// program has an image open that does not answer, or, in RBD's format, that does not share the
    /// image's lock. After an error other than `OutcomeUnknown`, no image has the snapshot.
    async fn create_snapshot(&self, group: &str, snapshot: &str) -> Result<()>;

    /// Removes the snapshot from all images. An interrupted removal can be repeated.
    ///
    /// # Errors
    /// `NotFound`; `Conflict` if the snapshot of an image has clones or is protected.
    async fn remove_snapshot(&self, group: &str, snapshot: &str) -> Result<()>;

    /// Gives all images the bytes and sizes of a snapshot. If that is interrupted, repeat it.
    ///
    /// # Errors
    /// `NotFound`; `Busy` if a program has an image open for writing; `Conflict` if an image no
    /// longer has the snapshot. Nothing is changed then.
    async fn roll_back(&self, group: &str, snapshot: &str) -> Result<()>;
}
