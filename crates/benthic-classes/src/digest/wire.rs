//! Inputs and outputs of the `digest` methods.

use super::Algorithm;
use crate::input::{json, text};
use benthic_core::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Limit of repetitions per call.
pub const REPEAT_MAX: u32 = 100_000;

/// Limit of an input; all valid inputs are far shorter.
const INPUT_BYTES_MAX: usize = 256;

/// Input of the methods that store a digest: empty, or JSON such as `{"repeat":1000}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreInput {
    /// Repetitions of the whole work, 1 to [`REPEAT_MAX`].
    #[serde(default = "once")]
    pub repeat: u32,
}

/// Input of `compute`: an algorithm's name, or JSON such as `{"algorithm":"md5","repeat":1000}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComputeInput {
    pub algorithm: Algorithm,
    /// Repetitions of the whole work, 1 to [`REPEAT_MAX`].
    #[serde(default = "once")]
    pub repeat: u32,
}

/// Output of `verify`, as JSON: the digests that match, by algorithm.
pub type Verified = BTreeMap<Algorithm, String>;

fn once() -> u32 {
    1
}

impl StoreInput {
    pub fn parse(input: &[u8]) -> Result<StoreInput> {
        let input = text(input, INPUT_BYTES_MAX)?;
        if input.is_empty() {
            return Ok(StoreInput { repeat: 1 });
        }
        let expected = r#"the input must be empty or JSON such as {"repeat":1000}"#;
        let parsed: StoreInput = json(input.as_bytes(), expected)?;
        check_repeat(parsed.repeat)?;
        Ok(parsed)
    }

    pub fn encode(self) -> String {
        format!(r#"{{"repeat":{}}}"#, self.repeat)
    }
}

impl ComputeInput {
    pub fn parse(input: &[u8]) -> Result<ComputeInput> {
        let input = text(input, INPUT_BYTES_MAX)?;
        if !input.starts_with('{') {
            return Ok(ComputeInput { algorithm: input.parse()?, repeat: 1 });
        }
        let expected =
            r#"the input must be an algorithm such as md5 or JSON such as {"algorithm":"md5","repeat":1000}"#;
        let parsed: ComputeInput = json(input.as_bytes(), expected)?;
        check_repeat(parsed.repeat)?;
        Ok(parsed)
    }

    pub fn encode(self) -> String {
        format!(r#"{{"algorithm":"{}","repeat":{}}}"#, self.algorithm, self.repeat)
    }
}

/// Parses the input of `verify`: an algorithm's name, or empty for every stored digest.
pub fn parse_verify(input: &[u8]) -> Result<Option<Algorithm>> {
    match text(input, INPUT_BYTES_MAX)? {
        "" => Ok(None),
        name => name.parse().map(Some),
    }
}

fn check_repeat(repeat: u32) -> Result<()> {
    match repeat {
        0 => Err(Error::invalid_argument("repeat must be at least 1")),
        1..=REPEAT_MAX => Ok(()),
        _ => Err(Error::limit_exceeded("too many repetitions for one call; use several calls")
            .with("repeat", repeat)
            .with("repeat_max", REPEAT_MAX)),
    }
}
