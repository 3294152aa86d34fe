//! Partitioning: assigns rows to data objects.

use crate::error;
use crate::schema::TableSchema;
use crate::wire;
use arrow::array::{Array, ArrayRef, AsArray, Int64Array, PrimitiveArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{ArrowPrimitiveType, DataType, Float64Type, Int64Type};
use benthic_core::{Error, ErrorKind, Result};
use xxhash_rust::xxh3::xxh3_64;

/// Limit of the buckets of a hash partitioning and of the bounds of a range partitioning.
pub const PARTITIONS_MAX: usize = 10_000;

/// How a table assigns rows to data objects. Every data object holds rows of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Partitioning {
    /// No partitioning: rows in arrival order.
    Rows,
    /// By the jump consistent hash of a column's value; nulls are in bucket 0.
    Hash {
        /// The column's id.
        field: u32,
        buckets: u32,
    },
    /// By ranges of a column's value; nulls are in no range.
    Range {
        /// The column's id.
        field: u32,
        ranges: Ranges,
    },
}

/// The ranges of a range partitioning. Days, months and years are numbered from 1970, other ranges
/// from the first bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ranges {
    /// Days, in UTC.
    Day,
    Month,
    Year,
    /// A value's partition number is the number of bounds that are at most the value. The bounds
    /// are strictly ascending: integers for integer columns, days since 1970 for dates and
    /// timestamps.
    Bounds(Vec<i64>),
}

impl Partitioning {
    pub fn field(&self) -> Option<u32> {
        match self {
            Partitioning::Rows => None,
            Partitioning::Hash { field, .. } | Partitioning::Range { field, .. } => Some(*field),
        }
    }

    /// Checks the partitioning against a schema.
    ///
    /// # Errors
    /// `InvalidArgument` for a missing column, a type that does not support this partitioning, and
    /// invalid numbers.
    pub fn check(&self, schema: &TableSchema) -> Result<()> {
        let invalid = |message: &str| Error::invalid_argument(message);
        self.check_numbers()?;
        let Some(field) = self.field() else { return Ok(()) };
        let column =
            schema.by_id(field).ok_or_else(|| invalid("the table has no such column to partition by"))?;
        let data_type = &column.data_type;
        let fits = match self {
            Partitioning::Rows => true,
            Partitioning::Hash { .. } => hashed_as(data_type).is_some(),
            Partitioning::Range { ranges: Ranges::Bounds(_), .. } => {
                data_type.is_integer() || is_day(data_type)
            }
            Partitioning::Range { .. } => is_day(data_type),
        };
        match fits {
            true => Ok(()),
            false => Err(invalid("a column of this type does not support this kind of partitioning")
                .with("column", &column.name)
                .with("type", data_type)),
        }
    }

    fn check_numbers(&self) -> Result<()> {
        let holds = match self {
            Partitioning::Rows => true,
            Partitioning::Hash { buckets, .. } => (1..=PARTITIONS_MAX).contains(&(*buckets as usize)),
            Partitioning::Range { ranges: Ranges::Bounds(bounds), .. } => {
                (1..=PARTITIONS_MAX).contains(&bounds.len())
                    && bounds.windows(2).all(|pair| pair[0] < pair[1])
            }
            Partitioning::Range { .. } => true,
        };
        match holds {
            true => Ok(()),
            false => {
                let message =
                    "the number of buckets or bounds is out of range, or the bounds are not ascending";
                Err(Error::invalid_argument(message).with("partitions_max", PARTITIONS_MAX))
            }
        }
    }

    /// The partition of each row, given the partitioning column with its type in the schema. Null
    /// is also a partition.
    pub fn of(&self, column: &ArrayRef) -> Result<Int64Array> {
        match self {
            Partitioning::Rows => Ok(Int64Array::new_null(column.len())),
            Partitioning::Hash { buckets, .. } => hash(column, *buckets),
            Partitioning::Range { ranges, .. } => range(column, ranges),
        }
    }

    pub(crate) fn encode(&self) -> wire::Partitioning {
        let empty = wire::Partitioning { field: self.field().unwrap_or(0), ..wire::Partitioning::default() };
        match self {
            Partitioning::Rows => empty,
            Partitioning::Hash { buckets, .. } => wire::Partitioning { kind: 1, buckets: *buckets, ..empty },
            Partitioning::Range { ranges, .. } => match ranges {
                Ranges::Day => wire::Partitioning { kind: 2, ..empty },
                Ranges::Month => wire::Partitioning { kind: 3, ..empty },
                Ranges::Year => wire::Partitioning { kind: 4, ..empty },
                Ranges::Bounds(bounds) => wire::Partitioning { kind: 5, bounds: bounds.clone(), ..empty },
            },
        }
    }

    pub(crate) fn decode(message: wire::Partitioning) -> Result<Partitioning> {
        let field = message.field;
        let partitioning = match message.kind {
            0 => Partitioning::Rows,
            1 => Partitioning::Hash { field, buckets: message.buckets },
            2 => Partitioning::Range { field, ranges: Ranges::Day },
            3 => Partitioning::Range { field, ranges: Ranges::Month },
            4 => Partitioning::Range { field, ranges: Ranges::Year },
            5 => Partitioning::Range { field, ranges: Ranges::Bounds(message.bounds) },
            _ => {
                return Err(Error::corrupt("the table's head is damaged: its partitioning is unknown"));
            }
        };
        partitioning.check_numbers().map_err(|error| error.with_kind(ErrorKind::Corrupt))?;
        Ok(partitioning)
    }
}

/// The bucket of a key among `buckets`, at least 1 (Lamping and Veach, "A Fast, Minimal Memory,
/// Consistent Hash Algorithm", 2014). When a bucket is added, keys move only to the new one.
pub fn jump_hash(mut key: u64, buckets: u32) -> u32 {
    let (mut bucket, mut next) = (0, 0);
    while next < i64::from(buckets) {
        bucket = next;
        key = key.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(1);
        next = ((bucket + 1) as f64 * ((1_u64 << 31) as f64 / ((key >> 33) + 1) as f64)) as i64;
    }
    bucket as u32
}

/// The type whose bytes are hashed, so that a value keeps its bucket when its column is widened.
fn hashed_as(data_type: &DataType) -> Option<DataType> {
    Some(match data_type {
        DataType::Boolean | DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => {
            DataType::Int64
        }
        DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::UInt64 => DataType::UInt64,
        DataType::Float16 | DataType::Float32 | DataType::Float64 => DataType::Float64,
        DataType::Date32 | DataType::Time32(_) => DataType::Int32,
        DataType::Time64(_) | DataType::Timestamp(_, _) => DataType::Int64,
        DataType::Decimal128(_, _) | DataType::Decimal256(_, _) => data_type.clone(),
        DataType::Utf8 | DataType::Binary => DataType::Binary,
        DataType::FixedSizeBinary(_) => DataType::Binary,
        _ => return None,
    })
}

fn hash(column: &ArrayRef, buckets: u32) -> Result<Int64Array> {
    let bucket = |bytes: &[u8]| i64::from(jump_hash(xxh3_64(bytes), buckets));
    let target = hashed_as(column.data_type());
    let column = cast(column, target.as_ref().unwrap_or(column.data_type()))?;
    macro_rules! numbers {
        ($type:ident) => {
            map(column.as_primitive::<arrow::datatypes::$type>(), |value| bucket(&value.to_le_bytes()))
        };
    }
    Ok(match column.data_type() {
        DataType::Int32 => numbers!(Int32Type),
        DataType::Int64 => numbers!(Int64Type),
        DataType::UInt64 => numbers!(UInt64Type),
        DataType::Decimal128(_, _) => numbers!(Decimal128Type),
        DataType::Decimal256(_, _) => numbers!(Decimal256Type),
        DataType::Float64 => map(column.as_primitive::<Float64Type>(), |value| {
            // Equal values must share a bucket: -0.0 with 0.0, and all NaN.
            let value = if value == 0.0 {
                0.0
            } else if value.is_nan() {
                f64::NAN
            } else {
                value
            };
            bucket(&value.to_bits().to_le_bytes())
        }),
        DataType::Binary => {
            column.as_binary::<i32>().iter().map(|value| Some(value.map_or(0, bucket))).collect()
        }
        other => return Err(Error::internal("no hash for a type").with("type", other)),
    })
}

fn map<T: ArrowPrimitiveType>(column: &PrimitiveArray<T>, f: impl Fn(T::Native) -> i64) -> Int64Array {
    column.iter().map(|value| Some(value.map_or(0, &f))).collect()
}

fn is_day(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Date32 | DataType::Timestamp(_, _))
}

fn range(column: &ArrayRef, ranges: &Ranges) -> Result<Int64Array> {
    let values = match column.data_type() {
        DataType::Date32 => cast(&cast(column, &DataType::Int32)?, &DataType::Int64)?,
        DataType::Timestamp(unit, _) => {
            let per_day = 86_400
                * match unit {
                    arrow::datatypes::TimeUnit::Second => 1,
                    arrow::datatypes::TimeUnit::Millisecond => 1_000,
                    arrow::datatypes::TimeUnit::Microsecond => 1_000_000,
                    arrow::datatypes::TimeUnit::Nanosecond => 1_000_000_000,
                };
            let ticks = cast(column, &DataType::Int64)?;
            std::sync::Arc::new(
                ticks.as_primitive::<Int64Type>().unary::<_, Int64Type>(|tick: i64| tick.div_euclid(per_day)),
            )
        }
        // A value beyond the range of i64 is beyond all bounds; clamp it.
        DataType::UInt64 => {
            let values = column.as_primitive::<arrow::datatypes::UInt64Type>();
            std::sync::Arc::new(
                values.unary::<_, Int64Type>(|value| i64::try_from(value).unwrap_or(i64::MAX)),
            )
        }
        _ => cast(column, &DataType::Int64)?,
    };
    let values = values.as_primitive::<Int64Type>();
    Ok(match ranges {
        Ranges::Day => values.clone(),
        Ranges::Month => values.unary(month_of),
        Ranges::Year => values.unary(|day| month_of(day).div_euclid(12)),
        Ranges::Bounds(bounds) => {
            values.unary(|value| bounds.partition_point(|bound| *bound <= value) as i64)
        }
    })
}

/// Months since January 1970 of a number of days since 1970, in the proleptic Gregorian calendar
/// (the civil-from-days algorithm of Howard Hinnant's date library).
fn month_of(day: i64) -> i64 {
    let day = day.saturating_add(719_468);
    let era = day.div_euclid(146_097);
    let of_era = day.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // Months count from March.
    let month = (5 * of_year + 2) / 153;
    (era * 400 + year_of_era - 1970) * 12 + month + 2
}

fn cast(column: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(column, to, &strict)
        .map_err(|source| error::arrow("a partition cannot be computed", source))
}

#[cfg(test)]
#[path = "partition_tests.rs"]
mod tests;
