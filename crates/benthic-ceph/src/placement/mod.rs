//! Shows at which sites the replicas and the primaries of pools are, and moves primaries to one
//! site. Clients send every operation to the primary, and reads involve no other replica.
//!
//! All queries go through the monitors and the manager. Ceph's own tools compute the effect of a
//! rule ([`preview`]); they block for seconds on a large map. Only [`apply`] changes the cluster.

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
