use super::Kind;

#[test]
fn the_first_bytes_decide() {
    for (head, kind) in [
        (&b""[..], Kind::Empty),
        (b"\x89PNG\r\n\x1a\n....", Kind::Png),
        (b"\xff\xd8\xff\xe0", Kind::Jpeg),
        (b"GIF89a", Kind::Gif),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", Kind::Webp),
        (b"RIFF\x00\x00\x00\x00WAVE", Kind::Binary),
        (b"PAR1\x15\x04", Kind::Parquet),
        (b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>", Kind::Text),
        (b"<!doctype html><script>alert(1)</script>", Kind::Text),
        (b"a\0b", Kind::Binary),
        (b"\xc3\x28", Kind::Binary),
        ("gr\u{fc}n".as_bytes(), Kind::Text),
    ] {
        assert_eq!(Kind::of(head, head.len() as u64), kind, "{head:?}");
    }
}

#[test]
fn a_cut_within_a_character_is_still_text() {
    let text = "\u{1f600}".repeat(3);
    for cut in 5..=12 {
        assert_eq!(Kind::of(&text.as_bytes()[..cut], 12), Kind::Text, "{cut}");
    }
    assert_eq!(Kind::of(&text.as_bytes()[..5], 5), Kind::Binary, "an object that ends within one is not");
}
