//! Compares the results of fragments over one object with those of plain loops over the same rows.

use crate::common::{self, FIRST_DAY, Lineitem, Object, Plan, ROWS};
use arrow::array::{
    Array, Date32Array, Decimal128Array, Float64Array, Int64Array, RecordBatch, StringArray, StringViewArray,
    UInt8Array, UInt64Array,
};
use arrow::datatypes::DataType;
use arrow::ipc::reader::StreamReader;
use benthic_core::{Error, ErrorKind, Result};
use benthic_fragment::fragment::{Envelope, OfObject, Ranges, Reply, Status, encode, run};
use benthic_index::Rows;
use bytes::Bytes;
use datafusion_functions::math;
use datafusion_physical_expr::ScalarFunctionExpr;
use datafusion_physical_expr::expressions::{CastExpr, col, lit};
use prost::Message;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

static LINEITEM: LazyLock<Lineitem> = LazyLock::new(common::lineitem);

fn answer(envelope: &Envelope) -> Reply {
    run(&mut Object(LINEITEM.parquet.clone()), &envelope.to_bytes()).unwrap()
}

fn rows(reply: &Reply) -> Vec<RecordBatch> {
    assert_eq!(reply.status, i32::from(Status::Ok), "{}", reply.message);
    StreamReader::try_new(reply.ipc.as_ref(), None).unwrap().map(|batch| batch.unwrap()).collect()
}

fn envelope(plan: &Plan) -> Envelope {
    Envelope::new(encode(plan).unwrap())
}

fn column<T: Array + Clone + 'static>(batch: &RecordBatch, name: &str) -> T {
    batch.column_by_name(name).unwrap().as_any().downcast_ref::<T>().unwrap().clone()
}

#[test]
fn the_object_is_what_the_tests_mean() {
    let mib = LINEITEM.parquet.len() / (1024 * 1024);
    assert!((5..=9).contains(&mib), "{mib} MiB");
}

#[test]
fn q6_is_the_sum_of_a_loop() {
    let sum = sum_of_q6(|_| true);
    let reply = answer(&envelope(&common::q6()));
    assert_eq!(sum_in(&reply), sum);
    assert!(reply.read_bytes < LINEITEM.parquet.len() as u64 / 3, "{reply:?}");
}

#[test]
#[allow(clippy::single_range_in_vec_init, reason = "a set of rows is a list of ranges, also of one")]
fn deleted_rows_are_left_out() {
    let envelope = envelope(&common::q6()).to_bytes();
    let all = u32::try_from(ROWS).unwrap();
    for deleted in
        [vec![0..1], vec![0..20_000, 20_003..90_000], vec![7..8, 9..10, all - 1..all], vec![0..all - 1]]
    {
        let deleted = Rows::new(deleted, all);
        let request = OfObject::request(&envelope, Some(&deleted));
        let reply = run(&mut Object(LINEITEM.parquet.clone()), &request).unwrap();
        let is_live = |row: usize| !deleted.ranges().iter().any(|range| range.contains(&(row as u32)));
        assert_eq!(sum_in(&reply), sum_of_q6(is_live), "{deleted:?}");
    }
    // Nothing is read for an object whose rows are all deleted.
    let request = OfObject::request(&envelope, Some(&Rows::all(all)));
    let reply = run(&mut Object(LINEITEM.parquet.clone()), &request).unwrap();
    assert_eq!((reply.read_bytes, rows(&reply)[0].column(0).null_count()), (0, 1));
    // A damaged set of rows is an answer, not a failure of the class.
    let damaged = OfObject { deleted: Bytes::from_static(&[5]), rows: all }.encode_to_vec();
    let reply = run(&mut Object(LINEITEM.parquet.clone()), &[envelope.as_ref(), &damaged].concat()).unwrap();
    assert_eq!(reply.status, i32::from(Status::Unsupported), "{reply:?}");
}

fn sum_in(reply: &Reply) -> i128 {
    let batches = rows(reply);
    let sums = batches[0].column(0).as_any().downcast_ref::<Decimal128Array>().unwrap();
    assert_eq!((batches.len(), sums.len()), (1, 1));
    if sums.is_null(0) { 0 } else { sums.value(0) }
}

/// The answer of Q6 over the rows that are live.
fn sum_of_q6(is_live: impl Fn(usize) -> bool) -> i128 {
    let batch = &LINEITEM.batch;
    let (quantity, price) =
        (column::<Decimal128Array>(batch, "l_quantity"), column::<Decimal128Array>(batch, "l_extendedprice"));
    let (discount, day) =
        (column::<Decimal128Array>(batch, "l_discount"), column::<Date32Array>(batch, "l_shipdate"));
    (0..ROWS)
        .filter(|row| is_live(*row))
        .filter(|row| (FIRST_DAY + 730..FIRST_DAY + 1_095).contains(&day.value(*row)))
        .filter(|row| (5..=7).contains(&discount.value(*row)) && quantity.value(*row) < 2_400)
        .map(|row| price.value(row) * discount.value(row))
        .sum()
}

#[test]
fn q1_has_the_groups_of_a_loop() {
    let batch = &LINEITEM.batch;
    let (flag, status) =
        (column::<StringArray>(batch, "l_returnflag"), column::<StringArray>(batch, "l_linestatus"));
    let (quantity, day) =
        (column::<Decimal128Array>(batch, "l_quantity"), column::<Date32Array>(batch, "l_shipdate"));
    let mut expected = BTreeMap::new();
    for row in (0..ROWS).filter(|row| day.value(*row) <= FIRST_DAY + 2_430) {
        let group = expected.entry((flag.value(row), status.value(row))).or_insert((0, 0));
        *group = (group.0 + quantity.value(row), group.1 + 1);
    }
    let batches = rows(&answer(&Envelope { compress: true, ..envelope(&common::q1()) }));
    let mut found = BTreeMap::new();
    for batch in &batches {
        let (flag, status) = (
            column::<StringViewArray>(batch, "l_returnflag"),
            column::<StringViewArray>(batch, "l_linestatus"),
        );
        let sum = batch.column(2).as_any().downcast_ref::<Decimal128Array>().unwrap();
        // The state of the average is between the sums and the count.
        assert_eq!(batch.column(4).data_type(), &arrow::datatypes::DataType::UInt64);
        assert!(batch.column(4).as_any().downcast_ref::<UInt64Array>().is_some());
        let count = batch.column(6).as_any().downcast_ref::<Int64Array>().unwrap();
        for row in 0..batch.num_rows() {
            let key = (flag.value(row).to_owned(), status.value(row).to_owned());
            assert!(found.insert(key, (sum.value(row), count.value(row))).is_none());
        }
    }
    let expected: BTreeMap<_, _> =
        expected.into_iter().map(|((a, b), sums)| ((a.to_owned(), b.to_owned()), sums)).collect();
    assert_eq!(found, expected);
}

#[test]
fn grouping_sets_have_the_groups_of_a_loop() {
    let batch = &LINEITEM.batch;
    let (flag, status) =
        (column::<StringArray>(batch, "l_returnflag"), column::<StringArray>(batch, "l_linestatus"));
    let day = column::<Date32Array>(batch, "l_shipdate");
    let mut expected = BTreeMap::new();
    for row in (0..ROWS).filter(|row| day.value(*row) <= FIRST_DAY + 2_430) {
        let (flag, status) = (flag.value(row).to_owned(), status.value(row).to_owned());
        // Each bit of the number says that the set lacks a column.
        for group in [(Some(flag.clone()), Some(status), 0), (Some(flag), None, 1), (None, None, 3)] {
            *expected.entry(group).or_insert(0_i64) += 1;
        }
    }
    let batches = rows(&answer(&envelope(&common::rollup())));
    let mut found = BTreeMap::new();
    for batch in &batches {
        let texts = |name| {
            let column = column::<StringViewArray>(batch, name);
            column.iter().map(|text| text.map(str::to_owned)).collect::<Vec<_>>()
        };
        let count = batch.columns().last().unwrap().as_any().downcast_ref::<Int64Array>().unwrap();
        let sets = column::<UInt8Array>(batch, "__grouping_id");
        let groups = texts("l_returnflag").into_iter().zip(texts("l_linestatus")).zip(sets.values());
        for (((flag, status), set), count) in groups.zip(count.values()) {
            *found.entry((flag, status, *set)).or_insert(0) += count;
        }
    }
    assert_eq!(found, expected);
}

#[test]
fn mathematics_give_the_numbers_of_a_loop() {
    let scan = common::scan(&["l_orderkey"], None);
    let schema = scan.schema();
    let key = col("l_orderkey", &schema).unwrap();
    let call = |function, args| -> common::Expr {
        Arc::new(ScalarFunctionExpr::try_new(function, args, &schema, Arc::default()).unwrap())
    };
    let float = Arc::new(CastExpr::new(Arc::clone(&key), DataType::Float64, None));
    let exprs =
        vec![(call(math::sqrt(), vec![float]), "root"), (call(math::gcd(), vec![key, lit(12_i64)]), "gcd")];
    let batches = rows(&answer(&envelope(&common::project(scan, exprs))));
    let mut row = 0_usize;
    for batch in &batches {
        let (root, gcd) = (column::<Float64Array>(batch, "root"), column::<Int64Array>(batch, "gcd"));
        for place in 0..batch.num_rows() {
            let key = row as i64 / 4 + 1;
            assert_eq!(root.value(place), (key as f64).sqrt());
            assert_eq!(gcd.value(place), (1..=12).rev().find(|n| key % n == 0 && 12 % n == 0).unwrap());
            row += 1;
        }
    }
    assert_eq!(row, ROWS);
}

#[test]
fn the_first_rows_are_those_of_a_loop() {
    let prices = column::<Decimal128Array>(&LINEITEM.batch, "l_extendedprice");
    let names = ["l_extendedprice", "l_comment", "l_shipinstruct", "l_orderkey"];
    for (descending, count) in [(false, 1), (true, 10), (false, 1_000), (true, 8_192)] {
        let scan = common::scan(&names, None);
        let price = col("l_extendedprice", &scan.schema()).unwrap();
        let reply = answer(&envelope(&common::first(scan, vec![price], descending, count)));
        let found: Vec<i128> = rows(&reply)
            .iter()
            .flat_map(|batch| column::<Decimal128Array>(batch, "l_extendedprice").values().to_vec())
            .collect();
        let mut expected = prices.values().to_vec();
        expected.sort_unstable();
        if descending {
            expected.reverse();
        }
        assert_eq!(found, &expected[..count], "{count}");
        // Without the filter below the sort and the copies, it would keep all pages of strings.
        assert!(reply.reserved_bytes_max < 8 * 1024 * 1024, "{count}: {}", reply.reserved_bytes_max);
    }
}

#[test]
fn a_point_reads_little() {
    let reply = answer(&envelope(&common::point(20_000)));
    let batches = rows(&reply);
    let keys: Vec<i64> = batches
        .iter()
        .flat_map(|batch| column::<Int64Array>(batch, "l_orderkey").values().to_vec())
        .collect();
    assert_eq!(keys, [20_000; 4]);
    assert!(reply.read_bytes < 600_000, "{}", reply.read_bytes);
}

#[test]
fn an_answer_over_the_cap_is_too_large() {
    let all = Envelope { output_bytes_max: 16 * 1024 * 1024, ..envelope(&common::parts(i64::MAX)) };
    assert_eq!(rows(&answer(&all)).iter().map(RecordBatch::num_rows).sum::<usize>(), ROWS);
    let reply = answer(&Envelope { output_bytes_max: 100_000, ..all });
    assert_eq!((reply.status, reply.ipc.len()), (Status::TooLarge.into(), 0));
}

#[test]
fn a_read_error_of_the_object_is_the_error_of_the_run() {
    struct Damaged;
    impl Ranges for Damaged {
        fn size_bytes(&self) -> u64 {
            1_000
        }
        fn gap_bytes_max(&self) -> u64 {
            0
        }
        fn read(&mut self, _: &[Range<u64>]) -> Result<Vec<Bytes>> {
            Err(Error::new(ErrorKind::Corrupt, "damaged"))
        }
        fn check_deadline(&mut self) -> Result<()> {
            Ok(())
        }
    }
    let error = run(&mut Damaged, &envelope(&common::q6()).to_bytes()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
}

#[test]
fn an_object_that_is_no_parquet_fails() {
    for bytes in [Bytes::new(), Bytes::from_static(b"PAR1"), Bytes::from(vec![0xff; 100_000])] {
        let reply = run(&mut Object(bytes), &envelope(&common::q6()).to_bytes()).unwrap();
        assert_eq!(reply.status, i32::from(Status::Failed), "{}", reply.message);
    }
    let mut cut = LINEITEM.parquet.to_vec();
    cut.drain(1_000_000..2_000_000);
    let reply = run(&mut Object(Bytes::from(cut)), &envelope(&common::q6()).to_bytes()).unwrap();
    assert_eq!(reply.status, i32::from(Status::Failed), "{}", reply.message);
}
