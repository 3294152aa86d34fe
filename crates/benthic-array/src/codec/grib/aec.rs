//! Decodes CCSDS packing: integers in the adaptive entropy coding of space agencies.
//!
//! A field consists of intervals, and an interval of blocks of samples. The encoder chose the
//! shortest of several codes for each block. The first sample of an interval is stored unchanged.
//! Each other sample is stored as its difference from the sample before, mapped to a number without
//! sign. The decoder keeps one block in memory.
//!
//! Rejected: libaec, because it is C, and the crate `rust-aec`, because it returns whole fields.
//!
//! Source: CCSDS 121.0-B-3, Lossless Data Compression, with the options of libaec.

use super::bits::Bits;
use super::{damaged, octet, octets};
use benthic_core::Result;

const BLOCK_SAMPLES_MAX: usize = 64;
/// Bits of the flags.
const IS_SIGNED: u8 = 1;
const HAS_DIFFERENCES: u8 = 8;
const IS_RESTRICTED: u8 = 16;
const PADS_INTERVALS: u8 = 32;
/// This number of zero blocks means all blocks up to the end of a segment, or of the interval.
const REST_OF_SEGMENT: u64 = 5;
const SEGMENT_BLOCKS: u64 = 64;

/// The parameters of a field, from GRIB's template 5.42.
pub struct Parameters {
    sample_bits: u32,
    has_differences: bool,
    pads_intervals: bool,
    /// The bits of a block's code.
    code_bits: u32,
    block_samples: usize,
    interval_blocks: u64,
}

impl Parameters {
    pub fn parse(section: &[u8]) -> Result<Parameters> {
        let (sample_bits, flags) = (octet(section, 20)?.into(), octet(section, 22)?);
        let is_restricted = flags & IS_RESTRICTED != 0;
        let parameters = Parameters {
            sample_bits,
            has_differences: flags & HAS_DIFFERENCES != 0,
            pads_intervals: flags & PADS_INTERVALS != 0,
            code_bits: match sample_bits {
                1..=2 if is_restricted => 1,
                3..=4 if is_restricted => 2,
                ..=8 => 3,
                9..=16 => 4,
                17.. => 5,
            },
            block_samples: octet(section, 23)?.into(),
            interval_blocks: u16::from_be_bytes(octets(section, 24)?).into(),
        };
        let is_valid = (1..=32).contains(&sample_bits)
            && flags & IS_SIGNED == 0
            && (1..=BLOCK_SAMPLES_MAX).contains(&parameters.block_samples)
            && parameters.interval_blocks > 0;
        if is_valid { Ok(parameters) } else { Err(damaged()) }
    }
}

/// The samples of a field.
pub struct Aec<'a> {
    parameters: Parameters,
    bits: Bits<'a>,
    block: [u64; BLOCK_SAMPLES_MAX],
    /// The next sample of the block.
    at: usize,
    /// The number of the next block in its interval.
    next_block: u64,
    /// Blocks of zeros that follow.
    zero_blocks: u64,
    last: u64,
}

impl<'a> Aec<'a> {
    pub fn new(parameters: Parameters, data: &'a [u8]) -> Aec<'a> {
        let (at, block) = (parameters.block_samples, [0; BLOCK_SAMPLES_MAX]);
        Aec { parameters, bits: Bits::new(data), block, at, next_block: 0, zero_blocks: 0, last: 0 }
    }

    pub fn next(&mut self) -> Result<u64> {
        if self.at == self.parameters.block_samples {
            self.read_block()?;
            self.at = 0;
        }
        let sample = self.block[self.at];
        let is_reference = self.next_block == 1 && self.at == 0;
        self.at += 1;
        self.last = match self.parameters.has_differences && !is_reference {
            true => self.undo_difference(sample),
            false => sample,
        };
        Ok(self.last)
    }

    /// Small numbers alternate between both signs, as far as both neighbours are possible.
    fn undo_difference(&self, mapped: u64) -> u64 {
        let (last, largest) = (self.last, self.largest());
        let both_signs = last.min(largest - last);
        if mapped > 2 * both_signs {
            return if last == both_signs { mapped } else { largest - mapped };
        }
        if mapped.is_multiple_of(2) { last + mapped / 2 } else { last - mapped.div_ceil(2) }
    }

    fn largest(&self) -> u64 {
        (1 << self.parameters.sample_bits) - 1
    }

    fn read_block(&mut self) -> Result<()> {
        if self.next_block == self.parameters.interval_blocks {
            self.next_block = 0;
            if self.parameters.pads_intervals {
                self.bits = self.bits.after(0, 0)?;
            }
        }
        let first = usize::from(self.next_block == 0 && self.parameters.has_differences);
        self.block.fill(0);
        if self.zero_blocks > 0 {
            self.zero_blocks -= 1;
        } else {
            self.read_code(first)?;
        }
        if self.block[..self.parameters.block_samples].iter().any(|sample| *sample > self.largest()) {
            return Err(damaged());
        }
        self.next_block += 1;
        Ok(())
    }

    /// Reads the samples of a block by their code. `first` is the first one that is a difference.
    fn read_code(&mut self, first: usize) -> Result<()> {
        let Parameters { sample_bits, code_bits, block_samples, interval_blocks, .. } = self.parameters;
        let code = self.bits.read(code_bits)?;
        // No compression: the samples as they are.
        if code == (1 << code_bits) - 1 {
            for sample in &mut self.block[..block_samples] {
                *sample = self.bits.read(sample_bits)?;
            }
            return Ok(());
        }
        let is_pairs = code == 0 && self.bits.read(1)? == 1;
        if first == 1 {
            self.block[0] = self.bits.read(sample_bits)?;
        }
        let samples = &mut self.block[first..block_samples];
        // The second extension: one number for two samples.
        if is_pairs {
            let mut at = first;
            while at < block_samples {
                let (left, right) = pair(self.bits.unary()?);
                // The first of two samples is at an even position.
                if at.is_multiple_of(2) {
                    self.block[at] = left;
                    at += 1;
                }
                if let Some(sample) = self.block[..block_samples].get_mut(at) {
                    *sample = right;
                }
                at += 1;
            }
        } else if code == 0 {
            // A run of blocks that contain only zeros.
            let blocks = self.bits.unary()? + 1;
            let left = interval_blocks - self.next_block;
            let blocks = match blocks {
                REST_OF_SEGMENT => left.min(SEGMENT_BLOCKS - self.next_block % SEGMENT_BLOCKS),
                _ => blocks - u64::from(blocks > REST_OF_SEGMENT),
            };
            if blocks > left {
                return Err(damaged());
            }
            self.zero_blocks = blocks - 1;
        } else {
            // Split samples: the high bits of all samples in unary, then the low bits of all.
            let low_bits = code as u32 - 1;
            for sample in &mut *samples {
                // There are fewer than 2³¹ bits.
                *sample = self.bits.unary()? << low_bits;
            }
            for sample in samples {
                *sample += self.bits.read(low_bits)?;
            }
        }
        Ok(())
    }
}

/// Two samples in one number, which counts the pairs in the order of their sums.
fn pair(number: u64) -> (u64, u64) {
    let mut before = 0;
    let mut sum = 0;
    while before + sum < number {
        before += sum + 1;
        sum += 1;
    }
    let right = number - before;
    (sum - right, right)
}
