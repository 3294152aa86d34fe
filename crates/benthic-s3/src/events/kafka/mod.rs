//! Produces messages to Kafka.
//!
//! A message counts as delivered when all replicas in sync have it (`acks=all`). Its key selects
//! the partition as Kafka's own clients do it, so that the messages of a key keep their order and
//! come to the partition in which other programs look for the key. Each partition has a connection
//! of its own, because a broker answers the requests of a connection one after the other.
//!
//! A producer without transactions needs five of Kafka's requests, so this module has them itself.
//! Rejected: `rskafka`, which adds 12 crates to the build and changes features of those that all
//! others share; and `kafka-protocol`, which has the bytes of all requests, but neither logins nor
//! connections. There is no idempotent producer: a retry can write a record twice, which delivery
//! at least once permits.
//!
//! Source: <https://kafka.apache.org/protocol>.

mod link;
mod scram;
mod wire;

use super::broker::{Message, User};
use super::webhook::{Failure, client_config};
use crate::identity::Sasl;
use benthic_core::Random;
use link::{Link, Login};
use parking_lot::Mutex as SyncMutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use tokio::sync::Mutex;
use tokio_rustls::TlsConnector;
use wire::Refusal;

/// Limit on the connections to partitions.
const WRITERS_MAX: usize = 256;
/// Limit on the brokers that an address names.
const BROKERS_MAX: usize = 32;

/// A topic of a cluster.
pub struct Kafka {
    /// Some brokers of the cluster.
    brokers: Vec<Address>,
    /// The broker that is asked first. It moves on when one does not answer.
    first: AtomicUsize,
    topic: String,
    access: Access,
    open: Mutex<Option<Arc<Open>>>,
}

/// A host and a port.
type Address = (String, u16);

/// How to connect to a broker.
struct Access {
    tls: Option<TlsConnector>,
    login: Option<Login>,
    random: Arc<dyn Random>,
}

/// What is known of the topic, and the connections to its partitions.
struct Open {
    /// The broker of each partition.
    leaders: Vec<Option<Address>>,
    writers: SyncMutex<HashMap<usize, Arc<Mutex<Option<Link>>>>>,
}

impl Kafka {
    /// A topic. `brokers` has the form `HOST:PORT[,HOST:PORT...]`. Without `tls`, the connections
    /// have none; `ca` is a PEM text with the authorities to trust.
    ///
    /// # Errors
    /// A message that names the invalid parameter.
    pub(super) fn new(
        brokers: &str,
        topic: &str,
        tls: Option<Option<&str>>,
        (sasl, user): (Sasl, User<'_>),
        random: Arc<dyn Random>,
    ) -> Result<Kafka, String> {
        let brokers: Option<Vec<Address>> = brokers.split(',').map(parse_address).collect();
        let brokers = brokers.filter(|brokers| brokers.len() <= BROKERS_MAX).ok_or_else(|| {
            format!("the brokers must have the form HOST:PORT[,HOST:PORT...], at most {BROKERS_MAX}")
        })?;
        let tls = tls.map(client_config).transpose()?.map(TlsConnector::from);
        if user.is_some_and(|(user, password)| user.contains('\0') || password.contains('\0')) {
            return Err("a user and a password must not have the character NUL".to_owned());
        }
        let login =
            user.map(|(user, password)| Login { sasl, user: user.to_owned(), password: password.to_owned() });
        Ok(Kafka {
            brokers,
            first: AtomicUsize::new(0),
            topic: topic.to_owned(),
            access: Access { tls, login, random },
            open: Mutex::new(None),
        })
    }

    /// Produces a message, and waits until all replicas in sync have it.
    pub(super) async fn send(&self, message: &Message) -> Result<(), Failure> {
        let open = self.open().await.map_err(Failure::Unavailable)?;
        let produced = open.produce(&self.access, &self.topic, message).await;
        let Err(failure) = produced else { return Ok(()) };
        if matches!(failure, Failure::Unavailable(_)) {
            // The cause may be what the gateway knows of the cluster. So it asks again.
            let mut slot = self.open.lock().await;
            if slot.as_ref().is_some_and(|now| Arc::ptr_eq(now, &open)) {
                *slot = None;
            }
        }
        Err(failure)
    }

    /// Closes the connections when the last message on them has ended.
    pub(super) fn disconnect(&self) {
        // The broker that does not answer may be the first one.
        self.first.fetch_add(1, Relaxed);
        // Otherwise somebody connects at this moment.
        if let Ok(mut open) = self.open.try_lock() {
            *open = None;
        }
    }

    async fn open(&self) -> Result<Arc<Open>, String> {
        let mut slot = self.open.lock().await;
        if let Some(open) = &*slot {
            return Ok(Arc::clone(open));
        }
        let leaders = self.leaders().await?;
        let open = Open { leaders, writers: SyncMutex::default() };
        Ok(Arc::clone(slot.insert(Arc::new(open))))
    }

    /// Asks a broker for the brokers of the partitions.
    async fn leaders(&self) -> Result<Vec<Option<Address>>, String> {
        let mut failure = String::new();
        for _ in &self.brokers {
            let number = self.first.load(Relaxed) % self.brokers.len();
            match link::connect(&self.brokers[number], &self.access).await {
                Ok(stream) => {
                    let mut link = Link::open(stream, &self.access).await?;
                    let answer = link.ask(wire::METADATA, &wire::metadata(&self.topic)).await?;
                    return wire::parse_metadata(answer, &self.topic);
                }
                Err(error) => {
                    self.first.fetch_add(1, Relaxed);
                    failure = error;
                }
            }
        }
        Err(failure)
    }
}

impl Open {
    async fn produce(&self, access: &Access, topic: &str, message: &Message) -> Result<(), Failure> {
        let partition = partition_of(message.key.as_bytes(), self.leaders.len());
        let Some(leader) = &self.leaders[partition] else {
            return Err(Failure::Unavailable(format!("partition {partition} of the topic has no leader")));
        };
        let number = partition as i32;
        let request = wire::produce(topic, number, message.key.as_bytes(), &message.body, message.time_ms);
        let writer = self.writer(partition);
        let mut slot = writer.lock().await;
        // Taken out of the slot: if the caller gives up, nobody reads an answer to another request.
        let earlier = match slot.take() {
            // A broker closes connections that are idle.
            Some(mut link) => link.ask(wire::PRODUCE, &request).await.ok().map(|answer| (link, answer)),
            None => None,
        };
        let (link, answer) = match earlier {
            Some(earlier) => earlier,
            None => {
                let unavailable = Failure::Unavailable;
                let stream = link::connect(leader, access).await.map_err(unavailable)?;
                let mut link = Link::open(stream, access).await.map_err(unavailable)?;
                let answer = link.ask(wire::PRODUCE, &request).await.map_err(unavailable)?;
                (link, answer)
            }
        };
        match wire::parse_produce(answer, topic, number).map_err(Failure::Unavailable)? {
            None => {
                *slot = Some(link);
                Ok(())
            }
            Some(Refusal { is_of_message: true, reason }) => {
                *slot = Some(link);
                Err(Failure::Refused(reason))
            }
            Some(Refusal { reason, .. }) => Err(Failure::Unavailable(reason)),
        }
    }

    fn writer(&self, partition: usize) -> Arc<Mutex<Option<Link>>> {
        let mut writers = self.writers.lock();
        if writers.len() >= WRITERS_MAX && !writers.contains_key(&partition) {
            writers.clear();
        }
        Arc::clone(writers.entry(partition).or_default())
    }
}

fn parse_address(text: &str) -> Option<Address> {
    // An IPv6 address has more colons.
    let (host, port) = text.trim().split_once(':')?;
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let port = port.parse().ok().filter(|port| *port > 0)?;
    (!host.is_empty() && host.bytes().all(is_allowed)).then(|| (host.to_owned(), port))
}

/// The partition of a key, as Kafka's Java client chooses it. There is at least one.
fn partition_of(key: &[u8], partitions: usize) -> usize {
    (murmur2(key) & 0x7fff_ffff) as usize % partitions
}

/// The 32-bit hash MurmurHash2 with Kafka's seed.
///
/// Source: `org.apache.kafka.common.utils.Utils.murmur2`.
fn murmur2(data: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let (words, rest) = data.as_chunks::<4>();
    // Kafka limits a key to less than 4 GiB.
    let mut hash = 0x9747_b28c ^ u32::try_from(data.len()).unwrap_or(u32::MAX);
    for word in words {
        let mixed = u32::from_le_bytes(*word).wrapping_mul(M);
        hash = hash.wrapping_mul(M) ^ (mixed ^ (mixed >> 24)).wrapping_mul(M);
    }
    if !rest.is_empty() {
        for (place, byte) in rest.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * place);
        }
        hash = hash.wrapping_mul(M);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(M);
    hash ^ (hash >> 15)
}

#[cfg(test)]
#[path = "mod_tests.rs"]
mod tests;
