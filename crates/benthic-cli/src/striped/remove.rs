//! Removing a striped object.

use super::lock::Lock;
use super::{Striped, each, write};
use crate::exit::Outcome;
use benthic_classes::lock::wire::Mode;
use benthic_core::{ErrorKind, WriteOp};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Removes a striped object, also an incomplete one: it is made incomplete first, and its first object goes last. Whoever is
/// killed meanwhile leaves what nobody reads, and what this removes.
///
/// Returns how many pieces it had at most.
///
/// # Errors
/// `NotFound` if the first object is missing; `Busy`; as [`benthic_core::Pool::write`].
pub async fn remove(at: &Striped, jobs: usize, lock_wait: Duration) -> Outcome<u64> {
    let lock =
        Lock::take(at, Mode::Exclusive, false, lock_wait).await.map_err(|error| match error.kind() {
            ErrorKind::NotFound => at.no_first_object().with_source(error),
            _ => error,
        })?;
    match remove_others(at, jobs).await {
        Ok(pieces) => {
            lock.remove_object(WriteOp::new()).await?;
            Ok(pieces)
        }
        Err(failure) => {
            lock.release().await;
            Err(failure)
        }
    }
}

async fn remove_others(at: &Striped, jobs: usize) -> Outcome<u64> {
    // What cannot be understood has as many pieces as can be found.
    let state = match at.look().await {
        Err(error) if error.kind() == ErrorKind::Corrupt => super::State::Bare,
        head => head?.map_or(super::State::Bare, |head| head.state),
    };
    let count = at.pieces_of(&state).await?;
    write::begin(at, count).await?;
    pieces(at, 1..count, jobs).await?;
    Ok(count)
}

/// Removes pieces, as far as they are there.
pub async fn pieces(at: &Striped, pieces: Range<u64>, jobs: usize) -> Outcome {
    let job = |piece| {
        let (pool, object) = (Arc::clone(&at.pool), at.piece(piece));
        async move {
            match pool.remove(&object?).await {
                Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            }
        }
    };
    each(pieces, jobs, job, |_, ()| {}).await
}
