use crate::identity::{Caller, IdentityKind, PrincipalIds, identity_arn};
use crate::policy::{Document, Facts, Request};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A request of which only the id of the caller is known.
struct UserId(&'static str);

impl Facts for UserId {
    fn values(&self, key: &str) -> Option<Vec<String>> {
        (key == "aws:userid").then(|| vec![self.0.to_owned()])
    }
}

/// A request whose facts all have the same value. It counts how often they are looked up.
#[derive(Default)]
struct Counted(AtomicUsize);

impl Facts for Counted {
    fn values(&self, _key: &str) -> Option<Vec<String>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Some(vec!["ada".to_owned()])
    }
}

fn policy(effect: &str, key: &str, principals: &[&str]) -> Document {
    let statement = serde_json::json!({
        "Effect": effect, key: { "AWS": principals }, "Action": "s3:GetObject", "Resource": "arn:aws:s3:::b/*",
    });
    let all = serde_json::json!({ "Version": "2012-10-17", "Statement": [statement] });
    Document::of_bucket(&all.to_string(), "b").unwrap()
}

fn request<'r>(caller: &'r Caller, id: &'r UserId) -> Request<'r> {
    Request { caller, action: "s3:GetObject", resource: "arn:aws:s3:::b/k", facts: id }
}

fn user(account: &str, user: &str) -> Caller {
    Caller::User { account: account.to_owned(), user: user.to_owned() }
}

fn session(role: &str, session: &str) -> Caller {
    Caller::Session { account: "lab".to_owned(), role: role.to_owned(), session: session.to_owned() }
}

fn ids() -> PrincipalIds {
    let ada = (identity_arn(IdentityKind::User, "lab", "/", "ada"), "AIDA1".to_owned());
    let reader = (identity_arn(IdentityKind::Role, "lab", "/", "reader"), "AROA1".to_owned());
    [ada, reader].into()
}

#[test]
fn a_policy_names_the_user_of_its_time() {
    let by_name = policy("Allow", "Principal", &["arn:aws:iam::lab:user/team/ada"]);
    assert_eq!(by_name.identities(), Ok(BTreeSet::from([(IdentityKind::User, "lab", "ada")])));
    let bound = by_name.clone().bound_to(&ids());
    // The caller, its id, and whether the policy means it, without and with the id.
    for (caller, id, expected) in [
        (user("lab", "ada"), "AIDA1", (true, true)),
        (user("lab", "ada"), "AIDA2", (true, false)),
        (user("lab", "ada"), "lab/ada", (true, false)),
        // It has another name now.
        (user("lab", "eve"), "AIDA1", (false, true)),
        (user("sea", "ada"), "AIDA1", (false, false)),
        (session("ada", "dive"), "AIDA1:dive", (false, false)),
        (Caller::Anonymous, "AIDA1", (false, false)),
    ] {
        let user_id = UserId(id);
        let request = request(&caller, &user_id);
        assert_eq!((by_name.allows(&request), bound.allows(&request)), expected, "{caller:?} {id}");
    }
}

#[test]
fn a_new_policy_names_no_unique_ids() {
    // The principal, and whether a new policy may name it.
    for (principal, expected) in [
        ("AIDAQQQQQQQQQQQQQQQQQ", false),
        ("AROAQQQQQQQQQQQQQQQQQ", false),
        ("AGPAQQQQQQQQQQQQQQQQQ", true),
        ("AIDA", true),
        ("*", true),
    ] {
        for (effect, key) in [("Allow", "Principal"), ("Deny", "NotPrincipal")] {
            let policy = policy(effect, key, &["arn:aws:iam::lab:user/ada", principal]);
            assert_eq!(policy.identities().is_ok(), expected, "{key} {principal}");
        }
    }
}

#[test]
fn a_policy_names_the_role_of_its_time() {
    let role = policy("Allow", "Principal", &["arn:aws:iam::lab:role/reader"]).bound_to(&ids());
    let name = "arn:aws:sts::lab:assumed-role/reader/dive";
    let of_session = policy("Allow", "Principal", &[name]).bound_to(&ids());
    for (caller, id, expected) in [
        (session("reader", "dive"), "AROA1:dive", (true, true)),
        (session("reader", "swim"), "AROA1:swim", (true, false)),
        (session("reader", "dive"), "AROA2:dive", (false, false)),
        (user("lab", "reader"), "AROA1", (false, false)),
    ] {
        let user_id = UserId(id);
        let request = request(&caller, &user_id);
        assert_eq!((role.allows(&request), of_session.allows(&request)), expected, "{caller:?} {id}");
    }
}

#[test]
fn an_exemption_is_for_the_user_of_its_time() {
    let denies = policy("Deny", "NotPrincipal", &["arn:aws:iam::lab:user/ada"]).bound_to(&ids());
    for (id, expected) in [("AIDA1", false), ("AIDA2", true)] {
        let (caller, id) = (user("lab", "ada"), UserId(id));
        assert_eq!(denies.verdict(&request(&caller, &id)).denies, expected, "{}", id.0);
    }
}

#[test]
fn a_policy_of_100_statements_decides() {
    let statements: Vec<serde_json::Value> = (0..100)
        .map(|number| {
            serde_json::json!({
                "Effect": if number % 2 == 0 { "Allow" } else { "Deny" },
                "Principal": { "AWS": "lab" }, "Action": "s3:Get*", "Resource": "arn:aws:s3:::b/*/k",
                "Condition": { "StringLike": { "aws:userid": format!("AIDA{number}*") } },
            })
        })
        .collect();
    let all = serde_json::json!({ "Version": "2012-10-17", "Statement": statements });
    let policy = Document::of_bucket(&all.to_string(), "b").unwrap();
    let caller = user("lab", "ada");
    for (id, allows, denies) in [("AIDAQ", false, false), ("AIDA0Q", true, false), ("AIDA99", false, true)] {
        let id = UserId(id);
        let request = Request { resource: "arn:aws:s3:::b/home/ada/k", ..request(&caller, &id) };
        assert_eq!((policy.allows(&request), policy.verdict(&request).denies), (allows, denies), "{}", id.0);
    }
}

#[test]
fn a_policy_looks_up_each_fact_once() {
    // The resource and the value of the conditions, whether the policy allows, and the lookups.
    for (resource, value, allows, lookups) in [
        ("arn:aws:s3:::b/${aws:username}/k", "${aws:username}", true, 3),
        ("arn:aws:s3:::b/${aws:username}/k", "eve", false, 3),
        // The text differs before the first variable.
        ("arn:aws:s3:::b/logs/${aws:username}/k", "ada", false, 0),
    ] {
        let statements = ["aws:userid", "aws:UserAgent", "aws:userid", "aws:useragent"].map(|key| {
            serde_json::json!({
                "Effect": "Allow", "Principal": "*", "Action": "s3:Get*", "Resource": resource,
                "Condition": { "StringEquals": { key: value } },
            })
        });
        let all = serde_json::json!({ "Version": "2012-10-17", "Statement": statements });
        let policy = Document::of_bucket(&all.to_string(), "b").unwrap();
        let (caller, facts) = (user("lab", "ada"), Counted::default());
        let resource = "arn:aws:s3:::b/ada/k";
        let request = Request { caller: &caller, action: "s3:GetObject", resource, facts: &facts };
        assert_eq!(policy.allows(&request), allows);
        assert_eq!(facts.0.load(Ordering::Relaxed), lookups);
    }
}
