//! Packs results for slow links: a shuffle and zstd.
//!
//! The states of a sum are three numbers of which often only one has entropy: the rounding errors
//! of few float32 are 0, and the counts are all the same.

use crate::codec::shuffle::{shuffle, unshuffle};
use benthic_core::{Error, Result, wire_struct};
use bytes::Bytes;

/// Smaller results are not worth it.
const PACKED_BYTES_MIN: usize = 4096;
const ZSTD_LEVEL: i32 = 1;

/// A packed result.
#[derive(Clone, Debug, PartialEq)]
pub struct Packed {
    pub data: Bytes,
    /// Size of the result.
    pub len_bytes: u64,
}

wire_struct! { Packed { data, len_bytes } }

/// Packs a result that consists of records of this size. `None` if it would not shrink.
pub fn pack(result: &[u8], record_bytes: usize) -> Option<Packed> {
    if result.len() < PACKED_BYTES_MIN {
        return None;
    }
    let data = zstd::bulk::compress(&shuffle(result, record_bytes), ZSTD_LEVEL).ok()?;
    (data.len() < result.len()).then(|| Packed { data: data.into(), len_bytes: result.len() as u64 })
}

/// Unpacks a result of at most `max_bytes`.
///
/// # Errors
/// `Internal` if the class did not pack it.
pub fn unpack(packed: &Packed, record_bytes: usize, max_bytes: u64) -> Result<Bytes> {
    let broken = || Error::internal("the output of the class array cannot be unpacked");
    if packed.len_bytes > max_bytes {
        return Err(broken());
    }
    let data = zstd::bulk::decompress(&packed.data, packed.len_bytes as usize);
    let shuffled = data.map_err(|error| broken().with_source(error))?;
    let mut data = vec![0; shuffled.len()];
    unshuffle(&shuffled, record_bytes, &mut data);
    Ok(data.into())
}
