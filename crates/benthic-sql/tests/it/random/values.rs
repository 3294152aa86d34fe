//! Columns of random values.

use super::noise::Noise;
use arrow::array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int32Array,
    ListArray, StringArray, StructArray, TimestampMicrosecondArray,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Int32Type, TimeUnit};
use std::sync::Arc;

/// The kind of a column, which determines its operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Integer,
    Float,
    Decimal,
    Date,
    Time,
    Text,
    Binary,
    Boolean,
    Nested,
}

/// A column of a table.
#[derive(Clone, Debug)]
pub struct Column {
    pub name: String,
    pub kind: Kind,
    pub data_type: DataType,
    /// Whether numbers are so small that sums are exact in any order.
    pub is_tame: bool,
    /// Whether both zeros occur: they are equal, so either may come first.
    pub has_both_zeros: bool,
    spread: Spread,
    nulls_percent: usize,
    /// Whether rows are passed as a dictionary.
    pub from_dictionary: bool,
}

#[derive(Clone, Copy, Debug)]
enum Spread {
    /// Few distinct values, which repeat.
    Few,
    /// Values from the whole range.
    Wide,
    /// Values grow from object to object, so that statistics can exclude objects.
    Rising,
}

/// Words with common beginnings and endings, and with similar order.
const WORDS: [&str; 16] = [
    "",
    "a",
    "A",
    "ab",
    "abc",
    "b",
    "zz",
    "größer",
    "日本",
    "日本語",
    "🐟",
    "e\u{301}",
    "100%",
    "a_b",
    "it's",
    "\u{10ffff}",
];
/// About the years 1700 to 2250, in days since 1970: the range of nanoseconds in 64 bits.
const DAYS: std::ops::Range<i64> = -98_000..102_000;
const DAY_US: i64 = 86_400_000_000;

const INTEGERS: [DataType; 8] = [
    DataType::Int8,
    DataType::Int16,
    DataType::Int32,
    DataType::Int64,
    DataType::UInt8,
    DataType::UInt16,
    DataType::UInt32,
    DataType::UInt64,
];

impl Column {
    pub fn random(n: &mut Noise, name: String) -> Column {
        let zones = [None, Some("UTC"), Some("Europe/Berlin"), Some("+05:30")];
        let unit = *n.pick(&[TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond]);
        let (kind, data_type) = match n.below(20) {
            0..4 => (Kind::Integer, n.pick(&INTEGERS).clone()),
            4..8 => (Kind::Float, n.pick(&[DataType::Float64, DataType::Float32]).clone()),
            8..10 => {
                (Kind::Decimal, n.pick(&[DataType::Decimal128(9, 2), DataType::Decimal128(20, 6)]).clone())
            }
            10..12 => (Kind::Date, DataType::Date32),
            12..14 => (Kind::Time, DataType::Timestamp(unit, n.pick(&zones).map(Into::into))),
            14..17 => (Kind::Text, DataType::Utf8),
            17 => (Kind::Binary, DataType::Binary),
            18 => (Kind::Boolean, DataType::Boolean),
            _ => (Kind::Nested, n.pick(&[list_type(), struct_type()]).clone()),
        };
        Column::of(n, name, kind, data_type)
    }

    /// A key of small integers with many duplicates.
    pub fn key(n: &mut Noise, name: String) -> Column {
        let data_type = n.pick(&INTEGERS[2..4]).clone();
        let nulls_percent = *n.pick(&[0, 0, 10]);
        let (is_tame, has_both_zeros, from_dictionary) = (true, false, false);
        let spread = *n.pick(&[Spread::Few, Spread::Rising]);
        Column {
            name,
            kind: Kind::Integer,
            data_type,
            is_tame,
            has_both_zeros,
            spread,
            nulls_percent,
            from_dictionary,
        }
    }

    fn of(n: &mut Noise, name: String, kind: Kind, data_type: DataType) -> Column {
        Column {
            name,
            kind,
            data_type,
            is_tame: n.percent(70),
            has_both_zeros: kind == Kind::Float && n.percent(50),
            spread: *n.pick(&[Spread::Few, Spread::Wide, Spread::Rising]),
            nulls_percent: *n.pick(&[0, 0, 5, 30, 95]),
            from_dictionary: kind == Kind::Text && n.percent(30),
        }
    }

    /// A type to which the column can be widened.
    pub fn wider(&self) -> Option<DataType> {
        Some(match self.data_type {
            DataType::Int8 => DataType::Int16,
            DataType::Int16 => DataType::Int64,
            DataType::Int32 => DataType::Int64,
            DataType::UInt8 => DataType::UInt32,
            DataType::UInt16 => DataType::UInt32,
            DataType::UInt32 => DataType::UInt64,
            DataType::Float32 => DataType::Float64,
            DataType::Decimal128(9, 2) => DataType::Decimal128(16, 2),
            _ => return None,
        })
    }

    /// Whether queries can order by the column.
    pub fn has_order(&self) -> bool {
        self.kind != Kind::Nested
    }

    /// The values of the object with number `object`.
    pub fn values(&self, n: &mut Noise, rows: usize, object: usize) -> ArrayRef {
        let nulls_percent = if n.percent(8) { 100 } else { self.nulls_percent };
        let mut column = Values { n, column: self, rows, object, nulls_percent };
        column.array()
    }
}

fn list_type() -> DataType {
    DataType::List(Arc::new(Field::new("element", DataType::Int32, true)))
}

fn struct_type() -> DataType {
    let fields = vec![Field::new("word", DataType::Utf8, true), Field::new("n", DataType::Int32, true)];
    DataType::Struct(fields.into())
}

struct Values<'a> {
    n: &'a mut Noise,
    column: &'a Column,
    rows: usize,
    object: usize,
    nulls_percent: usize,
}

impl Values<'_> {
    fn each<T>(&mut self, value: impl Fn(&mut Self) -> T) -> Vec<Option<T>> {
        (0..self.rows)
            .map(|_| {
                let is_null = self.n.percent(self.nulls_percent);
                (!is_null).then(|| value(self))
            })
            .collect()
    }

    /// A number in this range, distributed as the column demands.
    fn number(&mut self, range: std::ops::Range<i64>) -> i64 {
        let middle = range.start.midpoint(range.end);
        match self.column.spread {
            Spread::Few => middle + self.n.in_range(-3..9).min(range.end - 1 - middle),
            Spread::Wide => self.n.in_range(range),
            Spread::Rising => {
                let step = (range.end / 16 - range.start / 16).max(1);
                let start = range.start + step * (self.object as i64 % 16);
                self.n.in_range(start..range.end.min(start + step + 2))
            }
        }
    }

    fn array(&mut self) -> ArrayRef {
        match &self.column.data_type {
            DataType::Boolean => Arc::new(BooleanArray::from(self.each(|values| values.n.percent(50)))),
            DataType::Date32 => Arc::new(Date32Array::from(self.each(|values| values.number(DAYS) as i32))),
            DataType::Timestamp(unit, zone) => {
                let times = self.each(|values| {
                    let day = values.number(DAYS);
                    let second = *values.n.pick(&[0, 0, 1, 3_600, 86_399]);
                    day * DAY_US + second * 1_000_000 + *values.n.pick(&[0, 0, 500_000, 999_000])
                });
                let times = TimestampMicrosecondArray::from(times);
                let times = cast(&times, &DataType::Timestamp(*unit, None)).unwrap();
                match zone {
                    // The zone affects only the display; the numbers are the same.
                    Some(_) => {
                        let numbers = cast(&times, &DataType::Int64).unwrap();
                        cast(&numbers, &self.column.data_type).unwrap()
                    }
                    None => times,
                }
            }
            DataType::Utf8 => {
                let texts = StringArray::from(self.each(Values::text));
                let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
                match self.column.from_dictionary {
                    true => cast(&texts, &dictionary).unwrap(),
                    false => Arc::new(texts),
                }
            }
            DataType::Binary => {
                let bytes = self.each(|values| {
                    let len = values.n.below(4);
                    (0..len).map(|_| *values.n.pick(&[0, 1, 0x61, 0x7f, 0x80, 0xff])).collect::<Vec<u8>>()
                });
                Arc::new(BinaryArray::from_iter(bytes))
            }
            DataType::List(_) => {
                let lists = self.each(|values| {
                    let len = values.n.below(4);
                    (0..len)
                        .map(|_| values.n.percent(80).then(|| values.n.below(9) as i32))
                        .collect::<Vec<_>>()
                });
                let lists = ListArray::from_iter_primitive::<Int32Type, _, _>(lists);
                cast(&lists, &list_type()).unwrap()
            }
            DataType::Struct(fields) => {
                let valid: Vec<bool> = self.each(|_| ()).iter().map(Option::is_some).collect();
                // The fields of a null struct are null, as in a file.
                let words: StringArray = self
                    .each(Values::text)
                    .into_iter()
                    .zip(&valid)
                    .map(|(word, valid)| word.filter(|_| *valid))
                    .collect();
                let numbers: Int32Array =
                    valid.iter().map(|valid| valid.then(|| self.n.below(9) as i32)).collect();
                let parts: Vec<ArrayRef> = vec![Arc::new(words), Arc::new(numbers)];
                Arc::new(StructArray::new(fields.clone(), parts, Some(valid.into())))
            }
            DataType::Float32 | DataType::Float64 => {
                let floats = Float64Array::from(self.each(Values::float));
                cast(&floats, &self.column.data_type).unwrap()
            }
            DataType::Decimal128(precision, scale) => {
                let decimals =
                    Decimal128Array::from(self.each(|values| i128::from(values.number(-90_000..90_000))));
                Arc::new(decimals.with_precision_and_scale(*precision, *scale).unwrap())
            }
            _ => self.integers(),
        }
    }

    fn integers(&mut self) -> ArrayRef {
        let (least, greatest): (i128, i128) = match self.column.data_type {
            DataType::Int8 => (i8::MIN.into(), i8::MAX.into()),
            DataType::Int16 => (i16::MIN.into(), i16::MAX.into()),
            DataType::Int32 => (i32::MIN.into(), i32::MAX.into()),
            DataType::UInt8 => (0, u8::MAX.into()),
            DataType::UInt16 => (0, u16::MAX.into()),
            DataType::UInt32 => (0, u32::MAX.into()),
            DataType::UInt64 => (0, u64::MAX.into()),
            _ => (i64::MIN.into(), i64::MAX.into()),
        };
        let is_tame = self.column.is_tame;
        let numbers = self.each(|values| match values.n.below(20) {
            0 if !is_tame => least,
            1 if !is_tame => greatest,
            _ => {
                let start = if least == 0 { 0 } else { (-1_000).max(least as i64) };
                i128::from(values.number(start..1_000.min(greatest as i64)))
            }
        });
        let numbers = Decimal128Array::from(numbers).with_precision_and_scale(38, 0).unwrap();
        cast(&numbers, &self.column.data_type).unwrap()
    }

    /// Multiples of 1/8, whose sums are exact, and NaN, infinities and zeros. If the column need
    /// not be tame, also numbers that make sums inexact.
    fn float(&mut self) -> f64 {
        match self.n.below(40) {
            0 => f64::NAN,
            1 if self.column.has_both_zeros => -0.0,
            1 | 2 => 0.0,
            3 if self.n.percent(20) => f64::INFINITY,
            4 if self.n.percent(20) => f64::NEG_INFINITY,
            5..8 if !self.column.is_tame => *self.n.pick(&[3e38, -3e38, 1.5e-38, 0.1]),
            _ => self.number(-800_000..800_000) as f64 / 8.0,
        }
    }

    fn text(&mut self) -> String {
        match self.column.spread {
            Spread::Few => (*self.n.pick(&WORDS)).to_owned(),
            // Longer than the prefix that statistics keep.
            Spread::Wide if self.n.percent(10) => {
                format!("{}{}{}", "x".repeat(62), self.n.pick(&WORDS), self.n.pick(&WORDS))
            }
            Spread::Wide => (0..self.n.below(4)).map(|_| *self.n.pick(&WORDS)).collect(),
            Spread::Rising => format!("{:02} {}", self.object, self.n.pick(&WORDS)),
        }
    }
}

/// Whether a value is not null.
pub fn valid(column: &ArrayRef, row: usize) -> bool {
    column.logical_nulls().is_none_or(|nulls| nulls.is_valid(row))
}
