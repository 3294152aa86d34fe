//! Removes striped objects: marks the object as incomplete, removes the pieces, and removes the
//! first object last.

use super::lock::{Lock, Watch};
use super::{BEGUN_XATTR, Head, Striped, StripedState};
use benthic_classes::lock::wire::Mode;
use benthic_core::{Compare, ErrorKind, OptionalExtension, Result, WriteOp};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Number of pieces whose versions are read before the first of them is removed.
const CHECKS_AT_ONCE: u64 = 128;

/// Removes a striped object, complete or not. It first marks the object as incomplete and removes
/// the first object last. So if the program is killed in between, no program reads the remaining
/// pieces, and another call removes them.
///
/// Returns an upper bound of the number of pieces it had.
///
/// # Errors
/// `NotFound` if the first object is missing; `InvalidArgument` if the objects belong to another
/// program; `Busy`; `Conflict` if another run wrote to it in the meantime; as
/// [`benthic_core::Pool::write`].
pub async fn remove(at: &Striped, jobs: usize, lock_wait: Duration) -> Result<u64> {
    // Check before taking the lock, because the lock is an attribute of the first object.
    if let Some(head) = read_head(at).await? {
        at.check_striped(&head).await?;
    }
    let lock =
        Lock::take(at, Mode::Exclusive, false, lock_wait).await.map_err(|error| match error.kind() {
            ErrorKind::NotFound => at.no_first_object().with_source(error),
            _ => error,
        })?;
    match remove_others(&lock, at, jobs).await {
        Ok((pieces, begun)) => {
            lock.remove_object(WriteOp::new().cmp_xattr(BEGUN_XATTR, Compare::Eq, begun)).await?;
            Ok(pieces)
        }
        Err(failure) => {
            lock.release().await;
            Err(failure)
        }
    }
}

/// Removes all pieces except the first. Returns an upper bound of their number, and the note in the
/// first object.
async fn remove_others(lock: &Lock, at: &Striped, jobs: usize) -> Result<(u64, Bytes)> {
    let head = read_head(at).await?;
    if let Some(head) = &head {
        at.check_striped(head).await?;
    }
    let count = at.pieces_of(&head.map_or(StripedState::Bare, |head| head.state)).await?;
    let begun = lock.watch().begin_change(count).await?;
    pieces(at, 1..count, jobs, &lock.watch(), &begun).await?;
    Ok((count, begun))
}

/// Reads the first object. Returns `None` also for invalid attributes; the caller then counts the
/// pieces that exist.
async fn read_head(at: &Striped) -> Result<Option<Head>> {
    match at.read_head().await {
        Err(error) if error.kind() == ErrorKind::Corrupt => Ok(None),
        head => head,
    }
}

/// Removes those of the `pieces` that exist, as long as the first object still has this run's note
/// `begun`.
///
/// # Errors
/// `Conflict` if another run has started a change; as [`benthic_core::Pool::write`].
pub async fn pieces(
    at: &Striped,
    pieces: Range<u64>,
    jobs: usize,
    watch: &Watch,
    begun: &Bytes,
) -> Result<()> {
    let mut next = pieces.start;
    while next < pieces.end {
        let batch = next..pieces.end.min(next + CHECKS_AT_ONCE);
        next = batch.end;
        let find = |piece| {
            let (pool, object) = (Arc::clone(&at.pool), at.piece(piece));
            async move { Ok(pool.stat(&object?).await.optional()?.map(|found| found.1)) }
        };
        let mut versions = BTreeMap::new();
        at.run_jobs(batch.clone(), jobs, find, |piece, version| {
            versions.extend(version.map(|version| (piece, version)));
        })
        .await?;
        if versions.is_empty() {
            continue;
        }
        // Check after reading the versions. Success means that no other run wrote those versions.
        watch.check_begun(begun).await?;
        let remove = |piece| {
            let (pool, object, watch) = (Arc::clone(&at.pool), at.piece(piece), watch.clone());
            let version = versions.get(&piece).copied();
            async move {
                let Some(version) = version else { return Ok(()) };
                watch.check()?;
                match pool.write(&object?, WriteOp::new().assert_version(version).remove()).await {
                    Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
                    _ => Ok(()),
                }
            }
        };
        at.run_jobs(batch, jobs, remove, |_, ()| {}).await?;
    }
    Ok(())
}
