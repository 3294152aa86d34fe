//! Typed calls of the `lock` class for clients.

use super::wire::{Input, ListedLock, Mode};
use benthic_core::{
    ClassCall, Error, ErrorKind, Fetch, ObjectId, Pool, Result, WriteOp, WriteReply, WriteStep,
};
use bytes::Bytes;
use std::sync::Arc;

/// First and longest delay between retries of [`HeldLock::acquire_with_retry`].
const PAUSE_MS: [u64; 2] = [10, 500];

/// A request for a lock: its name, its holder, its mode and its lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockRequest {
    pub name: String,
    pub owner: String,
    /// Identifies a session of the owner; no other session of the owner may use it.
    pub cookie: String,
    pub mode: Mode,
    /// Lease duration, after which the lock is free unless it was renewed. Without it, the lease
    /// never ends.
    pub lease_ms: Option<u64>,
}

/// An acquired lock. It is held until [`release`](HeldLock::release), or until its lease ends.
/// Dropping this does not release the lock, because that takes a round trip.
#[must_use = "the lock stays held until it is released or its lease ends"]
pub struct HeldLock {
    pool: Arc<dyn Pool>,
    object: ObjectId,
    request: LockRequest,
}

impl HeldLock {
    /// Takes the lock, or renews it if the same owner and cookie hold it: one round trip. Creates a
    /// missing object.
    ///
    /// # Errors
    /// `Busy` if others hold the lock, as [`Pool::exec`]. After `OutcomeUnknown`, the same call is
    /// safe to repeat.
    pub async fn acquire(pool: Arc<dyn Pool>, object: ObjectId, request: LockRequest) -> Result<HeldLock> {
        let lock = HeldLock { pool, object, request };
        lock.exec("acquire", lock.input(true, true)).await?;
        Ok(lock)
    }

    /// As [`HeldLock::acquire`], but retries with backoff while others hold the lock. The delays
    /// sum up to at most `wait_ms_max`. `pause` sleeps for a number of milliseconds on the caller's
    /// runtime; this crate has none. Waiters are not served in order.
    ///
    /// # Errors
    /// As [`HeldLock::acquire`]; `Busy` when the time is over.
    pub async fn acquire_with_retry(
        pool: Arc<dyn Pool>,
        object: ObjectId,
        request: LockRequest,
        wait_ms_max: u64,
        mut pause: impl AsyncFnMut(u64),
    ) -> Result<HeldLock> {
        let mut left_ms = wait_ms_max;
        let [mut pause_ms, pause_ms_max] = PAUSE_MS;
        loop {
            match HeldLock::acquire(Arc::clone(&pool), object.clone(), request.clone()).await {
                Err(error) if error.kind() == ErrorKind::Busy && left_ms > 0 => {}
                result => return result,
            }
            let now_ms = pause_ms.min(left_ms);
            pause(now_ms).await;
            left_ms -= now_ms;
            pause_ms = (2 * pause_ms).min(pause_ms_max);
        }
    }

    /// Restarts the lease.
    ///
    /// # Errors
    /// `Conflict` if the lock is no longer held, as [`Pool::exec`].
    pub async fn renew(&self) -> Result<()> {
        self.exec("renew", self.input(false, true)).await.map(|_| ())
    }

    /// Runs a write operation on the locked object if the lock is still held: one atomic round
    /// trip, and a second one after `NotFound`. The operation must not call a method, because the
    /// check is a method call.
    ///
    /// # Errors
    /// `Conflict` if the lock is no longer held, and nothing was changed; as [`Pool::write`].
    pub async fn write(&self, mut op: WriteOp) -> Result<WriteReply> {
        op.steps.insert(0, WriteStep::Exec(self.assertion()));
        match self.pool.write(&self.object, op).await {
            Err(error) => Err(self.explain(error).await),
            reply => reply,
        }
    }

    /// Runs a read operation on the locked object if the lock is still held: one round trip, and a
    /// second one after `NotFound`. Returns its outputs and the object's version.
    ///
    /// # Errors
    /// `Conflict` if the lock is no longer held; as [`Pool::read`].
    pub async fn fetch<T: 'static>(&self, fetch: Fetch<T>) -> Result<(T, u64)> {
        match self.pool.fetch(&self.object, Fetch::exec(self.assertion()).and(fetch)).await {
            Err(error) => Err(self.explain(error).await),
            Ok(((_, output), version)) => Ok((output, version)),
        }
    }

    /// Finds the cause of `NotFound`. If the object is missing, so is the lock, but `assert` did
    /// not run to report that. `NotFound` can also be the operation's own error. So this calls
    /// `assert` again, alone.
    async fn explain(&self, error: Error) -> Error {
        if error.kind() != ErrorKind::NotFound {
            return error;
        }
        match self.pool.exec(&self.object, self.assertion()).await {
            Err(lost) if lost.kind() == ErrorKind::Conflict => lost,
            Err(lost) if lost.kind() == ErrorKind::NotFound => {
                Error::conflict("the lock is not held: its object was removed").with_source(error)
            }
            _ => error,
        }
    }

    /// Releases the lock. Succeeds also if it was no longer held.
    ///
    /// # Errors
    /// As [`Pool::exec`]. The lease then continues.
    pub async fn release(self) -> Result<()> {
        self.exec("release", self.input(false, false)).await.map(|_| ())
    }

    /// The call of `assert` for this lock, to use as the first step of an operation on its object.
    pub fn assertion(&self) -> ClassCall {
        call("assert", self.input(true, false).encode())
    }

    fn input(&self, mode: bool, lease: bool) -> Input {
        let LockRequest { name, owner, cookie, .. } = self.request.clone();
        Input {
            name,
            owner,
            cookie: Some(cookie),
            mode: mode.then_some(self.request.mode),
            lease_ms: self.request.lease_ms.filter(|_| lease),
        }
    }

    async fn exec(&self, method: &str, input: Input) -> Result<Bytes> {
        self.pool.exec(&self.object, call(method, input.encode())).await
    }
}

/// Takes a lock away from one session of an owner, or without a cookie from all. Succeeds also if
/// it is not held.
pub async fn break_lock(
    pool: &dyn Pool,
    object: &ObjectId,
    name: &str,
    owner: &str,
    cookie: Option<&str>,
) -> Result<()> {
    let input = Input {
        name: name.to_owned(),
        owner: owner.to_owned(),
        cookie: cookie.map(str::to_owned),
        mode: None,
        lease_ms: None,
    };
    pool.exec(object, call("break", input.encode())).await.map(|_| ())
}

/// The held locks of an object, by name.
///
/// # Errors
/// `NotFound` if the object is missing, `Corrupt`, as [`Pool::exec`].
pub async fn list(pool: &dyn Pool, object: &ObjectId) -> Result<Vec<ListedLock>> {
    let output = pool.exec(object, call("list", String::new())).await?;
    serde_json::from_slice(&output)
        .map_err(|error| Error::internal("the output of the lock class cannot be decoded").with_source(error))
}

fn call(method: &str, input: String) -> ClassCall {
    ClassCall::new("lock", method, input)
}
