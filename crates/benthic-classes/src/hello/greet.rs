//! Ordinary methods: one that needs no object, one that writes, one that reads.

use super::GREETING_XATTR;
use benthic_core::{Error, ErrorKind, LogLevel, MethodContext, Result};

/// Longest name that is greeted.
const NAME_BYTES_MAX: usize = 100;

/// Greets.
///
/// Learn: check the input first; it comes from anyone who may call methods. A method declares at least one
/// flag, so this one declares `READ` although it looks at nothing, and is not called if the object is
/// missing.
///
/// # Errors
/// `LimitExceeded` for a name over 100 bytes, `InvalidArgument` for one that is not UTF-8.
pub fn say(_context: &mut MethodContext<'_>, input: &[u8]) -> Result<Vec<u8>> {
    greeting(input).map(String::into_bytes)
}

/// Makes a new object whose data and attribute are a greeting.
///
/// Learn: a write method returns nothing. What it has to say it stores, and the caller reads it back. All of
/// its writes commit together with the operation. `stat` needs no `READ`, so `WRITE` is all that it declares.
///
/// # Errors
/// `AlreadyExists` if the object is there; as [`say`].
pub fn record(context: &mut MethodContext<'_>, input: &[u8]) -> Result<Vec<u8>> {
    let greeting = greeting(input)?;
    match context.stat() {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
        Ok(_) => {
            return Err(Error::new(
                ErrorKind::AlreadyExists,
                "record makes a new object, and this one exists",
            ));
        }
    }
    context.write_full(greeting.clone())?;
    context.set_xattr(GREETING_XATTR, greeting)?;
    context.log(LogLevel::Debug, "recorded a greeting");
    Ok(Vec::new())
}

/// Returns the greeting that [`record`] stored.
///
/// Learn: a read method returns its output, and is called only if the object is there.
///
/// # Errors
/// `NotFound` if there is no greeting.
pub fn replay(context: &mut MethodContext<'_>, _input: &[u8]) -> Result<Vec<u8>> {
    Ok(context.get_xattr(GREETING_XATTR)?.to_vec())
}

fn greeting(input: &[u8]) -> Result<String> {
    if input.len() > NAME_BYTES_MAX {
        return Err(Error::new(ErrorKind::LimitExceeded, "the name is too long")
            .with("len_bytes", input.len())
            .with("len_bytes_max", NAME_BYTES_MAX));
    }
    match std::str::from_utf8(input) {
        Ok("") => Ok("Hello, world!".to_owned()),
        Ok(name) => Ok(format!("Hello, {name}!")),
        Err(error) => Err(Error::new(ErrorKind::InvalidArgument, "the name is not UTF-8").with_source(error)),
    }
}
