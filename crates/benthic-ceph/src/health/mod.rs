//! How a cluster is, why, and what to do about it; also when it calls itself healthy and something is wrong.
//!
//! [`gather`] asks the monitors and the manager and changes nothing. [`judge`] makes a [`report`] of what they said, and asks
//! nobody: what it finds follows from the [`Snapshot`](snapshot::Snapshot) alone.

pub mod calls;
pub mod checks;
pub mod gather;
pub mod growth;
pub mod history;
mod history_file;
pub mod judge;
pub mod limits;
pub mod metrics;
pub mod overview;
pub mod report;
pub mod snapshot;
mod timestamp;

#[cfg(test)]
mod guide_tests;
#[cfg(test)]
mod tests;
