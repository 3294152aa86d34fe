//! Records of accounts, identities, policies, keys and tasks: small documents that the gateway
//! interprets and the driver only stores.

use async_trait::async_trait;
use benthic_core::Result;
use bytes::Bytes;

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecordKind {
    Account,
    /// A user, who acts for an account.
    User,
    /// A group of users.
    Group,
    /// A role, which others assume.
    Role,
    /// A managed policy.
    Policy,
    /// An access key. The gateway seals its secret, so a driver never sees it.
    Key,
    /// A key that encrypts data keys. The gateway seals it.
    KmsKey,
    /// The state of a bucket's lifecycle.
    Task,
    /// The state of the delivery of a bucket's events.
    Delivery,
    /// A target of events.
    EventTarget,
    /// A storage class.
    StorageClass,
    /// An identity provider (OpenID Connect).
    OidcProvider,
}

/// A change of one record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordChange {
    pub kind: RecordKind,
    /// Without NUL.
    pub name: String,
    /// The required current value; `None` requires that the record does not exist.
    pub expected: Option<Bytes>,
    /// The new value, not empty; `None` removes the record.
    pub new: Option<Bytes>,
}

/// Records, which change by compare-and-swap. One swap can change several, for example a user and
/// its account, or a key and its user.
#[async_trait]
pub trait Records: Send + Sync {
    /// Reads a record; `None` if it does not exist.
    ///
    /// # Errors
    /// `InvalidArgument`, those of the store.
    async fn record(&self, kind: RecordKind, name: &str) -> Result<Option<Bytes>>;

    /// Changes all of the records, or none.
    ///
    /// # Errors
    /// `Conflict` if a record does not have its expected value, `InvalidArgument`, `LimitExceeded`.
    async fn swap_records(&self, changes: &[RecordChange]) -> Result<()>;

    /// Lists at most `records_max` records with this name prefix, in name order, starting after
    /// `after`. The flag says whether there are more.
    async fn list_records(
        &self,
        kind: RecordKind,
        prefix: &str,
        after: Option<&str>,
        records_max: usize,
    ) -> Result<(Vec<(String, Bytes)>, bool)>;
}
