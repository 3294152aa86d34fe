//! What the file of an image says about itself before anything is decoded: which format it is, and whether it is whole.
//!
//! Decoders forgive: of a cut file they show the part that is there. Here a cut file is broken.

use benthic_core::{Error, ErrorKind, Result};
use std::fmt;

/// Most scans of a progressive JPEG. Encoders make about ten; each one costs a pass over all pixels and hardly a byte.
pub const SCANS_MAX: u32 = 32;

/// A format that can be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Gif,
    Jpeg,
    Png,
    Webp,
}

impl Format {
    /// The format of these bytes, by how they begin.
    pub fn of(data: &[u8]) -> Option<Format> {
        match data {
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some(Format::Gif),
            [0xff, 0xd8, 0xff, ..] => Some(Format::Jpeg),
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some(Format::Png),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some(Format::Webp),
            _ => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Format::Gif => "gif",
            Format::Jpeg => "jpeg",
            Format::Png => "png",
            Format::Webp => "webp",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Follows a file from its first part to its last. Bytes behind the last are let be: cameras put things there.
pub fn check_whole(format: Format, data: &[u8]) -> Result<()> {
    let rest = &mut Rest(data);
    match format {
        Format::Gif => gif(rest),
        Format::Jpeg => jpeg(rest),
        Format::Png => png(rest),
        Format::Webp => webp(rest, |_| {}),
    }
}

/// Whether a whole WebP has parts in its lossless coding: a picture, its transparency, or the frames of an animation.
pub fn has_lossless_webp(data: &[u8]) -> bool {
    let mut found = false;
    let walked = webp(&mut Rest(data), |name| found |= matches!(name, b"VP8L" | b"ALPH" | b"ANMF"));
    found || walked.is_err()
}

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

    fn byte(&mut self) -> Result<u8> {
        self.array().map(|[byte]| byte)
    }
}

fn jpeg(rest: &mut Rest<'_>) -> Result<()> {
    rest.take(2)?;
    let mut scans = 0;
    loop {
        match next_marker(rest)? {
            0xd9 => return Ok(()),
            0xda => scans += 1,
            _ => {}
        }
        if scans > SCANS_MAX {
            return Err(Error::new(ErrorKind::LimitExceeded, "the JPEG has too many scans")
                .with("scans_max", SCANS_MAX));
        }
        let len_bytes = u16::from_be_bytes(rest.array()?);
        rest.take(usize::from(len_bytes.saturating_sub(2)))?;
    }
}

/// Skips coded pixels, restart markers and stuffing.
fn next_marker(rest: &mut Rest<'_>) -> Result<u8> {
    loop {
        let at = rest.0.iter().position(|byte| *byte == 0xff).ok_or_else(cut)?;
        rest.take(at)?;
        while rest.0.first() == Some(&0xff) {
            rest.take(1)?;
        }
        match rest.byte()? {
            0x00 | 0x01 | 0xd0..=0xd7 => {}
            marker => return Ok(marker),
        }
    }
}

fn png(rest: &mut Rest<'_>) -> Result<()> {
    rest.take(8)?;
    loop {
        let len_bytes = u32::from_be_bytes(rest.array()?);
        let name: [u8; 4] = rest.array()?;
        rest.take(len_bytes as usize)?;
        rest.take(4)?;
        if name == *b"IEND" {
            return Ok(());
        }
    }
}

fn gif(rest: &mut Rest<'_>) -> Result<()> {
    rest.take(6)?;
    let [_, _, _, _, flags, _, _] = rest.array()?;
    gif_colours(rest, flags)?;
    loop {
        match rest.byte()? {
            0x21 => rest.take(1)?,
            0x2c => {
                let [_, _, _, _, _, _, _, _, flags] = rest.array()?;
                gif_colours(rest, flags)?;
                rest.take(1)?
            }
            0x3b => return Ok(()),
            _ => return Err(broken()),
        };
        loop {
            match rest.byte()? {
                0 => break,
                len_bytes => rest.take(usize::from(len_bytes))?,
            };
        }
    }
}

fn gif_colours(rest: &mut Rest<'_>, flags: u8) -> Result<()> {
    let colours = if flags & 0x80 == 0 { 0 } else { 2 << (flags & 7) };
    rest.take(3 * colours).map(|_| ())
}

fn webp(rest: &mut Rest<'_>, mut each: impl FnMut(&[u8; 4])) -> Result<()> {
    rest.take(4)?;
    let len_bytes = u32::from_le_bytes(rest.array()?);
    let mut chunks = Rest(rest.take(len_bytes as usize)?);
    chunks.take(4)?;
    while !chunks.0.is_empty() {
        let name = chunks.array()?;
        let len_bytes = u32::from_le_bytes(chunks.array()?) as usize;
        chunks.take(len_bytes)?;
        // Some writers forget the padding of the last chunk.
        if len_bytes % 2 == 1 && !chunks.0.is_empty() {
            chunks.take(1)?;
        }
        each(&name);
    }
    Ok(())
}

fn cut() -> Error {
    Error::new(ErrorKind::InvalidArgument, "the image is cut off")
}

fn broken() -> Error {
    Error::new(ErrorKind::InvalidArgument, "the image is broken")
}
