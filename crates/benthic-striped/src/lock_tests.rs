use super::{LEASE, Locks, Mode, is_held};
use std::time::Duration;

#[test]
fn calls_of_cephs_lock_class_are_in_cephs_encoding() {
    let call = Locks::Ceph.acquire(Mode::Shared, "c1", LEASE);
    let expected = [
        &[1, 1, 50, 0, 0, 0][..],
        b"\x0c\0\0\0striper.lock",
        &[2],
        b"\x02\0\0\0c1",
        b"\x03\0\0\0Tag",
        b"\x07\0\0\0benthic",
        &[20, 0, 0, 0, 0, 0, 0, 0],
        &[1],
    ]
    .concat();
    assert_eq!((call.class.as_str(), call.method.as_str()), ("ceph.lock", "lock"));
    assert_eq!(call.input[6..].len(), usize::from(call.input[2]));
    assert_eq!(call.input, expected);
    let renewal = Locks::Ceph.renew(Mode::Shared, "c1", LEASE);
    assert_eq!(renewal.method, "lock");
    assert_eq!(renewal.input[..expected.len() - 1], expected[..expected.len() - 1]);
    assert_eq!(renewal.input.last(), Some(&2), "only a lock that is held is renewed");
    let call = Locks::Ceph.release("c1");
    assert_eq!(call.method, "unlock");
    assert_eq!(call.input, [&[1, 1, 22, 0, 0, 0][..], b"\x0c\0\0\0striper.lock\x02\0\0\0c1"].concat());
}

#[test]
fn a_lock_is_held_until_the_lease_of_its_last_renewal_ends() {
    let renewed = Duration::from_secs(1);
    assert!(is_held(Some(renewed), renewed));
    assert!(is_held(Some(renewed), renewed + LEASE - Duration::from_millis(1)));
    assert!(!is_held(Some(renewed), renewed + LEASE));
    assert!(!is_held(None, renewed));
}
