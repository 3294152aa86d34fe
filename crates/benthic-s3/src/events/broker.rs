//! Delivers messages to message brokers.
//!
//! All passes of a gateway share one [`Broker`] per target, with its connections. It connects when
//! the first message is sent, and again after a failure.

use super::amqp::{Amqp, SHORT_BYTES_MAX};
use super::kafka::Kafka;
use super::webhook::Failure;
use crate::identity::{self, EventTarget};
use benthic_core::Random;
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Limit on the time of one delivery, with the time to connect.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);
/// After this time without a message, the gateway closes the connections of a target.
pub(super) const IDLE_MS: u64 = 10 * 60 * 1_000;
/// Limit on the targets whose connections stay open after a pass: clients can create many topics.
pub(super) const KEPT_MAX: usize = 256;
/// Limit of the name of a topic, as Kafka has it.
const TOPIC_BYTES_MAX: usize = 249;

/// A message for a broker.
#[derive(Clone, Debug)]
pub struct Message {
    /// Messages with the same key keep their order.
    pub key: String,
    pub body: Bytes,
    /// The time of the delivery. A topic of Kafka can refuse records with an old time.
    pub time_ms: u64,
}

/// A message broker that takes messages.
pub enum Broker {
    Amqp(Box<Amqp>),
    Kafka(Box<Kafka>),
}

/// A user of a broker, and the password.
pub(super) type User<'a> = Option<(&'a str, &'a str)>;

impl Broker {
    /// A broker. Nothing is sent to it yet. `url` is the address, `ca` a PEM text with the
    /// authorities to trust, instead of those of this machine. `random` is for logins.
    ///
    /// # Errors
    /// A message that names the invalid parameter.
    pub fn new(
        url: &str,
        broker: &identity::Broker,
        password: Option<&str>,
        ca: Option<&str>,
        random: Arc<dyn Random>,
    ) -> Result<Broker, String> {
        match broker {
            identity::Broker::Amqp { exchange, routing_key, user } => {
                check_text("the exchange", exchange, SHORT_BYTES_MAX)?;
                check_text("the routing key", routing_key, SHORT_BYTES_MAX)?;
                let user = with_password(user.as_deref(), password)?;
                let amqp = Amqp::new(url, (exchange, routing_key), user, ca)?;
                Ok(Broker::Amqp(Box::new(amqp)))
            }
            identity::Broker::Kafka { topic, tls, user, sasl } => {
                check_topic(topic)?;
                if ca.is_some() && !tls {
                    return Err("a CA file needs TLS".to_owned());
                }
                let user = with_password(user.as_deref(), password)?;
                let kafka = Kafka::new(url, topic, tls.then_some(ca), (*sasl, user), random)?;
                Ok(Broker::Kafka(Box::new(kafka)))
            }
        }
    }

    /// Sends a message, and waits until the broker has confirmed that it stores it.
    ///
    /// # Errors
    /// See [`Failure`]. The broker may have the message all the same.
    pub async fn send(&self, message: &Message) -> Result<(), Failure> {
        let sent = match self {
            Broker::Amqp(amqp) => tokio::time::timeout(SEND_TIMEOUT, amqp.send(message)).await,
            Broker::Kafka(kafka) => tokio::time::timeout(SEND_TIMEOUT, kafka.send(message)).await,
        };
        if let Ok(result) = sent {
            return result;
        }
        match self {
            Broker::Amqp(amqp) => amqp.disconnect(),
            Broker::Kafka(kafka) => kafka.ask_again(),
        }
        Err(Failure::Unavailable("no answer within 10 seconds".to_owned()))
    }
}

fn with_password<'a>(user: Option<&'a str>, password: Option<&'a str>) -> Result<User<'a>, String> {
    match (user, password) {
        (Some(user), Some(password)) => Ok(Some((user, password))),
        (None, None) => Ok(None),
        _ => Err("a user needs a password, and a password needs a user".to_owned()),
    }
}

fn check_text(what: &str, text: &str, bytes_max: usize) -> Result<(), String> {
    if text.len() > bytes_max {
        return Err(format!("{what} has more than {bytes_max} bytes"));
    }
    if text.chars().any(char::is_control) {
        return Err(format!("{what} has control characters"));
    }
    Ok(())
}

fn check_topic(topic: &str) -> Result<(), String> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if topic.is_empty()
        || topic.len() > TOPIC_BYTES_MAX
        || !topic.bytes().all(is_allowed)
        || [".", ".."].contains(&topic)
    {
        return Err("a topic of Kafka has 1 to 249 letters, digits, dots, underscores and hyphens".to_owned());
    }
    Ok(())
}

/// The brokers of targets, by the name of the target.
#[derive(Default)]
pub(super) struct Brokers(Mutex<HashMap<String, CachedBroker>>);

struct CachedBroker {
    target: EventTarget,
    broker: Arc<Broker>,
    used_ms: u64,
}

impl Brokers {
    /// Forgets the brokers that are idle, also those of targets that were removed.
    pub fn forget_idle(&self, now_ms: u64) {
        self.0.lock().retain(|_, known| now_ms.saturating_sub(known.used_ms) < IDLE_MS);
    }

    /// The broker of a target. Forgets the one of an earlier target with this name. If there are
    /// too many brokers, only the caller has this one.
    ///
    /// # Errors
    /// Those of `create`.
    pub fn get<E>(
        &self,
        (name, target): (&str, &EventTarget),
        now_ms: u64,
        create: impl FnOnce() -> Result<Broker, E>,
    ) -> Result<Arc<Broker>, E> {
        let mut known = self.0.lock();
        if let Some(found) = known.get_mut(name).filter(|found| found.target == *target) {
            found.used_ms = now_ms;
            return Ok(Arc::clone(&found.broker));
        }
        let broker = Arc::new(create()?);
        let new = CachedBroker { target: target.clone(), broker: Arc::clone(&broker), used_ms: now_ms };
        if known.len() < KEPT_MAX || known.contains_key(name) {
            known.insert(name.to_owned(), new);
        }
        Ok(broker)
    }
}

#[cfg(test)]
#[path = "broker_tests.rs"]
mod tests;
