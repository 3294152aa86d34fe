use super::{decode, encode};
use benthic_block::Limits;
use benthic_core::ErrorKind;

#[test]
fn limits_are_stored_as_text() {
    let some = Limits { read_ops_per_s: Some(500), burst_s: Some(3), ..Limits::default() };
    assert_eq!(encode(&some), "read_ops_per_s=500 burst_s=3");
    let all = Limits {
        read_ops_per_s: Some(1),
        read_bytes_per_s: Some(2),
        write_ops_per_s: Some(3),
        write_bytes_per_s: Some(4),
        burst_s: Some(5),
    };
    for limits in [Limits::default(), some, all] {
        assert_eq!(decode(&encode(&limits)).unwrap(), limits);
    }
}

#[test]
fn damaged_text_is_refused() {
    let long = format!("burst_s={}", u64::MAX);
    for text in ["x", "x=1", "burst_s", "burst_s=", "burst_s=-1", "burst_s=0", "burst_s=1 burst_s=1", &long] {
        assert_eq!(decode(text).unwrap_err().kind(), ErrorKind::Corrupt, "{text}");
    }
}
