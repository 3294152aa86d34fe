//! Fuzzes policies: documents that users store, and that decide about every request.

use benthic_s3::identity::Caller;
use benthic_s3::policy::{Decision, Document, Facts, Request, Rights, Rules, decide, decide_for_caller};

pub type Target = fn(&[u8]);

pub const TARGETS: [(&str, Target); 1] = [("policy", policy)];

/// A request that has all facts, with values that a client chooses.
struct AnyFacts;

impl Facts for AnyFacts {
    fn values(&self, key: &str) -> Option<Vec<String>> {
        Some(match key {
            "aws:sourceip" => vec!["192.0.2.7".to_owned()],
            "aws:securetransport" => vec!["false".to_owned()],
            "aws:currenttime" => vec!["2026-11-27T00:00:00Z".to_owned()],
            "s3:requestobjecttagkeys" => vec!["a".to_owned(), "*".to_owned()],
            _ => vec![format!("{key}/${{aws:username}}*?")],
        })
    }
}

/// A policy is refused, or it decides, and nobody gets rights from a policy that allows nothing.
pub fn policy(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let parsed = [Document::of_bucket(&text, "b"), Document::of_identity(&text), Document::of_trust(&text)];
    let name = |name: &str| name.to_owned();
    let callers = [
        Caller::Anonymous,
        Caller::User { account: name("lab"), user: name("ann") },
        Caller::User { account: name("sea"), user: name("bob") },
        Caller::Session { account: name("lab"), role: name("diver"), session: name("dive") },
    ];
    for document in parsed.into_iter().flatten() {
        let _ = (document.is_public(), document.reads_object_tags());
        let nothing = Rights { identity: Some(Vec::new()), ..Rights::default() };
        let only = Rights { identity: Some(vec![document.clone()]), ..Rights::default() };
        let limited = Rights { boundary: Some(document.clone()), session: Some(Vec::new()), ..only.clone() };
        for caller in &callers {
            for action in ["s3:GetObject", "s3:PutBucketPolicy", "iam:CreateUser", "sts:AssumeRole"] {
                let request = Request { caller, action, resource: "arn:aws:s3:::b/a*?", facts: &AnyFacts };
                let rules = Rules {
                    owner: "lab",
                    bucket_policy: Some(&document),
                    restricts_public_policy: false,
                    acl_allows: false,
                    rights: &nothing,
                };
                if decide(&request, &rules) == Decision::Allowed {
                    assert!(document.allows(&request));
                }
                if decide_for_caller(&request, &only) == Decision::Allowed {
                    assert!(document.allows(&request));
                }
                assert_ne!(decide_for_caller(&request, &limited), Decision::Allowed);
            }
        }
    }
}
