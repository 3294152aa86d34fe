use super::{Destination, Endpoints, POLICY, permits};
use crate::identity::{self, EventTarget, Sasl};
use benthic_core::Environment;
use std::collections::BTreeMap;

const ARN: &str = "arn:aws:sns:us-east-1:lab:fish";

fn endpoints(texts: &[&str]) -> Result<Endpoints, String> {
    Endpoints::new(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
}

fn destination(permitted: &[&str], attributes: &[(&str, &str)]) -> Result<Destination, String> {
    let attributes = attributes.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let attributes: BTreeMap<String, String> = attributes.collect();
    let random = Environment::default().random;
    Destination::of_topic((ARN, "fish"), &attributes, &endpoints(permitted)?, random)
}

#[test]
fn only_the_endpoints_of_the_operator_are_permitted() {
    let permitted =
        ["https://hooks.example/s3/", "http://10.0.0.7:8000", "amqps://rabbit.example/lab", "kafka://k:9092"];
    let destination = |permitted: &[&str], endpoint: &str| {
        let mut attributes = vec![("push-endpoint", endpoint)];
        if endpoint.starts_with("amqp") {
            attributes.extend([("user-name", "ada"), ("password", "secret")]);
        }
        destination(permitted, &attributes)
    };
    for fits in [
        "https://hooks.example/s3",
        "https://HOOKS.example:443/s3/a/b?c=d",
        "http://10.0.0.7:8000",
        "http://10.0.0.7:8000/a%2fb",
        "amqps://rabbit.example/lab",
        "kafka://k:9092",
    ] {
        assert!(destination(&permitted, fits).is_ok(), "{fits}");
    }
    for other in [
        "http://hooks.example/s3",
        "https://hooks.example/s3x",
        "https://hooks.example/",
        "https://hooks.example/s3/../admin",
        "https://hooks.example/s3/%2e%2e/admin",
        "https://hooks.example/s3/..%2fadmin",
        "https://hooks.example/s3/..\\admin",
        "https://hooks.example/s3/..;/admin",
        "https://hooks.example/s3/..;a=b/admin",
        "https://hooks.example:444/s3",
        "https://hooks.example.evil/s3",
        "https://hooks.example@evil/s3",
        "https://evil/s3#https://hooks.example/s3",
        "http://10.0.0.70:8000",
        "http://10.0.0.7:80001",
        "http://10.0.0.7",
        "amqps://rabbit.example",
        "amqps://rabbit.example/labs",
        "amqp://rabbit.example/lab",
        "kafka://k:9093",
        "kafka://k:9092,evil:9092",
        "kafka://k:9092/x",
        "ftp://hooks.example/s3",
        "hooks.example/s3",
        "",
    ] {
        assert!(destination(&permitted, other).is_err(), "{other}");
        assert!(destination(&[], other).is_err(), "{other}");
    }
    for invalid in [
        "hooks.example",
        "ftp://hooks.example",
        "https://",
        "https://a:b@hooks.example",
        "https://hooks.example/s3?a=b",
        "kafka:k",
    ] {
        assert!(endpoints(&[invalid]).is_err(), "{invalid}");
    }
}

#[test]
fn attributes_describe_where_events_go() {
    let all = ["http://h", "amqp://h", "kafka://h"];
    assert_eq!(destination(&all, &[("persistent", "true")]), Ok(Destination::default()));
    let login = [
        ("push-endpoint", "amqp://h/lab"),
        ("amqp-exchange", "s3"),
        ("verify-ssl", "true"),
        ("user-name", "ada"),
        ("password", "secret"),
    ];
    let amqp = destination(&all, &login).unwrap();
    assert_eq!((amqp.url.as_str(), amqp.password.as_deref()), ("amqp://h/lab", Some("secret")));
    let expected = identity::Broker::Amqp {
        exchange: "s3".to_owned(),
        routing_key: "fish".to_owned(),
        user: Some("ada".to_owned()),
    };
    assert_eq!(amqp.broker, Some(expected));
    let login = [
        ("push-endpoint", "kafka://h"),
        ("user-name", "ada"),
        ("password", "secret"),
        ("mechanism", "PLAIN"),
    ];
    let kafka = destination(&["kafka://h"], &login).unwrap();
    assert_eq!((kafka.url.as_str(), kafka.password.as_deref()), ("h:9092", Some("secret")));
    let expected = identity::Broker::Kafka {
        topic: "fish".to_owned(),
        tls: false,
        user: Some("ada".to_owned()),
        sasl: Sasl::Plain,
    };
    assert_eq!(kafka.broker, Some(expected));
    let long = "x".repeat(1_025);
    for (attributes, reason) in [
        (vec![("color", "red")], "does not support the attribute color"),
        (vec![("persistent", "false")], "supports only persistent=true"),
        (vec![("amqp-exchange", "s3")], "does not fit the push-endpoint"),
        (vec![("push-endpoint", "kafka://h"), ("amqp-exchange", "s3")], "does not fit"),
        (vec![("push-endpoint", "amqp://h"), ("use-ssl", "true")], "does not fit"),
        (vec![("push-endpoint", "http://h"), ("password", "x")], "does not fit"),
        (vec![("push-endpoint", "amqp://h")], "needs the attributes user-name and password"),
        (vec![("push-endpoint", "amqp://h"), ("password", "x")], "needs the attributes user-name and"),
        (vec![("push-endpoint", "amqp://h"), ("user-name", "ada")], "needs a password"),
        (vec![("push-endpoint", "kafka://h"), ("mechanism", "GSSAPI")], "mechanism is"),
        (vec![("push-endpoint", "kafka://h"), ("use-ssl", "yes")], "use-ssl is"),
        (vec![("amqp-exchange", long.as_str())], "more than 1024 bytes"),
        (vec![("Policy", "{}")], "missing field"),
    ] {
        let error = destination(&all, &attributes).unwrap_err();
        assert!(error.contains(reason), "{attributes:?}: {error}");
    }
}

fn topic(policy: Option<&str>) -> EventTarget {
    let attributes: BTreeMap<&str, &str> = policy.into_iter().map(|policy| (POLICY, policy)).collect();
    let record = serde_json::json!({
        "form": 3, "created_ms": 1, "url": "", "token": null, "ca": null, "topic": attributes,
    });
    serde_json::from_value(record).unwrap()
}

#[test]
fn a_policy_opens_a_topic_to_buckets_of_other_accounts() {
    let statement = |effect: &str, principal: &str, condition: &str| {
        format!(
            r#"{{"Effect":"{effect}","Principal":{principal},"Action":"SNS:Publish","Resource":"{ARN}","Condition":{condition}}}"#
        )
    };
    let allow = |principal: &str, condition: &str| statement("Allow", principal, condition);
    let rival = r#"{"AWS":"arn:aws:iam::rival:root"}"#;
    let s3 = r#"{"Service":"s3.amazonaws.com"}"#;
    let source =
        r#"{"ArnLike":{"aws:SourceArn":"arn:aws:s3:::photos"},"StringEquals":{"aws:SourceAccount":"rival"}}"#;
    for (statements, permitted, other_permitted) in [
        (vec![allow(rival, "{}")], true, false),
        (vec![allow(r#""*""#, "{}")], true, true),
        (vec![allow(s3, source)], true, false),
        (vec![allow(s3, "{}"), statement("Deny", rival, "{}")], false, true),
        (vec![allow(r#"{"Service":"logging.s3.amazonaws.com"}"#, "{}")], false, false),
        (vec![statement("Deny", rival, "{}")], false, false),
    ] {
        let policy = format!(r#"{{"Version":"2012-10-17","Statement":[{}]}}"#, statements.join(","));
        let target = topic(Some(&policy));
        assert_eq!(permits(&target, ("lab", ARN), ("photos", "rival"), 1), permitted, "{policy}");
        assert_eq!(permits(&target, ("lab", ARN), ("photos", "third"), 1), other_permitted, "{policy}");
        assert!(!permits(&target, ("lab", &format!("{ARN}-2")), ("photos", "rival"), 1));
    }
    assert!(!permits(&topic(None), ("lab", ARN), ("photos", "rival"), 1));
    for refused in [
        allow(r#"{"AWS":"arn:aws:iam::rival:user/eve"}"#, "{}"),
        allow(rival, "{}").replace("SNS:Publish", "s3:GetObject"),
        allow(rival, "{}").replace(ARN, "arn:aws:sns:us-east-1:lab:crab"),
        allow(rival, r#"{"StringEquals":{"aws:Unknown":"x"}}"#),
    ] {
        let policy = format!(r#"{{"Version":"2012-10-17","Statement":[{refused}]}}"#);
        assert!(destination(&[], &[(POLICY, policy.as_str())]).is_err(), "{policy}");
    }
}
