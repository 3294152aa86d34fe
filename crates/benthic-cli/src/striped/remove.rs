//! Removing a striped object.

use super::lock::{Lock, Watch};
use super::{BEGUN_XATTR, Head, State, Striped, each, write};
use crate::exit::Outcome;
use benthic_classes::lock::wire::Mode;
use benthic_core::{Compare, ErrorKind, Result, WriteOp};
use bytes::Bytes;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Removes a striped object, also an incomplete one: it is made incomplete first, and its first object goes last. Whoever is
/// killed meanwhile leaves what nobody reads, and what this removes.
///
/// Returns how many pieces it had at most.
///
/// # Errors
/// `NotFound` if the first object is missing; `InvalidArgument` if the objects of the name are those of something else; `Busy`;
/// `Conflict` if somebody else wrote to it meanwhile; as [`benthic_core::Pool::write`].
pub async fn remove(at: &Striped, jobs: usize, lock_wait: Duration) -> Outcome<u64> {
    // Before the lock, which is an attribute of the first object.
    if let Some(head) = look(at).await? {
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

/// Removes all but the first object, and returns how many there were at most and what is noted in it.
async fn remove_others(lock: &Lock, at: &Striped, jobs: usize) -> Outcome<(u64, Bytes)> {
    let head = look(at).await?;
    if let Some(head) = &head {
        at.check_striped(head).await?;
    }
    let count = at.pieces_of(&head.map_or(State::Bare, |head| head.state)).await?;
    let begun = write::begin(&lock.watch(), count).await?;
    pieces(at, 1..count, jobs, &lock.watch()).await?;
    Ok((count, begun))
}

/// The first object. Nothing also if it cannot be understood: then it has as many pieces as can be found.
async fn look(at: &Striped) -> Result<Option<Head>> {
    match at.look().await {
        Err(error) if error.kind() == ErrorKind::Corrupt => Ok(None),
        head => head,
    }
}

/// Removes pieces, as far as they are there and while the lock is held.
pub async fn pieces(at: &Striped, pieces: Range<u64>, jobs: usize, watch: &Watch) -> Outcome {
    let job = |piece| {
        let (pool, object, watch) = (Arc::clone(&at.pool), at.piece(piece), watch.clone());
        async move {
            let object = object?;
            let version = match pool.stat(&object).await {
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
                found => found?.1,
            };
            // After it was looked at: then it is what was there while the lock was held, and not what others wrote since.
            watch.check()?;
            match pool.write(&object, WriteOp::new().assert_version(version).remove()).await {
                Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            }
        }
    };
    each(pieces, jobs, job, |_, ()| {}).await
}
