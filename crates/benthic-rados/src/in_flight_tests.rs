use super::{BYTES_MAX, InFlight, OPERATIONS_MAX};
use benthic_core::{Clock, ErrorKind, ManualClock, ObjectAddress};
use futures::FutureExt;
use futures::executor::block_on;
use std::sync::Arc;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3_600);

fn in_flight(timeout: Duration) -> Arc<InFlight> {
    InFlight::new(timeout, Arc::new(ManualClock::default()))
}

fn object() -> ObjectAddress {
    "p/o".parse().unwrap()
}

#[test]
fn the_oldest_operation_is_known_until_it_ends() {
    let clock = Arc::new(ManualClock::default());
    let room = InFlight::new(HOUR, Arc::clone(&clock) as Arc<dyn Clock>);
    assert_eq!(room.oldest(), None);
    let first = block_on(room.enter(1, "p/first".parse().unwrap())).unwrap();
    clock.advance_ms(2_000);
    let second = block_on(room.enter(1, "p/second".parse().unwrap())).unwrap();
    assert_eq!(
        (room.oldest().unwrap().object.to_string(), room.oldest_since()),
        ("p/first".into(), Some(Duration::ZERO))
    );
    drop(first);
    assert_eq!(room.oldest_since(), Some(Duration::from_secs(2)));
    drop(second);
    assert_eq!(room.oldest(), None);
}

#[test]
fn operations_over_the_limit_wait_for_room() {
    let room = in_flight(HOUR);
    let mut inside: Vec<_> =
        (0..OPERATIONS_MAX).map(|_| block_on(room.enter(1, object())).unwrap()).collect();
    let mut waiting = Box::pin(room.enter(1, object()));
    assert!((&mut waiting).now_or_never().is_none());
    inside.pop();
    assert!(waiting.now_or_never().is_some_and(|entered| entered.is_ok()));
}

#[test]
fn bytes_over_the_limit_wait_in_order() {
    let room = in_flight(HOUR);
    let half = block_on(room.enter(BYTES_MAX / 2, object())).unwrap();
    let mut large = Box::pin(room.enter(BYTES_MAX, object()));
    assert!((&mut large).now_or_never().is_none());
    let mut small = Box::pin(room.enter(1, object()));
    assert!((&mut small).now_or_never().is_none(), "the small one overtook the large one");
    drop(half);
    let large = large.now_or_never().unwrap().unwrap();
    assert!((&mut small).now_or_never().is_none());
    drop(large);
    assert!(small.now_or_never().unwrap().is_ok());
}

#[test]
fn a_cancelled_operation_frees_its_room() {
    let room = in_flight(HOUR);
    let all = block_on(room.enter(BYTES_MAX, object())).unwrap();
    let mut gone = Box::pin(room.enter(BYTES_MAX, object()));
    assert!((&mut gone).now_or_never().is_none());
    let mut granted = Box::pin(room.enter(BYTES_MAX, object()));
    assert!((&mut granted).now_or_never().is_none());
    let mut last = Box::pin(room.enter(BYTES_MAX, object()));
    assert!((&mut last).now_or_never().is_none());
    drop(gone);
    drop(all);
    // The permit was granted, but the future is dropped before it is polled again.
    drop(granted);
    assert!(last.now_or_never().unwrap().is_ok());
}

#[test]
fn cancelled_operations_do_not_accumulate() {
    let room = in_flight(HOUR);
    let all = block_on(room.enter(BYTES_MAX, object())).unwrap();
    let mut first = Box::pin(room.enter(1, object()));
    assert!((&mut first).now_or_never().is_none());
    for _ in 0..3 * OPERATIONS_MAX {
        assert!(room.enter(1, object()).now_or_never().is_none());
    }
    assert!(room.admission.lock().waiting.len() <= OPERATIONS_MAX);
    drop(all);
    assert!(first.now_or_never().is_some_and(|entered| entered.is_ok()));
}

#[test]
fn a_time_out_ends_equally_long_waits() {
    for (timeout, ends) in [(Duration::ZERO, true), (HOUR, false)] {
        let room = in_flight(timeout);
        let mut all = block_on(room.enter(BYTES_MAX, object())).unwrap();
        let mut waiting = Box::pin(room.enter(1, object()));
        assert!((&mut waiting).now_or_never().is_none());
        all.timed_out();
        drop(all);
        let entered = waiting.now_or_never().unwrap();
        assert_eq!(entered.err().map(|error| error.kind()), ends.then_some(ErrorKind::Unavailable));
    }
}
