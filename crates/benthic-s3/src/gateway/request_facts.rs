//! The facts about an S3 request that policies use.

use super::auth::{Peer, Sender};
use super::date_header::AMZ_DATE;
use super::encryption::{self, SealedBy};
use super::object_lock::{legal_hold_name, mode_name};
use super::post_form::SignedAt;
use super::signature_time::amz_date_ms;
use super::tags::Pairs;
use super::{exec, post_form, tags, timestamp};
use crate::identity::{Caller, Federated, ROOT_USER};
use crate::lifecycle::DAY_MS;
use crate::policy::Facts;
use crate::sal::{Lock, Object};
use hyper::Method;
use hyper::header::{AsHeaderName, HeaderMap, HeaderName, IF_MATCH, IF_NONE_MATCH, REFERER, USER_AGENT};
use hyper::http::Extensions;
use s3s::S3Request;
use s3s::dto::{CopySource, TimestampFormat};
use std::sync::Arc;

/// Maximum size of a fact that changes nothing about the request, in bytes. A longer one would cost
/// too much to match, and counts as missing. A header that has an effect counts at any length, so
/// that nobody escapes a `Deny` by padding it.
const VALUE_BYTES_MAX: usize = 2 * 1024;

/// A request, its sender, and its target.
pub(super) struct RequestFacts<'r> {
    method: &'r Method,
    headers: &'r HeaderMap,
    is_form: bool,
    query: &'r str,
    extensions: &'r Extensions,
    sender: &'r Sender,
    owner: Option<&'r str>,
    /// The action to decide. Some facts exist only for some actions.
    action: &'r str,
    pub object: Option<&'r Object>,
    pub version: Option<&'r str>,
    /// The prefix of a listing, if it is not a parameter of the request.
    pub prefix: Option<&'r str>,
    /// The tags that a document in the request gives to the object.
    pub new_tags: Option<&'r Pairs>,
    /// The lock that the request gives to the object.
    pub new_lock: Lock,
    /// The region in the document that creates a bucket.
    pub location: Option<&'r str>,
    /// The object ownership that the request gives to the bucket.
    pub ownership: Option<&'r str>,
    /// The entity tag that DeleteObjects compares.
    pub if_match: Option<&'r str>,
    /// How the upload is encrypted to which the request adds a part.
    pub upload: Option<Option<&'r SealedBy>>,
}

impl<'r> RequestFacts<'r> {
    pub fn new<T>(
        request: &'r S3Request<T>,
        sender: &'r Sender,
        owner: Option<&'r str>,
        action: &'r str,
    ) -> RequestFacts<'r> {
        RequestFacts {
            method: &request.method,
            headers: &request.headers,
            is_form: post_form::is_form(&request.method, &request.headers),
            query: request.uri.query().unwrap_or_default(),
            extensions: &request.extensions,
            sender,
            owner,
            action,
            object: None,
            version: None,
            prefix: None,
            new_tags: None,
            new_lock: Lock::default(),
            location: None,
            ownership: None,
            if_match: None,
            upload: None,
        }
    }

    fn header(&self, name: impl AsHeaderName) -> Option<String> {
        header(self.headers, name)
    }

    fn query_value(&self, name: &str) -> Option<String> {
        let mut pairs = url::form_urlencoded::parse(self.query.as_bytes());
        let (_, value) = pairs.find(|(found, _)| found == name)?;
        (value.len() <= VALUE_BYTES_MAX).then(|| value.into_owned())
    }

    fn new_tags(&self) -> Option<Pairs> {
        match self.new_tags {
            Some(tags) => Some(tags.clone()),
            None if self.action.starts_with("s3:PutObject") => {
                tags::parse(&self.header("x-amz-tagging")?).ok()
            }
            None => None,
        }
    }

    /// How the request is signed, in the order in which `s3s` looks for signatures.
    fn auth_type(&self) -> Option<&'static str> {
        match self.sender.caller {
            Caller::Anonymous | Caller::WebIdentity { .. } | Caller::Service(_) => None,
            _ if self.is_form => Some("POST"),
            _ if self.query_value("X-Amz-Signature").is_some() => Some("REST-QUERY-STRING"),
            Caller::User { .. } | Caller::Session { .. } => Some("REST-HEADER"),
        }
    }

    /// When the request was signed.
    fn signed_ms(&self) -> Option<u64> {
        let time = match self.auth_type()? {
            "REST-QUERY-STRING" => self.query_value("X-Amz-Date")?,
            "REST-HEADER" => self.header(AMZ_DATE)?,
            _ => return self.extensions.get::<SignedAt>().map(|signed| signed.0),
        };
        amz_date_ms(&time)
    }

    /// A condition that the request obeys: of a new object, or of a deletion.
    fn condition(&self, name: HeaderName) -> Option<String> {
        let obeys = match self.action {
            "s3:PutObject" => true,
            // DeleteObjects has the conditions in its document.
            "s3:DeleteObject" | "s3:DeleteObjectVersion" => {
                *self.method == Method::DELETE && name == IF_MATCH
            }
            _ => false,
        };
        self.header(name).filter(|value| obeys && !value.is_empty())
    }

    /// Whether a request with the action `s3:PutObject` creates an object: it does not begin an
    /// upload, and adds no part to one.
    fn creates_object(&self) -> bool {
        let is_post = *self.method == Method::POST;
        if self.upload.is_some() { is_post } else { !is_post || self.is_form }
    }

    /// A header that only some actions have: those that create an object or a bucket, or change an
    /// ACL.
    fn amz_header(&self, name: &str) -> Option<String> {
        let is_write = self.action.starts_with("s3:PutObject")
            || matches!(self.action, "s3:PutBucketAcl" | "s3:CreateBucket");
        if name == "x-amz-content-sha256" {
            // The signature of a URL covers no data. As on AWS, a hash in the header changes
            // nothing.
            let is_url = self.auth_type() == Some("REST-QUERY-STRING");
            return if is_url { Some("UNSIGNED-PAYLOAD".to_owned()) } else { self.header(name) };
        }
        if !is_write {
            return None;
        }
        // `s3s` takes an empty header for a missing one.
        let value = self.header(name).filter(|value| !value.is_empty())?;
        if name != "x-amz-copy-source" {
            return Some(value);
        }
        // A client may write the same source in several ways.
        match CopySource::parse(&value).ok()? {
            CopySource::Bucket { bucket, key, .. } => Some(format!("{bucket}/{key}")),
            _ => Some(value),
        }
    }

    /// How the request encrypts an object. A part is encrypted as its upload.
    fn encryption(&self, name: &str) -> Option<String> {
        match (self.upload, name) {
            (Some(sealing), encryption::HEADER) => Some(sealing?.algorithm()?.as_str().to_owned()),
            (Some(sealing), encryption::KMS_KEY_HEADER) => sealing?.kms_key(),
            (Some(sealing), _) => {
                matches!(sealing?, SealedBy::Customer).then(|| encryption::AES256.to_owned())
            }
            (None, encryption::KMS_KEY_HEADER) => {
                let key = self.amz_header(name)?;
                let is_arn = key.starts_with("arn:");
                let account = self.sender.caller.account()?;
                Some(if is_arn { key } else { encryption::kms_arn(&self.sender.region, account, &key) })
            }
            (None, name) => self.amz_header(name),
        }
    }

    fn value(&self, key: &str) -> Option<String> {
        Some(match key {
            "aws:referer" => fact_header(self.headers, REFERER)?,
            "aws:useragent" => fact_header(self.headers, USER_AGENT)?,
            "aws:resourceaccount" | "s3:resourceaccount" => self.owner?.to_owned(),
            "aws:requestedregion" => self.sender.region.to_string(),
            "benthic:method" if self.action == exec::ACTION => self.query_value(exec::METHOD)?,
            "s3:authtype" => self.auth_type()?.to_owned(),
            "s3:if-match" => match self.if_match {
                Some(etag) if self.action.starts_with("s3:DeleteObject") => format!("\"{etag}\""),
                _ => self.condition(IF_MATCH)?,
            },
            // With an entity tag, it does not keep the request from replacing an object.
            "s3:if-none-match" => self.condition(IF_NONE_MATCH).filter(|value| value == "*")?,
            "s3:locationconstraint" => self.location?.to_owned(),
            "s3:objectcreationoperation" if self.action == "s3:PutObject" => {
                self.creates_object().to_string()
            }
            "s3:signatureage" => self.sender.received_ms.saturating_sub(self.signed_ms()?).to_string(),
            "s3:signatureversion" => self.auth_type().map(|_| "AWS4-HMAC-SHA256".to_owned())?,
            "s3:x-amz-object-ownership" => self.ownership?.to_owned(),
            "s3:tlsversion" => {
                let tls = self.extensions.get::<Peer>()?.tls?;
                tls.version.strip_prefix("TLSv")?.to_owned()
            }
            "s3:prefix" if self.prefix.is_some() => self.prefix?.to_owned(),
            "s3:delimiter" | "s3:max-keys" | "s3:prefix" => {
                let lists = |action: &str| action.starts_with("s3:ListBucket");
                let is_listing = lists(self.action) && lists(self.sender.action(false));
                is_listing.then(|| self.query_value(&key[3..]))??
            }
            "s3:versionid" => self.version?.to_owned(),
            "s3:object-lock-legal-hold" => legal_hold_name(self.new_lock.legal_hold?).to_owned(),
            "s3:object-lock-mode" => mode_name(self.new_lock.retention?.mode).to_owned(),
            "s3:object-lock-retain-until-date" => date(self.new_lock.retention?.until_ms)?,
            "s3:object-lock-remaining-retention-days" => {
                let left_ms = self.new_lock.retention?.until_ms.saturating_sub(self.sender.received_ms);
                left_ms.div_ceil(DAY_MS).to_string()
            }
            _ => match key.strip_prefix("s3:").filter(|name| name.starts_with("x-amz-")) {
                Some(name) if name.starts_with(encryption::HEADER) => self.encryption(name)?,
                Some(name) => self.amz_header(name)?,
                None => {
                    let Sender { caller, path, id, issued_ms, received_ms, .. } = self.sender;
                    let caller = (caller, path.as_str(), id.as_str(), *issued_ms);
                    caller_value(caller, *received_ms, self.extensions.get(), key)?
                }
            },
        })
    }
}

fn header(headers: &HeaderMap, name: impl AsHeaderName) -> Option<String> {
    headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

/// A header that has no effect on the request; `None` if it is too long.
fn fact_header(headers: &HeaderMap, name: HeaderName) -> Option<String> {
    header(headers, name).filter(|value| value.len() <= VALUE_BYTES_MAX)
}

/// A time as policies and the answers of IAM write it.
pub(crate) fn date(unix_ms: u64) -> Option<String> {
    let mut text = Vec::new();
    timestamp(unix_ms).format(TimestampFormat::DateTime, &mut text).ok()?;
    String::from_utf8(text).ok()
}

/// The facts about a caller, its connection and the time. `issued_ms` is the time at which its
/// temporary key was created.
fn caller_value(
    (caller, path, id, issued_ms): (&Caller, &str, &str, Option<u64>),
    received_ms: u64,
    peer: Option<&Peer>,
    key: &str,
) -> Option<String> {
    Some(match key {
        "aws:currenttime" => date(received_ms)?,
        "aws:epochtime" => (received_ms / 1_000).to_string(),
        // As on AWS, only temporary keys say so. The gateway has no second factor.
        "aws:multifactorauthpresent" => issued_ms.map(|_| "false".to_owned())?,
        "aws:tokenissuetime" => date(issued_ms?)?,
        "aws:viaawsservice" => "false".to_owned(),
        "aws:principalaccount" => caller.account()?.to_owned(),
        // For a session, this is the ARN of the role.
        "aws:principalarn" => match caller {
            Caller::Session { account, role, .. } => format!("arn:aws:iam::{account}:role{path}{role}"),
            _ => caller.arn(path)?,
        },
        "aws:principaltype" => match caller {
            Caller::User { user, .. } if user == ROOT_USER => "Account".to_owned(),
            Caller::User { .. } => "User".to_owned(),
            Caller::Session { .. } => "AssumedRole".to_owned(),
            Caller::Anonymous => "Anonymous".to_owned(),
            Caller::WebIdentity { .. } | Caller::Service(_) => return None,
        },
        "aws:principalisawsservice" => matches!(caller, Caller::Service(_)).to_string(),
        "aws:userid" => caller.id(id)?,
        "aws:username" => match caller {
            Caller::User { user, .. } if user != ROOT_USER => user.clone(),
            Caller::User { .. }
            | Caller::Session { .. }
            | Caller::WebIdentity { .. }
            | Caller::Anonymous
            | Caller::Service(_) => {
                return None;
            }
        },
        "aws:securetransport" => peer?.is_encrypted.to_string(),
        "aws:sourceip" => peer?.address.to_canonical().to_string(),
        _ => return None,
    })
}

/// The facts about a request of IAM or STS: those about the caller, its connection and the time.
pub(super) struct IamFacts {
    pub caller: Caller,
    pub path: String,
    /// The unique id of the user or the role.
    pub id: String,
    /// The account of the role in a request to assume one; else that of the caller.
    pub resource_account: Option<String>,
    pub headers: HeaderMap,
    /// When the temporary key of the caller was created, in milliseconds since 1970.
    pub issued_ms: Option<u64>,
    pub region: String,
    pub received_ms: u64,
    pub peer: Option<Peer>,
    /// The claims of an identity provider about the caller.
    pub federated: Option<Arc<Federated>>,
    /// `ExternalId` and `RoleSessionName` of AssumeRole.
    pub external_id: Option<String>,
    pub session: Option<String>,
}

impl Facts for IamFacts {
    fn values(&self, key: &str) -> Option<Vec<String>> {
        if let Some(values) = self.federated.as_ref().and_then(|federated| federated.values(key)) {
            return Some(values);
        }
        let value = match key {
            "sts:externalid" => self.external_id.clone(),
            "sts:rolesessionname" => self.session.clone(),
            "aws:referer" => fact_header(&self.headers, REFERER),
            "aws:useragent" => fact_header(&self.headers, USER_AGENT),
            "aws:requestedregion" => Some(self.region.clone()),
            "aws:resourceaccount" => self.resource_account.clone(),
            _ => {
                let caller = (&self.caller, self.path.as_str(), self.id.as_str(), self.issued_ms);
                caller_value(caller, self.received_ms, self.peer.as_ref(), key)
            }
        };
        value.map(|value| vec![value])
    }
}

/// The facts about a request of IAM that names a user, a group or a role.
pub(super) struct TargetFacts<'r> {
    pub request: &'r IamFacts,
    /// The boundary that the user or the role has, or that the request gives to it.
    pub boundary: Option<&'r str>,
    /// The managed policy that the request attaches or detaches.
    pub policy_arn: Option<&'r str>,
}

impl Facts for TargetFacts<'_> {
    fn values(&self, key: &str) -> Option<Vec<String>> {
        match key {
            "iam:permissionsboundary" => Some(vec![self.boundary?.to_owned()]),
            "iam:policyarn" => Some(vec![self.policy_arn?.to_owned()]),
            key => self.request.values(key),
        }
    }
}

impl Facts for RequestFacts<'_> {
    fn values(&self, key: &str) -> Option<Vec<String>> {
        let of_tag = |tags: &Pairs, wanted: &str| {
            let (_, value) = tags.iter().find(|(name, _)| name == wanted)?;
            Some(vec![value.clone()])
        };
        if let Some(tag) = key.strip_prefix("s3:existingobjecttag/") {
            return of_tag(&tags::get(&self.object?.attributes).ok()?, tag);
        }
        if let Some(tag) = key.strip_prefix("s3:requestobjecttag/") {
            return of_tag(&self.new_tags()?, tag);
        }
        if let Some(values) = self.sender.federated.as_ref().and_then(|federated| federated.values(key)) {
            return Some(values);
        }
        if key == "s3:requestobjecttagkeys" {
            return Some(self.new_tags()?.into_iter().map(|(name, _)| name).collect());
        }
        self.value(key).map(|value| vec![value])
    }
}
