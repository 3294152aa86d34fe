//! Ordinary methods: one needs no data, one writes, one reads.

use super::GREETING_XATTR;
use benthic_core::{Error, LogLevel, MethodContext, OptionalExtension, Result};

/// Limit of a name's length.
const NAME_BYTES_MAX: usize = 100;

/// Returns a greeting.
///
/// Learn: check the input first; any client that may call methods can send it. A method declares at
/// least one flag. So this one declares `READ` although it reads nothing, and it is not called if
/// the object is missing.
///
/// # Errors
/// `LimitExceeded` for a name over 100 bytes, `InvalidArgument` for one that is not UTF-8.
pub fn say(_context: &mut MethodContext<'_>, input: &[u8]) -> Result<Vec<u8>> {
    greeting(input).map(String::into_bytes)
}

/// Returns a greeting as the method of this name in Ceph's class `hello` does, for programs that
/// call it.
///
/// Learn: a method that stands in for another one has the same errors, too. This one takes any
/// bytes as a name.
///
/// # Errors
/// `InvalidArgument` for a name over 100 bytes.
pub fn say_hello(_context: &mut MethodContext<'_>, input: &[u8]) -> Result<Vec<u8>> {
    if input.len() > NAME_BYTES_MAX {
        return Err(Error::invalid_argument("the name is too long")
            .with("len_bytes", input.len())
            .with("len_bytes_max", NAME_BYTES_MAX));
    }
    let name: &[u8] = if input.is_empty() { b"world" } else { input };
    Ok([&b"Hello, "[..], name, b"!"].concat())
}

/// Creates an object whose data and attribute are a greeting.
///
/// Learn: a write method returns nothing. It stores its result, and the caller reads it back. All
/// of its writes commit together with the operation. `stat` needs no `READ`, so this method
/// declares only `WRITE`.
///
/// # Errors
/// `AlreadyExists` if the object exists; as [`say`].
pub fn record(context: &mut MethodContext<'_>, input: &[u8]) -> Result<Vec<u8>> {
    let greeting = greeting(input)?;
    if context.stat().optional()?.is_some() {
        return Err(Error::already_exists("record creates a new object, but this object exists"));
    }
    context.write_full(greeting.clone())?;
    context.set_xattr(GREETING_XATTR, greeting)?;
    context.log(LogLevel::Debug, "recorded a greeting");
    Ok(Vec::new())
}

/// Appends a line to the object.
///
/// Learn: each append continues after the method's own changes and needs no `READ`. If an OSD runs
/// the method twice, the line is there twice; the guide's counter shows how to prevent that.
///
/// # Errors
/// `LimitExceeded` if the object would become too large.
pub fn append_line(context: &mut MethodContext<'_>, input: &[u8]) -> Result<Vec<u8>> {
    context.append(input.to_vec())?;
    context.append("\n")?;
    Ok(Vec::new())
}

/// Returns the greeting that [`record`] stored.
///
/// Learn: a read method returns its output. It is called only if the object exists.
///
/// # Errors
/// `NotFound` if there is no greeting.
pub fn replay(context: &mut MethodContext<'_>, _input: &[u8]) -> Result<Vec<u8>> {
    Ok(context.get_xattr(GREETING_XATTR)?.to_vec())
}

fn greeting(input: &[u8]) -> Result<String> {
    if input.len() > NAME_BYTES_MAX {
        return Err(Error::limit_exceeded("the name is too long")
            .with("len_bytes", input.len())
            .with("len_bytes_max", NAME_BYTES_MAX));
    }
    match std::str::from_utf8(input) {
        Ok("") => Ok("Hello, world!".to_owned()),
        Ok(name) => Ok(format!("Hello, {name}!")),
        Err(error) => Err(Error::invalid_argument("the name is not UTF-8").with_source(error)),
    }
}
