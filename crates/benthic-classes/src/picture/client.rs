//! Typed calls of the `picture` class for clients.

use super::wire::Options;
use benthic_core::{ClassCall, Error, ObjectId, Pool, Result};
use bytes::Bytes;
use std::collections::BTreeMap;

/// Stores an image with thumbnails and labels, and replaces the object's previous content: one
/// atomic round trip.
///
/// # Errors
/// `InvalidArgument` if the data are not an image or a broken one, `LimitExceeded`, as
/// [`Pool::exec`]. Nothing is then stored.
pub async fn put(pool: &dyn Pool, object: &ObjectId, image: &[u8], options: &Options) -> Result<()> {
    exec(pool, object, "put", options.encode_with(image)).await.map(|_| ())
}

/// Creates thumbnails and labels for an object that holds an image: one round trip.
///
/// # Errors
/// `NotFound`, as [`put`].
pub async fn index(pool: &dyn Pool, object: &ObjectId, options: &Options) -> Result<()> {
    exec(pool, object, "index", options.encode()).await.map(|_| ())
}

/// Returns a thumbnail as a file: JPEG, or PNG if the picture has transparent parts.
///
/// # Errors
/// `NotFound` also if there is no thumbnail of this size.
pub async fn thumbnail(pool: &dyn Pool, object: &ObjectId, edge: u32) -> Result<Bytes> {
    exec(pool, object, "thumbnail", edge.to_string()).await
}

/// All labels, as names and values.
///
/// # Errors
/// `NotFound`, as [`Pool::exec`].
pub async fn labels(pool: &dyn Pool, object: &ObjectId) -> Result<BTreeMap<String, String>> {
    serde_json::from_slice(&exec(pool, object, "labels", "").await?).map_err(|error| {
        Error::internal("the output of the picture class cannot be decoded").with_source(error)
    })
}

/// Returns the original if it has the label (with this value, if given). Otherwise no data are
/// transferred.
///
/// # Errors
/// `NotFound` if the object is missing, `InvalidArgument`, as [`Pool::exec`].
pub async fn get_if(
    pool: &dyn Pool,
    object: &ObjectId,
    label: &str,
    value: Option<&str>,
) -> Result<Option<Bytes>> {
    let condition = value.map_or_else(|| label.to_owned(), |value| format!("{label}={value}"));
    let image = exec(pool, object, "get_if", condition).await?;
    Ok(Some(image).filter(|image| !image.is_empty()))
}

async fn exec(pool: &dyn Pool, object: &ObjectId, method: &str, input: impl Into<Bytes>) -> Result<Bytes> {
    pool.exec(object, ClassCall::new("picture", method, input)).await
}
