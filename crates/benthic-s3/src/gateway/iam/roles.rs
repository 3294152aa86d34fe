//! IAM's calls for roles, which callers assume for a session.

use super::policies::malformed;
use super::{Call, Target, element, failure, field, invalid};
use crate::identity::{Identity, IdentityKind, PrincipalIds, RoleSettings};
use crate::policy::Document;
use benthic_core::ErrorKind;
use s3s::S3Result;

/// Limits of the longest session of a role, in seconds.
const SESSION_S_MAX: std::ops::RangeInclusive<u32> = 3_600..=43_200;
const DESCRIPTION_BYTES_MAX: usize = 1_000;

impl Call<'_> {
    pub(super) async fn role(&self, action: &str, result: &mut String) -> S3Result<()> {
        let kind = IdentityKind::Role;
        match action {
            "CreateRole" => {
                let Target { name, .. } = self.target(action, kind).await?;
                let trust = self.form.get("AssumeRolePolicyDocument")?;
                let role = RoleSettings {
                    trust: trust.to_owned(),
                    trust_principals: self.trust_principals(trust).await?,
                    description: self.description()?,
                    session_s_max: self.session_s_max()?.unwrap_or(*SESSION_S_MAX.start()),
                };
                let boundary = self.form.optional("PermissionsBoundary").map(str::to_owned);
                let new = Identity { boundary, role: Some(role), ..Identity::with_path(self.path()?) };
                let created = self.identities.create_identity(kind, &self.account, name, new).await;
                let created = created.map_err(failure)?;
                element(result, "Role", |text| self.write_role(text, name, &created))
            }
            "GetRole" => {
                let target = self.target(action, kind).await?;
                let name = target.name;
                let role = target.require()?;
                element(result, "Role", |text| self.write_role(text, name, &role))
            }
            "ListRoles" => {
                let write =
                    |text: &mut String, name: &str, role: &Identity| self.write_role(text, name, role);
                self.list(result, (action, "Roles"), kind, write).await
            }
            // There are no instances. Clients ask before they delete a role.
            "ListInstanceProfilesForRole" => {
                self.target(action, kind).await?.require()?;
                self.write_page(result, "InstanceProfiles", Vec::new(), |_, _, ()| Ok(()))
            }
            "UpdateRole" => {
                let target = self.target(action, kind).await?;
                let (description, session_s_max) = (self.description()?, self.session_s_max()?);
                self.change_role(&target, |role| {
                    role.description = description.clone().or(role.description.take());
                    role.session_s_max = session_s_max.unwrap_or(role.session_s_max);
                })
                .await
            }
            "UpdateAssumeRolePolicy" => {
                let target = self.target(action, kind).await?;
                let trust = self.form.get("PolicyDocument")?;
                let principals = self.trust_principals(trust).await?;
                self.change_role(&target, |role| {
                    role.trust = trust.to_owned();
                    role.trust_principals.clone_from(&principals);
                })
                .await
            }
            "PutRolePermissionsBoundary" | "DeleteRolePermissionsBoundary" => {
                self.change_boundary(action, kind).await
            }
            _ => {
                let Target { name, .. } = self.target(action, kind).await?;
                self.identities.remove_identity(kind, &self.account, name).await.map_err(failure)
            }
        }
    }

    /// Checks a trust policy, and returns the ids of the users and roles that it names.
    async fn trust_principals(&self, trust: &str) -> S3Result<PrincipalIds> {
        let trust = Document::of_trust(trust).map_err(|message| malformed(&message))?;
        let named = trust.identities().map_err(|message| malformed(&message))?;
        match self.identities.principal_ids(named).await {
            Err(failed) if failed.kind() == ErrorKind::NotFound => Err(malformed(failed.message())),
            ids => ids.map_err(failure),
        }
    }

    async fn change_role(&self, target: &Target<'_>, change: impl Fn(&mut RoleSettings)) -> S3Result<()> {
        self.change(target, |identity| {
            identity.role.as_mut().map(&change);
            Ok(())
        })
        .await
    }

    fn write_role(&self, text: &mut String, name: &str, role: &Identity) -> S3Result<()> {
        self.write_identity(text, IdentityKind::Role, (name, role))?;
        if let Some(RoleSettings { trust, description, session_s_max, .. }) = &role.role {
            field(text, "AssumeRolePolicyDocument", &crate::gateway::list::encode(trust));
            field(text, "MaxSessionDuration", &session_s_max.to_string());
            if let Some(description) = description.as_ref().filter(|text| !text.is_empty()) {
                field(text, "Description", description);
            }
        }
        Ok(())
    }

    pub(super) fn description(&self) -> S3Result<Option<String>> {
        match self.form.0.get("Description") {
            Some(text) if text.len() > DESCRIPTION_BYTES_MAX || text.chars().any(char::is_control) => {
                Err(invalid("the description must be one line of at most 1000 bytes"))
            }
            text => Ok(text.cloned()),
        }
    }

    fn session_s_max(&self) -> S3Result<Option<u32>> {
        self.form.number("MaxSessionDuration", SESSION_S_MAX)
    }
}
