//! Block images: virtual disks of a fixed size, which virtual machines and cloud platforms use.
//!
//! [`Images`] is the contract of a pool's images, and [`Image`] that of one open image. Both are
//! asynchronous: an image accepts any number of requests at once.
//!
//! [`pool::PoolImages`] implements them on any pool, in Benthic's own format, which docs/formats.md
//! describes. The [`nbd`] server gives programs such as QEMU access to images. [`diff`] is the
//! format of changes between snapshots.

mod contract;
pub mod diff;
mod geometry;
mod groups;
pub mod limits;
mod names;
pub mod nbd;
pub mod pool;

pub use contract::{
    Change, Check, CreateOptions, Extent, ExtentKind, FINDINGS_MAX, Image, ImageInfo, Images, OpenMode,
    SnapshotInfo, TrashedImage, Zeroes,
};
pub use geometry::Geometry;
pub use groups::ImageGroups;
pub use limits::Limits;
pub use names::{ImageAddress, check_group_name, check_image_name, check_snapshot_name};
