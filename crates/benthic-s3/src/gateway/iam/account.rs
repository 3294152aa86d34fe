//! The summary of an account, and all its users, groups, roles and policies in one list.

use super::policies::{name_in, write_policy, write_version};
use super::{Call, element, failure, field, invalid, write_end};
use crate::gateway::list::encode;
use crate::identity::{
    ATTACHED_MAX, GROUPS_MAX, Identity, IdentityKind, KEYS_MAX, ManagedPolicy, POLICIES_MAX, PROVIDERS_MAX,
    ROLES_MAX, ROOT_USER, USERS_MAX, VERSIONS_MAX, built_in_policies,
};
use s3s::S3Result;

/// An item of the list.
enum Detail {
    Identity(IdentityKind, String, Identity),
    Policy(String, ManagedPolicy),
}

impl Detail {
    /// The size of its policies.
    fn text_bytes(&self) -> usize {
        match self {
            Detail::Identity(_, _, identity) => {
                let own = identity.policies.iter().flatten().map(|(_, text)| text.len());
                own.chain(identity.role.iter().map(|role| role.trust.len())).sum()
            }
            Detail::Policy(_, policy) => policy.versions.values().map(|version| version.text.len()).sum(),
        }
    }
}

/// Number of items on a page, if the request gives none. It is that of AWS.
const DETAILS_DEFAULT: u32 = 100;
/// Maximum size of the policies on a page with several items, in bytes.
const DETAILS_BYTES_MAX: usize = 1 << 20;
/// The values of `Filter`.
const FILTERS: [&str; 5] = ["User", "Group", "Role", "LocalManagedPolicy", "AWSManagedPolicy"];
const KINDS: [(IdentityKind, &str); 3] =
    [(IdentityKind::User, "User"), (IdentityKind::Group, "Group"), (IdentityKind::Role, "Role")];

impl Call<'_> {
    pub(super) async fn account_summary(&self, action: &str, result: &mut String) -> S3Result<()> {
        self.allow(action, "*")?;
        let (identities, account) = (self.identities, self.account.as_str());
        let count = |kind| async move {
            identities.identities(kind, account).await.map(|all| all.len()).map_err(failure)
        };
        let policies = identities.policies(account).await.map_err(failure)?;
        let attached = policies.iter().filter(|(_, policy)| policy.attachments > 0).count();
        let versions: usize = policies.iter().map(|(_, policy)| policy.versions.len()).sum();
        let providers = identities.oidc_providers(account).await.map_err(failure)?.len();
        let own_keys = identities.keys_of(account, ROOT_USER).await.map_err(failure)?;
        let sums = [
            ("Users", count(IdentityKind::User).await?),
            ("UsersQuota", USERS_MAX),
            ("Groups", count(IdentityKind::Group).await?),
            ("GroupsQuota", GROUPS_MAX),
            ("GroupsPerUserQuota", ATTACHED_MAX),
            ("Roles", count(IdentityKind::Role).await?),
            ("RolesQuota", ROLES_MAX),
            ("Policies", policies.len()),
            ("PoliciesQuota", POLICIES_MAX),
            ("PolicyVersionsInUse", versions),
            ("VersionsPerPolicyQuota", VERSIONS_MAX),
            ("AttachedPoliciesPerUserQuota", ATTACHED_MAX),
            ("AttachedPoliciesPerGroupQuota", ATTACHED_MAX),
            ("AttachedPoliciesPerRoleQuota", ATTACHED_MAX),
            ("PoliciesAttached", attached),
            ("Providers", providers),
            ("OIDCProvidersQuota", PROVIDERS_MAX),
            ("AccessKeysPerUserQuota", KEYS_MAX),
            ("AccountAccessKeysPresent", usize::from(!own_keys.is_empty())),
            ("AccountMFAEnabled", 0),
        ];
        element(result, "SummaryMap", |text| {
            sums.iter().try_for_each(|(key, value)| {
                element(text, "entry", |text| {
                    field(text, "key", key);
                    field(text, "value", &value.to_string());
                    Ok(())
                })
            })
        })
    }

    pub(super) async fn authorization_details(&self, action: &str, result: &mut String) -> S3Result<()> {
        self.allow(action, "*")?;
        let wanted = self.form.texts("Filter")?;
        if let Some(unknown) = wanted.iter().find(|filter| !FILTERS.contains(&filter.as_str())) {
            return Err(invalid(&format!("{unknown} is no filter; use {}", FILTERS.join(", "))));
        }
        let is_wanted = |filter: &str| wanted.is_empty() || wanted.contains(filter);
        // One page has items of all kinds, so the names of the items begin with the kind.
        let marker = self.form.optional("Marker").unwrap_or_default().to_ascii_lowercase();
        // A slash follows the kind, and in ASCII `0` follows the slash.
        let is_left = |kind: &str| format!("{kind}0").to_ascii_lowercase() > marker;
        let mut all = Vec::new();
        for (kind, title) in KINDS {
            if is_wanted(title) && is_left(title) {
                let found = self.identities.identities(kind, &self.account).await.map_err(failure)?;
                all.extend(found.into_iter().map(|(name, identity)| {
                    (format!("{title}/{name}"), Detail::Identity(kind, name, identity))
                }));
            }
        }
        let mut policies = Vec::new();
        if is_wanted("LocalManagedPolicy") && is_left("Policy") {
            policies.extend(self.identities.policies(&self.account).await.map_err(failure)?);
        }
        if is_wanted("AWSManagedPolicy") {
            policies.extend(built_in_policies());
        }
        let policies = policies.into_iter();
        all.extend(policies.map(|(arn, policy)| (format!("Policy/{arn}"), Detail::Policy(arn, policy))));
        let (mut page, mut is_truncated) = self.page(all, DETAILS_DEFAULT)?;
        let mut bytes = 0;
        let fitting = page.iter().take_while(|(_, detail)| {
            bytes += detail.text_bytes();
            bytes <= DETAILS_BYTES_MAX
        });
        let fitting = fitting.count().max(1);
        if fitting < page.len() {
            page.truncate(fitting);
            is_truncated = true;
        }
        for (kind, title) in KINDS {
            element(result, &format!("{title}DetailList"), |text| {
                page.iter().try_for_each(|(_, detail)| match detail {
                    Detail::Identity(of, name, identity) if *of == kind => {
                        element(text, "member", |text| self.write_detail(text, (kind, title), name, identity))
                    }
                    Detail::Identity(..) | Detail::Policy(..) => Ok(()),
                })
            })?;
        }
        element(result, "Policies", |text| {
            page.iter().try_for_each(|(_, detail)| match detail {
                Detail::Policy(arn, policy) => element(text, "member", |text| {
                    write_policy(text, arn, policy)?;
                    element(text, "PolicyVersionList", |text| {
                        policy.versions.iter().try_for_each(|(number, version)| {
                            element(text, "member", |text| {
                                field(text, "Document", &encode(&version.text));
                                write_version(text, *number, version, *number == policy.default)
                            })
                        })
                    })
                }),
                Detail::Identity(..) => Ok(()),
            })
        })?;
        write_end(result, &page, is_truncated);
        Ok(())
    }

    fn write_detail(
        &self,
        text: &mut String,
        (kind, title): (IdentityKind, &str),
        name: &str,
        identity: &Identity,
    ) -> S3Result<()> {
        self.write_identity(text, kind, (name, identity))?;
        if let Some(role) = &identity.role {
            field(text, "AssumeRolePolicyDocument", &encode(&role.trust));
        }
        element(text, &format!("{title}PolicyList"), |text| {
            identity.policies.iter().flatten().try_for_each(|(name, policy)| {
                element(text, "member", |text| {
                    field(text, "PolicyName", name);
                    field(text, "PolicyDocument", &encode(policy));
                    Ok(())
                })
            })
        })?;
        if kind == IdentityKind::User {
            element(text, "GroupList", |text| {
                identity.groups.iter().for_each(|group| field(text, "member", group));
                Ok(())
            })?;
        }
        element(text, "AttachedManagedPolicies", |text| {
            identity.attached.iter().try_for_each(|arn| {
                element(text, "member", |text| {
                    field(text, "PolicyName", name_in(arn));
                    field(text, "PolicyArn", arn);
                    Ok(())
                })
            })
        })
    }
}
