//! JPEG (T.81): a sequence of segments, each a marker and mostly a length. The coded pixels follow
//! the start of each scan.

use super::{ReducedImage, UnparsedBytes, broken, check_size, too_many, truncation};
use benthic_core::Result;

pub(super) const MAGIC: &[u8] = &[0xff, SOI, 0xff];

/// Limit of the scans of a progressive JPEG. Encoders write about ten. A scan of very few bytes can
/// cost a pass over all pixels.
pub const SCANS_MAX: usize = 32;
pub(super) const SEGMENTS_MAX: usize = 4_096;
/// Limit of the bytes of tables. Thirty scans with their own tables have about 20 KiB. Each 17
/// bytes can make the decoder fill a table of 4 KiB.
pub(super) const TABLES_BYTES_MAX: usize = 64 * 1024;

const SOF_BASELINE: u8 = 0xc0;
const SOF_EXTENDED: u8 = 0xc1;
const SOF_PROGRESSIVE: u8 = 0xc2;
const DHT: u8 = 0xc4;
const RST_FIRST: u8 = 0xd0;
const RST_LAST: u8 = 0xd7;
const SOI: u8 = 0xd8;
const EOI: u8 = 0xd9;
const SOS: u8 = 0xda;
const DQT: u8 = 0xdb;
const DRI: u8 = 0xdd;
const APP_FIRST: u8 = 0xe0;
const APP_EXIF: u8 = 0xe1;
const APP_ADOBE: u8 = 0xee;
const APP_LAST: u8 = 0xef;
const COMMENT: u8 = 0xfe;

struct Frame {
    width: u32,
    height: u32,
    components: usize,
    progressive: bool,
    /// The decoder's memory for one row of blocks, before and after scaling to the picture's size.
    rows_bytes: u64,
    coefficients_bytes: u64,
}

pub(super) fn reduce(data: &[u8]) -> Result<ReducedImage<'_>> {
    let rest = &mut UnparsedBytes(data);
    rest.take(2)?;
    let mut file = Vec::with_capacity(data.len());
    file.extend([0xff, SOI]);
    let mut frame: Option<Frame> = None;
    let (mut exif, mut adobe) = (None, false);
    let (mut scans, mut tables_bytes, mut in_pieces) = (0, 0, false);
    for _ in 0..SEGMENTS_MAX {
        let marker = marker(rest)?;
        if marker == EOI {
            let frame = frame.filter(|_| scans > 0).ok_or_else(|| broken("it has no pixels"))?;
            file.extend([0xff, EOI]);
            // If the pixels come in several scans, the decoder keeps coefficients until all scans
            // are read.
            let kept_bytes = if frame.progressive || in_pieces { frame.coefficients_bytes } else { 0 };
            return Ok(ReducedImage {
                file,
                width: frame.width,
                height: frame.height,
                grey: frame.components == 1,
                decoder_bytes: frame.rows_bytes + kept_bytes,
                exif,
            });
        }
        let content = match marker {
            // These markers have no length. A decoder that reads one would continue at another
            // place.
            ..=0x01 | RST_FIRST..=SOI => return Err(broken("a marker is in a wrong place")),
            _ => segment(rest)?,
        };
        match marker {
            SOF_BASELINE | SOF_EXTENDED | SOF_PROGRESSIVE if frame.is_none() => {
                frame = Some(read_frame(marker, content)?);
                keep(&mut file, marker, content);
            }
            DHT | DQT | DRI => {
                tables_bytes += content.len();
                if tables_bytes > TABLES_BYTES_MAX {
                    return Err(too_many("bytes of tables", TABLES_BYTES_MAX));
                }
                if marker == DQT {
                    check_quantization(content)?;
                }
                keep(&mut file, marker, content);
            }
            SOS => {
                let Some(frame) = &frame else {
                    return Err(broken("a scan comes before the frame"));
                };
                let components = scan_components(content, frame)?;
                in_pieces |= components < frame.components;
                scans += 1;
                // Without progression, each component is in one scan.
                let scans_max = if frame.progressive { SCANS_MAX } else { frame.components };
                if scans > scans_max {
                    return Err(too_many("scans", scans_max));
                }
                keep(&mut file, marker, content);
                file.extend(coded_pixels(rest)?);
            }
            // This segment tells the colour space of the components. If it is shorter, decoders
            // read beyond its end.
            APP_ADOBE if !adobe && scans == 0 && content.len() >= 12 && content.starts_with(b"Adobe") => {
                adobe = true;
                keep(&mut file, marker, &content[..12]);
            }
            APP_EXIF if exif.is_none() => exif = content.strip_prefix(b"Exif\0\0"),
            APP_FIRST..=APP_LAST | COMMENT => {}
            _ => return Err(broken("a segment belongs to another kind of JPEG")),
        }
    }
    Err(too_many("segments", SEGMENTS_MAX))
}

fn marker(rest: &mut UnparsedBytes<'_>) -> Result<u8> {
    let [mut byte] = rest.array()?;
    if byte != 0xff {
        return Err(broken("a segment does not begin with a marker"));
    }
    // Any number of fill bytes may precede a marker.
    while byte == 0xff {
        [byte] = rest.array()?;
    }
    Ok(byte)
}

fn segment<'a>(rest: &mut UnparsedBytes<'a>) -> Result<&'a [u8]> {
    let len_bytes = usize::from(u16::from_be_bytes(rest.array()?));
    rest.take(len_bytes.checked_sub(2).ok_or_else(|| broken("a segment has no length"))?)
}

fn keep(file: &mut Vec<u8>, marker: u8, content: &[u8]) {
    file.extend([0xff, marker]);
    // The length was read from 16 bits.
    file.extend((content.len() as u16 + 2).to_be_bytes());
    file.extend(content);
}

fn read_frame(marker: u8, content: &[u8]) -> Result<Frame> {
    let Some((&[precision, height_high, height_low, width_high, width_low, count], components)) =
        content.split_first_chunk()
    else {
        return Err(broken("the frame header is cut off"));
    };
    let count = usize::from(count);
    if precision != 8 || !(1..=4).contains(&count) || components.len() != 3 * count {
        return Err(broken("the frame does not have 8-bit colours"));
    }
    let width = u32::from(u16::from_be_bytes([width_high, width_low]));
    let height = u32::from(u16::from_be_bytes([height_high, height_low]));
    check_size(width, height)?;
    let sampling = |nibble: fn(u8) -> u8| {
        let factors = components.chunks(3).map(|component| nibble(component[1]));
        factors.clone().all(|factor| (1..=4).contains(&factor)).then(|| factors.max().unwrap_or(1))
    };
    let (Some(across), Some(down)) = (sampling(|byte| byte >> 4), sampling(|byte| byte & 0x0f)) else {
        return Err(broken("the sampling of a component is not valid"));
    };
    // Multiply by the number of components, because each may have as many samples as there are
    // pixels. Blocks at the edges are stored whole.
    let padded = |side: u32, factor: u8| u64::from(side.next_multiple_of(8 * u32::from(factor)));
    let row = count as u64 * padded(width, across);
    Ok(Frame {
        width,
        height,
        components: count,
        progressive: marker == SOF_PROGRESSIVE,
        rows_bytes: 64 * row * u64::from(down),
        coefficients_bytes: 2 * row * padded(height, down),
    })
}

/// Refuses tables with 16-bit steps, which T.81 defines only for 12-bit samples. They would
/// overflow the decoder's arithmetic.
fn check_quantization(content: &[u8]) -> Result<()> {
    if content.chunks(65).any(|table| table.len() != 65 || table[0] > 3) {
        return Err(broken("the quantization steps do not have 8 bits"));
    }
    Ok(())
}

fn scan_components(content: &[u8], frame: &Frame) -> Result<usize> {
    match content {
        [count, rest @ ..]
            if (1..=frame.components).contains(&usize::from(*count))
                && rest.len() == 2 * usize::from(*count) + 3 =>
        {
            Ok(usize::from(*count))
        }
        _ => Err(broken("a scan header is not valid")),
    }
}

/// The bytes up to the next marker other than a restart. Inside the pixels, a 0 follows each byte
/// 0xff.
fn coded_pixels<'a>(rest: &mut UnparsedBytes<'a>) -> Result<&'a [u8]> {
    let mut at = 0;
    loop {
        at += rest.0[at..].iter().position(|byte| *byte == 0xff).ok_or_else(truncation)?;
        let fill = rest.0[at..].iter().take_while(|byte| **byte == 0xff).count();
        match rest.0.get(at + fill).ok_or_else(truncation)? {
            0 if fill == 1 => {}
            0 => return Err(broken("a marker is in a wrong place")),
            RST_FIRST..=RST_LAST => {}
            _ => return rest.take(at),
        }
        at += fill + 1;
    }
}
