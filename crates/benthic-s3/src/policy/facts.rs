//! The facts about a request that conditions and variables use, by the names of their keys.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Answers for the keys of conditions.
pub trait Facts: Sync {
    /// The values of a key in lower case; `None` if the request has no such fact. The part of a key
    /// after a `/`, the name of a tag, keeps its case.
    fn values(&self, key: &str) -> Option<Vec<String>>;
}

/// A request about which nothing is known.
pub struct NoFacts;

impl Facts for NoFacts {
    fn values(&self, _key: &str) -> Option<Vec<String>> {
        None
    }
}

/// The facts about one request. Each is looked up once, when a policy first needs it: many
/// statements look at the same facts, and to find one can cost more than to compare it.
pub struct FactCache<'r> {
    facts: &'r dyn Facts,
    found: RefCell<BTreeMap<String, Option<Rc<[String]>>>>,
}

impl<'r> FactCache<'r> {
    pub fn new(facts: &'r dyn Facts) -> FactCache<'r> {
        FactCache { facts, found: RefCell::default() }
    }

    /// As [`Facts::values`].
    pub fn values(&self, key: &str) -> Option<Rc<[String]>> {
        if let Some(found) = self.found.borrow().get(key) {
            return found.clone();
        }
        let values: Option<Rc<[String]>> = self.facts.values(key).map(Rc::from);
        self.found.borrow_mut().insert(key.to_owned(), values.clone());
        values
    }
}

/// The keys that a policy may use. Those that end in `/` are followed by the name of a tag.
const KEYS: [&str; 61] = [
    "aws:currenttime",
    "aws:epochtime",
    "aws:federatedprovider",
    "aws:multifactorauthage",
    "aws:multifactorauthpresent",
    "aws:principalaccount",
    "aws:principalarn",
    "aws:principalisawsservice",
    "aws:principaltype",
    "aws:referer",
    "aws:requestedregion",
    "aws:resourceaccount",
    "aws:securetransport",
    "aws:sourceaccount",
    "aws:sourcearn",
    "aws:sourceip",
    "aws:tokenissuetime",
    "aws:useragent",
    "aws:userid",
    "aws:username",
    "aws:viaawsservice",
    "benthic:method",
    "iam:permissionsboundary",
    "iam:policyarn",
    "s3:authtype",
    "s3:delimiter",
    "s3:existingobjecttag/",
    "s3:if-match",
    "s3:if-none-match",
    "s3:locationconstraint",
    "s3:max-keys",
    "s3:object-lock-legal-hold",
    "s3:object-lock-mode",
    "s3:object-lock-remaining-retention-days",
    "s3:object-lock-retain-until-date",
    "s3:objectcreationoperation",
    "s3:prefix",
    "s3:requestobjecttag/",
    "s3:requestobjecttagkeys",
    "s3:resourceaccount",
    "s3:signatureage",
    "s3:signatureversion",
    "s3:tlsversion",
    "s3:versionid",
    "s3:x-amz-acl",
    "s3:x-amz-content-sha256",
    "s3:x-amz-copy-source",
    "s3:x-amz-grant-full-control",
    "s3:x-amz-grant-read",
    "s3:x-amz-grant-read-acp",
    "s3:x-amz-grant-write",
    "s3:x-amz-grant-write-acp",
    "s3:x-amz-metadata-directive",
    "s3:x-amz-object-ownership",
    "s3:x-amz-server-side-encryption",
    "s3:x-amz-server-side-encryption-aws-kms-key-id",
    "s3:x-amz-server-side-encryption-customer-algorithm",
    "s3:x-amz-storage-class",
    "s3:x-amz-website-redirect-location",
    "sts:externalid",
    "sts:rolesessionname",
];

/// The claims of a token that a session keeps, so that all policies may use them.
pub const CLAIMS_OF_SESSION: [&str; 4] = ["amr", "aud", "azp", "sub"];
/// The services of the keys above.
const SERVICES: [&str; 5] = ["aws", "benthic", "iam", "s3", "sts"];

/// The claim in the key of an identity provider: `sub` in `idp.example/realms/lab:sub`. `None` for
/// other keys. Claims are in lower case.
pub fn claim(key: &str) -> Option<&str> {
    let (issuer, claim) = key.rsplit_once(':')?;
    let host = issuer.split(['/', ':']).next().unwrap_or_default();
    let is_issuer = !SERVICES.contains(&host) && (host == "localhost" || issuer.contains(['.', '/', ':']));
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let is_claim = !claim.is_empty() && claim.chars().all(is_name);
    (is_issuer && is_claim && issuer.chars().all(|c| c.is_ascii_graphic())).then_some(claim)
}

/// Checks a key and returns it in lower case, except for the name of a tag.
///
/// # Errors
/// A message for an unknown key: a condition that never holds could make a `Deny` useless.
pub fn check_key(key: &str) -> Result<String, String> {
    let (name, tag) = match key.split_once('/') {
        Some((name, tag)) => (format!("{}/", name.to_ascii_lowercase()), tag),
        None => (key.to_ascii_lowercase(), ""),
    };
    let takes_tag = name.ends_with('/');
    let is_known = KEYS.contains(&name.as_str());
    let lower_case = key.to_ascii_lowercase();
    if !is_known && claim(&lower_case).is_some() {
        return Ok(lower_case);
    }
    if !is_known || takes_tag == tag.is_empty() {
        return Err(format!("unknown condition key '{key}'"));
    }
    Ok(name + tag)
}
