//! The distribution of a column's values in one data object: bounds that divide a sample of its
//! rows into parts of equal size, and the estimated number of different values.
//!
//! A query estimates from it how many rows a condition selects before it reads anything of the
//! object, and decides whether an index pays. The file list of a table holds the distributions, so
//! they must be small: at most [`BUCKETS_MAX`] bounds in [`BYTES_MAX`] bytes. The directory of an
//! index is a finer histogram, but each object has its own, and reading it takes a request.
//!
//! To read selected rows takes the longer the more runs they form. So a distribution also tells how
//! often the next row has a value of the same part.
//!
//! The sample has one random row of each part of the object, so an estimate of a range is off by at
//! most about a tenth of the rows, and usually by less than 3% (`distribution_tests.rs`). The
//! number of different values is the estimator Duj1 of Haas and Stokes (1998), which PostgreSQL
//! uses, too.

use crate::key::{KEY_BYTES_MAX, Keys, Kind};
use crate::page::{Reader, push_number};
use crate::ranges::{Ranges, is_within};
use arrow::array::{ArrayRef, UInt32Array};
use arrow::compute::take;
use benthic_core::{Error, Result};

/// Maximum number of parts of equal size.
pub const BUCKETS_MAX: usize = 32;
/// Maximum size of an encoded distribution. One with longer bounds has fewer of them.
pub const BYTES_MAX: usize = 512;
const FORMAT: u8 = 1;
const SAMPLE_ROWS: usize = 4_096;
const UNIT: u32 = 1_000;
/// Bytes of a bound after those that distinguish it from its neighbours.
const EXTRA_BYTES: usize = 2;
/// Share of a value that is in no bound of the sample, if the value occurs at all.
const SHARE_UNSEEN: f64 = 1.0 / SAMPLE_ROWS as f64;

/// The distribution of the values of a column in one data object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    /// Estimated number of different values; null counts as a value.
    distinct: u64,
    /// How many of a thousand rows are followed by a row whose value is in the same part.
    repeats: u32,
    /// Ascending keys: the least one, and the last one of each part. Empty for no rows.
    bounds: Vec<Vec<u8>>,
}

impl Distribution {
    /// The distribution of a column; `None` for a type that has no keys.
    ///
    /// # Errors
    /// Errors of [`Keys::of`].
    pub fn of(column: &ArrayRef) -> Result<Option<Distribution>> {
        if Kind::of(column.data_type()).is_none() {
            return Ok(None);
        }
        let rows = column.len();
        let sample = sampled_rows(rows);
        let last = rows.saturating_sub(1) as u32;
        let next = UInt32Array::from_iter_values(sample.values().iter().map(|row| (row + 1).min(last)));
        let keys_of = |rows: &UInt32Array| {
            let sample = take(column, rows, None)
                .map_err(|source| Error::internal("rows cannot be sampled").with_source(source))?;
            Keys::of(&[sample])
        };
        let (keys, next) = (keys_of(&sample)?, keys_of(&next)?);
        let mut sorted: Vec<&[u8]> = (0..keys.len()).map(|row| keys.get(row)).collect();
        sorted.sort_unstable();
        let distinct = distinct(&sorted, rows);
        let whole = bounds(&sorted, BUCKETS_MAX);
        let part = |key: &[u8]| whole.partition_point(|bound| bound.as_slice() < key);
        let repeats = (0..keys.len()).filter(|row| part(keys.get(*row)) == part(next.get(*row))).count();
        let repeats = (repeats * UNIT as usize / keys.len().max(1)) as u32;
        let mut buckets = BUCKETS_MAX;
        loop {
            let found = Distribution { distinct, repeats, bounds: bounds(&sorted, buckets) };
            if buckets == 1 || found.encode().len() <= BYTES_MAX {
                return Ok(Some(found));
            }
            buckets /= 2;
        }
    }

    /// Estimated number of different values.
    pub fn distinct(&self) -> u64 {
        self.distinct
    }

    /// An estimate of how likely the row after a selected row is selected, too, if a condition
    /// selects this share of the rows.
    pub fn repeat(&self, share: f64) -> f64 {
        share.max(f64::from(self.repeats) / f64::from(UNIT)).min(1.0)
    }

    /// An estimate of the share of the rows whose value is in these ranges.
    pub fn share(&self, ranges: &Ranges) -> f64 {
        let share = |(low, high): (&[u8], &[u8])| self.share_between(low, high, ranges.are_points());
        ranges.iter().map(share).sum::<f64>().clamp(0.0, 1.0)
    }

    /// Bounds are cut, so a bound equals a key that begins with it.
    fn share_between(&self, low: &[u8], high: &[u8], is_point: bool) -> f64 {
        let Some(buckets) = self.bounds.len().checked_sub(1) else { return 0.0 };
        let buckets = buckets.max(1) as f64;
        let is_before = |bound: &&Vec<u8>| bound.as_slice() < low && !low.starts_with(bound);
        let before = self.bounds.iter().take_while(is_before).count();
        let until = self.bounds.partition_point(|bound| is_within(bound, high));
        let inside = until.saturating_sub(before);
        let is_outside = until == 0 || before == self.bounds.len();
        // A value that is the bound of several parts fills them.
        if is_point && inside < 2 {
            let average = 1.0 / self.distinct.max(1) as f64;
            return average.min(if is_outside { SHARE_UNSEEN } else { 1.0 / buckets });
        }
        if is_point {
            // The value also fills half of the parts beside its bounds, on average.
            let ends = f64::from(u8::from(before > 0)) + f64::from(u8::from(until < self.bounds.len()));
            return (inside as f64 - 1.0 + ends / 2.0) / buckets;
        }
        if is_outside {
            return SHARE_UNSEEN;
        }
        let start = self.place(before, low, 0);
        let end = self.place(until, high, u8::MAX);
        ((end - start) / buckets).max(SHARE_UNSEEN)
    }

    /// The place of a key among the bounds, as a number of parts, if so many bounds are below it.
    /// Within a part, keys are assumed to be at equal distances. `fill` stands for the bytes behind
    /// the key.
    fn place(&self, below: usize, key: &[u8], fill: u8) -> f64 {
        let (Some(before), Some(next)) =
            (below.checked_sub(1).map(|at| &self.bounds[at]), self.bounds.get(below))
        else {
            return below.saturating_sub(usize::from(below == self.bounds.len())) as f64;
        };
        let shared = shared_len(before, next);
        let number = |key: &[u8], fill: u8| {
            let mut bytes = [fill; 8];
            let rest = key.get(shared..).unwrap_or_default();
            let len = rest.len().min(8);
            bytes[..len].copy_from_slice(&rest[..len]);
            u64::from_be_bytes(bytes) as f64
        };
        let (first, last) = (number(before, 0), number(next, 0));
        let part = (number(key, fill) - first) / (last - first);
        (below - 1) as f64 + if part.is_finite() { part.clamp(0.0, 1.0) } else { 0.5 }
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![FORMAT];
        push_number(self.distinct.min(u64::from(u32::MAX)), &mut bytes);
        push_number(u64::from(self.repeats), &mut bytes);
        let mut before: &[u8] = &[];
        for bound in &self.bounds {
            let shared = shared_len(before, bound);
            push_number(shared as u64, &mut bytes);
            push_number((bound.len() - shared) as u64, &mut bytes);
            bytes.extend(&bound[shared..]);
            before = bound;
        }
        bytes
    }

    /// Decodes a distribution. Memory: at most [`BUCKETS_MAX`] keys.
    ///
    /// # Errors
    /// `Corrupt`; `Unsupported` for a format newer than this build's.
    pub fn decode(bytes: &[u8]) -> Result<Distribution> {
        let corrupt = |fault: &str| {
            Error::corrupt(format!("the distribution of a column's values is damaged: {fault}"))
        };
        let mut reader = Reader(bytes);
        let [format] = reader.word().map_err(|_| corrupt("it is empty"))?;
        if format != FORMAT {
            let message =
                "the format of a distribution of values is newer than this build; use a newer build";
            return Err(Error::unsupported(message).with("format", format));
        }
        let damaged = |_| corrupt("a number or a bound is truncated");
        let distinct = u64::from(reader.number().map_err(damaged)?);
        let repeats = reader.number().map_err(damaged)?;
        if repeats > UNIT {
            return Err(corrupt("a share is larger than all rows"));
        }
        let mut bounds: Vec<Vec<u8>> = Vec::new();
        while !reader.is_empty() {
            let shared = reader.number().map_err(damaged)? as usize;
            let len = reader.number().map_err(damaged)? as usize;
            let before = bounds.last().map_or(&[][..], Vec::as_slice);
            if bounds.len() > BUCKETS_MAX
                || shared > before.len()
                || shared.saturating_add(len) > KEY_BYTES_MAX
            {
                return Err(corrupt("it has too many bounds, or a bound is too long"));
            }
            let bound = [&before[..shared], reader.bytes(len).map_err(damaged)?].concat();
            if bound.as_slice() < before {
                return Err(corrupt("its bounds are not in order"));
            }
            bounds.push(bound);
        }
        Ok(Distribution { distinct, repeats, bounds })
    }
}

/// All rows of a small object, or one row of each of [`SAMPLE_ROWS`] parts of the object. The rows
/// look random, so that no pattern in the order of the rows hides values, and are the same in each
/// run.
fn sampled_rows(rows: usize) -> UInt32Array {
    let start = |part: usize| (part as u128 * rows as u128 / SAMPLE_ROWS as u128) as u64;
    let row = |part: usize| {
        let (first, end) = (start(part), start(part + 1));
        (first + mix(part as u64) % (end - first).max(1)) as u32
    };
    match rows <= SAMPLE_ROWS {
        true => UInt32Array::from_iter_values(0..rows as u32),
        false => UInt32Array::from_iter_values((0..SAMPLE_ROWS).map(row)),
    }
}

/// The finalizer of `SplitMix64`.
fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Duj1: `n d / (n - f1 + f1 n / N)` for n sampled of N rows with d values, of which f1 occur once.
fn distinct(sorted: &[&[u8]], rows: usize) -> u64 {
    let groups = sorted.chunk_by(|one, next| one == next);
    let (values, once) =
        groups.fold((0_u64, 0_u64), |(values, once), group| (values + 1, once + u64::from(group.len() == 1)));
    let (sampled, values, once) = (sorted.len() as f64, values as f64, once as f64);
    if rows <= sorted.len() {
        return values as u64;
    }
    (sampled * values / (sampled - once + once * sampled / rows as f64)).min(rows as f64).round() as u64
}

/// The bounds of parts of equal size.
fn bounds(sorted: &[&[u8]], buckets: usize) -> Vec<Vec<u8>> {
    if sorted.is_empty() {
        return Vec::new();
    }
    let place = |bucket: usize| (bucket * sorted.len() / buckets).saturating_sub(usize::from(bucket > 0));
    let whole: Vec<&[u8]> = (0..=buckets).map(|bucket| sorted[place(bucket)]).collect();
    let cut = |at: usize| {
        let (before, bound, next) = (at.checked_sub(1).map(|at| whole[at]), whole[at], whole.get(at + 1));
        // A bound of several parts must equal its value and no other.
        if before == Some(bound) || next == Some(&bound) {
            return bound.to_vec();
        }
        let others = before.into_iter().chain(next.copied());
        let shared = others.map(|other| shared_len(other, bound)).max().unwrap_or(0);
        bound[..bound.len().min(shared + 1 + EXTRA_BYTES)].to_vec()
    };
    (0..whole.len()).map(cut).collect()
}

fn shared_len(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
#[path = "distribution_tests.rs"]
mod tests;
