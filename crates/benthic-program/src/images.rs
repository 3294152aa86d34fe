//! The block images of a pool.

use crate::session::Session;
use benthic_block::Images;
use benthic_block::pool::PoolImages;
use benthic_core::{Environment, Result};
use benthic_rbd::RbdImages;
use std::sync::Arc;

/// Opens the images of a pool: on a cluster in RBD's format, elsewhere in Benthic's own.
///
/// # Errors
/// Those of opening the store and the pool; `Unsupported` on a cluster without librbd.
pub async fn images(session: &Session, name: &str) -> Result<Arc<dyn Images>> {
    // Also on a cluster: the error for a missing pool suggests a similar one.
    let pool = session.pool(name).await?;
    if let Some(cluster) = session.rados().await? {
        return Ok(RbdImages::open(cluster, name).await?);
    }
    Ok(Arc::new(PoolImages::new(session.store().await?, pool, Environment::default())))
}
