//! Events: deliveries and methods after an object was written or removed.
//!
//! Two kinds of rules ask for events. *Notifications*, which clients set with
//! PutBucketNotificationConfiguration, tell a target: a web server or a message broker. *On-put
//! rules*, which operators set with `benthic s3 on-put`, run a method of a class on a new object.
//!
//! The gateway knows the rules of the bucket when a request arrives, so the call that makes the
//! change also stores an event for each rule that matches ([`EventRules::of_change`]). [`deliver`]
//! takes the events from there. Each target and each asynchronous on-put rule has its own queue, so
//! a target that is down delays no other. Rejected: one event for all rules, with the state of each
//! delivery, because a slow target would keep the events of all others.

mod amqp;
pub mod broker;
mod connection;
pub mod deliver;
mod kafka;
pub mod on_put;
mod record;
pub mod schedule;
pub mod topic;
pub mod webhook;

pub use on_put::{OnPutRule, OnPutRules};

use crate::sal::{Attributes, Change, NewEvent};
use benthic_core::{Error, Result};
use bytes::Bytes;
use s3s::dto::NotificationConfiguration;
use serde::{Deserialize, Serialize};

/// The attribute of a bucket with its notifications, as JSON.
pub const ATTRIBUTE: &str = "notifications";
/// Queues of targets begin with this text; the account and the name follow.
const TARGET_QUEUE: &str = "target/";

/// The supported events, without `s3:`.
const EVENTS: [&str; 9] = [
    "ObjectCreated:Put",
    "ObjectCreated:Post",
    "ObjectCreated:Copy",
    "ObjectCreated:CompleteMultipartUpload",
    "ObjectRemoved:Delete",
    "ObjectRemoved:DeleteMarkerCreated",
    "LifecycleExpiration:Delete",
    "LifecycleExpiration:DeleteMarkerCreated",
    "LifecycleTransition",
];
/// Events of AWS that the gateway does not have.
const UNSUPPORTED_EVENTS: [&str; 6] = [
    "ReducedRedundancyLostObject",
    "Replication:",
    "ObjectRestore:",
    "IntelligentTiering",
    "ObjectTagging:",
    "ObjectAcl:",
];

/// The rules of a bucket that ask for events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventRules {
    notifications: Vec<Notification>,
    on_put: OnPutRules,
}

/// A rule that tells a target of events.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Notification {
    id: String,
    queue: String,
    /// Names, or beginnings of names.
    events: Vec<String>,
    filter: KeyFilter,
}

/// Selects objects by their keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyFilter {
    pub prefix: String,
    pub suffix: String,
}

impl KeyFilter {
    pub fn fits(&self, key: &str) -> bool {
        key.starts_with(&self.prefix) && key.ends_with(&self.suffix)
    }
}

/// The origin of a change, as the gateway stores it with an event.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The account and the user, or the service that made the change.
    pub principal: String,
    /// The address of the client.
    pub address: Option<String>,
}

/// Why notifications are refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvalidRule {
    Invalid(String),
    /// AWS has it, the gateway does not.
    Unsupported(String),
}

impl EventRules {
    /// The rules of a bucket.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn of_bucket(attributes: &Attributes) -> Result<EventRules> {
        let notifications = match attributes.get(ATTRIBUTE) {
            None => Vec::new(),
            Some(text) => {
                let configuration: NotificationConfiguration =
                    serde_json::from_slice(text).map_err(|error| corrupt(&error.to_string()))?;
                parse(&configuration).map_err(|invalid| corrupt(&format!("{invalid:?}")))?
            }
        };
        Ok(EventRules { notifications, on_put: OnPutRules::of_bucket(attributes)? })
    }

    /// Whether the bucket has rules.
    pub fn exist(attributes: &Attributes) -> bool {
        attributes.contains_key(ATTRIBUTE) || attributes.contains_key(on_put::ATTRIBUTE)
    }

    pub fn on_put(&self) -> &OnPutRules {
        &self.on_put
    }

    /// Whether a rule still asks for the events of a queue.
    pub fn has_queue(&self, queue: &str) -> bool {
        self.notifications.iter().any(|rule| rule.queue == queue)
            || self.on_put.rule_of_queue(queue).is_some()
    }

    /// The events to store with a change of a key, if it has the given names. Only a change that a
    /// client makes runs methods, so that the result of a method does not run it again.
    pub fn of_change(
        &self,
        key: &str,
        names: &[(Change, &str)],
        origin: &Origin,
        by_client: bool,
    ) -> Vec<NewEvent> {
        let detail = Bytes::from(serde_json::to_vec(origin).unwrap_or_default());
        let mut events = Vec::new();
        for (change, name) in names {
            let mut add = |queue: String, rule: &str| {
                let (name, rule, detail) = ((*name).to_owned(), rule.to_owned(), detail.clone());
                events.push(NewEvent { change: *change, queue, name, rule, detail });
            };
            for rule in self.notifications.iter().filter(|rule| rule.filter.fits(key)) {
                if rule.events.iter().any(|wanted| covers(wanted, name)) {
                    add(rule.queue.clone(), &rule.id);
                }
            }
            if *change == Change::Created && by_client {
                for rule in self.on_put.asynchronous(key) {
                    add(rule.queue(), &rule.id);
                }
            }
        }
        events
    }
}

/// Whether the name of an event, or a beginning that ends in `*`, covers an event.
fn covers(wanted: &str, name: &str) -> bool {
    if let Some(start) = wanted.strip_suffix('*') { name.starts_with(start) } else { wanted == name }
}

fn corrupt(message: &str) -> Error {
    Error::corrupt(format!("the rules for events are damaged: {message}"))
}

/// The service of AWS in the ARN of a target, in a TopicConfiguration.
pub const TOPIC: &str = "sns";
/// The same in a QueueConfiguration.
pub const QUEUE: &str = "sqs";

/// The ARN of a target, for a TopicConfiguration or a QueueConfiguration.
pub fn target_arn(service: &str, region: &str, account: &str, name: &str) -> String {
    format!("arn:aws:{service}:{region}:{account}:{name}")
}

/// The queue of a target.
fn target_queue(account: &str, name: &str) -> String {
    format!("{TARGET_QUEUE}{account}/{name}")
}

/// The account and the name of the target of an ARN of a service, in any region.
pub fn target_of_arn<'a>(service: &str, arn: &'a str) -> Option<(&'a str, &'a str)> {
    let rest = arn.strip_prefix("arn:aws:")?.strip_prefix(service)?.strip_prefix(':')?;
    let (_region, rest) = rest.split_once(':')?;
    rest.split_once(':').filter(|(account, name)| !account.is_empty() && !name.is_empty())
}

/// Checks notifications, which name each rule.
///
/// # Errors
/// The first invalid rule.
pub fn check(configuration: &NotificationConfiguration) -> std::result::Result<(), InvalidRule> {
    parse(configuration).map(drop)
}

fn parse(configuration: &NotificationConfiguration) -> std::result::Result<Vec<Notification>, InvalidRule> {
    let invalid = |message: String| Err(InvalidRule::Invalid(message));
    for (what, is_given) in [
        ("EventBridge", configuration.event_bridge_configuration.is_some()),
        ("LambdaFunctionConfiguration", is_some(&configuration.lambda_function_configurations)),
    ] {
        if is_given {
            let message = format!("{what} is not implemented; use TopicConfiguration or QueueConfiguration");
            return Err(InvalidRule::Unsupported(message));
        }
    }
    let topics = configuration.topic_configurations.as_deref().unwrap_or_default();
    let queues = configuration.queue_configurations.as_deref().unwrap_or_default();
    if topics.len() + queues.len() > RULES_MAX {
        return invalid(format!("there are more than {RULES_MAX} notifications"));
    }
    let topics = topics.iter().map(|rule| (&rule.id, (TOPIC, &rule.topic_arn), &rule.events, &rule.filter));
    let queues = queues.iter().map(|rule| (&rule.id, (QUEUE, &rule.queue_arn), &rule.events, &rule.filter));
    let mut parsed: Vec<Notification> = Vec::new();
    for (id, (service, arn), events, filter) in topics.chain(queues) {
        let id = id.clone().unwrap_or_default();
        if id.is_empty() || id.len() > ID_BYTES_MAX {
            return invalid("an Id must have 1 to 255 bytes".to_owned());
        }
        if parsed.iter().any(|other| other.id == id) {
            return invalid(format!("two notifications have the Id '{id}'"));
        }
        let Some((account, name)) = target_of_arn(service, arn) else {
            return invalid(format!(
                "the ARN '{arn}' must have the form arn:aws:{service}:REGION:ACCOUNT:NAME"
            ));
        };
        if events.is_empty() {
            return invalid("a notification needs an event".to_owned());
        }
        let names = events;
        let mut events = Vec::new();
        for event in names {
            events.push(parse_event(event.as_ref())?);
        }
        let rules = filter.as_ref().and_then(|filter| filter.key.as_ref());
        let rules = rules.and_then(|key| key.filter_rules.as_deref()).unwrap_or_default();
        let (mut prefix, mut suffix) = (None, None);
        for rule in rules {
            let name = rule.name.as_ref().map(|name| name.as_str().to_ascii_lowercase());
            let part = match name.as_deref() {
                Some("prefix") => &mut prefix,
                Some("suffix") => &mut suffix,
                _ => return invalid("the name of a filter rule must be prefix or suffix".to_owned()),
            };
            let value = rule.value.clone().unwrap_or_default();
            if value.len() > crate::sal::limits::KEY_BYTES_MAX {
                return invalid("the value of a filter rule has more than 1,024 bytes".to_owned());
            }
            if part.replace(value).is_some() {
                return invalid("a filter has at most one prefix and one suffix".to_owned());
            }
        }
        let filter = KeyFilter { prefix: prefix.unwrap_or_default(), suffix: suffix.unwrap_or_default() };
        parsed.push(Notification { id, queue: target_queue(account, name), events, filter });
    }
    Ok(parsed)
}

/// Limit of the notifications of a bucket.
const RULES_MAX: usize = 50;
/// Limit of the id of a rule, as on AWS.
const ID_BYTES_MAX: usize = 255;

fn is_some<T>(list: &Option<Vec<T>>) -> bool {
    list.as_ref().is_some_and(|list| !list.is_empty())
}

fn parse_event(name: &str) -> std::result::Result<String, InvalidRule> {
    let unknown = || InvalidRule::Invalid(format!("there is no event '{name}'"));
    let wanted = name.strip_prefix("s3:").ok_or_else(unknown)?;
    let is_group = wanted.ends_with(":*");
    if EVENTS.iter().any(|event| *event == wanted || (is_group && covers(wanted, event))) {
        return Ok(wanted.to_owned());
    }
    if UNSUPPORTED_EVENTS.iter().any(|other| wanted.starts_with(other)) {
        return Err(InvalidRule::Unsupported(format!("the event '{name}' is not implemented")));
    }
    Err(unknown())
}
