//! Runs a compound operation on one object. Both engines use this code, so their semantics cannot
//! differ.

use benthic_core::{
    ClassCall, ClassRegistry, Clock, Error, ExecOp, Guard, MethodFlags, MethodLimits, ObjectAccess, OmapPage,
    OptionalExtension, ReadOp, ReadOutput, ReadReply, ReadStep, Result, WriteOp, WriteStep, call_method,
    limits, op,
};
use bytes::Bytes;
use std::sync::Arc;

/// The executor's access to an object, beyond the access of methods.
pub(crate) trait ObjectState: ObjectAccess {
    /// The version before the operation. `None` if the object did not exist.
    fn version_before(&self) -> Option<u64>;
    /// Removes an attribute. A missing attribute is not an error.
    fn remove_xattr(&mut self, name: &str) -> Result<()>;
}

/// The classes, and the environment in which their methods run.
#[derive(Clone)]
pub(crate) struct Methods {
    pub classes: ClassRegistry,
    pub clock: Arc<dyn Clock>,
    pub limits: MethodLimits,
}

impl Methods {
    fn call(&self, object: &mut dyn ObjectState, call: &ClassCall) -> Result<Bytes> {
        let method = self.classes.method(&call.class, &call.method)?;
        if !method.flags.contains(MethodFlags::WRITE) {
            object.stat()?;
        }
        call_method(method, object, self.clock.as_ref(), self.limits, &call.input)
            .map_err(|error| error.with("class", &call.class).with("method", &call.method))
    }

    /// Checks that the methods of a read operation exist and do not write. Called before the object
    /// is looked up.
    fn check_read(&self, steps: &[ReadStep]) -> Result<()> {
        for step in steps {
            let ReadStep::Exec(call) = step else { continue };
            if self.writes(call)? {
                let message =
                    "a write method does not run in a read operation; use exec or a write operation";
                return Err(Error::invalid_argument(message)
                    .with("class", &call.class)
                    .with("method", &call.method));
            }
        }
        Ok(())
    }

    pub fn exec_op(&self, call: ClassCall) -> Result<ExecOp> {
        call.check()?;
        let writes = self.writes(&call)?;
        Ok(call.into_op(writes))
    }

    fn writes(&self, call: &ClassCall) -> Result<bool> {
        Ok(self.classes.method(&call.class, &call.method)?.flags.contains(MethodFlags::WRITE))
    }
}

/// Runs a read operation. The caller has checked it with [`ReadOp::check`].
pub(crate) fn read(object: &mut dyn ObjectState, operation: &ReadOp, methods: &Methods) -> Result<ReadReply> {
    methods.check_read(&operation.steps)?;
    let version = object.version_before().ok_or_else(no_such_object)?;
    check_guards(object, &operation.guards)?;
    let mut reply_bytes = 0;
    let mut outputs = Vec::with_capacity(operation.steps.len());
    for step in &operation.steps {
        let output = read_step(object, step, methods)?;
        reply_bytes += output.len_bytes();
        op::check_reply(reply_bytes)?;
        outputs.push(output);
    }
    Ok(ReadReply { version, outputs })
}

fn read_step(object: &mut dyn ObjectState, step: &ReadStep, methods: &Methods) -> Result<ReadOutput> {
    Ok(match step {
        ReadStep::Read { offset_bytes, len_bytes } => {
            ReadOutput::Data(object.read(*offset_bytes, *len_bytes)?)
        }
        ReadStep::Stat => ReadOutput::Stat(object.stat()?),
        ReadStep::GetXattr { name } => ReadOutput::Xattr(object.get_xattr(name)?),
        ReadStep::ListXattrs => ReadOutput::Xattrs(object.list_xattrs()?),
        ReadStep::OmapGet { keys } => {
            ReadOutput::Omap(OmapPage { entries: object.omap_get(keys)?, more: false })
        }
        ReadStep::OmapRange { after, prefix, entries_max } => {
            let entries_max = (*entries_max).min(limits::OMAP_PAGE_ENTRIES_MAX);
            ReadOutput::Omap(object.omap_range(after.as_deref(), prefix, entries_max)?)
        }
        ReadStep::Exec(call) => ReadOutput::Exec(methods.call(object, call)?),
    })
}

/// Stages a write operation. The caller has checked it with [`WriteOp::check`], and discards the
/// staged changes on an error.
pub(crate) fn write(object: &mut dyn ObjectState, op: &WriteOp, methods: &Methods) -> Result<()> {
    if let Some(WriteStep::Exec(call)) = op.steps.first() {
        methods.writes(call)?;
    }
    check_guards(object, &op.guards)?;
    op.steps.iter().try_for_each(|step| write_step(object, step, methods))
}

fn write_step(object: &mut dyn ObjectState, step: &WriteStep, methods: &Methods) -> Result<()> {
    match step {
        WriteStep::Create { exclusive } => object.create(*exclusive),
        WriteStep::Write { offset_bytes, data } => object.write(*offset_bytes, data.clone()),
        WriteStep::WriteFull { data } => object.write_full(data.clone()),
        WriteStep::Append { data } => object.append(data.clone()),
        WriteStep::Truncate { size_bytes } => object.truncate(*size_bytes),
        WriteStep::Zero { offset_bytes, len_bytes } => object.zero(*offset_bytes, *len_bytes),
        WriteStep::Remove => object.remove(),
        WriteStep::SetXattr { name, value } => object.set_xattr(name, value.clone()),
        WriteStep::RemoveXattr { name } => object.remove_xattr(name),
        WriteStep::OmapSet { entries } => object.omap_set(entries.clone()),
        WriteStep::OmapRemove { keys } => object.omap_remove(keys),
        WriteStep::OmapClear => object.omap_clear(),
        WriteStep::Exec(call) => methods.call(object, call).map(|_| ()),
    }
}

fn check_guards(object: &mut dyn ObjectState, guards: &[Guard]) -> Result<()> {
    for guard in guards {
        let version = object.version_before().ok_or_else(no_such_object)?;
        match guard {
            Guard::Exists => {}
            Guard::Version(wanted) if *wanted == version => {}
            Guard::Version(wanted) => {
                return Err(Error::conflict("the object has another version")
                    .with("version", version)
                    .with("wanted", wanted));
            }
            Guard::Xattr { name, compare, value } => {
                let stored = object.get_xattr(name).optional()?.unwrap_or_default();
                if !compare.holds(&stored, value) {
                    let message = "the comparison with the attribute does not hold";
                    return Err(Error::conflict(message).with("attribute", name));
                }
            }
            Guard::Omap { key, value } => {
                let found = object.omap_get(std::slice::from_ref(key))?;
                let stored = found.first().map_or(&[][..], |(_, stored)| stored);
                if stored != value {
                    return Err(Error::conflict("the omap value differs").with("key", key.escape_ascii()));
                }
            }
        }
    }
    Ok(())
}

pub(crate) fn no_such_object() -> Error {
    Error::not_found("no such object")
}

pub(crate) fn no_such_xattr(name: &str) -> Error {
    Error::not_found("no such attribute").with("attribute", name)
}

/// The effect of zeroing a range on an object of `size_bytes`.
pub(crate) enum ZeroEffect {
    Nothing,
    /// The range reaches the end: RADOS truncates the object to the range's offset.
    Truncate,
    Fill,
}

impl ZeroEffect {
    pub fn of(size_bytes: u64, offset_bytes: u64, len_bytes: u64) -> ZeroEffect {
        if len_bytes == 0 || offset_bytes >= size_bytes {
            ZeroEffect::Nothing
        } else if offset_bytes.saturating_add(len_bytes) >= size_bytes {
            ZeroEffect::Truncate
        } else {
            ZeroEffect::Fill
        }
    }
}

pub(crate) struct OmapPageBuilder {
    entries_max: usize,
    len_bytes: usize,
    page: OmapPage,
}

impl OmapPageBuilder {
    pub fn new(entries_max: usize) -> OmapPageBuilder {
        OmapPageBuilder { entries_max, len_bytes: 0, page: OmapPage::default() }
    }

    /// Adds the next entry in order. Returns false if the page is full.
    pub fn push(&mut self, key: Bytes, value: Bytes) -> bool {
        if self.page.entries.len() == self.entries_max || self.len_bytes >= limits::OMAP_PAGE_BYTES_MAX {
            self.page.more = true;
            return false;
        }
        self.len_bytes += key.len() + value.len();
        self.page.entries.push((key, value));
        true
    }

    pub fn finish(self) -> OmapPage {
        self.page
    }
}
