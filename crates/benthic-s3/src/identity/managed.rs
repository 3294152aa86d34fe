//! Managed policies, and which policies apply to a caller.

use super::accounts::BUILT_IN_ACCOUNT;
use super::{
    FORM, Identities, Identity, IdentityKind, POLICIES_MAX, busy, change, check_policy_name, full_name,
};
use crate::sal::{RecordChange, RecordKind};
use benthic_core::{Error, Result};
use futures::future::try_join_all;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of versions of a policy.
pub const VERSIONS_MAX: usize = 5;
/// Maximum size of all policies of a caller together, in bytes.
const TEXTS_BYTES_MAX: usize = 128 * 1024;
/// The version that a new policy has.
pub const FIRST_VERSION: u32 = 1;

const ARN: &str = "arn:aws:iam::";
/// The policies that every store has, under the names of AWS.
const BUILT_IN: [(&str, &str); 7] = [
    (
        "AdministratorAccess",
        r#"{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"*","Resource":"*"}}"#,
    ),
    (
        "AmazonS3FullAccess",
        r#"{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"s3:*","Resource":"*"}}"#,
    ),
    (
        "AmazonS3ReadOnlyAccess",
        r#"{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":["s3:Get*","s3:List*"],"Resource":"*"}}"#,
    ),
    (
        "AmazonSNSFullAccess",
        r#"{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"sns:*","Resource":"*"}}"#,
    ),
    (
        "AmazonSNSReadOnlyAccess",
        r#"{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":["sns:Get*","sns:List*"],"Resource":"*"}}"#,
    ),
    (
        "IAMFullAccess",
        r#"{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"iam:*","Resource":"*"}}"#,
    ),
    (
        "IAMReadOnlyAccess",
        r#"{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":["iam:Get*","iam:List*"],"Resource":"*"}}"#,
    ),
];

/// A policy that can be attached to users, groups and roles of its account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManagedPolicy {
    pub form: u32,
    pub created_ms: u64,
    pub updated_ms: u64,
    pub path: String,
    pub description: Option<String>,
    /// The version that applies.
    pub default: u32,
    pub last_version: u32,
    pub versions: BTreeMap<u32, PolicyVersion>,
    /// Number of users, groups and roles to which it is attached.
    pub attachments: u32,
    /// Number of users and roles that it limits.
    pub boundaries: u32,
}

/// A version of a managed policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyVersion {
    pub created_ms: u64,
    /// The policy, as JSON.
    pub text: String,
}

impl ManagedPolicy {
    fn new(text: &str, path: &str, description: Option<&str>, now_ms: u64) -> ManagedPolicy {
        ManagedPolicy {
            form: FORM,
            created_ms: now_ms,
            updated_ms: now_ms,
            path: path.to_owned(),
            description: description.map(str::to_owned),
            default: FIRST_VERSION,
            last_version: FIRST_VERSION,
            versions: [(FIRST_VERSION, PolicyVersion { created_ms: now_ms, text: text.to_owned() })].into(),
            attachments: 0,
            boundaries: 0,
        }
    }
}

/// The policies that every store has, by ARN.
pub fn built_in_policies() -> Vec<(String, ManagedPolicy)> {
    let policies = BUILT_IN.iter();
    policies
        .map(|(name, text)| (policy_arn(BUILT_IN_ACCOUNT, "/", name), ManagedPolicy::new(text, "/", None, 0)))
        .collect()
}

/// All policies of a caller, as JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyTexts {
    /// The policies of the user and its groups, or of the role. `None` for a user with all rights
    /// of the account.
    pub identity: Option<Vec<String>>,
    pub boundary: Option<String>,
    /// The policies of a session. `None` if it has all rights of the role.
    pub session: Option<Vec<String>>,
}

impl PolicyTexts {
    /// All texts.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        let session = self.session.iter().flatten();
        self.identity.iter().flatten().chain(&self.boundary).chain(session).map(String::as_str)
    }

    /// A hash of the policies, for a cache.
    pub fn hash(&self) -> String {
        let mut hash = blake3::Hasher::new();
        let lists = [&self.identity, &self.boundary.as_ref().map(|text| vec![text.clone()]), &self.session];
        for list in lists {
            hash.update(&[u8::from(list.is_some())]);
            for text in list.iter().flatten() {
                hash.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
            }
        }
        hash.finalize().to_hex().to_string()
    }

    /// Whether a policy limits the caller.
    pub fn is_limited(&self) -> bool {
        *self != PolicyTexts::default()
    }
}

/// The ARN of a managed policy.
pub fn policy_arn(account: &str, path: &str, name: &str) -> String {
    format!("{ARN}{account}:policy{path}{name}")
}

/// The account, the path and the name in the ARN of a managed policy.
fn parse_arn(arn: &str) -> Option<(&str, &str, &str)> {
    let (account, rest) = arn.strip_prefix(ARN)?.split_once(':')?;
    let rest = rest.strip_prefix("policy")?;
    let (path, name) = rest.split_at(rest.rfind('/')? + 1);
    Some((account, path, name))
}

fn built_in(arn: &str) -> Option<&'static str> {
    let (BUILT_IN_ACCOUNT, "/", name) = parse_arn(arn)? else { return None };
    BUILT_IN.iter().find_map(|(known, text)| (*known == name).then_some(*text))
}

fn no_policy(arn: &str) -> Error {
    Error::not_found("no such policy").with("arn", arn)
}

impl Identities {
    /// Creates a managed policy.
    ///
    /// # Errors
    /// `InvalidArgument`, `NotFound`, `AlreadyExists`, `LimitExceeded`.
    pub async fn create_policy(
        &self,
        account: &str,
        (path, name): (&str, &str),
        description: Option<&str>,
        text: &str,
    ) -> Result<ManagedPolicy> {
        check_policy_name(name)?;
        let owner = self.in_account(account).await?;
        if self.sal.record(RecordKind::Policy, &full_name(account, name)).await?.is_some() {
            return Err(Error::already_exists("this policy exists already").with("name", name));
        }
        if self.policies(account).await?.len() >= POLICIES_MAX {
            let message = format!("an account has at most {POLICIES_MAX} policies");
            return Err(Error::limit_exceeded(message).with("account", account));
        }
        let policy = ManagedPolicy::new(text, path, description, self.environment.unix_ms());
        let changes = [owner, change(RecordKind::Policy, &full_name(account, name), None, Some(&policy))?];
        self.swap(&changes, |error| busy(error).with("name", name)).await?;
        Ok(policy)
    }

    /// The managed policies of an account, by ARN.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn policies(&self, account: &str) -> Result<Vec<(String, ManagedPolicy)>> {
        let found: Vec<(String, ManagedPolicy)> = self.of_account(RecordKind::Policy, account).await?;
        Ok(found
            .into_iter()
            .map(|(name, policy)| (policy_arn(account, &policy.path, &name), policy))
            .collect())
    }

    /// A managed policy of an account, or one that every store has.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn policy(&self, account: &str, arn: &str) -> Result<ManagedPolicy> {
        match built_in(arn) {
            Some(text) => Ok(ManagedPolicy::new(text, "/", None, 0)),
            None => Ok(self.own_policy(account, arn).await?.1),
        }
    }

    /// The name and the content of a managed policy of an account.
    async fn own_policy<'a>(&self, account: &str, arn: &'a str) -> Result<(&'a str, ManagedPolicy)> {
        let (_, path, name) =
            parse_arn(arn).filter(|(of, _, _)| *of == account).ok_or_else(|| no_policy(arn))?;
        let policy: ManagedPolicy =
            self.get(RecordKind::Policy, &full_name(account, name), "no such policy").await?;
        if policy.path == path { Ok((name, policy)) } else { Err(no_policy(arn)) }
    }

    /// Changes a managed policy. Running gateways notice within
    /// [`KEY_CACHE_MS`](super::KEY_CACHE_MS).
    ///
    /// # Errors
    /// `NotFound`, `Busy` if another process changes it at the same time, `LimitExceeded`; errors
    /// of `change_it`.
    pub async fn change_policy(
        &self,
        account: &str,
        arn: &str,
        change_it: impl FnOnce(&mut ManagedPolicy, u64) -> Result<()>,
    ) -> Result<ManagedPolicy> {
        let (name, found) = self.own_policy(account, arn).await?;
        let now_ms = self.environment.unix_ms();
        let mut new = ManagedPolicy { updated_ms: now_ms, ..found.clone() };
        change_it(&mut new, now_ms)?;
        let changes = [change(RecordKind::Policy, &full_name(account, name), Some(&found), Some(&new))?];
        self.swap(&changes, |error| busy(error).with("arn", arn)).await?;
        Ok(new)
    }

    /// Removes a managed policy that is not attached.
    ///
    /// # Errors
    /// `NotFound`, `Conflict` if it is attached or has more than one version.
    pub async fn remove_policy(&self, account: &str, arn: &str) -> Result<()> {
        let (name, found) = self.own_policy(account, arn).await?;
        if found.attachments > 0 || found.boundaries > 0 || found.versions.len() > 1 {
            let message = "detach the policy and delete its other versions first";
            return Err(Error::conflict(message).with("arn", arn));
        }
        self.replace(RecordKind::Policy, &full_name(account, name), &found, None::<&ManagedPolicy>).await
    }

    /// The managed policies whose number of uses changes when an identity does. Without these
    /// changes, a policy could be removed while it is attached.
    pub(super) async fn count_uses(
        &self,
        account: &str,
        old: &Identity,
        new: &Identity,
    ) -> Result<Vec<RecordChange>> {
        let arns: BTreeSet<&String> = [old, new]
            .into_iter()
            .flat_map(|identity| identity.attached.iter().chain(&identity.boundary))
            .collect();
        let mut changes = Vec::new();
        for arn in arns {
            let uses = |identity: &Identity| {
                (identity.attached.contains(arn), identity.boundary.as_ref() == Some(arn))
            };
            if uses(old) == uses(new) || built_in(arn).is_some() {
                continue;
            }
            let (name, found) = self.own_policy(account, arn).await?;
            let count = |now: u32, before: bool, after: bool| {
                now.saturating_add(u32::from(after)).saturating_sub(u32::from(before))
            };
            let changed = ManagedPolicy {
                attachments: count(found.attachments, uses(old).0, uses(new).0),
                boundaries: count(found.boundaries, uses(old).1, uses(new).1),
                ..found.clone()
            };
            changes.push(change(
                RecordKind::Policy,
                &full_name(account, name),
                Some(&found),
                Some(&changed),
            )?);
        }
        Ok(changes)
    }

    /// The text that applies of a managed policy of the account, or of one that every store has.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn policy_text(&self, account: &str, arn: &str) -> Result<String> {
        let mut policy = self.policy(account, arn).await?;
        let version = policy.versions.remove(&policy.default);
        let missing = || Error::corrupt("a policy lacks its default version").with("arn", arn);
        version.map(|version| version.text).ok_or_else(missing)
    }

    /// The policies of a user or a role.
    ///
    /// # Errors
    /// `NotFound` if one of them is missing: it may deny something. `LimitExceeded`.
    pub(super) async fn policy_texts(&self, account: &str, identity: Identity) -> Result<PolicyTexts> {
        let groups = identity.groups.iter().map(|name| self.identity(IdentityKind::Group, account, name));
        let boundary = async {
            match &identity.boundary {
                Some(arn) => self.policy_text(account, arn).await.map(Some),
                None => Ok(None),
            }
        };
        let (groups, boundary) = futures::try_join!(try_join_all(groups), boundary)?;
        let has_all_rights = identity.policies.is_none();
        let of_all: Vec<Identity> = [identity].into_iter().chain(groups).collect();
        let attached: BTreeSet<&String> = of_all.iter().flat_map(|identity| &identity.attached).collect();
        let mut texts = try_join_all(attached.into_iter().map(|arn| self.policy_text(account, arn))).await?;
        texts.extend(
            of_all.into_iter().flat_map(|identity| identity.policies.unwrap_or_default().into_values()),
        );
        if texts.iter().chain(&boundary).map(String::len).sum::<usize>() > TEXTS_BYTES_MAX {
            let message =
                "the policies of a user or a role, with those of its groups, are larger than 128 KiB";
            return Err(Error::limit_exceeded(message));
        }
        let identity = if has_all_rights { None } else { Some(texts) };
        Ok(PolicyTexts { identity, boundary, session: None })
    }
}
