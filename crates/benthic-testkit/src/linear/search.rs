//! The search for a linear order, a depth-first search with memoization of visited states.

use crate::model::oracle::{self, Object};
use benthic_core::{ErrorKind, ReadOp, ReadReply, WriteOp};
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Read(ReadOp),
    Write(WriteOp),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    Read(ReadReply),
    Written(u64),
    Failed(ErrorKind),
}

#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub called: u64,
    pub answered: u64,
    pub step: Step,
    pub outcome: Outcome,
}

/// The state of an object between two operations. Removal keeps the version, because the next
/// version must be greater.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct ObjectVersion {
    object: Option<Arc<Object>>,
    version: u64,
}

impl ObjectVersion {
    /// Returns the state after the operation if the oracle gives the same answer, else `None`.
    fn after(&self, operation: &Operation) -> Option<ObjectVersion> {
        let object = self.object.as_deref();
        match (&operation.step, &operation.outcome) {
            (Step::Read(op), outcome) => {
                let expected = oracle::read(object, self.version, op);
                let same = match (expected, outcome) {
                    (Ok(outputs), Outcome::Read(reply)) => {
                        reply.version == self.version && outputs == reply.outputs
                    }
                    (Err(expected), Outcome::Failed(kind)) => expected == *kind,
                    _ => false,
                };
                same.then(|| self.clone())
            }
            (Step::Write(op), outcome) => match (oracle::write(object, self.version, op), outcome) {
                (Ok(written), Outcome::Written(version)) if *version > self.version => {
                    Some(ObjectVersion { object: written.object.map(Arc::new), version: *version })
                }
                (Err(expected), Outcome::Failed(kind)) if expected == *kind => Some(self.clone()),
                _ => None,
            },
        }
    }
}

/// Looks for a linear order of `operations`, which are sorted by call time. Returns `None` if there
/// is one. Otherwise returns the index of the operation that no partial order gets past.
pub(crate) fn find_stuck(operations: &[Operation]) -> Option<usize> {
    let mut taken = vec![false; operations.len()];
    let mut state = ObjectVersion::default();
    // The search path: each operation taken, and the state before it.
    let mut path: Vec<(usize, ObjectVersion)> = Vec::new();
    let mut visited: HashSet<(u64, ObjectVersion)> = HashSet::new();
    let (mut from, mut farthest) = (0, 0);
    loop {
        let first = taken.iter().position(|taken| !taken).unwrap_or(taken.len());
        farthest = farthest.max(first);
        if first == taken.len() {
            return None;
        }
        let next =
            candidates(operations, &taken, first).into_iter().filter(|at| *at >= from).find_map(|at| {
                let after = state.after(&operations[at])?;
                taken[at] = true;
                let new = visited.insert((fingerprint(&taken), after.clone()));
                taken[at] = new;
                new.then_some((at, after))
            });
        match next {
            Some((at, after)) => {
                path.push((at, std::mem::replace(&mut state, after)));
                from = 0;
            }
            None => {
                let Some((at, before)) = path.pop() else { return Some(farthest) };
                taken[at] = false;
                state = before;
                from = at + 1;
            }
        }
    }
}

/// Operations that may come next: those called before the first answer among the remaining
/// operations.
fn candidates(operations: &[Operation], taken: &[bool], first: usize) -> Vec<usize> {
    let mut end = u64::MAX;
    let mut found = Vec::new();
    for at in (first..operations.len()).filter(|at| !taken[*at]) {
        if operations[at].called > end {
            break;
        }
        end = end.min(operations[at].answered);
        found.push(at);
    }
    found
}

fn fingerprint(taken: &[bool]) -> u64 {
    let mut hasher = DefaultHasher::new();
    taken.hash(&mut hasher);
    hasher.finish()
}
