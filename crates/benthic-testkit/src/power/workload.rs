//! The workload of the recorded process: several threads run random operations on a few objects and
//! write a mark into the record before and after each.

use crate::random::Rng;
use benthic_core::{ErrorKind, ObjectId, Result, Store, WriteOp, WriteStep};
use futures::executor::block_on;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

/// The pool that exists from the first session on.
const POOL: &str = "p";
const LARGE_BYTES: usize = 1_100_000;

/// A workload. Equal values produce equal actions.
#[derive(Clone, Copy, Debug)]
pub struct Script {
    pub seed: u64,
    pub threads: usize,
    /// Actions per thread and session. The store is closed and reopened between sessions.
    pub actions: usize,
    /// Whether threads change the same objects. If `false`, sessions do not share objects either,
    /// so an operation with an unknown outcome is the last one on its object.
    pub shared: bool,
}

#[derive(Clone, Debug)]
pub enum Action {
    Write {
        pool: String,
        object: String,
        op: WriteOp,
    },
    Flush,
    /// Creates a pool. Each name is used once.
    CreatePool(String),
    RemovePool(String),
}

impl Script {
    /// The actions of a thread in a session, in order.
    pub fn thread(&self, session: usize, thread: usize) -> Vec<Action> {
        let mut rng = Rng(self.seed ^ ((session as u64) << 32 | thread as u64) << 8);
        let mut actions = Vec::new();
        if thread == 0 && session == 0 {
            actions.push(Action::CreatePool(POOL.to_owned()));
        }
        let extra = format!("x{session}");
        for index in 0..self.actions {
            let object = format!("o{}", rng.below(4));
            let object = if self.shared { object } else { format!("{session}-{thread}-{object}") };
            let unique = format!("{session}.{thread}.{index}");
            actions.push(match rng.below(14) {
                0 => Action::Flush,
                1 if thread == 0 => {
                    let op = write_op(&mut rng, &unique);
                    Action::Write { pool: extra.clone(), object, op }
                }
                _ => Action::Write { pool: POOL.to_owned(), object, op: write_op(&mut rng, &unique) },
            });
        }
        if thread == 0 && self.actions >= 4 {
            // Large enough that the engine returns the space to the file system.
            let large =
                |op: WriteOp| Action::Write { pool: POOL.to_owned(), object: format!("large{session}"), op };
            actions.insert(actions.len() / 5, large(WriteOp::new().write_full(rng.bytes(LARGE_BYTES))));
            actions.insert(actions.len() / 2, large(WriteOp::new().remove()));
            actions.insert(actions.len() / 4, Action::CreatePool(extra.clone()));
            actions.insert(actions.len() * 3 / 4, Action::RemovePool(extra));
        }
        actions
    }
}

/// Every operation that does not remove the object sets a unique attribute, which identifies the
/// operation.
fn write_op(rng: &mut Rng, unique: &str) -> WriteOp {
    let noise = |rng: &mut Rng, from: usize, to: usize| {
        let len = from + rng.below(to - from);
        rng.bytes(len)
    };
    let op = WriteOp::new();
    let op = match rng.below(16) {
        0..=2 => op.write_full(noise(rng, 0, 300)),
        3 => op.write_full(noise(rng, 4_097, 20_000)),
        4 => op.write_full(noise(rng, 60_000, 200_000)),
        5 if rng.one_in(6) => op.write_full(noise(rng, LARGE_BYTES, LARGE_BYTES + 9)),
        5..=7 => op.write(rng.below(100_000) as u64, noise(rng, 1, 9_000)),
        8 => op.append(noise(rng, 1, 5_000)),
        9 => op.truncate(rng.below(150_000) as u64),
        10 => op.zero(rng.below(50_000) as u64, 1 + rng.below(50_000) as u64),
        11 | 12 => {
            let entries: Vec<_> = (0..1 + rng.below(4))
                .map(|_| (format!("key {}", rng.below(9)), noise(rng, 0, 3_000)))
                .collect();
            op.omap_set(entries)
        }
        13 => op.set_xattr("other", noise(rng, 0, 500)),
        14 => op.omap_set([("key 1", "last")]).write(0, noise(rng, 1, 70_000)),
        _ => op.remove(),
    };
    let removes = op.steps.last() == Some(&WriteStep::Remove);
    let op = if removes { op } else { op.set_xattr("unique", unique.to_owned()) };
    if rng.one_in(3) { op.buffered() } else { op }
}

/// Runs one session on an open store. Each thread runs its actions in order and stops at the first
/// error other than `not_found` and `limit_exceeded`.
pub fn run(script: &Script, session: usize, store: &dyn Store, marks: &Path) {
    let Ok(marks) = OpenOptions::new().create(true).append(true).open(marks) else {
        panic!("the marks file cannot be opened path={}", marks.display());
    };
    // The first action of the first session creates the pool that all threads use.
    let done = usize::from(session == 0);
    for action in script.thread(session, 0).iter().take(done) {
        act_marked(store, &marks, &format!("{session} 0 0"), action);
    }
    std::thread::scope(|scope| {
        for thread in 0..script.threads {
            let marks = &marks;
            scope.spawn(move || {
                let skip = if thread == 0 { done } else { 0 };
                for (index, action) in script.thread(session, thread).iter().enumerate().skip(skip) {
                    if !act_marked(store, marks, &format!("{session} {thread} {index}"), action) {
                        return;
                    }
                }
            });
        }
    });
}

/// Writes a line into the record with one write call.
pub fn mark(mut marks: &File, text: &str) {
    if marks.write_all(text.as_bytes()).is_err() {
        panic!("a mark cannot be written");
    }
}

/// Returns whether the thread should continue.
fn act_marked(store: &dyn Store, marks: &File, place: &str, action: &Action) -> bool {
    mark(marks, &format!("begin {place}"));
    match act(store, action) {
        Ok(version) => mark(marks, &format!("done {place} {version}")),
        Err(error) => {
            mark(marks, &format!("failed {place} {} {error}", error.kind()));
            return matches!(error.kind(), ErrorKind::NotFound | ErrorKind::LimitExceeded);
        }
    }
    true
}

fn act(store: &dyn Store, action: &Action) -> Result<u64> {
    match action {
        Action::Flush => block_on(store.flush()).map(|()| 0),
        Action::CreatePool(name) => block_on(store.create_pool(name)).map(|()| 0),
        Action::RemovePool(name) => block_on(store.remove_pool(name)).map(|()| 0),
        Action::Write { pool, object, op } => {
            let pool = block_on(store.open_pool(pool))?;
            block_on((*pool).write(&ObjectId::new(object.as_str())?, op.clone())).map(|reply| reply.version)
        }
    }
}
