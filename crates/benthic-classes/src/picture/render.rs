//! Creates thumbnails, and labels derived from the picture.

use super::decode::DecodedImage;
use benthic_core::{Error, Result};
use image::codecs::{jpeg::JpegEncoder, png::PngEncoder};
use image::imageops::{self, FilterType};
use image::{DynamicImage, ImageError, RgbaImage};

const JPEG_QUALITY: u8 = 85;

/// Scales the picture to at most `edge` pixels per side, never up, and encodes it: as JPEG, or as
/// PNG if it has transparent parts.
pub fn thumbnail(picture: &DecodedImage, edge: u32) -> Result<Vec<u8>> {
    let (width, height) = picture.small.dimensions();
    let longest = width.max(height);
    let scaled = if edge < longest {
        let scale = |side: u32| (u64::from(side) * u64::from(edge) / u64::from(longest)).max(1) as u32;
        &imageops::resize(&picture.small, scale(width), scale(height), FilterType::Triangle)
    } else {
        &picture.small
    };
    encode(scaled).map_err(|error| {
        Error::internal("the thumbnail cannot be encoded").with("edge", edge).with_source(error)
    })
}

fn encode(image: &RgbaImage) -> Result<Vec<u8>, ImageError> {
    let mut encoded = Vec::new();
    if image.pixels().all(|pixel| pixel.0[3] == u8::MAX) {
        let rgb = DynamicImage::ImageRgba8(image.clone()).into_rgb8();
        JpegEncoder::new_with_quality(&mut encoded, JPEG_QUALITY).encode_image(&rgb)?;
    } else {
        image.write_with_encoder(PngEncoder::new(&mut encoded))?;
    }
    Ok(encoded)
}

/// The derived labels, as names and values.
pub fn labels(picture: &DecodedImage) -> [(&'static str, String); 5] {
    let shape = match picture.width.cmp(&picture.height) {
        std::cmp::Ordering::Greater => "landscape",
        std::cmp::Ordering::Equal => "square",
        std::cmp::Ordering::Less => "portrait",
    };
    [
        ("colour", colour(&picture.small).to_owned()),
        ("format", picture.format.name().to_owned()),
        ("height", picture.height.to_string()),
        ("shape", shape.to_owned()),
        ("width", picture.width.to_string()),
    ]
}

/// The name of the mean colour of the visible pixels.
fn colour(image: &RgbaImage) -> &'static str {
    let mut sums = [0_u64; 3];
    let mut weight = 0;
    for pixel in image.pixels() {
        let [red, green, blue, alpha] = pixel.0.map(u64::from);
        for (sum, channel) in sums.iter_mut().zip([red, green, blue]) {
            *sum += channel * alpha;
        }
        weight += alpha;
    }
    if weight == 0 {
        return "none";
    }
    let [red, green, blue] = sums.map(|sum| (sum / weight) as i32);
    let (lightest, darkest) = (red.max(green).max(blue), red.min(green).min(blue));
    let spread = lightest - darkest;
    match (lightest, spread * 8) {
        (..48, _) => return "black",
        (_, spread) if spread < lightest => return if darkest > 208 { "white" } else { "grey" },
        _ => {}
    }
    // The hue in degrees, from red over green and blue back to red.
    let hue = match lightest {
        _ if lightest == red => (60 * (green - blue) / spread).rem_euclid(360),
        _ if lightest == green => 120 + 60 * (blue - red) / spread,
        _ => 240 + 60 * (red - green) / spread,
    };
    match hue {
        20..=44 => "orange",
        45..=69 => "yellow",
        70..=159 => "green",
        160..=199 => "cyan",
        200..=259 => "blue",
        260..=329 => "magenta",
        _ => "red",
    }
}
