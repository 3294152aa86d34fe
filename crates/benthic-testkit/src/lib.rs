//! Test support for Benthic's crates, used only as a dev-dependency.
//!
//! - [`cluster`]: the Ceph cluster that tests share.
//! - [`conformance`]: the suite that defines the contracts of `benthic-core`. Every engine passes
//!   all of it.
//! - [`corpus`]: runs the corpus of the fuzzer again.
//! - [`faulty`]: a pool that injects faults into writes.
//! - [`linear`]: a linearizability checker for operations of many threads.
//! - [`model`]: random compound operations, compared with an oracle in memory.
//! - [`mounts`]: mount namespaces.
//! - [`power`]: simulated power cuts and disk failures, from a record of all file changes of a
//!   process.
//! - [`program`]: runs a program in a temporary directory, as a user does.
//! - [`random`]: random numbers and bytes from a seed.
//! - [`seed`]: the seeds of random tests.
//! - [`wait`]: pauses, and waiting for a condition.

pub mod cluster;
pub mod conformance;
pub mod corpus;
pub mod devices;
pub mod faulty;
pub mod linear;
pub mod model;
pub mod mounts;
pub mod power;
pub mod program;
pub mod random;
pub mod seed;
pub mod wait;
