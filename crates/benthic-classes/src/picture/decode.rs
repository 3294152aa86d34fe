//! Decodes untrusted bytes to a small picture, within limits that are checked before decoding.
//!
//! There are limits for the file's size, the number of pixels, and the memory of the decoder and
//! the pixels together, which is first charged to the method's budget. A decoder cannot be
//! interrupted. So the limits on the parts that [`container`] passes to it also keep it below the
//! deadline.

use super::container::{self, Format, ReducedImage, SCANS_MAX, SIDE_MAX};
use super::wire::{EDGE_MAX, IMAGE_BYTES_MAX};
use benthic_core::{Error, MethodContext, Result};
use image::codecs::png::PngDecoder;
use image::metadata::Orientation;
use image::{DynamicImage, GrayImage, ImageDecoder, ImageError, Limits, RgbImage, RgbaImage};
use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};
use zune_core::{bytestream::ZCursor, colorspace::ColorSpace, options::DecoderOptions};
use zune_jpeg::JpegDecoder;

/// A decoded image.
pub struct DecodedImage {
    pub format: Format,
    /// Size as displayed, after the camera's orientation is applied.
    pub width: u32,
    pub height: u32,
    /// The image as displayed, with at most [`EDGE_MAX`] pixels per side. Thumbnails and labels are
    /// derived from it.
    pub small: RgbaImage,
}

/// Decodes an image, shrinks it, and applies the camera's orientation.
///
/// # Errors
/// `InvalidArgument` if the data are not an image or a broken one; `LimitExceeded`.
pub fn decode(context: &mut MethodContext<'_>, data: &[u8]) -> Result<DecodedImage> {
    if data.len() > IMAGE_BYTES_MAX {
        return Err(Error::limit_exceeded("the image file is too large; scale it down")
            .with("len_bytes", data.len())
            .with("len_bytes_max", IMAGE_BYTES_MAX));
    }
    let format =
        Format::of(data).ok_or_else(|| Error::invalid_argument("the data are not a JPEG or PNG image"))?;
    // For the copy that the decoder gets.
    context.charge_memory(data.len() as u64)?;
    let decoded = container::reduce(format, data).and_then(|reduced| {
        let image = pixels(context, format, &reduced)?;
        // An unreadable orientation is no reason to refuse the picture.
        let orientation = reduced.exif.and_then(Orientation::from_exif_chunk);
        Ok((image, orientation.unwrap_or(Orientation::NoTransforms)))
    });
    let (image, orientation) = decoded.map_err(|error| error.with("format", format))?;
    context.check_deadline()?;
    Ok(shrink_and_orient(format, image, orientation))
}

fn shrink_and_orient(format: Format, image: DynamicImage, orientation: Orientation) -> DecodedImage {
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
    DecodedImage { format, width, height, small: small.into_rgba8() }
}

/// Decodes the pixels and catches panics, which decoders have shown on damaged files. With wrapping
/// arithmetic (see the profile in the root `Cargo.toml`) and files that are complete, only a new
/// defect of a decoder can cause a panic. The caller then gets the error of a broken file, and an
/// OSD logs the panic.
fn pixels(
    context: &mut MethodContext<'_>,
    format: Format,
    reduced: &ReducedImage<'_>,
) -> Result<DynamicImage> {
    let decoded = catch_unwind(AssertUnwindSafe(|| match format {
        Format::Jpeg => jpeg(context, reduced),
        Format::Png => png(context, reduced),
    }));
    decoded.unwrap_or_else(|_| Err(broken("its decoder panicked")))
}

fn png(context: &mut MethodContext<'_>, reduced: &ReducedImage<'_>) -> Result<DynamicImage> {
    let mut limits = Limits::no_limits();
    limits.max_alloc = Some(reduced.decoder_bytes);
    let mut decoder = PngDecoder::with_limits(Cursor::new(&reduced.file), limits.clone()).map_err(refusal)?;
    context.charge_memory(decoder.total_bytes().saturating_add(reduced.decoder_bytes))?;
    decoder.set_limits(limits).map_err(refusal)?;
    DynamicImage::from_decoder(decoder).map_err(refusal)
}

/// Uses the JPEG decoder directly, because `image` would make it tolerate broken data.
fn jpeg(context: &mut MethodContext<'_>, reduced: &ReducedImage<'_>) -> Result<DynamicImage> {
    let colours = if reduced.grey { ColorSpace::Luma } else { ColorSpace::RGB };
    let pixels_bytes = reduced.pixels() * colours.num_components() as u64;
    context.charge_memory(pixels_bytes + reduced.decoder_bytes)?;
    let options = DecoderOptions::default()
        .set_strict_mode(true)
        .set_max_width(SIDE_MAX as usize)
        .set_max_height(SIDE_MAX as usize)
        .jpeg_set_max_scans(SCANS_MAX)
        .jpeg_set_out_colorspace(colours);
    let mut buffer = vec![0; pixels_bytes as usize];
    JpegDecoder::new_with_options(ZCursor::new(&reduced.file), options)
        .decode_into(&mut buffer)
        .map_err(broken)?;
    let (width, height) = (reduced.width, reduced.height);
    let image = if reduced.grey {
        GrayImage::from_raw(width, height, buffer).map(DynamicImage::ImageLuma8)
    } else {
        RgbImage::from_raw(width, height, buffer).map(DynamicImage::ImageRgb8)
    };
    image.ok_or_else(|| Error::internal("the number of pixels does not match the image's size"))
}

fn refusal(error: ImageError) -> Error {
    match error {
        ImageError::Limits(_) => {
            Error::limit_exceeded("the image takes too much memory to decode").with_source(error)
        }
        error => broken(error),
    }
}

fn broken(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::invalid_argument("the image is broken, or of a kind that cannot be decoded").with_source(error)
}
