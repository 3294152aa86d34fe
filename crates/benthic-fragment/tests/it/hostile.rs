//! Plans that must not run, and objects that are not what they say.

use crate::{Object, common};
use benthic_core::Result;
use benthic_fragment::fragment::{Ranges, Status, run};
use bytes::Bytes;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Nobody may read it.
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

    fn go_on(&mut self) -> Result<()> {
        panic!("a refused plan ran")
    }
}

#[test]
fn plans_that_are_not_on_the_list_are_refused_before_they_are_built() {
    for (name, envelope, why) in common::hostile::refused() {
        let reply = run(&mut Untouched, &envelope.to_bytes()).unwrap();
        assert_eq!(reply.status, i32::from(Status::Unsupported), "{name}: {}", reply.message);
        assert!(reply.message.contains(why), "{name}: {}", reply.message);
    }
}

/// A predicate that only prunes is a hint: one that cannot prune is not applied, and is no error.
const HINTS: [&str; 3] =
    ["a filter that is no boolean", "a column behind the schema", "types that do not compare"];

#[test]
fn plans_that_are_wrong_answer_so() {
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
