//! The stored form of a lock, and the rules for acquiring it. Time is an argument, so tests control
//! it.

use super::wire::{HOLDERS_MAX, Mode, check_cookie, check_owner};
use benthic_core::{Error, Result};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Version of the stored form, which is JSON so that `benthic omap ls` shows it.
const VERSION: u32 = 1;

/// Above the largest valid lock; longer values are not parsed.
const STATE_BYTES_MAX: usize = 96 * 1024;

/// One lock. Its stored form is
/// `{"holders":[{"cookie":"1","expires_unix_ms":1700000000000,"owner":"ada"}],"mode":"exclusive","version":1}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockState {
    version: u32,
    pub mode: Mode,
    pub holders: Vec<Holder>,
}

/// A lock holder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    pub owner: String,
    pub cookie: String,
    /// Milliseconds since 1970; if absent, the lease never ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_unix_ms: Option<u64>,
}

impl Holder {
    fn is(&self, owner: &str, cookie: &str) -> bool {
        self.owner == owner && self.cookie == cookie
    }
}

impl Default for LockState {
    fn default() -> LockState {
        LockState { version: VERSION, mode: Mode::default(), holders: Vec::new() }
    }
}

impl LockState {
    /// Decodes and validates the stored form: other clients can write to the omap too.
    pub fn decode(value: &[u8]) -> Result<LockState> {
        if value.len() > STATE_BYTES_MAX {
            return Err(corrupt());
        }
        let lock: LockState = serde_json::from_slice(value).map_err(|error| corrupt().with_source(error))?;
        if lock.version != VERSION {
            return Err(Error::unsupported("the lock was stored by another version")
                .with("version", lock.version)
                .with("version_known", VERSION));
        }
        let holders_max = if lock.mode == Mode::Exclusive { 1 } else { HOLDERS_MAX };
        let whole = (1..=holders_max).contains(&lock.holders.len())
            && lock.holders.iter().enumerate().all(|(at, holder)| {
                check_owner(&holder.owner).and(check_cookie(&holder.cookie)).is_ok()
                    && lock.holders[..at].iter().all(|other| !other.is(&holder.owner, &holder.cookie))
            });
        if whole { Ok(lock) } else { Err(corrupt()) }
    }

    pub fn encode(&self) -> Bytes {
        json!(self).to_string().into()
    }

    /// Drops holders whose lease has ended. A lease has ended at its expiry time, not after it.
    pub fn drop_expired(&mut self, now_ms: u64) {
        self.holders.retain(|holder| holder.expires_unix_ms.is_none_or(|expires_ms| now_ms < expires_ms));
    }

    pub fn is_free(&self) -> bool {
        self.holders.is_empty()
    }

    /// Takes or renews the lock, and changes its mode if no other holder conflicts.
    pub fn acquire(
        &mut self,
        owner: &str,
        cookie: &str,
        mode: Mode,
        expires_unix_ms: Option<u64>,
    ) -> Result<()> {
        let mine = self.holders.iter().position(|holder| holder.is(owner, cookie));
        let others = self.holders.len() - usize::from(mine.is_some());
        if others > 0 && (mode == Mode::Exclusive || self.mode == Mode::Exclusive) {
            return Err(Error::busy("others hold the lock; try again later, or break it")
                .with("mode", self.mode)
                .with("holders", others));
        }
        self.mode = mode;
        match mine {
            Some(at) => self.holders[at].expires_unix_ms = expires_unix_ms,
            None if self.holders.len() >= HOLDERS_MAX => {
                return Err(
                    Error::limit_exceeded("the lock has too many holders").with("holders_max", HOLDERS_MAX)
                );
            }
            None => self.holders.push(Holder {
                owner: owner.to_owned(),
                cookie: cookie.to_owned(),
                expires_unix_ms,
            }),
        }
        Ok(())
    }

    pub fn renew(&mut self, owner: &str, cookie: &str, expires_unix_ms: Option<u64>) -> Result<()> {
        let holder = self.holders.iter_mut().find(|holder| holder.is(owner, cookie)).ok_or_else(not_held)?;
        holder.expires_unix_ms = expires_unix_ms;
        Ok(())
    }

    /// Removes a holder; without a cookie, all of the owner's. Returns whether there was one.
    pub fn remove(&mut self, owner: &str, cookie: Option<&str>) -> bool {
        let before = self.holders.len();
        self.holders
            .retain(|holder| holder.owner != owner || cookie.is_some_and(|cookie| holder.cookie != cookie));
        self.holders.len() < before
    }

    pub fn check_held(&self, owner: &str, cookie: &str, mode: Option<Mode>) -> Result<()> {
        if !self.holders.iter().any(|holder| holder.is(owner, cookie)) {
            return Err(not_held());
        }
        if mode == Some(Mode::Exclusive) && self.mode == Mode::Shared {
            return Err(Error::conflict("the lock is shared and not exclusive"));
        }
        Ok(())
    }
}

fn not_held() -> Error {
    Error::conflict("the lock is not held: it was released, was broken, or its lease ended")
}

fn corrupt() -> Error {
    Error::corrupt("the stored lock is damaged; if no client relies on it, remove its omap key lock/NAME")
}
