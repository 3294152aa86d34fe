//! The class `picture`: large input, long computations, and atomic changes of data, attributes and
//! omap.

use super::Case;
use super::support::{ObjectContent, kind, pattern};
use benthic_core::{ClassCall, ErrorKind, ObjectId, Result, WriteOp};
use bytes::Bytes;
use futures::future::join_all;

// Images of 24 x 17 pixels with a gradient, as common encoders write them.

/// Three colour components, one scan.
const BASELINE_JPEG: &[u8] = include_bytes!("../../data/baseline.jpg");
/// Ten scans.
const PROGRESSIVE_JPEG: &[u8] = include_bytes!("../../data/progressive.jpg");
/// Four colour components, for print.
const CMYK_JPEG: &[u8] = include_bytes!("../../data/cmyk.jpg");
/// Uses every filter type and contains a text chunk and two pixel chunks.
const FILTERED_PNG: &[u8] = include_bytes!("../../data/filtered.png");

/// A PNG of one colour without compression, which every decoder must read.
fn png(width: u32, height: u32, colour: [u8; 3]) -> Vec<u8> {
    let row = [&[0][..], &colour.repeat(width as usize)].concat();
    let pixels = row.repeat(height as usize);
    let mut data = vec![0x78, 0x01];
    let mut blocks = pixels.chunks(usize::from(u16::MAX)).peekable();
    while let Some(block) = blocks.next() {
        let len_bytes = block.len() as u16;
        data.push(u8::from(blocks.peek().is_none()));
        data.extend(len_bytes.to_le_bytes());
        data.extend((!len_bytes).to_le_bytes());
        data.extend(block);
    }
    let (a, b) = pixels.iter().fold((1, 0), |(a, b), byte| {
        let a = (a + u32::from(*byte)) % 65_521;
        (a, (b + a) % 65_521)
    });
    data.extend((b << 16 | a).to_be_bytes());
    let header = [&width.to_be_bytes()[..], &height.to_be_bytes(), &[8, 2, 0, 0, 0]].concat();
    let chunks = [chunk(b"IHDR", &header), chunk(b"IDAT", &data), chunk(b"IEND", b"")];
    [b"\x89PNG\r\n\x1a\n".to_vec(), chunks.concat()].concat()
}

fn chunk(name: &[u8; 4], content: &[u8]) -> Vec<u8> {
    let named = [name, content].concat();
    [&(content.len() as u32).to_be_bytes()[..], &named, &crc32(&named).to_be_bytes()].concat()
}

fn crc32(data: &[u8]) -> u32 {
    !data.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
    })
}

/// Returns `file` with `more` inserted at byte `at`.
fn with(file: &[u8], at: usize, more: &[u8]) -> Vec<u8> {
    [&file[..at], more, &file[at..]].concat()
}

async fn put(case: &Case<'_>, object: &ObjectId, input: impl Into<Bytes>) -> Result<Bytes> {
    case.pool.exec(object, ClassCall::new("picture", "put", input)).await
}

fn with_options(options: &str, image: &[u8]) -> Vec<u8> {
    let len_bytes = options.len() as u32;
    [b"BPIC\x01\0\0\0", &len_bytes.to_le_bytes()[..], options.as_bytes(), image].concat()
}

fn labelled(image: &[u8]) -> Vec<u8> {
    with_options(r#"{"sizes":[16,32],"labels":{"album":"reef"}}"#, image)
}

/// Width and height in the JPEG's frame header.
fn jpeg_size(jpeg: &[u8]) -> (u16, u16) {
    let frame = jpeg.windows(4).position(|part| part == [0xff, 0xc0, 0, 17]).unwrap();
    let number = |at: usize| u16::from_be_bytes([jpeg[frame + at], jpeg[frame + at + 1]]);
    (number(7), number(5))
}

pub(super) async fn a_picture_is_stored_with_thumbnails_and_labels(case: &Case<'_>) {
    let object = case.object("o");
    let image = png(120, 60, [20, 40, 200]);
    assert_eq!(put(case, &object, image.clone()).await.unwrap(), "");
    let state = case.state(&object).await.unwrap();
    assert_eq!(state.data, image);
    assert_eq!(state.xattrs["picture.summary"], "png 120x60 landscape blue");
    let keys: Vec<_> = state.omap.keys().map(|key| str::from_utf8(key).unwrap()).collect();
    let labels = ["label/colour", "label/format", "label/height", "label/shape", "label/width"];
    assert_eq!(keys, [&labels[..], &["thumbnail/0064", "thumbnail/0256"]].concat());
    for (size, expected) in [("64", (64, 32)), ("", (120, 60))] {
        let thumbnail = case.exec(&object, "picture", "thumbnail", size).await.unwrap();
        assert_eq!(jpeg_size(&thumbnail), expected, "{size}");
    }
    let listed = case.exec(&object, "picture", "labels", "").await.unwrap();
    let expected = r#"{"colour":"blue","format":"png","height":"60","shape":"landscape","width":"120"}"#;
    assert_eq!(listed, expected);
    for (sample, expected) in [
        (BASELINE_JPEG, "jpeg 24x17 landscape blue"),
        (PROGRESSIVE_JPEG, "jpeg 24x17 landscape yellow"),
        (CMYK_JPEG, "jpeg 24x17 landscape green"),
        (FILTERED_PNG, "png 24x17 landscape blue"),
    ] {
        put(case, &object, with_options(r#"{"sizes":[12]}"#, sample)).await.unwrap();
        let state = case.state(&object).await.unwrap();
        assert!(state.data == sample);
        assert_eq!(state.xattrs["picture.summary"], expected);
        let thumbnail = case.exec(&object, "picture", "thumbnail", "12").await.unwrap();
        assert_eq!(jpeg_size(&thumbnail), (12, 8));
    }
}

pub(super) async fn a_new_picture_replaces_all_of_the_old_one(case: &Case<'_>) {
    let object = case.make_full("o").await;
    put(case, &object, labelled(&png(50, 50, [255; 3]))).await.unwrap();
    assert_eq!(case.exec(&object, "picture", "match", "album").await.unwrap(), "album=reef");
    let image = png(40, 50, [0; 3]);
    put(case, &object, with_options(r#"{"sizes":[8]}"#, &image)).await.unwrap();
    let state = case.state(&object).await.unwrap();
    assert_eq!(state.data, image);
    assert_eq!((&state.xattrs["X"], &state.omap[&Bytes::from("K")]), (&"1".into(), &"V".into()));
    assert_eq!(case.exec(&object, "picture", "match", "album").await.unwrap(), "");
    assert_eq!(kind(case.exec(&object, "picture", "thumbnail", "16").await), ErrorKind::NotFound);
    let thumbnail = case.exec(&object, "picture", "thumbnail", "8").await.unwrap();
    assert_eq!(jpeg_size(&thumbnail), (6, 8));
}

pub(super) async fn a_broken_picture_stores_nothing(case: &Case<'_>) {
    let full = case.make_full("full").await;
    let version = case.version(&full).await;
    let missing = case.object("missing");
    let image = png(30, 30, [1, 2, 3]);
    let mut damaged = image.clone();
    damaged[100] ^= 1;
    let mut huge = image.clone();
    huge[16..24].copy_from_slice(&[0, 1, 0, 0, 0, 1, 0, 0]);
    let checksum = crc32(&huge[12..29]);
    huge[29..33].copy_from_slice(&checksum.to_be_bytes());
    let jpeg = BASELINE_JPEG;
    // Fragments of an extended XMP document, with a comment after each that could trigger
    // reassembly, and text chunks that the class stores.
    let piece = [
        b"\xff\xe1\0\x4ehttp://ns.adobe.com/xmp/extension/\0",
        &[b'0'; 32][..],
        &[0, 0, 0, 0, 0, 0, 0, 1, 0],
    ];
    let pieces = [piece.concat().repeat(10_000), b"\xff\xfe\0\x02".repeat(100_000)].concat();
    let texts = chunk(b"tEXt", b"a\0").repeat(100_000);
    // A marker without a length, and quantization tables with 16-bit steps.
    let lost = b"\xff\xd0\0\x08\xff\xe5\xff\xff\0\0";
    let steps = [&b"\xff\xdb\0\x83\x10"[..], &[0xff; 128]].concat();
    let scan = jpeg.windows(2).position(|pair| pair == [0xff, 0xda]).unwrap();
    let scans = jpeg[scan..jpeg.len() - 2].repeat(1_000);
    for (input, expected) in [
        (Vec::new(), ErrorKind::InvalidArgument),
        (b"no image".to_vec(), ErrorKind::InvalidArgument),
        (pattern(1_000), ErrorKind::InvalidArgument),
        (image[..image.len() - 1].to_vec(), ErrorKind::InvalidArgument),
        (damaged, ErrorKind::InvalidArgument),
        (huge, ErrorKind::LimitExceeded),
        (with(jpeg, 2, &pieces), ErrorKind::LimitExceeded),
        (with(&image, 33, &texts), ErrorKind::LimitExceeded),
        (with(jpeg, jpeg.len() - 2, &scans), ErrorKind::LimitExceeded),
        (with(jpeg, 2, lost), ErrorKind::InvalidArgument),
        (with(jpeg, 2, &steps), ErrorKind::InvalidArgument),
        (b"GIF89a".to_vec(), ErrorKind::InvalidArgument),
        (with_options("[]", &image), ErrorKind::InvalidArgument),
        (with_options(r#"{"sizes":[501]}"#, &image), ErrorKind::LimitExceeded),
        (with_options(r#"{"labels":{"width":"9"}}"#, &image), ErrorKind::InvalidArgument),
    ] {
        for object in [&full, &missing] {
            assert_eq!(kind(put(case, object, input.clone()).await), expected, "{input:.40?}");
        }
    }
    assert_eq!(case.state(&missing).await, None);
    assert_eq!(case.state(&full).await, Some(ObjectContent::full()));
    assert_eq!(case.version(&full).await, version);
}

pub(super) async fn a_picture_is_stored_with_the_rest_of_its_operation_or_not_at_all(case: &Case<'_>) {
    let object = case.object("o");
    let image = png(20, 20, [200, 20, 20]);
    let op = |exclusive| {
        WriteOp::new().exec("picture", "put", image.clone()).set_xattr("by", "ada").create(exclusive)
    };
    assert_eq!(kind(case.pool.write(&object, op(true)).await), ErrorKind::AlreadyExists);
    assert_eq!(case.state(&object).await, None);
    case.pool.write(&object, op(false)).await.unwrap();
    let state = case.state(&object).await.unwrap();
    assert_eq!((&state.data, &state.xattrs["by"]), (&image.clone().into(), &"ada".into()));
    assert_eq!(state.omap[&Bytes::from("label/colour")], "red");
}

pub(super) async fn index_adds_missing_labels_and_thumbnails(case: &Case<'_>) {
    let object = case.object("o");
    assert_eq!(kind(case.exec(&object, "picture", "index", "").await), ErrorKind::NotFound);
    let image = png(90, 300, [30, 160, 60]);
    let op = WriteOp::new().write_full(image.clone()).omap_set([("label/album", "reef")]);
    case.pool.write(&object, op).await.unwrap();
    case.exec(&object, "picture", "index", "").await.unwrap();
    let state = case.state(&object).await.unwrap();
    assert_eq!(state.xattrs["picture.summary"], "png 90x300 portrait green");
    assert_eq!((&state.data, &state.omap[&Bytes::from("label/album")]), (&image.into(), &"reef".into()));
    let thumbnail = case.exec(&object, "picture", "thumbnail", "256").await.unwrap();
    assert_eq!(jpeg_size(&thumbnail), (76, 256));
    // A retry changes nothing.
    case.exec(&object, "picture", "index", "").await.unwrap();
    assert_eq!(case.state(&object).await, Some(state));
    let other = case.make_full("other").await;
    assert_eq!(kind(case.exec(&other, "picture", "index", "").await), ErrorKind::InvalidArgument);
    assert_eq!(case.state(&other).await, Some(ObjectContent::full()));
    // Thumbnail sizes stay as set until a call sets other sizes.
    case.exec(&object, "picture", "index", r#"{"sizes":[30]}"#).await.unwrap();
    case.exec(&object, "picture", "index", r#"{"labels":{"by":"ada"}}"#).await.unwrap();
    let keys: Vec<_> = case.state(&object).await.unwrap().omap.into_keys().collect();
    assert_eq!(
        keys.iter().filter(|key| key.starts_with(b"thumbnail/")).collect::<Vec<_>>(),
        ["thumbnail/0030"]
    );
    fill(case).await;
}

/// Indexes all objects of the case concurrently, as `benthic exec --all` does. Images that were
/// written without the class get their index; other objects are reported and left unchanged.
async fn fill(case: &Case<'_>) {
    let samples = [BASELINE_JPEG, PROGRESSIVE_JPEG, CMYK_JPEG, FILTERED_PNG];
    for (at, sample) in samples.iter().cycle().take(12).enumerate() {
        case.pool.write_full(&case.object(&format!("sample {at}")), *sample).await.unwrap();
    }
    let listed = case.pool.list(case.list_request()).await.unwrap();
    let indexed = join_all(listed.objects.iter().map(async |object| {
        let indexed = case.exec(object, "picture", "index", "").await;
        (object.name(), indexed.map_err(|error| error.kind()))
    }))
    .await;
    assert_eq!(indexed.len(), 14);
    for (name, indexed) in indexed {
        let expected = if name == "other" { Err(ErrorKind::InvalidArgument) } else { Ok(Bytes::new()) };
        assert_eq!(indexed, expected, "{name}");
        if name.starts_with("sample") {
            let thumbnail = case.exec(&case.object(name), "picture", "thumbnail", "256").await.unwrap();
            assert_eq!(jpeg_size(&thumbnail), (24, 17), "{name}");
        }
    }
}

pub(super) async fn get_if_returns_only_a_picture_with_the_label(case: &Case<'_>) {
    let object = case.object("o");
    let image = png(300, 300, [128; 3]);
    put(case, &object, labelled(&image)).await.unwrap();
    for (condition, found) in [
        ("album", "album=reef"),
        ("album=reef", "album=reef"),
        ("colour=grey", "colour=grey"),
        ("album=wreck", ""),
        ("missing", ""),
    ] {
        assert_eq!(case.exec(&object, "picture", "match", condition).await.unwrap(), found, "{condition}");
        let returned = case.exec(&object, "picture", "get_if", condition).await.unwrap();
        assert!(returned == if found.is_empty() { &[][..] } else { &image }, "{condition}");
    }
    let missing = case.object("missing");
    for method in ["thumbnail", "labels", "match", "get_if"] {
        let input = if method == "match" || method == "get_if" { "album" } else { "" };
        assert_eq!(
            kind(case.exec(&missing, "picture", method, input).await),
            ErrorKind::NotFound,
            "{method}"
        );
    }
}
