//! What Benthic's tests stand on; a dev-dependency only.
//!
//! - [`conformance`]: the suite that defines the contracts of `benthic-core`. Every engine runs all of it.
//! - [`faulty`]: a pool whose writes a test changes or refuses.
//! - [`linear`]: operations of many threads, and the search for an order that explains their answers.
//! - [`model`]: random compound operations against an oracle in memory.
//! - [`power`]: what power cuts leave and what failing disks do, from a record of all that a process did to its files.
//! - [`program`]: a program in a directory of its own, run as its users run it.
//! - [`seed`]: the seeds of random tests.

pub mod conformance;
pub mod faulty;
pub mod linear;
pub mod model;
pub mod power;
pub mod program;
pub mod seed;
