use super::parse;
use crate::Limits;
use crate::limits::{BURST_S_MAX, RATE_MAX};
use benthic_core::ErrorKind;
use benthic_core::codec::Wire;
use proptest::prelude::{any, proptest};

fn limits() -> Limits {
    Limits { read_ops_per_s: Some(RATE_MAX), burst_s: Some(BURST_S_MAX), ..Limits::default() }
}

#[test]
fn limits_are_stored_and_read_back() {
    for limits in [limits(), Limits { write_bytes_per_s: Some(1), ..Limits::default() }] {
        assert_eq!(parse(&limits.encode()).unwrap(), limits);
    }
}

#[test]
fn impossible_limits_are_corrupt() {
    let bad = [
        Limits { read_ops_per_s: Some(0), ..limits() }.encode().to_vec(),
        Limits { write_bytes_per_s: Some(RATE_MAX + 1), ..limits() }.encode().to_vec(),
        Limits { burst_s: Some(BURST_S_MAX + 1), ..limits() }.encode().to_vec(),
        [&[2], &limits().encode()[1..]].concat(),
        [&limits().encode()[..], &[0]].concat(),
        Vec::new(),
    ];
    for bytes in bad {
        assert_eq!(parse(&bytes).unwrap_err().kind(), ErrorKind::Corrupt, "{bytes:?}");
    }
}

proptest! {
    #[test]
    fn damaged_limits_are_refused_or_sound(at in 0_usize..30, value: u8, tail in any::<[u8; 3]>()) {
        let mut bytes = limits().encode().to_vec();
        let at = at % bytes.len();
        bytes[at] = value;
        for bytes in [&bytes[..], &bytes[..at], &[&bytes[..], &tail].concat()] {
            if let Ok(limits) = parse(bytes) {
                limits.check().unwrap();
            }
        }
    }
}
