//! The oracle: a second, deliberately simple implementation of the contract of `benthic-core`.
//! Objects are whole values in memory. An operation runs on a clone, which replaces the object if
//! every step succeeds.

use super::classes;
use benthic_core::{
    ErrorKind::{self, AlreadyExists, Conflict, NotFound},
    Guard, OmapPage, ReadOp, ReadOutput, ReadStep, Stat, WriteOp, WriteStep, limits,
};
use bytes::Bytes;
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Object {
    pub(crate) data: Vec<u8>,
    pub(crate) xattrs: BTreeMap<String, Bytes>,
    pub(crate) omap: BTreeMap<Bytes, Bytes>,
}

#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) object: Option<Object>,
    /// Whether a step did something. If no step had anything to do, for example when zeroing after
    /// the end, the operation need not raise the version.
    pub(crate) touched: bool,
}

/// Runs a write operation on the object `before`, whose version is `version` if it exists.
pub(crate) fn write(before: Option<&Object>, version: u64, op: &WriteOp) -> Result<Written, ErrorKind> {
    op.check().map_err(|error| error.kind())?;
    check_guards(before, version, &op.guards)?;
    let mut written = Written { object: before.cloned(), touched: false };
    for step in &op.steps {
        written.touched |= write_step(&mut written.object, step)?;
    }
    Ok(written)
}

/// Runs a read operation. The time in a `Stat` is zero because the oracle has no clock.
pub(crate) fn read(object: Option<&Object>, version: u64, op: &ReadOp) -> Result<Vec<ReadOutput>, ErrorKind> {
    op.check().map_err(|error| error.kind())?;
    check_guards(object, version, &op.guards)?;
    let object = object.ok_or(NotFound)?;
    op.steps.iter().map(|step| read_step(object, step)).collect()
}

fn check_guards(object: Option<&Object>, version: u64, guards: &[Guard]) -> Result<(), ErrorKind> {
    if guards.is_empty() {
        return Ok(());
    }
    let object = object.ok_or(NotFound)?;
    let holds = |guard: &Guard| match guard {
        Guard::Exists => true,
        Guard::Version(wanted) => *wanted == version,
        Guard::Xattr { name, compare, value } => {
            compare.holds(object.xattrs.get(name).map_or(&[], |stored| stored), value)
        }
        Guard::Omap { key, value } => object.omap.get(key).map_or(&[][..], |stored| stored) == value,
    };
    if guards.iter().all(holds) { Ok(()) } else { Err(Conflict) }
}

fn write_step(staged: &mut Option<Object>, step: &WriteStep) -> Result<bool, ErrorKind> {
    match step {
        WriteStep::Create { exclusive } => {
            if *exclusive && staged.is_some() {
                return Err(AlreadyExists);
            }
            staged.get_or_insert_default();
        }
        WriteStep::Write { offset_bytes, data } => {
            let object = staged.get_or_insert_default();
            if !data.is_empty() {
                write_at(&mut object.data, *offset_bytes as usize, data);
            }
        }
        WriteStep::WriteFull { data } => staged.get_or_insert_default().data = data.to_vec(),
        WriteStep::Append { data } => staged.get_or_insert_default().data.extend_from_slice(data),
        WriteStep::Truncate { size_bytes } => match staged {
            Some(object) => object.data.resize(*size_bytes as usize, 0),
            None => return Ok(false),
        },
        WriteStep::Zero { offset_bytes, len_bytes } => match staged {
            Some(object) => return Ok(zero(&mut object.data, *offset_bytes as usize, *len_bytes as usize)),
            None => return Ok(false),
        },
        WriteStep::Remove => *staged = staged.take().map(|_| None).ok_or(NotFound)?,
        WriteStep::SetXattr { name, value } => {
            staged.get_or_insert_default().xattrs.insert(name.clone(), value.clone());
        }
        WriteStep::RemoveXattr { name } => {
            staged.as_mut().ok_or(NotFound)?.xattrs.remove(name);
        }
        WriteStep::OmapSet { entries } => staged.get_or_insert_default().omap.extend(entries.clone()),
        WriteStep::OmapRemove { keys } => {
            let object = staged.as_mut().ok_or(NotFound)?;
            object.omap.retain(|key, _| !keys.contains(key));
        }
        WriteStep::OmapClear => {
            let object = staged.as_mut().ok_or(NotFound)?;
            let touched = !object.omap.is_empty();
            object.omap.clear();
            return Ok(touched);
        }
        WriteStep::Exec(call) => return classes::call(staged, call).map(|called| called.touched),
    }
    Ok(true)
}

fn read_step(object: &Object, step: &ReadStep) -> Result<ReadOutput, ErrorKind> {
    Ok(match step {
        ReadStep::Read { offset_bytes, len_bytes } => {
            let start = (*offset_bytes as usize).min(object.data.len());
            let end = start.saturating_add(*len_bytes as usize).min(object.data.len());
            ReadOutput::Data(Bytes::copy_from_slice(&object.data[start..end]))
        }
        ReadStep::Stat => {
            ReadOutput::Stat(Stat { size_bytes: object.data.len() as u64, modified_unix_ns: 0 })
        }
        ReadStep::GetXattr { name } => ReadOutput::Xattr(object.xattrs.get(name).ok_or(NotFound)?.clone()),
        ReadStep::ListXattrs => ReadOutput::Xattrs(object.xattrs.clone()),
        ReadStep::OmapGet { keys } => {
            let wanted = object.omap.iter().filter(|(key, _)| keys.contains(key));
            let entries = wanted.map(|(key, value)| (key.clone(), value.clone())).collect();
            ReadOutput::Omap(OmapPage { entries, more: false })
        }
        ReadStep::OmapRange { after, prefix, entries_max } => {
            let in_range =
                |key: &Bytes| key.starts_with(prefix) && after.as_ref().is_none_or(|after| key > after);
            let mut entries: Vec<_> = object
                .omap
                .iter()
                .filter(|(key, _)| in_range(key))
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect();
            let entries_max = (*entries_max).min(limits::OMAP_PAGE_ENTRIES_MAX);
            let more = entries.len() > entries_max;
            entries.truncate(entries_max);
            ReadOutput::Omap(OmapPage { entries, more })
        }
        ReadStep::Exec(call) => ReadOutput::Exec(classes::call(&mut Some(object.clone()), call)?.output),
    })
}

fn write_at(data: &mut Vec<u8>, offset: usize, new: &[u8]) {
    let end = offset + new.len();
    if data.len() < end {
        data.resize(end, 0);
    }
    data[offset..end].copy_from_slice(new);
}

fn zero(data: &mut Vec<u8>, offset: usize, len: usize) -> bool {
    if len == 0 || offset >= data.len() {
        return false;
    }
    if offset + len >= data.len() {
        data.truncate(offset);
    } else {
        data[offset..offset + len].fill(0);
    }
    true
}
