//! The file of keys, in the format of GnuTLS' `psktool`: a line `IDENTITY:KEY` each, the key in
//! hexadecimal digits.

use benthic_core::{Action, Error, Result};
use std::collections::HashMap;
use std::io::Read;
use std::path::Path;

/// OpenSSL's limit is 256, and was 128.
const IDENTITY_BYTES_MAX: usize = 128;
/// Shorter keys can be guessed; GnuTLS allows no longer ones.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 16..=64;
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Keys by the identities that clients send.
#[derive(Default)]
pub(crate) struct Keys(HashMap<Vec<u8>, Vec<u8>>);

impl Keys {
    pub(crate) fn read(path: &Path) -> Result<Keys> {
        let mut text = String::new();
        let read = std::fs::File::open(path)
            .and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text));
        let keys = match read {
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => Err("it is not text".to_owned()),
            Err(error) => {
                let error = Error::io(Action::Admin, "cannot read the file of TLS keys", error);
                return Err(error.with("path", path.display()));
            }
            Ok(_) if text.len() as u64 > FILE_BYTES_MAX => Err("it is larger than 1 MiB".to_owned()),
            Ok(_) => Keys::parse(&text),
        };
        keys.map_err(|reason| {
            let message =
                format!("invalid file of TLS keys: {reason}; `psktool` of gnutls-bin writes such files");
            Error::invalid_argument(message).with("path", path.display())
        })
    }

    /// The error has no part of a key.
    fn parse(text: &str) -> std::result::Result<Keys, String> {
        let mut keys = Keys::default();
        for (line, number) in text.lines().zip(1..).filter(|(line, _)| !line.is_empty()) {
            let at = |reason: &str| format!("line {number} {reason}");
            let (identity, key) = line
                .split_once(':')
                .ok_or_else(|| at("is not IDENTITY:KEY, the key in hexadecimal digits"))?;
            if identity.is_empty() || identity.len() > IDENTITY_BYTES_MAX {
                return Err(at("has an identity that is empty or longer than 128 bytes"));
            }
            let key = decode(key).ok_or_else(|| at("has a key that is not hexadecimal"))?;
            if !KEY_BYTES.contains(&key.len()) {
                return Err(at("has a key of fewer than 16 or more than 64 bytes"));
            }
            if keys.0.insert(identity.as_bytes().to_vec(), key).is_some() {
                return Err(at("repeats an identity"));
            }
        }
        if keys.0.is_empty() { Err("it has no keys".to_owned()) } else { Ok(keys) }
    }

    pub(crate) fn find(&self, identity: &[u8]) -> Option<&[u8]> {
        self.0.get(identity).map(Vec::as_slice)
    }
}

fn decode(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    pairs
        .map(|pair| {
            u8::from_str_radix(
                std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2 && !pair.starts_with('+'))?,
                16,
            )
            .ok()
        })
        .collect()
}

#[cfg(test)]
#[path = "keys_tests.rs"]
mod tests;
