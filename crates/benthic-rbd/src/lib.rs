//! Block images on a Ceph cluster, in Ceph's own format: RBD.
//!
//! [`RbdImages`] implements the contract of `benthic-block` with librbd. So `rbd`, QEMU's rbd
//! driver, Cinder and Benthic see the same images. librbd is opened at run time, like librados: a
//! program works without it until it opens an image on a cluster.
//!
//! docs/design/0008-block-images.md gives the reasons for what this crate does.

mod errors;
#[allow(unsafe_code, reason = "calls into librbd; nothing outside this folder is unsafe")]
mod ffi;
mod groups;
mod image;
mod images;
mod limits;

pub use images::RbdImages;
