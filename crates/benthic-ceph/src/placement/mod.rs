//! Where the data of pools are, and where their primaries are: what clients reach first, and all that reads reach.
//!
//! Everything is asked of the cluster through the monitors and the manager. What a rule would do is computed by Ceph's own
//! tools ([`preview`]), which block for seconds on a large map. Only [`apply`] changes anything.

pub mod apply;
pub mod crush;
pub mod latency;
pub mod lint;
pub mod plan;
pub mod preview;
pub mod resize;
pub mod rule;
pub mod simulate;
pub mod snapshot;
pub mod spread;
pub mod text;

#[cfg(test)]
mod tests;
