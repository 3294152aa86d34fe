//! Encodes the chunks of new arrays with the chosen compressor.

use super::{ZSTD_LEVEL, blosc};
use crate::dtype::Dtype;
use benthic_core::{Error, Result};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use std::io::Write;

/// The default level of gzip.
const GZIP_LEVEL: u32 = 6;

/// How the chunks of a new array are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compressor {
    /// Blosc with a shuffle of bytes and zstd: the smallest for most numbers.
    Blosc,
    Zstd,
    Gzip,
    None,
}

impl Compressor {
    /// The codec in `zarr.json`. There is none without compression.
    pub(crate) fn metadata(self, dtype: Dtype) -> Option<Value> {
        Some(match self {
            Compressor::Blosc => {
                let shuffle = if dtype.size_bytes() > 1 { "shuffle" } else { "noshuffle" };
                json!({ "name": "blosc", "configuration": {
                    "typesize": dtype.size_bytes(), "cname": "zstd", "clevel": ZSTD_LEVEL,
                    "shuffle": shuffle, "blocksize": 0,
                } })
            }
            Compressor::Zstd => {
                json!({ "name": "zstd", "configuration": { "level": ZSTD_LEVEL, "checksum": false } })
            }
            Compressor::Gzip => json!({ "name": "gzip", "configuration": { "level": GZIP_LEVEL } }),
            Compressor::None => return None,
        })
    }

    /// Encodes a chunk in C order, little-endian.
    ///
    /// # Errors
    /// `Internal` if a compressor fails.
    pub(crate) fn encode(self, dtype: Dtype, chunk: Vec<u8>) -> Result<Vec<u8>> {
        let failed = |error| Error::internal("a chunk cannot be compressed").with_source(error);
        match self {
            Compressor::Blosc => blosc::encode(&chunk, dtype.size_bytes()).map_err(failed),
            Compressor::Zstd => zstd::bulk::compress(&chunk, ZSTD_LEVEL).map_err(failed),
            Compressor::Gzip => {
                let mut encoder = GzEncoder::new(Vec::new(), Compression::new(GZIP_LEVEL));
                encoder.write_all(&chunk).and_then(|()| encoder.finish()).map_err(failed)
            }
            Compressor::None => Ok(chunk),
        }
    }
}

#[cfg(test)]
#[path = "encode_tests.rs"]
mod tests;
