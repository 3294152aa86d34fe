//! Targets of events: web servers and message brokers that the gateway tells of changes. Operators
//! create them, so clients cannot make the gateway send requests to any address. Clients create
//! topics, whose addresses the operator permits.

use super::{FORM, Identities, busy, change, check_name, exists, full_name, retry_busy};
use crate::sal::RecordKind;
use benthic_core::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The form of records with a broker. Gateways that know only web servers refuse it.
const BROKER_FORM: u32 = 2;
/// The form of topics. Gateways that do not know them refuse it.
const TOPIC_FORM: u32 = 3;
/// Maximum number of targets in an account in which a topic is created.
const TOPICS_MAX: usize = 100;

/// A target of an account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventTarget {
    form: u32,
    pub created_ms: u64,
    /// The address of the web server, or of the broker.
    pub url: String,
    /// The bearer token, or the password, sealed.
    #[serde(rename = "token")]
    secret: Option<String>,
    /// The certificates of the authorities to trust, in PEM.
    pub ca: Option<String>,
    /// The message broker; a web server without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broker: Option<Broker>,
    /// The attributes that a client has given to a topic of SNS, without the password. A target of
    /// the operator has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<BTreeMap<String, String>>,
}

/// A message broker, and where it puts the events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Broker {
    /// AMQP 0-9-1, for example RabbitMQ.
    Amqp {
        /// The name of the exchange; empty for the default one.
        exchange: String,
        routing_key: String,
        user: Option<String>,
    },
    Kafka {
        topic: String,
        tls: bool,
        user: Option<String>,
        sasl: Sasl,
    },
}

/// How a user logs in to Kafka.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sasl {
    Plain,
    ScramSha256,
    ScramSha512,
}

impl Sasl {
    /// The name of the mechanism in SASL.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Sasl::Plain => "PLAIN",
            Sasl::ScramSha256 => "SCRAM-SHA-256",
            Sasl::ScramSha512 => "SCRAM-SHA-512",
        }
    }
}

/// A target to create.
#[derive(Clone, Copy)]
pub struct NewEventTarget<'a> {
    pub url: &'a str,
    /// The bearer token, or the password.
    pub secret: Option<&'a str>,
    pub ca: Option<&'a str>,
    pub broker: Option<&'a Broker>,
    /// The attributes of a topic.
    pub topic: Option<&'a BTreeMap<String, String>>,
}

impl EventTarget {
    /// The form of a record with this content.
    fn expected_form(&self) -> u32 {
        match (&self.topic, &self.broker) {
            (Some(_), _) => TOPIC_FORM,
            (None, Some(_)) => BROKER_FORM,
            (None, None) => FORM,
        }
    }

    pub fn has_secret(&self) -> bool {
        self.secret.is_some()
    }
}

impl Identities {
    /// Creates a target. The caller has checked the address and the certificates.
    ///
    /// # Errors
    /// `NotFound` without the account, `AlreadyExists`, `InvalidArgument`.
    pub async fn create_event_target(
        &self,
        account: &str,
        name: &str,
        new: NewEventTarget<'_>,
    ) -> Result<EventTarget> {
        check_name(name)?;
        let owner = self.in_account(account).await?;
        let full = full_name(account, name);
        let target = self.new_target(&full, new, self.environment.unix_ms())?;
        let changes = [owner, change(RecordKind::EventTarget, &full, None, Some(&target))?];
        self.swap(&changes, |error| exists(error, "target", &full)).await?;
        Ok(target)
    }

    fn new_target(&self, full: &str, new: NewEventTarget<'_>, created_ms: u64) -> Result<EventTarget> {
        let secret = new.secret.map(|secret| self.sealer()?.seal(&seal_name(full), secret)).transpose()?;
        let target = EventTarget {
            form: FORM,
            created_ms,
            url: new.url.to_owned(),
            secret,
            ca: new.ca.map(str::to_owned),
            broker: new.broker.cloned(),
            topic: new.topic.cloned(),
        };
        Ok(EventTarget { form: target.expected_form(), ..target })
    }

    /// Creates a topic, or replaces the topic that was found. The caller has checked the address.
    ///
    /// # Errors
    /// `NotFound` without the account; `InvalidArgument`; `LimitExceeded`; `Busy` if it changes at
    /// the same time.
    pub async fn put_topic(
        &self,
        account: &str,
        name: &str,
        found: Option<&EventTarget>,
        new: NewEventTarget<'_>,
    ) -> Result<()> {
        check_name(name)?;
        let owner = self.in_account(account).await?;
        if found.is_none() && self.event_targets_of(account).await?.len() >= TOPICS_MAX {
            let message = format!("an account has at most {TOPICS_MAX} topics; remove one first");
            return Err(Error::limit_exceeded(message).with("account", account));
        }
        let created_ms = found.map_or_else(|| self.environment.unix_ms(), |found| found.created_ms);
        let full = full_name(account, name);
        let target = self.new_target(&full, new, created_ms)?;
        let changes = [owner, change(RecordKind::EventTarget, &full, found, Some(&target))?];
        self.swap(&changes, |error| busy(error).with("name", name)).await
    }

    /// Changes the attributes of a topic that do not concern its address.
    ///
    /// # Errors
    /// `NotFound`; `PermissionDenied` for a target of the operator; `Busy` if others change it all
    /// the time.
    pub async fn change_topic(
        &self,
        account: &str,
        name: &str,
        edit: impl Fn(&mut BTreeMap<String, String>),
    ) -> Result<()> {
        let full = full_name(account, name);
        retry_busy(|| async {
            let found = self.event_target(account, name).await?;
            let mut new = found.clone();
            edit(new.topic.as_mut().ok_or_else(|| of_operator(&full))?);
            self.replace(RecordKind::EventTarget, &full, &found, Some(&new)).await.map_err(busy)
        })
        .await
    }

    /// Removes a topic.
    ///
    /// # Errors
    /// As [`change_topic`](Identities::change_topic).
    pub async fn remove_topic(&self, account: &str, name: &str) -> Result<()> {
        let full = full_name(account, name);
        let found = self.event_target(account, name).await?;
        if found.topic.is_none() {
            return Err(of_operator(&full));
        }
        self.replace(RecordKind::EventTarget, &full, &found, None).await.map_err(busy)
    }

    /// Looks up a target.
    ///
    /// # Errors
    /// `NotFound`; `Unsupported` if a newer version has written it.
    pub async fn event_target(&self, account: &str, name: &str) -> Result<EventTarget> {
        let missing = "there is no such target; `benthic s3 events target ls` lists the targets";
        let full = full_name(account, name);
        let found: EventTarget = self.get(RecordKind::EventTarget, &full, missing).await?;
        if found.form == found.expected_form() {
            return Ok(found);
        }
        Err(Error::unsupported("a newer version of Benthic has written the target").with("name", full))
    }

    /// All targets: the account and the name, and the target.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn event_targets(&self) -> Result<Vec<(String, EventTarget)>> {
        self.all(RecordKind::EventTarget, "").await
    }

    /// The targets of an account, by name.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn event_targets_of(&self, account: &str) -> Result<Vec<(String, EventTarget)>> {
        self.of_account(RecordKind::EventTarget, account).await
    }

    /// Removes a target. Events for it wait until there is a target with its name, or until they
    /// are too old.
    ///
    /// # Errors
    /// `NotFound`, `Conflict` if it changes at the same time.
    pub async fn remove_event_target(&self, account: &str, name: &str) -> Result<()> {
        let found = self.event_target(account, name).await?;
        self.replace(RecordKind::EventTarget, &full_name(account, name), &found, None).await
    }

    /// The bearer token or the password of a target.
    ///
    /// # Errors
    /// `PermissionDenied` if it was sealed with another key.
    pub fn secret_of_target(
        &self,
        account: &str,
        name: &str,
        target: &EventTarget,
    ) -> Result<Option<String>> {
        let Some(sealed) = &target.secret else { return Ok(None) };
        self.sealer()?.open_secret(&seal_name(&full_name(account, name)), sealed).map(Some)
    }
}

fn of_operator(full_name: &str) -> Error {
    let message = "the operator has created the target, so only the operator can change it";
    Error::permission_denied(message).with("target", full_name)
}

/// The name under which a secret is sealed.
fn seal_name(full_name: &str) -> String {
    format!("event-target/{full_name}")
}
