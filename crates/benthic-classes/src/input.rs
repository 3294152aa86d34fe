//! Parses the inputs of methods.

pub(crate) use benthic_core::op::check_len;

use benthic_core::{Error, Result};
use serde::de::DeserializeOwned;

/// The input as text of at most `len_bytes_max` bytes.
pub(crate) fn text(input: &[u8], len_bytes_max: usize) -> Result<&str> {
    check_len("the input", input.len(), len_bytes_max)?;
    std::str::from_utf8(input)
        .map_err(|error| Error::invalid_argument("the input is not UTF-8").with_source(error))
}

/// The input as a JSON object; `expected` is the message of the error.
pub(crate) fn json<T: DeserializeOwned>(input: &[u8], expected: &str) -> Result<T> {
    // serde would also accept an array for a struct.
    if !input.starts_with(b"{") {
        return Err(Error::invalid_argument(expected));
    }
    serde_json::from_slice(input).map_err(|error| Error::invalid_argument(expected).with_source(error))
}
