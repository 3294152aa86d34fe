use super::{Decision, Document, Facts, POLICY_BYTES_MAX, Request, Rights, Rules, decide, decide_for_caller};
use crate::identity::Caller;
use proptest::prelude::{ProptestConfig, Strategy, any, prop, prop_assert_eq, proptest};
use serde_json::{Value, json};
use std::collections::BTreeMap;

type FactMap = BTreeMap<&'static str, Vec<&'static str>>;

struct Known(FactMap);

impl Facts for Known {
    fn values(&self, key: &str) -> Option<Vec<String>> {
        Some(self.0.get(key)?.iter().map(|value| (*value).to_owned()).collect())
    }
}

fn user(account: &str, user: &str) -> Caller {
    Caller::User { account: account.to_owned(), user: user.to_owned() }
}

fn statement(changes: Value) -> Value {
    let mut statement = json!({
        "Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::b/*",
    });
    for (name, value) in changes.as_object().unwrap() {
        match value {
            Value::Null => drop(statement.as_object_mut().unwrap().remove(name)),
            value => statement[name] = value.clone(),
        }
    }
    statement
}

fn text(statements: &[Value]) -> String {
    json!({ "Version": "2012-10-17", "Statement": statements }).to_string()
}

fn bucket_policy(changes: Value) -> Document {
    Document::of_bucket(&text(&[statement(changes)]), "b").unwrap()
}

/// Whether a policy of the bucket lets a caller of another account read an object.
fn allows(changes: Value, facts: &[(&'static str, &[&'static str])], resource: &str) -> bool {
    let facts = Known(facts.iter().map(|(key, values)| (*key, values.to_vec())).collect());
    let caller = user("sea", "bob");
    let request = Request { caller: &caller, action: "s3:GetObject", resource, facts: &facts };
    let policy = bucket_policy(changes);
    let rules = Rules { bucket_policy: Some(&policy), ..of_lab() };
    decide(&request, &rules) == Decision::Allowed
}

static ALL_RIGHTS: Rights = Rights { identity: None, boundary: None, session: None };

fn of_lab() -> Rules<'static> {
    Rules {
        owner: "lab",
        bucket_policy: None,
        restricts_public_policy: false,
        acl_allows: false,
        rights: &ALL_RIGHTS,
    }
}

const OBJECT: &str = "arn:aws:s3:::b/a/reef.jpg";

#[test]
fn a_statement_must_match_in_all_elements() {
    assert!(allows(json!({}), &[], OBJECT));
    for (changes, expected) in [
        (json!({ "Principal": { "AWS": "*" } }), true),
        (json!({ "Principal": { "AWS": ["lab", "arn:aws:iam::sea:root"] } }), true),
        (json!({ "Principal": { "AWS": "arn:aws:iam::sea:user/bob" } }), true),
        (json!({ "Principal": { "AWS": "arn:aws:iam::sea:user/eve" } }), false),
        (json!({ "Principal": { "CanonicalUser": "sea" } }), true),
        (json!({ "Action": "S3:getobject" }), true),
        (json!({ "Action": ["s3:Put*", "s3:Get?bject"] }), true),
        (json!({ "Action": "*" }), true),
        (json!({ "Action": null, "NotAction": "s3:Put*" }), true),
        (json!({ "Action": null, "NotAction": "s3:Get*" }), false),
        (json!({ "Resource": "arn:aws:s3:::b" }), false),
        (json!({ "Resource": "arn:aws:s3:::b/A/*" }), false),
        (json!({ "Resource": "arn:aws:s3:::b/*/*.jp?" }), true),
        (json!({ "Resource": null, "NotResource": "arn:aws:s3:::b/a/*" }), false),
        (json!({ "Resource": "*" }), true),
    ] {
        assert_eq!(allows(changes.clone(), &[], OBJECT), expected, "{changes}");
    }
}

#[test]
fn conditions_compare_as_their_operators_say() {
    let facts: &[(&'static str, &[&'static str])] = &[
        ("aws:username", &["bob"]),
        ("aws:sourceip", &["192.0.2.7"]),
        ("aws:securetransport", &["true"]),
        ("aws:currenttime", &["2026-06-01T12:00:00Z"]),
        ("aws:principalarn", &["arn:aws:iam::sea:user/bob"]),
        ("s3:prefix", &["home/bob/"]),
        ("s3:max-keys", &["10"]),
        ("s3:existingobjecttag/Kind", &["raw"]),
        ("s3:requestobjecttagkeys", &["a", "b"]),
        ("idp.example:amr", &[]),
    ];
    for (operator, key, values, expected) in [
        ("StringEquals", "aws:username", json!("bob"), true),
        ("StringEquals", "AWS:UserName", json!(["eve", "bob"]), true),
        ("StringEquals", "aws:username", json!("b*"), false),
        ("StringNotEquals", "aws:username", json!(["eve", "bob"]), false),
        ("StringEqualsIgnoreCase", "aws:username", json!("BOB"), true),
        ("StringLike", "aws:username", json!("b?b"), true),
        ("StringNotLike", "aws:username", json!("b*"), false),
        ("StringLike", "s3:prefix", json!("home/${aws:username}/*"), true),
        ("StringEquals", "s3:prefix", json!("home/${aws:username}/"), true),
        ("StringLike", "s3:prefix", json!("home/${aws:referer}/*"), false),
        ("StringLike", "s3:prefix", json!("home/${aws:referer, 'bob'}/*"), true),
        ("StringEquals", "s3:prefix", json!("${*}"), false),
        // A missing fact: a negated operator holds, another one does not.
        ("StringEquals", "aws:referer", json!("x"), false),
        ("StringNotEquals", "aws:referer", json!("x"), true),
        ("StringEqualsIfExists", "aws:referer", json!("x"), true),
        ("Null", "aws:referer", json!("true"), true),
        ("Null", "aws:referer", json!(false), false),
        ("Null", "aws:username", json!("false"), true),
        // Of several values, one that equals is enough, also for the negation to fail.
        ("StringEquals", "s3:RequestObjectTagKeys", json!("a"), true),
        ("StringNotEquals", "s3:RequestObjectTagKeys", json!("a"), false),
        ("StringNotLike", "s3:RequestObjectTagKeys", json!("b*"), false),
        ("StringNotEquals", "s3:RequestObjectTagKeys", json!("c"), true),
        ("ForAnyValue:StringNotEquals", "s3:RequestObjectTagKeys", json!("a"), true),
        // A fact without any value counts as missing.
        ("StringEquals", "idp.example:amr", json!("x"), false),
        ("StringNotEquals", "idp.example:amr", json!("x"), true),
        ("StringEqualsIfExists", "idp.example:amr", json!("x"), true),
        ("ForAllValues:StringEquals", "idp.example:amr", json!("x"), true),
        ("ForAnyValue:StringNotEquals", "idp.example:amr", json!("x"), false),
        ("Null", "idp.example:amr", json!("true"), true),
        ("Null", "idp.example:amr", json!("false"), false),
        ("NumericLessThan", "s3:max-keys", json!(11), true),
        ("NumericLessThan", "s3:max-keys", json!("10"), false),
        ("NumericLessThanEquals", "s3:max-keys", json!("10.0"), true),
        ("NumericNotEquals", "s3:max-keys", json!("10"), false),
        ("NumericGreaterThan", "aws:username", json!("1"), false),
        ("DateGreaterThan", "aws:CurrentTime", json!("2026-06-01"), true),
        ("DateLessThan", "aws:CurrentTime", json!("2026-06-01T12:00:00Z"), false),
        ("DateLessThanEquals", "aws:CurrentTime", json!("1780315200"), true),
        ("Bool", "aws:SecureTransport", json!(true), true),
        ("Bool", "aws:SecureTransport", json!("false"), false),
        ("IpAddress", "aws:SourceIp", json!("192.0.2.0/24"), true),
        ("IpAddress", "aws:SourceIp", json!("192.0.2.7"), true),
        ("IpAddress", "aws:SourceIp", json!(["2001:db8::/32", "10.0.0.0/8"]), false),
        ("IpAddress", "aws:SourceIp", json!("0.0.0.0/0"), true),
        ("IpAddress", "aws:SourceIp", json!("::/0"), false),
        ("NotIpAddress", "aws:SourceIp", json!("192.0.2.0/29"), false),
        ("ArnLike", "aws:PrincipalArn", json!("arn:aws:iam::*:user/b*"), true),
        (
            "ArnLike",
            "aws:PrincipalArn",
            json!("arn:aws:iam::${aws:Referer, 'sea'}:user/${aws:username}"),
            true,
        ),
        ("ArnLike", "aws:PrincipalArn", json!("arn:aws:iam::${aws:username}:user/bob"), false),
        // A wildcard in one part of an ARN does not reach into the next.
        ("ArnLike", "aws:PrincipalArn", json!("arn:*:user/bob::::x"), false),
        ("ArnNotEquals", "aws:PrincipalArn", json!("arn:aws:iam::sea:user/bob"), false),
        ("StringEquals", "s3:ExistingObjectTag/Kind", json!("raw"), true),
        ("StringEquals", "s3:ExistingObjectTag/kind", json!("raw"), false),
        ("ForAllValues:StringEquals", "s3:RequestObjectTagKeys", json!(["a", "b", "c"]), true),
        ("ForAllValues:StringEquals", "s3:RequestObjectTagKeys", json!(["a"]), false),
        ("ForAllValues:StringEquals", "aws:referer", json!("x"), true),
        ("ForAnyValue:StringEquals", "s3:RequestObjectTagKeys", json!(["b"]), true),
        ("ForAnyValue:StringNotEquals", "s3:RequestObjectTagKeys", json!(["a", "b"]), false),
        ("ForAnyValue:StringEquals", "aws:referer", json!("x"), false),
    ] {
        let condition = json!({ operator: { key: values } });
        assert_eq!(allows(json!({ "Condition": condition }), facts, OBJECT), expected, "{condition}");
    }
    let both = json!({ "Bool": { "aws:SecureTransport": true }, "StringEquals": { "aws:username": "eve" } });
    assert!(!allows(json!({ "Condition": both }), facts, OBJECT));
}

#[test]
fn a_variable_of_the_request_never_acts_as_a_wildcard() {
    let changes = json!({ "Resource": "arn:aws:s3:::b/${aws:username}/*" });
    assert!(allows(changes.clone(), &[("aws:username", &["a"])], OBJECT));
    assert!(!allows(changes.clone(), &[("aws:username", &["*"])], OBJECT));
    assert!(!allows(changes, &[], OBJECT));
}

#[test]
fn tags_in_variables_count_as_read() {
    let reads = |changes: Value| bucket_policy(changes).reads_object_tags();
    let variable = "${s3:ExistingObjectTag/owner}";
    assert!(!reads(json!({})));
    assert!(reads(json!({ "Condition": { "Null": { "s3:ExistingObjectTag/owner": true } } })));
    assert!(reads(json!({ "Condition": { "StringEquals": { "aws:username": variable } } })));
    assert!(reads(
        json!({ "Condition": { "ArnLike": { "aws:PrincipalArn": format!("arn:aws:iam::x:user/{variable}") } } })
    ));
    assert!(reads(json!({ "Resource": format!("arn:aws:s3:::b/{variable}/*") })));
}

#[test]
fn many_long_variables_cost_little() {
    let long = "x".repeat(60_000);
    let facts = [("aws:referer", vec![Box::leak(long.into_boxed_str()) as &'static str])];
    let facts: Vec<(&'static str, &[&'static str])> =
        facts.iter().map(|(key, values)| (*key, &values[..])).collect();
    let condition = json!({ "StringEquals": { "aws:username": "${aws:Referer}".repeat(1_000) } });
    assert!(!allows(json!({ "Condition": condition }), &[facts[0], ("aws:username", &["bob"])], OBJECT));
}

#[test]
fn invalid_documents_are_refused_with_a_reason() {
    let of = |changes: Value| text(&[statement(changes)]);
    let condition =
        |operator: &str, key: &str, value: Value| of(json!({ "Condition": { operator: { key: value } } }));
    let double = of(json!({})).replace("\"Effect\":\"Allow\"", "\"Effect\":\"Allow\",\"Effect\":\"Deny\"");
    let twice = r#"{"StringEquals": {"aws:username": "a", "AWS:username": "b"}}"#;
    let twice = of(json!({ "Condition": "x" })).replace("\"x\"", twice);
    for (text, reason) in [
        ("{".to_owned(), "EOF"),
        (json!({ "Version": "2012-10-17", "Statement": [] }).to_string(), "no statement"),
        (json!({ "Version": "2012-10-17" }).to_string(), "missing field `Statement`"),
        (text(&[statement(json!({}))]).replace("2012-10-17", "2026-01-01"), "unknown policy version"),
        (of(json!({ "Effect": "Permit" })), "unknown variant `Permit`"),
        (of(json!({ "Efect": "Allow" })), "unknown field `Efect`"),
        (double, "duplicate field `Effect`"),
        (twice, "'AWS:username' appears twice"),
        (of(json!({ "Principal": null })), "statement 1 needs a Principal"),
        (of(json!({ "Principal": "lab" })), "invalid value: string \"lab\""),
        (of(json!({ "Principal": { "AWS": "arn:aws:iam::lab:group/x" } })), "invalid principal"),
        (of(json!({ "Principal": { "AWS": "arn:aws:iam::lab:user/*" } })), "invalid principal"),
        (of(json!({ "Principal": { "AWS": "arn:aws:iam::*:root" } })), "invalid principal"),
        (of(json!({ "Principal": { "Federated": "x" } })), "not the ARN of an identity provider"),
        (of(json!({ "NotPrincipal": "*" })), "either Principal or NotPrincipal"),
        (of(json!({ "Principal": null, "NotPrincipal": { "AWS": "sea" } })), "only possible with Deny"),
        (of(json!({ "Action": null })), "either Action or NotAction"),
        (of(json!({ "Action": [] })), "Action is empty"),
        (of(json!({ "Action": "GetObject" })), "invalid action"),
        (of(json!({ "Action": "iam:CreateUser" })), "invalid action"),
        (of(json!({ "Action": 7 })), "invalid type"),
        (of(json!({ "Resource": "arn:aws:s3:::other/*" })), "not in this bucket"),
        (of(json!({ "Resource": "arn:aws:s3:::bb" })), "not in this bucket"),
        (of(json!({ "Resource": "b/*" })), "not in this bucket"),
        (of(json!({ "Resource": "arn:aws:s3:::b/${aws:nothing}" })), "unknown condition key"),
        (of(json!({ "Resource": "arn:aws:s3:::b/${aws:username" })), "has no end"),
        (condition("StringSame", "aws:username", json!("x")), "unknown condition operator"),
        (condition("ForSomeValues:StringEquals", "aws:username", json!("x")), "unknown condition operator"),
        (condition("StringEquals", "aws:nothing", json!("x")), "unknown condition key"),
        (condition("StringEquals", "s3:ExistingObjectTag", json!("x")), "unknown condition key"),
        (condition("StringEquals", "aws:username", json!([])), "has no value"),
        (condition("StringEquals", "aws:username", json!({})), "string, a number or a boolean"),
        (condition("StringEquals", "aws:username", json!([null])), "string, a number or a boolean"),
        (condition("NumericEquals", "s3:max-keys", json!("ten")), "not a number"),
        (condition("NumericEquals", "s3:max-keys", json!("NaN")), "not a number"),
        (condition("DateEquals", "aws:CurrentTime", json!("tomorrow")), "not a date"),
        (condition("Bool", "aws:SecureTransport", json!("yes")), "not true or false"),
        (condition("IpAddress", "aws:SourceIp", json!("192.0.2.0/33")), "not a range"),
        (condition("Null", "aws:username", json!(["true", "false"])), "Null takes one value"),
        (condition("ArnEquals", "aws:PrincipalArn", json!("bob")), "not an ARN"),
        (of(json!({ "Sid": "x".repeat(POLICY_BYTES_MAX) })), "larger than"),
        (
            condition("StringEquals", "aws:username", json!("x")).replace("\"x\"", &"[".repeat(500)),
            "recursion limit",
        ),
        (r#"["2012-10-17", "x", []]"#.to_owned(), "expected an object"),
        (json!({ "Version": "2012-10-17", "Statement": [["x"]] }).to_string(), "expected an object"),
    ] {
        let error = Document::of_bucket(&text, "b").expect_err(&text);
        assert!(error.contains(reason), "{text:.300}: {error}");
    }
    let with_principal = text(&[statement(json!({}))]);
    assert!(Document::of_identity(&with_principal).unwrap_err().contains("must not have a Principal"));
}

#[test]
fn only_new_policies_of_identities_are_checked_for_repeated_ids() {
    let with_ids = |ids: &[&str]| {
        let statement = |id| json!({ "Sid": id, "Effect": "Allow", "Action": "s3:*", "Resource": "*" });
        text(&ids.iter().map(statement).collect::<Vec<_>>())
    };
    for ids in [&["a", "b"][..], &["", ""], &["a", "", "A", ""]] {
        assert!(Document::of_new_identity(&with_ids(ids)).is_ok(), "{ids:?}");
    }
    let repeated = with_ids(&["a", "b", "a"]);
    assert!(Document::of_new_identity(&repeated).unwrap_err().contains("'a' appears twice"));
    // An earlier build may have stored this policy.
    assert!(Document::of_identity(&repeated).is_ok());
    let of_bucket = [statement(json!({ "Sid": "a" })), statement(json!({ "Sid": "a" }))];
    assert!(Document::of_bucket(&text(&of_bucket), "b").is_ok());
}

#[test]
fn the_order_of_evaluation_is_that_of_aws() {
    let facts = Known(FactMap::new());
    let read = |caller, rules: Rules<'_>| {
        decide(&Request { caller, action: "s3:GetObject", resource: OBJECT, facts: &facts }, &rules)
    };
    let of_user = |effect: &str| {
        let changes = json!({ "Principal": null, "Effect": effect, "Resource": "*" });
        Rights {
            identity: Some(vec![Document::of_identity(&text(&[statement(changes)])).unwrap()]),
            ..Rights::default()
        }
    };
    let (own, other, eve) = (user("lab", "ann"), user("sea", "bob"), user("sea", "eve"));
    let (may, may_not, nothing) =
        (of_user("Allow"), of_user("Deny"), Rights { identity: Some(Vec::new()), ..Rights::default() });
    let names = |principal: &str| bucket_policy(json!({ "Principal": { "AWS": principal } }));
    let (everybody, account, me) = (names("*"), names("lab"), names("arn:aws:iam::lab:user/ann"));
    let deny = bucket_policy(json!({ "Effect": "Deny" }));
    use Decision::{Allowed, Denied, NotAllowed};

    // Without policies, a user has all rights of the account.
    assert_eq!(read(&own, of_lab()), Allowed);
    assert_eq!(read(&other, of_lab()), NotAllowed);
    assert_eq!(read(&Caller::Anonymous, of_lab()), NotAllowed);
    for (rights, policy, expected) in [
        (&nothing, None, NotAllowed),
        (&may, None, Allowed),
        (&may_not, Some(&everybody), Denied),
        (&may, Some(&deny), Denied),
        (&nothing, Some(&me), Allowed),
        (&nothing, Some(&everybody), Allowed),
        // A policy that names the account leaves the choice to the policies of the user.
        (&nothing, Some(&account), NotAllowed),
        (&may, Some(&account), Allowed),
    ] {
        let rules = Rules { rights, bucket_policy: policy, ..of_lab() };
        assert_eq!(read(&own, rules), expected, "{rights:?} {policy:?}");
    }
    // Another account needs both: the owner's permission, and that of its own policies.
    let of_everybody = Rules { bucket_policy: Some(&everybody), ..of_lab() };
    assert_eq!(read(&other, of_everybody), Allowed);
    assert_eq!(read(&other, Rules { rights: &nothing, ..of_everybody }), NotAllowed);
    assert_eq!(read(&other, Rules { rights: &may, ..of_everybody }), Allowed);
    assert_eq!(read(&Caller::Anonymous, of_everybody), Allowed);
    for caller in [&other, &Caller::Anonymous] {
        assert_eq!(read(caller, Rules { restricts_public_policy: true, ..of_everybody }), NotAllowed);
        assert_eq!(read(caller, Rules { acl_allows: true, ..of_lab() }), Allowed);
        assert_eq!(read(caller, Rules { acl_allows: true, bucket_policy: Some(&deny), ..of_lab() }), Denied);
    }
    assert_eq!(read(&own, Rules { restricts_public_policy: true, ..of_everybody }), Allowed);

    // A denial for all others.
    let not_us = json!({ "Effect": "Deny", "Principal": null, "NotPrincipal": { "AWS": ["lab", "arn:aws:iam::sea:user/eve"] } });
    let not_us = bucket_policy(not_us);
    let rules = Rules { bucket_policy: Some(&not_us), acl_allows: true, ..of_lab() };
    assert_eq!(read(&own, rules), Allowed);
    assert_eq!(read(&eve, rules), Allowed);
    assert_eq!(read(&other, rules), Denied);

    // A list with an account and one of its users means only the user.
    let not_eve = json!({ "Effect": "Deny", "Principal": null, "NotPrincipal": { "AWS": ["sea", "arn:aws:iam::sea:user/eve"] } });
    let not_eve = bucket_policy(not_eve);
    let rules = Rules { bucket_policy: Some(&not_eve), acl_allows: true, ..of_lab() };
    assert_eq!(read(&eve, rules), Allowed);
    assert_eq!(read(&other, rules), Denied);

    // The owner can always repair the policy.
    let locked = bucket_policy(json!({ "Effect": "Deny", "Action": "s3:*", "Resource": "*" }));
    let repair =
        Request { caller: &own, action: "s3:PutBucketPolicy", resource: "arn:aws:s3:::b", facts: &facts };
    let rules = Rules { bucket_policy: Some(&locked), ..of_lab() };
    assert_eq!(decide(&repair, &rules), Allowed);
    assert_eq!(decide(&Request { caller: &other, ..repair }, &rules), Denied);
    assert_eq!(decide(&repair, &Rules { rights: &may, ..rules }), Denied);
    assert_eq!(decide_for_caller(&Request { caller: &Caller::Anonymous, ..repair }, &ALL_RIGHTS), NotAllowed);
}

#[test]
fn a_service_needs_a_statement_that_names_it() {
    let facts = Known(FactMap::from([("aws:sourcearn", vec!["arn:aws:s3:::photos"])]));
    let caller = Caller::Service("logging.s3.amazonaws.com");
    let decided = |statements: &[Value], more: Rules<'_>| {
        let policy = Document::of_bucket(&text(statements), "b").unwrap();
        let request = Request { caller: &caller, action: "s3:GetObject", resource: OBJECT, facts: &facts };
        decide(&request, &Rules { bucket_policy: Some(&policy), ..more })
    };
    let named = |service: &str, source: &str| {
        let condition = json!({ "ArnLike": { "aws:SourceArn": source } });
        statement(json!({ "Principal": { "Service": service }, "Condition": condition }))
    };
    let log = named("logging.s3.amazonaws.com", "arn:aws:s3:::photos");
    for (statements, expected) in [
        (vec![log.clone()], Decision::Allowed),
        (vec![named("logging.s3.amazonaws.com", "arn:aws:s3:::other")], Decision::NotAllowed),
        (vec![named("sns.amazonaws.com", "arn:aws:s3:::photos")], Decision::NotAllowed),
        (vec![statement(json!({}))], Decision::NotAllowed),
        (vec![log.clone(), statement(json!({ "Effect": "Deny" }))], Decision::Denied),
    ] {
        assert_eq!(decided(&statements, of_lab()), expected, "{statements:?}");
    }
    let public = Rules { restricts_public_policy: true, ..of_lab() };
    assert_eq!(decided(&[log, statement(json!({}))], public), Decision::Allowed);
    assert_eq!(
        decided(&[statement(json!({}))], Rules { acl_allows: true, ..of_lab() }),
        Decision::NotAllowed
    );
}

#[test]
fn a_policy_is_public_unless_it_limits_its_callers() {
    for (changes, expected) in [
        (json!({}), true),
        (json!({ "Effect": "Deny" }), false),
        (json!({ "Principal": { "AWS": "sea" } }), false),
        (json!({ "Condition": { "IpAddress": { "aws:SourceIp": "192.0.2.0/24" } } }), false),
        (json!({ "Condition": { "IpAddress": { "aws:SourceIp": "0.0.0.0/1" } } }), true),
        (json!({ "Condition": { "IpAddress": { "aws:SourceIp": "2000::/8" } } }), true),
        (json!({ "Condition": { "IpAddress": { "aws:SourceIp": "2001:db8::/32" } } }), false),
        (json!({ "Condition": { "NotIpAddress": { "aws:SourceIp": "192.0.2.0/24" } } }), true),
        (json!({ "Condition": { "StringEquals": { "aws:PrincipalAccount": "sea" } } }), false),
        (json!({ "Condition": { "StringLike": { "aws:PrincipalAccount": "*" } } }), true),
        (json!({ "Condition": { "StringEqualsIfExists": { "aws:PrincipalAccount": "sea" } } }), true),
        (json!({ "Condition": { "StringEquals": { "aws:Referer": "x" } } }), true),
        // Every account can have a user with this name.
        (json!({ "Condition": { "StringEquals": { "aws:username": "ann" } } }), true),
        (json!({ "Condition": { "StringEquals": { "aws:SourceIp": "${aws:SourceIp}" } } }), true),
    ] {
        assert_eq!(bucket_policy(changes.clone()).is_public(), expected, "{changes}");
    }
}

/// The slow and obvious evaluation of policies, on the documents as JSON.
mod oracle {
    use super::{Decision, FactMap};
    use crate::policy::Named;
    use serde_json::Value;

    /// The account, the name of the user or the role, and the name of the session.
    pub type Sender<'a> = (&'a str, &'a str, Option<&'a str>);

    fn like(pattern: &str, text: &str) -> bool {
        match (pattern.chars().next(), text.chars().next()) {
            (None, found) => found.is_none(),
            (Some('*'), found) => {
                like(&pattern[1..], text) || found.is_some_and(|c| like(pattern, &text[c.len_utf8()..]))
            }
            (Some(wanted), Some(found)) => {
                (wanted == '?' || wanted == found)
                    && like(&pattern[wanted.len_utf8()..], &text[found.len_utf8()..])
            }
            (Some(_), None) => false,
        }
    }

    fn all(value: &Value) -> Vec<&str> {
        match value {
            Value::Array(values) => values.iter().map(|value| value.as_str().unwrap()).collect(),
            value => vec![value.as_str().unwrap()],
        }
    }

    fn element(statement: &Value, name: &str, fits: impl Fn(&str) -> bool) -> bool {
        match (statement.get(name), statement.get(format!("Not{name}"))) {
            (Some(values), _) => all(values).into_iter().any(fits),
            (None, Some(values)) => !all(values).into_iter().any(fits),
            (None, None) => true,
        }
    }

    fn condition_holds(operator: &str, key: &str, wanted: &Value, facts: &FactMap) -> bool {
        let wanted = all(wanted);
        // A key that has no value is like a missing one.
        let found = facts.get(key.to_lowercase().as_str()).cloned().unwrap_or_default();
        let username = facts.get("aws:username").map(|values| values[0]);
        let replaced = |text: &str| match username {
            Some(name) => Some(text.replace("${aws:username}", name)),
            None => (!text.contains("${")).then(|| text.to_owned()),
        };
        let equals = |found: &&str| wanted.iter().any(|wanted| replaced(wanted).as_deref() == Some(*found));
        let is_like = |found: &&str| {
            wanted.iter().any(|wanted| replaced(wanted).is_some_and(|wanted| like(&wanted, found)))
        };
        match operator {
            "Null" => found.is_empty() == (wanted == ["true"]),
            "StringEquals" => found.iter().any(equals),
            // It holds exactly if the positive operator does not.
            "StringNotEquals" => !found.iter().any(equals),
            "StringLike" => found.iter().any(is_like),
            _ => unreachable!("{operator}"),
        }
    }

    /// The effects of the statements that match, and whether each names the caller himself.
    pub fn effects(
        policy: &Value,
        caller: Option<Sender>,
        action: &str,
        resource: &str,
        facts: &FactMap,
    ) -> Vec<(String, Named)> {
        let mut effects = Vec::new();
        for statement in policy["Statement"].as_array().unwrap() {
            let mut named = Some(Named::Caller);
            if let Some(principals) = statement.get("Principal") {
                named = None;
                for principal in all(&principals["AWS"]) {
                    let how = match caller {
                        None => (principal == "*").then_some(Named::Caller),
                        Some((account, _, _)) if principal == account => Some(Named::Account),
                        Some((account, user, None)) => {
                            let arn = format!("arn:aws:iam::{account}:user/{user}");
                            (principal == "*" || principal == arn).then_some(Named::Caller)
                        }
                        Some((account, role, Some(session))) => {
                            let of_session = format!("arn:aws:sts::{account}:assumed-role/{role}/{session}");
                            let of_role = format!("arn:aws:iam::{account}:role/{role}");
                            match () {
                                () if principal == of_session => Some(Named::Caller),
                                () if principal == of_role || principal == "*" => Some(Named::Role),
                                () => None,
                            }
                        }
                    };
                    named = named.max(how);
                }
            }
            let Some(named) = named else { continue };
            let conditions = statement["Condition"].as_object().into_iter().flatten();
            let mut conditions = conditions.flat_map(|(operator, keys)| {
                keys.as_object().unwrap().iter().map(move |(key, wanted)| (operator, key, wanted))
            });
            if element(statement, "Action", |wanted| like(wanted, action))
                && element(statement, "Resource", |wanted| like(wanted, resource))
                && conditions.all(|(operator, key, wanted)| condition_holds(operator, key, wanted, facts))
            {
                effects.push((statement["Effect"].as_str().unwrap().to_owned(), named));
            }
        }
        effects
    }

    /// Whether the policy of a bucket allows something to everybody.
    pub fn is_public(policy: &Value) -> bool {
        let opens = |one: &Value| one["Effect"] == "Allow" && all(&one["Principal"]["AWS"]).contains(&"*");
        policy["Statement"].as_array().unwrap().iter().any(opens)
    }

    /// The decision about a bucket of the account `lab`, by the effects of the bucket's policy, of
    /// the caller's own policy, of the boundary and of the policy of the session. The policy may
    /// count only for `lab`, and an access control list may allow the action.
    pub fn decision(
        bucket: &[(String, Named)],
        [identity, boundary, session]: &[Option<Vec<(String, Named)>>; 3],
        (is_restricted, acl_allows): (bool, bool),
        account: Option<&str>,
    ) -> Decision {
        let denies = |effects: &[(String, Named)]| effects.iter().any(|(effect, _)| effect == "Deny");
        if denies(bucket)
            || [identity, boundary, session].into_iter().flatten().any(|effects| denies(effects))
        {
            return Decision::Denied;
        }
        let is_open = |effects: &Option<Vec<_>>| effects.as_ref().is_none_or(|effects| !effects.is_empty());
        let is_within_limits = is_open(boundary) && is_open(session);
        let own = account.is_some() && is_open(identity) && is_within_limits;
        let is_named = |how| bucket.iter().any(|(_, named)| *named == how);
        let by_others = acl_allows || !(bucket.is_empty() || is_restricted);
        let allowed = match account {
            None => by_others,
            Some("lab") => own || is_named(Named::Caller) || (is_named(Named::Role) && is_within_limits),
            Some(_) => own && by_others,
        };
        if allowed { Decision::Allowed } else { Decision::NotAllowed }
    }
}

fn some_of(choices: &'static [&'static str]) -> impl Strategy<Value = Value> {
    prop::sample::subsequence(choices, 1..=2.min(choices.len())).prop_map(|chosen| json!(chosen))
}

fn some_condition() -> impl Strategy<Value = Value> {
    let operator = prop::sample::select(vec!["StringEquals", "StringNotEquals", "StringLike", "Null"]);
    let key = prop::sample::select(vec!["aws:username", "s3:prefix", "aws:Referer"]);
    let values = some_of(&["ann", "home/${aws:username}/", "h*", "ann?", "home/ann/"]);
    let present = prop::sample::select(vec!["true", "false"]);
    (operator, key, values, present).prop_map(|(operator, key, values, present)| {
        let values = if operator == "Null" { json!(present) } else { values };
        json!({ operator: { key: values } })
    })
}

fn some_policy(has_principals: bool) -> impl Strategy<Value = Value> {
    let statement = (
        prop::sample::select(vec!["Allow", "Allow", "Deny"]),
        some_of(&[
            "*",
            "lab",
            "sea",
            "arn:aws:iam::lab:user/ann",
            "arn:aws:iam::sea:user/bob",
            "arn:aws:iam::lab:role/diver",
            "arn:aws:sts::lab:assumed-role/diver/dive",
        ]),
        (any::<bool>(), some_of(&["s3:GetObject", "s3:Get*", "s3:PutObject", "*", "s3:?etObject"])),
        (any::<bool>(), some_of(&["arn:aws:s3:::b/*", "arn:aws:s3:::b/h*/*n", "arn:aws:s3:::b", "*"])),
        prop::option::of(some_condition()),
    );
    let statement = statement.prop_map(move |(effect, principals, actions, resources, condition)| {
        let mut statement = json!({ "Effect": effect });
        if has_principals {
            statement["Principal"] = json!({ "AWS": principals });
        }
        statement[if actions.0 { "Action" } else { "NotAction" }] = actions.1;
        statement[if resources.0 { "Resource" } else { "NotResource" }] = resources.1;
        if let Some(condition) = condition {
            statement["Condition"] = condition;
        }
        statement
    });
    prop::collection::vec(statement, 1..4)
        .prop_map(|statements| json!({ "Version": "2012-10-17", "Statement": statements }))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// A damaged policy is refused, or decides like any other.
    #[test]
    fn damaged_policies_do_not_panic(
        policy in some_policy(true),
        damage in prop::collection::vec((any::<prop::sample::Index>(), "[{}\\[\\]\":,*?$a0\\\\-]"), 1..4),
    ) {
        let mut text = policy.to_string();
        for (at, with) in damage {
            let at = at.index(text.len());
            text.replace_range(at..=at, &with);
        }
        if let Ok(policy) = Document::of_bucket(&text, "b") {
            let facts = Known(FactMap::from([("aws:username", vec!["ann"]), ("s3:prefix", vec!["home/ann/"])]));
            let caller = user("lab", "ann");
            let request = Request { caller: &caller, action: "s3:GetObject", resource: OBJECT, facts: &facts };
            let rules = Rules { bucket_policy: Some(&policy), ..of_lab() };
            let _ = decide(&request, &rules);
            let _ = policy.is_public();
        }
    }

    #[test]
    fn decisions_are_those_of_the_oracle(
        bucket in some_policy(true),
        own in [
            prop::option::of(some_policy(false)),
            prop::option::of(some_policy(false)),
            prop::option::of(some_policy(false)),
        ],
        caller in prop::sample::select(vec![
            None,
            Some(("lab", "ann", None)),
            Some(("lab", "eve", None)),
            Some(("sea", "bob", None)),
            Some(("lab", "diver", Some("dive"))),
            Some(("lab", "diver", Some("swim"))),
            Some(("sea", "diver", Some("dive"))),
        ]),
        action in prop::sample::select(vec!["s3:GetObject", "s3:PutObject", "s3:ListBucket"]),
        resource in prop::sample::select(vec!["arn:aws:s3:::b", "arn:aws:s3:::b/home/ann", "arn:aws:s3:::b/x"]),
        (restricts, acl_allows, username) in any::<(bool, bool, bool)>(),
        prefix in prop::option::of(
            prop::collection::vec(prop::sample::select(vec!["home/ann/", "hat", "x"]), 0..3)
        ),
    ) {
        let mut facts = FactMap::new();
        if let Some((_, user, _)) = caller.filter(|_| username) {
            facts.insert("aws:username", vec![user]);
        }
        facts.extend(prefix.map(|prefixes| ("s3:prefix", prefixes)));
        let own = own.map(|policy| policy.filter(|_| caller.is_some()));
        let of = |policy: &Value| oracle::effects(policy, caller, action, resource, &facts);
        let effects = [0, 1, 2].map(|index| own[index].as_ref().map(of));
        let settings = (restricts && oracle::is_public(&bucket), acl_allows);
        let account = caller.map(|(account, _, _)| account);
        let expected = oracle::decision(&of(&bucket), &effects, settings, account);
        let policy = Document::of_bucket(&bucket.to_string(), "b").unwrap();
        let [identity, boundary, session] =
            own.map(|policy| policy.map(|policy| Document::of_identity(&policy.to_string()).unwrap()));
        let [identity, session] = [identity, session].map(|policy| policy.map(|policy| vec![policy]));
        let rights = Rights { identity, boundary, session };
        let sender = match caller {
            None => Caller::Anonymous,
            Some((account, name, None)) => user(account, name),
            Some((account, role, Some(session))) => {
                let [account, role, session] = [account, role, session].map(str::to_owned);
                Caller::Session { account, role, session }
            }
        };
        let facts = Known(facts);
        let request = Request { caller: &sender, action, resource, facts: &facts };
        let restricts_public_policy = restricts;
        let bucket_policy = Some(&policy);
        let rules = Rules { bucket_policy, restricts_public_policy, acl_allows, rights: &rights, ..of_lab() };
        prop_assert_eq!(decide(&request, &rules), expected);
    }
}

/// Whether the trust policy of a role lets a caller with a token assume it.
fn trusts(statements: &[Value], facts: &[(&'static str, &[&'static str])]) -> bool {
    let statements: Vec<Value> = statements
        .iter()
        .map(|changes| {
            let idp = "arn:aws:iam::lab:oidc-provider/idp.example:8443/realms/Lab";
            let mut statement = json!({
                "Effect": "Allow", "Principal": { "Federated": idp }, "Action": "sts:AssumeRoleWithWebIdentity",
            });
            statement.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
            statement
        })
        .collect();
    let trust = Document::of_trust(&text(&statements)).unwrap();
    let facts = Known(facts.iter().map(|(key, values)| (*key, values.to_vec())).collect());
    let arn = "arn:aws:iam::lab:oidc-provider/idp.example:8443/realms/Lab";
    let caller = Caller::WebIdentity { provider_arn: arn.to_owned() };
    let (action, resource) = ("sts:AssumeRoleWithWebIdentity", "arn:aws:iam::lab:role/reader");
    trust.trusts(&Request { caller: &caller, action, resource, facts: &facts })
}

#[test]
fn a_role_trusts_only_the_identity_providers_that_it_names() {
    assert!(trusts(&[json!({})], &[]));
    for principal in [
        json!("*"),
        json!({ "AWS": "*" }),
        json!({ "AWS": "lab" }),
        json!({ "Federated": "arn:aws:iam::lab:oidc-provider/idp.example:8443/realms/lab" }),
        json!({ "Federated": "arn:aws:iam::sea:oidc-provider/idp.example:8443/realms/Lab" }),
        json!({ "Federated": "arn:aws:iam::lab:oidc-provider/idp.example:8443" }),
    ] {
        assert!(!trusts(&[json!({ "Principal": principal })], &[]), "{principal}");
        // A statement that matches the caller can still deny.
        let denies = json!({ "Effect": "Deny", "Principal": principal });
        let everybody = [json!("*"), json!({ "AWS": "*" })].contains(&principal);
        assert_eq!(trusts(&[json!({}), denies], &[]), !everybody, "{principal}");
    }
    assert!(!trusts(&[json!({ "Action": "sts:AssumeRole" })], &[]));
    assert!(trusts(&[json!({ "Action": "sts:*" })], &[]));
    let caller = user("lab", "bob");
    let trust = Document::of_trust(&text(&[json!({
        "Effect": "Allow", "Action": "sts:*",
        "Principal": { "Federated": "arn:aws:iam::lab:oidc-provider/idp.example" },
    })]));
    let request =
        Request { caller: &caller, action: "sts:AssumeRole", resource: "*", facts: &Known(FactMap::new()) };
    assert!(!trust.unwrap().allows(&request));
}

#[test]
fn conditions_compare_the_claims_of_a_token() {
    let facts: &[(&'static str, &[&'static str])] = &[
        ("idp.example:8443/realms/lab:sub", &["ada"]),
        ("idp.example:8443/realms/lab:aud", &["s3"]),
        ("idp.example:8443/realms/lab:groups", &["divers", "staff"]),
    ];
    for (operator, key, value, expected) in [
        ("StringEquals", "idp.example:8443/realms/Lab:aud", json!("s3"), true),
        ("StringEquals", "IDP.example:8443/realms/Lab:SUB", json!("ada"), true),
        ("StringLike", "idp.example:8443/realms/Lab:sub", json!("a*"), true),
        ("StringEquals", "idp.example:8443/realms/Lab:sub", json!("eve"), false),
        ("ForAnyValue:StringEquals", "idp.example:8443/realms/Lab:groups", json!("divers"), true),
        ("ForAllValues:StringEquals", "idp.example:8443/realms/Lab:groups", json!("divers"), false),
        // The claims of another provider.
        ("StringEquals", "idp.example:sub", json!("ada"), false),
        ("StringEquals", "localhost:sub", json!("ada"), false),
    ] {
        let condition = json!({ "Condition": { operator: { key: value } } });
        assert_eq!(trusts(std::slice::from_ref(&condition), facts), expected, "{condition}");
    }
}

#[test]
fn only_trust_policies_use_all_claims() {
    let of_identity = |changes: Value| {
        let mut statement = json!({ "Effect": "Allow", "Action": "s3:*", "Resource": "*" });
        statement.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        Document::of_identity(&text(&[statement]))
    };
    for (key, expected) in [
        ("idp.example:sub", true),
        ("localhost:8080/realms/lab:aud", true),
        ("idp.example:groups", false),
        ("idp.example:", false),
        ("idp:sub", false),
        ("s3:8080/x:sub", false),
        ("aws:x.y:sub", false),
    ] {
        let condition = json!({ "Condition": { "StringEquals": { key: "x" } } });
        assert_eq!(of_identity(condition).is_ok(), expected, "{key}");
        let variable = json!({ "Resource": format!("arn:aws:s3:::b/${{{key}}}/*") });
        assert_eq!(of_identity(variable).is_ok(), expected, "{key}");
    }
    let federated = json!({ "Principal": { "Federated": "arn:aws:iam::lab:oidc-provider/idp.example" } });
    assert!(Document::of_bucket(&text(&[statement(federated)]), "b").is_err());
    for name in ["*", "idp.example", "arn:aws:iam::lab:saml-provider/x", "arn:aws:iam::lab:oidc-provider/*"] {
        let trust = json!({ "Effect": "Allow", "Action": "sts:*", "Principal": { "Federated": name } });
        assert!(Document::of_trust(&text(&[trust])).is_err(), "{name}");
    }
}
