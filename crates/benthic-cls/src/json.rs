//! JSON as the input and output of methods.
//!
//! A class derives `Deserialize` and `Serialize` for its types from this crate's
//! [`serde`](crate::serde). The derived code must find serde under that name:
//!
//! ```
//! use benthic_cls::json;
//! use benthic_cls::serde::{Deserialize, Serialize};
//!
//! #[derive(Deserialize, Serialize)]
//! #[serde(crate = "benthic_cls::serde")]
//! struct Range {
//!     from: u64,
//!     to: u64,
//! }
//!
//! let range: Range = json::parse(br#"{"from":3,"to":5}"#)?;
//! assert_eq!(json::encode(&range)?, br#"{"from":3,"to":5}"#);
//! # Ok::<(), benthic_core::Error>(())
//! ```

use benthic_core::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Parses the input of a method.
///
/// # Errors
/// `InvalidArgument` if the input is not the JSON of a `T`.
pub fn parse<T: DeserializeOwned>(input: &[u8]) -> Result<T> {
    serde_json::from_slice(input).map_err(|error| {
        Error::invalid_argument("the input is not the JSON that this method takes").with_source(error)
    })
}

/// Encodes the output of a method.
///
/// # Errors
/// `Internal` if JSON cannot represent the value, such as a map whose keys are no text.
pub fn encode(value: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(value)
        .map_err(|error| Error::internal("the output cannot be encoded as JSON").with_source(error))
}

#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;
