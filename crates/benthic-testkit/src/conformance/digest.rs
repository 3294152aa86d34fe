//! The class `digest`, an example of a class that reads whole objects and stores a result.

use super::Case;
use super::support::{ObjectContent, kind, pattern};
use benthic_core::{ErrorKind, WriteOp};

/// Each algorithm with its digests of the empty input, of `abc`, and of 1 MiB + 1 bytes of
/// [`pattern`]: one more than the method reads at once.
const DIGESTS: [(&str, [&str; 3]); 6] = [
    (
        "md5",
        [
            "d41d8cd98f00b204e9800998ecf8427e",
            "900150983cd24fb0d6963f7d28e17f72",
            "79b67c7fbf43b76e5b7f182328bdc4b6",
        ],
    ),
    (
        "sha1",
        [
            "da39a3ee5e6b4b0d3255bfef95601890afd80709",
            "a9993e364706816aba3e25717850c26c9cd0d89d",
            "ffbc30b06f6bd51da52f9640804c9d0c4f6e2af2",
        ],
    ),
    (
        "sha256",
        [
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            "5769f52bc3eef28afa39c6fc68cadb7d0bd69812ae3a3d71452f519ec3c7aa56",
        ],
    ),
    ("crc32c", ["00000000", "364b3fb7", "760b5254"]),
    (
        "xxh3",
        [
            "99aa06d3014798d86001c324468d497f",
            "06b05ab6733a618578af5f94892f3950",
            "3db0e7620b0d635947a84c196fd973df",
        ],
    ),
    (
        "blake3",
        [
            "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262",
            "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85",
            "2f053cd7472cf0cd2f9adaf45c1180255b91b9a865404a63671a0ee5f792ed33",
        ],
    ),
];

pub(super) async fn digests_are_stored_and_computed(case: &Case<'_>) {
    let contents = [Vec::new(), b"abc".to_vec(), pattern(1024 * 1024 + 1)];
    for (index, data) in contents.into_iter().enumerate() {
        let object = case.object(&index.to_string());
        case.pool.write_full(&object, data).await.unwrap();
        for (algorithm, digests) in DIGESTS {
            let expected = digests[index];
            assert_eq!(case.exec(&object, "digest", algorithm, "").await.unwrap(), "", "{algorithm}");
            let stored = case.pool.get_xattr(&object, &format!("digest.{algorithm}")).await.unwrap();
            assert_eq!(stored, expected, "{algorithm}");
            let computed = case.exec(&object, "digest", "compute", algorithm).await.unwrap();
            assert_eq!(computed, expected, "{algorithm}");
            let verified = case.exec(&object, "digest", "verify", algorithm).await.unwrap();
            assert_eq!(verified, format!(r#"{{"{algorithm}":"{expected}"}}"#));
        }
    }
}

pub(super) async fn repetitions_give_the_same_digest(case: &Case<'_>) {
    let object = case.object("o");
    case.pool.write_full(&object, "abc").await.unwrap();
    let version = case.version(&object).await;
    let input = r#"{"algorithm":"md5","repeat":100}"#;
    assert_eq!(case.exec(&object, "digest", "compute", input).await.unwrap(), DIGESTS[0].1[1]);
    assert_eq!(case.version(&object).await, version, "compute stores nothing");
    case.exec(&object, "digest", "md5", r#"{"repeat":100}"#).await.unwrap();
    let expected = ObjectContent::data("abc").xattr("digest.md5", DIGESTS[0].1[1]);
    assert_eq!(case.state(&object).await, Some(expected));
}

pub(super) async fn a_digest_that_differs_is_corrupt(case: &Case<'_>) {
    let object = case.object("o");
    case.pool.write_full(&object, "abc").await.unwrap();
    assert_eq!(kind(case.exec(&object, "digest", "verify", "").await), ErrorKind::NotFound);
    case.exec(&object, "digest", "md5", "").await.unwrap();
    case.exec(&object, "digest", "crc32c", "").await.unwrap();
    case.exec(&object, "digest", "verify", "").await.unwrap();
    let op = WriteOp::new().set_xattr("digest.crc32c", "364b3fb8");
    case.pool.write(&object, op).await.unwrap();
    assert_eq!(kind(case.exec(&object, "digest", "verify", "").await), ErrorKind::Corrupt);
    case.exec(&object, "digest", "verify", "md5").await.unwrap();
    case.pool.write(&object, WriteOp::new().write(1, "B")).await.unwrap();
    assert_eq!(kind(case.exec(&object, "digest", "verify", "md5").await), ErrorKind::Corrupt);
}

pub(super) async fn a_digest_of_a_missing_object_is_not_found(case: &Case<'_>) {
    let object = case.object("o");
    for (algorithm, _) in DIGESTS {
        assert_eq!(
            kind(case.exec(&object, "digest", algorithm, "").await),
            ErrorKind::NotFound,
            "{algorithm}"
        );
        assert_eq!(kind(case.exec(&object, "digest", "compute", algorithm).await), ErrorKind::NotFound);
    }
    assert_eq!(case.state(&object).await, None);
}

pub(super) async fn bad_input_is_refused(case: &Case<'_>) {
    let object = case.make_full("o").await;
    for (method, input, expected) in [
        ("md5", "x", ErrorKind::InvalidArgument),
        ("md5", r#"{"repeat":0}"#, ErrorKind::InvalidArgument),
        ("md5", r#"{"repeat":100001}"#, ErrorKind::LimitExceeded),
        ("compute", "", ErrorKind::InvalidArgument),
        ("compute", "md4", ErrorKind::InvalidArgument),
        ("verify", "md4", ErrorKind::InvalidArgument),
    ] {
        assert_eq!(kind(case.exec(&object, "digest", method, input).await), expected, "{method} {input}");
    }
    assert_eq!(case.state(&object).await, Some(ObjectContent::full()));
}
