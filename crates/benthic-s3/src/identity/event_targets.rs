//! Targets of events: web servers and message brokers that the gateway tells of changes. Operators
//! create them, so clients cannot make the gateway send requests to any address.

use super::{FORM, Identities, change, check_name, exists, full_name};
use crate::sal::RecordKind;
use benthic_core::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

/// The form of records with a broker. Gateways that know only web servers refuse it.
const BROKER_FORM: u32 = 2;

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
}

impl EventTarget {
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
        let secret = new.secret.map(|secret| self.sealer()?.seal(&seal_name(&full), secret)).transpose()?;
        let target = EventTarget {
            form: if new.broker.is_some() { BROKER_FORM } else { FORM },
            created_ms: self.environment.unix_ms(),
            url: new.url.to_owned(),
            secret,
            ca: new.ca.map(str::to_owned),
            broker: new.broker.cloned(),
        };
        let changes = [owner, change(RecordKind::EventTarget, &full, None, Some(&target))?];
        self.swap(&changes, |error| exists(error, "target", &full)).await?;
        Ok(target)
    }

    /// Looks up a target.
    ///
    /// # Errors
    /// `NotFound`; `Unsupported` if a newer version has written it.
    pub async fn event_target(&self, account: &str, name: &str) -> Result<EventTarget> {
        let missing = "there is no such target; `benthic s3 events target ls` lists the targets";
        let full = full_name(account, name);
        let found: EventTarget = self.get(RecordKind::EventTarget, &full, missing).await?;
        if found.form == if found.broker.is_some() { BROKER_FORM } else { FORM } {
            return Ok(found);
        }
        let message = "a newer version of Benthic has written the target";
        Err(Error::new(ErrorKind::Unsupported, message).with("name", full))
    }

    /// All targets: the account and the name, and the target.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn event_targets(&self) -> Result<Vec<(String, EventTarget)>> {
        self.all(RecordKind::EventTarget, "").await
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

/// The name under which a secret is sealed.
fn seal_name(full_name: &str) -> String {
    format!("event-target/{full_name}")
}
