use super::{OUTPUT_BYTES_MAX, last_error, read_lines};
use benthic_core::ErrorKind;
use serde_json::{Value, json};
use std::io::{self, Read};

#[test]
fn lines_end_at_the_limits() {
    let text = "{\"a\":1}\n{\"a\":2}\n{\"a\":3}\n";
    let all = read_lines(text.as_bytes(), 3).unwrap();
    assert_eq!((all.lines.len(), all.is_cut), (3, false));
    let two = read_lines(text.as_bytes(), 2).unwrap();
    assert_eq!(
        (two.values::<Value>().unwrap(), two.is_cut),
        (vec![json!({ "a": 1 }), json!({ "a": 2 })], true)
    );
    let endless = read_lines(b"{}\n".chain(io::repeat(b' ')), 5).unwrap();
    assert_eq!((endless.lines.len(), endless.is_cut), (1, true));
    let error = read_lines(io::repeat(b'x').take(OUTPUT_BYTES_MAX + 5), 5).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    let other = read_lines(&b"benthic: no JSON\n"[..], 5).unwrap();
    assert_eq!(other.value().unwrap_err().kind(), ErrorKind::Internal);
}

#[test]
fn the_last_error_of_a_child_is_the_error() {
    let stderr = "{\"warning\":{\"message\":\"x\"}}\n{\"error\":{\"kind\":\"not_found\",\"message\":\"no such table\",\
        \"context\":{\"table\":\"t\"}}}\nnoise\n";
    let error = last_error(stderr).unwrap();
    assert_eq!((error.kind(), error.message()), (ErrorKind::NotFound, "no such table"));
    assert!(error.to_string().contains("table"), "{error}");
    assert!(last_error("noise").is_none());
    let usage = last_error("{\"error\":{\"kind\":\"usage\",\"message\":\"m\"}}").unwrap();
    assert_eq!(usage.kind(), ErrorKind::InvalidArgument);
}
