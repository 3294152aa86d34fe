//! IAM's calls for users and their access keys.

use super::{Call, Target, date, element, failure, field, invalid};
use crate::identity::{Caller, Identity, IdentityKind, Key, ROOT_USER, root_arn};
use benthic_core::{Error, ErrorKind};
use s3s::S3Result;

impl Call<'_> {
    pub(super) async fn user(&self, action: &str, result: &mut String) -> S3Result<()> {
        let kind = IdentityKind::User;
        match action {
            "CreateUser" => {
                let Target { name, .. } = self.target(action, kind).await?;
                let boundary = self.form.optional("PermissionsBoundary").map(str::to_owned);
                let new = Identity { boundary, ..Identity::with_path(self.path()?) };
                let created = self.identities.create_identity(kind, &self.account, name, new).await;
                self.write_user(result, name, &created.map_err(failure)?)
            }
            "GetUser" => {
                let target = self.named_user_or_caller(action).await?;
                self.write_user(result, target.name, &target.require()?)
            }
            "ListUsers" => {
                let write = |text: &mut String, name: &str, user: &Identity| {
                    self.write_identity(text, kind, (name, user))
                };
                self.list(result, (action, "Users"), kind, write).await
            }
            "UpdateUser" => self.update(action, kind).await,
            "DeleteUser" => {
                let target = self.target(action, kind).await?;
                let name = target.name;
                if target.require()?.policies.is_some_and(|policies| !policies.is_empty()) {
                    return Err(failure(Error::conflict("delete the policies of the user first")));
                }
                self.identities.remove_identity(kind, &self.account, name).await.map_err(failure)
            }
            "PutUserPermissionsBoundary" | "DeleteUserPermissionsBoundary" => {
                self.change_boundary(action, kind).await
            }
            "CreateAccessKey" => {
                let Target { name, .. } = self.named_user_or_caller(action).await?;
                let key = self.identities.create_key(&self.account, name).await.map_err(failure)?;
                element(result, "AccessKey", |text| {
                    field(text, "UserName", name);
                    field(text, "AccessKeyId", &key.access_key);
                    field(text, "Status", "Active");
                    field(text, "SecretAccessKey", &key.secret);
                    field(text, "CreateDate", &date(self.facts.received_ms)?);
                    Ok(())
                })
            }
            "ListAccessKeys" => {
                let target = self.named_user_or_caller(action).await?;
                let name = target.name;
                target.require()?;
                let keys = self.identities.keys_of(&self.account, name).await.map_err(failure)?;
                self.write_page(result, "AccessKeyMetadata", keys, |text, access_key, key| {
                    field(text, "UserName", &key.user);
                    field(text, "AccessKeyId", access_key);
                    field(text, "Status", if key.suspended { "Inactive" } else { "Active" });
                    field(text, "CreateDate", &date(key.created_ms)?);
                    Ok(())
                })
            }
            "UpdateAccessKey" => {
                let access_key = self.access_key(action).await?;
                let is_suspended = match self.form.get("Status")? {
                    "Active" => false,
                    "Inactive" => true,
                    _ => return Err(invalid("Status is Active or Inactive")),
                };
                self.identities.suspend_key(access_key, is_suspended).await.map_err(failure)
            }
            _ => {
                let access_key = self.access_key(action).await?;
                self.identities.remove_key(access_key).await.map_err(failure)
            }
        }
    }

    fn write_user(&self, text: &mut String, name: &str, user: &Identity) -> S3Result<()> {
        element(text, "User", |text| {
            if name != ROOT_USER {
                return self.write_identity(text, IdentityKind::User, (name, user));
            }
            field(text, "UserId", &self.account);
            field(text, "Arn", &root_arn(&self.account));
            field(text, "CreateDate", &date(user.created_ms)?);
            Ok(())
        })
    }

    /// The user that the request names, or else the caller.
    async fn named_user_or_caller(&self, action: &str) -> S3Result<Target<'_>> {
        let kind = IdentityKind::User;
        let name = match (&self.facts.caller, self.form.optional("UserName")) {
            (Caller::User { user, .. }, None) => user,
            _ => self.form.get("UserName")?,
        };
        if name == ROOT_USER {
            self.allow(action, &root_arn(&self.account))?;
            let found = self.identities.actor(kind, &self.account, name).await.map_err(failure)?;
            return Ok(Target { kind, name, found: Some(found) });
        }
        self.target_named(action, kind, name).await
    }

    /// A key of the user.
    async fn access_key(&self, action: &str) -> S3Result<&str> {
        let Target { name, .. } = self.named_user_or_caller(action).await?;
        let access_key = self.form.get("AccessKeyId")?;
        match self.identities.key(access_key).await {
            Ok(Key { account, user, .. }) if account == self.account && user == name => Ok(access_key),
            Err(error) if error.kind() != ErrorKind::NotFound => Err(failure(error)),
            _ => Err(failure(Error::not_found("the user has no such key"))),
        }
    }
}
