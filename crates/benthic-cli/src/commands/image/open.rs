//! The images of a pool.

use benthic_block::Images;
use benthic_core::Result;
use benthic_program::session::Session;
use std::sync::Arc;

pub async fn images(session: &Session, name: &str) -> Result<Arc<dyn Images>> {
    // Also on a cluster: the error for a missing pool suggests a similar one.
    let pool = session.pool(name).await?;
    benthic_rbd::open_images(session.store().await?, session.rados().await?, pool).await
}
