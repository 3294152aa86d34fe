//! Calls of a method without an object: a function of its input.

use crate::{Error, GuestCost, GuestMethod, LogLevel, ObjectAccess, OmapPage, Result, Stat};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::time::Duration;

/// A call of a reading method as a function of its input.
#[derive(Clone, Copy, Debug)]
pub struct FunctionCall<'a> {
    /// `CLASS.METHOD`.
    pub name: &'a str,
    pub input: &'a [u8],
    /// See [`ObjectAccess::client`].
    pub client: Option<u64>,
    pub time_left: Duration,
}

/// Calls a method that may be in another library of this process.
pub type CallFunction = fn(&FunctionCall<'_>) -> Result<Bytes>;

/// An object that does not exist and cannot be created. A method that runs on it depends on its
/// input only. Its log messages are dropped.
#[derive(Debug, Default)]
pub struct NoObject {
    /// See [`ObjectAccess::client`].
    client: Option<u64>,
    guest: Option<GuestMethod>,
    cost: GuestCost,
}

impl NoObject {
    /// An object for a call of this client.
    pub fn for_client(client: Option<u64>) -> NoObject {
        NoObject { client, ..NoObject::default() }
    }

    /// The guest's method that ran, if any, and its cost.
    pub fn take_guest(&mut self) -> Option<(GuestMethod, GuestCost)> {
        Some((self.guest.take()?, self.cost))
    }
}

fn missing<T>() -> Result<T> {
    Err(Error::not_found("a method that is called as a function has no object"))
}

impl ObjectAccess for NoObject {
    fn stat(&mut self) -> Result<Stat> {
        missing()
    }

    fn read(&mut self, _: u64, _: u64) -> Result<Bytes> {
        missing()
    }

    fn get_xattr(&mut self, _: &str) -> Result<Bytes> {
        missing()
    }

    fn list_xattrs(&mut self) -> Result<BTreeMap<String, Bytes>> {
        missing()
    }

    fn omap_get(&mut self, _: &[Bytes]) -> Result<Vec<(Bytes, Bytes)>> {
        missing()
    }

    fn omap_range(&mut self, _: Option<&[u8]>, _: &[u8], _: usize) -> Result<OmapPage> {
        missing()
    }

    fn create(&mut self, _: bool) -> Result<()> {
        missing()
    }

    fn write(&mut self, _: u64, _: Bytes) -> Result<()> {
        missing()
    }

    fn write_full(&mut self, _: Bytes) -> Result<()> {
        missing()
    }

    fn truncate(&mut self, _: u64) -> Result<()> {
        missing()
    }

    fn zero(&mut self, _: u64, _: u64) -> Result<()> {
        missing()
    }

    fn remove(&mut self) -> Result<()> {
        missing()
    }

    fn set_xattr(&mut self, _: &str, _: Bytes) -> Result<()> {
        missing()
    }

    fn omap_set(&mut self, _: BTreeMap<Bytes, Bytes>) -> Result<()> {
        missing()
    }

    fn omap_remove(&mut self, _: &[Bytes]) -> Result<()> {
        missing()
    }

    fn omap_clear(&mut self) -> Result<()> {
        missing()
    }

    fn log(&mut self, _: LogLevel, _: &str) {}

    fn enter_guest(&mut self, guest: GuestMethod) {
        self.guest = Some(guest);
    }

    fn count_guest(&mut self, cost: GuestCost) {
        self.cost = cost;
    }

    fn client(&self) -> Option<u64> {
        self.client
    }
}
