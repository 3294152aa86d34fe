//! What Benthic's tests stand on; a dev-dependency only.
//!
//! - [`conformance`]: the suite that defines the contracts of `benthic-core`. Every engine runs all of it.
//! - [`model`]: random compound operations against an oracle in memory.

pub mod conformance;
pub mod model;
