//! A pool of photographs and locks on them: typical use of the classes `picture` and `lock`.

use crate::support::Home;
use serde_json::json;

/// A PNG of one pixel, without compression.
fn pixel(colour: [u8; 3]) -> Vec<u8> {
    let row = [&[0][..], &colour].concat();
    let (a, b) = row.iter().fold((1, 0), |(a, b), byte| (a + u32::from(*byte), b + a + u32::from(*byte)));
    let data = [b"\x78\x01\x01\x04\0\xfb\xff", &row[..], &(b << 16 | a).to_be_bytes()].concat();
    let chunk = |name: &[u8; 4], content: &[u8]| {
        let named = [name, content].concat();
        [&(content.len() as u32).to_be_bytes()[..], &named, &crc32(&named).to_be_bytes()].concat()
    };
    let header = [0, 0, 0, 1, 0, 0, 0, 1, 8, 2, 0, 0, 0];
    let chunks = [chunk(b"IHDR", &header), chunk(b"IDAT", &data), chunk(b"IEND", b"")];
    [b"\x89PNG\r\n\x1a\n".to_vec(), chunks.concat()].concat()
}

fn crc32(data: &[u8]) -> u32 {
    !data.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
    })
}

fn sorted_lines(printed: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = printed.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn a_pool_of_photographs_is_labelled_and_searched() {
    let home = Home::with_pool();
    home.file("sea.png", pixel([10, 40, 220]));
    home.file("sun.png", pixel([230, 220, 40]));
    // Stores one image through the class, and the other as a plain file without metadata.
    assert_eq!(home.ok(&["exec", "p/sea", "picture", "put", "@sea.png"]), "png 1x1 square blue\n");
    home.ok(&["put", "p/sun", "sun.png"]);
    assert_eq!(home.ok(&["exec", "p/sun", "picture", "match", "colour"]), "");
    let indexed = home.ok(&["exec", "--all", "p", "picture", "index", r#"{"labels":{"album":"reef"}}"#]);
    assert_eq!(sorted_lines(&indexed), ["sea\tpng 1x1 square blue", "sun\tpng 1x1 square yellow"]);

    let found = home.ok(&["exec", "--all", "p", "picture", "match", "colour=blue"]);
    assert_eq!(sorted_lines(&found), ["sea\tcolour=blue", "sun\t"]);
    assert_eq!(home.run(&["exec", "p/sea", "picture", "get_if", "colour=blue"]).stdout, pixel([10, 40, 220]));
    assert_eq!(home.run(&["exec", "p/sun", "picture", "get_if", "colour=blue"]).stdout, b"");
    assert_eq!(home.run(&["exec", "p/sun", "picture", "thumbnail", "64"]).stdout[..3], [0xff, 0xd8, 0xff]);
    assert_eq!(home.ok(&["omap", "get", "p/sun", "label/album"]), "reef");
    assert_eq!(
        home.ok(&["exec", "p/sun", "picture", "labels"]),
        "{\"album\":\"reef\",\"colour\":\"yellow\",\"format\":\"png\",\"height\":\"1\",\"shape\":\"square\",\"width\":\"1\"}\n"
    );
}

#[test]
fn objects_that_are_no_pictures_are_reported_and_unchanged() {
    let home = Home::with_pool();
    let png = pixel([10, 40, 220]);
    home.file("cut.png", &png[..png.len() - 1]);
    let error = home.fails(6, &["exec", "p/cut", "picture", "put", "@cut.png"]);
    assert!(error.contains("cut off"), "{error}");
    home.fails(3, &["stat", "p/cut"]);
    home.file("sea.png", png);
    home.file("notes.txt", "no picture");
    home.ok(&["put", "p/sea", "sea.png"]);
    home.ok(&["put", "p/notes", "notes.txt"]);
    let error = home.fails(1, &["exec", "--all", "p", "picture", "index"]);
    assert!(error.contains("p/notes") && !error.contains("p/sea"), "{error}");
    assert_eq!(home.ok(&["exec", "p/sea", "picture", "match", "format"]), "format=png\n");
    assert_eq!(home.ok(&["omap", "ls", "p/notes"]), "");
}

#[test]
fn a_lock_is_taken_listed_and_broken() {
    let home = Home::with_pool();
    let ada = r#"{"owner":"ada","lease_ms":3600000}"#;
    home.ok(&["exec", "p/o", "lock", "acquire", ada]);
    home.ok(&["exec", "p/o", "lock", "acquire", ada]);
    assert!(home.fails(10, &["exec", "p/o", "lock", "acquire", r#"{"owner":"bob"}"#]).contains("holders=1"));
    home.ok(&["exec", "p/o", "lock", "assert", r#"{"owner":"ada","mode":"exclusive"}"#]);
    home.ok(&["exec", "p/o", "lock", "break", r#"{"owner":"ada"}"#]);
    home.fails(5, &["exec", "p/o", "lock", "assert", r#"{"owner":"ada"}"#]);
    home.ok(&["exec", "p/o", "lock", "acquire", r#"{"owner":"bob"}"#]);
    let holders = json!([{ "owner": "bob", "cookie": "", "left_ms": null }]);
    let listed: serde_json::Value = serde_json::from_str(&home.ok(&["exec", "p/o", "lock", "list"])).unwrap();
    assert_eq!(listed, json!([{ "name": "default", "mode": "exclusive", "holders": holders }]));
}
