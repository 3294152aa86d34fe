//! Topics of SNS: targets of events that clients create.
//!
//! A client that may choose any address could make the gateway send requests into its own network.
//! So the operator names the endpoints that topics may have, and without them there are no topics.
//! A bucket of another account may use a topic if the policy of the topic allows it. The gateway
//! checks both again before it delivers, because both may have changed.
//!
//! Source of the attributes: "Bucket Notifications" in the documentation of radosgw.

use super::broker;
use super::webhook::Webhook;
use crate::gateway::date;
use crate::identity::{self, Caller, EventTarget, ROOT_USER, Sasl};
use crate::policy::{Decision, Document, Facts, Request, Rights, Rules, decide};
use benthic_core::Random;
use std::collections::BTreeMap;
use std::sync::Arc;
use url::Url;

/// The attribute of a topic with its policy.
pub const POLICY: &str = "Policy";
/// The attribute with the password for a broker. It is not stored among the attributes.
pub const PASSWORD: &str = "password";
const ENDPOINT: &str = "push-endpoint";
const EXCHANGE: &str = "amqp-exchange";
const USER: &str = "user-name";
const MECHANISM: &str = "mechanism";
const TLS: &str = "use-ssl";

/// The schemes of endpoints.
const SCHEMES: [&str; 5] = ["http", "https", "amqp", "amqps", "kafka"];
/// Attributes of radosgw for behaviour that the gateway has anyway, and the values that ask for it.
const FIXED: [(&str, &[&str]); 4] = [
    ("amqp-ack-level", &["broker", "routable"]),
    ("kafka-ack-level", &["broker"]),
    ("persistent", &["true"]),
    ("verify-ssl", &["true"]),
];
/// Maximum size of an attribute other than the policy, in bytes.
const VALUE_BYTES_MAX: usize = 1_024;
const KAFKA_PORT: u16 = 9_092;
/// The service of AWS that sends the events of buckets.
const SERVICE: &str = "s3.amazonaws.com";

/// The endpoints that the operator permits to topics.
#[derive(Clone, Debug, Default)]
pub struct Endpoints(Vec<Url>);

impl Endpoints {
    /// Parses URLs. Each permits the endpoints with its scheme, its host and its port whose path is
    /// its own or below it, with any query.
    ///
    /// # Errors
    /// A message that names the invalid URL.
    pub fn new(texts: &[String]) -> Result<Endpoints, String> {
        let parse = |text: &String| {
            let url = parse_endpoint(text)?;
            if url.query().is_some() {
                return Err(format!(
                    "the URL '{text}' has a query; leave it out, because topics may have any query"
                ));
            }
            Ok(url)
        };
        texts.iter().map(parse).collect::<Result<_, _>>().map(Endpoints)
    }

    /// Whether there are no topics.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The endpoint in the attributes of a topic, if the operator permits it.
    ///
    /// # Errors
    /// A message that says why it is not permitted.
    pub fn endpoint(&self, attributes: &BTreeMap<String, String>) -> Result<Option<Url>, String> {
        let Some(text) = attributes.get(ENDPOINT) else { return Ok(None) };
        let url = parse_endpoint(text)?;
        if self.permit(&url) {
            return Ok(Some(url));
        }
        Err(format!("the operator does not permit the endpoint '{text}' (`--sns-endpoint`)"))
    }

    fn permit(&self, url: &Url) -> bool {
        let server = |url: &Url| {
            let host = url.host_str().map(str::to_ascii_lowercase);
            (url.scheme().to_owned(), host, url.port_or_known_default())
        };
        self.0.iter().any(|permitted| {
            let base = permitted.path().trim_end_matches('/');
            let is_below = |rest: &str| {
                // A server may decode a path, or remove parameters such as `;a` from it, before it
                // looks for `..`.
                base.is_empty() || rest.is_empty() || (rest.starts_with('/') && !rest.contains(['%', ';']))
            };
            server(url) == server(permitted) && url.path().strip_prefix(base).is_some_and(is_below)
        })
    }
}

fn parse_endpoint(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("'{text}' is not a URL: {error}"))?;
    if !SCHEMES.contains(&url.scheme()) || url.host_str().is_none_or(str::is_empty) {
        return Err(format!(
            "the URL '{text}' must name a host and begin with one of {}",
            SCHEMES.map(|scheme| format!("{scheme}://")).join(", ")
        ));
    }
    if !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() {
        return Err(format!(
            "the URL must not contain a user, a password or a fragment; use the attributes {USER} and {PASSWORD}"
        ));
    }
    Ok(url)
}

/// Where the events of a topic go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Destination {
    /// Empty if the events go nowhere.
    pub url: String,
    pub broker: Option<identity::Broker>,
    pub password: Option<String>,
}

impl Destination {
    /// Checks the attributes of the topic with this ARN and name. Its name is the routing key of
    /// AMQP, and the topic of Kafka.
    ///
    /// # Errors
    /// A message that names the invalid attribute.
    pub fn of_topic(
        (arn, name): (&str, &str),
        attributes: &BTreeMap<String, String>,
        endpoints: &Endpoints,
        random: Arc<dyn Random>,
    ) -> Result<Destination, String> {
        for (attribute, value) in attributes {
            check_attribute(arn, attribute, value)?;
        }
        let get = |attribute: &str| attributes.get(attribute).map(String::as_str);
        let url = endpoints.endpoint(attributes)?;
        let fitting: &[&str] = match url.as_ref().map(Url::scheme) {
            Some("amqp" | "amqps") => &[EXCHANGE, USER, PASSWORD],
            Some("kafka") => &[USER, PASSWORD, MECHANISM, TLS],
            _ => &[],
        };
        let is_given = |attribute: &&str| attributes.contains_key(*attribute);
        let of_brokers = [EXCHANGE, USER, PASSWORD, MECHANISM, TLS];
        if let Some(other) = of_brokers.iter().find(|other| is_given(other) && !fitting.contains(other)) {
            return Err(format!("the attribute {other} does not fit the {ENDPOINT}"));
        }
        let Some(url) = url else { return Ok(Destination::default()) };
        let (user, password) = (get(USER).map(str::to_owned), get(PASSWORD));
        let (url, broker) = match url.scheme() {
            "http" | "https" => {
                Webhook::new(url.as_str(), None, None)?;
                return Ok(Destination { url: url.into(), ..Destination::default() });
            }
            "kafka" => {
                if !["", "/"].contains(&url.path()) || url.query().is_some() {
                    return Err("the URL of a Kafka broker has the form kafka://HOST[:PORT]".to_owned());
                }
                let sasl = match get(MECHANISM) {
                    None | Some("SCRAM-SHA-512") => Sasl::ScramSha512,
                    Some("SCRAM-SHA-256") => Sasl::ScramSha256,
                    Some("PLAIN") => Sasl::Plain,
                    Some(_) => {
                        return Err(format!("{MECHANISM} is SCRAM-SHA-512, SCRAM-SHA-256 or PLAIN"));
                    }
                };
                let tls = match get(TLS) {
                    None | Some("false") => false,
                    Some("true") => true,
                    Some(_) => return Err(format!("{TLS} is true or false")),
                };
                let host = url.host_str().unwrap_or_default();
                let address = format!("{host}:{}", url.port().unwrap_or(KAFKA_PORT));
                (address, identity::Broker::Kafka { topic: name.to_owned(), tls, user, sasl })
            }
            _ => {
                // Without a user, the gateway would log in as `guest`, who has all rights.
                if user.is_none() {
                    return Err(format!("a topic for AMQP needs the attributes {USER} and {PASSWORD}"));
                }
                let exchange = get(EXCHANGE).unwrap_or_default().to_owned();
                (url.into(), identity::Broker::Amqp { exchange, routing_key: name.to_owned(), user })
            }
        };
        broker::Broker::new(&url, &broker, password, None, random)?;
        Ok(Destination { url, broker: Some(broker), password: password.map(str::to_owned) })
    }
}

fn check_attribute(arn: &str, attribute: &str, value: &str) -> Result<(), String> {
    if attribute == POLICY {
        return Document::of_topic(value, arn).map(drop);
    }
    if value.len() > VALUE_BYTES_MAX {
        return Err(format!("the attribute {attribute} has more than {VALUE_BYTES_MAX} bytes"));
    }
    if [ENDPOINT, EXCHANGE, USER, PASSWORD, MECHANISM, TLS].contains(&attribute) {
        return Ok(());
    }
    match FIXED.iter().find(|(fixed, _)| *fixed == attribute) {
        Some((_, values)) if values.contains(&value) => Ok(()),
        Some((_, values)) => Err(format!("the gateway supports only {attribute}={}", values.join(" or "))),
        None => Err(format!("the gateway does not support the attribute {attribute}")),
    }
}

/// Whether the policy of a topic lets a bucket of another account, its owner, send events to it:
/// whether it allows `sns:Publish` to that account or to S3.
pub fn permits(
    target: &EventTarget,
    (account, arn): (&str, &str),
    (bucket, owner): (&str, &str),
    now_ms: u64,
) -> bool {
    let text = target.topic.as_ref().and_then(|attributes| attributes.get(POLICY));
    let Some(Ok(policy)) = text.map(|text| Document::of_topic(text, arn)) else { return false };
    let caller = Caller::User { account: owner.to_owned(), user: ROOT_USER.to_owned() };
    let rights = Rights::default();
    let rules = Rules {
        owner: account,
        bucket_policy: Some(&policy),
        restricts_public_policy: false,
        acl_allows: false,
        rights: &rights,
    };
    let decisions = [caller, Caller::Service(SERVICE)].map(|caller| {
        let is_service = matches!(caller, Caller::Service(_));
        let facts = PublishFacts { bucket, owner, account, is_service, now_ms };
        decide(&Request { caller: &caller, action: "sns:Publish", resource: arn, facts: &facts }, &rules)
    });
    decisions.contains(&Decision::Allowed) && !decisions.contains(&Decision::Denied)
}

/// The facts about an event of a bucket, for the policy of the topic.
struct PublishFacts<'a> {
    bucket: &'a str,
    owner: &'a str,
    /// The account of the topic.
    account: &'a str,
    is_service: bool,
    now_ms: u64,
}

impl Facts for PublishFacts<'_> {
    fn values(&self, key: &str) -> Option<Vec<String>> {
        let value = match key {
            "aws:sourcearn" => format!("arn:aws:s3:::{}", self.bucket),
            "aws:sourceaccount" => self.owner.to_owned(),
            "aws:principalaccount" if !self.is_service => self.owner.to_owned(),
            "aws:principalisawsservice" => self.is_service.to_string(),
            "aws:resourceaccount" => self.account.to_owned(),
            "aws:securetransport" => "true".to_owned(),
            "aws:currenttime" => date(self.now_ms)?,
            "aws:epochtime" => (self.now_ms / 1_000).to_string(),
            _ => return None,
        };
        Some(vec![value])
    }
}

#[cfg(test)]
#[path = "topic_tests.rs"]
mod tests;
