//! An object in an OSD as an [`ObjectAccess`], with the rules of docs/design/0003.

use crate::ffi::{self, Context, Entry, Errno};
use crate::messages::RecentMessages;
use benthic_core::error::errno;
use benthic_core::{
    Action, Clock, ERASURE_CODED, Error, ErrorKind, GuestCost, GuestMethod, LogLevel, LogMessage,
    ObjectAccess, OmapPage, OptionalExtension, Result, Stat, SystemClock, limits,
};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};

/// Omap entries per request: with the longest values, one answer takes 64 MiB.
const OMAP_BATCH: usize = 64;

/// Levels of `debug_objclass`. The log always has level 0. Levels above 5 cost nothing by default.
const LOG_LEVEL_ERROR: i32 = 0;
const LOG_LEVEL_INFO: i32 = 1;
const LOG_LEVEL_DEBUG: i32 = 20;

/// The type of a client in Ceph's messages.
const SENDER_CLIENT: u8 = 8;

/// Names the running method in log lines, and keeps its messages.
pub struct Caller<'a> {
    pub library: &'a str,
    pub class: &'a str,
    pub method: &'a str,
    pub messages: &'a RecentMessages,
}

/// One object during one method call.
pub struct OsdObject<'a> {
    context: Context<'a>,
    caller: Caller<'a>,
    /// The guest method that runs.
    guest: Option<GuestMethod>,
    /// The guest's fuel and memory.
    cost: GuestCost,
    /// Whether the object existed before the operation; `None` until it is known.
    existed: Option<bool>,
}

impl OsdObject<'_> {
    pub fn new<'a>(context: Context<'a>, caller: Caller<'a>) -> OsdObject<'a> {
        OsdObject { context, caller, guest: None, cost: GuestCost::default(), existed: None }
    }

    /// The guest's method that ran, if any, and its cost.
    pub fn take_guest(&mut self) -> Option<(GuestMethod, GuestCost)> {
        Some((self.guest.take()?, self.cost))
    }

    /// The sender of the operation, such as `client.4123`.
    pub fn sender(&self) -> String {
        match self.context.sender() {
            Ok((SENDER_CLIENT, number)) => format!("client.{number}"),
            Ok((_, number)) => format!("other.{number}"),
            Err(_) => "unknown".to_owned(),
        }
    }

    /// Checks once, before any change: `stat` sees the operation's own changes, and to all other
    /// reads a missing object looks empty.
    fn check_existence(&mut self) -> Result<bool> {
        if let Some(existed) = self.existed {
            return Ok(existed);
        }
        let existed = self.stat().optional()?.is_some();
        self.existed = Some(existed);
        Ok(existed)
    }

    fn before_read(&mut self) -> Result<()> {
        if self.check_existence()? { Ok(()) } else { Err(no_such_object()) }
    }

    fn before_change(&mut self) -> Result<()> {
        self.check_existence().map(|_| ())
    }
}

impl ObjectAccess for OsdObject<'_> {
    fn stat(&mut self) -> Result<Stat> {
        match self.context.stat() {
            Ok((size_bytes, modified_unix_ns)) => Ok(Stat { size_bytes, modified_unix_ns }),
            Err(errno) => Err(call_error("stat", Action::Read)(errno)),
        }
    }

    fn read(&mut self, offset_bytes: u64, len_bytes: u64) -> Result<Bytes> {
        self.before_read()?;
        // No object is larger, and ceph-osd's numbers have 31 bits.
        let len_bytes = len_bytes.min(limits::OBJECT_BYTES_MAX.saturating_sub(offset_bytes));
        if len_bytes == 0 {
            return Ok(Bytes::new());
        }
        self.context.read(offset_bytes, len_bytes).map_err(call_error("read", Action::Read))
    }

    fn get_xattr(&mut self, name: &str) -> Result<Bytes> {
        self.before_read()?;
        self.context
            .get_xattr(name)
            .map_err(|errno| call_error("get_xattr", Action::Read)(errno).with("attribute", name))
    }

    fn list_xattrs(&mut self) -> Result<BTreeMap<String, Bytes>> {
        self.before_read()?;
        let xattrs = self.context.list_xattrs().map_err(call_error("list_xattrs", Action::Read))?;
        xattrs
            .into_iter()
            .map(|(name, value)| match String::from_utf8(name.to_vec()) {
                Ok(name) => Ok((name, value)),
                Err(error) => {
                    let message = "the object has an attribute of another client whose name is not UTF-8";
                    Err(Error::unsupported(message).with_source(error))
                }
            })
            .collect()
    }

    fn omap_get(&mut self, keys: &[Bytes]) -> Result<Vec<Entry>> {
        self.before_read()?;
        let keys: Vec<&Bytes> = keys.iter().collect::<BTreeSet<_>>().into_iter().collect();
        let mut found = Vec::new();
        let mut len_bytes = 0;
        for batch in keys.chunks(OMAP_BATCH) {
            let entries = self.context.omap_get(batch).map_err(call_error("omap_get", Action::Read))?;
            len_bytes += entries.iter().map(entry_bytes).sum::<usize>();
            // The context would also refuse this, but only after reading all values.
            if len_bytes as u64 > limits::METHOD_MEMORY_BYTES_MAX {
                let message = "the method reads too many omap values at once; get fewer keys in one call";
                return Err(Error::limit_exceeded(message).with("keys", keys.len()));
            }
            found.extend(entries);
        }
        Ok(found)
    }

    fn omap_range(&mut self, after: Option<&[u8]>, prefix: &[u8], entries_max: usize) -> Result<OmapPage> {
        self.before_read()?;
        let mut page = OmapPage::default();
        let mut len_bytes = 0;
        let mut after = Bytes::copy_from_slice(after.unwrap_or_default());
        loop {
            let wanted = OMAP_BATCH.min(entries_max - page.entries.len());
            let (entries, more) = self
                .context
                .omap_range(&after, prefix, wanted)
                .map_err(call_error("omap_range", Action::Read))?;
            page.more = more;
            let Some((last, _)) = entries.last() else {
                return Ok(page);
            };
            after = last.clone();
            for entry in entries {
                if len_bytes >= limits::OMAP_PAGE_BYTES_MAX {
                    page.more = true;
                    return Ok(page);
                }
                len_bytes += entry_bytes(&entry);
                page.entries.push(entry);
            }
            let full = page.entries.len() >= entries_max || len_bytes >= limits::OMAP_PAGE_BYTES_MAX;
            if full || !page.more {
                return Ok(page);
            }
        }
    }

    fn create(&mut self, exclusive: bool) -> Result<()> {
        self.before_change()?;
        self.context.create(exclusive).map_err(call_error("create", Action::Write))
    }

    fn write(&mut self, offset_bytes: u64, data: Bytes) -> Result<()> {
        if data.is_empty() {
            return self.create(false);
        }
        self.before_change()?;
        self.context.write(offset_bytes, &data).map_err(call_error("write", Action::Write))
    }

    fn write_full(&mut self, data: Bytes) -> Result<()> {
        self.before_change()?;
        self.context.write_full(&data).map_err(call_error("write_full", Action::Write))
    }

    fn truncate(&mut self, size_bytes: u64) -> Result<()> {
        self.before_change()?;
        self.context.truncate(size_bytes).map_err(call_error("truncate", Action::Write))
    }

    fn zero(&mut self, offset_bytes: u64, len_bytes: u64) -> Result<()> {
        self.before_change()?;
        self.context.zero(offset_bytes, len_bytes).map_err(call_error("zero", Action::Write))
    }

    fn remove(&mut self) -> Result<()> {
        self.before_change()?;
        self.context.remove().map_err(call_error("remove", Action::Write))
    }

    fn set_xattr(&mut self, name: &str, value: Bytes) -> Result<()> {
        self.before_change()?;
        self.context.set_xattr(name, &value).map_err(call_error("set_xattr", Action::Write))
    }

    fn omap_set(&mut self, entries: BTreeMap<Bytes, Bytes>) -> Result<()> {
        if entries.is_empty() {
            return self.create(false);
        }
        self.before_change()?;
        self.context.omap_set(&entries).map_err(call_error("omap_set", Action::Write))
    }

    fn omap_remove(&mut self, keys: &[Bytes]) -> Result<()> {
        self.before_change()?;
        if keys.is_empty() {
            return self.stat().map(|_| ());
        }
        keys.iter()
            .try_for_each(|key| self.context.omap_remove(key))
            .map_err(call_error("omap_remove", Action::Write))
    }

    fn omap_clear(&mut self) -> Result<()> {
        self.before_change()?;
        self.context.omap_clear().map_err(call_error("omap_clear", Action::Write))
    }

    fn log(&mut self, level: LogLevel, message: &str) {
        let osd_level = match level {
            LogLevel::Debug => LOG_LEVEL_DEBUG,
            LogLevel::Info => LOG_LEVEL_INFO,
            LogLevel::Error => LOG_LEVEL_ERROR,
        };
        let Caller { library, class, method, messages } = self.caller;
        let (class, method) =
            self.guest.as_ref().map_or((class, method), |guest| (&guest.class[..], &guest.method[..]));
        // One call writes one line, even if the message contains control characters.
        let line = format!("{library} {class}.{method}: {message}").replace(char::is_control, " ");
        ffi::log(osd_level, &line);
        messages.add(LogMessage {
            unix_ms: SystemClock.unix_ns() / 1_000_000,
            class: class.to_owned(),
            version: self.guest.as_ref().map(|guest| guest.version.clone()),
            method: method.to_owned(),
            client: self.sender(),
            level: level.name().to_owned(),
            text: message.to_owned(),
        });
    }

    fn enter_guest(&mut self, guest: GuestMethod) {
        self.guest = Some(guest);
    }

    fn count_guest(&mut self, cost: GuestCost) {
        self.cost = cost;
    }

    fn client(&self) -> Option<u64> {
        self.context.sender().ok().and_then(|(_, number)| number.try_into().ok())
    }
}

fn entry_bytes((key, value): &Entry) -> usize {
    key.len() + value.len()
}

fn no_such_object() -> Error {
    Error::not_found("no such object")
}

fn call_error(call: &'static str, action: Action) -> impl Fn(Errno) -> Error {
    move |Errno(errno)| {
        let kind = ErrorKind::from_errno(errno, action);
        match errno {
            errno::ENOENT => no_such_object(),
            errno::ENODATA => Error::new(kind, "no such attribute"),
            errno::EEXIST => Error::new(kind, "the object already exists"),
            errno::EOPNOTSUPP => Error::new(kind, ERASURE_CODED),
            _ => Error::new(kind, "the OSD refused the operation").with("call", call).with("errno", errno),
        }
    }
}
