//! The file of an image, reduced to what its pixels are made of.
//!
//! Decoders forgive, and they read much beside pixels: comments, profiles, texts, pieces of documents that they sort and put
//! together. What that costs grows with whatever a file holds of it. So a decoder does not get the file. It gets what this
//! module writes anew from parts that it understood itself, so that both agree on where each begins, in numbers that have a
//! limit; all else is left out. A file that is cut off, or has a part that makes no sense, is broken.

mod jpeg;
mod png;
#[cfg(test)]
mod tests;

pub use jpeg::SCANS_MAX;

use benthic_core::{Error, ErrorKind, Result};
use std::fmt;

/// Most pixels of an image.
pub const PIXELS_MAX: u64 = 25_000_000;
/// Most pixels in a row or a column: what a JPEG can say. Decoders keep whole rows.
pub const SIDE_MAX: u32 = u16::MAX as u32;

/// A format that can be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Jpeg,
    Png,
}

impl Format {
    /// The format of these bytes, by how they begin.
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

/// A file reduced to what its pixels are made of.
pub struct Reduced<'a> {
    /// What the decoder gets: a file of the same format, no longer than the original.
    pub file: Vec<u8>,
    pub width: u32,
    pub height: u32,
    /// Without colours. Only told of a JPEG.
    pub grey: bool,
    /// What the decoder holds beside this file and the pixels that it returns.
    pub decoder_bytes: u64,
    /// What the camera says, as TIFF.
    pub exif: Option<&'a [u8]>,
}

impl Reduced<'_> {
    pub fn pixels(&self) -> u64 {
        u64::from(self.width) * u64::from(self.height)
    }
}

/// Follows a file from its first part to its last. Bytes behind the last are let be: cameras put things there.
///
/// # Errors
/// `InvalidArgument` if it is broken or of a kind that cannot be decoded, `LimitExceeded`.
pub fn reduce(format: Format, data: &[u8]) -> Result<Reduced<'_>> {
    match format {
        Format::Jpeg => jpeg::reduce(data),
        Format::Png => png::reduce(data),
    }
}

/// What is still to be followed.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, len_bytes: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len_bytes).ok_or_else(cut)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk().ok_or_else(cut)?;
        self.0 = rest;
        Ok(*taken)
    }
}

fn check_size(width: u32, height: u32) -> Result<()> {
    if width == 0 || height == 0 {
        return Err(Error::new(ErrorKind::InvalidArgument, "the image has no pixels"));
    }
    if width.max(height) > SIDE_MAX || u64::from(width) * u64::from(height) > PIXELS_MAX {
        return Err(Error::new(ErrorKind::LimitExceeded, "the image has too many pixels; scale it down")
            .with("width", width)
            .with("height", height)
            .with("pixels_max", PIXELS_MAX)
            .with("side_max", SIDE_MAX));
    }
    Ok(())
}

fn too_many(what: &str, max: usize) -> Error {
    Error::new(ErrorKind::LimitExceeded, format!("the image has too many {what}; save it anew"))
        .with("max", max)
}

fn cut() -> Error {
    Error::new(ErrorKind::InvalidArgument, "the image is cut off")
}

fn broken(why: &str) -> Error {
    Error::new(
        ErrorKind::InvalidArgument,
        format!("the image is broken, or of a kind that cannot be decoded: {why}"),
    )
}
