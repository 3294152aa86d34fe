use super::{Fair, Permit};
use futures::FutureExt;
use std::sync::Arc;

/// A permit that is there at once, or `None`.
fn now(fair: &Arc<Fair>, member: usize, amount: u64) -> Option<Permit> {
    fair.acquire(member, amount).now_or_never()
}

fn all(fair: &Arc<Fair>, member: usize) -> Vec<Permit> {
    std::iter::from_fn(|| now(fair, member, 1)).collect()
}

#[test]
fn a_single_member_may_use_everything() {
    let fair = Fair::new(10, 1);
    let permits = all(&fair, 0);
    assert_eq!(permits.len(), 10);
    drop(permits);
    assert!(now(&fair, 0, 10).is_some());
}

#[test]
fn members_that_use_all_they_can_leave_some_for_the_next() {
    let fair = Fair::new(120, 4);
    let first = all(&fair, 0);
    let second = all(&fair, 1);
    let third = all(&fair, 2);
    assert_eq!((first.len(), second.len(), third.len()), (60, 30, 15));
    assert_eq!(all(&fair, 3).len(), 7);
    // As requests end, all get the same.
    drop(first);
    drop(second);
    assert!(all(&fair, 3).len() >= 29);
}

#[test]
fn a_request_of_any_size_passes_if_its_member_uses_nothing() {
    let fair = Fair::new(100, 3);
    let large = now(&fair, 0, 80).unwrap();
    assert!(now(&fair, 0, 1).is_none());
    assert!(now(&fair, 1, 20).is_some());
    assert!(now(&fair, 1, 21).is_none());
    drop(large);
    assert!(now(&fair, 0, 100).is_some());
}

#[test]
fn the_member_that_uses_least_is_next() {
    let fair = Fair::new(4, 3);
    let mut busy = all(&fair, 0);
    let other = now(&fair, 1, 1).unwrap();
    let last = now(&fair, 2, 1).unwrap();
    assert_eq!(busy.len(), 2);
    let mut waiting: Vec<_> = [0, 0, 1, 2].map(|member| Box::pin(fair.acquire(member, 1))).into();
    assert!(waiting.iter_mut().all(|waiting| waiting.now_or_never().is_none()));
    drop(last);
    // The third member uses nothing now.
    let mut third = waiting.pop().unwrap();
    let third = third.as_mut().now_or_never().unwrap();
    drop(busy.pop());
    assert!(waiting.iter_mut().all(|waiting| waiting.now_or_never().is_none()));
    drop(third);
    drop(other);
    assert!(waiting[2].as_mut().now_or_never().is_some());
}

#[test]
fn requests_that_nobody_waits_for_keep_nothing() {
    let fair = Fair::new(2, 2);
    let permit = now(&fair, 0, 2).unwrap();
    let mut dropped = Box::pin(fair.acquire(1, 1));
    assert!(dropped.as_mut().now_or_never().is_none());
    let mut granted = Box::pin(fair.acquire(1, 1));
    assert!(granted.as_mut().now_or_never().is_none());
    drop(dropped);
    drop(permit);
    drop(granted);
    assert!(!fair.is_short_of(1, 2));
    assert!(now(&fair, 0, 2).is_some());
}

#[test]
fn equal_members_take_turns() {
    let fair = Fair::new(1, 3);
    let mut permit = now(&fair, 2, 1);
    let mut served = [0; 3];
    let mut waiting: Vec<_> = (0..3).map(|member| (member, Box::pin(fair.acquire(member, 1)))).collect();
    assert!(waiting.iter_mut().all(|(_, waiting)| waiting.now_or_never().is_none()));
    for _ in 0..30 {
        drop(permit.take());
        let at = waiting.iter_mut().position(|(_, waiting)| {
            permit = waiting.now_or_never();
            permit.is_some()
        });
        let (member, _) = waiting.remove(at.unwrap());
        served[member] += 1;
        waiting.push((member, Box::pin(fair.acquire(member, 1))));
        assert!(waiting.last_mut().unwrap().1.as_mut().now_or_never().is_none());
    }
    assert_eq!(served, [10; 3]);
}
