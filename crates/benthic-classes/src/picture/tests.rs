use super::client;
use super::hostile_tests::{jpeg, noise, noisy, png};
use super::wire::{EDGE_MAX, LABEL_NAME_BYTES_MAX, LABELS_MAX, Options, SIZES_MAX};
use benthic_core::{ClassCall, ErrorKind, Fetch, MethodLimits, ObjectId, Pool, Result, Store, WriteOp};
use benthic_embedded::MemStore;
use bytes::Bytes;
use futures::executor::block_on;
use image::{DynamicImage, Rgb, RgbImage, Rgba, RgbaImage};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) struct Fixture {
    pub pool: Arc<dyn Pool>,
    pub object: ObjectId,
}

impl Fixture {
    pub fn new() -> Fixture {
        Fixture::with(MethodLimits::default())
    }

    pub fn with(method_limits: MethodLimits) -> Fixture {
        let options = benthic_embedded::Options { method_limits, ..Default::default() };
        let store = MemStore::new(options.with_classes(crate::registry()));
        block_on(store.create_pool("p")).unwrap();
        Fixture { pool: block_on(store.open_pool("p")).unwrap(), object: ObjectId::new("o").unwrap() }
    }

    pub fn exec(&self, method: &str, input: impl Into<Bytes>) -> Result<Bytes> {
        let call = ClassCall { class: "picture".into(), method: method.into(), input: input.into() };
        block_on(self.pool.exec(&self.object, call))
    }

    fn text(&self, method: &str, input: &str) -> String {
        String::from_utf8(self.exec(method, input.to_owned()).unwrap().to_vec()).unwrap()
    }

    fn put(&self, image: &[u8], options: &Options) {
        block_on(client::put(&*self.pool, &self.object, image, options)).unwrap();
    }

    fn labels(&self) -> BTreeMap<String, String> {
        block_on(client::labels(&*self.pool, &self.object)).unwrap()
    }

    fn thumbnail(&self, edge: u32) -> DynamicImage {
        let encoded = block_on(client::thumbnail(&*self.pool, &self.object, edge)).unwrap();
        image::load_from_memory(&encoded).unwrap()
    }

    fn data(&self) -> Bytes {
        block_on(self.pool.read_range(&self.object, 0, 64 << 20)).unwrap()
    }

    fn keys(&self) -> Vec<String> {
        let range = Fetch::omap_range(None, "", usize::MAX);
        let (page, _) = block_on(self.pool.fetch(&self.object, range)).unwrap();
        page.entries.iter().map(|(key, _)| String::from_utf8(key.to_vec()).unwrap()).collect()
    }
}

fn options(sizes: impl IntoIterator<Item = u32>, labels: &[(&str, &str)]) -> Options {
    let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Options { sizes: Some(sizes.into_iter().collect()), labels }
}

fn flat(width: u32, height: u32, colour: [u8; 3]) -> RgbImage {
    RgbImage::from_pixel(width, height, Rgb(colour))
}

#[test]
fn a_picture_is_stored_with_thumbnails_and_labels() {
    for (format, encoded) in [("jpeg", jpeg(&noise(300, 200))), ("png", png(&noise(300, 200).into()))] {
        let fixture = Fixture::new();
        fixture.exec("put", encoded.clone()).unwrap();
        assert_eq!(fixture.data(), encoded, "{format}");
        let summary = block_on(fixture.pool.get_xattr(&fixture.object, "picture.summary")).unwrap();
        assert_eq!(summary, format!("{format} 300x200 landscape grey"));
        let labels =
            r#"{"colour":"grey","format":"FORMAT","height":"200","shape":"landscape","width":"300"}"#;
        assert_eq!(fixture.text("labels", ""), labels.replace("FORMAT", format));
        let sizes = [64, 256].map(|edge| {
            let thumbnail = fixture.thumbnail(edge);
            (thumbnail.width(), thumbnail.height())
        });
        assert_eq!(sizes, [(64, 42), (256, 170)], "{format}");
        assert_eq!(fixture.exec("thumbnail", "").unwrap(), fixture.exec("thumbnail", "256").unwrap());
    }
}

#[test]
fn a_picture_without_thumbnails_is_scaled() {
    let fixture = Fixture::new();
    let encoded = jpeg(&noise(300, 200));
    block_on(fixture.pool.write_full(&fixture.object, encoded.clone())).unwrap();
    let scaled = fixture.exec("scale", "64").unwrap();
    assert_eq!(fixture.exec("thumbnail", "64").unwrap_err().kind(), ErrorKind::NotFound);
    for size in ["0", "501", "x"] {
        assert_eq!(fixture.exec("scale", size).unwrap_err().kind(), ErrorKind::InvalidArgument, "{size}");
    }
    fixture.exec("index", "").unwrap();
    assert_eq!(fixture.exec("thumbnail", "64").unwrap(), scaled);
    assert_eq!(fixture.exec("thumbnail", "").unwrap(), fixture.exec("scale", "").unwrap());
    block_on(fixture.pool.write_full(&fixture.object, "no picture")).unwrap();
    assert_eq!(fixture.exec("scale", "64").unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn thumbnails_show_the_picture() {
    let fixture = Fixture::new();
    // Red on the left, blue on the right; larger than the image that thumbnails are made from.
    let picture = RgbImage::from_fn(1_600, 800, |x, _| Rgb(if x < 800 { [255, 0, 0] } else { [0, 0, 255] }));
    fixture.put(&png(&picture.into()), &options([16, EDGE_MAX], &[]));
    for edge in [16, EDGE_MAX] {
        let thumbnail = fixture.thumbnail(edge).into_rgb8();
        assert_eq!(thumbnail.dimensions(), (edge, edge / 2));
        let [left, right] = [1, edge - 2].map(|x| thumbnail.get_pixel(x, edge / 4).0);
        assert!(left[0] > 200 && left[2] < 50, "{left:?}");
        assert!(right[2] > 200 && right[0] < 50, "{right:?}");
    }
}

#[test]
fn small_pictures_are_not_enlarged_and_thin_ones_keep_one_pixel() {
    let fixture = Fixture::new();
    fixture.put(&png(&flat(1, 1, [0; 3]).into()), &options([64], &[]));
    assert_eq!(fixture.thumbnail(64).into_rgb8().dimensions(), (1, 1));
    fixture.put(&png(&flat(2_000, 1, [0; 3]).into()), &options([1, 64, EDGE_MAX], &[]));
    for edge in [1, 64, EDGE_MAX] {
        assert_eq!(fixture.thumbnail(edge).into_rgb8().dimensions(), (edge, 1));
    }
}

#[test]
fn transparency_is_preserved() {
    let fixture = Fixture::new();
    let picture = RgbaImage::from_fn(100, 100, |x, _| Rgba([0, 200, 0, if x < 50 { 0 } else { 255 }]));
    fixture.put(&png(&picture.into()), &options([10], &[]));
    let thumbnail = fixture.thumbnail(10).into_rgba8();
    assert_eq!((thumbnail.get_pixel(1, 5).0[3], thumbnail.get_pixel(8, 5).0[3]), (0, 255));
    assert_eq!(fixture.labels()["colour"], "green");
    let picture = RgbaImage::from_pixel(10, 10, Rgba([9, 9, 9, 0]));
    fixture.put(&png(&picture.into()), &options([10], &[]));
    assert_eq!(fixture.labels()["colour"], "none");
}

#[test]
fn colours_have_names() {
    let fixture = Fixture::new();
    for (colour, name) in [
        ([0, 0, 0], "black"),
        ([255, 255, 255], "white"),
        ([128, 128, 128], "grey"),
        ([200, 20, 30], "red"),
        ([230, 130, 20], "orange"),
        ([230, 220, 40], "yellow"),
        ([30, 160, 60], "green"),
        ([30, 190, 200], "cyan"),
        ([30, 60, 200], "blue"),
        ([200, 40, 200], "magenta"),
        ([220, 30, 80], "red"),
    ] {
        fixture.put(&png(&flat(8, 8, colour).into()), &options([], &[]));
        assert_eq!(fixture.labels()["colour"], name, "{colour:?}");
    }
}

/// Adds an EXIF segment with an orientation after the JPEG's first marker.
fn with_orientation(jpeg: &[u8], orientation: u8) -> Vec<u8> {
    let mut exif = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0".to_vec();
    exif.extend([orientation, 0, 0, 0, 0, 0, 0]);
    let mut turned = jpeg[..2].to_vec();
    turned.extend([0xff, 0xe1, 0, exif.len() as u8 + 2]);
    turned.extend(exif);
    turned.extend(&jpeg[2..]);
    turned
}

#[test]
fn the_cameras_orientation_is_honoured() {
    let fixture = Fixture::new();
    // White on the left half, so white is at the top after a rotation by 90 degrees.
    let picture = RgbImage::from_fn(64, 32, |x, _| Rgb([if x < 32 { 255 } else { 0 }; 3]));
    let encoded = jpeg(&picture);
    for (orientation, size, white) in
        [(1, (64, 32), (8, 8)), (3, (64, 32), (56, 8)), (6, (32, 64), (8, 8)), (8, (32, 64), (8, 56))]
    {
        let turned = with_orientation(&encoded, orientation);
        fixture.put(&turned, &Options::default());
        assert_eq!(fixture.data(), turned);
        let thumbnail = fixture.thumbnail(64).into_luma8();
        assert_eq!(thumbnail.dimensions(), size, "{orientation}");
        assert!(thumbnail.get_pixel(white.0, white.1).0[0] > 200, "{orientation}");
        let labels = fixture.labels();
        assert_eq!(
            (labels["width"].as_str(), labels["height"].as_str()),
            (&*size.0.to_string(), &*size.1.to_string())
        );
        assert_eq!(labels["shape"], if size.0 > size.1 { "landscape" } else { "portrait" });
    }
}

#[test]
fn a_new_picture_replaces_all_of_the_old_one() {
    let fixture = Fixture::new();
    let op = WriteOp::new().omap_set([("other", "kept")]).set_xattr("owner", "ada");
    block_on(fixture.pool.write(&fixture.object, op)).unwrap();
    fixture.put(&png(&noise(40, 40).into()), &options([16, 32], &[("album", "reef"), ("by", "ada")]));
    fixture.put(&png(&noise(50, 40).into()), &options([8], &[("by", "bob")]));
    let made = ["colour", "format", "height", "shape", "width"].map(|name| format!("label/{name}"));
    let [colour, format, height, shape, width] = made;
    let expected = [
        "label/by".to_owned(),
        colour,
        format,
        height,
        shape,
        width,
        "other".into(),
        "thumbnail/0008".into(),
    ];
    assert_eq!(fixture.keys(), expected);
    assert_eq!(fixture.labels()["by"], "bob");
    assert_eq!(block_on(fixture.pool.get_xattr(&fixture.object, "owner")).unwrap(), "ada");
    assert_eq!(fixture.exec("thumbnail", "16").unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn index_fills_in_what_an_image_lacks_and_can_run_twice() {
    let fixture = Fixture::new();
    assert_eq!(fixture.exec("index", "").unwrap_err().kind(), ErrorKind::NotFound);
    let image = jpeg(&noise(80, 160));
    let op = WriteOp::new().write_full(image.clone()).omap_set([("label/album", "reef")]);
    block_on(fixture.pool.write(&fixture.object, op)).unwrap();
    fixture.exec("index", "").unwrap();
    let keys = fixture.keys();
    let labels = fixture.labels();
    assert_eq!((labels["album"].as_str(), labels["shape"].as_str()), ("reef", "portrait"));
    let thumbnail = fixture.exec("thumbnail", "64").unwrap();
    fixture.exec("index", "").unwrap();
    assert_eq!((fixture.keys(), fixture.labels()), (keys, labels));
    assert_eq!(fixture.exec("thumbnail", "64").unwrap(), thumbnail);
    let more = options([100], &[("by", "ada")]);
    block_on(client::index(&*fixture.pool, &fixture.object, &more)).unwrap();
    assert_eq!((fixture.labels()["by"].as_str(), fixture.labels()["album"].as_str()), ("ada", "reef"));
    assert_eq!(fixture.thumbnail(100).height(), 100);
    assert_eq!(fixture.exec("thumbnail", "64").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(fixture.data(), image);
}

#[test]
fn index_keeps_the_existing_sizes() {
    let fixture = Fixture::new();
    fixture.put(&png(&flat(200, 100, [255, 0, 0]).into()), &options([16, 100], &[]));
    let other = png(&flat(200, 50, [0, 0, 255]).into());
    let op = WriteOp::new().write_full(other).omap_set([("thumbnail/foreign", "no size")]);
    block_on(fixture.pool.write(&fixture.object, op)).unwrap();
    fixture.exec("index", r#"{"labels":{"by":"ada"}}"#).unwrap();
    let thumbnails: Vec<_> = fixture.keys().into_iter().filter(|key| key.starts_with("thumbnail/")).collect();
    assert_eq!(thumbnails, ["thumbnail/0016", "thumbnail/0100"]);
    assert_eq!([16, 100].map(|edge| fixture.thumbnail(edge).height()), [4, 25]);
    assert_eq!(fixture.labels()["colour"], "blue");
    // Only an explicit empty list of sizes removes all thumbnails.
    block_on(client::index(&*fixture.pool, &fixture.object, &options([], &[]))).unwrap();
    assert!(fixture.keys().iter().all(|key| key.starts_with("label/")));
    fixture.exec("index", "").unwrap();
    assert_eq!([64, 256].map(|edge| fixture.thumbnail(edge).width()), [64, 200]);
    let op = WriteOp::new().omap_set((1..=SIZES_MAX).map(|size| (format!("thumbnail/{size}"), "")));
    block_on(fixture.pool.write(&fixture.object, op)).unwrap();
    assert_eq!(fixture.exec("index", "").unwrap_err().kind(), ErrorKind::LimitExceeded);
}

#[test]
fn the_number_of_existing_keys_is_limited() {
    let fixture = Fixture::new();
    let image = png(&noise(8, 8).into());
    fixture.put(&image, &Options::default());
    for from in (0..8_192).step_by(1_024) {
        let op = WriteOp::new().omap_set((from..from + 1_024).map(|at| (format!("label/{at}"), "")));
        block_on(fixture.pool.write(&fixture.object, op)).unwrap();
    }
    let error = fixture.exec("put", image).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
}

/// Random pixels cannot be compressed, and transparent ones cannot be JPEG.
#[test]
fn every_thumbnail_fits_into_the_omap() {
    for side in [EDGE_MAX, 512, 1_200] {
        let fixture = Fixture::new();
        let image = png(&noisy(side, side).into());
        fixture.put(&image, &options([EDGE_MAX], &[]));
        assert_eq!(fixture.thumbnail(EDGE_MAX).into_rgba8().dimensions(), (EDGE_MAX, EDGE_MAX));
    }
}

#[test]
fn only_pictures_with_the_label_are_returned() {
    let fixture = Fixture::new();
    let image = png(&noise(40, 40).into());
    fixture.put(&image, &options([], &[("album", "reef"), ("empty", "")]));
    for (condition, found) in [
        ("album", "album=reef"),
        ("album=reef", "album=reef"),
        ("album=wreck", ""),
        ("album=", ""),
        ("empty", "empty="),
        ("empty=", "empty="),
        ("missing", ""),
        ("missing=", ""),
        ("shape=square", "shape=square"),
    ] {
        assert_eq!(fixture.text("match", condition), found, "{condition}");
        let expected = if found.is_empty() { &[][..] } else { &image };
        assert_eq!(fixture.exec("get_if", condition).unwrap(), expected, "{condition}");
    }
    let get_if =
        |label, value| block_on(client::get_if(&*fixture.pool, &fixture.object, label, value)).unwrap();
    assert_eq!(get_if("album", Some("reef")), Some(image.clone().into()));
    assert_eq!(get_if("album", Some("wreck")), None);
    assert_eq!(get_if("album", None), Some(image.into()));
}

#[test]
fn bad_input_is_refused_and_stores_nothing() {
    let fixture = Fixture::new();
    let image = png(&noise(8, 8).into());
    let with = |version: u32, len_bytes: u32, options: &str| {
        let mut input = b"BPIC".to_vec();
        input.extend(version.to_le_bytes());
        input.extend(len_bytes.to_le_bytes());
        input.extend(options.as_bytes());
        input.extend(&image);
        input
    };
    for (input, kind) in [
        (b"".to_vec(), ErrorKind::InvalidArgument),
        (b"no image".to_vec(), ErrorKind::InvalidArgument),
        (b"GIF89a".to_vec(), ErrorKind::InvalidArgument),
        (b"BPIC".to_vec(), ErrorKind::InvalidArgument),
        (b"BPIC\x01\0\0\0\x01\0\0".to_vec(), ErrorKind::InvalidArgument),
        (with(2, 0, ""), ErrorKind::Unsupported),
        (with(1, u32::MAX, ""), ErrorKind::InvalidArgument),
        (with(1, 2, "[]"), ErrorKind::InvalidArgument),
        (with(1, 1, "{}"), ErrorKind::InvalidArgument),
    ] {
        assert_eq!(fixture.exec("put", input.clone()).unwrap_err().kind(), kind, "{input:.30?}");
    }
    let long = "x".repeat(LABEL_NAME_BYTES_MAX + 1);
    for (options, kind) in [
        (options([0], &[]), ErrorKind::InvalidArgument),
        (options([EDGE_MAX + 1], &[]), ErrorKind::LimitExceeded),
        (options(1..=SIZES_MAX as u32 + 1, &[]), ErrorKind::LimitExceeded),
        (options([], &[("", "x")]), ErrorKind::InvalidArgument),
        (options([], &[("a=b", "x")]), ErrorKind::InvalidArgument),
        (options([], &[("a", "x\n")]), ErrorKind::InvalidArgument),
        (options([], &[("width", "1")]), ErrorKind::InvalidArgument),
        (options([], &[(&long, "1")]), ErrorKind::LimitExceeded),
        (options([], &[("a", &"x".repeat(257))]), ErrorKind::LimitExceeded),
    ] {
        let error = block_on(client::put(&*fixture.pool, &fixture.object, &image, &options)).unwrap_err();
        assert_eq!(error.kind(), kind, "{options:?}");
    }
    let mut many = Options::default();
    many.labels.extend((0..=LABELS_MAX).map(|at| (at.to_string(), String::new())));
    let error = block_on(client::put(&*fixture.pool, &fixture.object, &image, &many)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    // None of these calls created an object.
    assert_eq!(block_on(fixture.pool.stat(&fixture.object)).unwrap_err().kind(), ErrorKind::NotFound);

    fixture.put(&image, &Options::default());
    for (method, input) in [
        ("index", "[]"),
        ("index", r#"{"size":[1]}"#),
        ("index", r#"{"sizes":[-1]}"#),
        ("thumbnail", "x"),
        ("thumbnail", "-1"),
        ("match", ""),
        ("match", "=x"),
        ("get_if", "a\0"),
    ] {
        assert_eq!(
            fixture.exec(method, input).unwrap_err().kind(),
            ErrorKind::InvalidArgument,
            "{method} {input}"
        );
    }
    assert_eq!(fixture.exec("thumbnail", "7").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(fixture.exec("match", "x".repeat(400)).unwrap_err().kind(), ErrorKind::LimitExceeded);
}
