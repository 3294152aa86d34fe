//! Policies: JSON documents that allow or deny actions, in the language of AWS IAM.
//!
//! A request is decided in the order of AWS: an explicit `Deny` wins, then something must allow the
//! action, and what nothing allows is denied. [`decide`] combines the policy of the bucket, the
//! policies of the user and the access control lists. Nothing here reads from a store.
//!
//! Source: the IAM user guide, "Policy evaluation logic" and "IAM JSON policy reference".

mod condition;
mod document;
mod facts;
mod pattern;

pub use document::{Document, Effect, POLICY_BYTES_MAX};
pub use facts::Facts;

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

/// The rules that apply to a request on a bucket.
#[derive(Clone, Copy)]
pub struct Rules<'r> {
    /// The account that owns the bucket.
    pub owner: &'r str,
    pub bucket_policy: Option<&'r Document>,
    /// Whether a public bucket policy counts only for the account of the owner
    /// (`RestrictPublicBuckets`).
    pub restricts_public_policy: bool,
    /// Whether an access control list allows the action to the caller.
    pub acl_allows: bool,
    /// The policies of the user; `None` for a user with all rights of the account.
    pub user_policies: Option<&'r [Document]>,
}

/// The outcome of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    Allowed,
    /// Nothing allows the request.
    NotAllowed,
    /// A policy denies the request, whatever else allows it.
    Denied,
}

/// Decides a request on a bucket.
#[must_use]
pub fn decide(request: &Request<'_>, rules: &Rules<'_>) -> Decision {
    let is_own = request.caller.account() == Some(rules.owner);
    let bucket = rules.bucket_policy.map_or(Verdict::default(), |policy| policy.verdict(request));
    let user = decide_for_user(request, rules.user_policies);
    let is_denied =
        bucket.denies && !(is_own && rules.user_policies.is_none() && NEVER_LOCKED.contains(&request.action));
    if is_denied || user == Decision::Denied {
        return Decision::Denied;
    }
    let counts =
        is_own || !rules.restricts_public_policy || !rules.bucket_policy.is_some_and(Document::is_public);
    let by_bucket = bucket.allows.filter(|_| counts);
    let is_allowed = match request.caller {
        Caller::Anonymous => by_bucket.is_some() || rules.acl_allows,
        // A policy that names the user, or everybody, is enough inside an account. One that names
        // the account leaves the choice to the policies of the user.
        Caller::User { .. } if is_own => user == Decision::Allowed || by_bucket == Some(Named::Caller),
        Caller::User { .. } => user == Decision::Allowed && (by_bucket.is_some() || rules.acl_allows),
    };
    if is_allowed { Decision::Allowed } else { Decision::NotAllowed }
}

/// Decides by the policies of a user alone. A user without policies has all rights of the account;
/// an anonymous caller has none.
#[must_use]
pub fn decide_for_user(request: &Request<'_>, policies: Option<&[Document]>) -> Decision {
    if *request.caller == Caller::Anonymous {
        return Decision::NotAllowed;
    }
    let Some(policies) = policies else { return Decision::Allowed };
    let mut allowed = Decision::NotAllowed;
    for policy in policies {
        let verdict = policy.verdict(request);
        if verdict.denies {
            return Decision::Denied;
        }
        if verdict.allows.is_some() {
            allowed = Decision::Allowed;
        }
    }
    allowed
}

/// What one policy says about a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Verdict {
    denies: bool,
    /// How the most precise statement that allows the request names the caller.
    allows: Option<Named>,
}

/// How a statement names the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Named {
    /// By the account.
    Account,
    /// As a user, or as one of all.
    Caller,
}

#[cfg(test)]
mod tests;
