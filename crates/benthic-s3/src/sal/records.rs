//! Accounts, users and keys: small documents that the gateway understands and the store keeps.

use async_trait::async_trait;
use benthic_core::Result;
use bytes::Bytes;

/// What a record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecordKind {
    /// Somebody who owns buckets.
    Account,
    /// Somebody who acts for an account.
    User,
    /// An access key. Its secret is sealed before it gets here: a driver sees no secret.
    Key,
}

/// A change of one record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordChange {
    /// What it is about.
    pub kind: RecordKind,
    /// Its name, without NUL.
    pub name: String,
    /// What it must be now; absent: it must not be there.
    pub expected: Option<Bytes>,
    /// What it is to be, not empty; absent: it is removed.
    pub new: Option<Bytes>,
}

/// Records, changed by compare-and-swap, several at once: a user and the list of its account, a key and its user.
#[async_trait]
pub trait Records: Send + Sync {
    /// A record; nothing if it is not there.
    ///
    /// # Errors
    /// `InvalidArgument`, as the store.
    async fn record(&self, kind: RecordKind, name: &str) -> Result<Option<Bytes>>;

    /// Changes records, all or none.
    ///
    /// # Errors
    /// `Conflict` if one is not as expected, `InvalidArgument`, `LimitExceeded`.
    async fn swap_records(&self, changes: &[RecordChange]) -> Result<()>;

    /// Names and values of records in the order of their names: those behind `after` that begin with `prefix`, at most
    /// `records_max`, and whether there are more.
    ///
    /// # Errors
    /// As the store.
    async fn list_records(
        &self,
        kind: RecordKind,
        prefix: &str,
        after: Option<&str>,
        records_max: usize,
    ) -> Result<(Vec<(String, Bytes)>, bool)>;
}
