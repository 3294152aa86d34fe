//! Block images on a Ceph cluster, in Ceph's own format: RBD.
//!
//! [`RbdImages`] implements the contract of `benthic-block` with librbd. So `rbd`, QEMU's rbd
//! driver, Cinder and Benthic see the same images. librbd is opened at run time, like librados: a
//! program works without it until it opens an image on a cluster.
//!
//! docs/design/0008-block-images.md gives the reasons for this design.

mod errors;
#[allow(unsafe_code, reason = "calls into librbd; nothing outside this folder is unsafe")]
mod ffi;
mod groups;
mod image;
mod images;
mod limits;
mod lock_sharing;

pub use images::RbdImages;

use benthic_block::Images;
use benthic_block::pool::PoolImages;
use benthic_core::{Environment, Pool, Result, Store};
use benthic_rados::RadosStore;
use std::sync::Arc;

/// The images of a pool: on a cluster in RBD's format, elsewhere in Benthic's own.
///
/// # Errors
/// Those of [`RbdImages::open`].
pub async fn open_images(
    store: Arc<dyn Store>,
    cluster: Option<Arc<RadosStore>>,
    pool: Arc<dyn Pool>,
) -> Result<Arc<dyn Images>> {
    match cluster {
        Some(cluster) => Ok(RbdImages::open(cluster, pool.name()).await?),
        None => Ok(Arc::new(PoolImages::new(store, pool, Environment::default()))),
    }
}
