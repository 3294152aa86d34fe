//! IAM's calls for groups of users.

use super::{Call, Target, element, failure};
use crate::identity::{Identity, IdentityKind};
use benthic_core::Error;
use s3s::S3Result;

impl Call<'_> {
    pub(super) async fn group(&self, action: &str, result: &mut String) -> S3Result<()> {
        let kind = IdentityKind::Group;
        let write =
            |text: &mut String, name: &str, group: &Identity| self.write_identity(text, kind, (name, group));
        match action {
            "CreateGroup" => {
                let Target { name, .. } = self.target(action, kind).await?;
                let new = Identity::with_path(self.path()?);
                let created = self.identities.create_identity(kind, &self.account, name, new).await;
                let created = created.map_err(failure)?;
                element(result, "Group", |text| write(text, name, &created))
            }
            "GetGroup" => {
                let target = self.target(action, kind).await?;
                let name = target.name;
                let group = target.require()?;
                element(result, "Group", |text| write(text, name, &group))?;
                let users = self.identities.users(&self.account).await.map_err(failure)?;
                let users = users.into_iter().filter(|(_, user)| user.groups.contains(name));
                self.write_page(result, "Users", users.collect(), |text, name, user| {
                    self.write_identity(text, IdentityKind::User, (name, user))
                })
            }
            "ListGroups" => self.list(result, (action, "Groups"), kind, write).await,
            "UpdateGroup" => self.update(action, kind).await,
            "DeleteGroup" => {
                let Target { name, .. } = self.target(action, kind).await?;
                self.identities.remove_identity(kind, &self.account, name).await.map_err(failure)
            }
            "ListGroupsForUser" => {
                let user = self.target(action, IdentityKind::User).await?.require()?;
                let mut groups = Vec::new();
                for name in user.groups {
                    let group = self.identities.identity(kind, &self.account, &name).await;
                    groups.push((name, group.map_err(failure)?));
                }
                self.write_page(result, "Groups", groups, write)
            }
            _ => {
                let Target { name: group, .. } = self.target(action, kind).await?;
                let (name, kind) = (self.form.get("UserName")?, IdentityKind::User);
                let found = self.identities.identity(kind, &self.account, name).await.map_err(failure)?;
                // The first group takes all other rights from a user with all rights, so the caller
                // needs permission on the user, too.
                if found.policies.is_none() {
                    self.allow(action, &self.arn(kind, found.path(), name))?;
                }
                let user = Target { kind, name, found: Some(found) };
                self.change(&user, |user| {
                    if action == "RemoveUserFromGroup" {
                        let message = "the user is not in the group";
                        let removed = user.groups.remove(group);
                        return removed.then_some(()).ok_or_else(|| Error::not_found(message));
                    }
                    user.groups.insert(group.to_owned());
                    user.policies.get_or_insert_default();
                    Ok(())
                })
                .await
            }
        }
    }
}
