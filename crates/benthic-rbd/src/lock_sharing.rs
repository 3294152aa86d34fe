//! Snapshots of groups that other programs take, `rbd` too, while this one has an image of the
//! group open for writing.
//!
//! librbd takes such a snapshot with the exclusive locks of all images, and this program does not
//! give its lock to a program that asks for it. But before, librbd notifies the writers that a
//! snapshot begins, and waits for their answers. Then this program completes the requests in
//! flight, holds back later ones, and releases the lock. It takes the lock again when librbd says
//! that the snapshot has ended. An alternative is librbd's policy that releases the lock for every
//! request: then QEMU and `rbd` could write to a served image.

use crate::errors::{What, of};
use crate::ffi::{ErrnoResult, RbdImage, SnapshotPhase};
use crate::image::{blocking, in_use};
use benthic_core::Result;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::{OwnedRwLockWriteGuard, RwLock, mpsc};
use tokio::time::timeout;

/// Requests in flight may take long, for example while OSDs are down. A snapshot waits so long for
/// them, and then fails, because librbd cannot get the lock.
const REQUESTS_LIMIT: Duration = Duration::from_secs(5);
/// librbd ends a pause after 10 seconds, also if the program that takes the snapshot is gone.
const PAUSE_LIMIT: Duration = Duration::from_secs(30);
/// A program that was killed while it took a snapshot of the group leaves a record. Because of
/// that, this program also releases the lock for a snapshot of the image alone, which it executes
/// itself. The release then waits for that snapshot, and the snapshot for the answer.
const RELEASE_LIMIT: Duration = Duration::from_secs(2);
/// Without room, a phase is lost: librbd repeats the beginning of a snapshot, and the end has a
/// limit.
const PHASES_MAX: usize = 16;

/// The channel from librbd's notices of snapshots to [`run`].
pub fn channel() -> (mpsc::Sender<SnapshotPhase>, mpsc::Receiver<SnapshotPhase>) {
    mpsc::channel(PHASES_MAX)
}

/// Answers to snapshots until the image is closed or dropped.
pub async fn run(
    mut phases: mpsc::Receiver<SnapshotPhase>,
    image: Weak<RwLock<Option<RbdImage>>>,
    address: String,
) {
    while let Some(phase) = phases.recv().await {
        let Some(image) = image.upgrade() else { return };
        if phase == SnapshotPhase::Unquiesce {
            continue;
        }
        // A closed image has answered.
        let Ok(open) = in_use(&image).await else { return };
        // Without an answer, the snapshot fails because the image is locked.
        let look = move || Ok((open.is_in_group_snapshot().unwrap_or(false), open));
        let Ok((is_of_group, open)) = blocking(look).await else { return };
        if !is_of_group {
            // This program takes a snapshot of this image alone itself, because it has the lock.
            open.answer_quiesce();
            continue;
        }
        drop(open);
        if let Err(error) = hand_over(&image, &mut phases).await {
            tracing::warn!(%error, image = address, "lost the image's lock to a snapshot of its group");
        }
    }
}

/// Gives the lock to a snapshot, and takes it back. Requests wait meanwhile.
async fn hand_over(
    image: &Arc<RwLock<Option<RbdImage>>>,
    phases: &mut mpsc::Receiver<SnapshotPhase>,
) -> Result<()> {
    let Ok(paused) = timeout(REQUESTS_LIMIT, Arc::clone(image).write_owned()).await else {
        in_use(image).await?.answer_quiesce();
        return Ok(());
    };
    let paused = Arc::new(paused);
    let answer = || paused.iter().for_each(RbdImage::answer_quiesce);
    let mut release = pin!(change_lock(&paused, RbdImage::release_lock));
    let released = match timeout(RELEASE_LIMIT, &mut release).await {
        Ok(released) => released,
        Err(_) => {
            answer();
            release.await
        }
    };
    answer();
    released?;
    let mut running = 1;
    while running > 0
        && let Ok(Some(phase)) = timeout(PAUSE_LIMIT, phases.recv()).await
    {
        match phase {
            SnapshotPhase::Quiesce => {
                answer();
                running += 1;
            }
            SnapshotPhase::Unquiesce => running -= 1,
        }
    }
    // The other program releases the lock when it closes the image; librbd waits for that.
    change_lock(&paused, RbdImage::acquire_lock).await
}

async fn change_lock(
    paused: &Arc<OwnedRwLockWriteGuard<Option<RbdImage>>>,
    change: fn(&RbdImage) -> ErrnoResult<()>,
) -> Result<()> {
    let paused = Arc::clone(paused);
    blocking(move || paused.as_ref().as_ref().map_or(Ok(()), change).map_err(|number| of(number, What::Lock)))
        .await
}
