//! Methods that break the rules. After each of them the object is unchanged and the next call
//! works.

use super::semantics::write_everywhere;
use benthic_core::{Error, MethodContext, Result, limits};

const HOARD_BYTES: u64 = 1024 * 1024;

/// Writes, but declares only `READ`.
///
/// Learn: the context refuses the call, and the engine answers `ClassFailed` when the method
/// returns, even if the method ignores the error.
///
/// # Errors
/// None of its own.
pub fn write_undeclared(context: &mut MethodContext<'_>, input: &[u8]) -> Result<Vec<u8>> {
    if input == b"append" {
        let _ = context.append("lost");
    } else {
        let _ = write_everywhere(context);
    }
    Ok(b"written".to_vec())
}

/// Reads, but declares only `WRITE`.
///
/// Learn: as in [`write_undeclared`].
///
/// # Errors
/// `ClassFailed` from its read.
pub fn read_undeclared(context: &mut MethodContext<'_>, _input: &[u8]) -> Result<Vec<u8>> {
    let data = context.read(0, 1)?;
    context.write_full(data)?;
    Ok(Vec::new())
}

/// Changes a part of the object, then reads that part.
///
/// Learn: read first, write last. Depending on the lengths, an OSD answers such a read with old
/// bytes, waits forever or crashes. So the context refuses the read, and the engine must answer
/// `ClassFailed` when the method passes the error on.
///
/// # Errors
/// `ClassFailed`; `InvalidArgument` for an unknown part.
pub fn read_after_write(context: &mut MethodContext<'_>, input: &[u8]) -> Result<Vec<u8>> {
    if input == b"appended" {
        context.append("lost")?
    } else {
        write_everywhere(context)?
    }
    match input {
        b"data" | b"appended" => context.read(0, 1).map(|data| data.to_vec()),
        b"xattrs" => context.list_xattrs().map(|_| Vec::new()),
        b"omap" => context.omap_range(None, b"", 1).map(|_| Vec::new()),
        _ => Err(Error::invalid_argument("the input is data, appended, xattrs or omap")),
    }
}

/// Writes, then panics.
///
/// Learn: a panic is a bug, never a way to fail. The engine must catch it, log it, discard the
/// writes and answer `ClassFailed`. Neither the store nor an OSD may go down.
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

/// Runs until the deadline stops it.
///
/// Learn: every call of the context checks the deadline; pass its error on. In long computations
/// without such calls, use `check_deadline`.
///
/// # Errors
/// `LimitExceeded` when the deadline has passed.
pub fn spin(context: &mut MethodContext<'_>, _input: &[u8]) -> Result<Vec<u8>> {
    loop {
        context.stat()?;
    }
}

/// Runs until the deadline stops it, ignores the error and claims success.
///
/// Learn: the engine remembers that the deadline has passed and answers `LimitExceeded`, also if
/// the method returns another result.
///
/// # Errors
/// None of its own.
pub fn swallow_deadline(context: &mut MethodContext<'_>, _input: &[u8]) -> Result<Vec<u8>> {
    while context.stat().is_ok() {}
    Ok(b"in time".to_vec())
}

/// Charges memory until the context refuses.
///
/// Learn: charge memory before you allocate it. The engine releases all charges when the call ends.
///
/// # Errors
/// `LimitExceeded`.
pub fn hoard(context: &mut MethodContext<'_>, _input: &[u8]) -> Result<Vec<u8>> {
    loop {
        context.charge_memory(HOARD_BYTES)?;
    }
}

/// Returns more output than permitted.
///
/// Learn: limit your output. The engine answers `LimitExceeded` and sends no part of the output.
///
/// # Errors
/// `LimitExceeded` from the memory charge if the memory limit is small.
pub fn flood(context: &mut MethodContext<'_>, _input: &[u8]) -> Result<Vec<u8>> {
    let len_bytes = limits::METHOD_OUTPUT_BYTES_MAX + 1;
    context.charge_memory(len_bytes as u64)?;
    Ok(vec![0; len_bytes])
}
