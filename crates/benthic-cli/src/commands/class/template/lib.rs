//! `{name}`: a class that digests objects.

#[cfg(test)]
mod tests;

use benthic_core::{Class, Method, MethodContext, MethodFlags, MethodResult, Result};

/// The attribute in which `keep` stores the digest.
const SUM_XATTR: &str = "{name}.sum";

/// Size of one read. The memory of a method is limited, and an object may be large.
const PIECE_BYTES: u64 = 1 << 20;

/// The class. It has no state: each call of a method starts from the object and the input.
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
        // A method that reads is called only if the object exists.
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
        // A method that writes returns nothing. It stores its result, and the caller reads it back.
        result: MethodResult::Xattr(SUM_XATTR),
        summary: "computes the digest and stores it as an attribute of the object",
        input: "nothing",
        output: "the digest in lower-case hex",
        examples: &[""],
    },
];

/// Computes and stores the digest. An OSD may run a method twice, so it must be idempotent.
fn keep(context: &mut MethodContext<'_>, _input: &[u8]) -> Result<Vec<u8>> {
    // Read first, then write: a method cannot read its own changes.
    let digest = digest(context)?;
    context.set_xattr(SUM_XATTR, digest)?;
    Ok(Vec::new())
}

fn digest(context: &mut MethodContext<'_>) -> Result<String> {
    let size_bytes = context.stat()?.size_bytes;
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let mut offset_bytes = 0;
    while offset_bytes < size_bytes {
        // Every call of the context also checks the deadline, and fails after it.
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

// Exports the symbols by which ceph-osd finds the class. Tests run without ceph-osd.
#[cfg(not(test))]
benthic_cls::export!("{name}_1", benthic_core::ClassRegistry::new().with(Digest));
