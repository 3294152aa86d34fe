//! Access control lists. Only two are supported: `private` and `public-read`.

use super::auth::{Need, PUBLIC_READ, is_public};
use super::{Gateway, names};
use crate::sal::{Attributes, Bucket};
use bytes::Bytes;
use s3s::dto::{
    AccessControlPolicy, GetBucketAclInput, GetBucketAclOutput, GetObjectAclInput, GetObjectAclOutput, Grant,
    Grantee, Owner, Permission, PutBucketAclInput, PutBucketAclOutput, PutObjectAclInput, PutObjectAclOutput,
    Type,
};
use s3s::{S3Request, S3Result, s3_error};

const ALL_USERS: &str = "http://acs.amazonaws.com/groups/global/AllUsers";

/// Stores a canned ACL among the attributes of a bucket or an object.
pub(super) fn set(attributes: &mut Attributes, canned: Option<&str>) -> S3Result<()> {
    match canned {
        None | Some("private" | "bucket-owner-read" | "bucket-owner-full-control") => {
            attributes.remove(names::ACL);
        }
        Some(PUBLIC_READ) => {
            attributes.insert(names::ACL.to_owned(), Bytes::from_static(PUBLIC_READ.as_bytes()));
        }
        Some("public-read-write" | "authenticated-read" | "aws-exec-read" | "log-delivery-write") => {
            return Err(s3_error!(NotImplemented, "only private and public-read ACLs are implemented"));
        }
        Some(_) => return Err(s3_error!(InvalidArgument, "unknown canned ACL")),
    }
    Ok(())
}

/// Returns an error if an input has grants.
macro_rules! refuse_grants {
    ($input:expr $(, $grant_write:ident)?) => {{
        let grants = [
            &$input.grant_full_control,
            &$input.grant_read,
            &$input.grant_read_acp,
            &$input.grant_write_acp,
            $(&$input.$grant_write)?
        ];
        if grants.iter().any(|grant| grant.is_some()) {
            return Err(s3s::s3_error!(
                NotImplemented,
                "grants are not implemented; use the canned ACL private or public-read"
            ));
        }
    }};
}
pub(super) use refuse_grants;

/// The canned ACL that is equivalent to a list of grants.
fn canned(policy: &AccessControlPolicy, owner: &str) -> S3Result<&'static str> {
    if policy.owner.as_ref().is_some_and(|named| named.id.as_deref().is_some_and(|id| id != owner)) {
        return Err(s3_error!(AccessDenied));
    }
    let mut canned = "private";
    let grants = policy.grants.as_ref().ok_or_else(|| s3_error!(MalformedACLError))?;
    for grant in grants {
        let permission = grant.permission.as_ref().map(Permission::as_str);
        let grantee = grant.grantee.as_ref().ok_or_else(|| s3_error!(MalformedACLError))?;
        match (grantee.id.as_deref(), grantee.uri.as_deref(), permission) {
            (Some(id), None, Some(Permission::FULL_CONTROL)) if id == owner => {}
            (None, Some(ALL_USERS), Some(Permission::READ)) => canned = PUBLIC_READ,
            _ => return Err(s3_error!(NotImplemented, "only private and public-read ACLs are implemented")),
        }
    }
    Ok(canned)
}

/// The requested ACL, which the client gives as a name or as a list of grants.
fn requested_acl<'a>(
    canned_name: Option<&'a str>,
    policy: Option<&AccessControlPolicy>,
    owner: &str,
) -> S3Result<&'a str> {
    match (canned_name, policy) {
        (Some(name), None) => Ok(name),
        (None, Some(policy)) => canned(policy, owner),
        (Some(_), Some(_)) => Err(s3_error!(InvalidRequest, "give either an ACL name or a list of grants")),
        (None, None) => Err(s3_error!(MissingSecurityHeader, "give an ACL name or a list of grants")),
    }
}

pub(super) fn owner(name: &str) -> Owner {
    Owner { id: Some(name.to_owned()), display_name: Some(name.to_owned()) }
}

fn grants(bucket: &Bucket, attributes: &Attributes) -> Vec<Grant> {
    let grant = |grantee, permission: &'static str| Grant {
        grantee: Some(grantee),
        permission: Some(Permission::from_static(permission)),
    };
    let grantee = |kind: &'static str| Grantee {
        type_: Type::from_static(kind),
        display_name: None,
        email_address: None,
        id: None,
        uri: None,
    };
    let name = Some(bucket.owner.clone());
    let user = Grantee { id: name.clone(), display_name: name, ..grantee(Type::CANONICAL_USER) };
    let mut grants = vec![grant(user, Permission::FULL_CONTROL)];
    if is_public(attributes) {
        let all = Grantee { uri: Some(ALL_USERS.to_owned()), ..grantee(Type::GROUP) };
        grants.push(grant(all, Permission::READ));
    }
    grants
}

impl Gateway {
    pub(super) async fn bucket_acl(
        &self,
        request: S3Request<GetBucketAclInput>,
    ) -> S3Result<GetBucketAclOutput> {
        let input = &request.input;
        let access = self.authorize(&request, &input.bucket, &input.expected_bucket_owner, Need::All).await?;
        let grants = grants(&access.bucket, &access.bucket.attributes);
        Ok(GetBucketAclOutput { grants: Some(grants), owner: Some(owner(&access.bucket.owner)) })
    }

    pub(super) async fn set_bucket_acl(
        &self,
        request: S3Request<PutBucketAclInput>,
    ) -> S3Result<PutBucketAclOutput> {
        let input = &request.input;
        refuse_grants!(input, grant_write);
        let access = self.authorize(&request, &input.bucket, &input.expected_bucket_owner, Need::All).await?;
        let name = input.acl.as_ref().map(|acl| acl.as_str());
        let acl = requested_acl(name, input.access_control_policy.as_ref(), &access.bucket.owner)?;
        self.change_bucket(access.bucket, |bucket| set(&mut bucket.attributes, Some(acl))).await?;
        Ok(PutBucketAclOutput::default())
    }

    pub(super) async fn object_acl(
        &self,
        request: S3Request<GetObjectAclInput>,
    ) -> S3Result<GetObjectAclOutput> {
        let input = &request.input;
        let access = self.authorize(&request, &input.bucket, &input.expected_bucket_owner, Need::All).await?;
        let object = self.find_visible(&access, &input.key, input.version_id.as_deref()).await?;
        let grants = Some(grants(&access.bucket, &object.attributes));
        let owner = Some(owner(&access.bucket.owner));
        Ok(GetObjectAclOutput { grants, owner, request_charged: None })
    }

    pub(super) async fn set_object_acl(
        &self,
        request: S3Request<PutObjectAclInput>,
    ) -> S3Result<PutObjectAclOutput> {
        let input = &request.input;
        refuse_grants!(input, grant_write);
        let access = self.authorize(&request, &input.bucket, &input.expected_bucket_owner, Need::All).await?;
        let name = input.acl.as_ref().map(|acl| acl.as_str());
        let acl = requested_acl(name, input.access_control_policy.as_ref(), &access.bucket.owner)?;
        let version = input.version_id.as_deref();
        let change = |attributes: &mut Attributes| set(attributes, Some(acl));
        self.change_attributes(&access, &input.key, version, change).await?;
        Ok(PutObjectAclOutput::default())
    }
}
