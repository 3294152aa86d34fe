//! Explains why librados cannot use a key.
//!
//! Ceph 20.2.4 makes keys of the type `aes256k`. An older librados cannot parse a keyring with such
//! a key, also if it is the key of another client, and fails with EIO. It prints the reason only to
//! a log, which a library must not write. So after a failure we look at the types of the keys.

use std::path::Path;

/// A keyring has a line per key and capability; this is far above any real one.
const KEYRING_BYTES_MAX: u64 = 1 << 20;

/// The type of keys that every release of Ceph can use.
const AES: &str = "aes";

/// A key in a keyring: its owner and its type, but not the key itself.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FoundKey {
    /// `client.x`.
    pub owner: String,
    /// `aes`, `aes256k`, or `unknown`.
    pub key_type: &'static str,
}

impl FoundKey {
    pub fn is_aes(&self) -> bool {
        self.key_type == AES
    }
}

/// The keys in the files of librados' setting `keyring`, separated by commas. Files that this user
/// cannot read have none.
pub(crate) fn in_files(setting: &str) -> Vec<FoundKey> {
    let files = setting.split([',', ';', ' ']).filter(|path| !path.is_empty());
    files.flat_map(|path| parse(&read(Path::new(path)).unwrap_or_default())).collect()
}

fn read(path: &Path) -> std::io::Result<String> {
    use std::io::Read;
    let mut text = String::new();
    std::fs::File::open(path)?.take(KEYRING_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

fn parse(keyring: &str) -> Vec<FoundKey> {
    let mut owner = "";
    let mut keys = Vec::new();
    for line in keyring.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            owner = section;
        } else if let Some(("key", key)) =
            line.split_once('=').map(|(name, value)| (name.trim(), value.trim()))
        {
            keys.push(FoundKey { owner: owner.to_owned(), key_type: key_type(key) });
        }
    }
    keys
}

/// A key begins with its type, a little-endian number of 16 bits. The first two characters of
/// Base64 hold 12 bits of it; the others are zero in these types.
fn key_type(base64: &str) -> &'static str {
    match base64.get(..2) {
        Some("AQ") => AES,
        Some("Ag") => "aes256k",
        _ => "unknown",
    }
}

#[cfg(test)]
#[path = "key_types_tests.rs"]
mod tests;
