//! Runs the linearizability check on every engine of this crate.

use crate::model::{Directory, Memory};
use benthic_testkit::linear::{self, Load};
use benthic_testkit::seed;

const LOAD: Load = Load { threads: 6, ops_per_thread: 60, rounds: 3 };

/// Runs 50 times as many histories in `make test-long`.
fn histories(usual: u64) -> u64 {
    if seed::is_long() { usual * 50 } else { usual }
}

#[test]
fn memory() {
    linear::run(Memory::new, histories(30), LOAD);
}

#[test]
fn embedded() {
    linear::run(|| Directory::new(false), histories(12), LOAD);
}

#[test]
fn socket() {
    linear::run(|| Directory::new(true), histories(8), LOAD);
}
