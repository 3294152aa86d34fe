use super::Principals;
use crate::identity::PrincipalIds;
use crate::policy::Document;
use std::collections::BTreeSet;

#[test]
fn ids_belong_to_one_text() {
    let policy = r#"{"Version":"2012-10-17","Statement":[]}"#;
    let ids = PrincipalIds::from([("arn:aws:iam::lab:user/ada".to_owned(), "AIDA1".to_owned())]);
    let stored = serde_json::to_vec(&Principals::of(policy, ids.clone())).unwrap();
    // The policy of the bucket, and its stored ids.
    for (text, expected) in [(policy.to_owned(), Some(ids)), (format!("{policy} "), None)] {
        let principals: Principals = serde_json::from_slice(&stored).unwrap();
        assert_eq!(principals.ids_of(text.as_bytes()), expected);
    }
}

/// The actions in the table of operations.
fn actions_of_operations() -> BTreeSet<&'static str> {
    let words = include_str!("service.rs").split('"');
    words.filter(|word| word.starts_with("s3:") && *word != "s3:ListAllMyBuckets").collect()
}

#[test]
fn policies_of_buckets_can_name_the_actions_of_all_operations() {
    let actions = actions_of_operations();
    assert!(actions.len() > 50, "{actions:?}");
    for action in actions.into_iter().chain([crate::gateway::exec::ACTION]) {
        let statement = serde_json::json!({
            "Effect": "Deny", "Principal": "*", "Action": action, "Resource": "arn:aws:s3:::b/*",
        });
        let policy = serde_json::json!({ "Version": "2012-10-17", "Statement": statement });
        let parsed = Document::of_new_bucket(&policy.to_string(), "b");
        assert!(parsed.is_ok(), "{action}: {:?}", parsed.err());
    }
}
