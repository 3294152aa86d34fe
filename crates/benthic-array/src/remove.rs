//! Removing arrays and groups.
//!
//! No transaction spans two objects. The metadata are removed first, those of the outermost group
//! before the others: a reader must not take a removed chunk for fill values. A removal that stops
//! early leaves chunks, and the next one removes them.

use crate::array::Place;
use crate::metadata::{CREATION_MARKER, METADATA_KEYS, Node, is_metadata};
use benthic_core::{Error, ErrorKind, ObjectId, OptionalExtension, Result};
use futures::{StreamExt, TryStreamExt, stream};
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of objects that are removed at once.
const REMOVALS_AT_ONCE: usize = 16;

/// Removes an array or group with all objects below it. Counts them in `removed`. If there is none,
/// removes the remains of an earlier call or of an interrupted [`Creation`](crate::Creation).
///
/// # Errors
/// `InvalidArgument` for a place in an array; those of the pool.
pub async fn remove(place: &Place, removed: &AtomicU64) -> Result<()> {
    let message = "this place is in an array, whose chunks have such names; remove the whole array";
    check_outer(place, message).await?;
    for key in METADATA_KEYS {
        remove_object(place, &place.object(key)?, removed).await?;
    }
    remove_where(place, is_metadata, removed).await?;
    let marker = place.object(CREATION_MARKER)?;
    remove_where(place, |name| name != marker.name(), removed).await?;
    remove_object(place, &marker, removed).await
}

async fn remove_where(place: &Place, is_wanted: impl Fn(&str) -> bool, removed: &AtomicU64) -> Result<()> {
    let mut pages = std::pin::pin!(place.names());
    while let Some(page) = pages.try_next().await? {
        let wanted = page.into_iter().filter(|object| is_wanted(object.name()));
        stream::iter(wanted)
            .map(|object| async move { remove_object(place, &object, removed).await })
            .buffer_unordered(REMOVALS_AT_ONCE)
            .try_collect::<()>()
            .await?;
    }
    Ok(())
}

async fn remove_object(place: &Place, object: &ObjectId, removed: &AtomicU64) -> Result<()> {
    if place.pool.remove(object).await.optional()?.is_some() {
        removed.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// Fails with this message if a place is in an array.
pub async fn check_outer(place: &Place, message: &str) -> Result<()> {
    for outer in outer(place) {
        match outer.node().await {
            Ok(Node::Array(_)) => {
                return Err(Error::invalid_argument(message).with("array", outer.path));
            }
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// The places around a place, the root first.
pub fn outer(place: &Place) -> Vec<Place> {
    let ends = place.path.match_indices('/').map(|(end, _)| end);
    let root = (!place.path.is_empty()).then_some(0);
    let paths = root.into_iter().chain(ends).map(|end| place.path[..end].to_owned());
    paths.map(|path| Place { path, ..place.clone() }).collect()
}
