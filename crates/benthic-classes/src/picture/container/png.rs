//! PNG: a sequence of chunks, each with a length, a name and a checksum.

use super::{ReducedImage, UnparsedBytes, broken, check_size, too_many};
use benthic_core::Result;

pub(super) const MAGIC: &[u8] = b"\x89PNG\r\n\x1a\n";

/// Limit of chunks of all kinds. Encoders write chunks of 8 KiB and more.
pub(super) const CHUNKS_MAX: usize = 16_384;

/// 256 colours of three bytes. With more, or with a partial colour, the decoder panics.
pub(super) const PALETTE_BYTES_MAX: usize = 768;

/// Memory of the decoder in addition to the image: rows of [`SIDE_MAX`](super::SIDE_MAX) pixels,
/// and the compressed data they come from.
const DECODER_BYTES: u64 = 4 * 1024 * 1024;

/// Reduces a PNG file. For an animation, the result is the still picture.
pub(super) fn reduce(data: &[u8]) -> Result<ReducedImage<'_>> {
    let rest = &mut UnparsedBytes(data);
    let mut file = Vec::with_capacity(data.len());
    file.extend(rest.take(MAGIC.len())?);
    let (mut size, mut exif) = (None, None);
    for _ in 0..CHUNKS_MAX {
        let chunk = rest.0;
        let len_bytes = u32::from_be_bytes(rest.array()?) as usize;
        let name: [u8; 4] = rest.array()?;
        let content = rest.take(len_bytes)?;
        rest.take(4)?;
        // The checksum is kept; the decoder verifies it.
        let chunk = &chunk[..len_bytes + 12];
        match (&name, size) {
            (b"IHDR", None) => {
                let Some((&[w0, w1, w2, w3, h0, h1, h2, h3], _)) = content.split_first_chunk() else {
                    return Err(broken("its header is cut off"));
                };
                let (width, height) =
                    (u32::from_be_bytes([w0, w1, w2, w3]), u32::from_be_bytes([h0, h1, h2, h3]));
                check_size(width, height)?;
                size = Some((width, height));
                file.extend(chunk);
            }
            (b"PLTE", Some(_)) if content.len() > PALETTE_BYTES_MAX || !content.len().is_multiple_of(3) => {
                return Err(broken("its palette has too many colours or an incomplete one"));
            }
            (b"PLTE" | b"tRNS" | b"IDAT", Some(_)) => file.extend(chunk),
            (b"IEND", Some((width, height))) => {
                file.extend(chunk);
                return Ok(ReducedImage {
                    file,
                    width,
                    height,
                    grey: false,
                    decoder_bytes: DECODER_BYTES,
                    exif,
                });
            }
            (b"eXIf", Some(_)) => exif = exif.or(Some(content)),
            // A name that begins with a lower-case letter marks an ancillary chunk, which decoders
            // may ignore.
            ([b'a'..=b'z', ..], Some(_)) => {}
            _ => return Err(broken("a chunk is unknown or in a wrong place")),
        }
    }
    Err(too_many("chunks", CHUNKS_MAX))
}
