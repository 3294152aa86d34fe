//! Encryption of data at rest.
//!
//! The gateway gives each object a data key of its own, and the driver encrypts the data with it.
//! The driver never stores this key; the gateway keeps it, sealed, in the attribute [`ENCRYPTION`].
//!
//! Each write has a key of its own, which HKDF-SHA256 (RFC 5869) derives from the data key and the
//! id of the write. So all parts of an upload can share one data key, and copies can share data.
//! Data objects are sequences of frames: 64 KiB of data (the last one may be shorter) under
//! AES-256-GCM (NIST SP 800-38D), with a tag of 16 bytes behind each. Processors accelerate
//! AES-GCM, and `ring` is a dependency anyway, for TLS. The nonce is the position of the frame: the
//! number of its data object and its number in there. Nobody writes two different frames at one
//! position of one write, so no nonce repeats under a key. A changed, swapped, moved or truncated
//! frame is an error. Frames let a reader of a range read little more than the range.
//!
//! All sizes in the index are those of the data without tags.

use super::{Attributes, Id};
use benthic_core::{Environment, Error, Result};
use bytes::{Bytes, BytesMut};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Salt};
use std::ops::Range;

/// The attribute of objects, parts and uploads whose data are encrypted. Its value belongs to the
/// gateway.
pub const ENCRYPTION: &str = "encryption";

/// Data per frame, in bytes. Every data object of a write, except the last, has a multiple of it.
pub const FRAME_BYTES: u64 = 64 * 1024;
/// Bytes that a frame takes in addition to its data.
const TAG_BYTES: u64 = 16;
const KEY_BYTES: usize = 32;

/// The key of the data of an object or of an upload.
#[derive(Clone)]
pub struct DataKey([u8; KEY_BYTES]);

/// The key of the data of one write.
pub struct WriteKey(LessSafeKey);

impl DataKey {
    /// Draws a new key.
    ///
    /// # Errors
    /// `Unavailable` if there are no random numbers.
    pub fn draw(environment: &Environment) -> Result<DataKey> {
        let mut key = [0; KEY_BYTES];
        environment.random.fill(&mut key)?;
        Ok(DataKey(key))
    }

    /// A key that was drawn before.
    pub fn from_bytes(key: [u8; KEY_BYTES]) -> DataKey {
        DataKey(key)
    }

    pub fn as_bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }

    /// The key for the data of a write.
    ///
    /// # Errors
    /// `Internal`, never in practice.
    pub fn write_key(&self, write: Id) -> Result<WriteKey> {
        let secret = Salt::new(HKDF_SHA256, b"benthic s3 2026-11 data of a write").extract(&self.0);
        let info = [&write.0[..]];
        let key = secret.expand(&info, &AES_256_GCM).map(UnboundKey::from);
        let key = key.map_err(|_| Error::internal("cannot derive a key"))?;
        Ok(WriteKey(LessSafeKey::new(key)))
    }
}

impl WriteKey {
    /// Encrypts a whole data object: in its own memory, if nobody else has it and there is room for
    /// the [tags](stored_len).
    ///
    /// # Errors
    /// `Internal`, never in practice.
    pub fn seal(&self, data_object: u32, data: Bytes) -> Result<Bytes> {
        let len_bytes = data.len();
        let (frame_bytes, tag_bytes) = (FRAME_BYTES as usize, TAG_BYTES as usize);
        let stored_bytes = stored_len(len_bytes as u64) as usize;
        let mut stored = data.try_into_mut().unwrap_or_else(|shared| {
            let mut copy = BytesMut::with_capacity(stored_bytes);
            copy.extend_from_slice(&shared);
            copy
        });
        stored.resize(stored_bytes, 0);
        // Each frame moves behind the tags of the earlier ones, so the last frame moves first.
        for frame in (0..len_bytes.div_ceil(frame_bytes)).rev() {
            let range = frame * frame_bytes..len_bytes.min((frame + 1) * frame_bytes);
            let (start, range_bytes) = (range.start + frame * tag_bytes, range.len());
            stored.copy_within(range, start);
            let (data, rest) = stored[start..].split_at_mut(range_bytes);
            let nonce = nonce(data_object, frame as u64);
            let tag = self.0.seal_in_place_separate_tag(nonce, Aad::empty(), data);
            let tag = tag.map_err(|_| Error::internal("cannot encrypt data"))?;
            rest[..tag_bytes].copy_from_slice(tag.as_ref());
        }
        Ok(stored.freeze())
    }

    /// Decrypts the frames that contain a range of a data object, and returns the range. `stored`
    /// has the bytes of its [`stored_range`].
    ///
    /// # Errors
    /// `Corrupt` if the frames are not those that were encrypted at this place.
    pub fn open(&self, data_object: u32, range: Range<u64>, stored: &[u8]) -> Result<Bytes> {
        let corrupt = || {
            let message = "encrypted data are damaged, or belong to another place";
            Error::corrupt(message).with("data_object", data_object)
        };
        let first = range.start / FRAME_BYTES;
        let mut data = Vec::with_capacity(stored.len());
        for (frame, stored) in (first..).zip(stored.chunks((FRAME_BYTES + TAG_BYTES) as usize)) {
            let start = data.len();
            data.extend_from_slice(stored);
            let opened = self.0.open_in_place(nonce(data_object, frame), Aad::empty(), &mut data[start..]);
            let len_bytes = opened.map_err(|_| corrupt())?.len();
            data.truncate(start + len_bytes);
        }
        let start = range.start - first * FRAME_BYTES;
        let wanted = start..start + (range.end - range.start);
        if wanted.end > data.len() as u64 {
            return Err(corrupt());
        }
        Ok(Bytes::from(data).slice(wanted.start as usize..wanted.end as usize))
    }
}

/// Whether an object, a part or an upload with these attributes is encrypted.
pub fn is_encrypted(attributes: &Attributes) -> bool {
    attributes.contains_key(ENCRYPTION)
}

/// The length of an encrypted data object.
pub fn stored_len(len_bytes: u64) -> u64 {
    stored_range(0..len_bytes, len_bytes).end
}

/// The range of an encrypted data object that contains a range of its data. `len_bytes` is the
/// length of all its data.
pub fn stored_range(range: Range<u64>, len_bytes: u64) -> Range<u64> {
    let (first, end) = (range.start / FRAME_BYTES, range.end.div_ceil(FRAME_BYTES));
    first * (FRAME_BYTES + TAG_BYTES)..(end * FRAME_BYTES).min(len_bytes) + end * TAG_BYTES
}

/// The nonce of a frame: its position.
fn nonce(data_object: u32, frame: u64) -> Nonce {
    let mut nonce = [0; NONCE_LEN];
    nonce[..4].copy_from_slice(&data_object.to_be_bytes());
    nonce[4..].copy_from_slice(&frame.to_be_bytes());
    Nonce::assume_unique_for_key(nonce)
}

#[cfg(test)]
#[path = "encryption_tests.rs"]
mod tests;
