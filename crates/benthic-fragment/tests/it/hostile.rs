//! Plans that must not run, and objects that misrepresent their content.

use crate::common::bombs::{file, handmade, page, properties, strings};
use crate::common::{self, Object, Plan};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use benthic_core::{Error, ErrorKind, Result};
use benthic_fragment::fragment::{Blocked, Envelope, Ranges, Status, encode, run};
use bytes::Bytes;
use datafusion_functions_aggregate::count::count_udaf;
use datafusion_physical_expr::expressions::{Column, lit};
use datafusion_physical_plan::limit::GlobalLimitExec;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// An object that panics when it is read.
struct Untouched;

impl Ranges for Untouched {
    fn size_bytes(&self) -> u64 {
        1_000_000
    }

    fn gap_bytes_max(&self) -> u64 {
        0
    }

    fn read(&mut self, _: &[Range<u64>]) -> Result<Vec<Bytes>> {
        panic!("a refused plan read the object")
    }

    fn check_deadline(&mut self) -> Result<()> {
        panic!("a refused plan ran")
    }
}

#[test]
fn plans_that_are_not_on_the_list_are_refused_before_they_are_built() {
    let refused = common::hostile::refused().into_iter().chain(common::hostile::refused_filters());
    for (name, envelope, why) in refused {
        let reply = run(&mut Untouched, &envelope.to_bytes()).unwrap();
        assert_eq!(reply.status, i32::from(Status::Unsupported), "{name}: {}", reply.message);
        assert!(reply.message.contains(why), "{name}: {}", reply.message);
    }
}

struct Administered(Object, Blocked);

impl Ranges for Administered {
    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }

    fn gap_bytes_max(&self) -> u64 {
        0
    }

    fn read(&mut self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.0.read(ranges)
    }

    fn check_deadline(&mut self) -> Result<()> {
        Ok(())
    }

    fn blocked(&self) -> Option<&Blocked> {
        Some(&self.1)
    }
}

#[test]
fn the_administrator_blocks_functions_and_aggregates() {
    let object = common::lineitem_of(100).parquet;
    let upper = encode(&common::bombs::first_upper()).unwrap();
    let quantiles = encode(&common::bombs::quantiles_of_groups()).unwrap();
    let (q1, lambda) = (encode(&common::q1()).unwrap(), encode(&common::events::plan()).unwrap());
    let blocks = "the administrator blocks";
    for (names, plan, why) in [
        ("", &q1, ""),
        ("approx_median, stddev_samp lower", &q1, ""),
        ("avg", &q1, blocks),
        ("max,AVG", &q1, blocks),
        // An alias.
        ("mean", &q1, blocks),
        ("upper", &upper, blocks),
        ("approx_distinct", &quantiles, blocks),
        ("char_length", &quantiles, blocks),
        ("array_filter", &lambda, blocks),
        ("lower\n\tmax\r\navg", &q1, blocks),
        (
            "wasm avgg,max\tnothing",
            &q1,
            "BENTHIC_TABLE_BLOCKED contains unknown functions; correct these names: avgg, nothing",
        ),
    ] {
        let envelope = Envelope::new(plan.clone()).to_bytes();
        let mut object = Administered(Object(object.clone()), Blocked::parse(names));
        let reply = run(&mut object, &envelope).unwrap();
        let expected = if why.is_empty() { Status::Ok } else { Status::Unsupported };
        assert_eq!(reply.status, i32::from(expected), "{names}: {}", reply.message);
        assert!(reply.message.contains(why), "{names}: {}", reply.message);
    }
}

#[test]
fn a_plan_of_another_build_is_refused() {
    let other = Envelope { build: "0.0.0".to_owned(), ..Envelope::new(encode(&common::q6()).unwrap()) };
    let reply = run(&mut Untouched, &other.to_bytes()).unwrap();
    assert_eq!(reply.status, i32::from(Status::OtherBuild), "{}", reply.message);
}

/// A pruning predicate is only a hint. The scan ignores one that cannot prune, without an error.
const HINTS: [&str; 3] =
    ["a filter that is no boolean", "a column behind the schema", "types that do not compare"];

#[test]
fn invalid_plans_give_a_reason() {
    let object = common::lineitem().parquet;
    let mut bad = Vec::new();
    for (name, envelope) in common::hostile::wrong() {
        let bytes = envelope.to_bytes();
        match catch_unwind(AssertUnwindSafe(|| run(&mut Object(object.clone()), &bytes))) {
            Ok(Ok(reply)) if HINTS.contains(&name) => assert_eq!(reply.rows, common::ROWS as u64, "{name}"),
            Ok(Ok(reply)) if reply.status != i32::from(Status::Ok) => {
                assert!(!reply.message.is_empty(), "{name}");
            }
            Ok(Ok(reply)) => bad.push(format!("{name}: answered {} rows", reply.rows)),
            Ok(Err(error)) => bad.push(format!("{name}: {error}")),
            Err(_) => bad.push(format!("{name}: panicked")),
        }
    }
    assert!(bad.is_empty(), "{bad:#?}");
}

/// An object whose deadline passes after it was checked this many times.
struct Hurried(Object, u32);

impl Ranges for Hurried {
    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }

    fn gap_bytes_max(&self) -> u64 {
        0
    }

    fn read(&mut self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.0.read(ranges)
    }

    fn check_deadline(&mut self) -> Result<()> {
        self.1 = self.1.checked_sub(1).ok_or_else(|| Error::new(ErrorKind::LimitExceeded, "late"))?;
        Ok(())
    }
}

fn strings_schema(columns: usize, data_type: &DataType) -> SchemaRef {
    let name = |n| if n == 0 { "s".to_owned() } else { format!("s{n}") };
    Arc::new(Schema::new(
        (0..columns).map(|n| Field::new(name(n), data_type.clone(), true)).collect::<Vec<_>>(),
    ))
}

#[test]
fn the_deadline_is_checked_for_every_plan() {
    let rows = i64::from(i32::MAX);
    let object = Bytes::from(handmade(&page(rows), 1, rows));
    let scan = || common::scan_of(strings_schema(1, &DataType::Utf8View), &[], None);
    let count = common::aggregate(&scan(), count_udaf(), lit(1_i64), "c");
    let skip: Plan = Arc::new(GlobalLimitExec::new(scan(), rows as usize, None));
    for (name, plan) in [
        ("counted", common::partial(scan(), &[], vec![count])),
        ("filtered", common::filter(scan(), lit(false))),
        ("skipped", skip),
    ] {
        let envelope = Envelope::new(encode(&plan).unwrap()).to_bytes();
        let error = run(&mut Hurried(Object(object.clone()), 1_000), &envelope).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{name}");
    }
}

#[test]
fn a_limit_is_a_hint() {
    let object = common::lineitem_of(1_000).parquet;
    let plain =
        run(&mut Object(object.clone()), &Envelope::new(encode(&common::q1()).unwrap()).to_bytes()).unwrap();
    let limited = run(&mut Object(object), &common::hostile::huge_limit().to_bytes()).unwrap();
    assert_eq!((limited.status, limited.ipc), (Status::Ok.into(), plain.ipc), "{}", limited.message);
}

#[test]
fn columns_that_share_their_bytes_are_refused() {
    let names: Vec<String> =
        strings_schema(100, &DataType::Utf8View).fields().iter().map(|field| field.name().clone()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let scan = common::scan_of(strings_schema(100, &DataType::Utf8View), &names, None);
    let envelope = Envelope::new(encode(&scan).unwrap()).to_bytes();
    let reply = run(&mut Object(handmade(&page(1), 100, 1).into()), &envelope).unwrap();
    assert_eq!(reply.status, i32::from(Status::Failed), "{}", reply.message);
    assert!(reply.message.contains("twice at the same bytes"), "{}", reply.message);
}

#[test]
fn a_plan_that_takes_strings_for_numbers_is_refused() {
    let scan = common::scan_of(strings_schema(1, &DataType::Int64), &["s"], None);
    let envelope = Envelope::new(encode(&scan).unwrap()).to_bytes();
    let object = file(strings(100, 8), properties());
    let reply = run(&mut Object(object.into()), &envelope).unwrap();
    assert_eq!(reply.status, i32::from(Status::Unsupported), "{}", reply.message);
    assert!(reply.message.contains("another type"), "{}", reply.message);
}

#[test]
fn a_column_repeated_very_often_is_too_large() {
    let scan = common::scan_of(strings_schema(1, &DataType::Utf8View), &["s"], None);
    let column = || Arc::new(Column::new("s", 0)) as common::Expr;
    let plan = common::project(scan, (0..500).map(|_| (column(), "s")).collect());
    let envelope = Envelope::new(encode(&plan).unwrap()).to_bytes();
    let reply = run(&mut Object(file(strings(1_000, 4_096), properties()).into()), &envelope).unwrap();
    assert_eq!(reply.status, i32::from(Status::TooLarge), "{}", reply.message);
}
