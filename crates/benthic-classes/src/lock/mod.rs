//! Advisory locks on an object: shared or exclusive, several per object by name, each with an
//! optional lease.
//!
//! A holder is an *owner* and a *cookie*, which identifies one of the owner's sessions. The locks
//! are in the object's omap, one key `lock/NAME` each, so removing the object removes them. Taking
//! a lock on a missing object creates it empty.
//!
//! Locks are advisory: only [`assert`] enforces them. It is a `READ` method. As the first step of a
//! write or read operation, it lets the other steps run only while the lock is held, atomically. So
//! a holder whose lease has ended, or whose lock was broken, cannot write late. A lease alone would
//! not prevent that.
//!
//! **Time** is the time of the machine that runs the method: on a Ceph cluster, of the OSD that is
//! currently the object's primary. When another OSD takes over, a lease ends earlier or later by
//! the difference of their clocks. Still, two holders can never hold an exclusive lock at once, and
//! can never both pass `assert`.
//!
//! **Retries** are safe: taking a lock that the same owner and cookie hold renews it, and releasing
//! a lock that is not held does nothing.

pub mod client;
mod state;
#[cfg(test)]
mod tests;
pub mod wire;

use benthic_core::{
    Class, Clock, Error, LogLevel, Method, MethodContext, MethodFlags, MethodResult, OptionalExtension,
    Result, SystemClock,
};
use bytes::Bytes;
use serde_json::json;
use state::LockState;
use std::collections::BTreeMap;
use wire::{Fields, Input, LOCKS_MAX, ListedHolder, ListedLock};

/// Prefix of the omap keys of locks; the lock's name follows.
pub const KEY_PREFIX: &str = "lock/";

/// The `lock` class.
pub struct Lock;

impl Class for Lock {
    fn name(&self) -> &'static str {
        "lock"
    }

    fn version(&self) -> u32 {
        1
    }

    fn summary(&self) -> &'static str {
        "shared and exclusive advisory locks on objects, with leases"
    }

    fn methods(&self) -> &'static [Method] {
        &METHODS
    }
}

static METHODS: [Method; 6] = [
    Method {
        name: "acquire",
        flags: MethodFlags::READ_WRITE,
        run: acquire,
        result: MethodResult::Nothing,
        summary: "takes a lock, or renews it for the same owner and cookie; busy if another holder has it",
        input: "JSON: owner; optional name (\"default\"), cookie (\"\"), mode (exclusive or shared), lease_ms (no end)",
        output: "nothing",
        examples: &[
            r#"{"owner":"ada"}"#,
            r#"{"name":"index","owner":"ada","cookie":"1","mode":"shared","lease_ms":30000}"#,
        ],
    },
    Method {
        name: "renew",
        flags: MethodFlags::READ_WRITE,
        run: renew,
        result: MethodResult::Nothing,
        summary: "restarts the lease; conflict if the lock is no longer held",
        input: "JSON: owner; optional name, cookie, lease_ms (no end)",
        output: "nothing",
        examples: &[r#"{"owner":"ada","lease_ms":30000}"#],
    },
    Method {
        name: "release",
        flags: MethodFlags::READ_WRITE,
        run: release,
        result: MethodResult::Nothing,
        summary: "releases a lock; does nothing if it is not held",
        input: "JSON: owner; optional name, cookie",
        output: "nothing",
        examples: &[r#"{"owner":"ada"}"#],
    },
    Method {
        name: "break",
        flags: MethodFlags::READ_WRITE,
        run: break_lock,
        result: MethodResult::Nothing,
        summary: "breaks the lock of another owner; does nothing if it is not held",
        input: "JSON: owner as listed; optional name, cookie (all of the owner's)",
        output: "nothing",
        examples: &[r#"{"owner":"ada"}"#],
    },
    Method {
        name: "assert",
        flags: MethodFlags::READ,
        run: assert,
        result: MethodResult::Output,
        summary: "fails with conflict unless the lock is held; use it as the first step of a larger operation",
        input: "JSON: owner; optional name, cookie, mode (exclusive: a shared lock is not enough)",
        output: "nothing",
        examples: &[r#"{"owner":"ada","mode":"exclusive"}"#],
    },
    Method {
        name: "list",
        flags: MethodFlags::READ,
        run: list,
        result: MethodResult::Output,
        summary: "lists the held locks and their holders",
        input: "nothing, or a lock's name",
        output: "JSON: an array of locks with name, mode and holders",
        examples: &["", "index"],
    },
];

fn acquire(context: &mut MethodContext<'_>, input: &[u8]) -> Result<Vec<u8>> {
    let input = Input::parse(input, Fields { mode: true, lease: true })?;
    let now_ms = now_ms();
    let stored = load(context, &input.name)?;
    let expired = if stored.is_none() { expired_keys(context, now_ms)? } else { Vec::new() };
    let mut lock = stored.unwrap_or_default();
    lock.drop_expired(now_ms);
    lock.acquire(&input.owner, input.cookie(), input.mode.unwrap_or_default(), expiry(&input, now_ms))?;
    if !expired.is_empty() {
        context.omap_remove(&expired)?;
    }
    store(context, &input.name, &lock)
}

fn renew(context: &mut MethodContext<'_>, input: &[u8]) -> Result<Vec<u8>> {
    let input = Input::parse(input, Fields { mode: false, lease: true })?;
    let now_ms = now_ms();
    let mut lock = load(context, &input.name)?.unwrap_or_default();
    lock.drop_expired(now_ms);
    lock.renew(&input.owner, input.cookie(), expiry(&input, now_ms))?;
    store(context, &input.name, &lock)
}

fn release(context: &mut MethodContext<'_>, input: &[u8]) -> Result<Vec<u8>> {
    let input = Input::parse(input, Fields { mode: false, lease: false })?;
    remove(context, &input.name, &input.owner, Some(input.cookie())).map(|_| Vec::new())
}

fn break_lock(context: &mut MethodContext<'_>, input: &[u8]) -> Result<Vec<u8>> {
    let input = Input::parse(input, Fields { mode: false, lease: false })?;
    if remove(context, &input.name, &input.owner, input.cookie.as_deref())? {
        context.log(LogLevel::Info, "a lock was broken");
    }
    Ok(Vec::new())
}

fn assert(context: &mut MethodContext<'_>, input: &[u8]) -> Result<Vec<u8>> {
    let input = Input::parse(input, Fields { mode: true, lease: false })?;
    let mut lock = load(context, &input.name)?.unwrap_or_default();
    lock.drop_expired(now_ms());
    lock.check_held(&input.owner, input.cookie(), input.mode)?;
    Ok(Vec::new())
}

fn list(context: &mut MethodContext<'_>, input: &[u8]) -> Result<Vec<u8>> {
    let wanted = wire::parse_list(input)?;
    let now_ms = now_ms();
    let mut listed = Vec::new();
    for (key, value) in entries(context)? {
        let name = String::from_utf8_lossy(&key[KEY_PREFIX.len()..]).into_owned();
        if wanted.is_some_and(|wanted| wanted != name) {
            continue;
        }
        let mut lock = LockState::decode(&value).map_err(|error| error.with("lock", &name))?;
        lock.drop_expired(now_ms);
        if lock.is_free() {
            continue;
        }
        let holder = |holder: state::Holder| ListedHolder {
            owner: holder.owner,
            cookie: holder.cookie,
            left_ms: holder.expires_unix_ms.map(|expires_ms| expires_ms.saturating_sub(now_ms)),
        };
        listed.push(ListedLock {
            name,
            mode: lock.mode,
            holders: lock.holders.into_iter().map(holder).collect(),
        });
    }
    Ok(json!(listed).to_string().into_bytes())
}

/// A context offers no time of day, so this reads the system clock; the module comment says which
/// machine's. All other functions take the time as an argument.
fn now_ms() -> u64 {
    SystemClock.unix_ns() / 1_000_000
}

fn expiry(input: &Input, now_ms: u64) -> Option<u64> {
    input.lease_ms.map(|lease_ms| now_ms.saturating_add(lease_ms))
}

fn key(name: &str) -> Bytes {
    format!("{KEY_PREFIX}{name}").into()
}

/// The stored lock, including expired holders.
fn load(context: &mut MethodContext<'_>, name: &str) -> Result<Option<LockState>> {
    match context.omap_get(&[key(name)]).optional()?.unwrap_or_default().pop() {
        Some((_, value)) => LockState::decode(&value).map(Some).map_err(|error| error.with("lock", name)),
        None => Ok(None),
    }
}

fn entries(context: &mut MethodContext<'_>) -> Result<Vec<(Bytes, Bytes)>> {
    // The limits ensure that all entries fit into one page. A missing object has no locks.
    Ok(context.omap_range(None, KEY_PREFIX.as_bytes(), LOCKS_MAX).optional()?.unwrap_or_default().entries)
}

/// The keys of locks without live holders, to remove if the object is at its limit of locks.
fn expired_keys(context: &mut MethodContext<'_>, now_ms: u64) -> Result<Vec<Bytes>> {
    let entries = entries(context)?;
    if entries.len() < LOCKS_MAX {
        return Ok(Vec::new());
    }
    let is_expired = |value: &[u8]| {
        LockState::decode(value).is_ok_and(|mut lock| {
            lock.drop_expired(now_ms);
            lock.is_free()
        })
    };
    let expired: Vec<Bytes> =
        entries.into_iter().filter(|(_, value)| is_expired(value)).map(|(key, _)| key).collect();
    if expired.is_empty() {
        let message = "the object has too many locks; release one, or use fewer names";
        return Err(Error::limit_exceeded(message).with("locks_max", LOCKS_MAX));
    }
    Ok(expired)
}

fn store(context: &mut MethodContext<'_>, name: &str, lock: &LockState) -> Result<Vec<u8>> {
    if lock.is_free() {
        context.omap_remove(&[key(name)])?;
    } else {
        context.omap_set(BTreeMap::from([(key(name), lock.encode())]))?;
    }
    Ok(Vec::new())
}

/// Removes a holder, and returns whether there was one.
fn remove(context: &mut MethodContext<'_>, name: &str, owner: &str, cookie: Option<&str>) -> Result<bool> {
    let Some(mut lock) = load(context, name)? else {
        return Ok(false);
    };
    let removed = lock.remove(owner, cookie);
    if removed {
        store(context, name, &lock)?;
    }
    Ok(removed)
}
