//! The images of a pool.

use benthic_block::Images;
use benthic_block::pool::PoolImages;
use benthic_core::{ClassHost, Environment, Error, ErrorKind, Result};
use benthic_program::session::Session;
use std::sync::Arc;

pub async fn images(session: &Session, pool: &str) -> Result<Arc<dyn Images>> {
    let store = session.store().await?;
    if store.class_host() == ClassHost::Cluster {
        let message = "images on a Ceph cluster are not supported yet; `rbd` and QEMU's own rbd driver create and serve them";
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    let pool = session.pool(pool).await?;
    Ok(Arc::new(PoolImages::new(store, pool, Environment::default())))
}
