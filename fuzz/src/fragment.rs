//! Fuzzes the class `table` with any plan on a good object and with any object under good plans.
//! Neither may abort an OSD or exhaust its memory or threads. The class library catches panics, so
//! a panic is no finding here; an abort, a stack overflow, or much memory or time is.

use super::common::{self, Object};
use benthic_core::{Clock, Error, ErrorKind, Result, SystemClock};
use benthic_fragment::fragment::{Envelope, OfObject, Ranges, encode, run};
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
}

fn run_in_time(object: Bytes, envelope: &[u8]) {
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
    let _ =
        catch_unwind(AssertUnwindSafe(|| run(&mut ObjectWithDeadline(Object(object), deadline), envelope)));
    QUIET.set(false);
    assert!(
        SystemClock.monotonic() < deadline + Duration::from_secs(5),
        "the fragment did not stop at its deadline"
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
