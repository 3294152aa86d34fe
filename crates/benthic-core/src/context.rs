//! The interface of a class method to its object.
//!
//! A class runs on every engine, and its methods must behave the same on each. A faulty method must
//! harm neither its object nor the process that it runs in, which on Ceph is an OSD. So the rules
//! for methods stand in one place: [`MethodContext`] enforces flags, limits, deadline and memory,
//! and [`call_method`] catches panics. An engine implements only [`ObjectAccess`].

use crate::{
    Clock, Error, Method, MethodFlags, OmapPage, OptionalExtension, Result, Stat, limits,
    names::check_xattr_name, op,
};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Severity of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// For the author of the class.
    Debug,
    Info,
    Error,
}

impl LogLevel {
    pub fn name(self) -> &'static str {
        match self {
            LogLevel::Debug => "debug",
            LogLevel::Info => "info",
            LogLevel::Error => "error",
        }
    }
}

/// A method of code that is not built in, such as a WebAssembly module. A built-in method runs it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GuestMethod {
    pub class: String,
    /// Identifies the code, for example by a part of its hash.
    pub version: String,
    pub method: String,
}

/// The resources that a call of a guest used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GuestCost {
    /// About one unit for an instruction.
    pub fuel: u64,
    pub memory_bytes: u64,
}

/// Access to one object during one operation. An engine implements this trait for its methods.
///
/// `read`, `get_xattr`, `list_xattrs`, `omap_get` and `omap_range` see the object as it was before
/// the operation, and return `NotFound` if it did not exist then. `stat` sees the object after the
/// steps so far. Changes are staged: the engine applies them together if the operation succeeds.
/// The caller has checked all arguments against the limits, except for `append`, which checks the
/// size of the object itself.
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
    /// Writes data at the end of the object, or creates the object.
    fn append(&mut self, data: Bytes) -> Result<()> {
        let end_bytes = self.stat().optional()?.map_or(0, |stat| stat.size_bytes);
        op::check_object_size(end_bytes.saturating_add(data.len() as u64))?;
        self.write(end_bytes, data)
    }
    fn truncate(&mut self, size_bytes: u64) -> Result<()>;
    fn zero(&mut self, offset_bytes: u64, len_bytes: u64) -> Result<()>;
    fn remove(&mut self) -> Result<()>;
    fn set_xattr(&mut self, name: &str, value: Bytes) -> Result<()>;
    fn omap_set(&mut self, entries: BTreeMap<Bytes, Bytes>) -> Result<()>;
    fn omap_remove(&mut self, keys: &[Bytes]) -> Result<()>;
    fn omap_clear(&mut self) -> Result<()>;

    fn log(&mut self, level: LogLevel, message: &str);

    /// See [`MethodContext::enter_guest`]. An engine that keeps no counters ignores it.
    fn enter_guest(&mut self, guest: GuestMethod) {
        let _ = guest;
    }

    /// See [`MethodContext::count_guest`]. An engine that keeps no counters ignores it.
    fn count_guest(&mut self, cost: GuestCost) {
        let _ = cost;
    }

    /// A number of the client that sent the operation, if the engine knows it. It lasts as long as
    /// the client's connection to the cluster.
    fn client(&self) -> Option<u64> {
        None
    }
}

/// The resource limits of one method call.
#[derive(Clone, Copy, Debug)]
pub struct MethodLimits {
    pub deadline_ms: u64,
    /// Limit on the memory that the method holds through its context.
    pub memory_bytes_max: u64,
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

/// A method's only access to its object.
///
/// - **A method reads before it writes.** After a method changes the data, reading data fails with
///   `ClassFailed`. The same holds for attributes and for the omap. An OSD handles such a read
///   badly: depending on the lengths, it returns old bytes, hangs or crashes (docs/design/0003).
///   `stat` is always allowed and shows the method's own changes.
/// - All writes commit with the operation, or none does.
/// - Every call checks the limits, the deadline and the memory budget, and fails with
///   `LimitExceeded`. A call on a missing object fails with `NotFound`, unless its docs say
///   otherwise. A read of damaged data fails with `Corrupt`.
/// - A call that the method's flags do not declare fails with `ClassFailed` before it reaches the
///   object, and the whole operation fails when the method returns. (An OSD would notice only
///   afterwards, and drop the method's own error.)
pub struct MethodContext<'a> {
    access: &'a mut dyn ObjectAccess,
    clock: &'a dyn Clock,
    flags: MethodFlags,
    /// The calls in which this one is nested.
    depth: u32,
    deadline_at_ms: u64,
    memory: Arc<MemoryBudget>,
    changed: ChangedParts,
    /// The first call that the method's flags do not declare.
    undeclared_call: Option<&'static str>,
    /// A call found that the deadline had passed.
    missed_deadline: bool,
    /// The error of the first called method that writes and failed.
    failed_write: Option<Error>,
}

/// The parts of the object that the method changed, and therefore may no longer read.
#[derive(Default)]
struct ChangedParts {
    data: bool,
    xattrs: bool,
    omap: bool,
}

/// Counts the memory that a method holds: data that it reads, until it drops them; changes that it
/// stages; and memory that it announces with [`MethodContext::charge_memory`].
struct MemoryBudget {
    used_bytes: AtomicU64,
    max_bytes: u64,
}

impl MemoryBudget {
    fn charge(&self, len_bytes: u64) -> Result<()> {
        // A method is single-threaded, so nothing else charges memory between load and store.
        let used_bytes = self.used_bytes.load(Ordering::Relaxed).saturating_add(len_bytes);
        if used_bytes > self.max_bytes {
            let message = "the method needs more memory than its limit; process less data in one call";
            return Err(Error::limit_exceeded(message)
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

/// Bytes that return their memory to the budget on drop.
struct ChargedBytes {
    data: Bytes,
    memory: Arc<MemoryBudget>,
}

impl AsRef<[u8]> for ChargedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

impl Drop for ChargedBytes {
    fn drop(&mut self) {
        self.memory.release(self.data.len() as u64);
    }
}

impl MethodContext<'_> {
    /// Returns size and modification time of the object, including the method's own changes. Needs
    /// no flag.
    pub fn stat(&mut self) -> Result<Stat> {
        self.check_deadline()?;
        self.access.stat()
    }

    /// Reads data from an offset. The result is short if the range crosses the end of the object
    /// and empty if it starts after the end. Needs `READ`. The bytes count against the memory
    /// budget until they are dropped.
    pub fn read(&mut self, offset_bytes: u64, len_bytes: u64) -> Result<Bytes> {
        self.check_read("read", self.changed.data)?;
        if len_bytes == 0 {
            return self.access.stat().map(|_| Bytes::new());
        }
        if len_bytes > limits::OPERATION_BYTES_MAX {
            let message = "one read is too large; read in smaller pieces";
            return Err(Error::limit_exceeded(message)
                .with("len_bytes", len_bytes)
                .with("len_bytes_max", limits::OPERATION_BYTES_MAX));
        }
        // Fail before the engine allocates memory for a read that exceeds the budget. `charge`
        // below charges the bytes that the read returns. The engine allocates nothing for bytes
        // beyond the end.
        let left_bytes =
            self.access.stat().map_or(len_bytes, |stat| stat.size_bytes.saturating_sub(offset_bytes));
        self.memory.charge(len_bytes.min(left_bytes))?;
        self.memory.release(len_bytes.min(left_bytes));
        let data = self.access.read(offset_bytes, len_bytes)?;
        self.charge(data)
    }

    /// Reads one attribute. Needs `READ`.
    ///
    /// # Errors
    /// `NotFound` if the attribute or the object is missing.
    pub fn get_xattr(&mut self, name: &str) -> Result<Bytes> {
        self.check_read("get_xattr", self.changed.xattrs)?;
        check_xattr_name(name)?;
        let value = self.access.get_xattr(name)?;
        self.charge(value)
    }

    /// Reads all attributes. Needs `READ`.
    pub fn list_xattrs(&mut self) -> Result<BTreeMap<String, Bytes>> {
        self.check_read("list_xattrs", self.changed.xattrs)?;
        let xattrs = self.access.list_xattrs()?;
        xattrs.into_iter().map(|(name, value)| Ok((name, self.charge(value)?))).collect()
    }

    /// Reads the entries of the given keys that exist. At most [`limits::OMAP_PAGE_ENTRIES_MAX`]
    /// keys are allowed. Needs `READ`.
    pub fn omap_get(&mut self, keys: &[Bytes]) -> Result<Vec<(Bytes, Bytes)>> {
        self.check_read("omap_get", self.changed.omap)?;
        if keys.len() > limits::OMAP_PAGE_ENTRIES_MAX {
            return Err(Error::limit_exceeded("too many omap keys in one call")
                .with("keys", keys.len())
                .with("keys_max", limits::OMAP_PAGE_ENTRIES_MAX));
        }
        keys.iter().try_for_each(|key| op::check_omap_key(key))?;
        let entries = self.access.omap_get(keys)?;
        self.charge_entries(entries)
    }

    /// Reads entries with `prefix` after `after`, in key order. A page has the limits of
    /// [`ReadStep::OmapRange`](crate::ReadStep::OmapRange); an `entries_max` of 0 counts as 1.
    /// Needs `READ`.
    pub fn omap_range(
        &mut self,
        after: Option<&[u8]>,
        prefix: &[u8],
        entries_max: usize,
    ) -> Result<OmapPage> {
        self.check_read("omap_range", self.changed.omap)?;
        let page =
            self.access.omap_range(after, prefix, entries_max.clamp(1, limits::OMAP_PAGE_ENTRIES_MAX))?;
        Ok(OmapPage { entries: self.charge_entries(page.entries)?, more: page.more })
    }

    /// Creates the object if it is missing. Needs `WRITE`.
    ///
    /// # Errors
    /// `AlreadyExists` if `exclusive` is set and the object exists.
    pub fn create(&mut self, exclusive: bool) -> Result<()> {
        self.check_write("create", 0)?;
        self.access.create(exclusive)
    }

    /// Writes data at an offset and creates the object if it is missing. A gap before the offset
    /// reads as zeros. Needs `WRITE`.
    pub fn write(&mut self, offset_bytes: u64, data: impl Into<Bytes>) -> Result<()> {
        let data = data.into();
        self.check_write("write", data.len() as u64)?;
        op::check_object_size(offset_bytes.saturating_add(data.len() as u64))?;
        self.changed.data = true;
        self.access.write(offset_bytes, data)
    }

    /// Replaces all data and creates the object if it is missing. Attributes and omap are kept.
    /// Needs `WRITE`.
    pub fn write_full(&mut self, data: impl Into<Bytes>) -> Result<()> {
        let data = data.into();
        self.check_write("write_full", data.len() as u64)?;
        op::check_object_size(data.len() as u64)?;
        self.changed.data = true;
        self.access.write_full(data)
    }

    /// Writes data at the end of the object, after the method's own changes, and creates the object
    /// if it is missing. Needs `WRITE`. A second run appends again; write at a known offset where a
    /// retry must not.
    pub fn append(&mut self, data: impl Into<Bytes>) -> Result<()> {
        let data = data.into();
        self.check_write("append", data.len() as u64)?;
        self.changed.data = true;
        self.access.append(data)
    }

    /// Cuts the data or extends it with zeros. Does nothing on a missing object. Needs `WRITE`.
    pub fn truncate(&mut self, size_bytes: u64) -> Result<()> {
        self.check_write("truncate", 0)?;
        op::check_truncate(size_bytes)?;
        self.changed.data = true;
        self.access.truncate(size_bytes)
    }

    /// Makes a range read as zeros, as [`WriteStep::Zero`](crate::WriteStep::Zero) does. Needs
    /// `WRITE`.
    pub fn zero(&mut self, offset_bytes: u64, len_bytes: u64) -> Result<()> {
        self.check_write("zero", 0)?;
        op::check_zero(offset_bytes, len_bytes)?;
        self.changed.data = true;
        self.access.zero(offset_bytes, len_bytes)
    }

    /// Removes the object. Needs `WRITE`.
    pub fn remove(&mut self) -> Result<()> {
        self.check_write("remove", 0)?;
        self.changed = ChangedParts { data: true, xattrs: true, omap: true };
        self.access.remove()
    }

    /// Sets an attribute and creates the object if it is missing. Needs `WRITE`.
    ///
    /// # Errors
    /// `LimitExceeded`, `InvalidArgument`.
    pub fn set_xattr(&mut self, name: &str, value: impl Into<Bytes>) -> Result<()> {
        let value = value.into();
        self.check_write("set_xattr", value.len() as u64)?;
        op::check_xattr(name, &value)?;
        self.changed.xattrs = true;
        self.access.set_xattr(name, value)
    }

    /// Sets omap entries and creates the object if it is missing. Needs `WRITE`.
    pub fn omap_set(&mut self, entries: BTreeMap<Bytes, Bytes>) -> Result<()> {
        self.check_write(
            "omap_set",
            entries.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum(),
        )?;
        for (key, value) in &entries {
            op::check_omap_key(key)?;
            op::check_omap_value(value)?;
        }
        self.changed.omap = true;
        self.access.omap_set(entries)
    }

    /// Removes omap keys. A missing key is not an error. Needs `WRITE`.
    pub fn omap_remove(&mut self, keys: &[Bytes]) -> Result<()> {
        self.check_write("omap_remove", keys.iter().map(|key| key.len() as u64).sum())?;
        keys.iter().try_for_each(|key| op::check_omap_key(key))?;
        self.changed.omap = true;
        self.access.omap_remove(keys)
    }

    /// Removes all omap entries. Needs `WRITE`.
    pub fn omap_clear(&mut self) -> Result<()> {
        self.check_write("omap_clear", 0)?;
        self.changed.omap = true;
        self.access.omap_clear()
    }

    pub fn log(&mut self, level: LogLevel, message: &str) {
        self.access.log(level, message);
    }

    /// Announces that the rest of the call runs a method of a guest. The engine counts the call
    /// under the guest's name, and records its log messages and its failure under that name.
    pub fn enter_guest(&mut self, guest: GuestMethod) {
        self.access.enter_guest(guest);
    }

    /// Reports the cost of the guest's call.
    pub fn count_guest(&mut self, cost: GuestCost) {
        self.access.count_guest(cost);
    }

    /// See [`ObjectAccess::client`].
    pub fn client(&self) -> Option<u64> {
        self.access.client()
    }

    /// Calls a method of another class on the same object, as a part of this call: it gets the rest
    /// of the time and of the memory, and its changes take effect together with those of this
    /// method. Returns its output, also if it writes. If a method that writes fails, this call
    /// fails too: some of its changes may be staged already.
    ///
    /// # Errors
    /// Those of the called method. `ClassFailed` if it declares a flag that this method does not
    /// declare, if it panics, or if calls are nested more deeply than [`limits::NESTED_CALLS_MAX`].
    pub fn call(&mut self, method: &Method, input: &[u8]) -> Result<Bytes> {
        self.require_flags(method.flags, "a method that has more flags")?;
        if self.depth == limits::NESTED_CALLS_MAX {
            return Err(Error::class_failed("methods call each other too deeply")
                .with("depth_max", limits::NESTED_CALLS_MAX));
        }
        let flags = std::mem::replace(&mut self.flags, method.flags);
        self.depth += 1;
        let outcome = run(method, self, input);
        self.depth -= 1;
        self.flags = flags;
        match outcome {
            Ok(output) => self.charge(Bytes::from(output)),
            Err(error) => {
                if method.flags.contains(MethodFlags::WRITE) {
                    self.failed_write.get_or_insert_with(|| Error::new(error.kind(), error.message()));
                }
                Err(error)
            }
        }
    }

    /// Time since a fixed moment, on the same clock as the deadline.
    pub fn monotonic(&self) -> Duration {
        self.clock.monotonic()
    }

    /// The store's time, in milliseconds since 1970 (UTC). On Ceph it is that of the primary OSD's
    /// host, so it may jump when another OSD takes over.
    pub fn unix_ms(&self) -> u64 {
        self.clock.unix_ns() / 1_000_000
    }

    /// The time that is left until the deadline.
    pub fn time_left(&self) -> Duration {
        Duration::from_millis(self.deadline_at_ms.saturating_sub(self.clock.monotonic_ms()))
    }

    /// Fails if the deadline has passed. A long computation that makes no other context calls must
    /// call this regularly.
    pub fn check_deadline(&mut self) -> Result<()> {
        if self.missed_deadline || self.clock.monotonic_ms() > self.deadline_at_ms {
            self.missed_deadline = true;
            return Err(deadline_exceeded());
        }
        Ok(())
    }

    /// Charges memory that the method is about to allocate itself. The charge lasts until the call
    /// ends.
    ///
    /// # Errors
    /// `LimitExceeded` if the budget is too small; the method must not allocate then.
    pub fn charge_memory(&mut self, len_bytes: u64) -> Result<()> {
        self.check_deadline()?;
        self.memory.charge(len_bytes)
    }

    fn check_read(&mut self, call: &'static str, changed: bool) -> Result<()> {
        if changed {
            let message = format!(
                "the method called {call} after it changed that part of the object; read first, then write"
            );
            return Err(Error::class_failed(message));
        }
        self.require_flags(MethodFlags::READ, call)
    }

    fn check_write(&mut self, call: &'static str, staged_bytes: u64) -> Result<()> {
        self.require_flags(MethodFlags::WRITE, call)?;
        // Staged data stays in memory until the operation ends, so its charge is never released.
        self.memory.charge(staged_bytes)
    }

    fn require_flags(&mut self, needed: MethodFlags, call: &'static str) -> Result<()> {
        if !self.flags.contains(needed) {
            self.undeclared_call.get_or_insert(call);
            return Err(undeclared(call));
        }
        self.check_deadline()
    }

    /// Charges data until the method drops them.
    fn charge(&self, data: Bytes) -> Result<Bytes> {
        if data.is_empty() {
            return Ok(data);
        }
        self.memory.charge(data.len() as u64)?;
        Ok(Bytes::from_owner(ChargedBytes { data, memory: Arc::clone(&self.memory) }))
    }

    fn charge_entries(&self, entries: Vec<(Bytes, Bytes)>) -> Result<Vec<(Bytes, Bytes)>> {
        entries.into_iter().map(|(key, value)| Ok((key, self.charge(value)?))).collect()
    }
}

fn undeclared(call: &str) -> Error {
    Error::class_failed(format!("the method called {call}, which its flags do not declare"))
}

fn deadline_exceeded() -> Error {
    Error::limit_exceeded("the method ran longer than its deadline; give it less to do in one call")
}

/// Calls a method. Every engine must use this function.
///
/// It catches panics. It fails the call if the method made an undeclared call or missed its
/// deadline, even if the method ignored the error. It drops the output of a method that writes,
/// because a write operation has no output. On an error the engine must discard everything staged
/// in `access`.
///
/// # Errors
/// The method's own error; `ClassFailed` for a panic or an undeclared call; `LimitExceeded` for
/// deadline, memory or output size.
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
        depth: 0,
        deadline_at_ms: clock.monotonic_ms().saturating_add(limits.deadline_ms),
        memory: Arc::new(MemoryBudget { used_bytes: AtomicU64::new(0), max_bytes: limits.memory_bytes_max }),
        changed: ChangedParts::default(),
        undeclared_call: None,
        missed_deadline: false,
        failed_write: None,
    };
    let outcome = run(method, &mut context, input);
    if let Some(call) = context.undeclared_call {
        let error = undeclared(call);
        context.log(LogLevel::Error, error.message());
        return Err(error);
    }
    if context.missed_deadline {
        return Err(deadline_exceeded());
    }
    let output = outcome?;
    if let Some(error) = context.failed_write {
        return Err(error);
    }
    if method.flags.contains(MethodFlags::WRITE) {
        return Ok(Bytes::new());
    }
    if output.len() > limits.output_bytes_max {
        return Err(Error::limit_exceeded("the method's output is too large")
            .with("len_bytes", output.len())
            .with("len_bytes_max", limits.output_bytes_max));
    }
    Ok(Bytes::from(output))
}

/// Runs a method. A panic becomes an error.
fn run(method: &Method, context: &mut MethodContext<'_>, input: &[u8]) -> Result<Vec<u8>> {
    catch_unwind(AssertUnwindSafe(|| (method.run)(context, input))).unwrap_or_else(|panic| {
        let message = panic
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("no message");
        let message = format!("the method panicked: {message}");
        context.log(LogLevel::Error, &message);
        Err(Error::class_failed(message))
    })
}
