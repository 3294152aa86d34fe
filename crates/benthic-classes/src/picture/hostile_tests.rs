//! Broken and hostile images give a clear error, store nothing, do not panic, and use bounded
//! memory.

use super::container::PIXELS_MAX;
use super::tests::Fixture;
use super::wire::IMAGE_BYTES_MAX;
use benthic_core::{ErrorKind, MethodLimits, WriteOp};
use benthic_testkit::random::Rng;
use benthic_testkit::seed;
use futures::executor::block_on;
use image::codecs::jpeg::JpegEncoder;
use image::{DynamicImage, ImageFormat, Rgb, RgbImage, Rgba, RgbaImage};
use std::io::Cursor;

/// Ten scans. A data file, because this crate has no encoder for it, nor for the next one.
pub(super) const PROGRESSIVE_JPEG: &[u8] = include_bytes!("../../../benthic-testkit/data/progressive.jpg");
/// Four colours, for print.
const CMYK_JPEG: &[u8] = include_bytes!("../../../benthic-testkit/data/cmyk.jpg");

pub(super) fn noise(width: u32, height: u32) -> RgbImage {
    let mut random = Rng(1);
    RgbImage::from_fn(width, height, |_, _| Rgb([(); 3].map(|()| random.below(256) as u8)))
}

pub(super) fn noisy(width: u32, height: u32) -> RgbaImage {
    let mut random = Rng(3);
    RgbaImage::from_fn(width, height, |_, _| Rgba([(); 4].map(|()| random.below(256) as u8)))
}

pub(super) fn jpeg(image: &RgbImage) -> Vec<u8> {
    let mut encoded = Vec::new();
    JpegEncoder::new_with_quality(&mut encoded, 90).encode_image(image).unwrap();
    encoded
}

pub(super) fn png(image: &DynamicImage) -> Vec<u8> {
    let mut encoded = Cursor::new(Vec::new());
    image.write_to(&mut encoded, ImageFormat::Png).unwrap();
    encoded.into_inner()
}

/// A small image for each format and each feature of its decoder.
fn images() -> Vec<(&'static str, Vec<u8>)> {
    let picture = noise(24, 17);
    let transparent = DynamicImage::ImageRgb8(picture.clone()).into_rgba8();
    vec![
        ("jpeg", jpeg(&picture)),
        ("grey jpeg", {
            let mut encoded = Vec::new();
            let grey = DynamicImage::ImageRgb8(picture.clone()).into_luma8();
            JpegEncoder::new_with_quality(&mut encoded, 50).encode_image(&grey).unwrap();
            encoded
        }),
        ("png", png(&picture.clone().into())),
        ("16-bit png", png(&DynamicImage::ImageRgba8(transparent).into_rgba16().into())),
        ("progressive jpeg", PROGRESSIVE_JPEG.to_vec()),
        ("cmyk jpeg", CMYK_JPEG.to_vec()),
    ]
}

#[test]
fn an_image_cut_anywhere_is_refused() {
    let fixture = Fixture::new();
    for (name, image) in images() {
        for len_bytes in 0..image.len() {
            let error = fixture.exec("put", image[..len_bytes].to_vec()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{name} {len_bytes}: {error}");
        }
        assert_eq!(block_on(fixture.pool.stat(&fixture.object)).unwrap_err().kind(), ErrorKind::NotFound);
    }
}

#[test]
fn bytes_after_an_image_are_ignored() {
    for (name, image) in images() {
        let fixture = Fixture::new();
        let longer = [&image[..], b"the camera's own notes"].concat();
        fixture.exec("put", longer.clone()).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(fixture.exec("get_if", "width=24").unwrap(), longer, "{name}");
    }
}

/// If a damaged image can still be decoded, it is stored and its thumbnails are valid images.
/// Otherwise it is refused and nothing changes.
#[test]
fn damage_at_random_is_refused_or_harmless() {
    let rounds = if seed::is_long() { 50_000 } else { 1_500 };
    let mut random = Rng(2);
    for (name, image) in images() {
        let (mut stored, mut refused) = (0, 0);
        for round in 0..rounds {
            let mut damaged = image.clone();
            for _ in 0..=random.below(4) {
                let at = random.below(damaged.len());
                match random.below(4) {
                    0 => damaged[at] ^= 1 << random.below(8),
                    1 => damaged[at] = random.below(256) as u8,
                    2 => damaged[at] = 0xff,
                    _ => drop(damaged.splice(at..at + random.below(damaged.len() - at).min(8), [])),
                }
            }
            let fixture = Fixture::new();
            match fixture.exec("put", damaged.clone()) {
                Ok(_) => {
                    stored += 1;
                    image::load_from_memory(&fixture.exec("thumbnail", "64").unwrap()).unwrap();
                    assert_eq!(
                        block_on(fixture.pool.read_range(&fixture.object, 0, 1 << 20)).unwrap(),
                        damaged
                    );
                }
                Err(error) => {
                    refused += 1;
                    let kind = error.kind();
                    assert!(
                        matches!(kind, ErrorKind::InvalidArgument | ErrorKind::LimitExceeded),
                        "{name} round={round}: {error:?} {damaged:?}"
                    );
                    // No caught panic either: an OSD would log it.
                    assert!(
                        !format!("{error:?}").contains("panicked"),
                        "{name} round={round}: {error:?} {damaged:?}"
                    );
                    let stat = block_on(fixture.pool.stat(&fixture.object));
                    assert_eq!(stat.unwrap_err().kind(), ErrorKind::NotFound);
                }
            }
        }
        assert!(refused > 100, "{name}: stored={stored} refused={refused}");
    }
}

#[test]
fn a_broken_image_leaves_the_old_picture() {
    let fixture = Fixture::new();
    let image = png(&noise(40, 40).into());
    fixture.exec("put", image.clone()).unwrap();
    let (_, version) = block_on(fixture.pool.stat(&fixture.object)).unwrap();
    let mut broken = png(&noise(50, 50).into());
    let middle = broken.len() / 2;
    broken[middle] ^= 1;
    assert_eq!(fixture.exec("put", broken.clone()).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(block_on(fixture.pool.stat(&fixture.object)).unwrap().1, version);
    assert_eq!(fixture.exec("get_if", "width=40").unwrap(), image);
    block_on(fixture.pool.write_full(&fixture.object, broken)).unwrap();
    assert_eq!(fixture.exec("index", "").unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(fixture.exec("match", "width").unwrap(), "width=40");
}

/// The images claim huge sizes and contain little else. A decoder that trusts the sizes would
/// allocate gigabytes.
#[test]
fn sizes_are_checked_before_anything_is_allocated() {
    let (_, grey_jpeg) = images().swap_remove(1);
    let large = |mut image: Vec<u8>, at: usize, size: &[u8]| {
        image[at..at + size.len()].copy_from_slice(size);
        image
    };
    let frame = grey_jpeg.windows(2).position(|pair| pair == [0xff, 0xc0]).unwrap();
    let mut huge_png = png(&noise(4, 4).into());
    huge_png[16..24].copy_from_slice(&[0x7f, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff]);
    let checksum = crc32(&huge_png[12..29]).to_be_bytes();
    huge_png[29..33].copy_from_slice(&checksum);
    for (name, image) in [("jpeg", large(grey_jpeg, frame + 5, &[0xff, 0xff, 0xff, 0xff])), ("png", huge_png)]
    {
        let error = Fixture::new().exec("put", image).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{name}: {error}");
    }
}

pub(super) fn crc32(data: &[u8]) -> u32 {
    !data.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
    })
}

#[test]
fn decoding_respects_the_memory_limit_and_the_deadline() {
    let little = MethodLimits { memory_bytes_max: 1 << 20, ..MethodLimits::default() };
    let hurry = MethodLimits { deadline_ms: 0, ..MethodLimits::default() };
    let image = jpeg(&noise(600, 600));
    for method_limits in [little, hurry] {
        let fixture = Fixture::with(method_limits);
        let error = fixture.exec("put", image.clone()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
        assert_eq!(block_on(fixture.pool.stat(&fixture.object)).unwrap_err().kind(), ErrorKind::NotFound);
    }
}

#[test]
fn the_largest_pictures_fit_into_the_budget() {
    let side = 5_000;
    assert_eq!(u64::from(side) * u64::from(side), PIXELS_MAX);
    let picture = RgbImage::from_fn(side, side, |x, y| Rgb([(x / 20) as u8, (y / 20) as u8, 128]));
    let fixture = Fixture::new();
    fixture.exec("put", jpeg(&picture)).unwrap();
    assert_eq!(fixture.exec("match", "width").unwrap(), "width=5000");
    fixture.exec("put", png(&picture.into())).unwrap();
    assert_eq!(fixture.exec("match", "format").unwrap(), "format=png");
    let wider = RgbImage::new(side + 1, side);
    let error = fixture.exec("put", png(&wider.into())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
}

#[test]
fn the_size_of_image_files_is_limited() {
    let fixture = Fixture::new();
    let mut image = png(&noise(4, 4).into());
    image.resize(IMAGE_BYTES_MAX + 1, 0);
    assert_eq!(fixture.exec("put", image.clone()).unwrap_err().kind(), ErrorKind::LimitExceeded);
    block_on(fixture.pool.write(&fixture.object, WriteOp::new().write_full(image.clone()))).unwrap();
    assert_eq!(fixture.exec("index", "").unwrap_err().kind(), ErrorKind::LimitExceeded);
    image.truncate(IMAGE_BYTES_MAX);
    fixture.exec("put", image).unwrap();
}
