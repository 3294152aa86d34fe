//! The algorithms, and one streaming hasher for all of them, which storage and clients share.

use benthic_core::{Error, Result};
use serde::{Deserialize, Serialize};
use sha2::Digest as _;
use std::{fmt, str::FromStr};

/// A digest algorithm. Its name is its method's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Algorithm {
    /// MD5 (RFC 1321), for compatibility with existing MD5 sums. Broken as a cryptographic hash.
    Md5,
    /// SHA-1 (FIPS 180-4). Broken as a cryptographic hash.
    Sha1,
    /// SHA-256 (FIPS 180-4).
    Sha256,
    /// CRC-32C (Castagnoli, RFC 3720), only for detecting damage.
    Crc32c,
    /// XXH3 with 128 bits and seed 0, printed as `xxh128sum` does. Not cryptographic.
    Xxh3,
    /// BLAKE3 with 256 bits, unkeyed.
    Blake3,
}

impl Algorithm {
    pub const ALL: [Algorithm; 6] = [
        Algorithm::Md5,
        Algorithm::Sha1,
        Algorithm::Sha256,
        Algorithm::Crc32c,
        Algorithm::Xxh3,
        Algorithm::Blake3,
    ];

    /// The algorithm's name, which is also the name of the method that stores this digest.
    pub const fn name(self) -> &'static str {
        self.names().0
    }

    /// The attribute that holds the digest, in lower-case hex.
    pub const fn xattr(self) -> &'static str {
        self.names().1
    }

    const fn names(self) -> (&'static str, &'static str) {
        match self {
            Algorithm::Md5 => ("md5", "digest.md5"),
            Algorithm::Sha1 => ("sha1", "digest.sha1"),
            Algorithm::Sha256 => ("sha256", "digest.sha256"),
            Algorithm::Crc32c => ("crc32c", "digest.crc32c"),
            Algorithm::Xxh3 => ("xxh3", "digest.xxh3"),
            Algorithm::Blake3 => ("blake3", "digest.blake3"),
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Algorithm {
    type Err = Error;

    fn from_str(name: &str) -> Result<Algorithm> {
        Algorithm::ALL.into_iter().find(|algorithm| algorithm.name() == name).ok_or_else(|| {
            let known = Algorithm::ALL.map(Algorithm::name).join(", ");
            Error::invalid_argument(format!("unknown algorithm; use one of {known}")).with("algorithm", name)
        })
    }
}

/// Hashes bytes that arrive in pieces of any size.
pub struct Hasher(AlgorithmState);

enum AlgorithmState {
    Md5(fast_md5::Md5),
    Sha1(sha1::Sha1),
    Sha256(sha2::Sha256),
    Crc32c(u32),
    // Xxh3 and BLAKE3 have buffers of hundreds of bytes; boxing them keeps the enum small.
    Xxh3(Box<xxhash_rust::xxh3::Xxh3>),
    Blake3(Box<blake3::Hasher>),
}

impl Hasher {
    pub fn new(algorithm: Algorithm) -> Hasher {
        Hasher(match algorithm {
            Algorithm::Md5 => AlgorithmState::Md5(fast_md5::Md5::new()),
            Algorithm::Sha1 => AlgorithmState::Sha1(sha1::Sha1::new()),
            Algorithm::Sha256 => AlgorithmState::Sha256(sha2::Sha256::new()),
            Algorithm::Crc32c => AlgorithmState::Crc32c(0),
            Algorithm::Xxh3 => AlgorithmState::Xxh3(Box::default()),
            Algorithm::Blake3 => AlgorithmState::Blake3(Box::default()),
        })
    }

    pub fn update(&mut self, piece: &[u8]) {
        match &mut self.0 {
            AlgorithmState::Md5(state) => state.update(piece),
            AlgorithmState::Sha1(state) => state.update(piece),
            AlgorithmState::Sha256(state) => state.update(piece),
            AlgorithmState::Crc32c(crc) => *crc = crc32c::crc32c_append(*crc, piece),
            AlgorithmState::Xxh3(state) => state.update(piece),
            AlgorithmState::Blake3(state) => {
                state.update(piece);
            }
        }
    }

    /// The digest of all pieces, in lower-case hex.
    pub fn finish(self) -> String {
        match self.0 {
            AlgorithmState::Md5(state) => hex(&state.finalize()),
            AlgorithmState::Sha1(state) => hex(&state.finalize()),
            AlgorithmState::Sha256(state) => hex(&state.finalize()),
            AlgorithmState::Crc32c(crc) => hex(&crc.to_be_bytes()),
            AlgorithmState::Xxh3(state) => hex(&state.digest128().to_be_bytes()),
            AlgorithmState::Blake3(state) => hex(state.finalize().as_bytes()),
        }
    }
}

fn hex(digest: &[u8]) -> String {
    let digits = digest.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(b"0123456789abcdef"[usize::from(digit)])).collect()
}
