//! What an OSD's memory and threads must survive: any plan over an object, any object under a plan. The library catches what
//! panics, so that is no finding here; an abort, an overflown stack, much memory or much time is.

use super::common;
use benthic_core::{Error, ErrorKind, Result};
use benthic_fragment::fragment::{Envelope, Ranges, encode, run};
use bytes::Bytes;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};
use std::sync::{LazyLock, Once};
use std::time::{Duration, Instant};

pub type Target = fn(&[u8]);

pub const TARGETS: [(&str, Target); 2] = [("fragment", fragment), ("parquet", parquet)];

/// Any plan over a good object.
pub fn fragment(input: &[u8]) {
    static OBJECT: LazyLock<Bytes> = LazyLock::new(|| common::lineitem_of(200).parquet);
    survived(OBJECT.clone(), &Envelope::new(Bytes::copy_from_slice(input)).to_bytes());
}

/// Any object, under a plan that reads strings, makes others and adds numbers.
pub fn parquet(input: &[u8]) {
    static PLANS: LazyLock<[Bytes; 2]> = LazyLock::new(|| {
        [common::bombs::plan(), common::q1()].map(|plan| Envelope::new(encode(&plan).unwrap()).to_bytes())
    });
    for plan in PLANS.iter() {
        survived(Bytes::copy_from_slice(input), plan);
    }
}

fn survived(object: Bytes, envelope: &[u8]) {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| set_hook(Box::new(|_| {})));
    let deadline = Instant::now() + Duration::from_secs(10);
    let _ = catch_unwind(AssertUnwindSafe(|| run(&mut Object { data: object, deadline }, envelope)));
    assert!(Instant::now() < deadline + Duration::from_secs(5), "it did not stop at its deadline");
}

struct Object {
    data: Bytes,
    deadline: Instant,
}

impl Ranges for Object {
    fn size_bytes(&self) -> u64 {
        self.data.len() as u64
    }

    fn gap_bytes_max(&self) -> u64 {
        64
    }

    fn read(&mut self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        Ok(ranges.iter().map(|range| self.data.slice(range.start as usize..range.end as usize)).collect())
    }

    fn go_on(&mut self) -> Result<()> {
        if Instant::now() > self.deadline {
            return Err(Error::new(ErrorKind::LimitExceeded, "the time is over"));
        }
        Ok(())
    }
}
