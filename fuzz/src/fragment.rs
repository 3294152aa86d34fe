//! Fuzzes the class `table` with any plan on a good object and with any object under good plans and
//! queries of S3 Select.
//! Neither may abort an OSD or exhaust its memory or threads. The class library catches panics, so
//! a panic is no finding here; an abort, a stack overflow, or much memory or time is.

use super::common::{self, Object};
use benthic_classes::select::wire::{Compression, Input, Output, Request, Totals};
use benthic_classes::select::{Host, Select};
use benthic_core::{Clock, Error, ErrorKind, Result, SystemClock};
use benthic_fragment::fragment::{Envelope, OfObject, Ranges, encode, run};
use benthic_parquet::rows;
use bytes::Bytes;
use prost::Message;
use std::cell::Cell;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::{LazyLock, Once};
use std::time::Duration;

pub type Target = fn(&[u8]);

pub const TARGETS: [(&str, Target); 2] = [("fragment", fragment), ("parquet", parquet)];

/// Runs any plan on a good object, and a good plan with any deleted rows.
pub fn fragment(input: &[u8]) {
    static OBJECT: LazyLock<Bytes> = LazyLock::new(|| common::lineitem_of(200).parquet);
    static EVENTS: LazyLock<Bytes> =
        LazyLock::new(|| common::events::parquet(&common::events::batch(&common::events::events()[..200])));
    static PLAN: LazyLock<Bytes> = LazyLock::new(|| Envelope::new(encode(&common::q1()).unwrap()).to_bytes());
    let any = Envelope::new(Bytes::copy_from_slice(input)).to_bytes();
    run_in_time(OBJECT.clone(), &any);
    run_in_time(EVENTS.clone(), &any);
    let deleted = OfObject { deleted: Bytes::copy_from_slice(input), rows: 200 }.encode_to_vec();
    run_in_time(OBJECT.clone(), &[PLAN.as_ref(), &deleted].concat());
    run_in_time(OBJECT.clone(), &[PLAN.as_ref(), input].concat());
}

/// Runs plans on any object. The plans read strings, lists and maps, build other strings, and add
/// numbers.
pub fn parquet(input: &[u8]) {
    static PLANS: LazyLock<[Bytes; 5]> = LazyLock::new(|| {
        [
            common::bombs::plan(),
            common::bombs::first_upper(),
            common::rollup(),
            common::events::plan(),
            common::filters(),
        ]
        .map(|plan| Envelope::new(encode(&plan).unwrap()).to_bytes())
    });
    for plan in PLANS.iter() {
        run_in_time(Bytes::copy_from_slice(input), plan);
    }
    static QUERIES: LazyLock<[Select; 2]> = LazyLock::new(|| {
        [
            "SELECT * FROM S3Object",
            "SELECT COUNT(*), MAX(s.s), SUM(s.id) FROM S3Object s WHERE s.s LIKE '%a%'",
        ]
        .map(|expression| {
            let (expression, output) = (expression.to_owned(), Output::Json("\n".to_owned()));
            let compression = Compression::None;
            let request = Request { expression, input: Input::Parquet, compression, output, range: None };
            Select::new(&request).unwrap()
        })
    });
    for select in QUERIES.iter() {
        in_time(|deadline| {
            let object = ObjectWithDeadline(Object(Bytes::copy_from_slice(input)), deadline);
            // Each fault is an answer.
            let _ = rows::run(select, &mut Queried(object), input.len() as u64);
        });
    }
}

fn run_in_time(object: Bytes, envelope: &[u8]) {
    in_time(|deadline| drop(run(&mut ObjectWithDeadline(Object(object), deadline), envelope)));
}

/// Runs code that has a deadline and may panic.
fn in_time(run: impl FnOnce(Duration)) {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let loud = take_hook();
        set_hook(Box::new(move |panic| {
            if !QUIET.get() {
                loud(panic);
            }
        }));
    });
    let deadline = SystemClock.monotonic() + Duration::from_secs(10);
    QUIET.set(true);
    let _ = catch_unwind(AssertUnwindSafe(|| run(deadline)));
    QUIET.set(false);
    assert!(
        SystemClock.monotonic() < deadline + Duration::from_secs(5),
        "the fragment or the query did not stop at its deadline"
    );
}

thread_local! {
    /// Whether the panic hook ignores a panic of this thread, because it will be caught.
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// An object, and the deadline of the call.
struct ObjectWithDeadline(Object, Duration);

impl Ranges for ObjectWithDeadline {
    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }

    fn gap_bytes_max(&self) -> u64 {
        self.0.gap_bytes_max()
    }

    fn read(&mut self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.0.read(ranges)
    }

    fn check_deadline(&mut self) -> Result<()> {
        if SystemClock.monotonic() > self.1 {
            return Err(Error::new(ErrorKind::LimitExceeded, "the deadline has passed"));
        }
        Ok(())
    }
}

/// The object of a query, whose records go nowhere.
struct Queried(ObjectWithDeadline);

impl Host for Queried {
    fn read(&mut self) -> Result<Bytes> {
        panic!("Parquet is not read front to back")
    }

    fn read_range(&mut self, range: Range<u64>) -> Result<Bytes> {
        Ok(self.0.read(&[range])?.remove(0))
    }

    fn write(&mut self, _: Vec<u8>) -> Result<()> {
        Ok(())
    }

    fn unix_ms(&self) -> u64 {
        1_750_000_000_000
    }

    fn check(&mut self, _: Totals) -> Result<()> {
        self.0.check_deadline()
    }
}
