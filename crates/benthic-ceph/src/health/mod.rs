//! Reports the state of a cluster, the causes, and the next steps. It also finds faults that Ceph's
//! own health status does not show.
//!
//! [`gather`] queries the monitors and the manager and changes nothing. [`judge`] turns their
//! answers into a [`report`]. It sends no queries: its findings follow from the
//! [`Snapshot`](snapshot::Snapshot) alone.

pub mod calls;
pub mod checks;
pub mod gather;
pub mod growth;
pub mod history;
mod history_file;
mod hung;
pub mod judge;
pub mod limits;
pub mod metrics;
pub mod overview;
pub mod refusal;
pub mod report;
pub mod snapshot;
mod timestamp;

#[cfg(test)]
mod guide_tests;
#[cfg(test)]
mod sources_tests;
#[cfg(test)]
mod tests;
