//! The time of a decision by a policy of 100 statements.

use crate::Setting;
use bench_harness::report::{Aim, Row, Section};
use bench_harness::{Outcome, seconds, start};
use benthic_s3::identity::Caller;
use benthic_s3::policy::{Decision, Document, Facts, Request, Rights, Rules, decide};
use serde_json::{Value, json};
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};

const STATEMENTS: u32 = 100;
const DECISIONS: u32 = 100_000;
const AIM: Aim = Aim::AtMost(20.0);
/// Only the last statement of the policies fits it.
const RESOURCE: &str = "arn:aws:s3:::lab/team-99/ada/reef.jpg";
const POLICIES: [(&str, fn(u32) -> Value); 2] = [
    ("each statement has a prefix with a variable, and one condition", with_prefix),
    ("all statements fit the object, and two conditions each decide", with_conditions),
];

/// The facts about a GET, computed at each lookup as in the gateway.
struct Get {
    address: IpAddr,
}

impl Facts for Get {
    fn values(&self, key: &str) -> Option<Vec<String>> {
        Some(vec![match key {
            "aws:sourceip" => self.address.to_string(),
            "aws:username" => "ada".to_owned(),
            "s3:existingobjecttag/team" => "team-99".to_owned(),
            _ => return None,
        }])
    }
}

pub fn run(setting: &Setting) -> Outcome<Section> {
    let mut rows = Vec::new();
    for (name, statement) in POLICIES {
        let statements: Vec<Value> = (0..STATEMENTS).map(statement).collect();
        let text = json!({ "Version": "2012-10-17", "Statement": statements }).to_string();
        let policy = Document::of_bucket(&text, "lab")?;
        let rounds = (0..setting.rounds).map(|_| decision_us(setting, &policy));
        rows.push(Row::alone(name, "µs", rounds.collect::<Outcome<_>>()?, AIM));
    }
    let note =
        format!("The policy of a bucket with {STATEMENTS} statements decides about a GET; one thread.");
    Ok(Section { title: "A decision by a long policy", note, rows })
}

/// Denies and allows in turns.
fn effect(number: u32) -> &'static str {
    if number.is_multiple_of(2) { "Deny" } else { "Allow" }
}

fn with_prefix(number: u32) -> Value {
    json!({
        "Effect": effect(number), "Principal": "*", "Action": "s3:Get*",
        "Resource": format!("arn:aws:s3:::lab/team-{number}/${{aws:username}}/*"),
        "Condition": { "IpAddress": { "aws:SourceIp": "192.0.2.0/24" } },
    })
}

fn with_conditions(number: u32) -> Value {
    json!({
        "Effect": effect(number), "Principal": "*", "Action": "s3:Get*", "Resource": "arn:aws:s3:::lab/*",
        "Condition": {
            "IpAddress": { "aws:SourceIp": "192.0.2.0/24" },
            "StringEquals": { "s3:ExistingObjectTag/team": format!("team-{number}") },
        },
    })
}

/// The mean time of a decision in microseconds.
fn decision_us(setting: &Setting, policy: &Document) -> Outcome<f64> {
    let caller = Caller::User { account: "lab".to_owned(), user: "ada".to_owned() };
    let facts = Get { address: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7)) };
    // The user has no policy, so that of the bucket decides.
    let rights = Rights { identity: Some(Vec::new()), ..Rights::default() };
    let rules = Rules {
        owner: "lab",
        bucket_policy: Some(policy),
        restricts_public_policy: false,
        acl_allows: false,
        rights: &rights,
    };
    let request = Request { caller: &caller, action: "s3:GetObject", resource: RESOURCE, facts: &facts };
    let count = if setting.quick { DECISIONS / 100 } else { DECISIONS };
    let stopwatch = start();
    for _ in 0..count {
        if decide(black_box(&request), &rules) != Decision::Allowed {
            return Err("the policy does not allow the request".into());
        }
    }
    Ok(seconds(stopwatch) * 1e6 / f64::from(count))
}
