use super::{instructions, library_in_manifest, next_version, with_names};
use std::path::Path;

#[test]
fn a_manifest_names_its_library() {
    let new = include_str!("template/manifest.toml");
    assert_eq!(library_in_manifest(new), Some("cls_{name}_1"));
    assert_eq!(library_in_manifest("[package]\nname = \"cls_x_1\"\n\n[dependencies]\n"), None);
    assert_eq!(library_in_manifest("[package]\n\n[lib]\nname = \"x\"\n"), None);
    assert_eq!(library_in_manifest(""), None);
}

#[test]
fn names_are_appended_once() {
    let names = &["mydigest_1", "mydigest_2"];
    assert_eq!(with_names("lock rbd", names).unwrap(), "lock rbd mydigest_1 mydigest_2");
    assert_eq!(with_names("", names).unwrap(), "mydigest_1 mydigest_2");
    assert_eq!(with_names("mydigest_2 mydigest_10", names).unwrap(), "mydigest_2 mydigest_10 mydigest_1");
    assert_eq!(with_names("lock mydigest_1 rbd", names), None);
    assert_eq!(with_names("*", names), None);
}

#[test]
fn instructions_quote_paths() {
    let text = instructions(Path::new("my lib/libcls_x_1.so"), "x_1", Path::new("/a b"), &[]);
    assert!(text.contains("scp 'my lib/libcls_x_1.so' HOST:'/a b/.libcls_x_1.so.new'\n"), "{text}");
    let rename = r"ssh HOST 'mv '\''/a b/.libcls_x_1.so.new'\'' '\''/a b/libcls_x_1.so'\'''";
    assert!(text.contains(rename), "{text}");
}

#[test]
fn the_next_version_has_the_next_number() {
    assert_eq!(next_version("mydigest_1"), "mydigest_2");
    assert_eq!(next_version("my_digest_9"), "my_digest_10");
    assert_eq!(next_version("mydigest"), "mydigest_2");
}
