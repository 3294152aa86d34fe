//! The `lock` class for its callers.

use super::wire::{Input, ListedLock, Mode};
use benthic_core::{
    ClassCall, Error, ErrorKind, Fetch, ObjectId, Pool, Result, WriteOp, WriteReply, WriteStep,
};
use bytes::Bytes;
use std::sync::Arc;

/// First and longest pause of [`Held::acquire_within`].
const PAUSE_MS: [u64; 2] = [10, 500];

/// Which lock of an object is wanted, by whom, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The lock.
    pub name: String,
    /// Who.
    pub owner: String,
    /// Which of the owner's sessions: something that no other session of the owner uses.
    pub cookie: String,
    /// How many may hold it.
    pub mode: Mode,
    /// When it is free again if it is neither renewed nor released; never if absent.
    pub lease_ms: Option<u64>,
}

/// A lock that was acquired. It is held until [`release`](Held::release), or until its lease ends: dropping this does
/// nothing, because releasing takes a round trip.
#[must_use = "the lock stays held until it is released or its lease ends"]
pub struct Held {
    pool: Arc<dyn Pool>,
    object: ObjectId,
    wanted: Wanted,
}

impl Held {
    /// Takes the lock, or renews it if the same owner and cookie hold it: one round trip. Creates a missing object.
    ///
    /// # Errors
    /// `Busy` if others hold it, as [`Pool::exec`]. After `OutcomeUnknown` the same call is safe to repeat.
    pub async fn acquire(pool: Arc<dyn Pool>, object: ObjectId, wanted: Wanted) -> Result<Held> {
        let held = Held { pool, object, wanted };
        held.exec("acquire", held.input(true, true)).await?;
        Ok(held)
    }

    /// As [`Held::acquire`], but tries again while others hold the lock, with pauses that sum up to at most `wait_ms_max`.
    /// `pause` waits for that many milliseconds: the caller's runtime knows how, this crate has none. Who waits longest
    /// need not be first.
    ///
    /// # Errors
    /// As [`Held::acquire`]; `Busy` when the time is over.
    pub async fn acquire_within(
        pool: Arc<dyn Pool>,
        object: ObjectId,
        wanted: Wanted,
        wait_ms_max: u64,
        mut pause: impl AsyncFnMut(u64),
    ) -> Result<Held> {
        let mut left_ms = wait_ms_max;
        let [mut pause_ms, pause_ms_max] = PAUSE_MS;
        loop {
            match Held::acquire(Arc::clone(&pool), object.clone(), wanted.clone()).await {
                Err(error) if error.kind() == ErrorKind::Busy && left_ms > 0 => {}
                result => return result,
            }
            let now_ms = pause_ms.min(left_ms);
            pause(now_ms).await;
            left_ms -= now_ms;
            pause_ms = (2 * pause_ms).min(pause_ms_max);
        }
    }

    /// Starts the lease anew.
    ///
    /// # Errors
    /// `Conflict` if the lock is no longer held, as [`Pool::exec`].
    pub async fn renew(&self) -> Result<()> {
        self.exec("renew", self.input(false, true)).await.map(|_| ())
    }

    /// Runs a write operation on the locked object, if the lock is still held: one round trip, atomic; another where something
    /// is not found. The operation has no method of its own, because the check is one.
    ///
    /// # Errors
    /// `Conflict` if the lock is no longer held, and nothing was done; as [`Pool::write`].
    pub async fn write(&self, mut op: WriteOp) -> Result<WriteReply> {
        op.steps.insert(0, WriteStep::Exec(self.assertion()));
        match self.pool.write(&self.object, op).await {
            Err(error) => Err(self.explain(error).await),
            reply => reply,
        }
    }

    /// Runs a read operation on the locked object, if the lock is still held: one round trip; another where something is not
    /// found. Gives its outputs and the object's version.
    ///
    /// # Errors
    /// `Conflict` if the lock is no longer held; as [`Pool::read`].
    pub async fn fetch<T: 'static>(&self, fetch: Fetch<T>) -> Result<(T, u64)> {
        match self.pool.fetch(&self.object, Fetch::exec(self.assertion()).and(fetch)).await {
            Err(error) => Err(self.explain(error).await),
            Ok(((_, output), version)) => Ok((output, version)),
        }
    }

    /// Without its object the lock is lost, but `assert` did not run to say so. That something is not found can be the
    /// operation's own failure too, so it is asked again, alone.
    async fn explain(&self, error: Error) -> Error {
        if error.kind() != ErrorKind::NotFound {
            return error;
        }
        match self.pool.exec(&self.object, self.assertion()).await {
            Err(lost) if lost.kind() == ErrorKind::Conflict => lost,
            Err(lost) if lost.kind() == ErrorKind::NotFound => {
                Error::new(ErrorKind::Conflict, "the lock is not held: its object was removed")
                    .with_source(error)
            }
            _ => error,
        }
    }

    /// Lets go of the lock; success too if it was not held any longer.
    ///
    /// # Errors
    /// As [`Pool::exec`]. The lease goes on then.
    pub async fn release(self) -> Result<()> {
        self.exec("release", self.input(false, false)).await.map(|_| ())
    }

    /// The call of `assert` that belongs to this lock, as first step of an operation on its object.
    pub fn assertion(&self) -> ClassCall {
        call("assert", self.input(true, false).encode())
    }

    fn input(&self, mode: bool, lease: bool) -> Input {
        let Wanted { name, owner, cookie, .. } = self.wanted.clone();
        Input {
            name,
            owner,
            cookie: Some(cookie),
            mode: mode.then_some(self.wanted.mode),
            lease_ms: self.wanted.lease_ms.filter(|_| lease),
        }
    }

    async fn exec(&self, method: &str, input: Input) -> Result<Bytes> {
        self.pool.exec(&self.object, call(method, input.encode())).await
    }
}

/// Takes a lock away from an owner: from one session, or without a cookie from all. Success too if it is not held.
///
/// # Errors
/// As [`Pool::exec`].
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

/// The locks of an object that are held, by name.
///
/// # Errors
/// `NotFound` if the object is missing, `Corrupt`, as [`Pool::exec`].
pub async fn list(pool: &dyn Pool, object: &ObjectId) -> Result<Vec<ListedLock>> {
    let output = pool.exec(object, call("list", String::new())).await?;
    serde_json::from_slice(&output).map_err(|error| {
        Error::new(ErrorKind::Internal, "the output of the lock class cannot be decoded").with_source(error)
    })
}

fn call(method: &str, input: String) -> ClassCall {
    ClassCall { class: "lock".to_owned(), method: method.to_owned(), input: input.into() }
}
