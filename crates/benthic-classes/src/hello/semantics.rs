//! Shows how a method sees its own operation, and that a failed method leaves nothing behind.

use super::{OBSERVATION_XATTR, wire::Observation};
use benthic_core::{Error, ErrorKind, MethodContext, OptionalExtension, Result};
use bytes::Bytes;
use std::collections::BTreeMap;

const DATA_BYTES_MAX: u64 = 64;
const NAMES_MAX: usize = 8;

/// Reads the object, appends data and an omap entry, and stores its observations.
///
/// Learn: read first, decide, write last. A method may not read a part that it has changed. It may
/// always call `stat`, which returns the size after its own writes. On a missing object, reads fail
/// with `NotFound` and writes create it.
///
/// # Errors
/// `LimitExceeded` if the object becomes too large.
pub fn old_and_new(context: &mut MethodContext<'_>, input: &[u8]) -> Result<Vec<u8>> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let data = context.read(0, DATA_BYTES_MAX).optional()?.map(|data| text(&data));
    let xattrs = context.list_xattrs().optional()?.map(|xattrs| xattrs.into_keys().take(NAMES_MAX).collect());
    let omap_keys = context
        .omap_range(None, b"", NAMES_MAX)
        .optional()?
        .map(|page| page.entries.iter().map(|(key, _)| text(key)).collect());

    let addition = if input.is_empty() { Bytes::from_static(b"new") } else { Bytes::copy_from_slice(input) };
    context.append(addition)?;
    context.omap_set(BTreeMap::from([(Bytes::from_static(b"hello.new"), Bytes::new())]))?;

    let seen = Observation { size_bytes: context.stat()?.size_bytes, data, xattrs, omap_keys };
    let seen = serde_json::to_vec(&seen)
        .map_err(|error| Error::internal("the output cannot be encoded").with_source(error))?;
    context.set_xattr(OBSERVATION_XATTR, seen)?;
    Ok(Vec::new())
}

/// Does nothing, although it declares that it reads and writes.
///
/// Learn: flags state the steps that a method may take, not the steps that a call took. A missing
/// object is not created; an existing object keeps its version. The output of a method that
/// declares `WRITE` is dropped, even if it wrote nothing.
///
/// # Errors
/// None.
pub fn nothing(_context: &mut MethodContext<'_>, _input: &[u8]) -> Result<Vec<u8>> {
    Ok(b"this output is dropped".to_vec())
}

/// Writes data, an attribute and an omap entry, then fails.
///
/// Learn: an error undoes the whole operation, including the steps around the method. A method has
/// nothing to clean up.
///
/// # Errors
/// `InvalidArgument`, always.
pub fn fail_after_writing(context: &mut MethodContext<'_>, _input: &[u8]) -> Result<Vec<u8>> {
    write_everywhere(context)?;
    Err(Error::invalid_argument("this method fails, as its name says"))
}

/// Writes, then fails with the kind of error that the input names.
///
/// Learn: the kind and the message of a method's error reach the caller, even through an OSD. After
/// a lost connection the message may be missing, so a program must decide by the kind.
///
/// # Errors
/// The kind that the input names; `InvalidArgument` for an unknown name.
pub fn errno(context: &mut MethodContext<'_>, input: &[u8]) -> Result<Vec<u8>> {
    let name = String::from_utf8_lossy(input);
    let Some(kind) = ErrorKind::from_name(&name) else {
        return Err(Error::invalid_argument("no such error kind").with("name", name));
    };
    write_everywhere(context)?;
    Err(Error::new(kind, "this method fails with the requested kind"))
}

pub(super) fn write_everywhere(context: &mut MethodContext<'_>) -> Result<()> {
    context.write_full(&b"these data are discarded"[..])?;
    context.set_xattr("hello.lost", "lost")?;
    context.omap_set(BTreeMap::from([(Bytes::from_static(b"hello.lost"), Bytes::new())]))
}
