//! The APIs of IAM, STS and SNS, as far as the gateway has them: users, their keys, groups, roles,
//! their policies, identity providers, temporary keys, and topics.
//!
//! Clients send the name of an action and its parameters as a form, signed for the service `iam`,
//! `sts` or `sns`, to the address of the gateway. Only AssumeRoleWithWebIdentity needs no
//! signature, because it contains a token. A caller administers its own account, as far as its
//! policies allow: the action is `iam:CreateUser`, for example, and the resource
//! `arn:aws:iam::lab:user/ann`. A user that is created here may do nothing until it gets a policy.
//!
//! Source: the API references of IAM (2010-05-08) and STS (2011-06-15).

mod account;
mod groups;
mod oidc;
mod policies;
mod roles;
mod sns;
mod sts;
mod users;

use self::policies::Verb;
use super::auth::{Keys, refused, rights, session_token};
use super::request_facts::{IamFacts, TargetFacts};
use super::signature_time::check_time;
use crate::events::topic::Endpoints;
use crate::identity::{Caller, Identities, Identity, IdentityKind, identity_arn, is_temporary};
use crate::policy::{Decision, Facts, Request, Rights, decide_for_caller};
use crate::web_identity::Issuers;
use async_trait::async_trait;
use benthic_core::{Environment, Error, ErrorKind};
use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::http::Extensions;
use hyper::{Method, Response, StatusCode, Uri};
use s3s::crypto::{Checksum as _, Sha256};
use s3s::route::S3Route;
use s3s::{Body, S3Error, S3ErrorCode, S3Request, S3Response, S3Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

/// Maximum size of a form, in bytes. A policy is the largest parameter.
const FORM_BYTES_MAX: usize = 128 * 1024;
const ITEMS_MAX: u32 = 1_000;
/// The actions of IAM, and the parameters of each action.
const IAM_ACTIONS: &[(&str, &[&str])] = &[
    ("CreateUser", &["UserName", "Path", "PermissionsBoundary"]),
    ("GetUser", &["UserName"]),
    ("ListUsers", &["PathPrefix", "Marker", "MaxItems"]),
    ("UpdateUser", &["UserName", "NewPath", "NewUserName"]),
    ("DeleteUser", &["UserName"]),
    ("PutUserPermissionsBoundary", &["UserName", "PermissionsBoundary"]),
    ("DeleteUserPermissionsBoundary", &["UserName"]),
    ("CreateAccessKey", &["UserName"]),
    ("ListAccessKeys", &["UserName", "Marker", "MaxItems"]),
    ("UpdateAccessKey", &["UserName", "AccessKeyId", "Status"]),
    ("DeleteAccessKey", &["UserName", "AccessKeyId"]),
    ("PutUserPolicy", &["UserName", "PolicyName", "PolicyDocument"]),
    ("GetUserPolicy", &["UserName", "PolicyName"]),
    ("ListUserPolicies", &["UserName", "Marker", "MaxItems"]),
    ("DeleteUserPolicy", &["UserName", "PolicyName"]),
    ("AttachUserPolicy", &["UserName", "PolicyArn"]),
    ("DetachUserPolicy", &["UserName", "PolicyArn"]),
    ("ListAttachedUserPolicies", &["UserName", "PathPrefix", "Marker", "MaxItems"]),
    ("CreateGroup", &["GroupName", "Path"]),
    ("GetGroup", &["GroupName", "Marker", "MaxItems"]),
    ("ListGroups", &["PathPrefix", "Marker", "MaxItems"]),
    ("UpdateGroup", &["GroupName", "NewPath", "NewGroupName"]),
    ("DeleteGroup", &["GroupName"]),
    ("AddUserToGroup", &["GroupName", "UserName"]),
    ("RemoveUserFromGroup", &["GroupName", "UserName"]),
    ("ListGroupsForUser", &["UserName", "Marker", "MaxItems"]),
    ("PutGroupPolicy", &["GroupName", "PolicyName", "PolicyDocument"]),
    ("GetGroupPolicy", &["GroupName", "PolicyName"]),
    ("ListGroupPolicies", &["GroupName", "Marker", "MaxItems"]),
    ("DeleteGroupPolicy", &["GroupName", "PolicyName"]),
    ("AttachGroupPolicy", &["GroupName", "PolicyArn"]),
    ("DetachGroupPolicy", &["GroupName", "PolicyArn"]),
    ("ListAttachedGroupPolicies", &["GroupName", "PathPrefix", "Marker", "MaxItems"]),
    (
        "CreateRole",
        &[
            "RoleName",
            "Path",
            "AssumeRolePolicyDocument",
            "Description",
            "MaxSessionDuration",
            "PermissionsBoundary",
        ],
    ),
    ("GetRole", &["RoleName"]),
    ("ListRoles", &["PathPrefix", "Marker", "MaxItems"]),
    ("ListInstanceProfilesForRole", &["RoleName", "Marker", "MaxItems"]),
    ("UpdateRole", &["RoleName", "Description", "MaxSessionDuration"]),
    ("UpdateAssumeRolePolicy", &["RoleName", "PolicyDocument"]),
    ("DeleteRole", &["RoleName"]),
    ("PutRolePermissionsBoundary", &["RoleName", "PermissionsBoundary"]),
    ("DeleteRolePermissionsBoundary", &["RoleName"]),
    ("PutRolePolicy", &["RoleName", "PolicyName", "PolicyDocument"]),
    ("GetRolePolicy", &["RoleName", "PolicyName"]),
    ("ListRolePolicies", &["RoleName", "Marker", "MaxItems"]),
    ("DeleteRolePolicy", &["RoleName", "PolicyName"]),
    ("AttachRolePolicy", &["RoleName", "PolicyArn"]),
    ("DetachRolePolicy", &["RoleName", "PolicyArn"]),
    ("ListAttachedRolePolicies", &["RoleName", "PathPrefix", "Marker", "MaxItems"]),
    ("CreatePolicy", &["PolicyName", "Path", "PolicyDocument", "Description"]),
    ("GetPolicy", &["PolicyArn"]),
    ("ListPolicies", &["Scope", "OnlyAttached", "PathPrefix", "Marker", "MaxItems"]),
    ("DeletePolicy", &["PolicyArn"]),
    (
        "ListEntitiesForPolicy",
        &["PolicyArn", "EntityFilter", "PolicyUsageFilter", "PathPrefix", "Marker", "MaxItems"],
    ),
    ("CreatePolicyVersion", &["PolicyArn", "PolicyDocument", "SetAsDefault"]),
    ("GetPolicyVersion", &["PolicyArn", "VersionId"]),
    ("ListPolicyVersions", &["PolicyArn", "Marker", "MaxItems"]),
    ("SetDefaultPolicyVersion", &["PolicyArn", "VersionId"]),
    ("DeletePolicyVersion", &["PolicyArn", "VersionId"]),
    ("GetAccountSummary", &[]),
    ("GetAccountAuthorizationDetails", &["Filter", "Marker", "MaxItems"]),
    ("CreateOpenIDConnectProvider", &["Url", "ClientIDList", "ThumbprintList"]),
    ("GetOpenIDConnectProvider", &["OpenIDConnectProviderArn"]),
    ("ListOpenIDConnectProviders", &[]),
    ("DeleteOpenIDConnectProvider", &["OpenIDConnectProviderArn"]),
    ("AddClientIDToOpenIDConnectProvider", &["OpenIDConnectProviderArn", "ClientID"]),
    ("RemoveClientIDFromOpenIDConnectProvider", &["OpenIDConnectProviderArn", "ClientID"]),
    ("UpdateOpenIDConnectProviderThumbprint", &["OpenIDConnectProviderArn", "ThumbprintList"]),
];
/// The actions of STS, and the parameters of each action.
const STS_ACTIONS: &[(&str, &[&str])] = &[
    ("GetCallerIdentity", &[]),
    ("GetSessionToken", &["DurationSeconds"]),
    ("AssumeRole", &["RoleArn", "RoleSessionName", "DurationSeconds", "ExternalId", "Policy", "PolicyArns"]),
    (
        sts::WITH_WEB_IDENTITY,
        &["RoleArn", "RoleSessionName", "WebIdentityToken", "DurationSeconds", "Policy", "PolicyArns"],
    ),
];
const PAYLOAD_HASH: &str = "x-amz-content-sha256";
const IAM_NAMESPACE: &str = "https://iam.amazonaws.com/doc/2010-05-08/";
const STS_NAMESPACE: &str = "https://sts.amazonaws.com/doc/2011-06-15/";

/// Whether a request is one of IAM or STS: a form that is sent to the root.
pub(super) fn is_iam(method: &Method, uri: &Uri, headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    method == Method::POST
        && uri.path() == "/"
        && uri.query().is_none()
        && kind.starts_with(b"application/x-www-form-urlencoded")
}

/// Reads a form, and adds the hash that `s3s` needs to check the signature. Clients of IAM do not
/// send it.
///
/// # Errors
/// `EntityTooLarge`, `RequestTimeout`, `IncompleteBody`.
pub(super) async fn read(
    request: hyper::Request<Incoming>,
    timeout: Duration,
) -> S3Result<hyper::Request<Body>> {
    let (mut parts, body) = request.into_parts();
    let body = tokio::time::timeout(timeout, Limited::new(body, FORM_BYTES_MAX).collect()).await;
    let body = body.map_err(|_| S3Error::new(S3ErrorCode::RequestTimeout))?;
    let body = body.map_err(|error| {
        let is_large = error.is::<http_body_util::LengthLimitError>();
        S3Error::new(if is_large { S3ErrorCode::EntityTooLarge } else { S3ErrorCode::IncompleteBody })
    })?;
    let body = body.to_bytes();
    let is_signed = parts.headers.contains_key(AUTHORIZATION);
    if is_signed && !parts.headers.contains_key(PAYLOAD_HASH) {
        let mut hash = Sha256::new();
        hash.update(&body);
        let hash = crate::seal::hex(&hash.finalize());
        if let Ok(hash) = HeaderValue::from_str(&hash) {
            parts.headers.insert(PAYLOAD_HASH, hash);
        }
    }
    Ok(hyper::Request::from_parts(parts, Body::from(body)))
}

/// Puts an error of `s3s` into the document that clients of IAM expect.
pub(super) async fn fix_answer(answer: Response<Body>) -> Response<Body> {
    fix_error(answer, IAM_NAMESPACE).await
}

/// Puts an error of `s3s` into the document that clients of other services than S3 expect.
pub(super) async fn fix_error(answer: Response<Body>, namespace: &str) -> Response<Body> {
    if answer.status().is_success() {
        return answer;
    }
    let (mut parts, body) = answer.into_parts();
    // `s3s` created this document, so it is complete and small.
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let text = String::from_utf8_lossy(&body);
    let element = |name: &str| {
        let (_, rest) = text.split_once(&format!("<{name}>"))?;
        Some(rest.split_once(&format!("</{name}>"))?.0.to_owned())
    };
    let mut code = element("Code").unwrap_or_else(|| "ServiceFailure".to_owned());
    // IAM has its own code for a wrong key, for which its clients wait after they create one.
    if namespace == IAM_NAMESPACE && ["InvalidAccessKeyId", "InvalidToken"].contains(&code.as_str()) {
        code = "InvalidClientTokenId".to_owned();
        parts.status = StatusCode::FORBIDDEN;
    }
    let message = element("Message").unwrap_or_default();
    let side = if parts.status.is_server_error() { "Receiver" } else { "Sender" };
    let text = format!(
        "<ErrorResponse xmlns=\"{namespace}\"><Error><Type>{side}</Type><Code>{code}</Code>\
         <Message>{message}</Message></Error></ErrorResponse>"
    );
    parts.headers.remove(CONTENT_LENGTH);
    parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/xml"));
    Response::from_parts(parts, Body::from(Bytes::from(text)))
}

/// Answers the requests.
pub(super) struct Iam {
    pub keys: Arc<dyn Keys>,
    pub environment: Environment,
    pub issuers: Issuers,
    /// The region of the gateway, for the ARNs of topics.
    pub region: String,
    /// The endpoints that topics may have.
    pub endpoints: Endpoints,
}

#[async_trait]
impl S3Route for Iam {
    fn is_match(&self, method: &Method, uri: &Uri, headers: &HeaderMap, _: &mut Extensions) -> bool {
        is_iam(method, uri, headers)
    }

    /// `call` refuses requests without a signature, except those with a token.
    async fn check_access(&self, _request: &mut S3Request<Body>) -> S3Result<()> {
        Ok(())
    }

    async fn call(&self, request: S3Request<Body>) -> S3Result<S3Response<Body>> {
        let S3Request { input, credentials, service, extensions, headers, .. } = request;
        let identities = self.keys.identities().ok_or_else(|| {
            S3Error::with_message(S3ErrorCode::NotImplemented, "this server has no users of its own")
        })?;
        let body = input.collect().await.map(|body| body.to_bytes()).map_err(super::error::body)?;
        let form = Form::parse(&body)?;
        let of_role = |arn: &str| Some(arn.strip_prefix("arn:aws:iam::")?.split_once(':')?.0.to_owned());
        let mut facts = IamFacts {
            caller: Caller::Anonymous,
            path: String::new(),
            id: String::new(),
            resource_account: form.optional("RoleArn").and_then(of_role),
            issued_ms: None,
            region: self.region.clone(),
            received_ms: self.environment.unix_ms(),
            peer: extensions.get().copied(),
            federated: None,
            external_id: form.optional("ExternalId").map(str::to_owned),
            session: form.optional("RoleSessionName").map(str::to_owned),
            headers,
        };
        let action = form.get("Action")?.to_owned();
        let mut result = String::new();
        let service = if action == sts::WITH_WEB_IDENTITY {
            let account = facts.resource_account.clone().unwrap_or_default();
            let (access_key, rights) = (String::new(), Rights::default());
            let call = Call { identities, iam: self, account, access_key, rights, facts, form };
            call.assume_role_with_web_identity(&mut result).await?;
            "sts".to_owned()
        } else {
            let unsigned =
                || S3Error::with_message(S3ErrorCode::AccessDenied, "sign the request for iam, sts or sns");
            let service = service.filter(|service| matches!(service.as_str(), "iam" | "sts" | "sns"));
            let service = service.ok_or_else(unsigned)?;
            let access_key = credentials.ok_or_else(unsigned)?.access_key;
            check_time(&facts.headers, "", facts.received_ms)?;
            let token = session_token(&facts.headers, "");
            let key =
                self.keys.find(&access_key, token.as_deref()).await.map_err(failure)?.map_err(refused)?;
            let account = key.caller.account().ok_or_else(unsigned)?.to_owned();
            let corrupt = |message: String| failure(Error::corrupt(message));
            let rights = rights(&key.policies).map_err(corrupt)?;
            facts.resource_account = match form.optional("RoleArn") {
                Some(_) => facts.resource_account,
                None => Some(account.clone()),
            };
            (facts.caller, facts.path, facts.id) = (key.caller, key.path, key.id);
            (facts.federated, facts.issued_ms) = (key.federated, key.issued_ms);
            let mut call = Call { identities, iam: self, account, access_key, rights, facts, form };
            call.answer(&service, &action, &mut result).await?;
            service
        };
        let namespace = match service.as_str() {
            "iam" => IAM_NAMESPACE,
            "sns" => sns::NAMESPACE,
            _ => STS_NAMESPACE,
        };
        let id = crate::sal::Id::draw(&self.environment).map_err(failure)?;
        let text = format!(
            "<{action}Response xmlns=\"{namespace}\"><{action}Result>{result}</{action}Result>\
             <ResponseMetadata><RequestId>{id}</RequestId></ResponseMetadata></{action}Response>"
        );
        let mut response = S3Response::new(Body::from(Bytes::from(text)));
        response.headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/xml"));
        Ok(response)
    }
}

/// The parameters of a request.
struct Form(BTreeMap<String, String>);

impl Form {
    fn parse(body: &[u8]) -> S3Result<Form> {
        let mut form = BTreeMap::new();
        for (name, value) in url::form_urlencoded::parse(body) {
            if form.insert(name.to_string(), value.into_owned()).is_some() {
                return Err(invalid(&format!("the parameter {name} appears twice")));
            }
        }
        Ok(Form(form))
    }

    fn get(&self, name: &str) -> S3Result<&str> {
        self.optional(name).ok_or_else(|| invalid(&format!("the parameter {name} is missing")))
    }

    fn optional(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// A number within this range.
    fn number(&self, name: &str, range: RangeInclusive<u32>) -> S3Result<Option<u32>> {
        let Some(text) = self.optional(name) else { return Ok(None) };
        let number = text.parse().ok().filter(|number| range.contains(number));
        let message = || format!("{name} must be a number from {} to {}", range.start(), range.end());
        number.map(Some).ok_or_else(|| invalid(&message()))
    }

    fn flag(&self, name: &str) -> S3Result<bool> {
        match self.optional(name) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(invalid(&format!("{name} must be true or false"))),
        }
    }

    /// The values of a list of texts. Clients send an empty list as an empty parameter.
    fn texts(&self, name: &str) -> S3Result<BTreeSet<String>> {
        if self.0.get(name).is_some_and(String::is_empty) {
            return Ok(BTreeSet::new());
        }
        let given = self.0.keys().filter(|given| given.split('.').next() == Some(name)).count();
        let values = (1..=given).map(|number| {
            let value = self.optional(&format!("{name}.member.{number}")).map(str::to_owned);
            value.ok_or_else(|| invalid(&format!("{name} is a list of texts")))
        });
        values.collect()
    }

    /// The entries of a map of texts.
    fn map(&self, name: &str) -> S3Result<BTreeMap<String, String>> {
        let given = self.0.keys().filter(|given| given.split('.').next() == Some(name)).count();
        let entries = (1..=given.div_ceil(2)).map(|number| {
            let part =
                |part: &str| self.optional(&format!("{name}.entry.{number}.{part}")).map(str::to_owned);
            part("key").zip(part("value"))
        });
        let map: Option<BTreeMap<String, String>> = entries.collect();
        // Otherwise a key appears twice, or there are other parameters.
        let map = map.filter(|map| 2 * map.len() == given);
        map.ok_or_else(|| invalid(&format!("{name} is a map of texts, whose keys differ")))
    }

    /// The values of a list of structures that have one field.
    fn list(&self, name: &str, field: &str) -> S3Result<Vec<String>> {
        let given = self.0.keys().filter(|given| given.split('.').next() == Some(name)).count();
        let values = (1..=given).map(|number| {
            let value = self.optional(&format!("{name}.member.{number}.{field}")).map(str::to_owned);
            value.ok_or_else(|| invalid(&format!("{name} is a list of structures with {field}")))
        });
        values.collect()
    }

    /// Refuses parameters that the action does not have: one that is ignored could have limited the
    /// action.
    fn check(&self, parameters: &[&str]) -> S3Result<()> {
        for (name, value) in &self.0 {
            let (list, _) = name.split_once('.').unwrap_or((name, ""));
            let may_be_empty = ["AttributeValue", "Description", "ClientIDList", "ThumbprintList"];
            if value.is_empty() && !may_be_empty.contains(&name.as_str()) {
                return Err(invalid(&format!("the parameter {name} is empty")));
            }
            if !["Action", "Version"].contains(&list) && !parameters.contains(&list) {
                return Err(invalid(&format!("the gateway does not support the parameter {name}")));
            }
        }
        Ok(())
    }
}

/// A request whose signature was checked, or one with a token.
struct Call<'r> {
    identities: &'r Identities,
    iam: &'r Iam,
    account: String,
    access_key: String,
    rights: Rights,
    facts: IamFacts,
    form: Form,
}

/// The user, group or role that a request names.
struct Target<'r> {
    kind: IdentityKind,
    name: &'r str,
    found: Option<Identity>,
}

impl Target<'_> {
    fn require(self) -> S3Result<Identity> {
        let missing = || Error::not_found(format!("no such {}", self.kind.word()));
        self.found.ok_or_else(|| failure(missing()))
    }
}

impl Call<'_> {
    async fn answer(&mut self, service: &str, action: &str, result: &mut String) -> S3Result<()> {
        let actions = match service {
            "sts" => STS_ACTIONS,
            "sns" => sns::ACTIONS,
            _ => IAM_ACTIONS,
        };
        self.form.check(parameters_of(actions, action)?)?;
        match service {
            "sts" => return self.sts(action, result).await,
            "sns" => return self.sns(action, result).await,
            _ => {}
        }
        // Otherwise a stolen temporary key could create a permanent one.
        if is_temporary(&self.access_key) && matches!(self.facts.caller, Caller::User { .. }) {
            let message = "the temporary key of a user cannot administer users";
            return Err(S3Error::with_message(S3ErrorCode::AccessDenied, message));
        }
        self.find_names(action).await?;
        if action.contains("OpenIDConnectProvider") {
            return self.oidc_provider(action, result).await;
        }
        match action {
            "GetAccountSummary" => return self.account_summary(action, result).await,
            "GetAccountAuthorizationDetails" => return self.authorization_details(action, result).await,
            _ => {}
        }
        match policies::of_identity(action) {
            Some((kind, verb)) => self.policy_of_identity(action, kind, verb, result).await,
            None if action.contains("Role") => self.role(action, result).await,
            None if action.contains("Group") => self.group(action, result).await,
            None if action.contains("Polic") => self.managed_policy(action, result).await,
            None => self.user(action, result).await,
        }
    }

    /// Replaces names that differ from existing ones only in upper and lower case: as on AWS, they
    /// mean the same.
    async fn find_names(&mut self, action: &str) -> S3Result<()> {
        for kind in [IdentityKind::User, IdentityKind::Group, IdentityKind::Role] {
            let parameter = format!("{}Name", title(kind));
            // `create_identity` compares a new name with all others.
            if action.strip_prefix("Create") == Some(title(kind)) {
                continue;
            }
            let Some(name) = self.form.optional(&parameter) else { continue };
            match self.identities.identity(kind, &self.account, name).await {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) if error.kind() != ErrorKind::InvalidArgument => return Err(failure(error)),
                _ => continue,
            }
            let all = self.identities.identities(kind, &self.account).await.map_err(failure)?;
            if let Some((known, _)) = all.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
                self.form.0.insert(parameter, known);
            }
        }
        Ok(())
    }

    fn arn(&self, kind: IdentityKind, path: &str, name: &str) -> String {
        identity_arn(kind, &self.account, path, name)
    }

    /// Refuses the request unless the policies of the caller allow the action on this resource.
    fn allow(&self, action: &str, resource: &str) -> S3Result<()> {
        self.allow_with(action, resource, &self.facts)
    }

    fn allow_with(&self, action: &str, resource: &str, facts: &dyn Facts) -> S3Result<()> {
        match self.may(&format!("iam:{action}"), resource, facts) {
            true => Ok(()),
            false => Err(S3Error::new(S3ErrorCode::AccessDenied)),
        }
    }

    /// Whether the policies of the caller allow an action, with the name of its service.
    fn may(&self, action: &str, resource: &str, facts: &dyn Facts) -> bool {
        let request = Request { caller: &self.facts.caller, action, resource, facts };
        decide_for_caller(&request, &self.rights) == Decision::Allowed
    }

    /// The user, group or role that the request names, if the caller may do this with it.
    async fn target(&self, action: &str, kind: IdentityKind) -> S3Result<Target<'_>> {
        self.target_named(action, kind, self.form.get(&format!("{}Name", title(kind)))?).await
    }

    async fn target_named<'r>(
        &self,
        action: &str,
        kind: IdentityKind,
        name: &'r str,
    ) -> S3Result<Target<'r>> {
        let found = match self.identities.identity(kind, &self.account, name).await {
            Ok(found) => Some(found),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::InvalidArgument) => None,
            Err(error) => return Err(failure(error)),
        };
        let path = if let Some(found) = &found { found.path() } else { self.path()? };
        let attaches = action.starts_with("Attach") || action.starts_with("Detach");
        let facts = TargetFacts {
            request: &self.facts,
            boundary: self.boundary(action, found.as_ref()),
            policy_arn: self.form.optional("PolicyArn").filter(|_| attaches),
        };
        self.allow_with(action, &self.arn(kind, path, name), &facts)?;
        Ok(Target { kind, name, found })
    }

    /// The boundary that policies compare: the one that the request gives, or that the user or the
    /// role has. As on AWS, only some actions have one.
    fn boundary<'b>(&'b self, action: &str, found: Option<&'b Identity>) -> Option<&'b str> {
        match action {
            "CreateUser" | "CreateRole" | "PutUserPermissionsBoundary" | "PutRolePermissionsBoundary" => {
                self.form.optional("PermissionsBoundary")
            }
            "DeleteUserPermissionsBoundary" | "DeleteRolePermissionsBoundary" => found?.boundary.as_deref(),
            _ => match policies::of_identity(action)? {
                (_, Verb::Put | Verb::Delete | Verb::Attach | Verb::Detach) => found?.boundary.as_deref(),
                _ => None,
            },
        }
    }

    /// The path of something new.
    fn path(&self) -> S3Result<&str> {
        let path = self.form.optional("Path").unwrap_or("/");
        check_path(path)?;
        Ok(path)
    }

    /// Gives a user or a group another name, another path, or both. The caller needs permission for
    /// the old and for the new ARN.
    async fn update(&self, action: &str, kind: IdentityKind) -> S3Result<()> {
        let target = self.target(action, kind).await?;
        let (new_path, name) = (self.form.optional("NewPath"), target.name);
        let new_name = self.form.optional(&format!("New{}Name", title(kind))).unwrap_or(name);
        if let Some(path) = new_path {
            check_path(path)?;
        }
        let found = target.require()?;
        self.allow(action, &self.arn(kind, new_path.unwrap_or(found.path()), new_name))?;
        if new_name != name {
            let renamed =
                self.identities.rename_identity(kind, &self.account, (name, new_name), new_path).await;
            return renamed.map_err(failure);
        }
        let Some(path) = new_path else { return Ok(()) };
        let change = |identity: &mut Identity| {
            identity.set_path(path);
            Ok(())
        };
        self.identities.change_identity(kind, &self.account, name, change).await.map_err(failure)
    }

    /// Changes a user, a group or a role.
    async fn change(
        &self,
        target: &Target<'_>,
        change: impl Fn(&mut Identity) -> benthic_core::Result<()>,
    ) -> S3Result<()> {
        let Target { kind, name, .. } = target;
        self.identities.change_identity(*kind, &self.account, name, change).await.map_err(failure)
    }

    /// Writes the fields that users, groups and roles have in common.
    fn write_identity(
        &self,
        text: &mut String,
        kind: IdentityKind,
        (name, identity): (&str, &Identity),
    ) -> S3Result<()> {
        let title = title(kind);
        let path = identity.path();
        field(text, "Path", path);
        field(text, &format!("{title}Name"), name);
        field(text, &format!("{title}Id"), &identity.id(&self.account, name));
        field(text, "Arn", &self.arn(kind, path, name));
        field(text, "CreateDate", &date(identity.created_ms)?);
        if let Some(boundary) = &identity.boundary {
            element(text, "PermissionsBoundary", |text| {
                field(text, "PermissionsBoundaryType", "Policy");
                field(text, "PermissionsBoundaryArn", boundary);
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Writes a page of the users, groups or roles with the prefix that the request names.
    async fn list(
        &self,
        result: &mut String,
        (action, name): (&str, &str),
        kind: IdentityKind,
        write: impl Fn(&mut String, &str, &Identity) -> S3Result<()>,
    ) -> S3Result<()> {
        self.allow(action, "*")?;
        let prefix = self.form.optional("PathPrefix").unwrap_or("/");
        let found = self.identities.identities(kind, &self.account).await.map_err(failure)?;
        let found = found.into_iter().filter(|(_, identity)| identity.path().starts_with(prefix));
        self.write_page(result, name, found.collect(), write)
    }

    /// Writes one page of a list whose items have several fields.
    fn write_page<T>(
        &self,
        text: &mut String,
        name: &str,
        items: Vec<(String, T)>,
        write: impl Fn(&mut String, &str, &T) -> S3Result<()>,
    ) -> S3Result<()> {
        self.write_list(text, name, items, |text, name, item| {
            element(text, "member", |text| write(text, name, item))
        })
    }

    /// Writes one page of a list: the items after `Marker`, at most `MaxItems`. As on AWS, upper
    /// and lower case do not change the order.
    fn write_list<T>(
        &self,
        text: &mut String,
        name: &str,
        items: Vec<(String, T)>,
        write: impl Fn(&mut String, &str, &T) -> S3Result<()>,
    ) -> S3Result<()> {
        let (page, is_truncated) = self.page(items, ITEMS_MAX)?;
        element(text, name, |text| page.iter().try_for_each(|(name, item)| write(text, name, item)))?;
        write_end(text, &page, is_truncated);
        Ok(())
    }

    /// The items of the page that the request wants, and whether there are more. A page has
    /// `default_max` items if the request gives no number.
    fn page<T>(&self, items: Vec<(String, T)>, default_max: u32) -> S3Result<(Vec<(String, T)>, bool)> {
        let items_max = self.form.number("MaxItems", 1..=ITEMS_MAX)?.unwrap_or(default_max) as usize;
        let marker = self.form.optional("Marker").unwrap_or_default();
        let place = |name: &str| (name.to_ascii_lowercase(), name.to_owned());
        let marker = place(marker);
        let mut rest: Vec<_> = items.into_iter().filter(|(name, _)| place(name) > marker).collect();
        rest.sort_by_cached_key(|(name, _)| place(name));
        let is_truncated = rest.len() > items_max;
        rest.truncate(items_max);
        Ok((rest, is_truncated))
    }
}

/// Writes the end of a page: whether there are more items, and where the next page begins.
fn write_end<T>(text: &mut String, page: &[(String, T)], is_truncated: bool) {
    field(text, "IsTruncated", if is_truncated { "true" } else { "false" });
    if let Some((last, _)) = page.last().filter(|_| is_truncated) {
        field(text, "Marker", last);
    }
}

/// The parameters of an action.
fn parameters_of(
    actions: &[(&str, &'static [&'static str])],
    action: &str,
) -> S3Result<&'static [&'static str]> {
    let known = actions.iter().find(|(name, _)| *name == action);
    let message = || format!("the gateway does not have the action {action}");
    let known = known.ok_or_else(|| error("InvalidAction", StatusCode::BAD_REQUEST, &message()));
    Ok(known?.1)
}

/// The word for it in parameters and answers.
fn title(kind: IdentityKind) -> &'static str {
    match kind {
        IdentityKind::User => "User",
        IdentityKind::Group => "Group",
        IdentityKind::Role => "Role",
    }
}

fn check_path(path: &str) -> S3Result<()> {
    let is_path = path.len() <= 512 && path.starts_with('/') && path.ends_with('/');
    if is_path && path.chars().all(|c| c.is_ascii_graphic() && !matches!(c, '*' | '?')) {
        return Ok(());
    }
    Err(invalid(
        "a path must begin and end with / and have at most 512 printable ASCII characters, without * and ?",
    ))
}

fn date(unix_ms: u64) -> S3Result<String> {
    super::request_facts::date(unix_ms).ok_or_else(|| S3Error::new(S3ErrorCode::InternalError))
}

fn element(text: &mut String, name: &str, write: impl FnOnce(&mut String) -> S3Result<()>) -> S3Result<()> {
    let _ = write!(text, "<{name}>");
    write(text)?;
    let _ = write!(text, "</{name}>");
    Ok(())
}

fn field(text: &mut String, name: &str, value: &str) {
    let value = value.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let _ = write!(text, "<{name}>{value}</{name}>");
}

/// An error with a code of IAM.
fn error(code: &'static str, status: StatusCode, message: &str) -> S3Error {
    let mut error = S3Error::with_message(S3ErrorCode::Custom(code.into()), message.to_owned());
    error.set_status_code(status);
    error
}

fn invalid(message: &str) -> S3Error {
    error("ValidationError", StatusCode::BAD_REQUEST, message)
}

/// Maps an error of the identities.
fn failure(failed: Error) -> S3Error {
    let (code, status) = match failed.kind() {
        ErrorKind::NotFound => ("NoSuchEntity", StatusCode::NOT_FOUND),
        ErrorKind::AlreadyExists => ("EntityAlreadyExists", StatusCode::CONFLICT),
        ErrorKind::InvalidArgument => ("ValidationError", StatusCode::BAD_REQUEST),
        ErrorKind::LimitExceeded => ("LimitExceeded", StatusCode::CONFLICT),
        ErrorKind::Conflict => ("DeleteConflict", StatusCode::CONFLICT),
        // Nothing has changed. Clients repeat this error, but not ConcurrentModification.
        ErrorKind::Busy => ("ServiceUnavailable", StatusCode::SERVICE_UNAVAILABLE),
        _ => {
            tracing::warn!(error = %failed, "a request of IAM failed");
            return error("ServiceFailure", StatusCode::INTERNAL_SERVER_ERROR, "the store failed");
        }
    };
    error(code, status, failed.message())
}
