//! Membership filters of joins: what they let through, and those that are refused.

use crate::common::{self, Object};
use arrow::array::{
    Array, ArrayRef, AsArray, Date32Array, Decimal128Array, Float64Array, Int64Array, RecordBatch,
    StringArray, StringViewArray,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use arrow::ipc::reader::StreamReader;
use benthic_fragment::fragment::{Envelope, Status, encode, run};
use benthic_fragment::membership::{FILTER_BYTES_MAX, MembershipFilter};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{Column, col};
use std::sync::Arc;

fn keys(count: usize) -> Vec<common::Expr> {
    (0..count).map(|place| Arc::new(Column::new("key", place)) as common::Expr).collect()
}

/// The rows that a filter of `build` lets through.
fn passed(build: &[ArrayRef], probe: Vec<ArrayRef>) -> Vec<bool> {
    let filter = MembershipFilter::of(keys(build.len()), build, FILTER_BYTES_MAX).unwrap().unwrap();
    let named = probe.into_iter().enumerate().map(|(place, column)| (format!("c{place}"), column));
    let batch =
        RecordBatch::try_from_iter_with_nullable(named.map(|(name, column)| (name, column, true))).unwrap();
    let found = filter.evaluate(&batch).unwrap().into_array(batch.num_rows()).unwrap();
    found.as_boolean().iter().map(Option::unwrap).collect()
}

type Cast = fn(&ArrayRef) -> ArrayRef;

fn longs(values: impl IntoIterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

#[test]
fn every_key_passes_and_few_others_do() {
    let text = |value: i64| format!("customer {value}");
    let columns: [(&str, Cast); 5] = [
        ("integers", Arc::clone),
        ("dates", |values| {
            let days = values.as_primitive::<Int64Type>().values().iter().map(|value| *value as i32);
            Arc::new(Date32Array::from_iter_values(days))
        }),
        ("decimals", |values| {
            let cents =
                values.as_primitive::<Int64Type>().values().iter().map(|value| i128::from(*value) * 100);
            Arc::new(Decimal128Array::from_iter_values(cents).with_precision_and_scale(15, 2).unwrap())
        }),
        ("small integers", |values| cast(values, &DataType::Int32).unwrap()),
        ("timestamps", |values| {
            let unit = arrow::datatypes::TimeUnit::Microsecond;
            cast(values, &DataType::Timestamp(unit, None)).unwrap()
        }),
    ];
    // Keys in order, as those of many tables, are the worst case for a weak hash.
    let (build, others) = (longs((0..10_000).map(|n| n * 4)), longs((0..10_000).map(|n| n * 4 + 1)));
    for (name, column) in columns {
        assert!(passed(&[column(&build)], vec![column(&build)]).into_iter().all(|passed| passed), "{name}");
        let wrong =
            passed(&[column(&build)], vec![column(&others)]).into_iter().filter(|passed| *passed).count();
        assert!(wrong < 300, "{name}: {wrong} of 10,000");
    }
    let texts = |values: &ArrayRef| -> ArrayRef {
        let values = values.as_primitive::<Int64Type>().values().iter().map(|value| text(*value));
        Arc::new(StringViewArray::from_iter_values(values))
    };
    assert!(passed(&[texts(&build)], vec![texts(&build)]).into_iter().all(|passed| passed));
    let wrong = passed(&[texts(&build)], vec![texts(&others)]).into_iter().filter(|passed| *passed).count();
    assert!(wrong < 300, "texts: {wrong} of 10,000");
}

#[test]
fn keys_of_several_columns_must_match_together() {
    let (first, second) = (longs(0..1_000), longs((0..1_000).rev()));
    let build = [Arc::clone(&first), Arc::clone(&second)];
    assert!(passed(&build, vec![Arc::clone(&first), Arc::clone(&second)]).into_iter().all(|passed| passed));
    let crossed = passed(&build, vec![Arc::clone(&first), first]);
    assert!(crossed.into_iter().filter(|passed| *passed).count() < 60, "each column alone has the values");
}

#[test]
fn rows_with_nulls_never_pass() {
    let build: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(3)]));
    let probe: ArrayRef = Arc::new(Int64Array::from(vec![None, Some(1), Some(3), None]));
    assert_eq!(passed(&[build], vec![probe]), [false, true, true, false]);
}

#[test]
fn too_many_keys_have_no_filter() {
    let build = longs(0..10_000);
    let of = |len_bytes_max| MembershipFilter::of(keys(1), &[Arc::clone(&build)], len_bytes_max).unwrap();
    assert!(of(10_000 * 5 / 8 - 64).is_none() && of(0).is_none() && of(31).is_none());
    let small = of(10_000 * 5 / 8 + 64).unwrap();
    assert!(small.len_bytes() <= 10_000 * 5 / 8 + 64, "{}", small.len_bytes());
    assert_eq!(of(FILTER_BYTES_MAX).unwrap().len_bytes(), (10_000 * 10 / 8_usize).next_multiple_of(32));
    // The same key many times is one key.
    let same = longs((0..10_000).map(|_| 7));
    assert_eq!(MembershipFilter::of(keys(1), &[same], FILTER_BYTES_MAX).unwrap().unwrap().len_bytes(), 32);
    let floats: ArrayRef = Arc::new(Float64Array::from(vec![0.0]));
    assert!(MembershipFilter::of(keys(1), &[floats], FILTER_BYTES_MAX).is_err(), "zeros have two hashes");
}

#[test]
fn a_fragment_filters_by_membership() {
    let lineitem = common::lineitem_of(20_000);
    let scan = common::scan(&["l_partkey", "l_shipmode", "l_quantity"], None);
    let schema = scan.schema();
    let keys = ["l_partkey", "l_shipmode"].map(|name| col(name, &schema).unwrap()).to_vec();
    let column = |name: &str| Arc::clone(lineitem.batch.column_by_name(name).unwrap());
    let (parts, modes) = (column("l_partkey"), column("l_shipmode"));
    let build = [parts.slice(0, 500), cast(&modes.slice(0, 500), &DataType::Utf8View).unwrap()];
    let filter = MembershipFilter::of(keys, &build, FILTER_BYTES_MAX).unwrap().unwrap();
    let envelope = Envelope::new(encode(&common::filter(scan, Arc::new(filter))).unwrap());
    let reply = run(&mut Object(lineitem.parquet), &envelope.to_bytes()).unwrap();
    assert_eq!(reply.status, i32::from(Status::Ok), "{}", reply.message);
    let wanted =
        |parts: &Int64Array, modes: &StringArray, row: usize| (parts.value(row), modes.value(row).to_owned());
    let (all_parts, all_modes) = (parts.as_primitive::<Int64Type>(), modes.as_string::<i32>());
    let build: Vec<_> = (0..500).map(|row| wanted(all_parts, all_modes, row)).collect();
    let expected = (0..20_000).filter(|row| build.contains(&wanted(all_parts, all_modes, *row))).count();
    let mut found = 0;
    for batch in StreamReader::try_new(reply.ipc.as_ref(), None).unwrap() {
        let batch = batch.unwrap();
        let (parts, modes) = (batch.column(0).as_primitive::<Int64Type>(), batch.column(1).as_string_view());
        found += (0..batch.num_rows())
            .filter(|row| build.contains(&(parts.value(*row), modes.value(*row).to_owned())))
            .count();
    }
    assert_eq!(found, expected);
    assert!(reply.rows < expected as u64 + 600, "{} rows for {expected}", reply.rows);
}
