//! Access of users of the S3 gateway to tables and files through a server, with the same keys. The
//! access key is the user name, and the secret key is the password.
//!
//! A key of the gateway gives access to the buckets of its account. It gives no access to
//! other servers, until the operator grants the account to read all pools, or some.

use crate::identity::{Caller, Identities, user_name};
use benthic_core::names::check_pool_name;
use benthic_core::{Error, Result};
use std::collections::BTreeSet;
use std::str::FromStr;

/// The right of an account to read through a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    pub account: String,
    /// The pools that it may read. All pools if absent.
    pub pools: Option<BTreeSet<String>>,
}

impl Grant {
    /// Whether the account may read a pool.
    pub fn covers(&self, pool: &str) -> bool {
        self.pools.as_ref().is_none_or(|pools| pools.contains(pool))
    }
}

impl FromStr for Grant {
    type Err = Error;

    /// Parses `ACCOUNT` or `ACCOUNT=POOL,POOL`.
    fn from_str(text: &str) -> Result<Grant> {
        let (account, pools) = match text.split_once('=') {
            None => (text, None),
            Some((account, pools)) => {
                let pools: BTreeSet<String> = pools.split(',').map(str::to_owned).collect();
                pools.iter().try_for_each(|pool| check_pool_name(pool))?;
                (account, Some(pools))
            }
        };
        if account.is_empty() {
            let message = "name an account, or an account and its pools: lab=lake,sales";
            return Err(Error::invalid_argument(message).with("got", text));
        }
        Ok(Grant { account: account.to_owned(), pools })
    }
}

/// A key and its secret.
pub struct Login {
    /// The user of the key, as `ACCOUNT/USER`, or `ACCOUNT` for a key of the account itself.
    pub user: String,
    pub secret: String,
    account: String,
    /// Whether policies limit the user. Policies allow only S3.
    is_limited: bool,
}

/// Checks keys and grants.
pub struct Access {
    identities: Identities,
    grants: Vec<Grant>,
}

impl Access {
    /// Accepts the keys of these identities. Only accounts with a grant may read.
    pub fn new(identities: Identities, grants: Vec<Grant>) -> Access {
        Access { identities, grants }
    }

    /// Looks up a key. Returns `None` for a key that is unknown or suspended.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn key(&self, access_key: &str) -> Result<Option<Login>> {
        let Ok(key) = self.identities.look_up_key(access_key, None).await? else { return Ok(None) };
        let Caller::User { account, user } = key.caller else { return Ok(None) };
        let is_limited = key.policies.is_limited();
        Ok(Some(Login { user: user_name(&account, &user), secret: key.secret, account, is_limited }))
    }

    /// The grant of a user whose secret was checked.
    ///
    /// # Errors
    /// `PermissionDenied` if the account has none, or if policies limit the user.
    pub fn grant(&self, login: &Login) -> Result<Grant> {
        if login.is_limited {
            let message = "the user has policies, and policies allow only S3";
            return Err(Error::permission_denied(message).with("user", &login.user));
        }
        let granted = self.grants.iter().filter(|grant| grant.account == login.account);
        let merged = granted.cloned().reduce(|one, other| Grant {
            account: one.account,
            pools: one.pools.zip(other.pools).map(|(one, other)| one.into_iter().chain(other).collect()),
        });
        merged.ok_or_else(|| {
            let message = "the account has no access to this server; its option --allow ACCOUNT gives access";
            Error::permission_denied(message).with("account", &login.account)
        })
    }
}

/// The error for an unknown key and for a wrong secret, which a client cannot tell apart.
pub fn wrong_credentials() -> Error {
    let message = "unknown access key or wrong secret key; the user is an access key of \
        `benthic s3 key create`, and the password is its secret key";
    Error::permission_denied(message)
}
