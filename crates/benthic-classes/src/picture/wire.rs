//! Inputs and outputs of the `picture` methods, and their limits.

use crate::input::{self, check_len};
use benthic_core::{Error, Result};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// Limit of an image file.
pub const IMAGE_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Limit of a thumbnail's longest edge, in pixels. A thumbnail of this size fits into an omap value
/// even uncompressed and with transparency.
pub const EDGE_MAX: u32 = 500;
/// Limit of thumbnails per picture.
pub const SIZES_MAX: usize = 8;
/// The sizes of thumbnails if the caller gives none.
pub const DEFAULT_SIZES: [u32; 2] = [64, 256];
/// Limit of a label's name, in bytes of UTF-8.
pub const LABEL_NAME_BYTES_MAX: usize = 64;
/// Limit of a label's value, in bytes of UTF-8.
pub const LABEL_VALUE_BYTES_MAX: usize = 256;
/// Limit of labels per call.
pub const LABELS_MAX: usize = 64;
/// The labels that the class derives from the picture; callers cannot set them.
pub const DERIVED_LABELS: [&str; 5] = ["colour", "format", "height", "shape", "width"];

/// First bytes of an input of `put` that has [options](Options) before the image. The format: these
/// bytes, a version, the length of the options as JSON (both `u32`, little-endian), the options,
/// the image.
pub const PUT_MAGIC: [u8; 4] = *b"BPIC";
const PUT_VERSION: u32 = 1;

const OPTIONS_BYTES_MAX: usize = 64 * 1024;

/// The thumbnails and labels to create, as JSON such as
/// `{"sizes":[64,256],"labels":{"album":"reef"}}`; both may be absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// Longest edges of the thumbnails in pixels, 1 to [`EDGE_MAX`]. If absent, `index` keeps the
    /// existing sizes; without existing ones, and for `put`, the sizes are [`DEFAULT_SIZES`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sizes: Option<BTreeSet<u32>>,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

impl Options {
    /// Parses options; empty input means the defaults.
    pub(super) fn parse(input: &[u8]) -> Result<Options> {
        if input.is_empty() {
            return Ok(Options::default());
        }
        check_len("the options", input.len(), OPTIONS_BYTES_MAX)?;
        let expected = r#"the options must be JSON such as {"sizes":[64,256],"labels":{"album":"reef"}}"#;
        let options: Options = input::json(input, expected)?;
        options.check()?;
        Ok(options)
    }

    fn check(&self) -> Result<()> {
        if let Some(sizes) = &self.sizes {
            check_sizes(sizes)?;
        }
        if self.labels.len() > LABELS_MAX {
            return Err(Error::limit_exceeded("too many labels").with("labels_max", LABELS_MAX));
        }
        for (name, value) in &self.labels {
            check_label_name(name)?;
            if DERIVED_LABELS.contains(&name.as_str()) {
                let message = "the class derives this label from the picture; choose another name";
                return Err(Error::invalid_argument(message).with("label", name));
            }
            check_len("the label's value", value.len(), LABEL_VALUE_BYTES_MAX)?;
            if value.contains(char::is_control) {
                let message = "the label's value has control characters";
                return Err(Error::invalid_argument(message).with("label", name));
            }
        }
        Ok(())
    }

    pub fn encode(&self) -> String {
        json!(self).to_string()
    }

    pub fn encode_with(&self, image: &[u8]) -> Bytes {
        let options = self.encode();
        let mut input = PUT_MAGIC.to_vec();
        input.extend(PUT_VERSION.to_le_bytes());
        // Options over 4 GiB are refused for their length anyway.
        input.extend(u32::try_from(options.len()).unwrap_or(u32::MAX).to_le_bytes());
        input.extend(options.as_bytes());
        input.extend(image);
        input.into()
    }
}

/// Parses the input of `put`: an image, or options and an image.
pub(super) fn parse_put(input: &[u8]) -> Result<(Options, &[u8])> {
    let Some(rest) = input.strip_prefix(&PUT_MAGIC) else {
        return Ok((Options::default(), input));
    };
    let header = rest.split_first_chunk::<4>().and_then(|(version, rest)| {
        let (len_bytes, rest) = rest.split_first_chunk::<4>()?;
        Some((u32::from_le_bytes(*version), u32::from_le_bytes(*len_bytes), rest))
    });
    let (version, len_bytes, rest) = header.ok_or_else(truncation)?;
    if version != PUT_VERSION {
        return Err(Error::unsupported("the input has an unknown version")
            .with("version", version)
            .with("version_known", PUT_VERSION));
    }
    let (options, image) = rest.split_at_checked(len_bytes as usize).ok_or_else(truncation)?;
    Ok((Options::parse(options)?, image))
}

/// Parses the input of `thumbnail`: the size, or empty for the larger default.
pub(super) fn parse_size(input: &[u8]) -> Result<u32> {
    match text(input)? {
        "" => Ok(DEFAULT_SIZES[1]),
        size => size.parse().map_err(|error| {
            Error::invalid_argument("a size must be a number of pixels such as 256").with_source(error)
        }),
    }
}

/// Parses the input of `match` and `get_if`: `LABEL` or `LABEL=VALUE`.
pub(super) fn parse_condition(input: &[u8]) -> Result<(&str, Option<&str>)> {
    let text = text(input)?;
    let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
    check_label_name(name)?;
    Ok((name, value))
}

/// Checks the size of a single thumbnail.
pub(super) fn check_edge(edge: u32) -> Result<()> {
    if (1..=EDGE_MAX).contains(&edge) {
        return Ok(());
    }
    Err(Error::invalid_argument("a thumbnail has 1 to 500 pixels").with("edge_max", EDGE_MAX))
}

pub(super) fn check_sizes(sizes: &BTreeSet<u32>) -> Result<()> {
    if sizes.len() > SIZES_MAX || sizes.last().is_some_and(|edge| *edge > EDGE_MAX) {
        return Err(Error::limit_exceeded("too many thumbnails, or too large ones")
            .with("sizes_max", SIZES_MAX)
            .with("edge_max", EDGE_MAX));
    }
    if sizes.contains(&0) {
        return Err(Error::invalid_argument("a thumbnail must have at least one pixel"));
    }
    Ok(())
}

fn check_label_name(name: &str) -> Result<()> {
    check_len("the label's name", name.len(), LABEL_NAME_BYTES_MAX)?;
    if name.is_empty() || name.contains(|c: char| c.is_control() || c == '=') {
        let message = "the label's name is empty or has control characters or =";
        return Err(Error::invalid_argument(message).with("label", name));
    }
    Ok(())
}

fn text(input: &[u8]) -> Result<&str> {
    input::text(input, LABEL_NAME_BYTES_MAX + 1 + LABEL_VALUE_BYTES_MAX)
}

fn truncation() -> Error {
    Error::invalid_argument("the input ends before the image")
}
