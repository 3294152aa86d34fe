//! The costs that decide between index and scan.

use arrow::array::{ArrayRef, Int64Array};
use arrow::datatypes::{DataType, Field, Schema};
use benthic_core::pushdown::FAR;
use benthic_index::{Distribution, Ranges};
use benthic_sql::index_choice::{IndexChoice, ScanSize};
use benthic_sql::selectivity::{Distributions, Estimate};
use std::sync::Arc;
use std::time::Duration;

fn choice(objects: u64, rows: u64, bytes: u64, round_trip: Duration) -> IndexChoice {
    IndexChoice { size: ScanSize { objects, rows, bytes }, round_trip, ..IndexChoice::default() }
}

const SCATTERED: f64 = 0.03;
/// Runs of 20 rows.
const RUNS: f64 = 0.95;

#[test]
fn near_the_limit_depends_on_the_runs() {
    // Ten objects of a million rows, of which the scan reads 100 bytes a row.
    let choice = choice(10, 10_000_000, 1_000_000_000, Duration::ZERO);
    for (share, repeat, pays) in [
        (0.000_001, SCATTERED, true),
        (0.01, SCATTERED, true),
        (0.03, SCATTERED, false),
        (0.2, SCATTERED, false),
        (0.01, RUNS, true),
        (0.12, RUNS, true),
        (0.25, RUNS, false),
        (0.4, 0.9999, true),
        (0.6, 0.9999, false),
    ] {
        assert_eq!(choice.pays_near(Estimate { share, repeat }), pays, "{share} {repeat}");
    }
}

#[test]
fn a_narrow_scan_may_be_smaller_than_the_index() {
    // The scan reads one byte a row, and a lookup reads five bytes for each selected row.
    let choice = choice(10, 10_000_000, 10_000_000, Duration::ZERO);
    assert!(choice.pays_near(Estimate { share: 0.001, repeat: RUNS }));
    assert!(!choice.pays_near(Estimate { share: 0.12, repeat: RUNS }));
}

#[test]
fn few_runs_pay_in_small_objects() {
    let choice = choice(10, 20_000, 400_000, Duration::ZERO);
    assert!(choice.pays_near(Estimate { share: 0.005, repeat: SCATTERED }));
    assert!(!choice.pays_near(Estimate { share: 0.05, repeat: SCATTERED }));
}

#[test]
fn far_the_bytes_and_the_requests_count() {
    let far = choice(10, 10_000_000, 1_000_000_000, Duration::from_millis(20));
    assert!(far.round_trip >= FAR);
    // One row of the table: nine objects of ten are not read.
    assert!(far.pays_far(Estimate { share: 1e-7, repeat: SCATTERED }));
    // Every page has a selected row, so the client would read all of them anyway.
    assert!(!far.pays_far(Estimate { share: 0.001, repeat: SCATTERED }));
    // Two requests take longer than a small object.
    let small = choice(10, 20_000, 400_000, Duration::from_millis(20));
    assert!(!small.pays_far(Estimate { share: 1e-7, repeat: SCATTERED }));
}

#[test]
fn estimates_are_combined() {
    let (one, other) = (Estimate { share: 0.1, repeat: 0.5 }, Estimate { share: 0.2, repeat: 0.8 });
    let both = one.and(other);
    assert!((both.share - 0.02).abs() < 1e-9 && (both.repeat - 0.4).abs() < 1e-9, "{both:?}");
    let either = one.or(other);
    assert!((either.share - 0.3).abs() < 1e-9 && (either.repeat - 0.7).abs() < 1e-9, "{either:?}");
    let all = Estimate { share: 0.9, repeat: 1.0 }.or(Estimate { share: 0.9, repeat: 1.0 });
    assert!((all.share - 1.0).abs() < 1e-9);
}

#[test]
fn the_needed_columns_are_estimated_from_their_types() {
    let field = |name: &str, data_type| Field::new(name, data_type, true);
    let schema = Schema::new(vec![
        field("flag", DataType::Boolean),
        field("id", DataType::Int64),
        field("text", DataType::Utf8),
    ]);
    let entry = benthic_table::FileEntry {
        object: benthic_table::ids::TableObject::parse("d/0000000000000001-0.parquet").unwrap(),
        schema: 0,
        partition: None,
        rows: 10,
        bytes: 2_425,
        deleted: None,
        groups: Vec::new(),
    };
    let size = |columns: &[usize]| ScanSize::of(&[entry.clone(), entry.clone()], &schema, columns).bytes;
    assert_eq!(size(&[0, 1, 2]), 4_850);
    assert_eq!(size(&[1]), 1_600);
    assert_eq!(size(&[]), 0);
}

#[test]
fn numbers_of_rows_of_any_size_give_an_estimate() {
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100));
    let distribution = || Distribution::of(&values).unwrap().unwrap();
    let known = vec![(distribution(), u64::MAX), (distribution(), u64::MAX)];
    let all = Distributions { by_name: [("k".to_owned(), known)].into(), rows: u64::MAX };
    let ranges = Ranges::between(None, Some(&(Arc::new(Int64Array::from(vec![49])) as ArrayRef))).unwrap();
    let estimate = all.estimate("k", &ranges).unwrap();
    // Two objects of the same rows, whose sum is cut.
    assert!((0.4..=1.2).contains(&estimate.share), "{estimate:?}");
}
