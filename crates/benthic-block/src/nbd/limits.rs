//! Limits of the server, and the accounting of its memory.

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

pub const HANDSHAKE_LIMIT: Duration = Duration::from_secs(30);
pub const OPTIONS_MAX: usize = 256;
pub const OPTION_BYTES_MAX: usize = 64 * KIB;
/// The specification's limit on names and other strings.
pub const STRING_BYTES_MAX: usize = 4096;
/// Limit on the metadata contexts of a connection.
pub const CONTEXTS_MAX: usize = 16;

/// Time without progress after which a client counts as stalled.
const STALL_LIMIT: Duration = Duration::from_secs(10);

/// The memory for requests that all connections share.
#[derive(Clone)]
pub struct Memory(Arc<Semaphore>);

impl Memory {
    pub fn new() -> Memory {
        Memory(Arc::new(Semaphore::new(MEMORY_BYTES_MAX / KIB)))
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
            if self.0.available_permits() < CONNECTION_BYTES_MAX / KIB {
                let message = "the client stalled while other clients needed the memory of its requests";
                return Err(io::Error::new(io::ErrorKind::TimedOut, message));
            }
        }
    }
}

/// The limits of one connection.
pub struct Quota {
    requests: Arc<Semaphore>,
    bytes: Arc<Semaphore>,
    memory: Memory,
}

/// A request's share of the limits.
pub struct Share {
    _request: OwnedSemaphorePermit,
    _bytes: OwnedSemaphorePermit,
    _memory: OwnedSemaphorePermit,
}

impl Quota {
    pub fn new(memory: Memory) -> Quota {
        Quota {
            requests: Arc::new(Semaphore::new(REQUESTS_MAX)),
            bytes: Arc::new(Semaphore::new(CONNECTION_BYTES_MAX / KIB)),
            memory,
        }
    }

    /// Waits until a request with this much data fits the limits.
    pub async fn share(&self, bytes: u64) -> io::Result<Share> {
        // Even a request without data needs memory for its reply.
        let kib = bytes.div_ceil(KIB as u64).clamp(1, (CONNECTION_BYTES_MAX / KIB) as u64) as u32;
        Ok(Share {
            _request: acquire(&self.requests, 1).await?,
            _bytes: acquire(&self.bytes, kib).await?,
            _memory: acquire(&self.memory.0, kib).await?,
        })
    }

    /// Waits until every request is done and its reply is sent or dropped.
    pub async fn all_done(&self) {
        // The semaphore is never closed.
        let _ = self.requests.acquire_many(REQUESTS_MAX as u32).await;
    }
}

async fn acquire(semaphore: &Arc<Semaphore>, permits: u32) -> io::Result<OwnedSemaphorePermit> {
    Arc::clone(semaphore).acquire_many_owned(permits).await.map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::{CONNECTION_BYTES_MAX, MEMORY_BYTES_MAX, Memory, Quota, REQUESTS_MAX, STALL_LIMIT};
    use std::io;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn a_stalled_client_is_disconnected_only_when_memory_is_short() {
        let memory = Memory::new();
        let stalled = memory.wait_for_client(std::future::pending::<io::Result<()>>());
        let mut stalled = std::pin::pin!(stalled);
        assert!(tokio::time::timeout(STALL_LIMIT * 10, &mut stalled).await.is_err());

        let connections = MEMORY_BYTES_MAX / CONNECTION_BYTES_MAX;
        let mut shares = Vec::new();
        for _ in 0..connections {
            shares.push(Quota::new(memory.clone()).share(CONNECTION_BYTES_MAX as u64).await.unwrap());
        }
        let error = tokio::time::timeout(STALL_LIMIT * 2, stalled).await.unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_waits_for_its_own_requests() {
        let memory = Memory::new();
        let quota = Quota::new(memory.clone());
        let half = CONNECTION_BYTES_MAX as u64 / 2;
        let first = quota.share(half).await.unwrap();
        let _second = quota.share(half).await.unwrap();
        let wait = Duration::from_secs(60);
        assert!(tokio::time::timeout(wait, quota.share(1)).await.is_err());
        assert!(Quota::new(memory).share(half).await.is_ok());
        drop(first);
        assert!(tokio::time::timeout(wait, quota.share(1)).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_requests_is_limited() {
        let quota = Quota::new(Memory::new());
        let mut shares = Vec::new();
        for _ in 0..REQUESTS_MAX {
            shares.push(quota.share(0).await.unwrap());
        }
        let wait = Duration::from_secs(60);
        assert!(tokio::time::timeout(wait, quota.share(0)).await.is_err());
        assert!(tokio::time::timeout(wait, quota.all_done()).await.is_err());
        shares.clear();
        assert!(tokio::time::timeout(wait, quota.all_done()).await.is_ok());
    }
}
