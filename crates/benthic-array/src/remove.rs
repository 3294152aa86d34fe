//! Removing arrays and groups.
//!
//! No transaction spans two objects. The metadata are removed first, those of the outermost group
//! before the others: a reader must not take a removed chunk for fill values. A removal that stops
//! early leaves chunks, and the next one removes them.

use crate::array::Place;
use crate::metadata::Node;
use benthic_core::{Error, ErrorKind, ObjectId, Result};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// The objects with metadata of an array or group.
pub const METADATA_KEYS: [&str; 5] = ["zarr.json", ".zmetadata", ".zarray", ".zgroup", ".zattrs"];
/// Number of objects that are removed at once.
const REMOVALS_AT_ONCE: usize = 16;

/// Returns whether an object has metadata of an array or group.
pub fn is_metadata(name: &str) -> bool {
    METADATA_KEYS.contains(&name.rsplit('/').next().unwrap_or(name))
}

/// Returns whether an object may be a chunk: its name ends with `c` and numbers, or with numbers.
fn is_chunk(name: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let last = name.rsplit('/').next().unwrap_or(name);
    last == "c" || last.strip_prefix("c.").unwrap_or(last).split('.').all(is_number)
}

/// Removes an array or group with all objects below it. Counts them in `removed`. If there is none,
/// removes what an earlier call has left.
///
/// # Errors
/// Those of the pool.
pub async fn remove(place: &Place, removed: &AtomicU64) -> Result<()> {
    for key in METADATA_KEYS {
        remove_object(place, &place.object(key)?, removed).await?;
    }
    remove_where(place, is_metadata, removed).await?;
    remove_where(place, |_| true, removed).await
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
    match place.pool.remove(object).await {
        Ok(()) => {
            removed.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Makes room for an array or group with these metadata documents, by key. Removes the chunks and
/// documents that an interrupted attempt has left. With `overwrite`, first removes the array or group
/// that is there, with all objects below it.
///
/// # Errors
/// `AlreadyExists` if there is an array or group, or something else that no such attempt has written;
/// nothing is removed then. `InvalidArgument` for a place in an array. Those of the pool.
pub async fn make_room(place: &Place, documents: &BTreeMap<String, Bytes>, overwrite: bool) -> Result<()> {
    let taken = |message: &str, object: &ObjectId| {
        Err(Error::new(ErrorKind::AlreadyExists, message).with("object", object))
    };
    check_groups(place).await?;
    let removed = AtomicU64::new(0);
    for key in METADATA_KEYS {
        if place.document(key).await?.is_some() {
            if overwrite {
                return remove(place, &removed).await;
            }
            let message = "there is an array or group already; --overwrite replaces it";
            return taken(message, &place.object(key)?);
        }
    }
    let mut pages = std::pin::pin!(place.names());
    while let Some(page) = pages.try_next().await? {
        for object in page {
            let key = &object.name()[place.prefix().len()..];
            if is_metadata(key) {
                if documents.get(key) != place.document(key).await?.as_ref() {
                    let message =
                        "there is another array or group below; choose another path, or remove it first";
                    return taken(message, &object);
                }
            } else if !is_chunk(key) {
                let message = "there are other objects below; choose another path";
                return taken(message, &object);
            }
        }
    }
    remove(place, &removed).await
}

/// Fails if a place is in an array, whose chunks have such names.
async fn check_groups(place: &Place) -> Result<()> {
    for (end, _) in place.path.match_indices('/') {
        let outer = Place { path: place.path[..end].to_owned(), ..place.clone() };
        match outer.node().await {
            Ok(Node::Group(_)) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Ok(Node::Array(_)) => {
                let message = "an array cannot contain another array or group; choose another path";
                return Err(Error::new(ErrorKind::InvalidArgument, message).with("array", outer.path));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "remove_tests.rs"]
mod tests;
