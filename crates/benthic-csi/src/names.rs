//! The names of volumes and snapshots.
//!
//! An orchestrator gives a volume a name of up to 128 bytes and then uses the identifier that the
//! driver returns. The identifier is the address of the image, `POOL/IMAGE`, and that of a snapshot
//! is `POOL/IMAGE@SNAPSHOT`. The image's name comes from the volume's, so that a repeated call
//! finds the image.

use benthic_block::ImageAddress;
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// The beginning of the names of the driver's images, and of the snapshots that were asked for.
pub const PREFIX: &str = "csi-";
/// The same for names that would be too long.
const HASHED: &str = "csi~";
/// The beginning of the names of snapshots for the clones of volumes; the clone's name follows.
const FOR_CLONE: &str = "for-";
/// The longest name that is not hashed, so that identifiers have at most 128 bytes with a pool's
/// name of up to 20 bytes.
const PLAIN_BYTES_MAX: usize = 48;

/// The name of the image or of the snapshot for a name of the orchestrator. Different names have
/// different results.
pub fn internal(name: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let escaped = name.bytes().fold(PREFIX.to_owned(), |escaped, byte| match byte {
        byte if is_plain(byte) => escaped + char::from(byte).encode_utf8(&mut [0; 4]),
        byte => escaped + &format!("%{byte:02X}"),
    });
    if escaped.len() <= PREFIX.len() + PLAIN_BYTES_MAX {
        return escaped;
    }
    // Half of the bytes of the hash are enough: 128 bits.
    Sha256::digest(name)[..16].iter().fold(HASHED.to_owned(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Returns whether an image or a snapshot is one of the driver's.
pub fn is_ours(name: &str) -> bool {
    name.starts_with(PREFIX) || name.starts_with(HASHED)
}

/// The name of the snapshot that a clone of a volume is made from.
pub fn for_clone(clone: &str) -> String {
    format!("{FOR_CLONE}{clone}")
}

/// Returns whether a snapshot exists only for a clone.
pub fn is_for_clone(snapshot: &str) -> bool {
    snapshot.strip_prefix(FOR_CLONE).is_some_and(is_ours)
}

/// The address of a volume. `None` for an identifier that no driver has given.
pub fn volume(id: &str) -> Option<ImageAddress> {
    let address: ImageAddress = id.parse().ok()?;
    (address.snapshot.is_none() && is_ours(&address.image)).then_some(address)
}

/// The address of a snapshot, and the name of the snapshot. `None` for an identifier that no driver
/// has given.
pub fn snapshot(id: &str) -> Option<(ImageAddress, String)> {
    let mut address: ImageAddress = id.parse().ok()?;
    let snapshot = address.snapshot.take()?;
    (is_ours(&address.image) && is_ours(&snapshot)).then_some((address, snapshot))
}

#[cfg(test)]
#[path = "names_tests.rs"]
mod tests;
