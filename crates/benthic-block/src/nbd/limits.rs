//! Limits of the server, and the accounting of its memory.

use super::fair::{Fair, Permit};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// Limit on concurrent connections; the server closes further ones.
pub const CONNECTIONS_MAX: usize = 1024;
/// Limit on the data of one READ or WRITE, which the server announces.
pub const PAYLOAD_BYTES_MAX: u32 = 32 * 1024 * 1024;
/// Limit on the data of all requests in flight.
pub const MEMORY_BYTES_MAX: usize = 512 * MIB;
/// Limit on the data of one connection's requests in flight.
const CONNECTION_BYTES_MAX: usize = 64 * MIB;
/// Limit on one connection's requests in flight.
pub const REQUESTS_MAX: usize = 128;
/// Limit on the requests that run on images. The exports share them fairly, so that a request does
/// not queue in the store behind all requests of another export.
const RUNNING_MAX: u64 = 256;
/// Limits on the data of writes that wait for their throttle: of one connection, and of all. The
/// data of others stay in the connection's socket.
const CONNECTION_PARKED_BYTES_MAX: usize = MIB;
const PARKED_BYTES_MAX: usize = 64 * MIB;

pub const HANDSHAKE_LIMIT: Duration = Duration::from_secs(30);
pub const OPTIONS_MAX: usize = 256;
pub const OPTION_BYTES_MAX: usize = 64 * KIB;
/// The specification's limit on names and other strings.
pub const STRING_BYTES_MAX: usize = 4096;
/// Limit on the metadata contexts of a connection.
pub const CONTEXTS_MAX: usize = 16;

/// Time without progress after which a client counts as stalled.
const STALL_LIMIT: Duration = Duration::from_secs(10);

/// The resources that the requests of all connections share: memory, and places to run.
#[derive(Clone)]
pub struct Resources {
    memory: Arc<Fair>,
    /// The part of the memory that throttled writes may hold.
    parked: Arc<Semaphore>,
    running: Arc<Fair>,
}

impl Resources {
    pub fn new(exports: usize) -> Resources {
        Resources {
            memory: Fair::new((MEMORY_BYTES_MAX / KIB) as u64, exports),
            parked: Arc::new(Semaphore::new(PARKED_BYTES_MAX / KIB)),
            running: Fair::new(RUNNING_MAX, exports),
        }
    }
}

/// The limits of one connection.
pub struct Quota {
    /// The number of its export.
    export: usize,
    requests: Arc<Semaphore>,
    bytes: Arc<Semaphore>,
    parked: Arc<Semaphore>,
    resources: Resources,
}

/// A request's place among those of its connection.
pub struct Slot(#[expect(dead_code, reason = "its drop frees the place")] OwnedSemaphorePermit);

/// A request's share of the limits.
pub struct Share {
    _slot: Slot,
    _bytes: OwnedSemaphorePermit,
    _memory: Permit,
}

/// The right of a throttled write to hold its data.
pub struct Parked {
    _of_connection: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

impl Quota {
    pub fn new(resources: Resources, export: usize) -> Quota {
        Quota {
            export,
            requests: Arc::new(Semaphore::new(REQUESTS_MAX)),
            bytes: Arc::new(Semaphore::new(CONNECTION_BYTES_MAX / KIB)),
            parked: Arc::new(Semaphore::new(CONNECTION_PARKED_BYTES_MAX / KIB)),
            resources,
        }
    }

    /// Waits until the connection may have another request in flight.
    pub async fn slot(&self) -> io::Result<Slot> {
        acquire(&self.requests, 1).await.map(Slot)
    }

    /// Waits until a request with this much data fits the limits.
    pub async fn share(&self, slot: Slot, bytes: u64) -> io::Result<Share> {
        // Even a request without data needs memory for its reply.
        let kib = kib(bytes).min((CONNECTION_BYTES_MAX / KIB) as u32);
        Ok(Share {
            _slot: slot,
            _bytes: acquire(&self.bytes, kib).await?,
            _memory: self.resources.memory.acquire(self.export, kib.into()).await,
        })
    }

    /// Waits until a request may run on the image.
    pub async fn run(&self) -> Permit {
        self.resources.running.acquire(self.export, 1).await
    }

    /// Lets a throttled write hold this much data, if there is room.
    pub fn park(&self, bytes: u64) -> Option<Parked> {
        let try_acquire =
            |semaphore: &Arc<Semaphore>| Arc::clone(semaphore).try_acquire_many_owned(kib(bytes)).ok();
        Some(Parked {
            _of_connection: try_acquire(&self.parked)?,
            _of_all: try_acquire(&self.resources.parked)?,
        })
    }

    /// Waits for an I/O operation that depends on the client.
    ///
    /// A stalled client may keep its memory while there is enough for others. Otherwise it loses
    /// its connection, so that it cannot block them.
    pub async fn wait_for_client<T>(&self, operation: impl Future<Output = io::Result<T>>) -> io::Result<T> {
        let mut operation = std::pin::pin!(operation);
        loop {
            if let Ok(result) = tokio::time::timeout(STALL_LIMIT, &mut operation).await {
                return result;
            }
            if self.resources.memory.is_short_of(self.export, (CONNECTION_BYTES_MAX / KIB) as u64) {
                let message = "the client stalled while other clients needed the memory of its requests";
                return Err(io::Error::new(io::ErrorKind::TimedOut, message));
            }
        }
    }

    /// Waits until every request is done and its reply is sent or dropped.
    pub async fn all_done(&self) {
        // The semaphore is never closed.
        let _ = self.requests.acquire_many(REQUESTS_MAX as u32).await;
    }
}

/// At least 1.
fn kib(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(KIB as u64)).unwrap_or(u32::MAX).max(1)
}

async fn acquire(semaphore: &Arc<Semaphore>, permits: u32) -> io::Result<OwnedSemaphorePermit> {
    Arc::clone(semaphore).acquire_many_owned(permits).await.map_err(io::Error::other)
}

#[cfg(test)]
#[path = "limits_tests.rs"]
mod tests;
