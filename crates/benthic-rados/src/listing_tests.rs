use super::{ListToken, Position};

#[test]
fn tokens_read_back_and_others_are_refused() {
    let positions = [
        Position { hash: 0, last: None },
        Position { hash: u32::MAX, last: Some((b"".to_vec(), b"a".to_vec())) },
        Position { hash: 7, last: Some((b"ns".to_vec(), b"n/\xff".to_vec())) },
    ];
    for position in positions {
        assert_eq!(Position::decode(&position.encode()).unwrap(), position);
    }
    for bad in
        [&b""[..], b"rados1", b"rados1abc", b"rados1\0\0\0\0x", b"rados1\0\0\0\0x\0", b"rados2\0\0\0\0"]
    {
        assert!(Position::decode(&ListToken(bad.to_vec().into())).is_err(), "{bad:?}");
    }
}
