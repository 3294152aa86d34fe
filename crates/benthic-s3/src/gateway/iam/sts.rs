//! Temporary keys: sessions of roles, and short-lived keys of users.

use super::policies::check_document;
use super::{Call, date, element, error, failure, field, invalid};
use crate::identity::{Caller, Holder, IdentityKind, TemporaryKey, is_temporary};
use crate::policy::{Decision, Document, Request, Rules, decide};
use benthic_core::{Error, ErrorKind};
use hyper::StatusCode;
use s3s::{S3Error, S3ErrorCode, S3Result};

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

impl Call<'_> {
    pub(super) async fn sts(&self, action: &str, result: &mut String) -> S3Result<()> {
        match action {
            "AssumeRole" => self.assume_role(result).await,
            "GetSessionToken" => self.session_token(result).await,
            _ => {
                field(result, "UserId", &self.facts.caller.id().ok_or_else(denied)?);
                field(result, "Account", &self.account);
                field(result, "Arn", &self.facts.caller.arn(&self.facts.path).ok_or_else(denied)?);
                Ok(())
            }
        }
    }

    async fn assume_role(&self, result: &mut String) -> S3Result<()> {
        let (arn, session) = (self.form.get("RoleArn")?, self.form.get("RoleSessionName")?);
        check_session_name(session)?;
        let invalid_arn =
            || invalid("RoleArn must be the ARN of a role, such as arn:aws:iam::lab:role/reader");
        let rest = arn.strip_prefix("arn:aws:iam::").and_then(|rest| rest.split_once(':'));
        let (account, path) = rest.ok_or_else(invalid_arn)?;
        let path = path.strip_prefix("role").ok_or_else(invalid_arn)?;
        let (path, name) = path.split_at(path.rfind('/').ok_or_else(invalid_arn)? + 1);
        let (created_ms, role) = match self.identities.identity(IdentityKind::Role, account, name).await {
            Ok(role) if role.path() == path => (role.created_ms, role.role.ok_or_else(denied)?),
            // Do not reveal whether a role exists to callers that may not assume it.
            Err(failed) if !matches!(failed.kind(), ErrorKind::NotFound | ErrorKind::InvalidArgument) => {
                return Err(failure(failed));
            }
            _ => return Err(denied()),
        };
        let corrupt = |message: String| failure(Error::new(ErrorKind::Corrupt, message));
        let trust = Document::of_trust(&role.trust).map_err(corrupt)?;
        let request = Request {
            caller: &self.facts.caller,
            action: "sts:AssumeRole",
            resource: arn,
            facts: &self.facts,
        };
        let rules = Rules {
            owner: account,
            bucket_policy: Some(&trust),
            restricts_public_policy: false,
            acl_allows: false,
            rights: &self.rights,
        };
        // Even a caller with all rights of the account needs the trust of the role.
        if decide(&request, &rules) != Decision::Allowed || !trust.allows(&request) {
            return Err(denied());
        }
        let longest_s = match self.facts.caller {
            Caller::Session { .. } => role.session_s_max.min(CHAINED_LIFETIME_S_MAX),
            _ => role.session_s_max,
        };
        let lifetime_s = self.form.number("DurationSeconds", LIFETIME_S_MIN..=longest_s)?;
        let policies = self.session_policies(account).await?;
        let holder = Holder::Role { name: name.to_owned(), session: session.to_owned() };
        let lifetime_s = lifetime_s.unwrap_or(ROLE_LIFETIME_S);
        let key = self.identities.create_session(account, holder, policies, created_ms, lifetime_s);
        write_key(result, &key.map_err(failure)?)?;
        let session = Caller::Session {
            account: account.to_owned(),
            role: name.to_owned(),
            session: session.to_owned(),
        };
        element(result, "AssumedRoleUser", |text| {
            field(text, "AssumedRoleId", &session.id().unwrap_or_default());
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
            check_document(text, Document::of_identity)?;
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
        let created_ms = self.identities.user(&self.account, user).await.map_err(failure)?.created_ms;
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

fn check_session_name(name: &str) -> S3Result<()> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "_+=,.@-".contains(c);
    if (2..=64).contains(&name.len()) && name.chars().all(fits) {
        return Ok(());
    }
    Err(invalid("RoleSessionName must consist of 2 to 64 letters, digits and _+=,.@-"))
}
