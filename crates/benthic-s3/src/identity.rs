//! Accounts, users and access keys, stored as records of the [SAL](crate::sal::Records). The S3
//! gateway and the SQL server check requests with them.
//!
//! An account owns buckets. A user acts for an account: with all of its rights, or, once the user
//! has policies, with those that the policies allow. A key belongs to a user, and its secret is
//! sealed.

use crate::sal::{RecordChange, RecordKind, Sal};
use crate::seal::Sealer;
use benthic_core::Environment;
use benthic_core::{Error, ErrorKind, Result};
use bytes::Bytes;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The account and the user that the first start of a server creates.
pub const FIRST_ACCOUNT: &str = "main";
/// The user of [`FIRST_ACCOUNT`].
pub const FIRST_USER: &str = "admin";

const NAME_BYTES_MAX: usize = 64;
const POLICY_NAME_BYTES_MAX: usize = 128;
/// Lifetime of a cached key, in milliseconds: for this long a gateway may accept a key that was
/// removed or suspended, and follow the old policies of a user.
pub const KEY_CACHE_MS: u64 = 2_000;
const KEY_CACHE_MAX: usize = 10_000;
const PAGE: usize = 1_000;
const ACCESS_KEY_LEN: usize = 20;
const SECRET_LEN: usize = 40;

/// An owner of buckets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// Version of the record's format.
    pub form: u32,
    /// Milliseconds since 1970 (UTC).
    pub created_ms: u64,
    /// Whether the keys of the account are refused.
    pub suspended: bool,
}

/// A user, who acts for an account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    pub form: u32,
    pub created_ms: u64,
    /// The policies of the user by name, as JSON. `None` for a user with all rights of the account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policies: Option<Policies>,
    /// The path that IAM shows in front of the name, if it is not `/`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// The policies of a user by name, as JSON.
pub type Policies = BTreeMap<String, String>;

/// An access key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    pub form: u32,
    pub created_ms: u64,
    pub account: String,
    pub user: String,
    pub suspended: bool,
    /// The secret, [sealed](Sealer::seal).
    pub sealed: String,
}

/// A new key and its secret, which cannot be shown again.
pub struct NewKey {
    pub access_key: String,
    pub secret: String,
}

/// A usable key and its secret.
#[derive(Clone)]
pub struct UsableKey {
    pub caller: Caller,
    pub secret: String,
    /// The policies of the user; `None` for a user with all rights of the account.
    pub policies: Option<Arc<Policies>>,
}

/// The sender of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caller {
    /// A user of an account.
    User { account: String, user: String },
    /// The request is not signed.
    Anonymous,
}

impl Caller {
    /// The caller's account; `None` for an anonymous caller.
    pub fn account(&self) -> Option<&str> {
        match self {
            Caller::User { account, .. } => Some(account),
            Caller::Anonymous => None,
        }
    }
}

/// The accounts, users and keys of a store.
pub struct Identities {
    sal: Arc<dyn Sal>,
    sealer: Option<Sealer>,
    environment: Environment,
    /// Cached keys and the time of their lookup. `None` stands for a key that must be refused.
    key_cache: Mutex<HashMap<String, (u64, Option<UsableKey>)>>,
}

const FORM: u32 = 1;

impl Identities {
    /// Gives access to the accounts, users and keys of a store. Without a sealer, operations that
    /// need a secret fail.
    pub fn new(sal: Arc<dyn Sal>, sealer: Option<Sealer>, environment: Environment) -> Identities {
        Identities { sal, sealer, environment, key_cache: Mutex::new(HashMap::new()) }
    }

    fn sealer(&self) -> Result<&Sealer> {
        self.sealer.as_ref().ok_or_else(|| Error::new(ErrorKind::Internal, "no sealing key is loaded"))
    }

    /// Creates an account.
    ///
    /// # Errors
    /// `InvalidArgument`, `AlreadyExists`.
    pub async fn create_account(&self, name: &str) -> Result<Account> {
        check_name(name)?;
        let account = Account { form: FORM, created_ms: self.environment.unix_ms(), suspended: false };
        let changes = [change(RecordKind::Account, name, None, Some(&account))?];
        self.swap(&changes, |error| exists(error, "account", name)).await?;
        Ok(account)
    }

    /// Creates a user of an account: with all of its rights, or with none and this path, as IAM
    /// does.
    ///
    /// # Errors
    /// `InvalidArgument`, `NotFound`, `AlreadyExists`.
    pub async fn create_user(&self, account: &str, name: &str, limited: Option<&str>) -> Result<User> {
        check_name(name)?;
        let found = self.account(account).await?;
        let user = User {
            form: FORM,
            created_ms: self.environment.unix_ms(),
            policies: limited.map(|_| Policies::new()),
            path: limited.filter(|path| *path != "/").map(str::to_owned),
        };
        let changes = [
            // Compare the account in the same swap, so that it cannot be removed meanwhile.
            change(RecordKind::Account, account, Some(&found), Some(&found))?,
            change(RecordKind::User, &user_name(account, name), None, Some(&user))?,
        ];
        self.swap(&changes, |error| exists(error, "user", name)).await?;
        Ok(user)
    }

    /// Creates a key of a user. This is the only call that returns its secret.
    ///
    /// # Errors
    /// `NotFound`, `Unavailable` if there are no random numbers.
    pub async fn create_key(&self, account: &str, user: &str) -> Result<NewKey> {
        let found = self.user(account, user).await?;
        let access_key = self.draw("BN", ACCESS_KEY_LEN, b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")?;
        let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
        let secret = self.draw("", SECRET_LEN, letters)?;
        let key = Key {
            form: FORM,
            created_ms: self.environment.unix_ms(),
            account: account.to_owned(),
            user: user.to_owned(),
            suspended: false,
            sealed: self.sealer()?.seal(&access_key, &secret)?,
        };
        let changes = [
            change(RecordKind::User, &user_name(account, user), Some(&found), Some(&found))?,
            change(RecordKind::Key, &access_key, None, Some(&key))?,
        ];
        self.swap(&changes, |error| exists(error, "key", &access_key)).await?;
        Ok(NewKey { access_key, secret })
    }

    /// Creates [`FIRST_ACCOUNT`], its user and a key if the store has no account.
    ///
    /// # Errors
    /// Errors of [`create_key`](Identities::create_key).
    pub async fn create_first_key(&self) -> Result<Option<NewKey>> {
        if !self.accounts().await?.is_empty() {
            return Ok(None);
        }
        match self.create_account(FIRST_ACCOUNT).await {
            // Another server is starting at the same time.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(None),
            created => created?,
        };
        self.create_user(FIRST_ACCOUNT, FIRST_USER, None).await?;
        self.create_key(FIRST_ACCOUNT, FIRST_USER).await.map(Some)
    }

    pub async fn account(&self, name: &str) -> Result<Account> {
        self.get(RecordKind::Account, name, "no such account").await
    }

    pub async fn user(&self, account: &str, name: &str) -> Result<User> {
        self.get(RecordKind::User, &user_name(account, name), "no such user").await
    }

    /// Reads a key; its secret stays sealed.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn key(&self, access_key: &str) -> Result<Key> {
        self.get(RecordKind::Key, access_key, "no such key").await
    }

    pub async fn accounts(&self) -> Result<Vec<(String, Account)>> {
        self.all(RecordKind::Account, "").await
    }

    pub async fn users(&self, account: &str) -> Result<Vec<(String, User)>> {
        let prefix = user_name(account, "");
        let users = self.all(RecordKind::User, &prefix).await?;
        Ok(users.into_iter().map(|(name, user)| (name[prefix.len()..].to_owned(), user)).collect())
    }

    pub async fn keys(&self) -> Result<Vec<(String, Key)>> {
        self.all(RecordKind::Key, "").await
    }

    /// Removes an account that has no users and no buckets.
    ///
    /// # Errors
    /// `NotFound`, `Conflict` if it has users or buckets.
    pub async fn remove_account(&self, name: &str) -> Result<()> {
        let found = self.account(name).await?;
        let in_use = |what| {
            let message = format!("the account has {what}; remove them first");
            Err(Error::new(ErrorKind::Conflict, message).with("account", name))
        };
        if !self.users(name).await?.is_empty() {
            return in_use("users");
        }
        if !self.sal.list_buckets(name, None, 1).await?.0.is_empty() {
            return in_use("buckets");
        }
        self.replace(RecordKind::Account, name, &found, None::<&Account>).await
    }

    /// Removes a user that has no keys.
    ///
    /// # Errors
    /// `NotFound`, `Conflict` if it has a key.
    pub async fn remove_user(&self, account: &str, name: &str) -> Result<()> {
        let found = self.user(account, name).await?;
        if self.keys().await?.iter().any(|(_, key)| key.account == account && key.user == name) {
            return Err(Error::new(ErrorKind::Conflict, "the user has keys; remove them first")
                .with("user", user_name(account, name)));
        }
        self.replace(RecordKind::User, &user_name(account, name), &found, None::<&User>).await
    }

    /// Changes the policies of a user. `None` gives the user all rights of the account. Running
    /// gateways notice within [`KEY_CACHE_MS`].
    ///
    /// # Errors
    /// `NotFound`, `Conflict` if another process changes the user at the same time, `LimitExceeded`
    /// if the policies are too large together; errors of `change`.
    pub async fn change_policies(
        &self,
        account: &str,
        name: &str,
        change: impl FnOnce(Option<Policies>) -> Result<Option<Policies>>,
    ) -> Result<()> {
        let found = self.user(account, name).await?;
        let new = User { policies: change(found.policies.clone())?, ..found.clone() };
        self.replace(RecordKind::User, &user_name(account, name), &found, Some(&new)).await
    }

    /// Removes a key. Running gateways may accept it for another [`KEY_CACHE_MS`].
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn remove_key(&self, access_key: &str) -> Result<()> {
        let found = self.key(access_key).await?;
        self.replace(RecordKind::Key, access_key, &found, None::<&Key>).await
    }

    /// Suspends an account, or ends the suspension. Running gateways notice within
    /// [`KEY_CACHE_MS`].
    ///
    /// # Errors
    /// `NotFound`, `Conflict`.
    pub async fn suspend_account(&self, name: &str, suspended: bool) -> Result<()> {
        let found = self.account(name).await?;
        let new = Account { suspended, ..found.clone() };
        self.replace(RecordKind::Account, name, &found, Some(&new)).await
    }

    /// Suspends a key, or ends the suspension. Running gateways notice within [`KEY_CACHE_MS`].
    ///
    /// # Errors
    /// `NotFound`, `Conflict`.
    pub async fn suspend_key(&self, access_key: &str, suspended: bool) -> Result<()> {
        let found = self.key(access_key).await?;
        let new = Key { suspended, ..found.clone() };
        self.replace(RecordKind::Key, access_key, &found, Some(&new)).await
    }

    /// Checks that the sealing key opens the secret of the store's first key. Succeeds if the store
    /// has no keys.
    ///
    /// # Errors
    /// `PermissionDenied`.
    pub async fn check_sealing_key(&self) -> Result<()> {
        let (first, _) = self.sal.list_records(RecordKind::Key, "", None, 1).await?;
        let Some((access_key, value)) = first.first() else { return Ok(()) };
        let key: Key = decode(value, access_key)?;
        self.sealer()?.open_secret(access_key, &key.sealed).map(drop)
    }

    /// Looks up a usable key; `None` if the key does not exist or if it or its account is
    /// suspended. The answer comes from the cache if it is younger than [`KEY_CACHE_MS`].
    ///
    /// # Errors
    /// Those of the store; `PermissionDenied` if the secret was sealed with another key.
    pub async fn look_up_key(&self, access_key: &str) -> Result<Option<UsableKey>> {
        if access_key.len() != ACCESS_KEY_LEN {
            return Ok(None);
        }
        let now_ms = self.environment.clock.monotonic_ms();
        if let Some((looked_up_ms, known)) = self.key_cache.lock().get(access_key)
            && now_ms.saturating_sub(*looked_up_ms) < KEY_CACHE_MS
        {
            return Ok(known.clone());
        }
        let known = match self.read_usable_key(access_key).await {
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::InvalidArgument) => None,
            known => known?,
        };
        let mut all = self.key_cache.lock();
        if all.len() >= KEY_CACHE_MAX {
            all.clear();
        }
        all.insert(access_key.to_owned(), (now_ms, known.clone()));
        Ok(known)
    }

    async fn read_usable_key(&self, access_key: &str) -> Result<Option<UsableKey>> {
        let key = self.key(access_key).await?;
        let (account, user) =
            futures::try_join!(self.account(&key.account), self.user(&key.account, &key.user))?;
        if key.suspended || account.suspended {
            return Ok(None);
        }
        let policies = user.policies.map(Arc::new);
        let secret = self.sealer()?.open_secret(access_key, &key.sealed)?;
        let caller = Caller::User { account: key.account, user: key.user };
        Ok(Some(UsableKey { caller, secret, policies }))
    }

    fn draw(&self, prefix: &str, len: usize, letters: &[u8]) -> Result<String> {
        let mut drawn = prefix.to_owned();
        // Reject larger numbers, so that every letter has the same probability.
        let fair = 256 - 256 % letters.len();
        while drawn.len() < len {
            let mut bytes = [0; 64];
            self.environment.random.fill(&mut bytes)?;
            let fitting = bytes.iter().map(|byte| usize::from(*byte)).filter(|number| *number < fair);
            drawn.extend(
                fitting.map(|number| char::from(letters[number % letters.len()])).take(len - drawn.len()),
            );
        }
        Ok(drawn)
    }

    async fn get<T: DeserializeOwned>(&self, kind: RecordKind, name: &str, missing: &str) -> Result<T> {
        let found = self.sal.record(kind, name).await?;
        let found = found.ok_or_else(|| Error::new(ErrorKind::NotFound, missing).with("name", name))?;
        decode(&found, name)
    }

    async fn all<T: DeserializeOwned>(&self, kind: RecordKind, prefix: &str) -> Result<Vec<(String, T)>> {
        let mut all: Vec<(String, T)> = Vec::new();
        loop {
            let after = all.last().map(|(name, _)| name.clone());
            let (page, more) = self.sal.list_records(kind, prefix, after.as_deref(), PAGE).await?;
            let last = page.is_empty();
            for (name, value) in page {
                let decoded = decode(&value, &name)?;
                all.push((name, decoded));
            }
            if !more || last {
                return Ok(all);
            }
        }
    }

    async fn replace<T: Serialize>(
        &self,
        kind: RecordKind,
        name: &str,
        old: &T,
        new: Option<&T>,
    ) -> Result<()> {
        let changes = [change(kind, name, Some(old), new)?];
        self.swap(&changes, |error| error.with("name", name)).await
    }

    async fn swap(&self, changes: &[RecordChange], explain: impl FnOnce(Error) -> Error) -> Result<()> {
        self.sal.swap_records(changes).await.map_err(explain)?;
        self.key_cache.lock().clear();
        Ok(())
    }
}

fn user_name(account: &str, user: &str) -> String {
    format!("{account}/{user}")
}

fn check_name(name: &str) -> Result<()> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '@' | '+');
    if !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.chars().all(fits) {
        return Ok(());
    }
    Err(Error::new(ErrorKind::InvalidArgument, "a name must consist of 1 to 64 letters, digits and `-_.@+`")
        .with("name", name))
}

/// Checks the name of a user's policy.
///
/// # Errors
/// `InvalidArgument`.
pub fn check_policy_name(name: &str) -> Result<()> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '@' | '+' | '=' | ',');
    if (1..=POLICY_NAME_BYTES_MAX).contains(&name.len()) && name.chars().all(fits) {
        return Ok(());
    }
    let message = "the name of a policy must consist of 1 to 128 letters, digits and `-_.@+=,`";
    Err(Error::new(ErrorKind::InvalidArgument, message).with("name", name))
}

fn exists(error: Error, what: &'static str, name: &str) -> Error {
    if error.kind() == ErrorKind::Conflict {
        return Error::new(ErrorKind::AlreadyExists, format!("this {what} exists already"))
            .with("name", name);
    }
    error
}

fn change<T: Serialize>(
    kind: RecordKind,
    name: &str,
    expected: Option<&T>,
    new: Option<&T>,
) -> Result<RecordChange> {
    let encode = |value: &T| {
        let text = serde_json::to_vec(value).map(Bytes::from);
        text.map_err(|error| Error::new(ErrorKind::Internal, "cannot encode a record").with_source(error))
    };
    let (expected, new) = (expected.map(encode).transpose()?, new.map(encode).transpose()?);
    Ok(RecordChange { kind, name: name.to_owned(), expected, new })
}

fn decode<T: DeserializeOwned>(value: &[u8], name: &str) -> Result<T> {
    serde_json::from_slice(value).map_err(|error| {
        Error::new(ErrorKind::Corrupt, "cannot decode a record").with("name", name).with_source(error)
    })
}
