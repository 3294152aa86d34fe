use super::{
    count, hex, no_control, one_line, one_line_bytes, parse_age, parse_hex, parse_size, shell_word, size, utc,
};
use std::time::Duration;

#[test]
fn sizes_parse_and_print() {
    for (text, len_bytes) in
        [("0", 0), ("7B", 7), ("4KiB", 4096), ("64K", 65_536), ("1GiB", 1 << 30), ("2T", 2 << 40)]
    {
        assert_eq!(parse_size(text), Ok(len_bytes), "{text}");
    }
    for text in ["", "KiB", "1kb", "-1", "1.5MiB", "99999999999GiB", "99999999TiB"] {
        assert!(parse_size(text).is_err(), "{text}");
    }
    assert_eq!((size(0), size(1023)), ("0 B".to_owned(), "1023 B".to_owned()));
    assert_eq!((size(1536), size(3 << 40)), ("1.5 KiB".to_owned(), "3.0 TiB".to_owned()));
}

#[test]
fn ages_have_a_unit() {
    for (text, seconds) in [("0s", 0), ("90s", 90), ("30m", 1_800), ("12h", 43_200), ("1w", 604_800)] {
        assert_eq!(parse_age(text), Ok(Duration::from_secs(seconds)), "{text}");
    }
    for text in ["", "d", "7", "-1d", "1.5h", "1y", "99999999999999999999s", "99999999999999999w"] {
        assert!(parse_age(text).is_err(), "{text}");
    }
}

#[test]
fn counts_have_the_right_plural() {
    assert_eq!((count(0, "pool"), count(1, "pool")), ("0 pools".to_owned(), "1 pool".to_owned()));
}

#[test]
fn times_are_utc() {
    assert_eq!(utc(0), "1970-01-01T00:00:00Z");
    assert_eq!(utc(951_782_400_000_000_000), "2000-02-29T00:00:00Z");
    assert_eq!(utc(1_735_689_599_999_999_999), "2024-12-31T23:59:59Z");
    assert_eq!(utc(4_107_542_400_000_000_000), "2100-03-01T00:00:00Z");
}

#[test]
fn escaped_text_fits_on_one_line() {
    assert_eq!(one_line("a\\b é"), "a\\\\b é");
    assert_eq!(no_control("a\\b\n"), "a\\b\\n");
    assert_eq!(one_line("a\nb\u{1b}[2J"), "a\\nb\\u{1b}[2J");
    assert_eq!(one_line_bytes(b"\xff\n"), "\\xff\\n");
}

#[test]
fn shell_words_are_quoted() {
    for (word, quoted) in [
        ("/usr/lib/libcls_x_1.so", "/usr/lib/libcls_x_1.so"),
        ("", "''"),
        ("a b", "'a b'"),
        ("~", "'~'"),
        ("it's $HOME", r"'it'\''s $HOME'"),
        ("ceph:?conf=/x y&id='a'", r"'ceph:?conf=/x y&id='\''a'\'''"),
    ] {
        assert_eq!(shell_word(word), quoted);
    }
}

#[test]
fn hexadecimal_round_trips() {
    assert_eq!(hex(&[0, 171, 255]), "00abff");
    assert_eq!(parse_hex("00ABff"), Some(vec![0, 171, 255]));
    assert_eq!((parse_hex("0"), parse_hex("0g"), parse_hex("é")), (None, None, None));
}
