//! Numbers in the sections of a message. The manual counts octets from 1.

use benthic_core::{Error, Result};

/// A section, or the beginning of a message.
pub struct Section<'a>(pub &'a [u8]);

impl Section<'_> {
    pub fn bytes<const N: usize>(&self, octet: usize) -> Result<[u8; N]> {
        let rest = octet.checked_sub(1).and_then(|at| self.0.get(at..));
        let bytes = rest.and_then(<[u8]>::first_chunk).copied();
        bytes.ok_or_else(|| Error::corrupt("a section of a GRIB message is too short"))
    }

    pub fn u8(&self, octet: usize) -> Result<u8> {
        self.bytes(octet).map(|[byte]| byte)
    }

    pub fn u16(&self, octet: usize) -> Result<u16> {
        self.bytes(octet).map(u16::from_be_bytes)
    }

    pub fn u24(&self, octet: usize) -> Result<u32> {
        self.bytes(octet).map(|[high, middle, low]| u32::from_be_bytes([0, high, middle, low]))
    }

    pub fn u32(&self, octet: usize) -> Result<u32> {
        self.bytes(octet).map(u32::from_be_bytes)
    }

    pub fn u64(&self, octet: usize) -> Result<u64> {
        self.bytes(octet).map(u64::from_be_bytes)
    }

    /// Numbers whose first bit is the sign.
    pub fn i8(&self, octet: usize) -> Result<i32> {
        self.u8(octet).map(|number| sign_and_magnitude(number.into(), 8))
    }

    pub fn i24(&self, octet: usize) -> Result<i32> {
        self.u24(octet).map(|number| sign_and_magnitude(number, 24))
    }

    pub fn i32(&self, octet: usize) -> Result<i32> {
        self.u32(octet).map(|number| sign_and_magnitude(number, 32))
    }
}

fn sign_and_magnitude(number: u32, bits: u32) -> i32 {
    let sign = 1 << (bits - 1);
    let magnitude = (number & (sign - 1)).cast_signed();
    if number & sign == 0 { magnitude } else { -magnitude }
}
