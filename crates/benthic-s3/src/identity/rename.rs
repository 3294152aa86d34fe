//! New names of users and groups. Keys name their user, and users name their groups, so all of
//! these records change in the same swap. The unique id, the policies and the memberships stay.

use super::{
    Identities, Identity, IdentityKind, Key, busy, change, check_name, full_name, retry_busy, same_name,
};
use crate::sal::RecordKind;
use crate::sal::limits::RECORD_CHANGES_MAX;
use benthic_core::{Error, Result};

/// Number of changes of the account and of the identity itself.
const OWN_CHANGES: usize = 3;

impl Identities {
    /// Gives a user or a group another name, and a path if there is one. Temporary keys of a user
    /// end with its old name.
    ///
    /// # Errors
    /// `InvalidArgument`, `NotFound`, `AlreadyExists`; `LimitExceeded` for a group with more
    /// than 125 users; `Busy` if others change one of the records all the time.
    pub async fn rename_identity(
        &self,
        kind: IdentityKind,
        account: &str,
        (name, new_name): (&str, &str),
        path: Option<&str>,
    ) -> Result<()> {
        check_name(new_name)?;
        retry_busy(|| self.try_rename(kind, account, (name, new_name), path)).await
    }

    async fn try_rename(
        &self,
        kind: IdentityKind,
        account: &str,
        (name, new_name): (&str, &str),
        path: Option<&str>,
    ) -> Result<()> {
        let owner = self.in_account(account).await?;
        let found = self.identity(kind, account, name).await?;
        let all = self.identities(kind, account).await?;
        let is_taken = |known: &str| known != name && known.eq_ignore_ascii_case(new_name);
        if let Some((known, _)) = all.iter().find(|(known, _)| is_taken(known)) {
            return Err(same_name(kind, known));
        }
        let mut new = Identity { id: Some(found.id(account, name)), ..found.clone() };
        if let Some(path) = path {
            new.set_path(path);
        }
        let mut changes = vec![
            owner,
            change(kind.record(), &full_name(account, name), Some(&found), None)?,
            change(kind.record(), &full_name(account, new_name), None, Some(&new))?,
        ];
        let what = match kind {
            IdentityKind::User => {
                for (access_key, key) in self.keys_of(account, name).await? {
                    let new = Key { user: new_name.to_owned(), ..key.clone() };
                    changes.push(change(RecordKind::Key, &access_key, Some(&key), Some(&new))?);
                }
                "keys"
            }
            IdentityKind::Group => {
                for (user, member) in self.users(account).await? {
                    let mut new = member.clone();
                    if new.groups.remove(name) {
                        new.groups.insert(new_name.to_owned());
                        let user = full_name(account, &user);
                        changes.push(change(RecordKind::User, &user, Some(&member), Some(&new))?);
                    }
                }
                "users"
            }
            IdentityKind::Role => {
                return Err(Error::unsupported("a role cannot get another name"));
            }
        };
        if changes.len() > RECORD_CHANGES_MAX {
            let (word, max) = (kind.word(), RECORD_CHANGES_MAX - OWN_CHANGES);
            let message = format!("a {word} with more than {max} {what} cannot get another name");
            return Err(Error::limit_exceeded(message).with("name", name));
        }
        self.swap(&changes, |error| busy(error).with("name", name)).await
    }
}
