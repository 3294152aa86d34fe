//! Translates write operations into librados operations, and replies back.

use crate::errors::{self, Failure, c_string};
use crate::ffi::{self, Completed, IoCtx, MethodResult, Operator};
use benthic_core::error::errno;
use benthic_core::{Action, ClassCall, Compare, Guard, Result, WriteOp, WriteReply, WriteStep};
use std::ffi::CString;

/// Builds an operation that [`WriteOp::check`] accepts. If the first step calls a method, `method`
/// holds the wire names of its class and method. With `needs_object` the operation fails on a
/// missing object.
pub(crate) fn build(
    context: &IoCtx,
    op: &WriteOp,
    method: Option<&(CString, CString)>,
    needs_object: bool,
) -> Result<ffi::WriteOp> {
    let mut built = ffi::WriteOp::new(context);
    // A version guard alone returns EOVERFLOW for a missing object.
    if needs_object || op.guards.iter().any(|guard| matches!(guard, Guard::Version(_))) {
        built.assert_exists();
    }
    for guard in &op.guards {
        match guard {
            Guard::Exists => built.assert_exists(),
            Guard::Version(version) => built.assert_version(*version),
            Guard::Xattr { name, compare, value } => {
                built.compare_xattr(&c_string(name.as_str())?, xattr_operator(*compare), value);
            }
            Guard::Omap { key, value } => built.compare_omap(key, value),
        }
    }
    for step in &op.steps {
        add_step(&mut built, step, method)?;
    }
    Ok(built)
}

fn add_step(built: &mut ffi::WriteOp, step: &WriteStep, method: Option<&(CString, CString)>) -> Result<()> {
    match step {
        WriteStep::Create { exclusive } => built.create(*exclusive),
        // For an empty write past the end, an OSD extends the object and corrupts its checksum.
        WriteStep::Write { data, .. } | WriteStep::Append { data } if data.is_empty() => built.create(false),
        WriteStep::Write { offset_bytes, data } => built.write(*offset_bytes, data),
        WriteStep::WriteFull { data } => built.write_full(data),
        WriteStep::Append { data } => built.append(data),
        WriteStep::Truncate { size_bytes } => built.truncate(*size_bytes),
        WriteStep::Zero { offset_bytes, len_bytes } => built.zero(*offset_bytes, *len_bytes),
        WriteStep::Remove => built.remove(),
        WriteStep::SetXattr { name, value } => built.set_xattr(&c_string(name.as_str())?, value),
        WriteStep::RemoveXattr { name } => built.remove_xattr(&c_string(name.as_str())?),
        WriteStep::OmapSet { entries } => {
            built.omap_set(entries.iter().map(|(key, value)| (&key[..], &value[..])));
        }
        WriteStep::OmapRemove { keys } => built.omap_remove(keys.iter().map(|key| &key[..])),
        WriteStep::OmapClear => built.omap_clear(),
        WriteStep::Exec(call) => {
            if let Some((class, method)) = method {
                built.exec(class, method, &call.input);
            }
        }
    }
    Ok(())
}

/// Turns the answer into a reply. `method` is the call that the operation contains.
pub(crate) fn reply(
    completed: &Completed<MethodResult>,
    method: Option<&ClassCall>,
) -> Result<WriteReply, Failure> {
    // A guard that holds and a method can return more than 0.
    if completed.result >= 0 {
        return Ok(WriteReply { version: completed.version });
    }
    let number = completed.result.saturating_neg();
    Err(match method {
        // Both a guard and the method can return ERANGE; only the method's own result tells them
        // apart.
        Some(call) if completed.buffers.code() == completed.result => {
            errors::of_method(number, call, &completed.buffers.output())
        }
        Some(call) => refusal(number, call, Action::Write).into(),
        None => errors::of_operation(number, Action::Write).into(),
    })
}

/// The error of an operation whose method did not fail and perhaps did not run.
pub(crate) fn refusal(number: i32, call: &ClassCall, action: Action) -> benthic_core::Error {
    match number {
        errno::EPERM | errno::EACCES => errors::of_refused_method(call),
        errno::EOPNOTSUPP => errors::of_method(number, call, &[]).error,
        _ => errors::of_operation(number, action),
    }
}

/// Swaps the operands: an OSD compares `given OP stored`, the contract `stored OP given`.
pub(crate) fn xattr_operator(compare: Compare) -> Operator {
    match compare {
        Compare::Eq => Operator::Eq,
        Compare::Ne => Operator::Ne,
        Compare::Gt => Operator::Lt,
        Compare::Ge => Operator::Le,
        Compare::Lt => Operator::Gt,
        Compare::Le => Operator::Ge,
    }
}
