use super::{Chunks, errno, parse_info, parse_meta_context};
use proptest::prelude::{any, proptest};

#[test]
fn false_lengths_are_refused() {
    let name = |len: u32| [&len.to_be_bytes()[..], b"ab"].concat();
    assert_eq!(parse_info(&[name(2), vec![0, 1, 0, 3]].concat()), Some(("ab", vec![3])));
    assert_eq!(parse_info(&[name(2), vec![0, 2, 0, 3]].concat()), None);
    assert_eq!(parse_info(&[name(2), vec![0, 0, 0]].concat()), None);
    assert_eq!(parse_info(&name(3)), None);
    assert_eq!(parse_info(&name(u32::MAX)), None);
    let queries = [name(2), vec![0, 0, 0, 1], name(2)].concat();
    assert_eq!(parse_meta_context(&queries), Some(("ab", vec!["ab"])));
    assert_eq!(parse_meta_context(&[name(2), vec![255; 4]].concat()), None);
}

proptest! {
    #[test]
    fn no_message_panics(data in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = (parse_info(&data), parse_meta_context(&data));
    }
}

#[test]
fn long_messages_are_cut_between_characters() {
    let chunks = Chunks { extended: false, cookie: 1, request_offset_bytes: 0 };
    let chunk = chunks.error(errno::EIO, &"€".repeat(1000));
    assert!(std::str::from_utf8(&chunk[26..]).is_ok());
}
