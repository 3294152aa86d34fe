//! What was replaced, deleted or given up, and is to be collected.

use async_trait::async_trait;
use benthic_core::Result;

/// What a collection did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Writes that were given up because their leases had ended.
    pub expired_writes: u64,
    /// Outcomes that were forgotten.
    pub forgotten_outcomes: u64,
    /// Entries of garbage that are done.
    pub entries: u64,
    /// Data objects that were removed.
    pub data_objects: u64,
    /// Buckets that were deleted, or whose making was given up, and of which nothing is left now.
    pub buckets: u64,
}

/// What waits to be collected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// Writes that are not visible yet, whether somebody still works on them or not.
    pub writes: u64,
    /// Outcomes that are kept for repetitions.
    pub outcomes: u64,
    /// Entries of garbage.
    pub entries: u64,
    /// Those of them that may be collected now.
    pub due_entries: u64,
    /// Buckets that were deleted, or whose making is not finished.
    pub buckets: u64,
}

/// Collection of garbage. Several gateways may collect at the same time, and any may die.
#[async_trait]
pub trait Garbage: Send + Sync {
    /// Collects what may be collected now, and finishes what somebody began and did not finish.
    ///
    /// # Errors
    /// As the store; a later collection goes on.
    async fn collect(&self) -> Result<Collected>;

    /// What there is to collect.
    ///
    /// # Errors
    /// As the store.
    async fn pending(&self) -> Result<Pending>;
}
