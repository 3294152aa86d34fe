//! Access control lists: the accounts that may read or write a bucket or an object, besides the
//! users of its owner.
//!
//! Unless the ownership of the bucket says otherwise, objects belong to its owner, and
//! `bucket-owner-full-control` equals `private`: see [`public_access`](super::public_access).

use super::auth::On;
use super::public_access::object_owner;
use super::{Gateway, names, public_access};
use crate::identity::Caller;
use crate::sal::{Attributes, Bucket, Object, RecordKind};
use bytes::Bytes;
use s3s::dto::{
    AccessControlPolicy, GetBucketAclInput, GetBucketAclOutput, GetObjectAclInput, GetObjectAclOutput, Grant,
    Grantee, Owner, Permission, PutBucketAclInput, PutBucketAclOutput, PutObjectAclInput, PutObjectAclOutput,
    Type,
};
use s3s::{S3Request, S3Result, s3_error};
use serde::{Deserialize, Serialize};

const ALL_USERS: &str = "http://acs.amazonaws.com/groups/global/AllUsers";
const AUTHENTICATED_USERS: &str = "http://acs.amazonaws.com/groups/global/AuthenticatedUsers";
/// The canned ACL that lets everybody read an object or list a bucket. It is stored by its name.
const PUBLIC_READ: &str = "public-read";
const GRANTS_MAX: usize = 100;

/// The holder of an access control list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    Bucket,
    Object,
}

/// The permission of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(super) enum Right {
    Read,
    Write,
    ReadAcp,
    WriteAcp,
    FullControl,
}

impl Right {
    fn parse(text: &str) -> S3Result<Right> {
        Ok(match text {
            Permission::READ => Right::Read,
            Permission::WRITE => Right::Write,
            Permission::READ_ACP => Right::ReadAcp,
            Permission::WRITE_ACP => Right::WriteAcp,
            Permission::FULL_CONTROL => Right::FullControl,
            _ => return Err(s3_error!(MalformedACLError, "unknown permission '{text}'")),
        })
    }

    fn name(self) -> &'static str {
        match self {
            Right::Read => Permission::READ,
            Right::Write => Permission::WRITE,
            Right::ReadAcp => Permission::READ_ACP,
            Right::WriteAcp => Permission::WRITE_ACP,
            Right::FullControl => Permission::FULL_CONTROL,
        }
    }
}

/// The access control list that can allow an action, and the right that it must grant. An object
/// that a request creates has no list yet, so that of the bucket decides about its parts.
pub(super) fn needed_right(action: &str, is_new: bool) -> Option<(Of, Right)> {
    Some(match action {
        "s3:ListBucket" | "s3:ListBucketVersions" | "s3:ListBucketMultipartUploads" => {
            (Of::Bucket, Right::Read)
        }
        "s3:PutObject" | "s3:DeleteObject" | "s3:AbortMultipartUpload" | "s3:ListMultipartUploadParts" => {
            (Of::Bucket, Right::Write)
        }
        "s3:PutObjectAcl" | "s3:PutObjectTagging" if is_new => (Of::Bucket, Right::Write),
        "s3:GetBucketAcl" => (Of::Bucket, Right::ReadAcp),
        "s3:PutBucketAcl" => (Of::Bucket, Right::WriteAcp),
        "s3:GetObject"
        | "s3:GetObjectVersion"
        | "s3:GetObjectAttributes"
        | "s3:GetObjectVersionAttributes" => (Of::Object, Right::Read),
        "s3:GetObjectAcl" | "s3:GetObjectVersionAcl" => (Of::Object, Right::ReadAcp),
        "s3:PutObjectAcl" | "s3:PutObjectVersionAcl" => (Of::Object, Right::WriteAcp),
        _ => return None,
    })
}

/// Whether the access control list of an object can allow an action on it.
pub(super) fn is_of_object(action: &str) -> bool {
    matches!(needed_right(action, false), Some((Of::Object, _)))
}

/// The receiver of a grant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Receiver {
    Account(String),
    /// Every caller who signs.
    Signed,
    Everybody,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    to: Receiver,
    right: Right,
}

/// An access control list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Acl(Vec<Entry>);

impl Acl {
    /// The list of a bucket or an object with these attributes.
    pub fn of(attributes: &Attributes, owner: &str) -> Acl {
        let canned = match attributes.get(names::ACL) {
            None => "private",
            Some(text) if text == PUBLIC_READ => PUBLIC_READ,
            // A list that is damaged grants nothing.
            Some(text) => return Acl(serde_json::from_slice(text).unwrap_or_default()),
        };
        Acl::canned(canned, owner, owner).unwrap_or_default()
    }

    fn canned(name: &str, owner: &str, bucket_owner: &str) -> Option<Acl> {
        let entry = |to, right| Entry { to, right };
        let account = |name: &str, right| entry(Receiver::Account(name.to_owned()), right);
        let mut entries = vec![account(owner, Right::FullControl)];
        match name {
            "bucket-owner-read" if owner != bucket_owner => entries.push(account(bucket_owner, Right::Read)),
            "bucket-owner-full-control" if owner != bucket_owner => {
                entries.push(account(bucket_owner, Right::FullControl));
            }
            "private" | "bucket-owner-read" | "bucket-owner-full-control" => {}
            PUBLIC_READ => entries.push(entry(Receiver::Everybody, Right::Read)),
            "public-read-write" => {
                entries.extend([Right::Read, Right::Write].map(|right| entry(Receiver::Everybody, right)));
            }
            "authenticated-read" => entries.push(entry(Receiver::Signed, Right::Read)),
            _ => return None,
        }
        Some(Acl(entries))
    }

    /// Whether the list grants a right to a caller.
    pub fn allows(&self, caller: &Caller, right: Right, ignores_public: bool) -> bool {
        self.0.iter().any(|entry| {
            let fits = match (&entry.to, caller) {
                (Receiver::Everybody, _) => !ignores_public,
                (
                    Receiver::Account(_) | Receiver::Signed,
                    Caller::WebIdentity { .. } | Caller::Anonymous | Caller::Service(_),
                ) => false,
                (Receiver::Account(granted), _) => caller.account() == Some(granted),
                (Receiver::Signed, _) => !ignores_public,
            };
            fits && (entry.right == right || entry.right == Right::FullControl)
        })
    }

    fn is_public(&self) -> bool {
        self.0.iter().any(|entry| !matches!(entry.to, Receiver::Account(_)))
    }

    /// Whether the list grants something to others than the owner.
    pub fn is_shared(&self, owner: &str) -> bool {
        self.0.iter().any(|entry| !matches!(&entry.to, Receiver::Account(account) if account == owner))
    }

    /// Stores the list among the attributes of a bucket or an object.
    pub fn store(&self, attributes: &mut Attributes, owner: &str) -> S3Result<()> {
        if Acl::canned("private", owner, owner).as_ref() == Some(self) {
            attributes.remove(names::ACL);
            return Ok(());
        }
        let text = if Acl::canned(PUBLIC_READ, owner, owner).as_ref() == Some(self) {
            PUBLIC_READ.into()
        } else {
            serde_json::to_vec(&self.0).map_err(|error| s3_error!(error, InternalError))?
        };
        attributes.insert(names::ACL.to_owned(), Bytes::from(text));
        Ok(())
    }

    fn grants(&self) -> Vec<Grant> {
        let grantee = |kind: &'static str| Grantee {
            type_: Type::from_static(kind),
            display_name: None,
            email_address: None,
            id: None,
            uri: None,
        };
        let group = |uri: &str| Grantee { uri: Some(uri.to_owned()), ..grantee(Type::GROUP) };
        let grant = |entry: &Entry| Grant {
            grantee: Some(match &entry.to {
                Receiver::Account(account) => Grantee {
                    id: Some(account.clone()),
                    display_name: Some(account.clone()),
                    ..grantee(Type::CANONICAL_USER)
                },
                Receiver::Signed => group(AUTHENTICATED_USERS),
                Receiver::Everybody => group(ALL_USERS),
            }),
            permission: Some(Permission::from_static(entry.right.name())),
        };
        // Groups come first, as in radosgw: some clients compare the order.
        let is_group = |entry: &&Entry| !matches!(entry.to, Receiver::Account(_));
        let accounts = self.0.iter().filter(|entry| !is_group(entry));
        self.0.iter().filter(is_group).chain(accounts).map(grant).collect()
    }
}

/// The list that a request gives: by a name, by headers with grants, or as a document.
#[derive(Clone, Copy, Default)]
pub(super) struct RequestedAcl<'a> {
    pub canned: Option<&'a str>,
    pub grants: [(&'static str, Option<&'a str>); 5],
    pub document: Option<&'a AccessControlPolicy>,
    /// Whether the request replaces the list of something that exists.
    pub is_change: bool,
}

/// Collects the names and the headers of a list from an input. Only inputs for buckets have a grant
/// to write.
macro_rules! requested_acl {
    ($input:expr) => {
        $crate::gateway::acl::requested_acl!($input, None)
    };
    ($input:expr, $write:expr) => {
        $crate::gateway::acl::RequestedAcl {
            canned: $input.acl.as_ref().map(|acl| acl.as_str()),
            grants: [
                ("FULL_CONTROL", $input.grant_full_control.as_deref()),
                ("READ", $input.grant_read.as_deref()),
                ("READ_ACP", $input.grant_read_acp.as_deref()),
                ("WRITE", $write),
                ("WRITE_ACP", $input.grant_write_acp.as_deref()),
            ],
            ..Default::default()
        }
    };
}
pub(super) use requested_acl;

impl RequestedAcl<'_> {
    pub fn is_given(&self) -> bool {
        self.canned.is_some() || self.document.is_some() || self.has_grants()
    }

    fn has_grants(&self) -> bool {
        self.grants.iter().any(|(_, given)| given.is_some())
    }

    /// Parses the list of something of `owner`, and checks that a bucket with these attributes
    /// permits it.
    pub fn parse(&self, (bucket, bucket_owner): (&Attributes, &str), owner: &str) -> S3Result<Acl> {
        let acl = match (self.canned, self.document, self.has_grants()) {
            (None, None, false) => {
                return Err(s3_error!(MissingSecurityHeader, "give an ACL name or a list of grants"));
            }
            (Some(name), None, false) => {
                Acl::canned(name, owner, bucket_owner).ok_or_else(|| match name {
                    "aws-exec-read" | "log-delivery-write" => {
                        s3_error!(NotImplemented, "the ACL {name} is not implemented")
                    }
                    _ => s3_error!(InvalidArgument, "unknown canned ACL"),
                })?
            }
            (None, None, true) => Acl(self.of_headers()?),
            (None, Some(document), false) => Acl(of_document(document, owner)?),
            _ => return Err(s3_error!(InvalidRequest, "give either an ACL name or a list of grants")),
        };
        if acl.0.len() > GRANTS_MAX {
            return Err(s3_error!(InvalidArgument, "an ACL has at most {GRANTS_MAX} grants"));
        }
        // Such a bucket only takes lists that give the owner full control, and no changes.
        let is_full_control = self.canned.is_none_or(|name| name == "bucket-owner-full-control");
        if public_access::is_owner_enforced(bucket)
            && (self.is_change || acl.is_shared(owner) || !is_full_control)
        {
            return Err(s3_error!(AccessControlListNotSupported));
        }
        if acl.is_public() && public_access::block_of(bucket).block_public_acls.unwrap_or(false) {
            return Err(s3_error!(AccessDenied, "BlockPublicAcls forbids a public ACL in this bucket"));
        }
        Ok(acl)
    }

    /// Parses headers such as `x-amz-grant-read: id="lab", uri="…"`.
    fn of_headers(&self) -> S3Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for (right, header) in self.grants {
            for given in header.into_iter().flat_map(|header| header.split(',')) {
                let (kind, value) =
                    given.split_once('=').ok_or_else(|| s3_error!(InvalidArgument, "invalid grant"))?;
                let value = value.trim().trim_matches('"');
                let (id, uri) = match kind.trim() {
                    "id" => (Some(value), None),
                    "uri" => (None, Some(value)),
                    "emailAddress" => return Err(s3_error!(UnresolvableGrantByEmailAddress)),
                    _ => return Err(s3_error!(InvalidArgument, "a grant names an id or a uri")),
                };
                entries.push(Entry { to: receiver(id, uri)?, right: Right::parse(right)? });
            }
        }
        Ok(entries)
    }

    /// Stores the list among attributes, if the request gives one and a bucket permits it.
    pub fn store(
        &self,
        attributes: &mut Attributes,
        bucket: (&Attributes, &str),
        owner: &str,
    ) -> S3Result<()> {
        if self.is_given() { self.parse(bucket, owner)?.store(attributes, owner) } else { Ok(()) }
    }
}

fn of_document(document: &AccessControlPolicy, owner: &str) -> S3Result<Vec<Entry>> {
    if document.owner.as_ref().is_some_and(|named| named.id.as_deref().is_some_and(|id| id != owner)) {
        return Err(s3_error!(AccessDenied));
    }
    let malformed = || s3_error!(MalformedACLError);
    let entry = |grant: &Grant| {
        let grantee = grant.grantee.as_ref().ok_or_else(malformed)?;
        if grantee.email_address.is_some() {
            return Err(s3_error!(UnresolvableGrantByEmailAddress));
        }
        let right = Right::parse(grant.permission.as_ref().ok_or_else(malformed)?.as_str())?;
        Ok(Entry { to: receiver(grantee.id.as_deref(), grantee.uri.as_deref())?, right })
    };
    document.grants.as_ref().ok_or_else(malformed)?.iter().map(entry).collect()
}

fn receiver(id: Option<&str>, uri: Option<&str>) -> S3Result<Receiver> {
    Ok(match (id, uri) {
        (Some(id), None) if !id.is_empty() => Receiver::Account(id.to_owned()),
        (None, Some(ALL_USERS)) => Receiver::Everybody,
        (None, Some(AUTHENTICATED_USERS)) => Receiver::Signed,
        (None, Some(_)) => return Err(s3_error!(InvalidArgument, "Invalid group uri")),
        _ => return Err(s3_error!(MalformedACLError)),
    })
}

pub(super) fn owner(name: &str) -> Owner {
    Owner { id: Some(name.to_owned()), display_name: Some(name.to_owned()) }
}

impl Gateway {
    /// Checks that the accounts exist to which a list among these attributes grants something.
    pub(super) async fn check_receivers(&self, attributes: &Attributes, owner: &str) -> S3Result<()> {
        for entry in Acl::of(attributes, owner).0 {
            let Receiver::Account(account) = entry.to else { continue };
            if account == owner {
                continue;
            }
            let found = self.sal.record(RecordKind::Account, &account).await.map_err(super::error::bucket)?;
            if found.is_none() {
                return Err(s3_error!(InvalidArgument, "Invalid id: there is no account {account}"));
            }
        }
        Ok(())
    }

    /// Returns the list of a request for something of `owner`, after all checks.
    async fn checked_acl(&self, requested: RequestedAcl<'_>, bucket: &Bucket, owner: &str) -> S3Result<Acl> {
        let acl = requested.parse((&bucket.attributes, &bucket.owner), owner)?;
        let mut attributes = Attributes::new();
        acl.store(&mut attributes, owner)?;
        self.check_receivers(&attributes, owner).await?;
        Ok(acl)
    }

    pub(super) async fn bucket_acl(
        &self,
        request: S3Request<GetBucketAclInput>,
    ) -> S3Result<GetBucketAclOutput> {
        let input = &request.input;
        let access = self.authorize_bucket(&request, &input.bucket, &input.expected_bucket_owner).await?;
        let acl = Acl::of(&access.bucket.attributes, &access.bucket.owner);
        Ok(GetBucketAclOutput { grants: Some(acl.grants()), owner: Some(owner(&access.bucket.owner)) })
    }

    pub(super) async fn set_bucket_acl(
        &self,
        request: S3Request<PutBucketAclInput>,
    ) -> S3Result<PutBucketAclOutput> {
        let input = &request.input;
        let access = self.authorize_bucket(&request, &input.bucket, &input.expected_bucket_owner).await?;
        let document = input.access_control_policy.as_ref();
        let requested =
            RequestedAcl { document, is_change: true, ..requested_acl!(input, input.grant_write.as_deref()) };
        self.checked_acl(requested, &access.bucket, &access.bucket.owner).await?;
        // Another request may change the settings of the bucket meanwhile.
        let change = |bucket: &mut Bucket| {
            let acl = requested.parse((&bucket.attributes, &bucket.owner), &bucket.owner)?;
            acl.store(&mut bucket.attributes, &bucket.owner)
        };
        self.change_bucket(access.bucket, change).await?;
        Ok(PutBucketAclOutput::default())
    }

    pub(super) async fn object_acl(
        &self,
        request: S3Request<GetObjectAclInput>,
    ) -> S3Result<GetObjectAclOutput> {
        let input = &request.input;
        let on = On::object(&input.key, input.version_id.as_ref());
        let access = self.authorize(&request, &input.bucket, &input.expected_bucket_owner, on).await?;
        let object = self.find_visible(&access, &input.key, input.version_id.as_deref()).await?;
        let owned_by = object_owner(&access.bucket, &object.attributes);
        let grants = Some(Acl::of(&object.attributes, owned_by).grants());
        Ok(GetObjectAclOutput { grants, owner: Some(owner(owned_by)), request_charged: None })
    }

    pub(super) async fn set_object_acl(
        &self,
        request: S3Request<PutObjectAclInput>,
    ) -> S3Result<PutObjectAclOutput> {
        let input = &request.input;
        let on = On::object(&input.key, input.version_id.as_ref());
        let access = self.authorize(&request, &input.bucket, &input.expected_bucket_owner, on).await?;
        let document = input.access_control_policy.as_ref();
        let requested =
            RequestedAcl { document, is_change: true, ..requested_acl!(input, input.grant_write.as_deref()) };
        let version = input.version_id.as_deref();
        let object = self.find_visible(&access, &input.key, version).await?;
        let owner = object_owner(&access.bucket, &object.attributes);
        let acl = self.checked_acl(requested, &access.bucket, owner).await?;
        let change = |object: &mut Object| {
            if object_owner(&access.bucket, &object.attributes) != owner {
                return Err(s3_error!(OperationAborted));
            }
            acl.store(&mut object.attributes, owner)
        };
        self.change_object(&access, &input.key, version, false, change).await?;
        Ok(PutObjectAclOutput::default())
    }
}
