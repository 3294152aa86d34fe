//! Operations on one object. Each read or write operation is atomic and takes one round trip.

use crate::{Error, Fetch, Result, limits, names};
use bytes::Bytes;
use std::collections::BTreeMap;

/// How a guard compares the stored value with the given value: `stored OP given`, bytewise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    Eq,
    Ne,
    Gt,
    Ge,
    Lt,
    Le,
}

impl Compare {
    /// Returns true if `stored OP given` holds.
    pub fn holds(self, stored: &[u8], given: &[u8]) -> bool {
        match self {
            Compare::Eq => stored == given,
            Compare::Ne => stored != given,
            Compare::Gt => stored > given,
            Compare::Ge => stored >= given,
            Compare::Lt => stored < given,
            Compare::Le => stored <= given,
        }
    }
}

/// A condition on the object's state before the operation. The engine checks all guards before it
/// runs any step. If a guard fails, the operation fails with `Conflict` and changes nothing. A
/// guard on a missing object fails with `NotFound`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Guard {
    /// The object exists.
    Exists,
    /// The object has exactly this version.
    Version(u64),
    /// Compares an attribute with a given value; all comparisons are allowed. A missing attribute
    /// compares as an empty value.
    Xattr { name: String, compare: Compare, value: Bytes },
    /// The omap value equals the given value. A missing key counts as an empty value. Only equality
    /// is offered, because no other omap comparison of an OSD orders all bytes.
    Omap { key: Bytes, value: Bytes },
}

/// A call of a class method within an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassCall {
    pub class: String,
    pub method: String,
    /// The format is defined by the method's documentation.
    pub input: Bytes,
}

/// The operation to which an engine lowers [`Pool::exec`](crate::Pool::exec): one method call
/// alone.
pub enum ExecOp {
    /// Calls a method that does not write, and returns its output.
    Read(Fetch<Bytes>),
    /// Calls a method that writes. It has no output.
    Write(WriteOp),
}

impl ClassCall {
    pub fn new(class: impl Into<String>, method: impl Into<String>, input: impl Into<Bytes>) -> ClassCall {
        ClassCall { class: class.into(), method: method.into(), input: input.into() }
    }

    /// Checks the call against the [limits]. Returns its size in bytes, counted as
    /// [`limits::OPERATION_BYTES_MAX`] describes.
    ///
    /// # Errors
    /// `InvalidArgument`, `LimitExceeded`.
    pub fn check(&self) -> Result<u64> {
        let mut size = OperationSize::default();
        size.call(self)?;
        Ok(size.len_bytes)
    }

    /// The operation that runs this call alone. `writes` says whether the method's flags include
    /// `WRITE`.
    pub fn into_op(self, writes: bool) -> ExecOp {
        if writes {
            ExecOp::Write(WriteOp { steps: vec![self.into()], ..WriteOp::new() })
        } else {
            ExecOp::Read(Fetch::exec(self))
        }
    }
}

/// One step of a read operation. Each step adds one output to the reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadStep {
    /// Reads data from an offset. The output is short if the range crosses the end of the object
    /// and empty if it starts after the end. Holes read as zeros. A length of 0 reads nothing.
    Read { offset_bytes: u64, len_bytes: u64 },
    /// Returns the size and the time of the last change.
    Stat,
    /// Returns one attribute. A missing attribute is `NotFound`.
    GetXattr { name: String },
    /// Returns all attributes.
    ListXattrs,
    /// Returns the entries of the given keys that exist, each once, in bytewise key order.
    OmapGet { keys: Vec<Bytes> },
    /// Returns a page of entries in bytewise key order, only of keys after `after` and with
    /// `prefix`. `entries_max` must be at least 1. A page never exceeds
    /// [`limits::OMAP_PAGE_ENTRIES_MAX`] entries and about [`limits::OMAP_PAGE_BYTES_MAX`] bytes.
    OmapRange { after: Option<Bytes>, prefix: Bytes, entries_max: usize },
    /// Returns the output of a `READ` method.
    Exec(ClassCall),
}

/// One step of a write operation. A step sees the size and existence that earlier steps produced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteStep {
    /// Creates the object if it is missing. With `exclusive`, an existing object is
    /// `AlreadyExists`.
    Create { exclusive: bool },
    /// Writes data at an offset. A gap before the offset reads as zeros. Empty data creates the
    /// object but does not change its size.
    Write { offset_bytes: u64, data: Bytes },
    /// Replaces all data. Attributes and omap are kept.
    WriteFull { data: Bytes },
    /// Writes data at the end of the object.
    Append { data: Bytes },
    /// Cuts the data, or extends it with zeros, to a size less than [`limits::OBJECT_BYTES_MAX`].
    /// On a missing object the step does nothing.
    Truncate { size_bytes: u64 },
    /// Makes a range of at least one byte read as zeros. If the range reaches the end of the
    /// object, the object is truncated to the range's offset, as in RADOS. Beyond the end and on a
    /// missing object the step does nothing.
    Zero { offset_bytes: u64, len_bytes: u64 },
    /// Removes the object with its attributes and omap. A missing object is `NotFound`.
    Remove,
    /// Sets an attribute.
    SetXattr { name: String, value: Bytes },
    /// Removes an attribute. A missing attribute is not an error; a missing object is `NotFound`.
    RemoveXattr { name: String },
    /// Sets omap entries.
    OmapSet { entries: BTreeMap<Bytes, Bytes> },
    /// Removes omap keys. A missing key is not an error; a missing object is `NotFound`.
    OmapRemove { keys: Vec<Bytes> },
    /// Removes all omap entries. A missing object is `NotFound`.
    OmapClear,
    /// Runs a method and drops its output. An operation has at most one method call, and it must be
    /// the first step: on an OSD, a method that reads data changed by an earlier step gets old
    /// bytes at best and crashes the OSD at worst (docs/design/0003).
    Exec(ClassCall),
}

/// When an acknowledged write survives a power cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// From the acknowledgement on.
    #[default]
    Durable,
    /// Once a later `flush` or durable operation on the same store is acknowledged. After a crash
    /// the store contains a prefix of the acknowledged operations. On Ceph every write is durable.
    Buffered,
}

/// An atomic read operation. Its guards and steps see one state of the object. Each builder method
/// adds the guard or step of its name.
///
/// The operation fails at the first step that fails. A missing object is `NotFound`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadOp {
    pub guards: Vec<Guard>,
    pub steps: Vec<ReadStep>,
}

/// An atomic write operation: all guards hold and all steps happen, or nothing changes. Each
/// builder method adds the guard or step of its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteOp {
    pub guards: Vec<Guard>,
    pub steps: Vec<WriteStep>,
    pub durability: Durability,
}

macro_rules! guard_builders {
    () => {
        #[must_use]
        pub fn assert_exists(mut self) -> Self {
            self.guards.push(Guard::Exists);
            self
        }

        #[must_use]
        pub fn assert_version(mut self, version: u64) -> Self {
            self.guards.push(Guard::Version(version));
            self
        }

        #[must_use]
        pub fn cmp_xattr(
            mut self,
            name: impl Into<String>,
            compare: Compare,
            value: impl Into<Bytes>,
        ) -> Self {
            self.guards.push(Guard::Xattr { name: name.into(), compare, value: value.into() });
            self
        }

        #[must_use]
        pub fn cmp_omap(mut self, key: impl Into<Bytes>, value: impl Into<Bytes>) -> Self {
            self.guards.push(Guard::Omap { key: key.into(), value: value.into() });
            self
        }

        #[must_use]
        pub fn exec(
            mut self,
            class: impl Into<String>,
            method: impl Into<String>,
            input: impl Into<Bytes>,
        ) -> Self {
            self.steps.push(ClassCall::new(class, method, input).into());
            self
        }
    };
}

impl From<ClassCall> for ReadStep {
    fn from(call: ClassCall) -> ReadStep {
        ReadStep::Exec(call)
    }
}

impl From<ClassCall> for WriteStep {
    fn from(call: ClassCall) -> WriteStep {
        WriteStep::Exec(call)
    }
}

impl ReadOp {
    pub fn new() -> ReadOp {
        ReadOp::default()
    }

    guard_builders!();

    #[must_use]
    pub fn read(self, offset_bytes: u64, len_bytes: u64) -> ReadOp {
        self.step(ReadStep::Read { offset_bytes, len_bytes })
    }

    #[must_use]
    pub fn stat(self) -> ReadOp {
        self.step(ReadStep::Stat)
    }

    #[must_use]
    pub fn get_xattr(self, name: impl Into<String>) -> ReadOp {
        self.step(ReadStep::GetXattr { name: name.into() })
    }

    #[must_use]
    pub fn list_xattrs(self) -> ReadOp {
        self.step(ReadStep::ListXattrs)
    }

    #[must_use]
    pub fn omap_get<K: Into<Bytes>>(self, keys: impl IntoIterator<Item = K>) -> ReadOp {
        self.step(ReadStep::OmapGet { keys: keys.into_iter().map(Into::into).collect() })
    }

    #[must_use]
    pub fn omap_range(self, after: Option<Bytes>, prefix: impl Into<Bytes>, entries_max: usize) -> ReadOp {
        self.step(ReadStep::OmapRange { after, prefix: prefix.into(), entries_max })
    }

    fn step(mut self, step: ReadStep) -> ReadOp {
        self.steps.push(step);
        self
    }

    /// Checks the operation against the [limits]. Every engine calls this before it runs the
    /// operation. Returns the known part of the operation's size in bytes, request and reply
    /// together, counted as [`limits::OPERATION_BYTES_MAX`] describes.
    ///
    /// # Errors
    /// `InvalidArgument`, `LimitExceeded`.
    pub fn check(&self) -> Result<u64> {
        let mut size = OperationSize::default();
        size.guards(&self.guards, self.steps.len())?;
        for step in &self.steps {
            match step {
                ReadStep::Read { len_bytes, .. } => size.add(*len_bytes)?,
                ReadStep::GetXattr { name } => names::check_xattr_name(name)?,
                ReadStep::OmapGet { keys } => {
                    if keys.len() > limits::OMAP_PAGE_ENTRIES_MAX {
                        return Err(Error::limit_exceeded("too many omap keys in one step")
                            .with("keys", keys.len())
                            .with("keys_max", limits::OMAP_PAGE_ENTRIES_MAX));
                    }
                    keys.iter().try_for_each(|key| size.omap_key(key))?;
                }
                ReadStep::OmapRange { after, prefix, entries_max } => {
                    if *entries_max == 0 {
                        return Err(Error::invalid_argument(
                            "an omap page needs room for at least one entry",
                        ));
                    }
                    for start in after.iter().chain([prefix]).filter(|start| !start.is_empty()) {
                        size.omap_key(start)?;
                    }
                }
                ReadStep::Exec(call) => size.call(call)?,
                ReadStep::Stat | ReadStep::ListXattrs => {}
            }
        }
        Ok(size.len_bytes)
    }
}

impl WriteOp {
    pub fn new() -> WriteOp {
        WriteOp::default()
    }

    guard_builders!();

    /// Lets the engine acknowledge the operation before it is durable; see
    /// [`Durability::Buffered`].
    #[must_use]
    pub fn buffered(mut self) -> WriteOp {
        self.durability = Durability::Buffered;
        self
    }

    #[must_use]
    pub fn create(self, exclusive: bool) -> WriteOp {
        self.step(WriteStep::Create { exclusive })
    }

    #[must_use]
    pub fn write(self, offset_bytes: u64, data: impl Into<Bytes>) -> WriteOp {
        self.step(WriteStep::Write { offset_bytes, data: data.into() })
    }

    #[must_use]
    pub fn write_full(self, data: impl Into<Bytes>) -> WriteOp {
        self.step(WriteStep::WriteFull { data: data.into() })
    }

    #[must_use]
    pub fn append(self, data: impl Into<Bytes>) -> WriteOp {
        self.step(WriteStep::Append { data: data.into() })
    }

    #[must_use]
    pub fn truncate(self, size_bytes: u64) -> WriteOp {
        self.step(WriteStep::Truncate { size_bytes })
    }

    #[must_use]
    pub fn zero(self, offset_bytes: u64, len_bytes: u64) -> WriteOp {
        self.step(WriteStep::Zero { offset_bytes, len_bytes })
    }

    #[must_use]
    pub fn remove(self) -> WriteOp {
        self.step(WriteStep::Remove)
    }

    #[must_use]
    pub fn set_xattr(self, name: impl Into<String>, value: impl Into<Bytes>) -> WriteOp {
        self.step(WriteStep::SetXattr { name: name.into(), value: value.into() })
    }

    #[must_use]
    pub fn remove_xattr(self, name: impl Into<String>) -> WriteOp {
        self.step(WriteStep::RemoveXattr { name: name.into() })
    }

    #[must_use]
    pub fn omap_set<K: Into<Bytes>, V: Into<Bytes>>(
        self,
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> WriteOp {
        let entries = entries.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        self.step(WriteStep::OmapSet { entries })
    }

    #[must_use]
    pub fn omap_remove<K: Into<Bytes>>(self, keys: impl IntoIterator<Item = K>) -> WriteOp {
        self.step(WriteStep::OmapRemove { keys: keys.into_iter().map(Into::into).collect() })
    }

    #[must_use]
    pub fn omap_clear(self) -> WriteOp {
        self.step(WriteStep::OmapClear)
    }

    fn step(mut self, step: WriteStep) -> WriteOp {
        self.steps.push(step);
        self
    }

    /// Checks the operation against the [limits]. Every engine calls this before it runs the
    /// operation. Returns the operation's size in bytes, counted as [`limits::OPERATION_BYTES_MAX`]
    /// describes.
    ///
    /// # Errors
    /// `InvalidArgument`, `LimitExceeded`.
    pub fn check(&self) -> Result<u64> {
        let mut size = OperationSize::default();
        size.guards(&self.guards, self.steps.len())?;
        for (at, step) in self.steps.iter().enumerate() {
            match step {
                WriteStep::Write { offset_bytes, data } => {
                    size.add(data.len() as u64)?;
                    check_object_size(offset_bytes.saturating_add(data.len() as u64))?;
                }
                WriteStep::WriteFull { data } | WriteStep::Append { data } => size.add(data.len() as u64)?,
                WriteStep::Truncate { size_bytes } => check_truncate(*size_bytes)?,
                WriteStep::Zero { offset_bytes, len_bytes } => check_zero(*offset_bytes, *len_bytes)?,
                WriteStep::SetXattr { name, value } => {
                    check_xattr(name, value)?;
                    size.add((name.len() + value.len()) as u64)?;
                }
                WriteStep::RemoveXattr { name } => names::check_xattr_name(name)?,
                WriteStep::OmapSet { entries } => {
                    for (key, value) in entries {
                        size.omap_key(key)?;
                        check_omap_value(value)?;
                        size.add(value.len() as u64)?;
                    }
                }
                WriteStep::OmapRemove { keys } => keys.iter().try_for_each(|key| size.omap_key(key))?,
                WriteStep::Exec(_) if at > 0 => {
                    let message =
                        "an operation may call one method, as its first step; use several operations";
                    return Err(Error::invalid_argument(message));
                }
                WriteStep::Exec(call) => size.call(call)?,
                WriteStep::Create { .. } | WriteStep::Remove | WriteStep::OmapClear => {}
            }
        }
        Ok(size.len_bytes)
    }
}

/// Checks the size that an object would have after an operation.
///
/// # Errors
/// `LimitExceeded`.
pub fn check_object_size(size_bytes: u64) -> Result<()> {
    if size_bytes <= limits::OBJECT_BYTES_MAX {
        return Ok(());
    }
    let message = "the object would be too large; split the data over several objects";
    Err(Error::limit_exceeded(message)
        .with("size_bytes", size_bytes)
        .with("size_bytes_max", limits::OBJECT_BYTES_MAX))
}

/// Checks the target size of a truncation, which must be less than [`limits::OBJECT_BYTES_MAX`].
///
/// # Errors
/// `LimitExceeded`.
pub fn check_truncate(size_bytes: u64) -> Result<()> {
    check_object_size(size_bytes.saturating_add(1))
}

/// Checks the range of [`WriteStep::Zero`]: at least one byte, and within the largest object.
///
/// # Errors
/// `InvalidArgument`, `LimitExceeded`.
pub fn check_zero(offset_bytes: u64, len_bytes: u64) -> Result<()> {
    if len_bytes == 0 {
        return Err(Error::invalid_argument("the range to zero is empty; give it at least one byte"));
    }
    check_object_size(offset_bytes.saturating_add(len_bytes))
}

/// Checks the name and value of an attribute.
///
/// # Errors
/// `InvalidArgument`, `LimitExceeded`.
pub fn check_xattr(name: &str, value: &[u8]) -> Result<()> {
    names::check_xattr_name(name)?;
    check_len("attribute value", value.len(), limits::XATTR_VALUE_BYTES_MAX)
}

/// Checks an omap key. Empty keys are rejected because OSDs store them but never list them.
///
/// # Errors
/// `InvalidArgument`, `LimitExceeded`.
pub fn check_omap_key(key: &[u8]) -> Result<()> {
    if key.is_empty() {
        return Err(Error::invalid_argument("an omap key is empty"));
    }
    check_len("omap key", key.len(), limits::OMAP_KEY_BYTES_MAX)
}

/// Checks the size of the reply so far. Engines call it while they collect outputs, so that they
/// stop as soon as the limit is reached.
///
/// # Errors
/// `LimitExceeded`.
pub fn check_reply(len_bytes: u64) -> Result<()> {
    if len_bytes <= limits::OPERATION_BYTES_MAX {
        return Ok(());
    }
    Err(Error::limit_exceeded("the reply is too large; ask for less in one operation")
        .with("len_bytes_max", limits::OPERATION_BYTES_MAX))
}

/// Checks an omap value.
///
/// # Errors
/// `LimitExceeded`.
pub fn check_omap_value(value: &[u8]) -> Result<()> {
    check_len("omap value", value.len(), limits::OMAP_VALUE_BYTES_MAX)
}

/// Checks a length; `what` begins the message of the error.
///
/// # Errors
/// `LimitExceeded`.
pub fn check_len(what: &str, len_bytes: usize, len_bytes_max: usize) -> Result<()> {
    if len_bytes <= len_bytes_max {
        return Ok(());
    }
    Err(Error::limit_exceeded(format!("{what} is too long"))
        .with("len_bytes", len_bytes)
        .with("len_bytes_max", len_bytes_max))
}

#[derive(Default)]
struct OperationSize {
    len_bytes: u64,
}

impl OperationSize {
    fn add(&mut self, len_bytes: u64) -> Result<()> {
        self.len_bytes = self.len_bytes.saturating_add(len_bytes);
        if self.len_bytes <= limits::OPERATION_BYTES_MAX {
            return Ok(());
        }
        let message = "the operation is too large; split it into several with smaller ranges";
        Err(Error::limit_exceeded(message)
            .with("len_bytes", self.len_bytes)
            .with("len_bytes_max", limits::OPERATION_BYTES_MAX))
    }

    fn omap_key(&mut self, key: &[u8]) -> Result<()> {
        check_omap_key(key)?;
        self.add(key.len() as u64 + limits::ENTRY_BYTES)
    }

    fn call(&mut self, call: &ClassCall) -> Result<()> {
        names::check_class_name(&call.class)?;
        names::check_class_name(&call.method)?;
        self.add(call.input.len() as u64)
    }

    fn guards(&mut self, guards: &[Guard], steps: usize) -> Result<()> {
        if guards.len() + steps > limits::OPERATION_STEPS_MAX {
            return Err(Error::limit_exceeded("too many guards and steps in one operation")
                .with("steps", guards.len() + steps)
                .with("steps_max", limits::OPERATION_STEPS_MAX));
        }
        for guard in guards {
            match guard {
                Guard::Exists => {}
                Guard::Version(0) => {
                    return Err(Error::invalid_argument("no object has version 0"));
                }
                Guard::Version(_) => {}
                Guard::Xattr { name, value, .. } => {
                    check_xattr(name, value)?;
                    self.add(value.len() as u64)?;
                }
                Guard::Omap { key, value } => {
                    self.omap_key(key)?;
                    check_omap_value(value)?;
                    self.add(value.len() as u64)?;
                }
            }
        }
        Ok(())
    }
}

/// Size and modification time of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    pub size_bytes: u64,
    /// Time of the last change, in nanoseconds since 1970 (UTC).
    pub modified_unix_ns: u64,
}

/// A page of omap entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OmapPage {
    /// In bytewise key order.
    pub entries: Vec<(Bytes, Bytes)>,
    /// More entries follow the last one.
    pub more: bool,
}

/// The output of one step of a read operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadOutput {
    Data(Bytes),
    Stat(Stat),
    Xattr(Bytes),
    Xattrs(BTreeMap<String, Bytes>),
    /// Output of both omap steps. [`ReadStep::OmapGet`] never sets `more`.
    Omap(OmapPage),
    Exec(Bytes),
}

impl ReadOutput {
    /// The output's share of the reply size in bytes: data, names, keys and values.
    pub fn len_bytes(&self) -> u64 {
        let entry_bytes = |key: usize, value: usize| (key + value) as u64 + limits::ENTRY_BYTES;
        match self {
            ReadOutput::Data(data) | ReadOutput::Xattr(data) | ReadOutput::Exec(data) => data.len() as u64,
            ReadOutput::Stat(_) => size_of::<Stat>() as u64,
            ReadOutput::Xattrs(xattrs) => {
                xattrs.iter().map(|(name, value)| entry_bytes(name.len(), value.len())).sum()
            }
            ReadOutput::Omap(page) => {
                page.entries.iter().map(|(key, value)| entry_bytes(key.len(), value.len())).sum()
            }
        }
    }
}

/// The reply to a read operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadReply {
    pub version: u64,
    /// One output per step, in order.
    pub outputs: Vec<ReadOutput>,
}

/// The reply to a write operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteReply {
    /// The object's version after the operation. Every change increases an object's version by at
    /// least one, and removal and re-creation do not reset it. An operation that changes nothing
    /// may leave the version unchanged. If the object no longer exists after the operation, the
    /// value is unspecified.
    pub version: u64,
}

#[cfg(test)]
#[path = "op_tests.rs"]
mod tests;
