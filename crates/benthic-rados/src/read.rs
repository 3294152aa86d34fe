//! Translates read operations into librados operations, and replies back.

use crate::errors::{self, Failure, c_string, up_to_nul};
use crate::ffi::{self, Completed, IoCtx, ReadBuffers, StepOutput};
use crate::write::{refusal, xattr_operator};
use benthic_core::{
    Action, ClassCall, Error, Guard, OmapPage, ReadOp, ReadOutput, ReadReply, ReadStep, Result, Stat, limits,
    op,
};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ffi::CString;

/// A read operation and the librados steps that are sent for it.
pub(crate) struct Plan<'a> {
    op: &'a ReadOp,
    guards: Vec<PlannedGuard<'a>>,
    sent: Vec<SentStep<'a>>,
}

enum PlannedGuard<'a> {
    Xattr(CString, &'a Guard),
    Other(&'a Guard),
}

enum SentStep<'a> {
    Step(&'a ReadStep),
    /// Reads all attributes, for all steps that need any: within an operation, the C interface
    /// cannot read a single one.
    Xattrs,
    Exec(&'a ClassCall, CString, CString),
    /// Sent if no other step is: it tells whether the object exists, and its version.
    Stat,
}

impl<'a> Plan<'a> {
    /// Plans an operation that [`ReadOp::check`] accepts.
    pub fn new(
        op: &'a ReadOp,
        wire_names: impl Fn(&ClassCall) -> Result<(CString, CString)>,
    ) -> Result<Plan<'a>> {
        let mut guards = Vec::with_capacity(op.guards.len());
        for guard in &op.guards {
            guards.push(match guard {
                Guard::Xattr { name, .. } => PlannedGuard::Xattr(c_string(name.as_str())?, guard),
                other => PlannedGuard::Other(other),
            });
        }
        let mut sent = Vec::with_capacity(op.steps.len());
        let mut xattrs = false;
        for step in &op.steps {
            match step {
                // To an OSD, length 0 means "to the end".
                ReadStep::Read { len_bytes: 0, .. } => {}
                ReadStep::GetXattr { .. } | ReadStep::ListXattrs => {
                    if !std::mem::replace(&mut xattrs, true) {
                        sent.push(SentStep::Xattrs);
                    }
                }
                ReadStep::Exec(call) => {
                    let (class, method) = wire_names(call)?;
                    sent.push(SentStep::Exec(call, class, method));
                }
                step => sent.push(SentStep::Step(step)),
            }
        }
        if sent.is_empty() {
            sent.push(SentStep::Stat);
        }
        Ok(Plan { op, guards, sent })
    }

    pub fn build(&self, context: &IoCtx) -> ffi::ReadOp {
        let mut built = ffi::ReadOp::new(context);
        // A version guard alone can return EOVERFLOW for a missing object.
        if self.op.guards.iter().any(|guard| matches!(guard, Guard::Version(_))) {
            built.assert_exists();
        }
        for guard in &self.guards {
            match guard {
                PlannedGuard::Xattr(name, Guard::Xattr { compare, value, .. }) => {
                    built.compare_xattr(name, xattr_operator(*compare), value);
                }
                PlannedGuard::Other(Guard::Version(version)) => built.assert_version(*version),
                PlannedGuard::Other(Guard::Omap { key, value }) => built.compare_omap(key, value),
                PlannedGuard::Xattr(..) | PlannedGuard::Other(_) => built.assert_exists(),
            }
        }
        for sent in &self.sent {
            match sent {
                SentStep::Xattrs => built.xattrs(),
                SentStep::Exec(call, class, method) => built.exec(class, method, &call.input),
                SentStep::Step(ReadStep::Read { offset_bytes, len_bytes }) => {
                    // `check` bounds the length.
                    built.read(*offset_bytes, usize::try_from(*len_bytes).unwrap_or(usize::MAX));
                }
                SentStep::Step(ReadStep::OmapGet { keys }) => built.omap_get(keys.iter().map(|key| &key[..])),
                SentStep::Step(ReadStep::OmapRange { after, prefix, entries_max }) => {
                    let range = Range::new(after.as_deref(), prefix, *entries_max);
                    built.omap_range(&up_to_nul(range.after), &up_to_nul(prefix), range.request_max());
                }
                SentStep::Stat | SentStep::Step(_) => built.stat(),
            }
        }
        built
    }
}

pub(crate) fn call(step: &ReadStep) -> Option<&ClassCall> {
    if let ReadStep::Exec(call) = step { Some(call) } else { None }
}

/// Turns the answer into a reply. `may_change` is whether a method may have changed the object.
pub(crate) fn reply(
    plan: &Plan<'_>,
    completed: Completed<ReadBuffers>,
    may_change: bool,
) -> Result<ReadReply, Failure> {
    if completed.result < 0 {
        return Err(failure(plan, &completed, may_change));
    }
    let mut xattrs = None;
    let mut outputs = Vec::new();
    for output in completed.buffers.outputs() {
        match output {
            StepOutput::Xattrs(found) => xattrs = Some(text_names(found)),
            output => outputs.push(output),
        }
    }
    let mut outputs = outputs.into_iter();
    let mut reply =
        ReadReply { version: completed.version, outputs: Vec::with_capacity(plan.op.steps.len()) };
    let mut reply_bytes = 0;
    for step in &plan.op.steps {
        let output = match step {
            ReadStep::Read { len_bytes: 0, .. } => ReadOutput::Data(Bytes::new()),
            ReadStep::GetXattr { name } => {
                let value = xattrs.as_ref().and_then(|xattrs: &BTreeMap<_, _>| xattrs.get(name)).cloned();
                ReadOutput::Xattr(
                    value.ok_or_else(|| Error::not_found("no such attribute").with("attribute", name))?,
                )
            }
            ReadStep::ListXattrs => ReadOutput::Xattrs(xattrs.clone().unwrap_or_default()),
            step => step_output(step, outputs.next())?,
        };
        reply_bytes += output.len_bytes();
        op::check_reply(reply_bytes)?;
        reply.outputs.push(output);
    }
    Ok(reply)
}

fn step_output(step: &ReadStep, output: Option<StepOutput>) -> Result<ReadOutput> {
    Ok(match (step, output) {
        (_, Some(StepOutput::Data(data))) => ReadOutput::Data(data.into()),
        (_, Some(StepOutput::Stat { size_bytes, modified })) => ReadOutput::Stat(Stat {
            size_bytes,
            // The C interface returns whole seconds.
            modified_unix_ns: modified.unix_ns(),
        }),
        (ReadStep::OmapRange { after, prefix, entries_max }, Some(StepOutput::Omap { entries, more })) => {
            ReadOutput::Omap(Range::new(after.as_deref(), prefix, *entries_max).page(entries, more)?)
        }
        (_, Some(StepOutput::Omap { entries, .. })) => {
            let entries = entries.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
            ReadOutput::Omap(OmapPage { entries, more: false })
        }
        (_, Some(StepOutput::Exec(output))) => ReadOutput::Exec(output.into()),
        (_, Some(StepOutput::Xattrs(_)) | None) => {
            return Err(Error::internal("librados returned no output for a step"));
        }
    })
}

/// Omits names that are not UTF-8: the contract cannot request them.
fn text_names(found: Vec<(Vec<u8>, Vec<u8>)>) -> BTreeMap<String, Bytes> {
    let text = |(name, value)| Some((String::from_utf8(name).ok()?, Bytes::from(value)));
    found.into_iter().filter_map(text).collect()
}

fn failure(plan: &Plan<'_>, completed: &Completed<ReadBuffers>, may_change: bool) -> Failure {
    let number = completed.result.saturating_neg();
    let action = if may_change { Action::Write } else { Action::Read };
    let mut refused_call = None;
    for (step, (sent, result)) in plan.sent.iter().zip(completed.buffers.results()).enumerate() {
        let SentStep::Exec(call, ..) = sent else { continue };
        if result == completed.result {
            return errors::of_method(number, call, &completed.buffers.exec_output(step));
        }
        refused_call.get_or_insert(*call);
    }
    let error = match refused_call {
        Some(call) => refusal(number, call, action),
        None => errors::of_operation(number, action),
    };
    error.into()
}

/// One page of an omap range.
///
/// The C interface takes the start key and the prefix as C strings. If one of them contains a NUL,
/// the client requests the page from the part before the NUL and drops the entries outside the
/// range here.
struct Range<'a> {
    after: &'a [u8],
    prefix: &'a [u8],
    entries_max: usize,
}

impl<'a> Range<'a> {
    fn new(after: Option<&'a [u8]>, prefix: &'a [u8], entries_max: usize) -> Range<'a> {
        Range {
            after: after.unwrap_or_default(),
            prefix,
            entries_max: entries_max.min(limits::OMAP_PAGE_ENTRIES_MAX),
        }
    }

    fn cut(&self) -> bool {
        self.after.contains(&0) || self.prefix.contains(&0)
    }

    fn request_max(&self) -> u64 {
        (if self.cut() { limits::OMAP_PAGE_ENTRIES_MAX } else { self.entries_max }) as u64
    }

    fn page(&self, entries: Vec<(Vec<u8>, Vec<u8>)>, more: bool) -> Result<OmapPage> {
        let mut page = OmapPage { entries: Vec::new(), more };
        let mut len_bytes = 0;
        let got_any = !entries.is_empty();
        for (key, value) in entries {
            if !key.starts_with(self.prefix) && key[..] > *self.prefix {
                page.more = false;
                return Ok(page);
            }
            if key[..] <= *self.after || !key.starts_with(self.prefix) {
                continue;
            }
            if page.entries.len() == self.entries_max || len_bytes >= limits::OMAP_PAGE_BYTES_MAX {
                page.more = true;
                return Ok(page);
            }
            len_bytes += key.len() + value.len();
            page.entries.push((key.into(), value.into()));
        }
        if page.entries.is_empty() && page.more && got_any {
            let message = "Ceph's C interface cannot list so many omap keys that are equal up to a NUL byte; get them by name";
            return Err(Error::unsupported(message).with("entries_max", limits::OMAP_PAGE_ENTRIES_MAX));
        }
        Ok(page)
    }
}
