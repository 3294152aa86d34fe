//! A linearizability checker: concurrent operations on an object must look as if each had taken
//! effect at one moment between its call and its answer.
//!
//! Threads run random operations on a few objects. Every call and every answer takes a number from
//! one counter, which shows the operations that overlapped. For each object, a search then looks
//! for an order of its operations that respects these times and in which the oracle of the [model
//! test](crate::model) gives exactly the engine's answers, including versions (Wing and Gong 1993,
//! with the memoization of Lowe 2017). Between rounds the test closes and reopens the store, which
//! must lose nothing.
//!
//! A failure prints its seed. [`seed`](crate::seed) generates the same operations from it, though
//! threads may interleave differently.

mod search;

use crate::model::Subject;
use crate::model::answer::{answer, without_times};
use crate::random::Rng;
use crate::seed;
use benthic_core::{Compare, ObjectId, Pool, ReadOp, ReadOutput, Result, WriteOp, WriteReply};
use search::{Operation, Outcome, Step};
use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

const OBJECTS: [&str; 3] = ["a", "b", "c"];
/// Number of operations that a failure report shows around the point where the search failed.
const SHOWN: usize = 12;

#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub threads: usize,
    pub ops_per_thread: usize,
    /// Number of rounds. The store is reopened between rounds.
    pub rounds: usize,
}

/// Runs `histories` histories, each on a new subject, and checks them.
///
/// # Panics
/// If a history is not linearizable.
pub fn run<S: Subject>(subject: impl Fn() -> S, histories: u64, load: Load) {
    for seed in seed::many(histories) {
        if let Some(violation) = find_violation(&mut subject(), seed, load) {
            panic!("{violation}");
        }
    }
}

/// Runs one history and returns a description of the violation, if there is one.
pub fn find_violation<S: Subject>(subject: &mut S, seed: u64, load: Load) -> Option<String> {
    let history = Mutex::new(Vec::new());
    let clock = AtomicU64::new(0);
    let namespace = subject.namespaces()[0].clone();
    let objects = OBJECTS.map(|name| ObjectId::in_namespace(&namespace, name));
    let Ok(objects) = objects.into_iter().collect::<Result<Vec<_>>>() else {
        return Some("the subject's namespace cannot be used".to_owned());
    };
    for round in 0..load.rounds {
        if round > 0
            && let Err(error) = subject.reopen()
        {
            return Some(format!("the store did not open again: {error:?}"));
        }
        let pool = subject.pool();
        std::thread::scope(|scope| {
            for thread in 0..load.threads {
                let (pool, objects, history, clock) = (pool.as_ref(), &objects, &history, &clock);
                let random = Rng(seed ^ ((round * load.threads + thread) as u64) << 48);
                scope.spawn(move || {
                    let known = vec![KnownState::default(); objects.len()];
                    let mut worker = Worker { pool, clock, random, known, thread };
                    let mut done = Vec::new();
                    for index in 0..load.ops_per_thread {
                        let object = worker.random.below(objects.len());
                        done.push((object, worker.step(object, &objects[object], index)));
                    }
                    history.lock().unwrap_or_else(std::sync::PoisonError::into_inner).extend(done);
                });
            }
        });
    }
    let history = history.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    (0..objects.len()).find_map(|object| {
        let mut operations: Vec<Operation> =
            history.iter().filter(|(of, _)| *of == object).map(|(_, operation)| operation.clone()).collect();
        operations.sort_by_key(|operation| operation.called);
        let stuck = search::find_stuck(&operations)?;
        let mut text =
            format!("the operations on {} have no linear order that explains their answers", objects[object]);
        let from = stuck.saturating_sub(SHOWN / 2);
        for operation in operations.iter().skip(from).take(SHOWN) {
            let _ = write!(text, "\n  {operation:?}");
        }
        let _ = write!(text, "\nreplay the operations with {}={seed}", seed::VARIABLE);
        Some(text)
    })
}

/// The version and value that a thread last saw of an object, for guards that can succeed.
#[derive(Clone, Default)]
struct KnownState {
    version: u64,
    value: bytes::Bytes,
}

struct Worker<'a> {
    pool: &'a dyn Pool,
    clock: &'a AtomicU64,
    random: Rng,
    known: Vec<KnownState>,
    thread: usize,
}

impl Worker<'_> {
    fn step(&mut self, object: usize, id: &ObjectId, index: usize) -> Operation {
        let step = self.choose(object, index);
        let called = self.clock.fetch_add(1, Ordering::SeqCst);
        let outcome = match &step {
            Step::Read(op) => match answer(self.pool.read(id, op.clone())) {
                Ok(reply) => Outcome::Read(without_times(reply)),
                Err(error) => Outcome::Failed(error.kind()),
            },
            Step::Write(op) => match answer(self.pool.write(id, op.clone())) {
                Ok(WriteReply { version }) => Outcome::Written(version),
                Err(error) => Outcome::Failed(error.kind()),
            },
        };
        let answered = self.clock.fetch_add(1, Ordering::SeqCst);
        self.update_known(object, &outcome);
        Operation { called, answered, step, outcome }
    }

    fn choose(&mut self, object: usize, index: usize) -> Step {
        let known = self.known[object].clone();
        // Every operation writes a unique value, so a value identifies its operation.
        let mut unique = format!("{}.{index};", self.thread).into_bytes();
        let value = unique.clone();
        if self.random.one_in(8) {
            // Some values are too large to be stored inline with the metadata.
            unique.resize(5_000, b'.');
        }
        let op = match self.random.below(12) {
            0 | 1 => WriteOp::new().write_full(unique),
            2 => WriteOp::new().append(unique).set_xattr("by", value),
            3 if known.version > 0 => WriteOp::new().assert_version(known.version).write_full(unique),
            4 => WriteOp::new().cmp_xattr("by", Compare::Eq, known.value).set_xattr("by", value),
            5 => WriteOp::new().remove(),
            6 => WriteOp::new().create(self.random.one_in(4)).omap_set([("last", value)]),
            7 => WriteOp::new().write(self.random.below(6_000) as u64, value),
            8 => return Step::Read(ReadOp::new().stat()),
            _ => return Step::Read(ReadOp::new().read(0, 1 << 20).list_xattrs().omap_range(None, "", 10)),
        };
        Step::Write(if self.random.one_in(2) { op.buffered() } else { op })
    }

    fn update_known(&mut self, object: usize, outcome: &Outcome) {
        let known = &mut self.known[object];
        match outcome {
            Outcome::Written(version) => known.version = *version,
            Outcome::Read(reply) => {
                known.version = reply.version;
                for output in &reply.outputs {
                    if let ReadOutput::Xattrs(xattrs) = output {
                        known.value = xattrs.get("by").cloned().unwrap_or_default();
                    }
                }
            }
            Outcome::Failed(_) => {}
        }
    }
}
