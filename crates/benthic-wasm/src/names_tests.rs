use super::{NAMES_MAX, function_names, with_functions};
use crate::manifest::{put_leb128, put_section};
use benthic_core::{Error, ErrorKind};

/// A module with a section of names: of a number of functions, and a list of names.
fn module(count: usize, names: &[(usize, &[u8])]) -> Vec<u8> {
    let mut list = Vec::new();
    put_leb128(&mut list, count);
    for (index, name) in names {
        put_leb128(&mut list, *index);
        put_leb128(&mut list, name.len());
        list.extend_from_slice(name);
    }
    let mut section = vec![1];
    put_leb128(&mut section, list.len());
    section.extend_from_slice(&list);
    let mut wasm = b"\0asm\x01\0\0\0".to_vec();
    put_section(&mut wasm, "name", &section);
    wasm
}

#[test]
fn functions_have_names_or_numbers() {
    let legacy = b"_ZN5words10parse_line17h0123456789abcdefE";
    let wasm = module(3, &[(3, b"split"), (7, legacy), (9, b"_RNvCsbDqzXfLQacH_5words5count")]);
    let names = function_names(&wasm, &[7, 3, 12, 3, 9]);
    assert_eq!(names, ["words::parse_line", "split", "func[12]", "split", "words::count"]);
    assert_eq!(function_names(b"\0asm\x01\0\0\0", &[0]), ["func[0]"]);
}

#[test]
fn names_are_short_and_cannot_control_a_terminal() {
    let long = "x".repeat(100);
    let wasm = module(3, &[(0, b"a\x1b[31mb\nc"), (1, long.as_bytes()), (2, "left\u{202e}right".as_bytes())]);
    let names = function_names(&wasm, &[0, 1, 2]);
    assert_eq!(names, ["a?[31mb?c", &format!("{}...", "x".repeat(80)), "left?right"]);
    // A mangled name that would be long.
    let long = format!("_ZN{}E", "100".to_owned() + &"x".repeat(100));
    let very_long = format!("_ZN{}E", "1x".repeat(1 << 20));
    let names = function_names(&module(2, &[(0, long.as_bytes()), (1, very_long.as_bytes())]), &[0, 1]);
    assert_eq!(names, [format!("{}...", "x".repeat(80)), format!("{}...", &very_long[..80])]);
}

#[test]
fn a_malformed_section_gives_no_names() {
    let none = ["func[0]"];
    let many: Vec<(usize, &[u8])> = (0..=NAMES_MAX as usize).map(|index| (index, &b"f"[..])).collect();
    assert_eq!(function_names(&module(many.len(), &many), &[0]), none, "too many names");
    assert_eq!(function_names(&module(many.len() - 1, &many[1..]), &[1]), ["f"]);
    assert_eq!(function_names(&module(90_000, &[(0, b"f")]), &[0]), none, "a count beyond the end");
    assert_eq!(function_names(&module(1, &[(0, b"\xff")]), &[0]), none, "not UTF-8");
    let whole = module(1, &[(0, b"f")]);
    for len in 0..whole.len() {
        assert_eq!(function_names(&whole[..len], &[0]), none, "{len} bytes");
    }
}

#[test]
fn an_error_names_the_innermost_functions() {
    let wasm = module(2, &[(0, b"outer"), (1, b"inner")]);
    let error = Error::new(ErrorKind::ClassFailed, "the method trapped: why").with("key", 1);
    let located = with_functions(error, &wasm, &[1, 0]);
    assert_eq!(located.kind(), ErrorKind::ClassFailed);
    assert_eq!(located.text(), "the method trapped: why; in inner < outer key=1");
    let deep = with_functions(Error::new(ErrorKind::ClassFailed, "x"), &wasm, &[1; 9]);
    assert_eq!(deep.message(), format!("x; in {} < ...", ["inner"; 8].join(" < ")));
    assert_eq!(with_functions(Error::new(ErrorKind::ClassFailed, "x"), &wasm, &[]).message(), "x");
    let wasm = module(2, &[(0, b"core::panicking::panic"), (1, b"words::parse")]);
    let panicked = |functions: &[u32]| {
        with_functions(Error::new(ErrorKind::ClassFailed, "x"), &wasm, functions).message().to_owned()
    };
    assert_eq!(panicked(&[0, 0, 1, 0]), "x; in words::parse < core::panicking::panic");
    assert_eq!(panicked(&[0]), "x; in core::panicking::panic");
}
