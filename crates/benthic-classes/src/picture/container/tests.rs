//! Files that are crafted to cost a decoder much: the parts that it gets of them, and the files
//! that are refused.

use super::super::hostile_tests::{PROGRESSIVE_JPEG, crc32, jpeg, noise, png};
use super::super::tests::Fixture;
use super::jpeg::{SEGMENTS_MAX, TABLES_BYTES_MAX};
use super::png::{CHUNKS_MAX, PALETTE_BYTES_MAX};
use super::{Format, SCANS_MAX, reduce};
use benthic_core::{ErrorKind, Result};
use std::collections::BTreeSet;

const MANY_BYTES: usize = 4 * 1024 * 1024;

macro_rules! bytes {
    ($($part:expr),* $(,)?) => { [$(&$part[..]),*].concat() };
}

fn segment(marker: u8, content: &[u8]) -> Vec<u8> {
    bytes!([0xff, marker], (content.len() as u16 + 2).to_be_bytes(), content)
}

fn chunk(name: &[u8; 4], content: &[u8]) -> Vec<u8> {
    let named = bytes!(name, content);
    bytes!((content.len() as u32).to_be_bytes(), named, crc32(&named).to_be_bytes())
}

/// Inserts segments after the first marker of a JPEG.
fn with_segments(image: &[u8], segments: &[u8]) -> Vec<u8> {
    bytes!(image[..2], segments, image[2..])
}

/// Inserts chunks after the header of a PNG.
fn with_chunks(image: &[u8], chunks: &[u8]) -> Vec<u8> {
    bytes!(image[..33], chunks, image[33..])
}

fn reduced(data: &[u8]) -> Result<Vec<u8>> {
    reduce(Format::of(data).unwrap(), data).map(|reduced| reduced.file)
}

#[track_caller]
fn refused(image: Vec<u8>, kind: ErrorKind, why: &str) {
    let error = reduced(&image).unwrap_err();
    assert!(error.kind() == kind && error.to_string().contains(why), "{error}");
    assert_eq!(Fixture::new().exec("put", image).unwrap_err().kind(), kind);
}

fn small_jpeg() -> Vec<u8> {
    jpeg(&noise(16, 16))
}

fn small_png() -> Vec<u8> {
    png(&noise(16, 16).into())
}

fn find(image: &[u8], marker: u8) -> usize {
    image.windows(2).position(|pair| pair == [0xff, marker]).unwrap()
}

#[test]
fn the_decoder_gets_only_the_parts_that_the_pixels_need() {
    let plain = reduced(&small_jpeg()).unwrap();
    let exif = bytes!(b"Exif\0\0MM\0*\0\0\0\x08\0\0");
    let mut others = [0xe0, 0xe1, 0xe2, 0xed, 0xee, 0xef, 0xfe].map(|marker| segment(marker, b"AVI1\0notes"));
    others[1] = segment(0xe1, &exif);
    let image = with_segments(&small_jpeg(), &others.concat());
    assert!(reduced(&image).unwrap() == plain);
    assert_eq!(reduce(Format::Jpeg, &image).unwrap().exif, Some(&exif[6..]));
    Fixture::new().exec("put", image).unwrap();

    let plain = reduced(&small_png()).unwrap();
    let texts = [b"tEXt", b"iTXt", b"zTXt", b"iCCP", b"acTL", b"fcTL", b"gAMA", b"sPLT"];
    let others = texts.map(|name| chunk(name, b"notes")).concat();
    let image = with_chunks(&small_png(), &bytes!(chunk(b"eXIf", &exif[6..]), others));
    assert!(reduced(&image).unwrap() == plain);
    assert_eq!(reduce(Format::Png, &image).unwrap().exif, Some(&exif[6..]));
    Fixture::new().exec("put", image).unwrap();
}

/// A decoder that keeps the pieces would sort all of them after each comment.
#[test]
fn pieces_of_a_document_do_not_reach_the_decoder() {
    let piece = bytes!(b"http://ns.adobe.com/xmp/extension/\0", [b'0'; 32], [0; 4], [0, 0, 0, 1], b"x");
    let pieces = |count: usize| segment(0xe1, &piece).repeat(count);
    let comments = |count: usize| segment(0xfe, b"").repeat(count);
    let half = SEGMENTS_MAX / 3;
    let image = with_segments(&small_jpeg(), &bytes!(pieces(half), comments(half)));
    assert!(reduced(&image).unwrap() == reduced(&small_jpeg()).unwrap());
    Fixture::new().exec("put", image).unwrap();
    let count = MANY_BYTES / piece.len();
    let hostile = bytes!([0xff, 0xd8], pieces(count), comments(MANY_BYTES / 4), [0xff, 0xd9]);
    refused(hostile, ErrorKind::LimitExceeded, "segments");
}

#[test]
fn segments_that_decoders_read_differently_are_refused_or_rewritten() {
    // Markers without a length, after which some decoders read one.
    for marker in [0x01, 0xd0, 0xd7, 0xd8] {
        let hidden = bytes!([0xff, marker, 0, 8], [0xff, 0xe5, 0xff, 0xff, 0, 0]);
        refused(with_segments(&small_jpeg(), &hidden), ErrorKind::InvalidArgument, "marker");
    }
    let mut behind_scan = small_jpeg();
    let end = behind_scan.len() - 2;
    behind_scan.splice(end..end, [0xff, 0x01, 0, 2]);
    refused(behind_scan, ErrorKind::InvalidArgument, "marker");
    // Segments that some decoders read beyond their end.
    let short = [segment(0xe0, b"AVI1"), segment(0xee, b"Adobe"), segment(0xee, b"Adobe\0\x64\0\0\0\0")];
    let image = with_segments(&small_jpeg(), &short.concat());
    assert!(reduced(&image).unwrap() == reduced(&small_jpeg()).unwrap());
    // A segment that is longer than the part that decoders read.
    let adobe = b"Adobe\0\x64\0\0\0\0\x01";
    let image = with_segments(&small_jpeg(), &segment(0xee, &bytes!(adobe, [0xff; 9])));
    assert!(
        reduced(&image).unwrap() == reduced(&with_segments(&small_jpeg(), &segment(0xee, adobe))).unwrap()
    );
}

#[test]
fn bytes_between_segments_are_refused_and_fill_is_not() {
    let image = small_jpeg();
    let between = bytes!(segment(0xfe, b""), [0]);
    refused(with_segments(&image, &between), ErrorKind::InvalidArgument, "does not begin with a marker");
    let filled = with_segments(&image, &[0xff; 1_000]);
    assert!(reduced(&filled).unwrap() == reduced(&image).unwrap());
    refused(with_segments(&image, &[0xff, 0xfe, 0, 1]), ErrorKind::InvalidArgument, "no length");
}

#[test]
fn scans_have_a_limit_in_every_kind_of_jpeg() {
    let more_scans = |image: &[u8], count: usize| {
        let scan = find(image, 0xda);
        let end =
            scan + 2 + image[scan + 2..].windows(2).position(|pair| pair[0] == 0xff && pair[1] != 0).unwrap();
        bytes!(image[..scan], image[scan..end].repeat(count), image[end..])
    };
    let baseline = small_jpeg();
    let components = 3;
    reduced(&more_scans(&baseline, components)).unwrap();
    refused(more_scans(&baseline, components + 1), ErrorKind::LimitExceeded, "scans");
    reduced(&more_scans(PROGRESSIVE_JPEG, SCANS_MAX - 9)).unwrap();
    refused(more_scans(PROGRESSIVE_JPEG, SCANS_MAX - 8), ErrorKind::LimitExceeded, "scans");
    let tables = bytes!([0], [0; 16]);
    let tables = segment(0xc4, &tables.repeat(3_000));
    let count = TABLES_BYTES_MAX / tables.len() + 1;
    refused(with_segments(&baseline, &tables.repeat(count)), ErrorKind::LimitExceeded, "tables");
}

#[test]
fn frames_that_no_picture_has_are_refused() {
    let image = small_jpeg();
    let frame = find(&image, 0xc0);
    let twice = bytes!(image[..frame + 19], image[frame..]);
    refused(twice, ErrorKind::InvalidArgument, "another kind");
    refused(bytes!(image[..frame], image[frame + 19..]), ErrorKind::InvalidArgument, "before the frame");
    for (at, byte, why) in [
        (1, 0xc3, "another kind"),
        (1, 0xc9, "another kind"),
        (4, 12, "8-bit"),
        (9, 5, "8-bit"),
        (11, 0x05, "sampling"),
        (11, 0x10, "sampling"),
        (11, 0x51, "sampling"),
    ] {
        let mut other = image.clone();
        other[frame + at] = byte;
        refused(other, ErrorKind::InvalidArgument, why);
    }
    let mut empty = image.clone();
    empty[frame + 5..frame + 7].copy_from_slice(&[0, 0]);
    refused(empty, ErrorKind::InvalidArgument, "no pixels");
}

/// Sums of differences that overflow the decoder's arithmetic, with the largest permitted steps and
/// beyond.
#[test]
fn extreme_pixels_cause_no_panic() {
    let with_steps = |steps: &[u8]| {
        // One code of one bit each: the longest difference, and the end of a block.
        let table = |class: u8, symbol: u8| segment(0xc4, &bytes!([class, 1], [0; 15], [symbol]));
        // A 0, fifteen 1s and a 0, 16 times: 34 bytes, of which only 0xff needs stuffing.
        let bits: String = "01111111111111110".repeat(8 * 16_384);
        let pixels =
            bits.as_bytes().chunks(8).map(|byte| byte.iter().fold(0, |sum, bit| 2 * sum + (bit - b'0')));
        let pixels: Vec<u8> =
            pixels.flat_map(|byte| [byte, 0].into_iter().take(1 + usize::from(byte == 255))).collect();
        bytes!(
            [0xff, 0xd8],
            segment(0xdb, steps),
            segment(0xc0, &[8, 0x08, 0, 0x10, 0, 1, 1, 0x11, 0]),
            table(0x00, 15),
            table(0x10, 0),
            segment(0xda, &[1, 1, 0, 0, 63, 0]),
            pixels,
            [0xff, 0xd9],
        )
    };
    refused(with_steps(&bytes!([0x10], [0xff; 128])), ErrorKind::InvalidArgument, "8 bits");
    let fixture = Fixture::new();
    fixture.exec("put", with_steps(&bytes!([0], [0xff; 64]))).unwrap();
    assert_eq!(fixture.exec("match", "height").unwrap(), "height=2048");
}

#[test]
fn chunks_have_a_limit() {
    let image = small_png();
    let texts = |count: usize| with_chunks(&image, &chunk(b"tEXt", b"a\0").repeat(count));
    assert!(reduced(&texts(CHUNKS_MAX - 100)).unwrap() == reduced(&image).unwrap());
    refused(texts(MANY_BYTES / 14), ErrorKind::LimitExceeded, "chunks");
    let empty = chunk(b"IDAT", b"").repeat(CHUNKS_MAX);
    refused(with_chunks(&image, &empty), ErrorKind::LimitExceeded, "chunks");
}

#[test]
fn chunks_that_no_picture_has_are_refused() {
    let image = small_png();
    for chunks in [chunk(b"CgBI", b""), chunk(b"IHDR", &image[16..29])] {
        refused(with_chunks(&image, &chunks), ErrorKind::InvalidArgument, "chunk is unknown");
    }
    refused(
        bytes!(image[..8], chunk(b"tEXt", b""), image[8..]),
        ErrorKind::InvalidArgument,
        "chunk is unknown",
    );
    refused(bytes!(image[..8], chunk(b"IHDR", b"")), ErrorKind::InvalidArgument, "cut off");
    let with_palette = |len_bytes: usize| with_chunks(&image, &chunk(b"PLTE", &vec![0; len_bytes]));
    reduced(&with_palette(PALETTE_BYTES_MAX)).unwrap();
    for len_bytes in [1, 49, PALETTE_BYTES_MAX - 1, PALETTE_BYTES_MAX + 3] {
        refused(with_palette(len_bytes), ErrorKind::InvalidArgument, "palette");
    }
}

/// The reduction drops the frames of an animation, so the first picture of the file remains.
#[test]
fn an_animation_is_reduced_to_its_first_picture() {
    let image = small_png();
    let frame = bytes!([0; 4], [0, 0, 0, 16], [0, 0, 0, 16], [0; 14]);
    let begin = bytes!(chunk(b"acTL", &[0, 0, 0, 2, 0, 0, 0, 0]), chunk(b"fcTL", &frame));
    let mut animated = with_chunks(&image, &begin);
    let end = animated.len() - 12;
    animated.splice(end..end, bytes!(chunk(b"fcTL", &frame), chunk(b"fdAT", b"\0\0\0\x01broken")));
    assert!(reduced(&animated).unwrap() == reduced(&image).unwrap());
    let fixture = Fixture::new();
    fixture.exec("put", animated).unwrap();
    let names: BTreeSet<_> = ["format", "width"].map(|name| fixture.exec("match", name).unwrap()).into();
    assert_eq!(names, BTreeSet::from(["format=png", "width=16"].map(Into::into)));
}
