//! The class `picture`: much input, much computing, and changes of data, attributes and omap that belong together.

use super::Case;
use super::support::{State, kind, pattern};
use benthic_core::{ClassCall, ErrorKind, ListRequest, Namespaces, ObjectId, Result, WriteOp};
use bytes::Bytes;
use futures::future::join_all;

/// A PNG of one colour, without compression: every decoder has to be able to read it.
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

/// A file as its creator made it, with something more at a place of it.
fn with(file: &[u8], at: usize, more: &[u8]) -> Vec<u8> {
    [&file[..at], more, &file[at..]].concat()
}

fn unhex(hex: &str) -> Vec<u8> {
    hex.as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

async fn put(case: &Case<'_>, object: &ObjectId, input: impl Into<Bytes>) -> Result<Bytes> {
    let call = ClassCall { class: "picture".into(), method: "put".into(), input: input.into() };
    case.pool().exec(object, call).await
}

fn with_options(options: &str, image: &[u8]) -> Vec<u8> {
    let len_bytes = options.len() as u32;
    [b"BPIC\x01\0\0\0", &len_bytes.to_le_bytes()[..], options.as_bytes(), image].concat()
}

fn labelled(image: &[u8]) -> Vec<u8> {
    with_options(r#"{"sizes":[16,32],"labels":{"album":"reef"}}"#, image)
}

/// The width and height that a JPEG says.
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
        put(case, &object, with_options(r#"{"sizes":[12]}"#, &unhex(sample))).await.unwrap();
        let state = case.state(&object).await.unwrap();
        assert!(state.data == unhex(sample));
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
    let jpeg = unhex(BASELINE_JPEG);
    // Pieces of a document, and behind each comment an occasion to put them together; texts to keep.
    let piece = [
        b"\xff\xe1\0\x4ehttp://ns.adobe.com/xmp/extension/\0",
        &[b'0'; 32][..],
        &[0, 0, 0, 0, 0, 0, 0, 1, 0],
    ];
    let pieces = [piece.concat().repeat(10_000), b"\xff\xfe\0\x02".repeat(100_000)].concat();
    let texts = chunk(b"tEXt", b"a\0").repeat(100_000);
    // A marker that has no length, and steps of quantization that have 16 bits.
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
        (with(&jpeg, 2, &pieces), ErrorKind::LimitExceeded),
        (with(&image, 33, &texts), ErrorKind::LimitExceeded),
        (with(&jpeg, jpeg.len() - 2, &scans), ErrorKind::LimitExceeded),
        (with(&jpeg, 2, lost), ErrorKind::InvalidArgument),
        (with(&jpeg, 2, &steps), ErrorKind::InvalidArgument),
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
    assert_eq!(case.state(&full).await, Some(State::full()));
    assert_eq!(case.version(&full).await, version);
}

pub(super) async fn a_picture_is_stored_with_the_rest_of_its_operation_or_not_at_all(case: &Case<'_>) {
    let object = case.object("o");
    let image = png(20, 20, [200, 20, 20]);
    let op = |exclusive| {
        WriteOp::new().exec("picture", "put", image.clone()).set_xattr("by", "ada").create(exclusive)
    };
    assert_eq!(kind(case.pool().write(&object, op(true)).await), ErrorKind::AlreadyExists);
    assert_eq!(case.state(&object).await, None);
    case.pool().write(&object, op(false)).await.unwrap();
    let state = case.state(&object).await.unwrap();
    assert_eq!((&state.data, &state.xattrs["by"]), (&image.clone().into(), &"ada".into()));
    assert_eq!(state.omap[&Bytes::from("label/colour")], "red");
}

pub(super) async fn index_fills_in_what_an_image_lacks(case: &Case<'_>) {
    let object = case.object("o");
    assert_eq!(kind(case.exec(&object, "picture", "index", "").await), ErrorKind::NotFound);
    let image = png(90, 300, [30, 160, 60]);
    let op = WriteOp::new().write_full(image.clone()).omap_set([("label/album", "reef")]);
    case.pool().write(&object, op).await.unwrap();
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
    assert_eq!(case.state(&other).await, Some(State::full()));
    // Sizes that one chose stay until one chooses others.
    case.exec(&object, "picture", "index", r#"{"sizes":[30]}"#).await.unwrap();
    case.exec(&object, "picture", "index", r#"{"labels":{"by":"ada"}}"#).await.unwrap();
    let keys: Vec<_> = case.state(&object).await.unwrap().omap.into_keys().collect();
    assert_eq!(
        keys.iter().filter(|key| key.starts_with(b"thumbnail/")).collect::<Vec<_>>(),
        ["thumbnail/0030"]
    );
    fill(case).await;
}

/// Indexes all objects of the case, many at a time, as `benthic exec --all` does: images that came without the class are
/// filled in, and what is none is told and left alone.
async fn fill(case: &Case<'_>) {
    let samples = [BASELINE_JPEG, PROGRESSIVE_JPEG, CMYK_JPEG, FILTERED_PNG];
    for (at, sample) in samples.iter().cycle().take(12).enumerate() {
        case.pool().write_full(&case.object(&format!("sample {at}")), unhex(sample)).await.unwrap();
    }
    let namespaces = Namespaces::One(case.namespace().to_owned());
    let listed = case.pool().list(ListRequest { namespaces, ..ListRequest::default() }).await.unwrap();
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

pub(super) async fn only_what_carries_a_label_is_returned(case: &Case<'_>) {
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

// Images of 24 x 17 pixels with a gradient, in hex, as encoders make them.

/// Three colours, one scan.
const BASELINE_JPEG: &str = "\
    ffd8ffe000104a46494600010200000100010000ffc00011080011001803011100021101031101ffdb004300100b0c0e0c0a\
    100e0d0e1211101318281a181616183123251d283a333d3c3933383740485c4e404457453738506d51575f626768673e4d71\
    797064785c656763ffdb0043011112121815182f1a1a2f634238426363636363636363636363636363636363636363636363\
    636363636363636363636363636363636363636363636363636363ffc4001f00000105010101010101000000000000000001\
    02030405060708090a0bffc400b5100002010303020403050504040000017d01020300041105122131410613516107227114\
    328191a1082342b1c11552d1f02433627282090a161718191a25262728292a3435363738393a434445464748494a53545556\
    5758595a636465666768696a737475767778797a838485868788898a92939495969798999aa2a3a4a5a6a7a8a9aab2b3b4b5\
    b6b7b8b9bac2c3c4c5c6c7c8c9cad2d3d4d5d6d7d8d9dae1e2e3e4e5e6e7e8e9eaf1f2f3f4f5f6f7f8f9faffc4001f010003\
    0101010101010101010000000000000102030405060708090a0bffc400b51100020102040403040705040400010277000102\
    031104052131061241510761711322328108144291a1b1c109233352f0156272d10a162434e125f11718191a262728292a35\
    363738393a434445464748494a535455565758595a636465666768696a737475767778797a82838485868788898a92939495\
    969798999aa2a3a4a5a6a7a8a9aab2b3b4b5b6b7b8b9bac2c3c4c5c6c7c8c9cad2d3d4d5d6d7d8d9dae2e3e4e5e6e7e8e9ea\
    f2f3f4f5f6f7f8f9faffda000c03010002110311003f00e7a2b3f6afa595539a9562e4567ed584aa9e9d2ac5c8acfdab1955\
    3d3a558b3159fb5652aa7c1d2ac5c8acbdab19553d3a558b9159fb5612aa7a74ab10c55723e3291722ac647a748b9156323d\
    3a47ffd9";

/// Ten scans.
const PROGRESSIVE_JPEG: &str = "\
    ffd8ffe000104a46494600010100000100010000ffdb004300a06e788c7864a08c828cb4aaa0bef0fffff0dcdcf0ffffffff\
    ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffdb004301aab4b4f0d2f0\
    ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff\
    ffffffffffffffffffc20011080011001803012200021101031101ffc4001600010101000000000000000000000000000001\
    02ffc400160101010100000000000000000000000000010200ffda000c03010002100310000001cad08d354a6802bfffc400\
    14100100000000000000000000000000000030ffda00080101000105021fffc4001411010000000000000000000000000000\
    0020ffda0008010301013f011fffc40014110100000000000000000000000000000020ffda0008010201013f011fffc40014\
    100100000000000000000000000000000030ffda0008010100063f021fffc400161000030000000000000000000000000000\
    101120ffda0008010100013f210aff00ffda000c030100020003000000107c3ffeffc4001711010101010000000000000000\
    0000000001001011ffda0008010301013f101bb19fffc400161101010100000000000000000000000000000121ffda000801\
    0201013f106223ffc400161001010100000000000000000000000000010011ffda0008010100013f10082204164445ffd9";

/// Four colours, for print.
const CMYK_JPEG: &str = "\
    ffd8ffee000e41646f626500640000000000ffdb004300a06e788c7864a08c828cb4aaa0bef0fffff0dcdcf0ffffffffffff\
    ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffc00014080011001804431100\
    4d11005911004b1100ffc4001800010101010100000000000000000000000300010204ffc400191001010101010100000000\
    000000000000000201121121ffda000e0443004d0059004b00003f00291f21cc312572eb2512572dc84f3c9b964e224ae493\
    2892b96d5647cf3dd4f3cbb14224a3c224a0427fffd9";

/// With every filter, a text, and its pixels in two chunks.
const FILTERED_PNG: &str = "\
    89504e470d0a1a0a0000000d4948445200000018000000110802000000481afb6700000010744558745469746c6500612067\
    72616469656e7480d7794b000000754944415478dacdd0ad6e84001444e1e95f9a2056219bd5e8d524755723aa900d1a8d46\
    5fbda26a351a8d3e7a34a28ae7287d865dc1e4e8119f240a518ab3a8c445d42244235ad1895e0c621429aee22626318b4520\
    2c56b189279df623dddfb34e7a482ffae8dede757fafff7f8f59500465700eaae012d4414b271e650000007549444154044d\
    d0065dd007433006195c835b300573b004040ed6608b1dfbeb70d89f87c34e8aa44cce49955c923a89a449daa44bfa6448c6\
    24936b724ba6644e9684c4c99a6cb963ff1c0efbfb70d8a630a5399bca5c4c6dc234a6359de9cd604693e66a6e6632b3590c\
    c666359b77ecdfc760ff013cc5af732e0f805c0000000049454e44ae426082";
