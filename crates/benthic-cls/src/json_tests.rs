use super::{encode, parse};
use benthic_core::ErrorKind;
use std::collections::BTreeMap;

#[test]
fn only_the_json_of_the_type_is_accepted() {
    assert_eq!(parse::<Vec<u8>>(b"[1, 2]").unwrap(), [1, 2]);
    for input in ["", "[1, 2] 3", "[256]", "{}", "\u{1}"] {
        let error = parse::<Vec<u8>>(input.as_bytes()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{input}");
    }
    assert_eq!(encode(&[1, 2]).unwrap(), b"[1,2]");
    let error = encode(&BTreeMap::from([([1, 2], 3)])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Internal);
}
