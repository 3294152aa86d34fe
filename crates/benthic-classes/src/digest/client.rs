//! Typed calls of the `digest` class for clients.

use super::wire::{ComputeInput, StoreInput, Verified};
use super::{Algorithm, Hasher};
use benthic_core::{ClassCall, Error, Fetch, ObjectId, Pool, Result};

const PIECE_BYTES: u64 = 4 * 1024 * 1024;

/// Computes a digest beside the object, stores it as the object's attribute, and reads the
/// attribute: two round trips. The method repeats the whole work `repeat` times.
///
/// # Errors
/// `NotFound`, `InvalidArgument` or `LimitExceeded` for a bad `repeat`, as [`Pool::exec`].
pub async fn store(pool: &dyn Pool, object: &ObjectId, algorithm: Algorithm, repeat: u32) -> Result<String> {
    let input = StoreInput { repeat }.encode();
    exec(pool, object, algorithm.name(), input).await?;
    text(pool.get_xattr(object, algorithm.xattr()).await?.to_vec())
}

/// Computes a digest beside the object and stores nothing: one round trip. The method repeats the
/// whole work `repeat` times.
pub async fn compute(
    pool: &dyn Pool,
    object: &ObjectId,
    algorithm: Algorithm,
    repeat: u32,
) -> Result<String> {
    let input = ComputeInput { algorithm, repeat }.encode();
    text(exec(pool, object, "compute", input).await?)
}

/// Compares the object with one stored digest, or with all if `algorithm` is absent: one round
/// trip.
///
/// # Errors
/// `Corrupt` if a digest differs, `NotFound` if there is none, as [`Pool::exec`].
pub async fn verify(pool: &dyn Pool, object: &ObjectId, algorithm: Option<Algorithm>) -> Result<Verified> {
    let input = algorithm.map_or("", Algorithm::name).to_owned();
    let output = exec(pool, object, "verify", input).await?;
    serde_json::from_slice(&output).map_err(undecodable)
}

/// Computes a digest in the client, from data that it reads from the pool. [`compute`] saves this
/// transfer.
///
/// # Errors
/// `NotFound`, `Corrupt`, `Conflict` if the object changes during the reads, as [`Pool::read`].
pub async fn hash_in_client(pool: &dyn Pool, object: &ObjectId, algorithm: Algorithm) -> Result<String> {
    let (stat, version) = pool.stat(object).await?;
    let mut hasher = Hasher::new(algorithm);
    let mut offset_bytes = 0;
    while offset_bytes < stat.size_bytes {
        let len_bytes = PIECE_BYTES.min(stat.size_bytes - offset_bytes);
        let (piece, _) = pool.fetch(object, Fetch::read_exact(version, offset_bytes, len_bytes)).await?;
        hasher.update(&piece);
        offset_bytes += len_bytes;
    }
    Ok(hasher.finish())
}

async fn exec(pool: &dyn Pool, object: &ObjectId, method: &str, input: String) -> Result<Vec<u8>> {
    pool.exec(object, ClassCall::new("digest", method, input)).await.map(Vec::from)
}

fn text(digest: Vec<u8>) -> Result<String> {
    String::from_utf8(digest).map_err(undecodable)
}

fn undecodable(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::internal("the output of the digest class cannot be decoded").with_source(error)
}
