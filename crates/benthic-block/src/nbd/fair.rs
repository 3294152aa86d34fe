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
#[path = "fair_tests.rs"]
mod tests;
