//! The APIs of IAM and STS, as far as the gateway has them: users, their keys and their policies.
//!
//! Clients send the name of an action and its parameters as a form, signed for the service `iam` or
//! `sts`, to the address of the gateway. A caller administers the users of its own account, as far
//! as its policies allow: the action is `iam:CreateUser`, for example, and the resource
//! `arn:aws:iam::lab:user/ann`. A user that is created here may do nothing until it gets a policy.
//!
//! Source: the API references of IAM (2010-05-08) and STS (2011-06-15).

use super::auth::Keys;
use super::request_facts::IamFacts;
use crate::identity::{Caller, Identities, Key, Policies, User, check_policy_name};
use crate::policy::{Decision, Document, Request, decide_for_user};
use async_trait::async_trait;
use benthic_core::{Environment, Error, ErrorKind};
use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::http::Extensions;
use hyper::{Method, Response, StatusCode, Uri};
use s3s::crypto::{Checksum as _, Sha256};
use s3s::dto::TimestampFormat;
use s3s::route::S3Route;
use s3s::{Body, S3Error, S3ErrorCode, S3Request, S3Response, S3Result};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

/// Maximum size of a form, in bytes. A policy is the largest parameter.
const FORM_BYTES_MAX: usize = 128 * 1024;
const ITEMS_MAX: usize = 1_000;
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
    let code = element("Code").unwrap_or_else(|| "ServiceFailure".to_owned());
    let message = element("Message").unwrap_or_default();
    let side = if parts.status.is_server_error() { "Receiver" } else { "Sender" };
    let text = format!(
        "<ErrorResponse xmlns=\"{IAM_NAMESPACE}\"><Error><Type>{side}</Type><Code>{code}</Code>\
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
}

#[async_trait]
impl S3Route for Iam {
    fn is_match(&self, method: &Method, uri: &Uri, headers: &HeaderMap, _: &mut Extensions) -> bool {
        is_iam(method, uri, headers)
    }

    async fn call(&self, request: S3Request<Body>) -> S3Result<S3Response<Body>> {
        let S3Request { input, credentials, service, extensions, .. } = request;
        let refused = || S3Error::with_message(S3ErrorCode::AccessDenied, "sign the request for iam or sts");
        let service =
            service.filter(|service| matches!(service.as_str(), "iam" | "sts")).ok_or_else(refused)?;
        let access_key = credentials.ok_or_else(refused)?.access_key;
        let key = self.keys.find(&access_key).await.map_err(failure)?.ok_or_else(refused)?;
        let identities = self.keys.identities().ok_or_else(|| {
            S3Error::with_message(S3ErrorCode::NotImplemented, "this server has no users of its own")
        })?;
        let Caller::User { account, user } = key.caller.clone() else { return Err(refused()) };
        let policies = key.policies.map(|policies| {
            let parsed: Result<Vec<Document>, String> =
                policies.values().map(|text| Document::of_user(text)).collect();
            parsed.map_err(|message| failure(Error::new(ErrorKind::Corrupt, message)))
        });
        let body = input.collect().await.map(|body| body.to_bytes()).map_err(super::error::body)?;
        let form = Form::parse(&body)?;
        let call = Call {
            identities,
            account,
            user,
            policies: policies.transpose()?,
            facts: IamFacts {
                caller: key.caller,
                received_ms: self.environment.unix_ms(),
                peer: extensions.get().copied(),
            },
            form,
        };
        let action = call.form.get("Action")?.to_owned();
        let mut result = String::new();
        match service.as_str() {
            "iam" => call.iam(&action, &mut result).await?,
            _ => call.sts(&action, &mut result)?,
        }
        let namespace = if service == "iam" { IAM_NAMESPACE } else { STS_NAMESPACE };
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
}

/// A request whose signature was checked.
struct Call<'r> {
    identities: &'r Identities,
    account: String,
    /// The user that sends the request.
    user: String,
    policies: Option<Vec<Document>>,
    facts: IamFacts,
    form: Form,
}

impl Call<'_> {
    async fn iam(&self, action: &str, result: &mut String) -> S3Result<()> {
        match action {
            "CreateUser" => {
                let name = self.named_user(action).await?;
                let path = self.form.optional("Path").unwrap_or("/");
                check_path(path)?;
                let created = self.identities.create_user(&self.account, name, Some(path)).await;
                self.write_user(result, name, &created.map_err(failure)?)
            }
            "GetUser" => {
                let name = self.user(action).await?;
                let user = self.identities.user(&self.account, name).await.map_err(failure)?;
                self.write_user(result, name, &user)
            }
            "ListUsers" => {
                self.allow(action, "*").await?;
                let prefix = self.form.optional("PathPrefix").unwrap_or("/");
                let users = self.identities.users(&self.account).await.map_err(failure)?;
                let users = users.into_iter().filter(|(_, user)| path_of(user).starts_with(prefix));
                self.write_page(result, "Users", users.collect(), |text, name, user| {
                    self.write_user_fields(text, name, user)
                })
            }
            "DeleteUser" => {
                let name = self.named_user(action).await?;
                let user = self.identities.user(&self.account, name).await.map_err(failure)?;
                if user.policies.is_some_and(|policies| !policies.is_empty()) {
                    return Err(error(
                        "DeleteConflict",
                        StatusCode::CONFLICT,
                        "delete the policies of the user first",
                    ));
                }
                self.identities.remove_user(&self.account, name).await.map_err(failure)
            }
            "CreateAccessKey" => {
                let name = self.user(action).await?;
                let key = self.identities.create_key(&self.account, name).await.map_err(failure)?;
                element(result, "AccessKey", |text| {
                    field(text, "UserName", name);
                    field(text, "AccessKeyId", &key.access_key);
                    field(text, "Status", "Active");
                    field(text, "SecretAccessKey", &key.secret);
                    Ok(())
                })
            }
            "ListAccessKeys" => {
                let name = self.user(action).await?;
                self.identities.user(&self.account, name).await.map_err(failure)?;
                let keys = self.identities.keys().await.map_err(failure)?;
                let keys =
                    keys.into_iter().filter(|(_, key)| key.account == self.account && key.user == name);
                self.write_page(result, "AccessKeyMetadata", keys.collect(), |text, access_key, key| {
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
            "DeleteAccessKey" => {
                let access_key = self.access_key(action).await?;
                self.identities.remove_key(access_key).await.map_err(failure)
            }
            "PutUserPolicy" => {
                let (user, name) = (self.named_user(action).await?, self.form.get("PolicyName")?);
                check_policy_name(name).map_err(failure)?;
                let text = self.form.get("PolicyDocument")?;
                Document::of_user(text)
                    .map_err(|message| error("MalformedPolicyDocument", StatusCode::BAD_REQUEST, &message))?;
                self.change_policies(user, |policies| {
                    policies.insert(name.to_owned(), text.to_owned());
                    Ok(())
                })
                .await
            }
            "GetUserPolicy" => {
                let (user, name) = (self.named_user(action).await?, self.form.get("PolicyName")?);
                let found = self.identities.user(&self.account, user).await.map_err(failure)?;
                let text =
                    found.policies.and_then(|mut policies| policies.remove(name)).ok_or_else(no_policy)?;
                field(result, "UserName", user);
                field(result, "PolicyName", name);
                field(result, "PolicyDocument", &super::list::encode(&text));
                Ok(())
            }
            "ListUserPolicies" => {
                let user = self.named_user(action).await?;
                let found = self.identities.user(&self.account, user).await.map_err(failure)?;
                let names = found.policies.unwrap_or_default().into_iter().collect();
                self.write_list(result, "PolicyNames", names, |text, name, _: &String| {
                    field(text, "member", name);
                    Ok(())
                })
            }
            "DeleteUserPolicy" => {
                let (user, name) = (self.named_user(action).await?, self.form.get("PolicyName")?);
                self.change_policies(user, |policies| policies.remove(name).map(drop).ok_or_else(not_found))
                    .await
            }
            _ => Err(unknown_action(action)),
        }
    }

    fn sts(&self, action: &str, result: &mut String) -> S3Result<()> {
        if action != "GetCallerIdentity" {
            return Err(unknown_action(action));
        }
        field(result, "UserId", &self.id(&self.user));
        field(result, "Account", &self.account);
        field(result, "Arn", &format!("arn:aws:iam::{}:user/{}", self.account, self.user));
        Ok(())
    }

    /// Refuses the request unless the policies of the caller allow the action on a user.
    async fn allow(&self, action: &str, name: &str) -> S3Result<()> {
        let path = match self.identities.user(&self.account, name).await {
            Ok(user) => path_of(&user).to_owned(),
            // The path of a new user.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.form.optional("Path").unwrap_or("/").to_owned()
            }
            Err(error) => return Err(failure(error)),
        };
        let action = format!("iam:{action}");
        let resource = format!("arn:aws:iam::{}:user{path}{name}", self.account);
        let request =
            Request { caller: &self.facts.caller, action: &action, resource: &resource, facts: &self.facts };
        match decide_for_user(&request, self.policies.as_deref()) {
            Decision::Allowed => Ok(()),
            Decision::NotAllowed | Decision::Denied => Err(S3Error::new(S3ErrorCode::AccessDenied)),
        }
    }

    /// The user that the request names.
    async fn named_user(&self, action: &str) -> S3Result<&str> {
        let name = self.form.get("UserName")?;
        self.allow(action, name).await?;
        Ok(name)
    }

    /// The user that the request names, or else the caller.
    async fn user(&self, action: &str) -> S3Result<&str> {
        let name = self.form.optional("UserName").unwrap_or(&self.user);
        self.allow(action, name).await?;
        Ok(name)
    }

    /// A key of the user.
    async fn access_key(&self, action: &str) -> S3Result<&str> {
        let (name, access_key) = (self.user(action).await?, self.form.get("AccessKeyId")?);
        match self.identities.key(access_key).await {
            Ok(Key { account, user, .. }) if account == self.account && user == name => Ok(access_key),
            Err(error) if error.kind() != ErrorKind::NotFound => Err(failure(error)),
            _ => Err(failure(Error::new(ErrorKind::NotFound, "the user has no such key"))),
        }
    }

    async fn change_policies(
        &self,
        user: &str,
        change: impl Fn(&mut Policies) -> benthic_core::Result<()>,
    ) -> S3Result<()> {
        let changed = self.identities.change_policies(&self.account, user, |policies| {
            let mut policies = policies.unwrap_or_default();
            change(&mut policies)?;
            Ok(Some(policies))
        });
        changed.await.map_err(failure)
    }

    fn id(&self, user: &str) -> String {
        format!("{}/{user}", self.account)
    }

    fn write_user(&self, text: &mut String, name: &str, user: &User) -> S3Result<()> {
        element(text, "User", |text| self.write_user_fields(text, name, user))
    }

    fn write_user_fields(&self, text: &mut String, name: &str, user: &User) -> S3Result<()> {
        let path = path_of(user);
        field(text, "Path", path);
        field(text, "UserName", name);
        field(text, "UserId", &self.id(name));
        field(text, "Arn", &format!("arn:aws:iam::{}:user{path}{name}", self.account));
        field(text, "CreateDate", &date(user.created_ms)?);
        Ok(())
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

    /// Writes one page of a list, which is sorted by name: the items after `Marker`, at most
    /// `MaxItems`.
    fn write_list<T>(
        &self,
        text: &mut String,
        name: &str,
        items: Vec<(String, T)>,
        write: impl Fn(&mut String, &str, &T) -> S3Result<()>,
    ) -> S3Result<()> {
        let items_max = match self.form.optional("MaxItems") {
            None => ITEMS_MAX,
            Some(number) => {
                let number = number.parse().ok().filter(|number| (1..=ITEMS_MAX).contains(number));
                number.ok_or_else(|| invalid("MaxItems is between 1 and 1000"))?
            }
        };
        let marker = self.form.optional("Marker").unwrap_or_default();
        let rest: Vec<_> = items.into_iter().filter(|(name, _)| name.as_str() > marker).collect();
        let page = &rest[..rest.len().min(items_max)];
        element(text, name, |text| page.iter().try_for_each(|(name, item)| write(text, name, item)))?;
        let is_truncated = rest.len() > page.len();
        field(text, "IsTruncated", if is_truncated { "true" } else { "false" });
        if let Some((last, _)) = page.last().filter(|_| is_truncated) {
            field(text, "Marker", last);
        }
        Ok(())
    }
}

fn path_of(user: &User) -> &str {
    user.path.as_deref().unwrap_or("/")
}

fn check_path(path: &str) -> S3Result<()> {
    let is_path = path.len() <= 512 && path.starts_with('/') && path.ends_with('/');
    if is_path && path.chars().all(|c| c.is_ascii_graphic() && !matches!(c, '*' | '?')) {
        return Ok(());
    }
    Err(invalid("a path begins and ends with / and has at most 512 characters"))
}

fn date(unix_ms: u64) -> S3Result<String> {
    let mut text = Vec::new();
    let formatted = super::timestamp(unix_ms).format(TimestampFormat::DateTime, &mut text);
    formatted.map_err(S3Error::internal_error)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
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

fn unknown_action(action: &str) -> S3Error {
    error("InvalidAction", StatusCode::BAD_REQUEST, &format!("the gateway does not have the action {action}"))
}

fn not_found() -> Error {
    Error::new(ErrorKind::NotFound, "the user has no such policy")
}

fn no_policy() -> S3Error {
    failure(not_found())
}

/// Maps an error of the identities.
fn failure(failed: Error) -> S3Error {
    let (code, status) = match failed.kind() {
        ErrorKind::NotFound => ("NoSuchEntity", StatusCode::NOT_FOUND),
        ErrorKind::AlreadyExists => ("EntityAlreadyExists", StatusCode::CONFLICT),
        ErrorKind::InvalidArgument => ("ValidationError", StatusCode::BAD_REQUEST),
        ErrorKind::LimitExceeded => ("LimitExceeded", StatusCode::CONFLICT),
        ErrorKind::Conflict => ("DeleteConflict", StatusCode::CONFLICT),
        _ => {
            tracing::warn!(error = %failed, "a request of IAM failed");
            return error("ServiceFailure", StatusCode::INTERNAL_SERVER_ERROR, "the store failed");
        }
    };
    error(code, status, failed.message())
}
