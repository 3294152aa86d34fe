//! Rows like those of TPC-H's lineitem, with features of real data in addition: nulls, NaN,
//! dictionaries, time zones.

use arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, Float64Array, Int64Array,
    RecordBatch, StringArray, TimestampMicrosecondArray,
};
use arrow::datatypes::Int32Type;
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use std::sync::Arc;

/// Pseudo-random numbers, the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    /// Returns None in one of `one_in` cases.
    fn some<T>(&mut self, one_in: u64, value: T) -> Option<T> {
        (self.below(one_in) > 0).then_some(value)
    }
}

const WORDS: [&str; 12] = [
    "furiously",
    "slyly",
    "regular",
    "final",
    "ironic",
    "deposits",
    "foxes",
    "pinto",
    "beans",
    "größer",
    "日本",
    "",
];
const MODES: [&str; 7] = ["AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK"];

/// 1992-01-01, in days and in microseconds since 1970.
const FIRST_DAY: i32 = 8_035;
const FIRST_US: i64 = 8_035 * 86_400_000_000;

/// Rows with one column of each kind.
pub fn lineitem(rows: usize) -> RecordBatch {
    let n = &mut Numbers(7);
    let money = |n: &mut Numbers, step: i128, end: u64| -> ArrayRef {
        let values: Decimal128Array = (0..rows)
            .map(|_| {
                let value = i128::from(n.below(end)) * step;
                n.some(50, value)
            })
            .collect();
        Arc::new(values.with_precision_and_scale(15, 2).unwrap())
    };
    let words = |n: &mut Numbers| {
        let words: Vec<&str> = (0..1 + n.below(4)).map(|_| WORDS[n.below(12) as usize]).collect();
        n.some(20, words.join(" "))
    };
    let mode = |n: &mut Numbers| {
        let mode = MODES[n.below(7) as usize];
        n.some(25, mode)
    };
    let ratio = |n: &mut Numbers| match n.below(40) {
        0 => Some(f64::NAN),
        1 => Some(-0.0),
        2 => Some(f64::INFINITY),
        3 => None,
        _ => Some(n.below(1_000_000) as f64 / 1_000_000.0),
    };
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from_iter_values(0..rows as i64))),
        (
            "part",
            Arc::new(
                (0..rows)
                    .map(|_| {
                        let part = n.below(5_000) as i64;
                        n.some(30, part)
                    })
                    .collect::<Int64Array>(),
            ),
        ),
        ("quantity", money(n, 100, 50)),
        ("price", money(n, 1, 10_000_000)),
        ("discount", money(n, 1, 11)),
        ("ratio", Arc::new((0..rows).map(|_| ratio(n)).collect::<Float64Array>())),
        (
            "flag",
            Arc::new(StringArray::from_iter_values((0..rows).map(|_| ["A", "N", "R"][n.below(3) as usize]))),
        ),
        ("mode", Arc::new((0..rows).map(|_| mode(n)).collect::<StringArray>())),
        (
            "tag",
            Arc::new(
                (0..rows).map(|_| Some(MODES[n.below(7) as usize])).collect::<DictionaryArray<Int32Type>>(),
            ),
        ),
        (
            "returned",
            Arc::new((0..rows).map(|_| n.some(10, n.0.is_multiple_of(3))).collect::<BooleanArray>()),
        ),
        (
            "ship",
            Arc::new(Date32Array::from_iter_values((0..rows).map(|_| FIRST_DAY + n.below(2_520) as i32))),
        ),
        (
            "At",
            Arc::new(
                TimestampMicrosecondArray::from_iter_values(
                    (0..rows).map(|row| FIRST_US + row as i64 * 60_000_000),
                )
                .with_timezone("Europe/Berlin"),
            ),
        ),
        ("comment", Arc::new((0..rows).map(|_| words(n)).collect::<StringArray>())),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true)))
        .unwrap()
}

/// Writes a batch as a Parquet file with several row groups and pages.
pub fn parquet(batch: &RecordBatch, compression: Compression) -> Bytes {
    let properties = WriterProperties::builder()
        .set_compression(compression)
        .set_max_row_group_row_count(Some(5_000))
        .set_data_page_row_count_limit(1_000)
        .build();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
    writer.write(batch).unwrap();
    Bytes::from(writer.into_inner().unwrap())
}
