//! The limits of an image's requests, in a value of the image's metadata.
//!
//! The value is text, such as `read_ops_per_s=500 burst_s=3`, so that `rbd image-meta list` shows
//! it.

use benthic_block::Limits;
use benthic_core::{ClassCall, Error, Result};
use std::ffi::CStr;

pub const KEY: &CStr = c"benthic.limits";

/// The call of RBD's class that stores limits in an image's header. Without limits, it removes the
/// stored limits, and fails with `NotFound` if there is nothing.
pub fn store(limits: &Limits) -> ClassCall {
    let mut input = Vec::new();
    let mut put = |bytes: &[u8]| {
        input.extend((bytes.len() as u32).to_le_bytes());
        input.extend(bytes);
    };
    if *limits == Limits::default() {
        put(KEY.to_bytes());
        return ClassCall::new("rbd", "metadata_remove", input);
    }
    put(KEY.to_bytes());
    put(encode(limits).as_bytes());
    // The method stores any number of values; the count comes first.
    ClassCall::new("rbd", "metadata_set", [&1_u32.to_le_bytes()[..], &input].concat())
}

/// The stored text; empty for no limits.
fn encode(limits: &Limits) -> String {
    let given = limits.fields().into_iter().filter_map(|(name, value)| Some(format!("{name}={}", value?)));
    given.collect::<Vec<_>>().join(" ")
}

/// Decodes and checks a stored text.
///
/// # Errors
/// `Corrupt`.
pub fn decode(text: &str) -> Result<Limits> {
    let damaged = || {
        let message = "the image's limits are damaged, or a newer program wrote them; `benthic image limit --none` removes them";
        Error::corrupt(message).with("limits", text.escape_debug())
    };
    let mut limits = Limits::default();
    for word in text.split_whitespace() {
        let (name, value) = word.split_once('=').ok_or_else(damaged)?;
        let (_, field) =
            limits.fields_mut().into_iter().find(|(known, _)| *known == name).ok_or_else(damaged)?;
        if field.replace(value.parse().map_err(|_| damaged())?).is_some() {
            return Err(damaged());
        }
    }
    limits.check().map_err(|_| damaged())?;
    Ok(limits)
}

#[cfg(test)]
#[path = "limits_tests.rs"]
mod tests;
