use super::{Case, finish, kind, put};
use benthic_core::ErrorKind;
use benthic_s3::sal::{ListKind, VersionId, Versioning, limits};
use futures::executor::block_on;

fn keys() -> Vec<String> {
    let mut keys: Vec<String> = [
        ".",
        "..",
        "../..",
        "/",
        "//",
        "/a",
        "a/",
        "a//b",
        "a/../b",
        "./a",
        " ",
        "a b",
        "%2e%2e",
        "a\\b",
        "a\nb",
        "\0",
        "a\0",
        "a\0b",
        "\u{7f}",
        "é",
        "e\u{301}",
        "\u{feff}",
        "日本",
        "\u{10ffff}",
        "😀",
        "null",
        "index",
        "b.0",
        "-",
    ]
    .map(str::to_owned)
    .to_vec();
    keys.push("k".repeat(limits::KEY_BYTES_MAX));
    keys.push("\0".repeat(limits::KEY_BYTES_MAX));
    keys.push("é".repeat(limits::KEY_BYTES_MAX / 2));
    keys
}

pub fn keys_are_data(case: &Case) {
    let bucket = case.bucket("b", Versioning::Enabled);
    let mut keys = keys();
    for key in &keys {
        case.put(&bucket, key, key.as_bytes());
        case.put(&bucket, key, format!("{key}!").as_bytes());
    }
    for key in &keys {
        assert_eq!(case.get(&bucket, key), format!("{key}!").as_bytes(), "{key:?}");
    }
    keys.sort();
    assert_eq!(case.names(&bucket, "", "", 7), keys);
    let twice: Vec<_> = keys.iter().flat_map(|key| [key.clone(), key.clone()]).collect();
    assert_eq!(super::names(&case.list_all(&bucket, ListKind::Versions, "", "", 5)), twice);
    for key in &keys {
        assert_eq!(case.names(&bucket, key, "", 100).first(), Some(key), "a key begins with itself");
        for version in case.versions(&bucket).into_iter().filter(|version| version.key == *key) {
            case.delete(&bucket, key, Some(version.version));
        }
        assert!(case.is_missing(&bucket, key, None));
    }
    assert_eq!(case.versions(&bucket), []);
    case.finish(&[&bucket]);
}

pub fn keys_of_uploads_are_data(case: &Case) {
    let bucket = case.bucket("b", Versioning::Enabled);
    for key in keys() {
        let upload = case.upload(&bucket, &key);
        block_on(case.sal.abort_upload(&bucket, &key, upload)).unwrap();
    }
    case.finish(&[&bucket]);
}

pub fn keys_have_limits(case: &Case) {
    let bucket = case.bucket("b", Versioning::Off);
    let long = "k".repeat(limits::KEY_BYTES_MAX + 1);
    for (key, wanted) in [("", ErrorKind::InvalidArgument), (&long, ErrorKind::LimitExceeded)] {
        let sal = case.sal.as_ref();
        assert_eq!(kind(put(sal, &bucket, key, b"1", finish(b"1"))), wanted);
        assert_eq!(kind(block_on(sal.object(&bucket, key, None))), wanted);
        assert_eq!(
            kind(block_on(sal.create_upload(&bucket, key, Default::default(), Default::default(), None))),
            wanted
        );
        let delete = benthic_s3::sal::Delete { key: key.into(), ..Default::default() };
        assert_eq!(kind(block_on(sal.delete(&bucket, &delete))), wanted);
    }
    for text in ["", "nul", "NULL", "1", "000000000000000g", "00000000000000001", "+000000000000001"] {
        assert_eq!(kind(text.parse::<VersionId>()), ErrorKind::InvalidArgument, "{text}");
    }
    for version in [VersionId::Null, VersionId::Seq(0), VersionId::Seq(u64::MAX)] {
        assert_eq!(version.to_string().parse::<VersionId>().unwrap(), version);
    }
    case.finish(&[&bucket]);
}
