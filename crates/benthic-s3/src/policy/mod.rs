//! Policies: JSON documents that allow or deny actions, in the language of AWS IAM.
//!
//! A request is decided in the order of AWS: an explicit `Deny` wins, then something must allow the
//! action, and a request that nothing allows is denied. [`decide`] combines the policy of the
//! bucket, the policies of the caller and the access control lists. Nothing here reads from a
//! store.
//!
//! Source: the IAM user guide, "Policy evaluation logic" and "IAM JSON policy reference".

mod actions;
mod condition;
mod document;
mod facts;
mod pattern;

pub use document::{Document, Effect, POLICY_BYTES_MAX};
pub use facts::{CLAIMS_OF_SESSION, Facts, claim};

use crate::identity::Caller;

/// The actions that a policy of the bucket cannot deny to users who have all rights of the account
/// that owns the bucket. So nobody locks himself out for ever.
const NEVER_LOCKED: [&str; 3] = ["s3:GetBucketPolicy", "s3:PutBucketPolicy", "s3:DeleteBucketPolicy"];

/// A request to do one thing.
#[derive(Clone, Copy)]
pub struct Request<'r> {
    pub caller: &'r Caller,
    /// Such as `s3:GetObject`.
    pub action: &'r str,
    /// The bucket or object, such as `arn:aws:s3:::photos/reef.jpg`.
    pub resource: &'r str,
    pub facts: &'r dyn Facts,
}

/// The policies of a caller. The default is that of a user with all rights of the account.
#[derive(Clone, Debug, Default)]
pub struct Rights {
    /// The policies of the user and its groups, or of the role. `None` for a user with all rights
    /// of the account.
    pub identity: Option<Vec<Document>>,
    /// Limits the rights that the others give.
    pub boundary: Option<Document>,
    /// The policies of a session, which limit the rights that the others give.
    pub session: Option<Vec<Document>>,
}

/// The rules that apply to a request on a bucket, or on another thing with a policy.
#[derive(Clone, Copy)]
pub struct Rules<'r> {
    /// The account that owns the bucket.
    pub owner: &'r str,
    /// The policy of the bucket.
    pub bucket_policy: Option<&'r Document>,
    /// Whether a public bucket policy counts only for the account of the owner
    /// (`RestrictPublicBuckets`).
    pub restricts_public_policy: bool,
    /// Whether an access control list allows the action to the caller.
    pub acl_allows: bool,
    pub rights: &'r Rights,
}

/// The outcome of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    Allowed,
    /// Nothing allows the request.
    NotAllowed,
    /// A policy denies the request, even if others allow it.
    Denied,
}

/// Decides a request on a bucket.
#[must_use]
pub fn decide(request: &Request<'_>, rules: &Rules<'_>) -> Decision {
    let is_own = request.caller.account() == Some(rules.owner);
    let bucket = rules.bucket_policy.map_or(Verdict::default(), |policy| policy.verdict(request));
    let own = rules.rights.verdict(request);
    let has_all_rights = is_own && rules.rights.identity.is_none();
    let is_denied = bucket.denies && !(has_all_rights && NEVER_LOCKED.contains(&request.action));
    if is_denied || own.denies {
        return Decision::Denied;
    }
    let counts =
        is_own || !rules.restricts_public_policy || !rules.bucket_policy.is_some_and(Document::is_public);
    let by_bucket = bucket.allows.filter(|_| counts);
    let is_allowed = match request.caller {
        Caller::Anonymous => by_bucket.is_some() || rules.acl_allows,
        // Only a role can give rights to it: see `Document::trusts`.
        Caller::WebIdentity { .. } => false,
        Caller::Service(_) => bucket.allows == Some(Named::Service),
        // A policy that names the user, or everybody, is enough inside an account. One that names
        // the role is enough within the limits of the session. One that names the account leaves
        // the choice to the policies of the caller.
        Caller::User { .. } | Caller::Session { .. } if is_own => {
            own.allows()
                || by_bucket == Some(Named::Caller)
                || (by_bucket == Some(Named::Role) && own.is_within_limits)
        }
        Caller::User { .. } | Caller::Session { .. } => {
            own.allows() && (by_bucket.is_some() || rules.acl_allows)
        }
    };
    if is_allowed { Decision::Allowed } else { Decision::NotAllowed }
}

/// Decides by the policies of the caller alone. A caller without an account has no rights.
#[must_use]
pub fn decide_for_caller(request: &Request<'_>, rights: &Rights) -> Decision {
    if request.caller.account().is_none() {
        return Decision::NotAllowed;
    }
    match rights.verdict(request) {
        CallerVerdict { denies: true, .. } => Decision::Denied,
        verdict if verdict.allows() => Decision::Allowed,
        _ => Decision::NotAllowed,
    }
}

/// The verdict of a caller's policies on a request.
struct CallerVerdict {
    denies: bool,
    identity_allows: bool,
    /// Whether the boundary and the policies of the session allow it, too.
    is_within_limits: bool,
}

impl CallerVerdict {
    fn allows(&self) -> bool {
        self.identity_allows && self.is_within_limits
    }
}

impl Rights {
    fn verdict(&self, request: &Request<'_>) -> CallerVerdict {
        let mut denies = false;
        let mut allows = |policies: &[Document]| {
            let verdicts = policies.iter().map(|policy| policy.verdict(request));
            verdicts.fold(false, |allows, verdict| {
                denies |= verdict.denies;
                allows | verdict.allows.is_some()
            })
        };
        let identity_allows = self.identity.as_deref().is_none_or(&mut allows);
        let by_boundary =
            self.boundary.as_ref().is_none_or(|boundary| allows(std::slice::from_ref(boundary)));
        let by_session = self.session.as_deref().is_none_or(&mut allows);
        CallerVerdict { denies, identity_allows, is_within_limits: by_boundary && by_session }
    }

    /// All policies.
    pub fn documents(&self) -> impl Iterator<Item = &Document> {
        self.identity.iter().flatten().chain(&self.boundary).chain(self.session.iter().flatten())
    }
}

/// The verdict of one policy on a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Verdict {
    denies: bool,
    /// How the most precise statement that allows the request names the caller.
    allows: Option<Named>,
}

/// How a statement names the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Named {
    /// The statement names the account.
    Account,
    /// The caller is a session, and the statement names its role or everybody. Or the caller has a
    /// token of an identity provider, and the statement names everybody.
    Role,
    /// The statement names the user, the session or the identity provider itself, or it names
    /// everybody and the caller is a user or anonymous.
    Caller,
    /// The caller is a service, and the statement names it.
    Service,
}

#[cfg(test)]
mod tests;
