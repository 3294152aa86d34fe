//! Digests, computed beside the object and stored as its attributes.
//!
//! This is the classic active-storage experiment: instead of moving every object to a client that
//! hashes it, the storage reads and hashes it and stores at most 64 characters. `repeat` repeats
//! the whole work (stat, read, hash, set the attribute), as in the published experiment.
//!
//! The method reads the object in pieces of [`PIECE_BYTES`], so the object is never in memory as a
//! whole.

pub mod client;
mod hasher;
#[cfg(test)]
mod tests;
pub mod wire;

pub use hasher::{Algorithm, Hasher};

use benthic_core::{Class, Error, LogLevel, Method, MethodContext, MethodFlags, MethodResult, Result};
use wire::{ComputeInput, StoreInput, Verified};

/// Bytes of the object in memory at a time.
pub const PIECE_BYTES: u64 = 1024 * 1024;

/// The `digest` class.
pub struct Digest;

impl Class for Digest {
    fn name(&self) -> &'static str {
        "digest"
    }

    fn version(&self) -> u32 {
        1
    }

    fn summary(&self) -> &'static str {
        "digests of objects, computed beside them and stored as attributes"
    }

    fn methods(&self) -> &'static [Method] {
        &METHODS
    }
}

macro_rules! storing {
    ($algorithm:ident, $summary:literal) => {
        Method {
            name: Algorithm::$algorithm.name(),
            flags: MethodFlags::READ_WRITE,
            run: |context, input| store(context, Algorithm::$algorithm, input),
            result: MethodResult::Xattr(Algorithm::$algorithm.xattr()),
            summary: $summary,
            input: "empty, or JSON with repeat (1 to 100000): how many times to repeat the whole work",
            output: "the digest in lower-case hex",
            examples: &["", r#"{"repeat":1000}"#],
        }
    };
}

static METHODS: [Method; 8] = [
    storing!(Md5, "stores the object's MD5"),
    storing!(Sha1, "stores the object's SHA-1"),
    storing!(Sha256, "stores the object's SHA-256"),
    storing!(Crc32c, "stores the object's CRC-32C"),
    storing!(Xxh3, "stores the object's XXH3 with 128 bits"),
    storing!(Blake3, "stores the object's BLAKE3"),
    Method {
        name: "compute",
        flags: MethodFlags::READ,
        run: compute,
        result: MethodResult::Output,
        summary: "returns a digest of the object and stores nothing",
        input: "an algorithm (md5, sha1, sha256, crc32c, xxh3, blake3), or JSON with algorithm and repeat",
        output: "the digest in lower-case hex",
        examples: &["sha256", r#"{"algorithm":"md5","repeat":1000}"#],
    },
    Method {
        name: "verify",
        flags: MethodFlags::READ,
        run: verify,
        result: MethodResult::Output,
        summary: "compares the object with its stored digests; corrupt if one differs",
        input: "an algorithm, or empty for every stored digest",
        output: "JSON: the digest in lower-case hex by algorithm",
        examples: &["", "md5"],
    },
];

fn store(context: &mut MethodContext<'_>, algorithm: Algorithm, input: &[u8]) -> Result<Vec<u8>> {
    let StoreInput { repeat } = StoreInput::parse(input)?;
    for _ in 0..repeat {
        let digest = hash(context, algorithm)?;
        context.set_xattr(algorithm.xattr(), digest)?;
    }
    Ok(Vec::new())
}

fn compute(context: &mut MethodContext<'_>, input: &[u8]) -> Result<Vec<u8>> {
    let ComputeInput { algorithm, repeat } = ComputeInput::parse(input)?;
    let mut digest = String::new();
    for _ in 0..repeat {
        digest = hash(context, algorithm)?;
    }
    Ok(digest.into_bytes())
}

fn verify(context: &mut MethodContext<'_>, input: &[u8]) -> Result<Vec<u8>> {
    let wanted = wire::parse_verify(input)?;
    let xattrs = context.list_xattrs()?;
    let mut checks: Vec<_> = Algorithm::ALL
        .into_iter()
        .filter(|algorithm| wanted.is_none_or(|wanted| wanted == *algorithm))
        .filter_map(|algorithm| {
            xattrs.get(algorithm.xattr()).map(|stored| (algorithm, stored, Hasher::new(algorithm)))
        })
        .collect();
    if checks.is_empty() {
        let message = "the object has no stored digest; call the method with the algorithm's name first";
        return Err(Error::not_found(message).with("attribute", wanted.map_or("digest.*", Algorithm::xattr)));
    }
    // One pass over the object serves all digests.
    each_piece(context, |piece| checks.iter_mut().for_each(|(_, _, hasher)| hasher.update(piece)))?;
    let mut verified = Verified::new();
    for (algorithm, stored, hasher) in checks {
        let computed = hasher.finish();
        if stored.as_ref() != computed.as_bytes() {
            let message = "the object does not match its stored digest: it is damaged or was changed since";
            let error = Error::corrupt(message)
                .with("algorithm", algorithm)
                .with("stored", String::from_utf8_lossy(stored))
                .with("computed", computed);
            // An OSD's reply contains only an errno, so the details go to its log.
            context.log(LogLevel::Error, &error.to_string());
            return Err(error);
        }
        verified.insert(algorithm, computed);
    }
    serde_json::to_vec(&verified)
        .map_err(|error| Error::internal("the output cannot be encoded").with_source(error))
}

fn hash(context: &mut MethodContext<'_>, algorithm: Algorithm) -> Result<String> {
    let mut hasher = Hasher::new(algorithm);
    each_piece(context, |piece| hasher.update(piece))?;
    Ok(hasher.finish())
}

/// Passes the whole object to `take`, piece by piece.
fn each_piece(context: &mut MethodContext<'_>, mut take: impl FnMut(&[u8])) -> Result<()> {
    let size_bytes = context.stat()?.size_bytes;
    let mut offset_bytes = 0;
    while offset_bytes < size_bytes {
        let piece = context.read(offset_bytes, PIECE_BYTES)?;
        if piece.is_empty() {
            return Err(Error::internal("the object's data end before its size")
                .with("size_bytes", size_bytes)
                .with("read_bytes", offset_bytes));
        }
        take(&piece);
        offset_bytes += piece.len() as u64;
    }
    Ok(())
}
