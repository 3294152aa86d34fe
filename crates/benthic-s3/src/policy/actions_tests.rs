use super::check_action;
use crate::policy::Document;

#[test]
fn an_action_that_does_not_exist_is_refused() {
    for (text, expected) in [
        ("*", true),
        ("s3:*", true),
        ("S3:getobject", true),
        ("s3:Get*Tagging", true),
        ("s3:?etObject", true),
        ("s3:PutReplicationConfiguration", true),
        ("benthic:Exec", true),
        ("benthic:*", true),
        ("s3:ListObjects", false),
        ("s3:HeadObject", false),
        ("s3:GetObjects", false),
        ("s3:ListAllMyBuckets", false),
        ("s3:Get*Picture", false),
        ("benthic:Run", false),
    ] {
        assert_eq!(check_action(text).is_ok(), expected, "{text}");
    }
}

#[test]
fn only_new_policies_of_buckets_are_checked() {
    let policy = |key: &str, actions: &[&str]| {
        let statement = serde_json::json!({
            "Effect": "Deny", "Principal": "*", key: actions, "Resource": "arn:aws:s3:::b/*",
        });
        serde_json::json!({ "Version": "2012-10-17", "Statement": [statement] }).to_string()
    };
    for key in ["Action", "NotAction"] {
        assert!(Document::of_new_bucket(&policy(key, &["s3:Get*", "s3:PutObject"]), "b").is_ok());
        let wrong = policy(key, &["s3:GetObject", "s3:ListObjects"]);
        let error = Document::of_new_bucket(&wrong, "b").unwrap_err();
        assert!(error.contains("statement 1: unknown action 's3:ListObjects'"), "{error}");
        assert!(Document::of_bucket(&wrong, "b").is_ok());
    }
}
