//! Creating a class project and installing a library, as far as that works without Ceph.

use crate::support::{Home, printed, tree};
use std::fs;
use std::path::Path;
use std::process::Command;

const LIBRARY: &[u8] = b"\x7fELF....\0__cls_init\0....";

#[test]
fn a_new_class_is_a_project_that_names_this_source_tree() {
    let home = Home::bare();
    assert!(home.ok(&["class", "new", "my_digest"]).contains("my_digest/src/lib.rs"));
    let expected =
        [".gitignore", "Cargo.lock", "Cargo.toml", "Makefile", "README.md", "src/lib.rs", "src/tests.rs"];
    assert_eq!(tree(&home.path("my_digest")), expected);
    let manifest = String::from_utf8(home.read("my_digest/Cargo.toml")).unwrap();
    let root = fs::canonicalize(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).unwrap();
    assert!(
        manifest.contains(&format!("benthic-core = {{ path = \"{}/crates/benthic-core\" }}", root.display()))
    );
    let code = String::from_utf8(home.read("my_digest/src/lib.rs")).unwrap();
    assert!(code.contains("export!(\"my_digest_1\"") && code.contains("\"my_digest.sum\""), "{code}");
    for file in expected {
        let text = String::from_utf8(home.read(&format!("my_digest/{file}"))).unwrap();
        assert!(["{name}", "{tree}"].iter().all(|left| !text.contains(left)), "{file}");
    }
    // An existing empty directory is accepted.
    fs::create_dir(home.path("other")).unwrap();
    assert_eq!(home.json(&["class", "new", "other"])[0]["class"], "other");
}

#[test]
fn a_class_name_does_not_clash_with_identifiers_in_its_code() {
    let home = Home::bare();
    home.ok(&["class", "new", "class"]);
    // Reuses the workspace's build artifacts.
    let target = Path::new(env!("CARGO_BIN_EXE_benthic")).ancestors().nth(2).unwrap();
    let mut test = Command::new(env!("CARGO"));
    test.args(["test", "--release", "--target-dir"]).arg(target).current_dir(home.path("class"));
    assert!(printed(&test.output().unwrap(), &["cargo test"]).contains("3 passed"));
}

#[test]
fn an_invalid_class_name_creates_nothing() {
    let home = Home::bare();
    for (name, why) in [
        ("lock", "Ceph has"),
        ("digest", "Benthic has"),
        ("mine_1", "the version"),
        ("Mine", "lower-case"),
        ("../mine", "lower-case"),
        ("a-b", "lower-case"),
    ] {
        assert!(home.fails(6, &["class", "new", name]).contains(why), "{name}");
    }
    home.file("mine/notes.txt", "mine");
    home.fails_with("already_exists", &["class", "new", "mine"]);
    assert!(home.fails(6, &["class", "new", "yours", "--benthic", "mine"]).contains("source tree"));
    assert_eq!(tree(&home.path("")), ["mine/notes.txt"]);
}

#[test]
fn only_class_libraries_can_be_installed() {
    let home = Home::bare();
    home.file("libcls_mine_1.so", LIBRARY);
    home.file("libcls_lock.so", LIBRARY);
    home.file("libcls_text_1.so", "#!/bin/sh\n");
    fs::create_dir(home.path("classes")).unwrap();
    let install = |file| home.run(&["class", "install", file, "--class-dir", "classes"]);
    assert!(install("libcls_mine_1.so").status.success());
    assert_eq!(home.read("classes/libcls_mine_1.so"), LIBRARY);
    for file in ["libcls_lock.so", "libcls_text_1.so"] {
        assert_eq!(install(file).status.code(), Some(6), "{file}");
    }
    assert_eq!(install("libcls_none_1.so").status.code(), Some(3));
    assert_eq!(tree(&home.path("classes")), ["libcls_mine_1.so"]);
    assert!(home.fails(2, &["class", "install", "libcls_mine_1.so"]).contains("--cluster"));
    assert!(home.fails(3, &["class", "install", "--class-dir", "classes"]).contains("benthic class new"));
    let none = &["class", "install", "libcls_mine_1.so", "--cluster", "classes"];
    assert!(home.fails(3, none).contains("no cluster here"));
    home.ok(&["class", "new", "other"]);
    let mut unbuilt = home.command(&["class", "install", "--class-dir", "../classes"]);
    let unbuilt = unbuilt.current_dir(home.path("other")).output().unwrap();
    assert!(crate::support::failed(&unbuilt, 3).contains("run `make`"));
}

#[test]
fn print_without_a_cluster_shows_the_default_settings() {
    let home = Home::bare();
    home.file("libcls_mine_1.so", LIBRARY);
    let text = home.ok(&["class", "install", "--print", "libcls_mine_1.so"]);
    assert!(text.contains("osd_class_load_list 'cephfs hello journal lock"), "{text}");
    assert!(text.contains(" mine_1 mine_2'") && text.contains("rados-classes/libcls_mine_1.so"), "{text}");
    assert!(!text.contains('*'));
    assert!(!home.path("benthic-data").exists());
}

#[test]
fn the_embedded_engine_reports_that_it_loads_no_libraries() {
    let home = Home::with_pool();
    home.pipe(&["put", "p/o", "-"], b"data");
    assert!(home.fails(7, &["exec", "p/o", "mydigest", "sum"]).contains("in the OSDs of a Ceph cluster"));
    assert!(home.fails(7, &["class", "ls", "--library", "mydigest_1"]).contains("no Ceph cluster"));
    assert!(home.fails(7, &["class", "log"]).contains("no Ceph cluster"));
}
