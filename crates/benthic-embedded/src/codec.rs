//! Little-endian encoding of everything that is stored or sent. A decoder never allocates more than its input holds.

use bytes::Bytes;

/// What a decoder could not make sense of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

pub(crate) type Decoded<T> = std::result::Result<T, Malformed>;

/// Appends to a buffer.
pub(crate) trait Encode {
    fn put_u8(&mut self, value: u8);
    fn put_u16(&mut self, value: u16);
    fn put_u32(&mut self, value: u32);
    fn put_u64(&mut self, value: u64);
    /// A count of what follows.
    fn put_len(&mut self, len: usize);
    /// Length and bytes.
    fn put_bytes(&mut self, bytes: &[u8]);
}

impl Encode for Vec<u8> {
    fn put_u8(&mut self, value: u8) {
        self.push(value);
    }

    fn put_u16(&mut self, value: u16) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_len(&mut self, len: usize) {
        // Operations are limited to 64 MiB, so every length fits.
        self.put_u32(u32::try_from(len).unwrap_or(u32::MAX));
    }

    fn put_bytes(&mut self, bytes: &[u8]) {
        self.put_len(bytes.len());
        self.extend_from_slice(bytes);
    }
}

/// Reads a buffer from the front; byte strings share its memory.
pub(crate) struct Decoder {
    rest: Bytes,
}

impl Decoder {
    pub fn new(bytes: Bytes) -> Decoder {
        Decoder { rest: bytes }
    }

    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    pub fn take(&mut self, len: usize) -> Decoded<Bytes> {
        if len > self.rest.len() {
            return Err(Malformed);
        }
        Ok(self.rest.split_to(len))
    }

    fn array<const N: usize>(&mut self) -> Decoded<[u8; N]> {
        let bytes = self.take(N)?;
        bytes.as_ref().try_into().map_err(|_| Malformed)
    }

    pub fn u8(&mut self) -> Decoded<u8> {
        Ok(self.array::<1>()?[0])
    }

    pub fn u16(&mut self) -> Decoded<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub fn u32(&mut self) -> Decoded<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub fn u64(&mut self) -> Decoded<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A count of items that take at least `item_bytes_min` each; more than the input can hold is malformed.
    pub fn len(&mut self, item_bytes_min: usize) -> Decoded<usize> {
        let len = self.u32()? as usize;
        if len.saturating_mul(item_bytes_min) > self.rest.len() { Err(Malformed) } else { Ok(len) }
    }

    pub fn bytes(&mut self) -> Decoded<Bytes> {
        let len = self.u32()? as usize;
        self.take(len)
    }

    pub fn string(&mut self) -> Decoded<String> {
        let bytes = self.bytes()?;
        String::from_utf8(bytes.into()).map_err(|_| Malformed)
    }

    pub fn bool(&mut self) -> Decoded<bool> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed),
        }
    }

    /// Nothing may be left.
    pub fn end(&self) -> Decoded<()> {
        if self.rest.is_empty() { Ok(()) } else { Err(Malformed) }
    }
}
