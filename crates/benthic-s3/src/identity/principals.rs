//! The users and roles that policies of buckets and trust policies name. A policy means those that
//! have the names when it is set: a later user of the same name gets nothing from it, as on AWS. So
//! the unique ids are stored beside the policy.

use super::{ID_LEN, Identities, IdentityKind};
use benthic_core::{Error, ErrorKind, Result};
use futures::future::try_join_all;
use std::collections::{BTreeMap, BTreeSet};

/// The unique ids of the users and roles that a policy names, by [ARN](identity_arn) without the
/// path.
pub type PrincipalIds = BTreeMap<String, String>;

/// The ARN of a user, a group or a role.
#[must_use]
pub fn identity_arn(kind: IdentityKind, account: &str, path: &str, name: &str) -> String {
    format!("arn:aws:iam::{account}:{}{path}{name}", kind.word())
}

/// Whether a text looks like the unique id of a user or a role.
#[must_use]
pub fn is_unique_id(text: &str) -> bool {
    let kinds = [IdentityKind::User, IdentityKind::Role];
    text.len() == ID_LEN && kinds.iter().any(|kind| text.starts_with(kind.id_prefix()))
}

impl Identities {
    /// Looks up the ids of users and roles.
    ///
    /// # Errors
    /// `NotFound` if one of them does not exist.
    pub async fn principal_ids(&self, named: BTreeSet<(IdentityKind, &str, &str)>) -> Result<PrincipalIds> {
        let ids = named.into_iter().map(|(kind, account, name)| async move {
            let arn = identity_arn(kind, account, "/", name);
            match self.identity(kind, account, name).await {
                Ok(found) => Ok((arn, found.id(account, name))),
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::NotFound | ErrorKind::InvalidArgument | ErrorKind::LimitExceeded
                    ) =>
                {
                    Err(Error::not_found(format!("invalid principal: there is no {} {arn}", kind.word())))
                }
                Err(error) => Err(error),
            }
        });
        Ok(try_join_all(ids).await?.into_iter().collect())
    }
}
