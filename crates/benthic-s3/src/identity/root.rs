//! An account as a user of its own, the *root user* of AWS: it has all rights of the account, no
//! policy of IAM limits it, and it has no record, only keys.

use super::{FORM, Identities, Identity, IdentityKind, change, full_name};
use crate::sal::{RecordChange, RecordKind};
use benthic_core::Result;

/// The name of the user that is the account itself.
pub const ROOT_USER: &str = "";

/// The name of a user for people, which begins with that of the account.
#[must_use]
pub fn user_name(account: &str, user: &str) -> String {
    if user == ROOT_USER { account.to_owned() } else { full_name(account, user) }
}

/// The ARN of an account as a user of its own.
#[must_use]
pub fn root_arn(account: &str) -> String {
    format!("arn:aws:iam::{account}:root")
}

impl Identities {
    /// What acts for an account: a role, a user, or the account itself.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn actor(&self, kind: IdentityKind, account: &str, name: &str) -> Result<Identity> {
        if (kind, name) == (IdentityKind::User, ROOT_USER) {
            let created_ms = self.account(account).await?.created_ms;
            return Ok(Identity { form: FORM, created_ms, ..Identity::default() });
        }
        self.identity(kind, account, name).await
    }

    /// A part of the swap that creates a key of a user, or of the account itself: the swap fails if
    /// the holder changes meanwhile, and a removal of the holder that has begun fails.
    pub(super) async fn with_another_key(&self, account: &str, user: &str) -> Result<RecordChange> {
        if user == ROOT_USER {
            return self.in_account(account).await;
        }
        let found = self.user(account, user).await?;
        let new = Identity { keys_created: found.keys_created.wrapping_add(1), ..found.clone() };
        change(RecordKind::User, &full_name(account, user), Some(&found), Some(&new))
    }
}
