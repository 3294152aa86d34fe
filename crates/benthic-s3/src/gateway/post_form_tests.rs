use super::{FormHead, HEAD_BYTES_MAX, fields, is_form};
use benthic_testkit::random::Rng;
use benthic_testkit::seed;
use hyper::Method;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue};

const FORM: &str = "--b\r\nContent-Disposition: form-data; name=\"key\"\r\n\r\na\r\n\r\nb\r\n\
                    --b \r\ncontent-disposition: form-data; NAME=acl\r\nContent-Type: text/plain\r\n\r\nprivate\r\n\
                    --b\r\nContent-Disposition: form-data; name=\"File\"; filename=\"c\"\r\n\r\n";

fn fields_of(form: &str) -> Option<Vec<(String, String)>> {
    fields(form.as_bytes().to_vec(), "b")
}

#[test]
fn fields_are_found_before_the_file() {
    let expected = [("key", "a\r\n\r\nb"), ("acl", "private")];
    let expected = Some(expected.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec());
    assert_eq!(fields_of(FORM), expected);
    assert_eq!(fields_of(&format!("preamble\r\n{FORM}data\r\n--b--\r\n")), expected);
    // A form that ends before its file, or whose parts cannot be told apart, is refused.
    for cut in 0..FORM.len() {
        assert_eq!(fields_of(&FORM[..cut]), None, "{cut}");
    }
    for (old, new) in
        [("--b \r", "--bc\r"), ("NAME=acl", "NAMES=acl"), ("--b \r", "--b--\r"), ("content-d", "d")]
    {
        assert_eq!(fields_of(&FORM.replace(old, new)), None, "{new}");
    }
    assert_eq!(fields(FORM.as_bytes().to_vec(), "c"), None);
}

#[test]
fn damaged_forms_never_panic() {
    let seed = seed::one();
    let mut random = Rng(seed);
    for _ in 0..20_000 {
        let mut form = FORM.as_bytes().to_vec();
        for _ in 0..=random.below(4) {
            let (at, other) = (random.below(form.len()), random.below(form.len()));
            match random.below(3) {
                0 => form[at] = random.number() as u8,
                1 => form.truncate(at.max(1)),
                _ => form.swap(at, other),
            }
        }
        let found = fields(form, "b").unwrap_or_default();
        assert!(found.len() <= 2, "{}={seed}", seed::VARIABLE);
    }
}

#[test]
fn only_a_form_passes_for_a_form() {
    let is_form = |kinds: &[&'static str]| {
        let mut headers = HeaderMap::new();
        for kind in kinds {
            headers.append(CONTENT_TYPE, HeaderValue::from_static(kind));
        }
        is_form(&Method::POST, &headers)
    };
    let form = "multipart/form-data; boundary=b";
    assert!(is_form(&[form]) && is_form(&["Multipart/Form-Data"]));
    for kinds in [&[] as &[&str], &["text/plain"], &["multipart/form-datax; boundary=b"], &[form, form]] {
        assert!(!is_form(kinds), "{kinds:?}");
    }
}

#[test]
fn the_beginning_of_a_form_has_a_limit() {
    let mut headers = HeaderMap::new();
    headers
        .insert(CONTENT_TYPE, HeaderValue::from_static("Multipart/Form-Data; charset=utf-8; Boundary=\"b\""));
    assert!(FormHead::of(&Method::PUT, &headers).is_none());
    let head = FormHead::of(&Method::POST, &headers).unwrap();
    assert_eq!(head.boundary, "b");
    for _ in 0..3 {
        head.add(&[1; HEAD_BYTES_MAX / 2]);
        head.add(&[2]);
    }
    assert!(head.is_full());
    assert_eq!(head.data.lock().take().unwrap().len(), HEAD_BYTES_MAX);
    head.add(&[3]);
    assert_eq!(*head.data.lock(), None);
    assert!(!head.is_full());
}
