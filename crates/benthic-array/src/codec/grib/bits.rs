//! Reading numbers of any number of bits.

use crate::codec::corrupt;
use benthic_core::Result;

/// Limit on the bits of a number, wherever it begins in a byte.
const BITS_MAX: u32 = 57;

/// Reads big-endian numbers that follow each other without padding.
#[derive(Clone, Debug)]
pub struct Bits<'a> {
    data: &'a [u8],
    /// The next bit.
    at: usize,
}

impl<'a> Bits<'a> {
    pub fn new(data: &'a [u8]) -> Bits<'a> {
        Bits { data, at: 0 }
    }

    /// Reads a number of this many bits.
    ///
    /// # Errors
    /// `Corrupt` if the data end before, or a number has more than [`BITS_MAX`] bits.
    #[inline]
    pub fn read(&mut self, bits: u32) -> Result<u64> {
        if bits == 0 {
            return Ok(0);
        }
        let end = self.at + bits as usize;
        if bits > BITS_MAX || end > self.data.len() * 8 {
            return Err(corrupt("the values of a GRIB field are damaged"));
        }
        let number = self.word() >> (64 - bits);
        self.at = end;
        Ok(number)
    }

    /// Skips zeros and the one after them, and returns the number of the zeros.
    ///
    /// # Errors
    /// `Corrupt` if the data end before a one.
    #[inline]
    pub fn unary(&mut self) -> Result<u64> {
        let start = self.at;
        loop {
            let left = self.data.len() * 8 - self.at;
            if left == 0 {
                return Err(corrupt("the values of a GRIB field are damaged"));
            }
            let zeros = self.word().leading_zeros() as usize;
            let readable = left.min(BITS_MAX as usize);
            if zeros < readable {
                self.at += zeros + 1;
                return Ok((self.at - 1 - start) as u64);
            }
            self.at += readable;
        }
    }

    /// The next bits, at least [`BITS_MAX`] of them, and zeros after the end.
    fn word(&self) -> u64 {
        let rest = &self.data[self.at / 8..];
        let word = match rest.first_chunk() {
            Some(word) => u64::from_be_bytes(*word),
            None => {
                let mut word = [0; 8];
                word[..rest.len()].copy_from_slice(rest);
                u64::from_be_bytes(word)
            }
        };
        word << (self.at % 8)
    }

    /// The rest after these numbers, from a whole byte.
    ///
    /// # Errors
    /// `Corrupt` if the data end before.
    pub fn after(&self, numbers: u64, bits: u32) -> Result<Bits<'a>> {
        let len_bytes = numbers.saturating_mul(u64::from(bits)).div_ceil(8);
        let start = usize::try_from(len_bytes).ok().and_then(|len| len.checked_add(self.at.div_ceil(8)));
        let data = start.and_then(|start| self.data.get(start..));
        data.map(Bits::new).ok_or_else(|| corrupt("the values of a GRIB field are damaged"))
    }
}
