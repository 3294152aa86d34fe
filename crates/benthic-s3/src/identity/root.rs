//! An account as a user of its own, the *root user* of AWS: it has all rights of the account, no
//! policy of IAM limits it, and it has no record, only keys.

use super::{FORM, Identities, Identity, IdentityKind, KEYS_MAX, change, full_name};
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
    /// The identity that acts for an account: a role, a user, or the account itself.
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
    /// the holder changes meanwhile; a removal of a user that has begun fails, and that of an
    /// account finds the key. Also returns whether the holder may have [`KEYS_MAX`] keys already.
    pub(super) async fn with_another_key(&self, account: &str, user: &str) -> Result<(RecordChange, bool)> {
        if user == ROOT_USER {
            return Ok((self.in_account(account).await?, true));
        }
        let found = self.user(account, user).await?;
        let new = Identity { keys_created: found.keys_created.wrapping_add(1), ..found.clone() };
        let changed = change(RecordKind::User, &full_name(account, user), Some(&found), Some(&new))?;
        // Earlier builds did not count keys. The ids of their users are an account and a name.
        let is_counted = !found.id(account, user).contains('/');
        Ok((changed, !is_counted || found.keys_created as usize >= KEYS_MAX))
    }
}
