use super::Picture;
use std::io::Cursor;

/// Two rows and three columns, with a missing value.
fn picture() -> Picture {
    let values = vec![0.0, 5.0, 10.0, f64::NAN, -9.0, 99.0];
    Picture { values, columns: 3, min: 0.0, max: 10.0, gradient: colorous::GREYS, is_reversed: false }
}

#[test]
fn a_file_has_the_colors_of_the_values() {
    let file = picture().png(2).unwrap();
    let mut reader = png::Decoder::new(Cursor::new(file)).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    assert_eq!((info.width, info.height), (6, 4));
    let at = |x: usize, y: usize| &pixels[(y * 6 + x) * 4..][..4];
    assert_eq!((at(0, 0), at(4, 0)), (&[255, 255, 255, 255][..], &[0, 0, 0, 255][..]));
    assert_eq!(at(0, 0), at(1, 1));
    assert_eq!(at(0, 2)[3], 0, "a missing value is transparent");
    // Values out of the range have the color of its end.
    assert_eq!((at(2, 2), at(5, 3)), (at(0, 0), at(4, 0)));
}

#[test]
fn a_character_has_two_values() {
    let text = picture().text();
    assert_eq!(text.matches('▀').count(), 3);
    assert!(text.starts_with("\x1b[0;38;2;255;255;255m▀"), "only the upper half: {text:?}");
    assert!(text.ends_with("\x1b[38;2;0;0;0;48;2;0;0;0m▀\x1b[0m"), "{text:?}");
}

#[test]
fn equal_values_have_the_middle_color() {
    let flat = Picture {
        values: vec![7.0],
        columns: 1,
        min: 7.0,
        max: 7.0,
        gradient: colorous::GREYS,
        is_reversed: false,
    };
    assert!(!flat.text().contains("255;255;255"));
    let reversed =
        Picture { values: vec![0.0, 1.0], columns: 2, min: 0.0, max: 1.0, is_reversed: true, ..flat };
    assert!(reversed.text().starts_with("\x1b[0;38;2;0;0;0m▀"), "{:?}", reversed.text());
}
