//! A pause of an image's writes, for a snapshot of several images at one moment. A program pauses
//! all images of a group, and only then takes their snapshots. A program that ends meanwhile must
//! not stop the images for ever, so a pause ends by itself.

use super::image::PoolImage;
use benthic_core::{Error, Result};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedMutexGuard, OwnedRwLockWriteGuard};

/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// Keeps an image at rest. Other changes of the snapshots and of the size wait too.
pub(crate) struct Pause {
    id: u64,
    _admin: OwnedMutexGuard<()>,
    _at_rest: OwnedRwLockWriteGuard<()>,
}

impl PoolImage {
    /// Waits for the writes in progress. Later ones wait until the pause ends.
    ///
    /// # Errors
    /// `Busy` during another pause.
    pub(super) async fn pause_writes(self: &Arc<Self>, id: u64) -> Result<()> {
        self.writer().await?;
        if self.pause.lock().is_some() {
            let message = "another program takes a snapshot of the image's group; try again in a moment";
            return Err(Error::busy(message));
        }
        let _admin = Arc::clone(&self.admin).lock_owned().await;
        let _at_rest = Arc::clone(&self.gate).write_owned().await;
        *self.pause.lock() = Some(Pause { id, _admin, _at_rest });
        let image = Arc::downgrade(self);
        tokio::spawn(async move {
            tokio::time::sleep(PAUSE_MAX).await;
            if let Some(image) = image.upgrade() {
                drop(image.end_pause(id));
            }
        });
        Ok(())
    }

    /// Ends a pause, when the result is dropped. `None` if it has already ended.
    pub(super) fn end_pause(&self, id: u64) -> Option<Pause> {
        let mut pause = self.pause.lock();
        match &*pause {
            Some(found) if found.id == id => pause.take(),
            _ => None,
        }
    }

    /// Takes a snapshot of the paused image, and ends the pause.
    ///
    /// # Errors
    /// `Conflict` if the pause has already ended.
    pub(super) async fn snapshot_paused(&self, id: u64, name: &str) -> Result<()> {
        let Some(_pause) = self.end_pause(id) else {
            let message = "the group's images took too long to pause, so there is no snapshot; try again";
            return Err(Error::conflict(message));
        };
        self.take_snapshot_at_rest(name).await
    }
}
