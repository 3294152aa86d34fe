//! Garbage collection: removal of data that were replaced, deleted or abandoned.

use async_trait::async_trait;
use benthic_core::Result;

/// The counters of a collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "identity", derive(serde::Serialize))]
pub struct CollectionStats {
    /// Writes that were abandoned because their leases had expired.
    pub expired_writes: u64,
    /// Outcomes of writes that were removed because their retention time had passed.
    pub forgotten_outcomes: u64,
    /// Garbage entries that were processed.
    pub entries: u64,
    pub data_objects: u64,
    /// Deleted or half-created buckets whose last remains were removed.
    pub buckets: u64,
}

/// The garbage that waits for collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "identity", derive(serde::Serialize))]
pub struct PendingGarbage {
    /// Writes that are not visible yet, whether they are in progress or abandoned.
    pub writes: u64,
    /// Outcomes that are kept so that a retried write can find them.
    pub outcomes: u64,
    pub entries: u64,
    /// Garbage entries that may be collected now.
    pub due_entries: u64,
    /// Deleted or half-created buckets that still have remains.
    pub buckets: u64,
}

/// Garbage collection. Several gateways may collect at the same time, and any of them may crash.
#[async_trait]
pub trait Garbage: Send + Sync {
    /// Collects everything that is due, and completes operations that a crashed gateway left
    /// unfinished.
    ///
    /// # Errors
    /// Those of the store; a later collection continues.
    async fn collect(&self) -> Result<CollectionStats>;

    /// Counts the garbage that waits for collection.
    async fn pending(&self) -> Result<PendingGarbage>;
}
