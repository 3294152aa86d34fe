//! The lock of a striped object. It is libradosstriper's lock on the first object, with a lease
//! added.
//!
//! Readers hold the lock shared; writers and removers hold it exclusively. libradosstriper does the
//! same, except that its writers hold it shared. On Ceph the lock belongs to Ceph's class `lock`,
//! which libradosstriper uses. Engines without that class use Benthic's class `lock`. Benthic's
//! locks and libradosstriper's exclude each other. The lease lets another copy continue soon after
//! a program was killed.

use super::{BEGUN_XATTR, NOTE_XATTR, SIZE_XATTR, Striped, UnfinishedChange, encode};
use benthic_classes::lock::wire::{Input, Mode};
use benthic_core::{
    ClassCall, ClassHost, Error, ErrorKind, Fetch, ObjectId, Pool, Result, Stopwatch, Store, WriteOp,
    WriteStep,
};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

const NAME: &str = "striper.lock";
/// Benthic's client name of Ceph's class `lock`; `lock` alone is Benthic's own class.
const CEPH_LOCK_CLASS: &str = "ceph.lock";
/// libradosstriper's tag for shared locks. Shared locks with different tags exclude each other. An
/// exclusive lock has no tag.
const SHARED_TAG: &str = "Tag";

/// Lock flags of Ceph's class `lock`. `MAY_RENEW`: the lock holder may renew. `MUST_RENEW`: only
/// the lock holder succeeds.
const MAY_RENEW: u8 = 1;
const MUST_RENEW: u8 = 2;

/// Duration of the lease. After a copy was killed, the next one waits up to this long.
const LEASE: Duration = Duration::from_secs(20);
const RENEWAL: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(250);

/// Default wait for the lock in seconds; longer than a lease.
pub const WAIT_DEFAULT_S: u64 = 30;

/// The class that holds the locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locks {
    /// Ceph's class `lock`.
    Ceph,
    /// Benthic's class `lock`.
    Own,
    /// The store is opened read-only, and nobody can write to it meanwhile.
    NotNeeded,
}

/// A held lock. A task renews it until it is released.
pub struct Lock {
    watch: Watch,
    stop: oneshot::Sender<()>,
    renewing: JoinHandle<()>,
}

impl Lock {
    /// Takes the lock. While another program holds it, waits up to `wait` or until a signal. With
    /// `create`, an exclusive lock creates the first object; otherwise the object must exist.
    ///
    /// # Errors
    /// `Busy` if the wait ends without the lock; `NotFound` if the first object is missing; as
    /// [`benthic_core::Pool::write`].
    pub async fn take(at: &Striped, mode: Mode, create: bool, wait: Duration) -> Result<Lock> {
        let cookie = at.unique();
        let object = at.piece(0)?;
        let waiting = Stopwatch::start(&*at.clock);
        let sent = loop {
            let sent = at.clock.monotonic();
            let op = if create { WriteOp::new() } else { WriteOp::new().assert_exists() };
            let op = with_call(op, at.locks.acquire(mode, &cookie, LEASE));
            match at.locks.send(&*at.pool, &object, op).await {
                Ok(_) => break sent,
                Err(error) if error.kind() != ErrorKind::Busy => return Err(error),
                Err(error) if waiting.elapsed() >= wait || (at.is_interrupted)() => {
                    let message = "another program holds the lock of this striped object; wait longer with --lock-wait. On a \
                        cluster, `rados lock info OBJECT striper.lock` shows the lock holders, and `rados lock break` removes \
                        the lock of a killed program";
                    let error = Error::busy(message).with_source(error);
                    return Err(error.with("pool", at.pool.name()).with("object", &object));
                }
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        };
        let (renewed, held) = watch::channel(Some(sent));
        let (stop, mut stopped) = oneshot::channel();
        let renewal = with_call(WriteOp::new().assert_exists(), at.locks.renew(mode, &cookie, LEASE));
        let (pool, clock, locks) = (Arc::clone(&at.pool), Arc::clone(&at.clock), at.locks);
        let renewing = tokio::spawn(async move {
            loop {
                tokio::select! {
                    _ = &mut stopped => return,
                    () = tokio::time::sleep(RENEWAL) => {}
                }
                let sent = clock.monotonic();
                match locks.send(&*pool, &object, renewal.clone()).await {
                    Ok(_) => _ = renewed.send(Some(sent)),
                    Err(error) if is_loss(&error) => {
                        _ = renewed.send(None);
                        return;
                    }
                    // Other errors may be transient. The next attempt comes before the lease ends.
                    Err(_) => {}
                }
            }
        });
        Ok(Lock { watch: Watch { at: at.clone(), mode, cookie, held }, stop, renewing })
    }

    /// A handle with which jobs check that the lock is still held.
    pub fn watch(&self) -> Watch {
        self.watch.clone()
    }

    /// Stops the renewals. Returns when none is in flight.
    async fn stop(self) -> (Striped, String) {
        // The task may have ended already.
        let _ = self.stop.send(());
        let _ = self.renewing.await;
        (self.watch.at, self.watch.cookie)
    }

    /// Releases the lock. If that fails, the lock is free when its lease ends.
    pub async fn release(self) {
        let (at, cookie) = self.stop().await;
        let op = with_call(WriteOp::new().assert_exists(), at.locks.release(&cookie));
        let released = match at.piece(0) {
            Ok(object) => at.locks.send(&*at.pool, &object, op).await,
            Err(error) => Err(error),
        };
        if let Err(error) = released {
            tracing::info!("the lock is free when its lease ends: {error}");
        }
    }

    /// Removes the first object and with it the lock, if the guards of `op` hold.
    ///
    /// # Errors
    /// `Conflict` if a guard does not hold; as [`benthic_core::Pool::write`].
    pub async fn remove_object(self, op: WriteOp) -> Result<()> {
        let (at, _) = self.stop().await;
        at.pool.write(&at.piece(0)?, op.remove()).await.map(|_| ()).map_err(explain)
    }
}

/// A handle that checks whether a lock is still held.
#[derive(Clone)]
pub struct Watch {
    at: Striped,
    mode: Mode,
    cookie: String,
    /// The time at which the last successful renewal was sent, by the monotonic clock; `None` after
    /// the lock was lost.
    held: watch::Receiver<Option<Duration>>,
}

impl Watch {
    /// Fails if the lock is known to be lost, or if its lease may have ended. Success is no proof
    /// that the lock is held: this process learns of a broken lock only at the next renewal, and
    /// the monotonic clock stops while the machine sleeps.
    pub fn check(&self) -> Result<()> {
        if is_held(*self.held.borrow(), self.at.clock.monotonic()) { Ok(()) } else { Err(lost()) }
    }

    /// Fails if the lock is known to be lost, or if the first object no longer has this run's note.
    /// On success no other run had started a change before this call, even if the lock was lost
    /// unnoticed. So everything read before the call is unaffected by other runs. Takes one round
    /// trip.
    ///
    /// # Errors
    /// `Conflict` if another run has started, completed or removed something; as
    /// [`benthic_core::Pool::read`].
    pub async fn check_begun(&self, begun: &Bytes) -> Result<()> {
        self.check()?;
        let (xattrs, _) = match self.at.pool.fetch(&self.at.piece(0)?, Fetch::list_xattrs()).await {
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(lost().with_source(error)),
            found => found?,
        };
        // Other programs leave the note in place and set the size.
        let is_ours = xattrs.get(BEGUN_XATTR) == Some(begun) && !xattrs.contains_key(SIZE_XATTR);
        if is_ours { Ok(()) } else { Err(lost()) }
    }

    /// Marks a striped object as incomplete, so that no program reads it, and notes an upper bound
    /// of its pieces. Returns the note, which stays until another run starts a change.
    ///
    /// # Errors
    /// As [`Watch::write_held`].
    pub async fn begin_change(&self, pieces: u64) -> Result<Bytes> {
        let begun = encode(&UnfinishedChange { run: self.at.unique(), pieces })?;
        let op = WriteOp::new().set_xattr(BEGUN_XATTR, begun.clone());
        self.write_held(op.remove_xattr(SIZE_XATTR).remove_xattr(NOTE_XATTR)).await?;
        Ok(begun)
    }

    /// Writes to the first object if the lock is still held, and renews the lock, in one operation.
    ///
    /// # Errors
    /// `Conflict` if the lock is lost; as [`benthic_core::Pool::write`].
    pub async fn write_held(&self, op: WriteOp) -> Result<()> {
        let mut held =
            with_call(WriteOp::new().assert_exists(), self.at.locks.renew(self.mode, &self.cookie, LEASE));
        held.guards.extend(op.guards);
        held.steps.extend(op.steps);
        self.at.pool.write(&self.at.piece(0)?, held).await.map(|_| ()).map_err(explain)
    }
}

fn is_held(renewed: Option<Duration>, now: Duration) -> bool {
    renewed.is_some_and(|renewed| now.saturating_sub(renewed) < LEASE)
}

fn is_loss(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Busy | ErrorKind::NotFound | ErrorKind::Conflict)
}

fn explain(error: Error) -> Error {
    if is_loss(&error) { lost().with_source(error) } else { error }
}

fn lost() -> Error {
    let message =
        "the lock of the striped object was lost: its lease ended, or somebody broke it; repeat the command";
    Error::conflict(message)
}

fn with_call(mut op: WriteOp, call: ClassCall) -> WriteOp {
    op.steps.push(WriteStep::Exec(call));
    op
}

impl Locks {
    /// Selects the class for a store. libradosstriper writes to Ceph clusters only.
    pub fn of(store: &dyn Store) -> Locks {
        match store.class_host() {
            ClassHost::Cluster => Locks::Ceph,
            ClassHost::Local if store.check_writable().is_err() => Locks::NotNeeded,
            ClassHost::Local => Locks::Own,
        }
    }

    /// Takes, renews or releases a lock. Without locks, only checks that the first object exists.
    async fn send(self, pool: &dyn Pool, object: &ObjectId, op: WriteOp) -> Result<()> {
        match self {
            Locks::Ceph | Locks::Own => pool.write(object, op).await.map(|_| ()),
            Locks::NotNeeded => pool.stat(object).await.map(|_| ()),
        }
    }

    /// Takes the lock. It succeeds if this run already holds the lock, because an attempt whose
    /// reply was lost may have taken it.
    fn acquire(self, mode: Mode, cookie: &str, lease: Duration) -> ClassCall {
        match self {
            Locks::Own | Locks::NotNeeded => {
                ClassCall::new("lock", "acquire", own_lease(Some(mode), cookie, lease))
            }
            Locks::Ceph => ceph_lock(mode, cookie, lease, MAY_RENEW),
        }
    }

    /// Restarts the lease of a lock that is held. It does not reacquire a lost lock.
    fn renew(self, mode: Mode, cookie: &str, lease: Duration) -> ClassCall {
        match self {
            Locks::Own | Locks::NotNeeded => ClassCall::new("lock", "renew", own_lease(None, cookie, lease)),
            Locks::Ceph => ceph_lock(mode, cookie, lease, MUST_RENEW),
        }
    }

    fn release(self, cookie: &str) -> ClassCall {
        match self {
            Locks::Own | Locks::NotNeeded => ClassCall::new("lock", "release", own_input(cookie).encode()),
            Locks::Ceph => {
                let fields = [string(NAME), string(cookie)].concat();
                ClassCall::new(CEPH_LOCK_CLASS, "unlock", with_version(&fields))
            }
        }
    }
}

fn ceph_lock(mode: Mode, cookie: &str, lease: Duration, flags: u8) -> ClassCall {
    let (kind, tag) = match mode {
        Mode::Exclusive => (1, ""),
        Mode::Shared => (2, SHARED_TAG),
    };
    let seconds = u32::try_from(lease.as_secs()).unwrap_or(u32::MAX);
    let fields = [
        string(NAME),
        vec![kind],
        string(cookie),
        string(tag),
        string("benthic"),
        seconds.to_le_bytes().to_vec(),
        // The nanoseconds of the lease.
        0_u32.to_le_bytes().to_vec(),
        vec![flags],
    ];
    ClassCall::new(CEPH_LOCK_CLASS, "lock", with_version(&fields.concat()))
}

fn own_lease(mode: Option<Mode>, cookie: &str, lease: Duration) -> String {
    let lease_ms = u64::try_from(lease.as_millis()).ok();
    Input { mode, lease_ms, ..own_input(cookie) }.encode()
}

fn own_input(cookie: &str) -> Input {
    Input {
        name: NAME.to_owned(),
        owner: "benthic".to_owned(),
        cookie: Some(cookie.to_owned()),
        mode: None,
        lease_ms: None,
    }
}

fn string(text: &str) -> Vec<u8> {
    let len = u32::try_from(text.len()).unwrap_or(u32::MAX);
    [&len.to_le_bytes()[..], text.as_bytes()].concat()
}

/// A structure in Ceph's encoding: its version, the oldest version that can decode it, the length,
/// and the fields.
fn with_version(fields: &[u8]) -> Vec<u8> {
    let len = u32::try_from(fields.len()).unwrap_or(u32::MAX);
    [&[1, 1][..], &len.to_le_bytes(), fields].concat()
}

#[cfg(test)]
#[path = "lock_tests.rs"]
mod tests;
