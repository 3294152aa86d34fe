//! Accounts, users, groups, roles and access keys, stored as records of the
//! [SAL](crate::sal::Records). The S3 gateway and the SQL server check requests with them.
//!
//! An account owns buckets. A user acts for an account: with all of its rights, or, once the user
//! has policies, with those that the policies allow. A group gives its policies to its users. A
//! role has policies and a trust policy, which names the callers that may assume it. A key belongs
//! to a user or to the account itself, and its secret is sealed. A caller that assumes a role gets
//! a temporary key, which is not stored.

mod accounts;
mod event_targets;
mod kms;
mod managed;
mod oidc_providers;
mod principals;
mod rename;
mod root;
mod sessions;
mod start;

pub use accounts::{Account, GROUPS_MAX, POLICIES_MAX, PROVIDERS_MAX, ROLES_MAX, USERS_MAX};
pub use event_targets::{Broker, EventTarget, NewEventTarget, Sasl};
pub use kms::{KmsKey, KmsKeyVersion};
pub use managed::{
    FIRST_VERSION, ManagedPolicy, PolicyTexts, PolicyVersion, VERSIONS_MAX, built_in_policies, policy_arn,
};
pub use oidc_providers::{OidcProvider, issuer_name, oidc_provider_arn, parse_oidc_provider_arn};
pub use principals::{PrincipalIds, identity_arn, is_unique_id};
pub use root::{ROOT_USER, root_arn, user_name};
pub use sessions::{Federated, Holder, Refusal, TemporaryKey, is_temporary};
pub use start::{Started, add_first_key, first_key_text};

use crate::sal::{RecordChange, RecordKind, Sal};
use crate::seal::Sealer;
use benthic_core::Environment;
use benthic_core::{Error, ErrorKind, Result};
use bytes::Bytes;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// The pool of the gateway, which has the accounts and keys, unless the operator names another one.
pub const GATEWAY_POOL: &str = "s3";
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
/// Maximum number of policies that are attached to a user, group or role, and of groups of a user.
pub const ATTACHED_MAX: usize = 10;
/// Maximum number of keys of a user. A new name changes all of them at once.
pub const KEYS_MAX: usize = 100;
/// Maximum number of retries of a conflicting change. Changes conflict if they use the same policy
/// or group, because its record counts its uses.
const ATTEMPTS_MAX: usize = 20;
const PAGE: usize = 1_000;
const ACCESS_KEY_LEN: usize = 20;
/// Length of the unique id of a user, a group or a role.
const ID_LEN: usize = 21;
/// The characters of keys and ids.
const CAPITALS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const SECRET_LEN: usize = 40;

/// The kinds of identities to which policies can belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum IdentityKind {
    User,
    Group,
    Role,
}

impl IdentityKind {
    fn record(self) -> RecordKind {
        match self {
            IdentityKind::User => RecordKind::User,
            IdentityKind::Group => RecordKind::Group,
            IdentityKind::Role => RecordKind::Role,
        }
    }

    /// The word for it in ARNs and messages.
    pub fn word(self) -> &'static str {
        match self {
            IdentityKind::User => "user",
            IdentityKind::Group => "group",
            IdentityKind::Role => "role",
        }
    }

    /// The beginning of its unique ids, as on AWS.
    fn id_prefix(self) -> &'static str {
        match self {
            IdentityKind::User => "AIDA",
            IdentityKind::Group => "AGPA",
            IdentityKind::Role => "AROA",
        }
    }
}

/// A user, a group or a role of an account.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub form: u32,
    pub created_ms: u64,
    /// The unique id; absent in records of earlier builds. See [`id`](Identity::id()).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Its own policies by name, as JSON. `None` for a user with all rights of the account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policies: Option<Policies>,
    /// ARNs of managed policies.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub attached: BTreeSet<String>,
    /// ARN of the managed policy that limits the rights of all others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boundary: Option<String>,
    /// The path that IAM shows in front of the name, if it is not `/`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The groups of a user.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub groups: BTreeSet<String>,
    /// Number of the users of a group.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub members: u32,
    /// Number of keys that the user ever got. It changes with each new key, so that the user cannot
    /// be removed or renamed at the same time.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub keys_created: u32,
    /// Only a role has this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<RoleSettings>,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The properties that only a role has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoleSettings {
    /// The policy that says who may assume the role, as JSON.
    pub trust: String,
    /// The users and roles that it names.
    #[serde(default, skip_serializing_if = "PrincipalIds::is_empty")]
    pub trust_principals: PrincipalIds,
    pub description: Option<String>,
    /// Maximum length of a session, in seconds.
    pub session_s_max: u32,
}

impl Identity {
    /// A user, group or role that may do nothing, with this path.
    pub fn with_path(path: &str) -> Identity {
        let mut identity = Identity { policies: Some(Policies::new()), ..Identity::default() };
        identity.set_path(path);
        identity
    }

    pub fn set_path(&mut self, path: &str) {
        self.path = Some(path.to_owned()).filter(|path| path != "/");
    }

    pub fn path(&self) -> &str {
        self.path.as_deref().unwrap_or("/")
    }

    /// The unique id. It stays the same if the name changes, and a later user, group or role of
    /// this name gets another one. The id of an account itself is the name of the account.
    pub fn id(&self, account: &str, name: &str) -> String {
        self.id.clone().unwrap_or_else(|| user_name(account, name))
    }

    /// Names the records that depend on the identity, if there are any. Then it must not be
    /// removed.
    fn in_use(&self, kind: IdentityKind) -> Option<&'static str> {
        let has_policies = self.policies.as_ref().is_some_and(|policies| !policies.is_empty());
        [
            (!self.attached.is_empty(), "attached policies"),
            (!self.groups.is_empty(), "groups"),
            (self.members > 0, "users"),
            (has_policies && kind != IdentityKind::User, "policies"),
        ]
        .into_iter()
        .find_map(|(used, what)| used.then_some(what))
    }
}

/// Policies by name, as JSON.
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
    pub policies: Arc<PolicyTexts>,
    /// The path of the user or the role.
    pub path: String,
    /// The [unique id](Identity::id()) of the user or the role.
    pub id: String,
    /// The claims of the identity provider about the caller of a session.
    pub federated: Option<Arc<Federated>>,
    /// When a temporary key was created, in milliseconds since 1970. That of an earlier build
    /// counts as the oldest. `None` for other keys.
    pub issued_ms: Option<u64>,
}

/// The result of the lookup of a key.
pub type Lookup = std::result::Result<UsableKey, Refusal>;

/// The sender of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caller {
    /// A user of an account.
    User { account: String, user: String },
    /// Somebody who has assumed a role of an account, under the name of the session.
    Session { account: String, role: String, session: String },
    /// Somebody with a token of an identity provider, who wants to assume a role.
    WebIdentity { provider_arn: String },
    /// The request is not signed.
    Anonymous,
    /// A part of the gateway that acts under the name of a service of AWS.
    Service(&'static str),
}

impl Caller {
    /// The caller's account; `None` for an anonymous caller and before a role is assumed.
    pub fn account(&self) -> Option<&str> {
        match self {
            Caller::User { account, .. } | Caller::Session { account, .. } => Some(account),
            Caller::WebIdentity { .. } | Caller::Anonymous | Caller::Service(_) => None,
        }
    }

    /// The name of the caller in answers. The path is that of the user.
    pub fn arn(&self, path: &str) -> Option<String> {
        match self {
            Caller::User { account, user } if user == ROOT_USER => Some(root_arn(account)),
            Caller::User { account, user } => Some(format!("arn:aws:iam::{account}:user{path}{user}")),
            Caller::Session { account, role, session } => {
                Some(format!("arn:aws:sts::{account}:assumed-role/{role}/{session}"))
            }
            Caller::WebIdentity { .. } | Caller::Anonymous | Caller::Service(_) => None,
        }
    }

    /// The name of the caller for people: the account and the name. That of a session also has the
    /// session's.
    pub fn name(&self) -> Option<String> {
        match self {
            Caller::User { account, user } => Some(user_name(account, user)),
            Caller::Session { account, role, session } => Some(format!("{account}/{role}:{session}")),
            Caller::WebIdentity { .. } | Caller::Anonymous | Caller::Service(_) => None,
        }
    }

    /// The unique id of the caller, from [that](Identity::id()) of the user or the role. That of a
    /// session also has the name of the session.
    pub fn id(&self, id: &str) -> Option<String> {
        match self {
            Caller::User { .. } => Some(id.to_owned()),
            Caller::Session { session, .. } => Some(format!("{id}:{session}")),
            Caller::WebIdentity { .. } | Caller::Anonymous | Caller::Service(_) => None,
        }
    }
}

/// The accounts, users and keys of a store.
pub struct Identities {
    sal: Arc<dyn Sal>,
    sealer: Option<Sealer>,
    environment: Environment,
    /// Cached keys and the time of their lookup.
    key_cache: Mutex<HashMap<String, (u64, Lookup)>>,
}

const FORM: u32 = 1;

impl Identities {
    /// Gives access to the identities and keys of a store. Without a sealer, operations that
    /// need a secret fail.
    pub fn new(sal: Arc<dyn Sal>, sealer: Option<Sealer>, environment: Environment) -> Identities {
        Identities { sal, sealer, environment, key_cache: Mutex::new(HashMap::new()) }
    }

    fn sealer(&self) -> Result<&Sealer> {
        self.sealer.as_ref().ok_or_else(|| Error::internal("no sealing key is loaded"))
    }

    /// Creates a user with all rights of an account.
    ///
    /// # Errors
    /// As [`create_identity`](Identities::create_identity).
    pub async fn create_user(&self, account: &str, name: &str) -> Result<Identity> {
        self.create_identity(IdentityKind::User, account, name, Identity::default()).await
    }

    /// Creates a user, a group or a role of an account.
    ///
    /// # Errors
    /// `InvalidArgument`, `NotFound`, `AlreadyExists`.
    pub async fn create_identity(
        &self,
        kind: IdentityKind,
        account: &str,
        name: &str,
        new: Identity,
    ) -> Result<Identity> {
        check_name(name)?;
        let id = Some(self.draw(kind.id_prefix(), ID_LEN, CAPITALS)?);
        let new = Identity { form: FORM, created_ms: self.environment.unix_ms(), id, ..new };
        retry_busy(|| self.try_create(kind, account, name, &new)).await?;
        Ok(new)
    }

    async fn try_create(&self, kind: IdentityKind, account: &str, name: &str, new: &Identity) -> Result<()> {
        let owner = self.in_account(account).await?;
        let all = self.identities(kind, account).await?;
        if let Some((known, _)) = all.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
            return Err(same_name(kind, known));
        }
        let max = accounts::identities_max(kind);
        if all.len() >= max {
            let message = format!("an account has at most {max} {}s", kind.word());
            return Err(Error::limit_exceeded(message).with("account", account));
        }
        let mut changes = vec![owner, change(kind.record(), &full_name(account, name), None, Some(new))?];
        changes.extend(self.count_uses(account, &Identity::default(), new).await?);
        self.swap(&changes, |error| busy(error).with("name", name)).await
    }

    /// Creates a key of a user, or of the [account itself](ROOT_USER). This is the only call that
    /// returns its secret.
    ///
    /// # Errors
    /// `NotFound`; `LimitExceeded`; `Busy` if others change the holder all the time; `Unavailable`
    /// if there are no random numbers.
    pub async fn create_key(&self, account: &str, user: &str) -> Result<NewKey> {
        let access_key = self.draw("BN", ACCESS_KEY_LEN, CAPITALS)?;
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
        retry_busy(|| self.try_create_key(&access_key, &key)).await?;
        Ok(NewKey { access_key, secret })
    }

    async fn try_create_key(&self, access_key: &str, key: &Key) -> Result<()> {
        let Key { account, user, .. } = key;
        // Part of the same swap, so that a holder that has been removed gets no key.
        let (holder, may_be_full) = self.with_another_key(account, user).await?;
        if may_be_full && self.keys_of(account, user).await?.len() >= KEYS_MAX {
            let message = format!("a user has at most {KEYS_MAX} keys; remove one first");
            return Err(Error::limit_exceeded(message).with("user", user_name(account, user)));
        }
        let changes = [holder, change(RecordKind::Key, access_key, None, Some(key))?];
        self.swap(&changes, |error| busy(error).with("access_key", access_key)).await
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
        self.create_user(FIRST_ACCOUNT, FIRST_USER).await?;
        self.create_key(FIRST_ACCOUNT, FIRST_USER).await.map(Some)
    }

    pub async fn user(&self, account: &str, name: &str) -> Result<Identity> {
        self.identity(IdentityKind::User, account, name).await
    }

    pub async fn identity(&self, kind: IdentityKind, account: &str, name: &str) -> Result<Identity> {
        let missing = match kind {
            IdentityKind::User => "no such user; `benthic s3 user create` creates one",
            IdentityKind::Group => "no such group",
            IdentityKind::Role => "no such role",
        };
        self.get(kind.record(), &full_name(account, name), missing).await
    }

    /// Reads a key; its secret stays sealed.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn key(&self, access_key: &str) -> Result<Key> {
        self.get(RecordKind::Key, access_key, "no such key").await
    }

    pub async fn users(&self, account: &str) -> Result<Vec<(String, Identity)>> {
        self.identities(IdentityKind::User, account).await
    }

    /// The users, groups or roles of an account, by name.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn identities(&self, kind: IdentityKind, account: &str) -> Result<Vec<(String, Identity)>> {
        self.of_account(kind.record(), account).await
    }

    async fn of_account<T: DeserializeOwned>(
        &self,
        kind: RecordKind,
        account: &str,
    ) -> Result<Vec<(String, T)>> {
        let prefix = full_name(account, "");
        let found = self.all(kind, &prefix).await?;
        Ok(found.into_iter().map(|(name, record)| (name[prefix.len()..].to_owned(), record)).collect())
    }

    pub async fn keys(&self) -> Result<Vec<(String, Key)>> {
        self.all(RecordKind::Key, "").await
    }

    /// The keys of a user, or of the [account itself](ROOT_USER).
    ///
    /// # Errors
    /// Those of the store.
    pub async fn keys_of(&self, account: &str, user: &str) -> Result<Vec<(String, Key)>> {
        let mut keys = self.keys().await?;
        keys.retain(|(_, key)| key.account == account && key.user == user);
        Ok(keys)
    }

    /// Removes a user, a group or a role that nothing depends on.
    ///
    /// # Errors
    /// `NotFound`; `Conflict` if it has attached policies, a user has keys or groups, a group has
    /// users or policies, or a role has policies; `Busy` if another process changes it at the same
    /// time.
    pub async fn remove_identity(&self, kind: IdentityKind, account: &str, name: &str) -> Result<()> {
        let found = self.identity(kind, account, name).await?;
        let mut in_use = found.in_use(kind);
        if in_use.is_none() && kind == IdentityKind::User {
            in_use = (!self.keys_of(account, name).await?.is_empty()).then_some("keys");
        }
        if let Some(what) = in_use {
            let message = format!("the {} still has {what}; detach or remove them first", kind.word());
            return Err(Error::conflict(message).with("name", full_name(account, name)));
        }
        let mut changes = vec![change(kind.record(), &full_name(account, name), Some(&found), None)?];
        changes.extend(self.count_uses(account, &found, &Identity::default()).await?);
        self.swap(&changes, |error| busy(error).with("name", name)).await
    }

    /// Changes the own policies of a user. `None` gives the user all rights of the account. Running
    /// gateways notice within [`KEY_CACHE_MS`].
    ///
    /// # Errors
    /// As [`change_identity`](Identities::change_identity).
    pub async fn change_policies(
        &self,
        account: &str,
        name: &str,
        change: impl Fn(Option<Policies>) -> Result<Option<Policies>>,
    ) -> Result<()> {
        self.change_identity(IdentityKind::User, account, name, |user| {
            user.policies = change(user.policies.take())?;
            if user.policies.is_none() && (!user.attached.is_empty() || !user.groups.is_empty()) {
                return Err(Error::conflict("the user has attached policies or groups; detach them first"));
            }
            Ok(())
        })
        .await
    }

    /// Changes a user, a group or a role. Running gateways notice within [`KEY_CACHE_MS`].
    ///
    /// # Errors
    /// `NotFound` if it, a policy or a group does not exist; `Busy` if others change one of them
    /// all the time; `LimitExceeded` if it becomes too large; errors of `change_it`.
    pub async fn change_identity(
        &self,
        kind: IdentityKind,
        account: &str,
        name: &str,
        change_it: impl Fn(&mut Identity) -> Result<()>,
    ) -> Result<()> {
        retry_busy(|| self.try_change(kind, account, name, &change_it)).await
    }

    async fn try_change(
        &self,
        kind: IdentityKind,
        account: &str,
        name: &str,
        change_it: &impl Fn(&mut Identity) -> Result<()>,
    ) -> Result<()> {
        let found = self.identity(kind, account, name).await?;
        let mut new = found.clone();
        change_it(&mut new)?;
        for (what, set) in [("policies", &new.attached), ("groups", &new.groups)] {
            if set.len() > ATTACHED_MAX {
                let message = format!("a {} has at most {ATTACHED_MAX} attached {what}", kind.word());
                return Err(Error::limit_exceeded(message).with("name", name));
            }
        }
        // Refuse a policy that does not exist, and policies that are too large together.
        self.policy_texts(account, new.clone()).await?;
        let mut changes = vec![change(kind.record(), &full_name(account, name), Some(&found), Some(&new))?];
        changes.extend(self.count_uses(account, &found, &new).await?);
        for group in found.groups.symmetric_difference(&new.groups) {
            let old = self.identity(IdentityKind::Group, account, group).await?;
            let members = match new.groups.contains(group) {
                true => old.members.saturating_add(1),
                false => old.members.saturating_sub(1),
            };
            let counted = Identity { members, ..old.clone() };
            changes.push(change(RecordKind::Group, &full_name(account, group), Some(&old), Some(&counted))?);
        }
        self.swap(&changes, |error| busy(error).with("name", name)).await
    }

    /// Removes a key. Running gateways may accept it for another [`KEY_CACHE_MS`].
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn remove_key(&self, access_key: &str) -> Result<()> {
        let found = self.key(access_key).await?;
        self.replace(RecordKind::Key, access_key, &found, None::<&Key>).await
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

    /// Looks up a usable key. A temporary key needs its token. The answer comes from the cache if
    /// it is younger than [`KEY_CACHE_MS`].
    ///
    /// # Errors
    /// Those of the store; `PermissionDenied` if the secret was sealed with another key.
    pub async fn look_up_key(&self, access_key: &str, token: Option<&str>) -> Result<Lookup> {
        if access_key.len() != ACCESS_KEY_LEN {
            return Ok(Err(Refusal::UnknownKey));
        }
        let claims = match self.claims(access_key, token)? {
            Ok(claims) => claims,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let now_ms = self.environment.clock.monotonic_ms();
        if let Some((looked_up_ms, known)) = self.key_cache.lock().get(access_key)
            && now_ms.saturating_sub(*looked_up_ms) < KEY_CACHE_MS
        {
            return Ok(known.clone());
        }
        let known = match claims {
            Some(claims) => self.read_session(access_key, &claims).await,
            None => self.read_usable_key(access_key).await,
        };
        let known = match known {
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::InvalidArgument) => {
                Err(Refusal::UnknownKey)
            }
            known => known?,
        };
        let mut all = self.key_cache.lock();
        if all.len() >= KEY_CACHE_MAX {
            all.clear();
        }
        // A temporary key has only one token, which was checked above.
        all.insert(access_key.to_owned(), (now_ms, known.clone()));
        Ok(known)
    }

    async fn read_usable_key(&self, access_key: &str) -> Result<Lookup> {
        let mut key = self.key(access_key).await?;
        let mut attempts = 0..ATTEMPTS_MAX;
        let (account, user) = loop {
            let found = futures::try_join!(
                self.account(&key.account),
                self.actor(IdentityKind::User, &key.account, &key.user)
            );
            // The user may have got another name meanwhile, and another user its old name.
            let now = self.key(access_key).await?;
            if now == key {
                break found?;
            }
            if attempts.next().is_none() {
                return Err(Error::busy("the key changes all the time; try again"));
            }
            key = now;
        };
        if key.suspended || account.suspended {
            return Ok(Err(Refusal::UnknownKey));
        }
        let (path, id) = (user.path().to_owned(), user.id(&key.account, &key.user));
        let policies = Arc::new(self.policy_texts(&key.account, user).await.map_err(in_change)?);
        let secret = self.sealer()?.open_secret(access_key, &key.sealed)?;
        let caller = Caller::User { account: key.account, user: key.user };
        Ok(Ok(UsableKey { caller, secret, policies, path, id, federated: None, issued_ms: None }))
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
        let found = found.ok_or_else(|| Error::not_found(missing).with("name", name))?;
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

fn full_name(account: &str, name: &str) -> String {
    format!("{account}/{name}")
}

fn check_name(name: &str) -> Result<()> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '@' | '+');
    if !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.chars().all(fits) {
        return Ok(());
    }
    Err(Error::invalid_argument("a name must consist of 1 to 64 letters, digits and `-_.@+`")
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
    Err(Error::invalid_argument(message).with("name", name))
}

/// A policy or a group of a caller is missing. It was probably removed after the caller was read.
fn in_change(error: Error) -> Error {
    if error.kind() == ErrorKind::NotFound { error.with_kind(ErrorKind::Unavailable) } else { error }
}

/// Another process has changed a record since it was read.
fn busy(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Conflict => Error::busy("another process changed the record at the same time; try again"),
        _ => error,
    }
}

/// Repeats a change while other processes change the same records.
async fn retry_busy<T, F: Future<Output = Result<T>>>(attempt: impl Fn() -> F) -> Result<T> {
    let mut attempts = 0..ATTEMPTS_MAX;
    loop {
        match attempt().await {
            Err(error) if error.kind() == ErrorKind::Busy && attempts.next().is_some() => {}
            result => return result,
        }
    }
}

/// As on AWS, names that differ only in upper and lower case are the same.
fn same_name(kind: IdentityKind, known: &str) -> Error {
    Error::already_exists(format!("this {} exists already", kind.word())).with("name", known)
}

fn exists(error: Error, what: &'static str, name: &str) -> Error {
    if error.kind() == ErrorKind::Conflict {
        return Error::already_exists(format!("this {what} exists already")).with("name", name);
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
        text.map_err(|error| Error::internal("cannot encode a record").with_source(error))
    };
    let (expected, new) = (expected.map(encode).transpose()?, new.map(encode).transpose()?);
    Ok(RecordChange { kind, name: name.to_owned(), expected, new })
}

fn decode<T: DeserializeOwned>(value: &[u8], name: &str) -> Result<T> {
    serde_json::from_slice(value)
        .map_err(|error| Error::corrupt("cannot decode a record").with("name", name).with_source(error))
}
