//! The order of the writes that make arrays and groups.
//!
//! No transaction spans two objects, and a reader takes a missing chunk for fill values. So the
//! metadata of an array are written after all chunks, and those of a group after everything in it.
//! Until then a reader finds no array.
//!
//! An old chunk would replace fill values of a new array, so nothing may be at the place before. A
//! marker reserves the place, and remains if the creation is interrupted. We do not recognize the
//! remains of an interrupted creation by their names: they may be another program's objects. So
//! only the user's `--overwrite` removes them.

use crate::array::Place;
use crate::metadata::{CREATION_MARKER, Node, writing_order};
use crate::remove::{check_outer, outer, remove};
use benthic_core::{Error, ErrorKind, Random, Result, SystemRandom, WriteOp};
use bytes::Bytes;
use futures::TryStreamExt;
use std::sync::atomic::AtomicU64;

/// A reserved place for a new array or group.
#[derive(Debug)]
pub struct Creation {
    place: Place,
    token: Bytes,
}

impl Creation {
    /// Reserves a place. With `overwrite`, first removes all objects below it.
    ///
    /// # Errors
    /// `AlreadyExists` if there are objects or another marker, also one of an outer group; nothing
    /// is removed then. `InvalidArgument` for a place in an array. Those of the pool.
    pub async fn start(place: &Place, overwrite: bool) -> Result<Creation> {
        check_around(place).await?;
        if overwrite {
            remove(place, &AtomicU64::new(0)).await?;
        }
        // This leaves no marker among the objects of another program.
        check_empty(place, false).await?;
        let marker = place.object(CREATION_MARKER)?;
        let token = Bytes::from(format!("{:016x}\n", SystemRandom.random_u64()?));
        let write = WriteOp::new().create(true).write_full(token.clone());
        match place.pool.write(&marker, write).await {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Err(is_reserved(place)),
            Err(error) => return Err(error),
        }
        // Another creation in an outer or inner group finds our marker, or we find its objects.
        let checked = async {
            check_around(place).await?;
            check_empty(place, true).await
        };
        if let Err(error) = checked.await {
            // If this fails, the marker stays, and the next attempt reports it.
            let _ = place.pool.remove(&marker).await;
            return Err(error);
        }
        Ok(Creation { place: place.clone(), token })
    }

    /// Stores the metadata documents, by their keys. All chunks must be stored already. Those of
    /// the place itself are the last: from then on, there is an array or group. Each write is
    /// atomic and durable.
    ///
    /// # Errors
    /// `Conflict` if another program removed or replaced the new objects; `AlreadyExists` if there
    /// is such a document; those of the pool.
    pub async fn finish(self, mut documents: Vec<(String, Bytes)>) -> Result<()> {
        let Creation { place, token } = self;
        if place.document(CREATION_MARKER).await?.as_ref() != Some(&token) {
            let message = "another program removed or replaced the new array meanwhile; repeat the command \
                with --overwrite when the other one has ended";
            return Err(Error::conflict(message).with("array", &place.path));
        }
        documents.sort_by_key(|(key, _)| writing_order(key));
        for (key, document) in documents {
            let object = place.object(&key)?;
            let write = WriteOp::new().create(true).write_full(document);
            let written = place.pool.write(&object, write).await;
            written.map_err(|error| match error.kind() {
                ErrorKind::AlreadyExists => {
                    let message = "another program has made an array or group here meanwhile";
                    Error::already_exists(message).with("object", &object)
                }
                _ => error.with("object", &object),
            })?;
        }
        place.pool.remove(&place.object(CREATION_MARKER)?).await
    }
}

/// Fails if a place is in an array, or in a group that is being created.
async fn check_around(place: &Place) -> Result<()> {
    check_outer(place, "an array cannot contain another array or group; choose another path").await?;
    for outer in outer(place) {
        if outer.document(CREATION_MARKER).await?.is_some() {
            let message = "a `create` of an outer group runs or was interrupted; if none runs, repeat it with \
                --overwrite, or remove what it left with `benthic array rm`";
            return Err(Error::already_exists(message).with("array", outer.path));
        }
    }
    Ok(())
}

/// Fails if a place has objects, except for our own marker.
async fn check_empty(place: &Place, has_marker: bool) -> Result<()> {
    let marker = place.object(CREATION_MARKER)?;
    let mut pages = std::pin::pin!(place.names());
    while let Some(page) = pages.try_next().await? {
        for object in page {
            if object == marker && has_marker {
                continue;
            }
            if place.document(CREATION_MARKER).await?.is_some() && !has_marker {
                return Err(is_reserved(place));
            }
            let message = match place.node().await {
                Ok(Node::Array(_)) => "an array exists here already; --overwrite removes it first",
                Ok(Node::Group(_)) => {
                    "a group exists here already; --overwrite removes it first, with everything in it"
                }
                Err(_) => "objects exist here already; --overwrite removes them first",
            };
            return Err(Error::already_exists(message).with("object", object));
        }
    }
    Ok(())
}

fn is_reserved(place: &Place) -> Error {
    let message = "another `create` runs here or was interrupted; if none runs, --overwrite removes what it left \
        and starts again";
    Error::already_exists(message).with("array", &place.path)
}
