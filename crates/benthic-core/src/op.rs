//! Operations on one object. A read operation and a write operation are each atomic, and each one round trip.

use crate::{Error, ErrorKind, Fetch, Result, limits, names};
use bytes::Bytes;
use std::collections::BTreeMap;

/// How a guard compares the stored value with the given one: `stored OP given`, bytewise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    /// Stored equals given.
    Eq,
    /// Stored differs from given.
    Ne,
    /// Stored is greater than given.
    Gt,
    /// Stored is greater than or equal to given.
    Ge,
    /// Stored is less than given.
    Lt,
    /// Stored is less than or equal to given.
    Le,
}

impl Compare {
    /// Whether `stored OP given`.
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

/// A condition on the object as it was before the operation. All guards are checked before any step; a guard
/// that fails is `Conflict` and nothing is done. A guard on a missing object is `NotFound`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Guard {
    /// The object exists.
    Exists,
    /// The object has exactly this version.
    Version(u64),
    /// An attribute compares so; a missing attribute compares as an empty value. All comparisons.
    Xattr {
        /// Attribute name.
        name: String,
        /// Comparison.
        compare: Compare,
        /// Given value.
        value: Bytes,
    },
    /// An omap value is this one; a missing key counts as an empty value. OSDs have no other comparison that orders
    /// all bytes.
    Omap {
        /// Omap key.
        key: Bytes,
        /// Given value.
        value: Bytes,
    },
}

/// A call of a class method within an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassCall {
    /// Class.
    pub class: String,
    /// Method.
    pub method: String,
    /// Input, whatever the method's documentation says.
    pub input: Bytes,
}

/// The operation that runs a call of a method alone: [`Pool::exec`](crate::Pool::exec) for an engine.
pub enum ExecOp {
    /// Of a method that does not write; gives its output.
    Read(Fetch<Bytes>),
    /// Of a method that writes, and has no output.
    Write(WriteOp),
}

impl ClassCall {
    /// A call.
    pub fn new(class: impl Into<String>, method: impl Into<String>, input: impl Into<Bytes>) -> ClassCall {
        ClassCall { class: class.into(), method: method.into(), input: input.into() }
    }

    /// Checks the call against the [limits]. Gives the bytes that it carries, as [`limits::OPERATION_BYTES_MAX`] counts them.
    ///
    /// # Errors
    /// `InvalidArgument`, `LimitExceeded`.
    pub fn check(&self) -> Result<u64> {
        let mut size = OperationSize::default();
        size.call(self)?;
        Ok(size.len_bytes)
    }

    /// The operation that runs the method, which writes or does not.
    pub fn into_op(self, writes: bool) -> ExecOp {
        if writes {
            ExecOp::Write(WriteOp { steps: vec![self.into()], ..WriteOp::new() })
        } else {
            ExecOp::Read(Fetch::exec(self))
        }
    }
}

/// One step of a read operation, and what it adds to the reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadStep {
    /// Data from an offset; short at the end of the object, empty behind it. Holes read as zeros. A length of 0 reads
    /// nothing.
    Read {
        /// Offset.
        offset_bytes: u64,
        /// Length.
        len_bytes: u64,
    },
    /// Size and time of the last change.
    Stat,
    /// One attribute; a missing one is `NotFound`.
    GetXattr {
        /// Attribute name.
        name: String,
    },
    /// All attributes.
    ListXattrs,
    /// Those of the given keys that are there, each once, in bytewise key order.
    OmapGet {
        /// Omap keys.
        keys: Vec<Bytes>,
    },
    /// Entries in bytewise key order.
    OmapRange {
        /// Only keys behind this one; from the start if absent.
        after: Option<Bytes>,
        /// Only keys with this prefix.
        prefix: Bytes,
        /// At least 1; a page never has more than [`limits::OMAP_PAGE_ENTRIES_MAX`] entries and about
        /// [`limits::OMAP_PAGE_BYTES_MAX`] bytes.
        entries_max: usize,
    },
    /// The output of a `READ` method.
    Exec(ClassCall),
}

/// One step of a write operation. Steps see the size and existence that earlier steps left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteStep {
    /// Makes the object exist; exclusive: `AlreadyExists` if it does.
    Create {
        /// Whether an existing object is an error.
        exclusive: bool,
    },
    /// Writes data; a gap before it reads as zeros. Empty data make the object exist and leave its size.
    Write {
        /// Offset.
        offset_bytes: u64,
        /// Data.
        data: Bytes,
    },
    /// Replaces all data; attributes and omap stay.
    WriteFull {
        /// Data.
        data: Bytes,
    },
    /// Writes data at the end.
    Append {
        /// Data.
        data: Bytes,
    },
    /// Cuts, or extends with zeros, to less than [`limits::OBJECT_BYTES_MAX`]. On a missing object it does nothing.
    Truncate {
        /// New size.
        size_bytes: u64,
    },
    /// Makes a range of at least one byte read as zeros. A range that reaches or passes the end cuts the object at its offset
    /// (RADOS' rule); behind the end, and on a missing object, it does nothing.
    Zero {
        /// Offset.
        offset_bytes: u64,
        /// Length.
        len_bytes: u64,
    },
    /// Removes the object with its attributes and omap; a missing one is `NotFound`.
    Remove,
    /// Sets an attribute.
    SetXattr {
        /// Attribute name.
        name: String,
        /// Value.
        value: Bytes,
    },
    /// Removes an attribute; a missing attribute is no error, a missing object is `NotFound`.
    RemoveXattr {
        /// Attribute name.
        name: String,
    },
    /// Sets omap entries.
    OmapSet {
        /// Entries.
        entries: BTreeMap<Bytes, Bytes>,
    },
    /// Removes omap keys; a missing key is no error, a missing object is `NotFound`.
    OmapRemove {
        /// Keys.
        keys: Vec<Bytes>,
    },
    /// Removes all omap entries; a missing object is `NotFound`.
    OmapClear,
    /// Runs a method; its output is dropped. At most one, and as the first step: an OSD gives a method that reads what
    /// an earlier step changed anything between old bytes and a crash (docs/design/0003).
    Exec(ClassCall),
}

/// Whether an acknowledged write survives a power cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// It does.
    #[default]
    Durable,
    /// It does once a later `flush` or durable operation on the same store is acknowledged. After a crash the
    /// store is a prefix of what was acknowledged. On Ceph everything is durable.
    Buffered,
}

/// An atomic read operation: guards, then steps, all on one state of the object.
///
/// The first step that fails fails the operation. A missing object is `NotFound`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadOp {
    /// Guards, checked first.
    pub guards: Vec<Guard>,
    /// Steps; each adds one [`ReadOutput`] to the reply.
    pub steps: Vec<ReadStep>,
}

/// An atomic write operation: guards, then steps; all of it happens or nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteOp {
    /// Guards, checked first.
    pub guards: Vec<Guard>,
    /// Steps, in order.
    pub steps: Vec<WriteStep>,
    /// Whether the acknowledgement means durable.
    pub durability: Durability,
}

macro_rules! guard_builders {
    () => {
        /// Adds [`Guard::Exists`].
        #[must_use]
        pub fn assert_exists(mut self) -> Self {
            self.guards.push(Guard::Exists);
            self
        }

        /// Adds [`Guard::Version`].
        #[must_use]
        pub fn assert_version(mut self, version: u64) -> Self {
            self.guards.push(Guard::Version(version));
            self
        }

        /// Adds [`Guard::Xattr`].
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

        /// Adds [`Guard::Omap`].
        #[must_use]
        pub fn cmp_omap(mut self, key: impl Into<Bytes>, value: impl Into<Bytes>) -> Self {
            self.guards.push(Guard::Omap { key: key.into(), value: value.into() });
            self
        }

        /// Adds a class call.
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
    /// An operation without guards and steps.
    pub fn new() -> ReadOp {
        ReadOp::default()
    }

    guard_builders!();

    /// Adds [`ReadStep::Read`].
    #[must_use]
    pub fn read(self, offset_bytes: u64, len_bytes: u64) -> ReadOp {
        self.step(ReadStep::Read { offset_bytes, len_bytes })
    }

    /// Adds [`ReadStep::Stat`].
    #[must_use]
    pub fn stat(self) -> ReadOp {
        self.step(ReadStep::Stat)
    }

    /// Adds [`ReadStep::GetXattr`].
    #[must_use]
    pub fn get_xattr(self, name: impl Into<String>) -> ReadOp {
        self.step(ReadStep::GetXattr { name: name.into() })
    }

    /// Adds [`ReadStep::ListXattrs`].
    #[must_use]
    pub fn list_xattrs(self) -> ReadOp {
        self.step(ReadStep::ListXattrs)
    }

    /// Adds [`ReadStep::OmapGet`].
    #[must_use]
    pub fn omap_get<K: Into<Bytes>>(self, keys: impl IntoIterator<Item = K>) -> ReadOp {
        self.step(ReadStep::OmapGet { keys: keys.into_iter().map(Into::into).collect() })
    }

    /// Adds [`ReadStep::OmapRange`].
    #[must_use]
    pub fn omap_range(self, after: Option<Bytes>, prefix: impl Into<Bytes>, entries_max: usize) -> ReadOp {
        self.step(ReadStep::OmapRange { after, prefix: prefix.into(), entries_max })
    }

    fn step(mut self, step: ReadStep) -> ReadOp {
        self.steps.push(step);
        self
    }

    /// Checks the operation against the [limits]; every engine does so before it starts. Gives the bytes that it is known to
    /// carry, in either direction, as [`limits::OPERATION_BYTES_MAX`] counts them.
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
                        return Err(Error::new(ErrorKind::LimitExceeded, "too many omap keys in one step")
                            .with("keys", keys.len())
                            .with("keys_max", limits::OMAP_PAGE_ENTRIES_MAX));
                    }
                    keys.iter().try_for_each(|key| size.omap_key(key))?;
                }
                ReadStep::OmapRange { after, prefix, entries_max } => {
                    if *entries_max == 0 {
                        return Err(Error::new(
                            ErrorKind::InvalidArgument,
                            "a page of an omap has at least one entry",
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
    /// A durable operation without guards and steps.
    pub fn new() -> WriteOp {
        WriteOp::default()
    }

    guard_builders!();

    /// Acknowledged before it is durable; see [`Durability::Buffered`].
    #[must_use]
    pub fn buffered(mut self) -> WriteOp {
        self.durability = Durability::Buffered;
        self
    }

    /// Adds [`WriteStep::Create`].
    #[must_use]
    pub fn create(self, exclusive: bool) -> WriteOp {
        self.step(WriteStep::Create { exclusive })
    }

    /// Adds [`WriteStep::Write`].
    #[must_use]
    pub fn write(self, offset_bytes: u64, data: impl Into<Bytes>) -> WriteOp {
        self.step(WriteStep::Write { offset_bytes, data: data.into() })
    }

    /// Adds [`WriteStep::WriteFull`].
    #[must_use]
    pub fn write_full(self, data: impl Into<Bytes>) -> WriteOp {
        self.step(WriteStep::WriteFull { data: data.into() })
    }

    /// Adds [`WriteStep::Append`].
    #[must_use]
    pub fn append(self, data: impl Into<Bytes>) -> WriteOp {
        self.step(WriteStep::Append { data: data.into() })
    }

    /// Adds [`WriteStep::Truncate`].
    #[must_use]
    pub fn truncate(self, size_bytes: u64) -> WriteOp {
        self.step(WriteStep::Truncate { size_bytes })
    }

    /// Adds [`WriteStep::Zero`].
    #[must_use]
    pub fn zero(self, offset_bytes: u64, len_bytes: u64) -> WriteOp {
        self.step(WriteStep::Zero { offset_bytes, len_bytes })
    }

    /// Adds [`WriteStep::Remove`].
    #[must_use]
    pub fn remove(self) -> WriteOp {
        self.step(WriteStep::Remove)
    }

    /// Adds [`WriteStep::SetXattr`].
    #[must_use]
    pub fn set_xattr(self, name: impl Into<String>, value: impl Into<Bytes>) -> WriteOp {
        self.step(WriteStep::SetXattr { name: name.into(), value: value.into() })
    }

    /// Adds [`WriteStep::RemoveXattr`].
    #[must_use]
    pub fn remove_xattr(self, name: impl Into<String>) -> WriteOp {
        self.step(WriteStep::RemoveXattr { name: name.into() })
    }

    /// Adds [`WriteStep::OmapSet`].
    #[must_use]
    pub fn omap_set<K: Into<Bytes>, V: Into<Bytes>>(
        self,
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> WriteOp {
        let entries = entries.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        self.step(WriteStep::OmapSet { entries })
    }

    /// Adds [`WriteStep::OmapRemove`].
    #[must_use]
    pub fn omap_remove<K: Into<Bytes>>(self, keys: impl IntoIterator<Item = K>) -> WriteOp {
        self.step(WriteStep::OmapRemove { keys: keys.into_iter().map(Into::into).collect() })
    }

    /// Adds [`WriteStep::OmapClear`].
    #[must_use]
    pub fn omap_clear(self) -> WriteOp {
        self.step(WriteStep::OmapClear)
    }

    fn step(mut self, step: WriteStep) -> WriteOp {
        self.steps.push(step);
        self
    }

    /// Checks the operation against the [limits]; every engine does so before it starts. Gives the bytes that it carries,
    /// as [`limits::OPERATION_BYTES_MAX`] counts them.
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
                    return Err(Error::new(
                        ErrorKind::InvalidArgument,
                        "a method is the first step of its operation, and the only method; use several operations",
                    ));
                }
                WriteStep::Exec(call) => size.call(call)?,
                WriteStep::Create { .. } | WriteStep::Remove | WriteStep::OmapClear => {}
            }
        }
        Ok(size.len_bytes)
    }
}

/// Checks a size that an object would get.
///
/// # Errors
/// `LimitExceeded`.
pub fn check_object_size(size_bytes: u64) -> Result<()> {
    if size_bytes <= limits::OBJECT_BYTES_MAX {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::LimitExceeded,
        "the object would be too large; split the data over several objects",
    )
    .with("size_bytes", size_bytes)
    .with("size_bytes_max", limits::OBJECT_BYTES_MAX))
}

/// Checks the size of a truncation.
///
/// # Errors
/// `LimitExceeded`.
pub fn check_truncate(size_bytes: u64) -> Result<()> {
    check_object_size(size_bytes.saturating_add(1))
}

/// Checks a range that is to read as zeros.
///
/// # Errors
/// `InvalidArgument`, `LimitExceeded`.
pub fn check_zero(offset_bytes: u64, len_bytes: u64) -> Result<()> {
    if len_bytes == 0 {
        return Err(Error::new(ErrorKind::InvalidArgument, "a range to zero has at least one byte"));
    }
    check_object_size(offset_bytes.saturating_add(len_bytes))
}

/// Checks name and value of an attribute.
///
/// # Errors
/// `InvalidArgument`, `LimitExceeded`.
pub fn check_xattr(name: &str, value: &[u8]) -> Result<()> {
    names::check_xattr_name(name)?;
    check_len("attribute value", value.len(), limits::XATTR_VALUE_BYTES_MAX)
}

/// Checks an omap key. It is not empty: OSDs store an empty key and never list it.
///
/// # Errors
/// `InvalidArgument`, `LimitExceeded`.
pub fn check_omap_key(key: &[u8]) -> Result<()> {
    if key.is_empty() {
        return Err(Error::new(ErrorKind::InvalidArgument, "an omap key is empty"));
    }
    check_len("omap key", key.len(), limits::OMAP_KEY_BYTES_MAX)
}

/// Checks the size that a reply has so far; an engine collects no more than fits.
///
/// # Errors
/// `LimitExceeded`.
pub fn check_reply(len_bytes: u64) -> Result<()> {
    if len_bytes <= limits::OPERATION_BYTES_MAX {
        return Ok(());
    }
    Err(Error::new(ErrorKind::LimitExceeded, "the reply is too large; ask for less in one operation")
        .with("len_bytes_max", limits::OPERATION_BYTES_MAX))
}

/// Checks an omap value.
///
/// # Errors
/// `LimitExceeded`.
pub fn check_omap_value(value: &[u8]) -> Result<()> {
    check_len("omap value", value.len(), limits::OMAP_VALUE_BYTES_MAX)
}

fn check_len(what: &str, len_bytes: usize, len_bytes_max: usize) -> Result<()> {
    if len_bytes <= len_bytes_max {
        return Ok(());
    }
    Err(Error::new(ErrorKind::LimitExceeded, format!("{what} is too long"))
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
        Err(Error::new(
            ErrorKind::LimitExceeded,
            "one operation carries too much; use several with smaller ranges",
        )
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
            return Err(Error::new(ErrorKind::LimitExceeded, "too many guards and steps in one operation")
                .with("steps", guards.len() + steps)
                .with("steps_max", limits::OPERATION_STEPS_MAX));
        }
        for guard in guards {
            match guard {
                Guard::Exists => {}
                Guard::Version(0) => {
                    return Err(Error::new(ErrorKind::InvalidArgument, "no object has version 0"));
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

/// Size and time of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Size of the data.
    pub size_bytes: u64,
    /// Time of the last change, in nanoseconds since 1970 (UTC).
    pub modified_unix_ns: u64,
}

/// A page of omap entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OmapPage {
    /// Entries in bytewise key order.
    pub entries: Vec<(Bytes, Bytes)>,
    /// Whether there are more behind the last one.
    pub more: bool,
}

/// What one step of a read operation answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadOutput {
    /// Of [`ReadStep::Read`].
    Data(Bytes),
    /// Of [`ReadStep::Stat`].
    Stat(Stat),
    /// Of [`ReadStep::GetXattr`].
    Xattr(Bytes),
    /// Of [`ReadStep::ListXattrs`].
    Xattrs(BTreeMap<String, Bytes>),
    /// Of [`ReadStep::OmapGet`] (never `more`) and [`ReadStep::OmapRange`].
    Omap(OmapPage),
    /// Of [`ReadStep::Exec`].
    Exec(Bytes),
}

impl ReadOutput {
    /// What it adds to the size of a reply: data, names, keys and values.
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
    /// The object's version when it was read.
    pub version: u64,
    /// One output a step, in order.
    pub outputs: Vec<ReadOutput>,
}

/// The reply to a write operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteReply {
    /// The object's version after the operation. An object's versions strictly increase with every change, by one or
    /// more, also over removal and creation; an operation that changes nothing may leave the version as it is. Not
    /// specified if the object is missing afterwards.
    pub version: u64,
}

#[cfg(test)]
#[path = "op_tests.rs"]
mod tests;
