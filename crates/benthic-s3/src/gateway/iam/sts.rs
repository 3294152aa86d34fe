//! Temporary keys: sessions of roles, and short-lived keys of users.

use super::policies::check_document;
use super::{Call, date, element, error, failure, field, invalid, parameters_of};
use crate::identity::{
    Caller, Federated, Holder, IdentityKind, ROOT_USER, RoleSettings, TemporaryKey, is_temporary,
    issuer_name, oidc_provider_arn,
};
use crate::policy::{CLAIMS_OF_SESSION, Decision, Document, Request, Rules, decide};
use crate::web_identity::{Failure, Refusal, Token};
use benthic_core::{Error, ErrorKind};
use hyper::StatusCode;
use s3s::{S3Error, S3ErrorCode, S3Result};
use std::sync::Arc;

/// The action that needs no signature.
pub(super) const WITH_WEB_IDENTITY: &str = "AssumeRoleWithWebIdentity";

const LIFETIME_S_MIN: u32 = 900;
const ROLE_LIFETIME_S: u32 = 3_600;
/// Maximum lifetime of a session whose caller has a session itself.
const CHAINED_LIFETIME_S_MAX: u32 = 3_600;
const USER_LIFETIME_S: u32 = 43_200;
const USER_LIFETIME_S_MAX: u32 = 129_600;
/// Maximum size of the policy of a session, in bytes: the token contains it.
const SESSION_POLICY_BYTES_MAX: usize = 2_048;
const SESSION_POLICY_ARNS_MAX: usize = 10;

fn denied() -> S3Error {
    S3Error::new(S3ErrorCode::AccessDenied)
}

/// A role that a caller wants to assume.
struct Role<'r> {
    arn: &'r str,
    account: &'r str,
    name: &'r str,
    id: String,
    created_ms: u64,
    trust: Document,
    /// Maximum length of a session, in seconds.
    session_s_max: u32,
}

impl Call<'_> {
    pub(super) async fn sts(&self, action: &str, result: &mut String) -> S3Result<()> {
        match action {
            "AssumeRole" => self.assume_role(result).await,
            "GetSessionToken" => self.session_token(result).await,
            _ => {
                field(result, "UserId", &self.facts.caller.id(&self.facts.id).ok_or_else(denied)?);
                field(result, "Account", &self.account);
                field(result, "Arn", &self.facts.caller.arn(&self.facts.path).ok_or_else(denied)?);
                Ok(())
            }
        }
    }

    async fn assume_role(&self, result: &mut String) -> S3Result<()> {
        if matches!(&self.facts.caller, Caller::User { user, .. } if user == ROOT_USER) {
            let message = "an account itself cannot assume a role; use a key of a user";
            return Err(S3Error::with_message(S3ErrorCode::AccessDenied, message));
        }
        let role = self.role_to_assume().await?;
        let request = Request {
            caller: &self.facts.caller,
            action: "sts:AssumeRole",
            resource: role.arn,
            facts: &self.facts,
        };
        let rules = Rules {
            owner: role.account,
            bucket_policy: Some(&role.trust),
            restricts_public_policy: false,
            acl_allows: false,
            rights: &self.rights,
        };
        // Even a caller with all rights of the account needs the trust of the role.
        if decide(&request, &rules) != Decision::Allowed || !role.trust.allows(&request) {
            return Err(denied());
        }
        let longest_s = match self.facts.caller {
            Caller::Session { .. } => role.session_s_max.min(CHAINED_LIFETIME_S_MAX),
            _ => role.session_s_max,
        };
        self.start_session(&role, longest_s, None, result).await
    }

    /// Lets a caller with a token of an identity provider assume a role. The request has no
    /// signature.
    pub(super) async fn assume_role_with_web_identity(mut self, result: &mut String) -> S3Result<()> {
        self.form.check(parameters_of(super::STS_ACTIONS, WITH_WEB_IDENTITY)?)?;
        let token = self.form.get("WebIdentityToken")?.to_owned();
        check_session_name(self.form.get("RoleSessionName")?)?;
        let (account, ..) = parse_role_arn(self.form.get("RoleArn")?)?;
        let token = Token::parse(&token).map_err(refused_token)?;
        // The gateway asks no issuer that the account does not have.
        let name = issuer_name(token.issuer());
        let provider = match self.identities.oidc_provider(account, name).await {
            Err(failed)
                if matches!(
                    failed.kind(),
                    ErrorKind::NotFound | ErrorKind::InvalidArgument | ErrorKind::LimitExceeded
                ) =>
            {
                let message = "the account has no identity provider with the issuer of the token";
                return Err(refused_token(Refusal::Invalid(message.to_owned())));
            }
            found => found.map_err(failure)?,
        };
        let provider_arn = oidc_provider_arn(account, name);
        let claims = match self.iam.issuers.verify(account, &provider, token).await {
            Err(Failure::Refused(refusal)) => return Err(refused_token(refusal)),
            Err(Failure::NoKeys) => {
                let message =
                    "cannot get the keys of the identity provider; the log of the gateway has the cause";
                return Err(error("IDPCommunicationError", StatusCode::BAD_REQUEST, message));
            }
            Ok(claims) => claims,
        };
        let mut facts = claims.facts().map_err(refused_token)?;
        self.facts.caller = Caller::WebIdentity { provider_arn: provider_arn.clone() };
        self.facts.federated =
            Some(Arc::new(Federated { provider_arn: provider_arn.clone(), facts: facts.clone() }));
        let role = self.role_to_assume().await?;
        let action = format!("sts:{WITH_WEB_IDENTITY}");
        let request =
            Request { caller: &self.facts.caller, action: &action, resource: role.arn, facts: &self.facts };
        if !role.trust.trusts(&request) {
            return Err(denied());
        }
        let is_kept =
            |key: &str| key.rsplit_once(':').is_some_and(|(_, claim)| CLAIMS_OF_SESSION.contains(&claim));
        facts.retain(|key, _| is_kept(key));
        let federated = Some(Federated { provider_arn, facts });
        self.start_session(&role, role.session_s_max, federated, result).await?;
        field(result, "SubjectFromWebIdentityToken", &claims.subject);
        field(result, "Provider", &claims.issuer);
        let accepted =
            claims.checked_audiences().iter().find(|audience| provider.client_ids.contains(*audience));
        field(result, "Audience", accepted.map_or("", String::as_str));
        Ok(())
    }

    /// The role that the request names.
    async fn role_to_assume(&self) -> S3Result<Role<'_>> {
        let arn = self.form.get("RoleArn")?;
        check_session_name(self.form.get("RoleSessionName")?)?;
        let (account, path, name) = parse_role_arn(arn)?;
        let found = match self.identities.identity(IdentityKind::Role, account, name).await {
            Ok(role) if role.path() == path => role,
            // Do not reveal whether a role exists to callers that may not assume it.
            Err(failed) if !matches!(failed.kind(), ErrorKind::NotFound | ErrorKind::InvalidArgument) => {
                return Err(failure(failed));
            }
            _ => return Err(denied()),
        };
        let corrupt = |message: String| failure(Error::corrupt(message));
        let (id, created_ms) = (found.id(account, name), found.created_ms);
        let RoleSettings { trust, trust_principals, session_s_max, .. } = found.role.ok_or_else(denied)?;
        let trust = Document::of_trust(&trust).map_err(corrupt)?.bound_to(&trust_principals);
        Ok(Role { arn, account, name, id, created_ms, trust, session_s_max })
    }

    /// Writes a temporary key for a role that the caller may assume.
    async fn start_session(
        &self,
        role: &Role<'_>,
        longest_s: u32,
        federated: Option<Federated>,
        result: &mut String,
    ) -> S3Result<()> {
        let lifetime_s = self.form.number("DurationSeconds", LIFETIME_S_MIN..=longest_s)?;
        let Role { account, name, ref id, created_ms, .. } = *role;
        let policies = self.session_policies(account).await?;
        let session = self.form.get("RoleSessionName")?.to_owned();
        let holder = Holder::Role { name: name.to_owned(), session: session.clone(), federated };
        let lifetime_s = lifetime_s.unwrap_or(ROLE_LIFETIME_S);
        let key = self.identities.create_session(account, holder, policies, created_ms, lifetime_s);
        write_key(result, &key.map_err(failure)?)?;
        let session = Caller::Session { account: account.to_owned(), role: name.to_owned(), session };
        element(result, "AssumedRoleUser", |text| {
            field(text, "AssumedRoleId", &session.id(id).unwrap_or_default());
            field(text, "Arn", &session.arn("/").unwrap_or_default());
            Ok(())
        })
    }

    /// The policies that the request gives to the session.
    async fn session_policies(&self, account: &str) -> S3Result<(Option<String>, Vec<String>)> {
        let policy = self.form.optional("Policy");
        if let Some(text) = policy {
            if text.len() > SESSION_POLICY_BYTES_MAX {
                let message = format!("the policy of a session has at most {SESSION_POLICY_BYTES_MAX} bytes");
                return Err(error("PackedPolicyTooLarge", StatusCode::BAD_REQUEST, &message));
            }
            check_document(text, Document::of_new_identity)?;
        }
        let arns = self.form.list("PolicyArns", "arn")?;
        if arns.len() > SESSION_POLICY_ARNS_MAX {
            return Err(invalid("a session has at most 10 managed policies"));
        }
        for arn in &arns {
            self.identities.policy_text(account, arn).await.map_err(failure)?;
        }
        Ok((policy.map(str::to_owned), arns))
    }

    async fn session_token(&self, result: &mut String) -> S3Result<()> {
        let Caller::User { user, .. } = &self.facts.caller else { return Err(denied()) };
        if is_temporary(&self.access_key) {
            let message = "a temporary key cannot create another one";
            return Err(S3Error::with_message(S3ErrorCode::AccessDenied, message));
        }
        let lifetime_s = self.form.number("DurationSeconds", LIFETIME_S_MIN..=USER_LIFETIME_S_MAX)?;
        let holder = Holder::User { name: user.clone(), access_key: self.access_key.clone() };
        let lifetime_s = lifetime_s.unwrap_or(USER_LIFETIME_S);
        let found = self.identities.actor(IdentityKind::User, &self.account, user).await;
        let created_ms = found.map_err(failure)?.created_ms;
        let policies = (None, Vec::new());
        let key = self.identities.create_session(&self.account, holder, policies, created_ms, lifetime_s);
        write_key(result, &key.map_err(failure)?)
    }
}

fn write_key(text: &mut String, key: &TemporaryKey) -> S3Result<()> {
    let expires = date(key.expires_ms)?;
    element(text, "Credentials", |text| {
        field(text, "AccessKeyId", &key.access_key);
        field(text, "SecretAccessKey", &key.secret);
        field(text, "SessionToken", &key.token);
        field(text, "Expiration", &expires);
        Ok(())
    })
}

/// The account, the path and the name in the ARN of a role.
fn parse_role_arn(arn: &str) -> S3Result<(&str, &str, &str)> {
    let invalid_arn = || invalid("RoleArn must be the ARN of a role, such as arn:aws:iam::lab:role/reader");
    let rest = arn.strip_prefix("arn:aws:iam::").and_then(|rest| rest.split_once(':'));
    let (account, path) = rest.ok_or_else(invalid_arn)?;
    let path = path.strip_prefix("role").ok_or_else(invalid_arn)?;
    let (path, name) = path.split_at(path.rfind('/').ok_or_else(invalid_arn)? + 1);
    Ok((account, path, name))
}

/// The error for a token that is not accepted.
fn refused_token(refusal: Refusal) -> S3Error {
    let (code, status, message) = match refusal {
        Refusal::UnknownKey => {
            let message = "the identity provider does not have the key of the token".to_owned();
            ("InvalidIdentityToken", StatusCode::BAD_REQUEST, message)
        }
        Refusal::Invalid(message) => ("InvalidIdentityToken", StatusCode::BAD_REQUEST, message),
        Refusal::Rejected(message) => ("IDPRejectedClaim", StatusCode::FORBIDDEN, message),
        Refusal::Expired => (
            "ExpiredTokenException",
            StatusCode::BAD_REQUEST,
            "the token has expired; get another one".to_owned(),
        ),
    };
    error(code, status, &message)
}

fn check_session_name(name: &str) -> S3Result<()> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "_+=,.@-".contains(c);
    if (2..=64).contains(&name.len()) && name.chars().all(fits) {
        return Ok(());
    }
    Err(invalid("RoleSessionName must consist of 2 to 64 letters, digits and _+=,.@-"))
}
