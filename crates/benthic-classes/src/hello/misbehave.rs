//! Methods that break the rules. After each of them the object is as it was and the next call works.

use super::semantics::write_everywhere;
use benthic_core::{Error, ErrorKind, MethodContext, Result, limits};

const HOARD_BYTES: u64 = 1024 * 1024;

/// Writes, but declared only that it reads.
///
/// Learn: the call of the context succeeds, and the operation fails all the same when the method returns: an
/// OSD looks afterwards. The engine must discard the write and answer `ClassFailed`.
///
/// # Errors
/// None of its own.
pub fn write_undeclared(context: &mut MethodContext<'_>, _input: &[u8]) -> Result<Vec<u8>> {
    write_everywhere(context)?;
    Ok(b"written".to_vec())
}

/// Reads, but declared only that it writes.
///
/// Learn: as [`write_undeclared`]. The engine must discard what the method wrote from what it read.
///
/// # Errors
/// `NotFound` from its read, which nobody sees: the engine answers `ClassFailed`.
pub fn read_undeclared(context: &mut MethodContext<'_>, _input: &[u8]) -> Result<Vec<u8>> {
    let data = context.read(0, 1)?;
    context.write_full(data)?;
    Ok(Vec::new())
}

/// Changes a part of the object, then reads it.
///
/// Learn: read first, write last. An OSD answers such a read with old bytes, an endless wait or a crash,
/// depending on the lengths; so the context refuses it, and the engine must answer `ClassFailed` when the
/// method passes that on.
///
/// # Errors
/// `ClassFailed`; `InvalidArgument` for a part that no object has.
pub fn read_after_write(context: &mut MethodContext<'_>, input: &[u8]) -> Result<Vec<u8>> {
    write_everywhere(context)?;
    match input {
        b"data" => context.read(0, 1).map(|data| data.to_vec()),
        b"xattrs" => context.list_xattrs().map(|_| Vec::new()),
        b"omap" => context.omap_range(None, b"", 1).map(|_| Vec::new()),
        _ => Err(Error::new(ErrorKind::InvalidArgument, "the input is data, xattrs or omap")),
    }
}

/// Writes, then panics.
///
/// Learn: a panic is a bug, never a way to fail. The engine must catch it, log it, discard the writes and
/// answer `ClassFailed`; neither the store nor an OSD goes down.
///
/// # Errors
/// Those of its writes.
///
/// # Panics
/// Always.
pub fn panic(context: &mut MethodContext<'_>, _input: &[u8]) -> Result<Vec<u8>> {
    write_everywhere(context)?;
    panic!("this method panics, as its name says");
}

/// Runs until it is stopped.
///
/// Learn: every call of the context checks the deadline; pass its error on. Long computations between calls
/// use `check_deadline`.
///
/// # Errors
/// `LimitExceeded` when the deadline has passed.
pub fn spin(context: &mut MethodContext<'_>, _input: &[u8]) -> Result<Vec<u8>> {
    loop {
        context.stat()?;
    }
}

/// Runs until it is stopped, takes no notice of the error and claims success.
///
/// Learn: the engine remembers that the deadline has passed and answers `LimitExceeded` whatever the method
/// returns.
///
/// # Errors
/// None of its own.
pub fn swallow_deadline(context: &mut MethodContext<'_>, _input: &[u8]) -> Result<Vec<u8>> {
    while context.stat().is_ok() {}
    Ok(b"in time".to_vec())
}

/// Asks for memory until it is refused.
///
/// Learn: charge memory before you allocate it. The engine gives all of it back when the call ends.
///
/// # Errors
/// `LimitExceeded`.
pub fn hoard(context: &mut MethodContext<'_>, _input: &[u8]) -> Result<Vec<u8>> {
    loop {
        context.charge_memory(HOARD_BYTES)?;
    }
}

/// Returns more than a method may.
///
/// Learn: bound your output. The engine answers `LimitExceeded` and sends nothing of it.
///
/// # Errors
/// `LimitExceeded` already for its memory, where little is allowed.
pub fn flood(context: &mut MethodContext<'_>, _input: &[u8]) -> Result<Vec<u8>> {
    let len_bytes = limits::METHOD_OUTPUT_BYTES_MAX + 1;
    context.charge_memory(len_bytes as u64)?;
    Ok(vec![0; len_bytes])
}
