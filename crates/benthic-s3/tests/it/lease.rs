//! Leases: one gateway works on a bucket, also if clocks differ and holders die.

use crate::in_memory;
use crate::sal::Case;
use benthic_core::{Environment, ManualClock, SystemRandom};
use benthic_s3::lease::{self, Lease};
use benthic_s3::sal::{Bucket, RecordKind, Sal, Versioning};
use futures::executor::block_on;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Count {
    count: u64,
}

const DURATION_MS: u64 = 30_000;
const MINUTE_MS: u64 = 60_000;
const KIND: RecordKind = RecordKind::Delivery;

fn environment(unix_ms: u64) -> Environment {
    let clock = Arc::new(ManualClock::default());
    clock.advance_ms(unix_ms);
    Environment { clock, random: Arc::new(SystemRandom) }
}

fn take<'a>(case: &'a Case, environment: &'a Environment, bucket: &Bucket) -> Option<Lease<'a, Count>> {
    let store: (&dyn Sal, &Environment) = (case.sal.as_ref(), environment);
    block_on(Lease::take(store, KIND, DURATION_MS, (bucket, Some("a task")), |progress: &mut Count| {
        progress.count += 1
    }))
    .unwrap()
}

#[test]
fn one_gateway_holds_a_lease_until_it_ends() {
    let pools = in_memory();
    let case = Case::new(&pools, "lease");
    let bucket = case.bucket("b", Versioning::Off);
    let now_ms = case.clock_ms();
    // The clock of the other gateway, and whether it may take the lease.
    for (other_ms, may) in [
        (now_ms, false),
        (now_ms - 1, false),
        (now_ms - 9 * MINUTE_MS, false),
        (now_ms + DURATION_MS - 1, false),
        (now_ms + DURATION_MS, true),
        // One of the clocks is wrong.
        (now_ms - 11 * MINUTE_MS, true),
    ] {
        let (here, there) = (environment(now_ms), environment(other_ms));
        let held = take(&case, &here, &bucket).unwrap();
        let taken = take(&case, &there, &bucket);
        assert_eq!(taken.is_some(), may, "{other_ms} of {now_ms}");
        assert_eq!(block_on(held.release()).unwrap(), !may);
        if let Some(taken) = taken {
            assert!(block_on(taken.release()).unwrap());
        }
    }
}

#[test]
fn progress_outlives_its_holder_and_ends_with_the_bucket() {
    let pools = in_memory();
    let case = Case::new(&pools, "progress");
    let bucket = case.bucket("b", Versioning::Off);
    let progress = |bucket: &Bucket| {
        block_on(lease::progress::<Count>(case.sal.as_ref(), KIND, bucket, Some("a task"))).unwrap()
    };
    assert_eq!(progress(&bucket), None);
    let here = environment(case.clock_ms());
    let mut held = take(&case, &here, &bucket).unwrap();
    held.progress.count = 7;
    assert!(block_on(held.save()).unwrap());
    held.progress.count = 9;
    // It dies, and another one continues with the saved state.
    let later = environment(case.clock_ms() + DURATION_MS);
    let next = take(&case, &later, &bucket).unwrap();
    assert_eq!(next.progress, Count { count: 8 });
    assert!(!block_on(held.save()).unwrap());
    assert!(block_on(next.release()).unwrap());
    assert_eq!(progress(&bucket), Some(Count { count: 8 }));
    block_on(case.sal.delete_bucket("b")).unwrap();
    let again = case.bucket("b", Versioning::Off);
    assert_eq!(progress(&again), None);
    assert_eq!(take(&case, &here, &again).unwrap().progress, Count { count: 1 });
    block_on(case.sal.delete_bucket("b")).unwrap();
    block_on(lease::forget_removed(case.sal.as_ref(), KIND)).unwrap();
    assert_eq!(block_on(case.sal.record(KIND, "b/a task")).unwrap(), None);
}
