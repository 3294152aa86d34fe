//! Publishes messages with AMQP 0-9-1, for example to RabbitMQ.
//!
//! A message counts as delivered when the broker confirms it (publisher confirms). It is
//! *mandatory*, so the broker returns a message that no queue gets, and it is persistent. All
//! messages of a target go through one connection, in which a task publishes them and reads the
//! confirmations ([`link`]).
//!
//! A publisher needs a dozen of AMQP's messages, so this module has them itself. Rejected: `lapin`,
//! which adds 47 crates to the build and changes the features of crates that the whole workspace
//! shares; and `amqprs`, which cannot report a wrong password, because it does not announce the
//! capability `authentication_failure_close`, and which takes frames of any size from the broker.
//!
//! Source: the specification of AMQP 0-9-1, and <https://www.rabbitmq.com/docs/confirms>.

mod link;
mod wire;

use super::broker::{Message, User};
use super::connection;
use super::webhook::{Failure, client_config};
use link::{Job, Link};
use s3s::dto::CopySource;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio_rustls::TlsConnector;
use url::Url;

/// Messages that wait for the task of the connection.
const JOBS_MAX: usize = 64;
/// Limit of a text that AMQP sends as a short string.
pub(super) const SHORT_BYTES_MAX: usize = 255;
const FORM: &str = "the URL must have the form amqp://HOST[:PORT][/VHOST], or begin with amqps:// for TLS";

/// An exchange of a broker.
pub struct Amqp {
    host: String,
    port: u16,
    tls: Option<TlsConnector>,
    publisher: Publisher,
    jobs: Mutex<Option<mpsc::Sender<Job>>>,
}

/// The user, and where the messages go.
#[derive(Clone)]
pub(super) struct Publisher {
    vhost: String,
    user: String,
    password: String,
    exchange: String,
    routing_key: String,
}

impl Amqp {
    /// An exchange and the routing key of messages. `url` has the form
    /// `amqp://HOST[:PORT][/VHOST]`, or `amqps` for TLS. The exchange and the key have at most
    /// [`SHORT_BYTES_MAX`] bytes.
    ///
    /// # Errors
    /// A message that names the invalid parameter.
    pub(super) fn new(
        url: &str,
        (exchange, routing_key): (&str, &str),
        user: User<'_>,
        ca: Option<&str>,
    ) -> Result<Amqp, String> {
        let url = Url::parse(url).map_err(|error| format!("this is not a URL: {error}"))?;
        let default_port = match url.scheme() {
            "amqp" => 5672,
            "amqps" => 5671,
            _ => return Err(FORM.to_owned()),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err("the URL must not contain a user or a password; use --user".to_owned());
        }
        let host = url.host_str().filter(|host| !host.is_empty() && !host.contains('%')).ok_or(FORM)?;
        if url.query().is_some() || url.fragment().is_some() {
            return Err(FORM.to_owned());
        }
        let tls = (url.scheme() == "amqps").then(|| client_config(ca)).transpose()?;
        if ca.is_some() && tls.is_none() {
            return Err("a CA file needs TLS, so a URL that begins with amqps://".to_owned());
        }
        let (user, password) = user.unwrap_or(("guest", "guest"));
        if user.contains('\0') || password.contains('\0') {
            return Err("a user and a password must not have the character NUL".to_owned());
        }
        Ok(Amqp {
            host: host.to_owned(),
            port: url.port().unwrap_or(default_port),
            tls: tls.map(TlsConnector::from),
            publisher: Publisher {
                vhost: vhost(url.path())?,
                user: user.to_owned(),
                password: password.to_owned(),
                exchange: exchange.to_owned(),
                routing_key: routing_key.to_owned(),
            },
            jobs: Mutex::new(None),
        })
    }

    /// Publishes a message, and waits for the confirmation.
    pub(super) async fn send(&self, message: &Message) -> Result<(), Failure> {
        let published = self.publish(message).await;
        published.map_err(Failure::Unavailable)
    }

    /// Closes the connection, because a message had no confirmation in time.
    pub(super) fn disconnect(&self) {
        // Otherwise somebody connects at this moment.
        if let Ok(mut jobs) = self.jobs.try_lock() {
            *jobs = None;
        }
    }

    async fn publish(&self, message: &Message) -> Result<(), String> {
        let (done, answer) = oneshot::channel();
        let lost = |_| "lost the connection".to_owned();
        let job = Job { message: message.clone(), done };
        self.jobs().await?.send(job).await.map_err(|_| lost(()))?;
        answer.await.map_err(|_| lost(()))?
    }

    async fn jobs(&self) -> Result<mpsc::Sender<Job>, String> {
        let mut slot = self.jobs.lock().await;
        if let Some(jobs) = slot.as_ref().filter(|jobs| !jobs.is_closed()) {
            return Ok(jobs.clone());
        }
        let stream = connection::connect(&self.host, self.port, self.tls.as_ref()).await?;
        let link = Link::open(stream, &self.publisher).await?;
        let (jobs, waiting) = mpsc::channel(JOBS_MAX);
        // Ends when the sender is dropped.
        tokio::spawn(link.run(waiting));
        Ok(slot.insert(jobs).clone())
    }
}

/// The virtual host that the path of a URL names.
fn vhost(path: &str) -> Result<String, String> {
    let path = path.strip_prefix('/').unwrap_or(path);
    if path.is_empty() {
        return Ok("/".to_owned());
    }
    // `CopySource` decodes a key.
    let decoded = match CopySource::parse(&format!("bucket/{path}")) {
        Ok(CopySource::Bucket { key, version_id: None, .. }) if !path.contains('/') => key.to_string(),
        _ => return Err(FORM.to_owned()),
    };
    if decoded.len() > SHORT_BYTES_MAX || decoded.contains(char::is_control) {
        return Err(format!(
            "the virtual host has more than {SHORT_BYTES_MAX} bytes or has control characters"
        ));
    }
    Ok(decoded)
}

#[cfg(test)]
#[path = "mod_tests.rs"]
mod tests;
