//! Reduces an image file to the parts that its pixels need.
//!
//! Decoders are tolerant, and they read much besides pixels: comments, profiles, texts, and pieces
//! of documents that they sort and assemble. The cost of that grows with the file's content. So a
//! decoder does not get the original file. This module parses the file and writes a new one from
//! the parts that it understands, so that both agree on where each part begins. The number of parts
//! is limited, and all other parts are left out. A truncated file, or one with an invalid part, is
//! broken.

mod jpeg;
mod png;
#[cfg(test)]
mod tests;

pub use jpeg::SCANS_MAX;

use benthic_core::{Error, Result};
use std::fmt;

/// Limit of an image's pixels.
pub const PIXELS_MAX: u64 = 25_000_000;
/// Limit of the pixels in a row or a column, which is JPEG's own maximum. Decoders keep whole rows.
pub const SIDE_MAX: u32 = u16::MAX as u32;

/// A format that can be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Jpeg,
    Png,
}

impl Format {
    /// Detects the format from the first bytes.
    pub fn of(data: &[u8]) -> Option<Format> {
        if data.starts_with(jpeg::MAGIC) {
            Some(Format::Jpeg)
        } else if data.starts_with(png::MAGIC) {
            Some(Format::Png)
        } else {
            None
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Format::Jpeg => "jpeg",
            Format::Png => "png",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A file reduced to the parts that its pixels need.
pub struct ReducedImage<'a> {
    /// The file for the decoder: of the same format, and no longer than the original.
    pub file: Vec<u8>,
    pub width: u32,
    pub height: u32,
    /// Whether the image has no colours. Set only for JPEG.
    pub grey: bool,
    /// Memory of the decoder in addition to this file and the decoded pixels.
    pub decoder_bytes: u64,
    pub exif: Option<&'a [u8]>,
}

impl ReducedImage<'_> {
    pub fn pixels(&self) -> u64 {
        u64::from(self.width) * u64::from(self.height)
    }
}

/// Parses a file from its first part to its last, and reduces it. Ignores bytes after the last
/// part: cameras append data there.
///
/// # Errors
/// `InvalidArgument` if the file is broken or of an unsupported kind, `LimitExceeded`.
pub fn reduce(format: Format, data: &[u8]) -> Result<ReducedImage<'_>> {
    match format {
        Format::Jpeg => jpeg::reduce(data),
        Format::Png => png::reduce(data),
    }
}

/// The bytes that are not parsed yet.
struct UnparsedBytes<'a>(&'a [u8]);

impl<'a> UnparsedBytes<'a> {
    fn take(&mut self, len_bytes: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len_bytes).ok_or_else(truncation)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk().ok_or_else(truncation)?;
        self.0 = rest;
        Ok(*taken)
    }
}

fn check_size(width: u32, height: u32) -> Result<()> {
    if width == 0 || height == 0 {
        return Err(Error::invalid_argument("the image has no pixels"));
    }
    if width.max(height) > SIDE_MAX || u64::from(width) * u64::from(height) > PIXELS_MAX {
        return Err(Error::limit_exceeded("the image has too many pixels; scale it down")
            .with("width", width)
            .with("height", height)
            .with("pixels_max", PIXELS_MAX)
            .with("side_max", SIDE_MAX));
    }
    Ok(())
}

fn too_many(what: &str, max: usize) -> Error {
    Error::limit_exceeded(format!("the image has too many {what}; export it again")).with("max", max)
}

fn truncation() -> Error {
    Error::invalid_argument("the image is cut off")
}

fn broken(why: &str) -> Error {
    Error::invalid_argument(format!("the image is broken, or of a kind that cannot be decoded: {why}"))
}
