//! The facts about a request that conditions and variables use, by the names of their keys.

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

/// The keys that a policy may use. Those that end in `/` are followed by the name of a tag.
const KEYS: [&str; 41] = [
    "aws:currenttime",
    "aws:epochtime",
    "aws:principalaccount",
    "aws:principalarn",
    "aws:principaltype",
    "aws:referer",
    "aws:resourceaccount",
    "aws:securetransport",
    "aws:sourceip",
    "aws:useragent",
    "aws:userid",
    "aws:username",
    "benthic:method",
    "s3:authtype",
    "s3:delimiter",
    "s3:existingobjecttag/",
    "s3:max-keys",
    "s3:object-lock-legal-hold",
    "s3:object-lock-mode",
    "s3:object-lock-remaining-retention-days",
    "s3:object-lock-retain-until-date",
    "s3:prefix",
    "s3:requestobjecttag/",
    "s3:requestobjecttagkeys",
    "s3:resourceaccount",
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
    "s3:x-amz-server-side-encryption",
    "s3:x-amz-server-side-encryption-aws-kms-key-id",
    "s3:x-amz-server-side-encryption-customer-algorithm",
    "s3:x-amz-storage-class",
    "sts:externalid",
    "sts:rolesessionname",
];

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
    if !is_known || takes_tag == tag.is_empty() {
        return Err(format!("unknown condition key '{key}'"));
    }
    Ok(name + tag)
}
