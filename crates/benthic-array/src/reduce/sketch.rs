//! The state of quantiles: a histogram whose buckets become wider when there are too many of them.
//!
//! A bucket has all values whose sign, exponent and first digits of the mantissa are the same, so
//! its values differ by a fixed ratio, as in DDSketch. If more than [`BUCKETS_MAX`] buckets have
//! values, all of them lose a digit, as in UDDSketch. Both steps depend only on the set of values,
//! not on their order, so the states of the same values have the same bits however they were
//! merged. Sketches of ranks, such as KLL and the t-digest, do not have this property, and their
//! error is only probable or not known.
//!
//! With all digits, a bucket has one value: quantiles of up to [`BUCKETS_MAX`] different values are
//! exact. With `m` digits, the middle of a bucket differs from its values by at most 2⁻⁽ᵐ⁺¹⁾ of
//! them. Values in `b` different pairs of a sign and an exponent fill at most `b · 2ᵐ` buckets, so
//! the error is at most `b / 4000`. The 4,095 pairs always fit, without any digit.
//!
//! Sources: Masson, Rim and Lee, "DDSketch: A Fast and Fully-Mergeable Quantile Sketch with
//! Relative-Error Guarantees" (VLDB 2019); Epicoco et al., "UDDSketch: Accurate Tracking of
//! Quantiles in Data Streams" (IEEE Access, 2020).

use super::number::Number;
use super::states::ReductionState;
use super::{Reduction, ReductionKind};
use crate::values::Values;
use benthic_core::Result;
use benthic_core::codec::{Decoded, Decoder, Malformed, Wire};

/// Limit on the buckets of a state.
pub const BUCKETS_MAX: usize = 4096;
/// The digits of a mantissa.
const MANTISSA_BITS: u32 = f64::MANTISSA_DIGITS - 1;
/// Size of a bucket in memory and encoded.
pub const BUCKET_BYTES: u64 = 16;
const SIGN: u64 = 1 << 63;

/// The number of values in each bucket.
#[derive(Clone, Debug, PartialEq)]
pub struct Sketch {
    /// The digits that the buckets do not have, at most [`MANTISSA_BITS`].
    dropped_bits: u32,
    /// Key and number of values, by key. At most [`BUCKETS_MAX`]; no number is 0.
    buckets: Vec<(i64, u64)>,
    /// The number of NaN that are not skipped.
    nans: u64,
}

/// The key of a value with all digits. Keys have the order of the values, and a key of which some
/// digits are dropped is one of fewer digits.
fn key(value: f64) -> i64 {
    // Both zeros have the key 0.
    let bits = value.to_bits();
    let magnitude = (bits & !SIGN).cast_signed();
    if bits & SIGN == 0 { magnitude } else { -magnitude }
}

fn drop_bits(key: i64, bits: u32) -> i64 {
    // Toward zero, so that both signs have the same buckets.
    key / (1 << bits)
}

impl Sketch {
    /// The middle of a bucket.
    fn value(&self, key: i64) -> f64 {
        let start = key.unsigned_abs() << self.dropped_bits;
        let middle = match (key, self.dropped_bits) {
            // Zeros and subnormal numbers.
            (0, _) => 0,
            (_, 0) => start,
            // An infinite value is alone in its bucket.
            _ if f64::from_bits(start).is_infinite() => start,
            (_, bits) => start | 1 << (bits - 1),
        };
        let value = f64::from_bits(middle);
        if key < 0 { -value } else { value }
    }

    fn drop_to(&mut self, dropped_bits: u32) {
        let bits = dropped_bits - self.dropped_bits;
        if bits == 0 {
            return;
        }
        self.dropped_bits = dropped_bits;
        self.buckets.iter_mut().for_each(|bucket| bucket.0 = drop_bits(bucket.0, bits));
        self.buckets.dedup_by(|next, before| {
            let is_same = next.0 == before.0;
            if is_same {
                before.1 = before.1.saturating_add(next.1);
            }
            is_same
        });
    }

    fn limit(&mut self) {
        while self.buckets.len() > BUCKETS_MAX {
            self.drop_to(self.dropped_bits + 1);
        }
    }

    /// Adds buckets that are sorted and have the same digits.
    fn add_buckets(&mut self, added: impl ExactSizeIterator<Item = (i64, u64)>) {
        let mut merged: Vec<(i64, u64)> = Vec::with_capacity(self.buckets.len() + added.len());
        let mut put = |bucket: (i64, u64)| match merged.last_mut() {
            Some(last) if last.0 == bucket.0 => last.1 = last.1.saturating_add(bucket.1),
            _ => merged.push(bucket),
        };
        let mut ours = self.buckets.iter().copied().peekable();
        for bucket in added {
            while let Some(before) = ours.next_if(|ours| ours.0 <= bucket.0) {
                put(before);
            }
            put(bucket);
        }
        ours.for_each(put);
        merged.shrink_to_fit();
        self.buckets = merged;
        self.limit();
    }

    /// The value at a position in the sorted values. There are more values than this.
    fn at(&self, position: u64) -> f64 {
        let mut after = 0u64;
        let bucket = self.buckets.iter().find(|(_, count)| {
            after = after.saturating_add(*count);
            after > position
        });
        bucket.map_or(f64::NAN, |(key, _)| self.value(*key))
    }

    fn quantile(&self, q: f64) -> f64 {
        let count = self.buckets.iter().fold(0u64, |sum, (_, count)| sum.saturating_add(*count));
        if count == 0 || self.nans > 0 {
            return f64::NAN;
        }
        let position = (count - 1) as f64 * q;
        let below = (position as u64).min(count - 1);
        let (low, high) = (self.at(below), self.at((below + 1).min(count - 1)));
        // NumPy rounds so.
        let (part, difference) = (position - below as f64, high - low);
        match part {
            // Also between infinite values.
            _ if part == 0.0 || low == high => low,
            _ if part >= 0.5 => high - difference * (1.0 - part),
            _ => low + difference * part,
        }
    }
}

impl<V: Number> ReductionState<V> for Sketch {
    fn empty(_: &Reduction) -> Sketch {
        Sketch { dropped_bits: 0, buckets: Vec::new(), nans: 0 }
    }

    fn add(&mut self, reduction: &Reduction, value: V, _: u64) {
        if value.is_nan() {
            self.nans += u64::from(!reduction.skip_nan);
            return;
        }
        let key = drop_bits(key(value.to_f64()), self.dropped_bits);
        match self.buckets.binary_search_by_key(&key, |bucket| bucket.0) {
            Ok(index) => self.buckets[index].1 = self.buckets[index].1.saturating_add(1),
            Err(index) => {
                self.buckets.insert(index, (key, 1));
                self.limit();
            }
        }
    }

    fn add_run(&mut self, reduction: &Reduction, values: &[V], _: u64, _: u64) {
        let kept = values.iter().filter(|value| !value.is_nan());
        let mut keys: Vec<i64> =
            kept.map(|value| drop_bits(key(value.to_f64()), self.dropped_bits)).collect();
        if !reduction.skip_nan {
            self.nans += (values.len() - keys.len()) as u64;
        }
        keys.sort_unstable();
        self.add_buckets(keys.into_iter().map(|key| (key, 1)));
    }

    fn merge(&mut self, _: &Reduction, other: &Sketch) {
        self.nans = self.nans.saturating_add(other.nans);
        self.drop_to(self.dropped_bits.max(other.dropped_bits));
        let mut other = other.clone();
        other.drop_to(self.dropped_bits);
        self.add_buckets(other.buckets.into_iter());
    }

    fn finish(&self, reduction: &Reduction, values: &mut Values) -> Result<()> {
        if let ReductionKind::Quantile { q } = &reduction.kind {
            q.0.iter().for_each(|q| values.push_f64(self.quantile(*q)));
        }
        Ok(())
    }
}

impl Wire for Sketch {
    fn put(&self, out: &mut Vec<u8>) {
        self.dropped_bits.put(out);
        self.nans.put(out);
        let buckets: Vec<(u64, u64)> =
            self.buckets.iter().map(|(key, count)| (key.cast_unsigned(), *count)).collect();
        buckets.put(out);
    }

    fn get(input: &mut Decoder<'_>) -> Decoded<Sketch> {
        let (dropped_bits, nans) = (u32::get(input)?, u64::get(input)?);
        let len = input.len(BUCKET_BYTES as usize)?;
        if dropped_bits > MANTISSA_BITS || len > BUCKETS_MAX {
            return Err(Malformed);
        }
        let bucket = |_| Ok((input.u64()?.cast_signed(), input.u64()?));
        let buckets: Vec<(i64, u64)> = (0..len).map(bucket).collect::<Decoded<_>>()?;
        let key_max = drop_bits(f64::INFINITY.to_bits().cast_signed(), dropped_bits);
        let is_valid = buckets.windows(2).all(|pair| pair[0].0 < pair[1].0)
            && buckets.iter().all(|(key, count)| key.unsigned_abs() <= key_max.unsigned_abs() && *count > 0);
        if is_valid { Ok(Sketch { dropped_bits, buckets, nans }) } else { Err(Malformed) }
    }
}

#[cfg(test)]
#[path = "sketch_tests.rs"]
mod tests;
