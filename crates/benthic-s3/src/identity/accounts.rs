//! Accounts. Every record in an account names the account, but nothing counts the records of an
//! account. So that nothing appears in an account while it is removed, its removal first marks it:
//! everything that is created in an account compares the account's record in the same swap.

use super::{CAPITALS, FORM, Identities, IdentityKind, change, check_name, exists, full_name};
use crate::sal::{RecordChange, RecordKind};
use benthic_core::{Error, Result};
use serde::{Deserialize, Serialize};

/// Maximum number of users of an account.
pub const USERS_MAX: usize = 5_000;
/// Maximum number of groups of an account.
pub const GROUPS_MAX: usize = 500;
/// Maximum number of roles of an account.
pub const ROLES_MAX: usize = 5_000;
/// Maximum number of managed policies of an account.
pub const POLICIES_MAX: usize = 5_000;
/// Maximum number of identity providers of an account.
pub const PROVIDERS_MAX: usize = 100;

/// The account of the policies that every store has.
pub(super) const BUILT_IN_ACCOUNT: &str = "aws";
const MARK_LEN: usize = 20;

pub(super) fn identities_max(kind: IdentityKind) -> usize {
    match kind {
        IdentityKind::User => USERS_MAX,
        IdentityKind::Group => GROUPS_MAX,
        IdentityKind::Role => ROLES_MAX,
    }
}

/// An owner of buckets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// Version of the record's format.
    pub form: u32,
    /// Milliseconds since 1970 (UTC).
    pub created_ms: u64,
    /// Whether the keys of the account are refused.
    pub suspended: bool,
    /// The mark of a removal that has begun: a random text. Nothing can be created in the account
    /// any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removal: Option<String>,
}

impl Identities {
    /// Creates an account.
    ///
    /// # Errors
    /// `InvalidArgument`, `AlreadyExists`.
    pub async fn create_account(&self, name: &str) -> Result<Account> {
        check_name(name)?;
        if name == BUILT_IN_ACCOUNT {
            let message = "the account `aws` is reserved for built-in policies; choose another name";
            return Err(Error::invalid_argument(message));
        }
        let created_ms = self.environment.unix_ms();
        let account = Account { form: FORM, created_ms, suspended: false, removal: None };
        let changes = [change(RecordKind::Account, name, None, Some(&account))?];
        self.swap(&changes, |error| exists(error, "account", name)).await?;
        Ok(account)
    }

    pub async fn account(&self, name: &str) -> Result<Account> {
        self.get(RecordKind::Account, name, "no such account; `benthic s3 account ls` lists the accounts")
            .await
    }

    pub async fn accounts(&self) -> Result<Vec<(String, Account)>> {
        self.all(RecordKind::Account, "").await
    }

    /// A part of the swap that creates something in an account, such as a
    /// [bucket](crate::sal::NewBucket): the swap fails if the account is removed meanwhile.
    ///
    /// # Errors
    /// `NotFound`; `Busy` if the removal of the account has begun.
    pub async fn in_account(&self, name: &str) -> Result<RecordChange> {
        let found = self.account(name).await?;
        if found.removal.is_some() {
            return Err(Error::busy("the account is being removed")
                .with("account", name)
                .with("next", "if that was interrupted, `benthic s3 account rm` ends it"));
        }
        change(RecordKind::Account, name, Some(&found), Some(&found))
    }

    /// Removes an account that has no users, keys, groups, roles, policies, buckets, KMS keys,
    /// targets of events and identity providers. Its name can be used again: a later account of
    /// this name gets the objects and the grants of the removed one.
    ///
    /// # Errors
    /// `NotFound`; `Conflict` if it has one of these, or changes at the same time.
    pub async fn remove_account(&self, name: &str) -> Result<()> {
        let found = self.account(name).await?;
        self.check_removable(name, &found).await?;
        // Each removal has a mark of its own, so that none continues after another one has ended.
        let marked = Account { removal: Some(self.draw("", MARK_LEN, CAPITALS)?), ..found.clone() };
        self.replace(RecordKind::Account, name, &found, Some(&marked)).await?;
        // This sees everything that was created before the mark, and nothing is created after it.
        self.check_removable(name, &marked).await?;
        self.replace(RecordKind::Account, name, &marked, None::<&Account>).await
    }

    /// As [`check_unused`](Identities::check_unused), and removes the mark of a removal from an
    /// account that stays: that of this removal, or of one that died.
    async fn check_removable(&self, name: &str, found: &Account) -> Result<()> {
        let Err(error) = self.check_unused(name).await else { return Ok(()) };
        if found.removal.is_some() {
            let kept = Account { removal: None, ..found.clone() };
            self.replace(RecordKind::Account, name, found, Some(&kept)).await?;
        }
        Err(error)
    }

    /// # Errors
    /// `Conflict` if the account has something that keeps it from being removed.
    async fn check_unused(&self, name: &str) -> Result<()> {
        let in_use = |what| {
            Err(Error::conflict(format!("the account has {what}; remove them first")).with("account", name))
        };
        for (kind, what) in [
            (RecordKind::User, "users"),
            (RecordKind::Group, "groups"),
            (RecordKind::Role, "roles"),
            (RecordKind::Policy, "policies"),
            (RecordKind::EventTarget, "targets of events"),
            (RecordKind::OidcProvider, "identity providers"),
        ] {
            if !self.sal.list_records(kind, &full_name(name, ""), None, 1).await?.0.is_empty() {
                return in_use(what);
            }
        }
        if !self.sal.list_buckets(name, None, 1).await?.0.is_empty() {
            return in_use("buckets");
        }
        if self.keys().await?.iter().any(|(_, key)| key.account == name) {
            return in_use("keys");
        }
        if self.kms_keys().await?.iter().any(|(_, key)| key.account == name) {
            return in_use("KMS keys");
        }
        Ok(())
    }

    /// Suspends an account, or ends the suspension. Running gateways notice within
    /// [`KEY_CACHE_MS`](super::KEY_CACHE_MS).
    ///
    /// # Errors
    /// `NotFound`, `Conflict`.
    pub async fn suspend_account(&self, name: &str, suspended: bool) -> Result<()> {
        let found = self.account(name).await?;
        let new = Account { suspended, ..found.clone() };
        self.replace(RecordKind::Account, name, &found, Some(&new)).await
    }
}
