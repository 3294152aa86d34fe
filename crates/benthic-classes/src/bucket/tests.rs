use super::codec::Id;
use super::keys;
use super::state::{Attributes, Segment};
use super::wire::{Condition, VersionRef};
use benthic_core::codec::{Malformed, Wire};
use bytes::Bytes;

#[test]
fn values_survive_encoding_and_decoding() {
    fn check<T: Wire + PartialEq + std::fmt::Debug>(value: T) {
        let bytes = value.encode();
        assert_eq!(T::decode(&bytes).as_ref(), Ok(&value));
        assert_eq!(T::decode(&[&bytes[..], &[0]].concat()), Err(Malformed), "trailing bytes are refused");
        for len in 0..bytes.len() {
            assert_eq!(T::decode(&bytes[..len]), Err(Malformed), "a truncated value is refused");
        }
    }
    check(Condition::Matches("tag".into()));
    check(Some(VersionRef::Seq(7)));
    check(vec![Segment { write: Id([3; 16]), len_bytes: 9, chunk_bytes: 4 }]);
    check(Attributes::from([("a".into(), Bytes::from("1")), ("b".into(), Bytes::new())]));
    assert_eq!(bool::decode(&[2]), Err(Malformed));
    assert_eq!(Condition::decode(&[9]), Err(Malformed));
    // A false count must not allocate memory.
    assert_eq!(Vec::<u64>::decode(&[0xff; 12]), Err(Malformed));
    // Each map has only one encoding.
    let pair = |name: &str| [&[1, 0, 0, 0], name.as_bytes(), &[0; 4]].concat();
    let twice = [&[2, 0, 0, 0][..], &pair("a"), &pair("a")].concat();
    assert_eq!(Attributes::decode(&twice), Err(Malformed));
}

#[test]
fn an_id_has_one_spelling() {
    let id = Id([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0xa, 0xb, 0xc, 0xd, 0xe, 0xf]);
    let text = "000102030405060708090a0b0c0d0e0f";
    assert_eq!(id.to_string(), text);
    assert_eq!(text.parse(), Ok(id));
    for other in ["", "0", &text[1..], &text.to_uppercase(), "+00102030405060708090a0b0c0d0e0f"] {
        assert_eq!(other.parse::<Id>(), Err(Malformed), "{other}");
    }
}

#[test]
fn omap_keys_are_in_the_order_of_the_objects_keys() {
    let mut names =
        ["a", "a\0", "a\0\0", "a\0b", "a\u{1}", "ab", "b", "\0", "\u{10ffff}", "é", "~", "a/", "a/b", "a0"];
    names.sort_unstable();
    for pair in names.windows(2) {
        assert!(keys::current(pair[0]) < keys::current(pair[1]), "{pair:?}");
        // All versions of a key come before those of the next key, the newest first.
        assert!(keys::older(pair[0], 1) < keys::older(pair[1], u64::MAX), "{pair:?}");
        assert!(keys::older(pair[0], 2) < keys::older(pair[0], 1));
    }
    for name in names {
        assert_eq!(keys::unescape(&keys::current(name)[1..]).unwrap(), (name.to_owned(), &[][..]));
        let older = keys::older(name, 5);
        let (unescaped, suffix) = keys::unescape(&older[1..]).unwrap();
        assert_eq!((unescaped.as_str(), keys::seq_of(suffix)), (name, Some(5)));
        // `after_prefix` is after all keys with the prefix and before the next key.
        let behind = keys::after_prefix(keys::CURRENT, "a");
        assert_eq!(keys::current(name) > behind, name > "a" && !name.starts_with('a'), "{name:?}");
    }
}
