//! Something of which there is a fixed amount, shared fairly by the exports of a server: memory, or
//! places among the requests that run.
//!
//! An export may use at most as much as it leaves free. So one busy export gets a half, two get a
//! third each, and there is always something left for an export that comes next, even if the
//! requests of the others hang. Among exports that wait, the one that uses least is next; none
//! passes it. A queue for all would make a request wait for all that another export has sent
//! before. A fixed part for each export would waste the parts of idle ones. This is the dynamic
//! threshold of A. K. Choudhury and E. L. Hahne ("Dynamic queue length thresholds for
//! shared-memory packet switches", 1998).

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Divides permits between members, such as the exports of a server.
pub struct Fair {
    state: Mutex<FairState>,
}

struct FairState {
    free: u64,
    members: Vec<Member>,
    waiting: usize,
    /// The number of the next request that waits.
    next: u64,
}

#[derive(Default)]
struct Member {
    used: u64,
    waiting: VecDeque<Waiting>,
}

struct Waiting {
    amount: u64,
    number: u64,
    granted: oneshot::Sender<Permit>,
}

/// An amount that a member uses until it drops this.
pub struct Permit {
    fair: Arc<Fair>,
    member: usize,
    amount: u64,
}

impl Fair {
    /// Shares an amount between members, whose numbers start at 0. A single member may use all.
    pub fn new(amount: u64, members: usize) -> Arc<Fair> {
        let members = std::iter::repeat_with(Member::default).take(members).collect();
        Arc::new(Fair { state: Mutex::new(FairState { free: amount, members, waiting: 0, next: 0 }) })
    }

    /// Waits for an amount, which is at most a part of all.
    pub async fn acquire(self: &Arc<Self>, member: usize, amount: u64) -> Permit {
        let granted = {
            let mut state = self.state.lock();
            if state.waiting == 0 && state.may_use(member, amount) {
                return self.take(&mut state, member, amount);
            }
            let (sender, granted) = oneshot::channel();
            let number = state.next;
            state.next += 1;
            state.waiting += 1;
            state.members[member].waiting.push_back(Waiting { amount, number, granted: sender });
            granted
        };
        // This request may be the next one although others wait.
        self.grant();
        granted.await.expect("`self` keeps the queue, and every sender that leaves the queue sends")
    }

    /// True if a request of the member waits, or if less than this amount is free.
    pub fn is_short_of(&self, member: usize, amount: u64) -> bool {
        let state = self.state.lock();
        state.free < amount || !state.members[member].waiting.is_empty()
    }

    fn take(self: &Arc<Self>, state: &mut FairState, member: usize, amount: u64) -> Permit {
        state.free -= amount;
        state.members[member].used += amount;
        Permit { fair: Arc::clone(self), member, amount }
    }

    /// Serves requests that wait.
    fn grant(self: &Arc<Self>) {
        // Requests that nobody waits for any more. Dropping them needs the lock.
        let mut unwanted = Vec::new();
        {
            let mut state = self.state.lock();
            while let Some(member) = state.next_member() {
                let front = state.members[member].waiting.pop_front();
                let Some(Waiting { amount, granted, .. }) = front else { break };
                state.waiting -= 1;
                let permit = self.take(&mut state, member, amount);
                unwanted.extend(granted.send(permit).err());
            }
        }
        drop(unwanted);
    }
}

impl FairState {
    fn may_use(&self, member: usize, amount: u64) -> bool {
        let used = self.members[member].used;
        let is_fair =
            self.members.len() == 1 || used == 0 || used + amount <= self.free.saturating_sub(amount);
        amount <= self.free && is_fair
    }

    /// The member whose request is next, if the request can be served.
    fn next_member(&self) -> Option<usize> {
        if self.waiting == 0 {
            return None;
        }
        let fronts = self.members.iter().enumerate().filter_map(|(member, state)| {
            let front = state.waiting.front()?;
            Some((state.used, front.number, member, front.amount))
        });
        let (_, _, member, amount) = fronts.min()?;
        self.may_use(member, amount).then_some(member)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        {
            let mut state = self.fair.state.lock();
            state.free += self.amount;
            state.members[self.member].used -= self.amount;
            if state.waiting == 0 {
                return;
            }
        }
        self.fair.grant();
    }
}

#[cfg(test)]
mod tests {
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
}
