//! Produces messages to Kafka.
//!
//! A message counts as delivered when all replicas in sync have it (`acks=all`). Its key selects
//! the partition as Kafka's own clients do it, so that the messages of a key keep their order and
//! come to the partition in which other programs look for the key. Each partition has a connection
//! of its own, because a broker answers the requests of a connection one after the other.
//!
//! A producer without transactions needs five of Kafka's requests, so this module has them itself.
//! Rejected: `rskafka`, which adds 12 crates to the build and changes the features of crates that
//! the whole workspace shares; and `kafka-protocol`, which has the bytes of all requests, but
//! neither logins nor connections. There is no idempotent producer: a retry can write a record
//! twice, which delivery at least once permits.
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
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;
use wire::Refusal;

/// Limit on the connections to partitions.
const WRITERS_MAX: usize = 256;
/// Limit on the time in which a broker names the brokers of the partitions, with the time to
/// connect and to log in, so that there is time for another broker.
const LEADERS_TIMEOUT: Duration = Duration::from_secs(3);
/// After this time, the gateway asks again for the brokers of the partitions, as Kafka's Java
/// client does. So it finds new partitions.
const LEADERS_AGE_MAX: Duration = Duration::from_secs(5 * 60);
/// How long a message waits for the messages to its partition that come first.
const TURN_TIMEOUT: Duration = Duration::from_secs(3);
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

/// The metadata of the topic, and the connections to its partitions.
struct Open {
    /// The broker of each partition.
    leaders: Vec<Option<Arc<Address>>>,
    /// When the cluster named them.
    asked_at: Instant,
    /// Whether a message has failed since. The cause may be the gateway's stale knowledge of the
    /// cluster.
    is_doubtful: AtomicBool,
    writers: SyncMutex<Writers>,
}

/// The connections of partitions, which are open after the first message.
type Writers = HashMap<usize, Arc<Mutex<Option<Link>>>>;

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
        if matches!(produced, Err(Failure::Unavailable(_))) {
            open.is_doubtful.store(true, Relaxed);
        }
        produced
    }

    /// Asks again for the brokers of the partitions before the next message.
    pub(super) fn ask_again(&self) {
        // Otherwise somebody asks at this moment.
        if let Ok(open) = self.open.try_lock()
            && let Some(open) = &*open
        {
            open.is_doubtful.store(true, Relaxed);
        }
    }

    async fn open(&self) -> Result<Arc<Open>, String> {
        let mut slot = self.open.lock().await;
        if let Some(open) = slot.as_ref().filter(|open| open.is_fresh()) {
            return Ok(Arc::clone(open));
        }
        let leaders = self.leaders().await?;
        let writers = slot.as_ref().map(|earlier| earlier.writers_of(&leaders)).unwrap_or_default();
        let open = Open {
            leaders,
            asked_at: Instant::now(),
            is_doubtful: AtomicBool::new(false),
            writers: SyncMutex::new(writers),
        };
        Ok(Arc::clone(slot.insert(Arc::new(open))))
    }

    /// Asks one broker after the other for the brokers of the partitions. The next call begins with
    /// the broker that answered, and, if the caller gave up, with the one that was asked last.
    async fn leaders(&self) -> Result<Vec<Option<Arc<Address>>>, String> {
        let mut failure = String::new();
        for _ in &self.brokers {
            // One call at a time, because the caller holds the lock of `open`.
            let first = self.first.load(Relaxed);
            let broker = &self.brokers[first % self.brokers.len()];
            failure = match timeout(LEADERS_TIMEOUT, self.ask_leaders(broker)).await {
                Ok(Ok(leaders)) => return Ok(leaders),
                Ok(Err(error)) => error,
                Err(_) => {
                    let (host, port) = broker;
                    format!("the broker {host}:{port} did not answer within 3 seconds")
                }
            };
            self.first.store(first.wrapping_add(1), Relaxed);
        }
        Err(failure)
    }

    async fn ask_leaders(&self, broker: &Address) -> Result<Vec<Option<Arc<Address>>>, String> {
        let stream = link::connect(broker, &self.access).await?;
        let mut link = Link::open(stream, &self.access).await?;
        let answer = link.ask(wire::METADATA, &wire::metadata(&self.topic)).await?;
        wire::parse_metadata(answer, &self.topic)
    }
}

impl Open {
    fn is_fresh(&self) -> bool {
        !self.is_doubtful.load(Relaxed) && self.asked_at.elapsed() < LEADERS_AGE_MAX
    }

    /// The connections of the partitions that still have the same broker.
    fn writers_of(&self, leaders: &[Option<Arc<Address>>]) -> Writers {
        let writers = self.writers.lock();
        let kept =
            writers.iter().filter(|(partition, _)| leaders.get(**partition) == self.leaders.get(**partition));
        kept.map(|(partition, writer)| (*partition, Arc::clone(writer))).collect()
    }

    async fn produce(&self, access: &Access, topic: &str, message: &Message) -> Result<(), Failure> {
        let partition = partition_of(message.key.as_bytes(), self.leaders.len());
        let Some(leader) = &self.leaders[partition] else {
            return Err(Failure::Unavailable(format!("partition {partition} of the topic has no leader")));
        };
        let number = partition as i32;
        let request = wire::produce(topic, number, message.key.as_bytes(), &message.body, message.time_ms);
        let writer = self.writer(partition);
        // To wait for other messages says nothing of the cluster.
        let Ok(mut slot) = timeout(TURN_TIMEOUT, writer.lock()).await else { return Err(Failure::Later) };
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
            let idle = writers.iter().find(|(_, writer)| Arc::strong_count(writer) == 1);
            let idle = idle.map(|(partition, _)| *partition);
            if let Some(other) = idle.or_else(|| writers.keys().next().copied()) {
                writers.remove(&other);
            }
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
