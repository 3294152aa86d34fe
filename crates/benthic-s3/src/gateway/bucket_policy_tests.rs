use super::Principals;
use crate::identity::PrincipalIds;

#[test]
fn ids_belong_to_one_text() {
    let policy = r#"{"Version":"2012-10-17","Statement":[]}"#;
    let ids = PrincipalIds::from([("arn:aws:iam::lab:user/ada".to_owned(), "AIDA1".to_owned())]);
    let stored = serde_json::to_vec(&Principals::of(policy, ids.clone())).unwrap();
    // The policy of the bucket, and what the stored ids are for it.
    for (text, expected) in [(policy.to_owned(), Some(ids)), (format!("{policy} "), None)] {
        let principals: Principals = serde_json::from_slice(&stored).unwrap();
        assert_eq!(principals.ids_of(text.as_bytes()), expected);
    }
}
