use super::{Broker, Brokers, KEPT_MAX, Message};
use crate::events::webhook::Failure;
use crate::identity;
use crate::identity::Sasl;
use benthic_core::Environment;

fn new(
    url: &str,
    broker: &identity::Broker,
    password: Option<&str>,
    ca: Option<&str>,
) -> Result<Broker, String> {
    Broker::new(url, broker, password, ca, Environment::default().random)
}

fn amqp(exchange: &str, routing_key: &str, user: Option<&str>) -> identity::Broker {
    identity::Broker::Amqp {
        exchange: exchange.to_owned(),
        routing_key: routing_key.to_owned(),
        user: user.map(str::to_owned),
    }
}

fn kafka(topic: &str, tls: bool) -> identity::Broker {
    identity::Broker::Kafka { topic: topic.to_owned(), tls, user: None, sasl: Sasl::ScramSha512 }
}

#[test]
fn addresses_and_names_are_checked() {
    let long = "x".repeat(256);
    let good = amqp("", "events", None);
    for url in ["amqp://host", "amqp://host/", "amqps://host:5671/%2Flab", "amqp://[::1]:5672/lab"] {
        assert!(new(url, &good, None, None).is_ok(), "{url}");
    }
    for (url, reason) in [
        ("host:5672", "amqp://HOST"),
        ("http://host/", "amqp://HOST"),
        ("amqp:///lab", "amqp://HOST"),
        ("amqp://a%20b/lab", "amqp://HOST"),
        ("amqp://host/a/b", "amqp://HOST"),
        ("amqp://host/a?heartbeat=1", "amqp://HOST"),
        ("amqp://user@host/", "--user"),
        ("amqp://host:x/", "not a URL"),
    ] {
        let error = new(url, &good, None, None).err().unwrap_or_default();
        assert!(error.contains(reason), "{url}: {error}");
    }
    let host = "amqp://host";
    for (url, broker, password, ca, reason) in [
        (host, amqp(&long, "k", None), None, None, "the exchange has more than 255 bytes"),
        (host, amqp("e", &long, None), None, None, "the routing key has more than 255 bytes"),
        (host, amqp("e\n", "k", None), None, None, "control characters"),
        (host, amqp("e", "k", Some("u")), None, None, "a user needs a password"),
        (host, amqp("e", "k", None), Some("p"), None, "a password needs a user"),
        (host, amqp("e", "k", None), None, Some("pem"), "needs TLS"),
        ("amqps://host", amqp("e", "k", None), None, Some("pem"), "no certificate"),
        ("host:9092", kafka("", false), None, None, "a topic of Kafka"),
        ("host:9092", kafka("..", false), None, None, "a topic of Kafka"),
        ("host:9092", kafka("a b", false), None, None, "a topic of Kafka"),
        ("host:9092", kafka(&long, false), None, None, "a topic of Kafka"),
        ("host:9092", kafka("t", false), None, Some("pem"), "needs TLS"),
        ("host:9092", kafka("t", true), None, Some("pem"), "no certificate"),
        ("host", kafka("t", false), None, None, "HOST:PORT"),
    ] {
        let error = new(url, &broker, password, ca).err().unwrap_or_default();
        assert!(error.contains(reason), "{url} {broker:?}: {error}");
    }
}

#[test]
fn a_target_keeps_its_connections_until_it_changes_or_is_idle() {
    let target = |url: &str| -> identity::EventTarget {
        let text = format!(
            r#"{{"form":2,"created_ms":1,"url":"{url}","token":null,"ca":null,
            "broker":{{"kafka":{{"topic":"t","tls":false,"user":null,"sasl":"plain"}}}}}}"#
        );
        serde_json::from_str(&text).expect("a record")
    };
    let brokers = Brokers::default();
    let (first, second) = (target("one:1"), target("two:1"));
    let create = || new("host:9092", &kafka("t", false), None, None);
    let get = |name: &str, target, now_ms| brokers.get((name, target), now_ms, create).expect("a broker");
    let a = get("main/a", &first, 0);
    let b = get("main/b", &first, 0);
    assert!(!std::sync::Arc::ptr_eq(&a, &b));
    assert!(std::sync::Arc::ptr_eq(&a, &get("main/a", &first, 500_000)));
    // `b` has been idle for ten minutes.
    brokers.forget_idle(600_000);
    assert!(std::sync::Arc::ptr_eq(&a, &get("main/a", &first, 600_000)));
    assert!(!std::sync::Arc::ptr_eq(&b, &get("main/b", &first, 600_000)));
    // The target was created again.
    let changed = get("main/a", &second, 600_000);
    assert!(!std::sync::Arc::ptr_eq(&a, &changed));
    assert!(std::sync::Arc::ptr_eq(&changed, &get("main/a", &second, 600_000)));
    // A known target can change, too, if there is no room for another one.
    for number in 2..KEPT_MAX {
        get(&format!("main/{number}"), &first, 700_000);
    }
    let (one, changed) = (get("main/c", &first, 700_000), get("main/a", &first, 700_000));
    assert!(!std::sync::Arc::ptr_eq(&one, &get("main/c", &first, 700_000)));
    assert!(std::sync::Arc::ptr_eq(&changed, &get("main/a", &first, 700_000)));
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_never_answers_is_a_failure_after_ten_seconds() {
    // Connections wait in the backlog.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("an address");
    let message = Message { key: "k".to_owned(), body: "{}".into(), time_ms: 0 };
    for broker in [
        new(&format!("amqp://{address}"), &amqp("", "k", None), None, None),
        new(&address.to_string(), &kafka("t", false), None, None),
        new(&address.to_string(), &kafka("t", true), None, None),
    ] {
        let failure = broker.expect("valid").send(&message).await.expect_err("a failure");
        let Failure::Unavailable(reason) = failure else { panic!("it waits") };
        assert!(
            reason.contains("no answer within 10 seconds") || reason.contains("within 3 seconds"),
            "{reason}"
        );
    }
}
