//! `{name}`: a class that digests objects.

#[cfg(test)]
mod tests;

use benthic_core::{Class, Method, MethodContext, MethodFlags, MethodResult, Result};

/// Where `keep` leaves the digest.
const SUM_XATTR: &str = "{name}.sum";

/// How much is read at once. A method has a bound on its memory, and an object may be large.
const PIECE_BYTES: u64 = 1 << 20;

/// The class. It has no state: a method starts from the object and its input, each time.
pub struct Digest;

impl Class for Digest {
    fn name(&self) -> &'static str {
        "{name}"
    }

    fn version(&self) -> u32 {
        1
    }

    fn summary(&self) -> &'static str {
        "a digest of an object (FNV-1a, 64 bits)"
    }

    fn methods(&self) -> &'static [Method] {
        &METHODS
    }
}

static METHODS: [Method; 2] = [
    Method {
        name: "sum",
        // A method that reads is called only if the object is there.
        flags: MethodFlags::READ,
        run: |context, _input| Ok(digest(context)?.into_bytes()),
        result: MethodResult::Output,
        summary: "computes the digest",
        input: "nothing",
        output: "the digest in lower-case hex",
        examples: &[""],
    },
    Method {
        name: "keep",
        flags: MethodFlags::READ_WRITE,
        run: keep,
        // A method that writes returns nothing: what it has to say it stores, and the caller reads it back.
        result: MethodResult::Xattr(SUM_XATTR),
        summary: "computes the digest and keeps it as an attribute of the object",
        input: "nothing",
        output: "the digest in lower-case hex",
        examples: &[""],
    },
];

/// An OSD may run a method more than once, so doing it twice must do no harm.
fn keep(context: &mut MethodContext<'_>, _input: &[u8]) -> Result<Vec<u8>> {
    // First read, then write: what a method changed it may not read any more.
    let digest = digest(context)?;
    context.set_xattr(SUM_XATTR, digest)?;
    Ok(Vec::new())
}

fn digest(context: &mut MethodContext<'_>) -> Result<String> {
    let size_bytes = context.stat()?.size_bytes;
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let mut offset_bytes = 0;
    while offset_bytes < size_bytes {
        // Every call of the context also looks at the clock: a method that takes too long ends here, with an error.
        let piece = context.read(offset_bytes, PIECE_BYTES)?;
        if piece.is_empty() {
            break;
        }
        for byte in &piece {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        offset_bytes += piece.len() as u64;
    }
    Ok(format!("{hash:016x}"))
}

// ceph-osd finds the classes by what this exports; there is no ceph-osd around the tests.
#[cfg(not(test))]
benthic_cls::export!("{name}_1", benthic_core::ClassRegistry::new().with(Digest));
