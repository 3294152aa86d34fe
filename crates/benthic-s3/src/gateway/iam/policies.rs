//! The policies of users, groups and roles, and managed policies.

use super::{Call, ITEMS_MAX, date, element, error, failure, field, invalid, title, write_end};
use crate::identity::{
    FIRST_VERSION, Identity, IdentityKind, ManagedPolicy, PolicyVersion, VERSIONS_MAX, built_in_policies,
    check_policy_name, policy_arn,
};
use crate::policy::Document;
use benthic_core::Error;
use hyper::StatusCode;
use s3s::{S3Error, S3Result};

/// The effect of an action on the policies of a user, a group or a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Put,
    Get,
    List,
    Delete,
    Attach,
    Detach,
    ListAttached,
}

/// The parts of actions such as `PutUserPolicy`.
pub(super) fn of_identity(action: &str) -> Option<(IdentityKind, Verb)> {
    let kinds = [IdentityKind::User, IdentityKind::Group, IdentityKind::Role];
    let verbs = [
        ("Put", "Policy", Verb::Put),
        ("Get", "Policy", Verb::Get),
        ("List", "Policies", Verb::List),
        ("Delete", "Policy", Verb::Delete),
        ("Attach", "Policy", Verb::Attach),
        ("Detach", "Policy", Verb::Detach),
        ("ListAttached", "Policies", Verb::ListAttached),
    ];
    kinds.into_iter().find_map(|kind| {
        let (start, end) = action.split_once(title(kind))?;
        let verb = verbs.iter().find(|(before, after, _)| (*before, *after) == (start, end));
        verb.map(|(_, _, verb)| (kind, *verb))
    })
}

/// Checks the text of a policy.
pub(super) fn check_document(text: &str, parse: impl Fn(&str) -> Result<Document, String>) -> S3Result<()> {
    parse(text).map(drop).map_err(|message| malformed(&message))
}

pub(super) fn malformed(message: &str) -> S3Error {
    error("MalformedPolicyDocument", StatusCode::BAD_REQUEST, message)
}

fn no_policy() -> Error {
    Error::not_found("there is no such policy")
}

impl Call<'_> {
    pub(super) async fn policy_of_identity(
        &self,
        action: &str,
        kind: IdentityKind,
        verb: Verb,
        result: &mut String,
    ) -> S3Result<()> {
        let target = self.target(action, kind).await?;
        match verb {
            Verb::Put => {
                let name = self.form.get("PolicyName")?;
                check_policy_name(name).map_err(failure)?;
                let text = self.document()?;
                self.change(&target, |identity| {
                    identity.policies.get_or_insert_default().insert(name.to_owned(), text.to_owned());
                    Ok(())
                })
                .await
            }
            Verb::Get => {
                let (owner, name) = (target.name, self.form.get("PolicyName")?);
                let text = target.require()?.policies.and_then(|mut policies| policies.remove(name));
                let text = text.ok_or_else(|| failure(no_policy()))?;
                field(result, &format!("{}Name", title(kind)), owner);
                field(result, "PolicyName", name);
                field(result, "PolicyDocument", &crate::gateway::list::encode(&text));
                Ok(())
            }
            Verb::List => {
                let names = target.require()?.policies.unwrap_or_default().into_iter().collect();
                self.write_list(result, "PolicyNames", names, |text, name, _: &String| {
                    field(text, "member", name);
                    Ok(())
                })
            }
            Verb::Delete => {
                let name = self.form.get("PolicyName")?;
                self.change(&target, |identity| {
                    let removed = identity.policies.as_mut().and_then(|policies| policies.remove(name));
                    removed.map(drop).ok_or_else(no_policy)
                })
                .await
            }
            Verb::Attach => {
                let arn = self.form.get("PolicyArn")?;
                self.change(&target, |identity| {
                    identity.policies.get_or_insert_default();
                    identity.attached.insert(arn.to_owned());
                    Ok(())
                })
                .await
            }
            Verb::Detach => {
                let arn = self.form.get("PolicyArn")?;
                self.change(&target, |identity| {
                    identity.attached.remove(arn).then_some(()).ok_or_else(no_policy)
                })
                .await
            }
            Verb::ListAttached => {
                let prefix = self.form.optional("PathPrefix").unwrap_or("/");
                let attached = target.require()?.attached.into_iter().filter(|arn| {
                    arn.split_once(":policy").is_some_and(|(_, path)| path.starts_with(prefix))
                });
                let attached = attached.map(|arn| (arn, ())).collect();
                self.write_page(result, "AttachedPolicies", attached, |text, arn, ()| {
                    field(text, "PolicyName", name_in(arn));
                    field(text, "PolicyArn", arn);
                    Ok(())
                })
            }
        }
    }

    /// Sets the boundary of a user or a role, or removes it if the request names none.
    pub(super) async fn change_boundary(&self, action: &str, kind: IdentityKind) -> S3Result<()> {
        let target = self.target(action, kind).await?;
        let boundary = match action.starts_with("Put") {
            true => Some(self.form.get("PermissionsBoundary")?.to_owned()),
            false => None,
        };
        self.change(&target, |identity| {
            identity.boundary.clone_from(&boundary);
            Ok(())
        })
        .await
    }

    /// The text of a policy in the request.
    fn document(&self) -> S3Result<&str> {
        let text = self.form.get("PolicyDocument")?;
        check_document(text, Document::of_new_identity)?;
        Ok(text)
    }

    pub(super) async fn managed_policy(&self, action: &str, result: &mut String) -> S3Result<()> {
        match action {
            "CreatePolicy" => {
                let (name, path) = (self.form.get("PolicyName")?, self.path()?);
                let arn = policy_arn(&self.account, path, name);
                self.allow(action, &arn)?;
                let description = self.description()?;
                let created = self
                    .identities
                    .create_policy(&self.account, (path, name), description.as_deref(), self.document()?)
                    .await;
                element(result, "Policy", |text| write_policy(text, &arn, &created.map_err(failure)?))
            }
            "ListPolicies" => {
                self.allow(action, "*")?;
                let prefix = self.form.optional("PathPrefix").unwrap_or("/");
                let only_attached = self.form.flag("OnlyAttached")?;
                let (own, built_in) = match self.form.optional("Scope") {
                    None | Some("All") => (true, true),
                    Some("Local") => (true, false),
                    Some("AWS") => (false, true),
                    Some(_) => return Err(invalid("Scope must be All, Local or AWS")),
                };
                let mut all = if built_in { built_in_policies() } else { Vec::new() };
                if own {
                    all.extend(self.identities.policies(&self.account).await.map_err(failure)?);
                }
                all.retain(|(_, policy)| {
                    policy.path.starts_with(prefix) && (policy.attachments > 0 || !only_attached)
                });
                all.sort_by(|(one, _), (other, _)| one.cmp(other));
                self.write_page(result, "Policies", all, write_policy)
            }
            _ => self.existing_policy(action, result).await,
        }
    }

    async fn existing_policy(&self, action: &str, result: &mut String) -> S3Result<()> {
        let arn = self.form.get("PolicyArn")?;
        self.allow(action, arn)?;
        let policy = self.identities.policy(&self.account, arn).await.map_err(failure)?;
        match action {
            "GetPolicy" => element(result, "Policy", |text| write_policy(text, arn, &policy)),
            "ListEntitiesForPolicy" => self.entities(arn, result).await,
            "DeletePolicy" => self.identities.remove_policy(&self.account, arn).await.map_err(failure),
            "ListPolicyVersions" => {
                // The page begins after a name, so the names must have the order of the numbers.
                let versions = policy.versions.iter();
                let versions =
                    versions.map(|(number, version)| (format!("{number:010}"), (*number, version)));
                self.write_page(result, "Versions", versions.collect(), |text, _, (number, version)| {
                    write_version(text, *number, version, *number == policy.default)
                })
            }
            "GetPolicyVersion" => {
                let number = self.version()?;
                let version = policy.versions.get(&number).ok_or_else(|| failure(no_policy()))?;
                element(result, "PolicyVersion", |text| {
                    field(text, "Document", &crate::gateway::list::encode(&version.text));
                    write_version(text, number, version, number == policy.default)
                })
            }
            "CreatePolicyVersion" => {
                let text = self.document()?.to_owned();
                let is_default = self.form.flag("SetAsDefault")?;
                let changed = self.identities.change_policy(&self.account, arn, |policy, now_ms| {
                    if policy.versions.len() >= VERSIONS_MAX {
                        let message =
                            format!("a policy has at most {VERSIONS_MAX} versions; delete one first");
                        return Err(Error::limit_exceeded(message));
                    }
                    policy.last_version += 1;
                    policy.versions.insert(policy.last_version, PolicyVersion { created_ms: now_ms, text });
                    if is_default {
                        policy.default = policy.last_version;
                    }
                    Ok(())
                });
                let policy = changed.await.map_err(failure)?;
                let number = policy.last_version;
                let version = policy.versions.get(&number).ok_or_else(|| failure(no_policy()))?;
                element(result, "PolicyVersion", |text| {
                    write_version(text, number, version, number == policy.default)
                })
            }
            _ => {
                let number = self.version()?;
                let changed = self.identities.change_policy(&self.account, arn, |policy, _| {
                    if !policy.versions.contains_key(&number) {
                        return Err(no_policy());
                    }
                    if action == "SetDefaultPolicyVersion" {
                        policy.default = number;
                    } else if policy.default == number {
                        return Err(Error::conflict(
                            "the default version cannot be deleted; set another default version first",
                        ));
                    } else {
                        policy.versions.remove(&number);
                    }
                    Ok(())
                });
                changed.await.map(drop).map_err(failure)
            }
        }
    }

    /// Writes a page of the users, groups and roles that use a policy.
    async fn entities(&self, arn: &str, result: &mut String) -> S3Result<()> {
        let all = [IdentityKind::Group, IdentityKind::User, IdentityKind::Role];
        let wanted = self.form.optional("EntityFilter");
        if wanted.is_some_and(|wanted| all.iter().all(|kind| title(*kind) != wanted)) {
            return Err(invalid("EntityFilter must be User, Role or Group"));
        }
        let (attached, bounds) = match self.form.optional("PolicyUsageFilter") {
            None => (true, true),
            Some("PermissionsPolicy") => (true, false),
            Some("PermissionsBoundary") => (false, true),
            Some(_) => {
                return Err(invalid("PolicyUsageFilter must be PermissionsPolicy or PermissionsBoundary"));
            }
        };
        let prefix = self.form.optional("PathPrefix").unwrap_or("/");
        let uses = |identity: &Identity| {
            (attached && identity.attached.contains(arn))
                || (bounds && identity.boundary.as_deref() == Some(arn))
        };
        let mut found = Vec::new();
        for kind in all.into_iter().filter(|kind| wanted.is_none_or(|wanted| title(*kind) == wanted)) {
            let identities = self.identities.identities(kind, &self.account).await.map_err(failure)?;
            let fitting =
                identities.into_iter().filter(|(_, one)| one.path().starts_with(prefix) && uses(one));
            // Names of one kind are unique.
            found.extend(fitting.map(|(name, one)| {
                (format!("{}/{name}", title(kind)), (kind, one.id(&self.account, &name), name))
            }));
        }
        let (page, is_truncated) = self.page(found, ITEMS_MAX)?;
        for kind in all {
            let title = title(kind);
            let of_kind = page.iter().filter(|(_, (of, ..))| *of == kind);
            element(result, &format!("Policy{title}s"), |text| {
                of_kind.map(|(_, found)| found).try_for_each(|(_, id, name)| {
                    element(text, "member", |text| {
                        field(text, &format!("{title}Name"), name);
                        field(text, &format!("{title}Id"), id);
                        Ok(())
                    })
                })
            })?;
        }
        write_end(result, &page, is_truncated);
        Ok(())
    }

    /// The version that the request names, such as `v2`.
    fn version(&self) -> S3Result<u32> {
        let number = self.form.get("VersionId")?.strip_prefix('v').and_then(|number| number.parse().ok());
        number.filter(|number| *number >= FIRST_VERSION).ok_or_else(|| invalid("VersionId must be v1, v2, …"))
    }
}

pub(super) fn write_policy(text: &mut String, arn: &str, policy: &ManagedPolicy) -> S3Result<()> {
    let name = name_in(arn);
    field(text, "PolicyName", name);
    field(text, "PolicyId", name);
    field(text, "Arn", arn);
    field(text, "Path", &policy.path);
    field(text, "DefaultVersionId", &version_id(policy.default));
    field(text, "AttachmentCount", &policy.attachments.to_string());
    field(text, "PermissionsBoundaryUsageCount", &policy.boundaries.to_string());
    field(text, "IsAttachable", "true");
    if let Some(description) = &policy.description {
        field(text, "Description", description);
    }
    field(text, "CreateDate", &date(policy.created_ms)?);
    field(text, "UpdateDate", &date(policy.updated_ms)?);
    Ok(())
}

/// The name of a policy in its ARN.
pub(super) fn name_in(arn: &str) -> &str {
    arn.rsplit('/').next().unwrap_or(arn)
}

fn version_id(number: u32) -> String {
    format!("v{number}")
}

pub(super) fn write_version(
    text: &mut String,
    number: u32,
    version: &PolicyVersion,
    is_default: bool,
) -> S3Result<()> {
    field(text, "VersionId", &version_id(number));
    field(text, "IsDefaultVersion", if is_default { "true" } else { "false" });
    field(text, "CreateDate", &date(version.created_ms)?);
    Ok(())
}
