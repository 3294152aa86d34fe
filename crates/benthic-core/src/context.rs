//! What a class method sees, and the one place where its promises are enforced, for every engine.

use crate::{
    Clock, Error, ErrorKind, Method, MethodFlags, OmapPage, Result, Stat, limits, names::check_xattr_name, op,
};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How important a line in the log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// For the author of the class.
    Debug,
    /// For whoever reads the log.
    Info,
    /// Something is wrong.
    Error,
}

/// One object during one operation, as an engine gives it to its methods.
///
/// `read`, `get_xattr`, `list_xattrs`, `omap_get` and `omap_range` show the object before the operation and answer
/// `NotFound` if it did not exist then; `stat` shows it after the steps so far. Changes are staged; the engine applies
/// them together when the operation succeeds. Arguments were checked against the limits.
#[allow(missing_docs, reason = "the operations are documented at ReadStep, WriteStep and MethodContext")]
pub trait ObjectAccess {
    fn stat(&mut self) -> Result<Stat>;
    fn read(&mut self, offset_bytes: u64, len_bytes: u64) -> Result<Bytes>;
    fn get_xattr(&mut self, name: &str) -> Result<Bytes>;
    fn list_xattrs(&mut self) -> Result<BTreeMap<String, Bytes>>;
    fn omap_get(&mut self, keys: &[Bytes]) -> Result<Vec<(Bytes, Bytes)>>;
    fn omap_range(&mut self, after: Option<&[u8]>, prefix: &[u8], entries_max: usize) -> Result<OmapPage>;

    fn create(&mut self, exclusive: bool) -> Result<()>;
    fn write(&mut self, offset_bytes: u64, data: Bytes) -> Result<()>;
    fn write_full(&mut self, data: Bytes) -> Result<()>;
    fn truncate(&mut self, size_bytes: u64) -> Result<()>;
    fn zero(&mut self, offset_bytes: u64, len_bytes: u64) -> Result<()>;
    fn remove(&mut self) -> Result<()>;
    fn set_xattr(&mut self, name: &str, value: Bytes) -> Result<()>;
    fn omap_set(&mut self, entries: BTreeMap<Bytes, Bytes>) -> Result<()>;
    fn omap_remove(&mut self, keys: &[Bytes]) -> Result<()>;
    fn omap_clear(&mut self) -> Result<()>;

    fn log(&mut self, level: LogLevel, message: &str);
}

/// What one call of a method may use.
#[derive(Clone, Copy, Debug)]
pub struct MethodLimits {
    /// Time.
    pub deadline_ms: u64,
    /// Memory that it holds through its context.
    pub memory_bytes_max: u64,
    /// Size of its output.
    pub output_bytes_max: usize,
}

impl Default for MethodLimits {
    fn default() -> MethodLimits {
        MethodLimits {
            deadline_ms: limits::METHOD_DEADLINE_MS,
            memory_bytes_max: limits::METHOD_MEMORY_BYTES_MAX,
            output_bytes_max: limits::METHOD_OUTPUT_BYTES_MAX,
        }
    }
}

/// What a method sees of its object, and all that it sees.
///
/// - **A method reads before it writes.** Once it changed the data it may not read data, and likewise attributes and
///   omap: `ClassFailed`. (An OSD answers such reads with old bytes, an endless wait, or a crash, depending on the
///   lengths: docs/design/0003.) `stat` is always allowed and shows what the method did so far.
/// - Writes commit with the operation or not at all.
/// - Every call checks the limits, the deadline and the memory budget.
/// - A call that was not declared in the method's flags fails the whole operation when the method returns.
pub struct MethodContext<'a> {
    access: &'a mut dyn ObjectAccess,
    clock: &'a dyn Clock,
    flags: MethodFlags,
    deadline_at_ms: u64,
    memory: Arc<Memory>,
    changed: Changed,
    undeclared: Option<&'static str>,
    late: bool,
}

/// What a method changed so far, and so may no longer read.
#[derive(Default)]
struct Changed {
    data: bool,
    xattrs: bool,
    omap: bool,
}

struct Memory {
    used_bytes: AtomicU64,
    max_bytes: u64,
}

impl Memory {
    fn charge(&self, len_bytes: u64) -> Result<()> {
        // A method is single-threaded: nobody else adds between these two lines.
        let used_bytes = self.used_bytes.load(Ordering::Relaxed).saturating_add(len_bytes);
        if used_bytes > self.max_bytes {
            return Err(Error::new(
                ErrorKind::LimitExceeded,
                "the method wants more memory than it may have",
            )
            .with("wanted_bytes", used_bytes)
            .with("memory_bytes_max", self.max_bytes));
        }
        self.used_bytes.store(used_bytes, Ordering::Relaxed);
        Ok(())
    }

    fn release(&self, len_bytes: u64) {
        self.used_bytes.fetch_sub(len_bytes, Ordering::Relaxed);
    }
}

/// Bytes that give their memory back to the budget when they are dropped.
struct Charged {
    data: Bytes,
    memory: Arc<Memory>,
}

impl AsRef<[u8]> for Charged {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

impl Drop for Charged {
    fn drop(&mut self) {
        self.memory.release(self.data.len() as u64);
    }
}

impl MethodContext<'_> {
    /// Size and time of the object, as the method left it so far. Every method may.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn stat(&mut self) -> Result<Stat> {
        self.check_deadline()?;
        self.access.stat()
    }

    /// Data from an offset; short at the end, empty behind it. Needs `READ`. The bytes count against the memory
    /// budget until they are dropped.
    ///
    /// # Errors
    /// `NotFound`, `Corrupt`, `LimitExceeded`.
    pub fn read(&mut self, offset_bytes: u64, len_bytes: u64) -> Result<Bytes> {
        self.reads("read", self.changed.data)?;
        if len_bytes == 0 {
            return self.access.stat().map(|_| Bytes::new());
        }
        if len_bytes > limits::OPERATION_BYTES_MAX {
            return Err(Error::new(
                ErrorKind::LimitExceeded,
                "one read is too large; read in smaller pieces",
            )
            .with("len_bytes", len_bytes)
            .with("len_bytes_max", limits::OPERATION_BYTES_MAX));
        }
        // What is behind the end is never allocated, so it is not charged.
        let size_bytes =
            self.access.stat().map_or(len_bytes, |stat| stat.size_bytes.saturating_sub(offset_bytes));
        self.memory.charge(len_bytes.min(size_bytes))?;
        self.memory.release(len_bytes.min(size_bytes));
        let data = self.access.read(offset_bytes, len_bytes)?;
        self.charged(data)
    }

    /// One attribute. Needs `READ`.
    ///
    /// # Errors
    /// `NotFound` if the attribute or the object is missing.
    pub fn get_xattr(&mut self, name: &str) -> Result<Bytes> {
        self.reads("get_xattr", self.changed.xattrs)?;
        check_xattr_name(name)?;
        let value = self.access.get_xattr(name)?;
        self.charged(value)
    }

    /// All attributes. Needs `READ`.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn list_xattrs(&mut self) -> Result<BTreeMap<String, Bytes>> {
        self.reads("list_xattrs", self.changed.xattrs)?;
        let xattrs = self.access.list_xattrs()?;
        xattrs.into_iter().map(|(name, value)| Ok((name, self.charged(value)?))).collect()
    }

    /// Those of the given keys (at most [`limits::OMAP_PAGE_ENTRIES_MAX`]) that are there. Needs `READ`.
    ///
    /// # Errors
    /// `NotFound` if the object is missing, `LimitExceeded`.
    pub fn omap_get(&mut self, keys: &[Bytes]) -> Result<Vec<(Bytes, Bytes)>> {
        self.reads("omap_get", self.changed.omap)?;
        if keys.len() > limits::OMAP_PAGE_ENTRIES_MAX {
            return Err(Error::new(ErrorKind::LimitExceeded, "too many omap keys in one call")
                .with("keys", keys.len())
                .with("keys_max", limits::OMAP_PAGE_ENTRIES_MAX));
        }
        keys.iter().try_for_each(|key| op::check_omap_key(key))?;
        let entries = self.access.omap_get(keys)?;
        self.charged_entries(entries)
    }

    /// Entries in key order behind `after`, with `prefix`; a page as of
    /// [`ReadStep::OmapRange`](crate::ReadStep::OmapRange), of 1 entry at least. Needs `READ`.
    ///
    /// # Errors
    /// `NotFound` if the object is missing.
    pub fn omap_range(
        &mut self,
        after: Option<&[u8]>,
        prefix: &[u8],
        entries_max: usize,
    ) -> Result<OmapPage> {
        self.reads("omap_range", self.changed.omap)?;
        let page =
            self.access.omap_range(after, prefix, entries_max.clamp(1, limits::OMAP_PAGE_ENTRIES_MAX))?;
        Ok(OmapPage { entries: self.charged_entries(page.entries)?, more: page.more })
    }

    /// Makes the object exist. Needs `WRITE`.
    ///
    /// # Errors
    /// `AlreadyExists` if exclusive and it does.
    pub fn create(&mut self, exclusive: bool) -> Result<()> {
        self.writes("create", 0)?;
        self.access.create(exclusive)
    }

    /// Writes data; creates the object; a gap reads as zeros. Needs `WRITE`.
    ///
    /// # Errors
    /// `LimitExceeded`.
    pub fn write(&mut self, offset_bytes: u64, data: impl Into<Bytes>) -> Result<()> {
        let data = data.into();
        self.writes("write", data.len() as u64)?;
        op::check_object_size(offset_bytes.saturating_add(data.len() as u64))?;
        self.changed.data = true;
        self.access.write(offset_bytes, data)
    }

    /// Replaces all data; creates the object; attributes and omap stay. Needs `WRITE`.
    ///
    /// # Errors
    /// `LimitExceeded`.
    pub fn write_full(&mut self, data: impl Into<Bytes>) -> Result<()> {
        let data = data.into();
        self.writes("write_full", data.len() as u64)?;
        op::check_object_size(data.len() as u64)?;
        self.changed.data = true;
        self.access.write_full(data)
    }

    /// Cuts, or extends with zeros; nothing on a missing object. Needs `WRITE`.
    ///
    /// # Errors
    /// `LimitExceeded`.
    pub fn truncate(&mut self, size_bytes: u64) -> Result<()> {
        self.writes("truncate", 0)?;
        op::check_truncate(size_bytes)?;
        self.changed.data = true;
        self.access.truncate(size_bytes)
    }

    /// Makes a range read as zeros, as [`WriteStep::Zero`](crate::WriteStep::Zero). Needs `WRITE`.
    ///
    /// # Errors
    /// `LimitExceeded`.
    pub fn zero(&mut self, offset_bytes: u64, len_bytes: u64) -> Result<()> {
        self.writes("zero", 0)?;
        op::check_zero(offset_bytes, len_bytes)?;
        self.changed.data = true;
        self.access.zero(offset_bytes, len_bytes)
    }

    /// Removes the object. Needs `WRITE`.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn remove(&mut self) -> Result<()> {
        self.writes("remove", 0)?;
        self.changed = Changed { data: true, xattrs: true, omap: true };
        self.access.remove()
    }

    /// Sets an attribute; creates the object. Needs `WRITE`.
    ///
    /// # Errors
    /// `LimitExceeded`, `InvalidArgument`.
    pub fn set_xattr(&mut self, name: &str, value: impl Into<Bytes>) -> Result<()> {
        let value = value.into();
        self.writes("set_xattr", value.len() as u64)?;
        op::check_xattr(name, &value)?;
        self.changed.xattrs = true;
        self.access.set_xattr(name, value)
    }

    /// Sets omap entries; creates the object. Needs `WRITE`.
    ///
    /// # Errors
    /// `LimitExceeded`.
    pub fn omap_set(&mut self, entries: BTreeMap<Bytes, Bytes>) -> Result<()> {
        self.writes("omap_set", entries.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum())?;
        for (key, value) in &entries {
            op::check_omap_key(key)?;
            op::check_omap_value(value)?;
        }
        self.changed.omap = true;
        self.access.omap_set(entries)
    }

    /// Removes omap keys; a missing key is no error. Needs `WRITE`.
    ///
    /// # Errors
    /// `NotFound` if the object is missing.
    pub fn omap_remove(&mut self, keys: &[Bytes]) -> Result<()> {
        self.writes("omap_remove", keys.iter().map(|key| key.len() as u64).sum())?;
        keys.iter().try_for_each(|key| op::check_omap_key(key))?;
        self.changed.omap = true;
        self.access.omap_remove(keys)
    }

    /// Removes all omap entries. Needs `WRITE`.
    ///
    /// # Errors
    /// `NotFound` if the object is missing.
    pub fn omap_clear(&mut self) -> Result<()> {
        self.writes("omap_clear", 0)?;
        self.changed.omap = true;
        self.access.omap_clear()
    }

    /// Writes a line to the log of the engine.
    pub fn log(&mut self, level: LogLevel, message: &str) {
        self.access.log(level, message);
    }

    /// Time since a fixed moment, by the clock of the deadline.
    pub fn monotonic(&self) -> Duration {
        self.clock.monotonic()
    }

    /// Fails when the deadline has passed. Long computations that make no other call of the context call this.
    ///
    /// # Errors
    /// `LimitExceeded`.
    pub fn check_deadline(&mut self) -> Result<()> {
        if self.late || self.clock.monotonic_ms() > self.deadline_at_ms {
            self.late = true;
            return Err(too_late());
        }
        Ok(())
    }

    /// Charges memory that the method is about to allocate itself. It stays charged until the call ends.
    ///
    /// # Errors
    /// `LimitExceeded` if the budget does not hold it; then do not allocate.
    pub fn charge_memory(&mut self, len_bytes: u64) -> Result<()> {
        self.check_deadline()?;
        self.memory.charge(len_bytes)
    }

    fn reads(&mut self, call: &'static str, changed: bool) -> Result<()> {
        if changed {
            let message =
                format!("the method calls {call} after it changed what it reads; read first, then write");
            return Err(Error::new(ErrorKind::ClassFailed, message));
        }
        self.declared(MethodFlags::READ, call)
    }

    fn writes(&mut self, call: &'static str, staged_bytes: u64) -> Result<()> {
        self.declared(MethodFlags::WRITE, call)?;
        // Staged data lives until the operation ends, so this is never released.
        self.memory.charge(staged_bytes)
    }

    fn declared(&mut self, needed: MethodFlags, call: &'static str) -> Result<()> {
        if !self.flags.contains(needed) {
            self.undeclared.get_or_insert(call);
        }
        self.check_deadline()
    }

    fn charged(&self, data: Bytes) -> Result<Bytes> {
        if data.is_empty() {
            return Ok(data);
        }
        self.memory.charge(data.len() as u64)?;
        Ok(Bytes::from_owner(Charged { data, memory: Arc::clone(&self.memory) }))
    }

    fn charged_entries(&self, entries: Vec<(Bytes, Bytes)>) -> Result<Vec<(Bytes, Bytes)>> {
        entries.into_iter().map(|(key, value)| Ok((key, self.charged(value)?))).collect()
    }
}

fn too_late() -> Error {
    Error::new(
        ErrorKind::LimitExceeded,
        "the method ran longer than its deadline; give it less to do in one call",
    )
}

/// Calls a method as every engine must: panics are caught, undeclared work and a passed deadline fail the call even
/// if the method ignored them, the output of a write method is dropped. On an error the engine discards all that
/// was staged in `access`.
///
/// # Errors
/// What the method returned; `ClassFailed` for a panic or undeclared work; `LimitExceeded` for deadline, memory or
/// output.
pub fn call_method(
    method: &Method,
    access: &mut dyn ObjectAccess,
    clock: &dyn Clock,
    limits: MethodLimits,
    input: &[u8],
) -> Result<Bytes> {
    let mut context = MethodContext {
        access,
        clock,
        flags: method.flags,
        deadline_at_ms: clock.monotonic_ms().saturating_add(limits.deadline_ms),
        memory: Arc::new(Memory { used_bytes: AtomicU64::new(0), max_bytes: limits.memory_bytes_max }),
        changed: Changed::default(),
        undeclared: None,
        late: false,
    };
    let outcome = catch_unwind(AssertUnwindSafe(|| (method.run)(&mut context, input)));
    let output = match outcome {
        Ok(returned) => {
            if let Some(call) = context.undeclared {
                let message = format!("the method called {call}, which its flags do not declare");
                context.log(LogLevel::Error, &message);
                return Err(Error::new(ErrorKind::ClassFailed, message));
            }
            if context.late {
                return Err(too_late());
            }
            returned?
        }
        Err(panic) => {
            let message = panic
                .downcast_ref::<&str>()
                .copied()
                .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
                .unwrap_or("no message");
            let message = format!("the method panicked: {message}");
            context.log(LogLevel::Error, &message);
            return Err(Error::new(ErrorKind::ClassFailed, message));
        }
    };
    if method.flags.contains(MethodFlags::WRITE) {
        return Ok(Bytes::new());
    }
    if output.len() > limits.output_bytes_max {
        return Err(Error::new(ErrorKind::LimitExceeded, "the method's output is too large")
            .with("len_bytes", output.len())
            .with("len_bytes_max", limits.output_bytes_max));
    }
    Ok(Bytes::from(output))
}
