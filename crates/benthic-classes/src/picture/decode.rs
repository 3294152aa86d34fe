//! From the bytes of anybody to a small picture, within bounds that are known before anything is decoded.
//!
//! Bounds: the size of the file, the number of pixels, and the memory that decoder and pixels take together, which is charged
//! to the method's budget first. A decoder cannot be interrupted, so the number of pixels is also what keeps it far below the
//! deadline.

use super::container::{self, Format};
use super::wire::{EDGE_MAX, IMAGE_BYTES_MAX};
use benthic_core::{Error, ErrorKind, MethodContext, Result};
use image::codecs::{gif::GifDecoder, png::PngDecoder, webp::WebPDecoder};
use image::metadata::Orientation;
use image::{DynamicImage, GrayImage, ImageDecoder, ImageError, Limits, RgbImage, RgbaImage};
use std::io::Cursor;
use zune_core::{bytestream::ZCursor, colorspace::ColorSpace, options::DecoderOptions};
use zune_jpeg::JpegDecoder;

/// Most pixels of an image.
pub const PIXELS_MAX: u64 = 25_000_000;

/// What PNG's decoder may take beside rows and pixels; profiles and texts may be compressed to nearly nothing.
const PNG_BYTES: u64 = 16 * 1024 * 1024;
/// What one byte of WebP's lossless coding can make the decoder allocate: tables of codes, 4 KiB and more from a few bytes.
const WEBP_LOSSLESS_BYTES_PER_BYTE: u64 = 640;

/// A decoded image.
pub struct Decoded {
    pub format: Format,
    /// As it is shown, after the camera's orientation.
    pub width: u32,
    pub height: u32,
    /// The image as it is shown, in at most [`EDGE_MAX`] pixels a side: all that anything is made of.
    pub small: RgbaImage,
}

/// Decodes an image, shrinks it, and turns it as the camera's orientation says.
///
/// # Errors
/// `InvalidArgument` for what is no image, or a broken one; `LimitExceeded`.
pub fn decode(context: &mut MethodContext<'_>, data: &[u8]) -> Result<Decoded> {
    if data.len() > IMAGE_BYTES_MAX {
        return Err(Error::new(ErrorKind::LimitExceeded, "the image file is too large; scale it down")
            .with("len_bytes", data.len())
            .with("len_bytes_max", IMAGE_BYTES_MAX));
    }
    let format = Format::of(data)
        .ok_or_else(|| Error::new(ErrorKind::InvalidArgument, "this is no JPEG, PNG, WebP or GIF image"))?;
    container::check_whole(format, data).map_err(|error| error.with("format", format))?;
    let decoded = match format {
        Format::Jpeg => jpeg(context, data),
        Format::Png => PngDecoder::with_limits(Cursor::new(data), limits(PNG_BYTES))
            .map_err(refused)
            .and_then(|decoder| pixels(context, decoder, PNG_BYTES)),
        Format::Gif => GifDecoder::new(Cursor::new(data)).map_err(refused).and_then(|decoder| {
            // The first frame, if it does not fill the screen.
            let frame_bytes = 4 * count_pixels(decoder.dimensions());
            pixels(context, decoder, frame_bytes)
        }),
        Format::Webp => WebPDecoder::new(Cursor::new(data)).map_err(refused).and_then(|decoder| {
            let planes_bytes = 4 * count_pixels(decoder.dimensions());
            let lossless_bytes = if container::has_lossless_webp(data) {
                2 * planes_bytes + data.len() as u64 * WEBP_LOSSLESS_BYTES_PER_BYTE
            } else {
                0
            };
            pixels(context, decoder, planes_bytes + lossless_bytes)
        }),
    };
    let (image, orientation) = decoded.map_err(|error| error.with("format", format))?;
    context.check_deadline()?;
    Ok(shown(format, image, orientation))
}

fn shown(format: Format, image: DynamicImage, orientation: Orientation) -> Decoded {
    let (mut width, mut height) = (image.width(), image.height());
    let small = if width.max(height) > EDGE_MAX { image.thumbnail(EDGE_MAX, EDGE_MAX) } else { image };
    let mut small = DynamicImage::ImageRgba8(small.into_rgba8());
    small.apply_orientation(orientation);
    if matches!(
        orientation,
        Orientation::Rotate90
            | Orientation::Rotate270
            | Orientation::Rotate90FlipH
            | Orientation::Rotate270FlipH
    ) {
        (width, height) = (height, width);
    }
    Decoded { format, width, height, small: small.into_rgba8() }
}

/// The pixels of all formats but JPEG, when the decoder has read its header. It may take `decoder_bytes` beside the pixels.
fn pixels(
    context: &mut MethodContext<'_>,
    mut decoder: impl ImageDecoder,
    decoder_bytes: u64,
) -> Result<(DynamicImage, Orientation)> {
    check_pixels(decoder.dimensions())?;
    context.charge_memory(decoder.total_bytes().saturating_add(decoder_bytes))?;
    decoder.set_limits(limits(decoder_bytes)).map_err(refused)?;
    // A camera's orientation that cannot be read is no reason to refuse its picture.
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let image = DynamicImage::from_decoder(decoder).map_err(refused)?;
    Ok((image, orientation))
}

/// By its decoder directly: `image` would have it forgive broken data.
fn jpeg(context: &mut MethodContext<'_>, data: &[u8]) -> Result<(DynamicImage, Orientation)> {
    let side_max = usize::from(u16::MAX);
    let options = DecoderOptions::default()
        .set_strict_mode(true)
        .set_max_width(side_max)
        .set_max_height(side_max)
        .jpeg_set_max_scans(container::SCANS_MAX as usize);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(data), options);
    decoder.decode_headers().map_err(broken)?;
    let (Some((width, height)), Some(stored)) = (decoder.dimensions(), decoder.input_colorspace()) else {
        return Err(Error::new(ErrorKind::InvalidArgument, "the image has no size"));
    };
    let (width, height) = (width as u32, height as u32);
    let pixels = check_pixels((width, height))?;
    let grey = stored == ColorSpace::Luma;
    let colours = if grey { ColorSpace::Luma } else { ColorSpace::RGB };
    let pixels_bytes = pixels * colours.num_components() as u64;
    // A progressive image has all its coefficients in memory, two bytes each.
    context.charge_memory(pixels_bytes + 2 * pixels * stored.num_components() as u64)?;
    decoder.set_options(options.jpeg_set_out_colorspace(colours));
    let mut buffer = vec![0; pixels_bytes as usize];
    decoder.decode_into(&mut buffer).map_err(broken)?;
    let exif = decoder.exif();
    let orientation =
        exif.and_then(|exif| Orientation::from_exif_chunk(exif)).unwrap_or(Orientation::NoTransforms);
    let image = if grey {
        GrayImage::from_raw(width, height, buffer).map(DynamicImage::ImageLuma8)
    } else {
        RgbImage::from_raw(width, height, buffer).map(DynamicImage::ImageRgb8)
    };
    let image = image.ok_or_else(|| Error::new(ErrorKind::Internal, "the pixels do not fit the image"))?;
    Ok((image, orientation))
}

fn count_pixels((width, height): (u32, u32)) -> u64 {
    u64::from(width) * u64::from(height)
}

fn check_pixels(dimensions: (u32, u32)) -> Result<u64> {
    match count_pixels(dimensions) {
        0 => Err(Error::new(ErrorKind::InvalidArgument, "the image has no pixels")),
        pixels if pixels > PIXELS_MAX => {
            Err(Error::new(ErrorKind::LimitExceeded, "the image has too many pixels; scale it down")
                .with("width", dimensions.0)
                .with("height", dimensions.1)
                .with("pixels_max", PIXELS_MAX))
        }
        pixels => Ok(pixels),
    }
}

/// How much the decoder may allocate beside the pixels.
fn limits(len_bytes: u64) -> Limits {
    let mut limits = Limits::no_limits();
    limits.max_alloc = Some(len_bytes);
    limits
}

fn refused(error: ImageError) -> Error {
    match error {
        ImageError::Limits(_) => {
            Error::new(ErrorKind::LimitExceeded, "the image takes too much memory to decode")
                .with_source(error)
        }
        error => broken(error),
    }
}

fn broken(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::new(ErrorKind::InvalidArgument, "the image is broken, or of a kind that cannot be decoded")
        .with_source(error)
}
