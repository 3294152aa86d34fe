//! Bloom filters in objects: what they save, and those that misrepresent themselves.

use crate::common::{self, Numbers, Object};
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use benthic_fragment::fragment::{Envelope, Reply, Status, encode, run};
use bytes::Bytes;
use datafusion_common::ScalarValue;
use datafusion_expr::Operator;
use datafusion_physical_expr::expressions::{InListExpr, col, lit};
use parquet::arrow::ArrowWriter;
use parquet::file::metadata::{ParquetMetaDataReader, ParquetMetaDataWriter};
use parquet::file::properties::{BloomFilterPosition, WriterProperties};
use std::sync::Arc;

const ROWS: usize = 40_000;
const ROW_GROUP_ROWS: usize = 5_000;
/// A number that is between the bounds of every row group, and in none.
const MISSING: u64 = 1 << 39;

fn schema() -> SchemaRef {
    let field = |name: &str, data_type| Field::new(name, data_type, false);
    Arc::new(Schema::new(vec![field("email", DataType::Utf8View), field("n", DataType::Int64)]))
}

/// An object with values in no order, so that the bounds of a row group exclude none.
fn object(has_filters: bool, position: BloomFilterPosition) -> Bytes {
    let mut numbers = Numbers(5);
    let order: Vec<u64> = (0..ROWS).map(|_| numbers.below(1 << 40)).collect();
    let emails: ArrayRef = Arc::new(StringArray::from_iter_values(
        order.iter().map(|number| format!("{number:012}@example.org")),
    ));
    let longs: ArrayRef = Arc::new(Int64Array::from_iter_values(order.iter().map(|number| *number as i64)));
    let batch = RecordBatch::try_from_iter([("email", emails), ("n", longs)]).unwrap();
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .set_bloom_filter_enabled(has_filters)
        .set_bloom_filter_position(position)
        .build();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap().into()
}

fn email(number: u64) -> ScalarValue {
    ScalarValue::Utf8View(Some(format!("{number:012}@example.org")))
}

fn point(column: &str, value: ScalarValue) -> Envelope {
    let key = |schema: &Schema| common::op(col(column, schema).unwrap(), Operator::Eq, lit(value.clone()));
    let scan = common::scan_of(schema(), &["email", "n"], Some(key(&schema())));
    let of_scan = key(&scan.schema());
    Envelope::new(encode(&common::filter(scan, of_scan)).unwrap())
}

fn answer(object: &Bytes, envelope: &Envelope) -> Reply {
    run(&mut Object(object.clone()), &envelope.to_bytes()).unwrap()
}

#[test]
fn a_filter_saves_the_row_groups_without_the_value() {
    let plain = object(false, BloomFilterPosition::End);
    let mut numbers = Numbers(5);
    let some = (0..ROWS / 2).map(|_| numbers.below(1 << 40)).last().unwrap();
    for position in [BloomFilterPosition::End, BloomFilterPosition::AfterRowGroup] {
        let filtered = object(true, position);
        for (column, found, missing) in [
            ("email", email(some), email(MISSING)),
            ("n", ScalarValue::Int64(Some(some as i64)), ScalarValue::Int64(Some(MISSING as i64))),
        ] {
            let (with, without) = (point(column, found.clone()), point(column, missing));
            let reply = answer(&filtered, &with);
            assert_eq!((reply.status, reply.rows), (Status::Ok.into(), 1), "{column}: {}", reply.message);
            let all = answer(&plain, &with);
            assert_eq!(all.rows, 1);
            assert!(
                reply.read_bytes * 3 < all.read_bytes,
                "{column}: {} of {}",
                reply.read_bytes,
                all.read_bytes
            );
            let reply = answer(&filtered, &without);
            assert_eq!((reply.status, reply.rows), (Status::Ok.into(), 0), "{column}: {}", reply.message);
            assert!(
                reply.read_bytes * 4 < all.read_bytes,
                "{column}: {} of {}",
                reply.read_bytes,
                all.read_bytes
            );
        }
    }
}

/// The places of the filters in an object.
fn filters(object: &Bytes) -> Vec<(usize, usize)> {
    let metadata = ParquetMetaDataReader::new().parse_and_finish(object).unwrap();
    let chunks = metadata.row_groups().iter().flat_map(|group| group.columns());
    let place = |offset: i64, len: i32| (offset as usize, len as usize);
    chunks
        .map(|chunk| place(chunk.bloom_filter_offset().unwrap(), chunk.bloom_filter_length().unwrap()))
        .collect()
}

#[test]
fn a_damaged_filter_is_ignored_or_refused() {
    let whole = object(true, BloomFilterPosition::End);
    let envelope = point("n", ScalarValue::Int64(Some(MISSING as i64)));
    let places = filters(&whole);
    for byte in 0..20 {
        for value in [0x00, 0x01, 0x15, 0x1c, 0x7f, 0x80, 0xff] {
            let mut damaged = whole.to_vec();
            for (offset, _) in &places {
                damaged[offset + byte] = value;
            }
            let reply = answer(&damaged.into(), &envelope);
            assert_eq!(
                (reply.status, reply.rows),
                (Status::Ok.into(), 0),
                "{byte} {value}: {}",
                reply.message
            );
        }
    }
}

/// A filter without blocks would be read out of its bounds, and one of another length would be cut
/// short.
#[test]
fn a_filter_of_another_length_is_ignored() {
    let whole = object(true, BloomFilterPosition::End);
    let envelope = point("n", ScalarValue::Int64(Some(MISSING as i64)));
    let all = answer(&object(false, BloomFilterPosition::End), &envelope).read_bytes;
    for len_bytes in [0_u8, 1, 32, 64] {
        let mut damaged = whole.to_vec();
        for (offset, _) in filters(&whole) {
            // Field 1 of the header, an integer in zigzag form of at most two bytes here.
            assert_eq!(damaged[offset], 0x15);
            let header = if len_bytes < 64 { [len_bytes * 2, 0x1c] } else { [(len_bytes * 2) | 0x80, 0x01] };
            damaged[offset + 1..offset + 3].copy_from_slice(&header);
        }
        let reply = answer(&damaged.into(), &envelope);
        assert_eq!((reply.status, reply.rows), (Status::Ok.into(), 0), "{len_bytes}: {}", reply.message);
        assert!(reply.read_bytes + 100_000 > all, "no row group is left out: {} of {all}", reply.read_bytes);
    }
}

/// The scan looks up each value of a list in each filter, so it reads few filters for a long list.
#[test]
fn long_lists_are_looked_up_in_few_filters() {
    let (plain, filtered) = (object(false, BloomFilterPosition::End), object(true, BloomFilterPosition::End));
    let filter_bytes: usize = filters(&filtered).iter().skip(1).step_by(2).map(|place| place.1).sum();
    for (lists, reads_all) in [(1, true), (13, false)] {
        let list = |schema: &Schema| -> common::Expr {
            let values = (0..9_700_i64).map(lit).collect();
            Arc::new(InListExpr::try_new(col("n", schema).unwrap(), values, false, schema).unwrap())
        };
        let all = |schema: &Schema| {
            (1..lists).fold(list(schema), |all, _| common::op(all, Operator::And, list(schema)))
        };
        let scan = common::scan_of(schema(), &["email", "n"], Some(all(&schema())));
        let envelope = Envelope::new(encode(&scan).unwrap());
        let [without, with] = [&plain, &filtered].map(|object| {
            let reply = answer(object, &envelope);
            assert_eq!(reply.status, i32::from(Status::Ok), "{}", reply.message);
            reply.read_bytes
        });
        let more_bytes = with - without;
        assert_eq!(more_bytes == filter_bytes as u64, reads_all, "{lists}: {more_bytes} of {filter_bytes}");
    }
}

/// The check of a filter with a known length differs from that of one without.
#[test]
fn a_filter_of_several_lengths_is_refused() {
    let whole = object(true, BloomFilterPosition::End);
    let metadata = ParquetMetaDataReader::new().parse_and_finish(&whole).unwrap();
    let first = metadata.row_group(0).column(1).clone();
    let mut builder = metadata.into_builder();
    let mut groups = builder.take_row_groups();
    for (place, group) in groups.iter_mut().enumerate() {
        let chunk =
            group.column(1).clone().into_builder().set_bloom_filter_offset(first.bloom_filter_offset());
        let len_bytes = first.bloom_filter_length().filter(|_| place % 2 == 0);
        let chunk = chunk.set_bloom_filter_length(len_bytes).build().unwrap();
        let columns = vec![group.column(0).clone(), chunk];
        *group = group.clone().into_builder().set_column_metadata(columns).build().unwrap();
    }
    let metadata = builder.set_row_groups(groups).build();
    let mut damaged = whole.to_vec();
    ParquetMetaDataWriter::new(&mut damaged, &metadata).finish().unwrap();
    let reply = answer(&damaged.into(), &point("n", ScalarValue::Int64(Some(MISSING as i64))));
    assert_eq!(reply.status, i32::from(Status::Unsupported), "{}", reply.message);
    assert!(reply.message.contains("a Bloom filter of several lengths"), "{}", reply.message);
}
