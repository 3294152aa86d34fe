//! cp from objects to files.

use crate::support::{Home, pattern, tree};
use std::fs;

#[test]
fn a_directory_survives_a_round_trip() {
    let home = Home::with_pool();
    for (name, size_bytes) in [("a", 0), ("sub/b", 100_000), ("sub/deep/c", 9_000_000), ("sub/ü", 1)] {
        home.file(&format!("d/{name}"), pattern(size_bytes));
    }
    home.ok(&["cp", "-r", "d", "p:ns/x"]);
    for source in ["p:ns/x", "p:ns/x/"] {
        assert!(home.ok(&["cp", "-r", source, "back"]).contains("failed 0"));
        assert_eq!(tree(&home.path("back")), tree(&home.path("d")));
    }
    for name in tree(&home.path("d")) {
        assert!(home.read(&format!("d/{name}")) == home.read(&format!("back/{name}")), "{name}");
        let time =
            |root: &str| fs::metadata(home.path(&format!("{root}/{name}"))).unwrap().modified().unwrap();
        assert_eq!(time("d"), time("back"), "{name}");
    }
    assert!(home.ok(&["cp", "-r", "p:ns/x", "back"]).starts_with("copied 0 (0 B), unchanged 4"));
    home.file("back/a", "longer");
    fs::remove_file(home.path("back/sub/b")).unwrap();
    assert!(home.ok(&["cp", "-r", "p:ns/x", "back"]).starts_with("copied 2"));
}

#[test]
fn one_object_goes_to_a_name_or_into_a_directory() {
    let home = Home::with_pool();
    home.file("f", "x");
    home.ok(&["put", "p/dir/o", "f"]);
    home.ok(&["cp", "p/dir/o", "name"]);
    home.ok(&["cp", "p/dir/o", "new/"]);
    fs::create_dir(home.path("there")).unwrap();
    home.ok(&["cp", "p/dir/o", "there"]);
    for path in ["name", "new/o", "there/o"] {
        assert_eq!(home.read(path), b"x", "{path}");
    }
    // An object that was not copied from a file gives the copy its own time, so the next run
    // recognises it.
    assert!(home.ok(&["cp", "p/dir/o", "name"]).starts_with("copied 0"));
    // A local file has the same path, so the address needs the form `p:/`.
    home.file("p/dir/o", "a file");
    home.ok(&["cp", "p:/dir/o", "name"]);
    assert_eq!(home.read("name"), b"x");
}

#[test]
fn no_object_is_written_outside_the_destination() {
    let home = Home::with_pool();
    home.file("f", "x");
    for name in ["../evil", "/abs", "a//b", "a/./b", "good/..", "fine"] {
        home.ok(&["put", &format!("p/{name}"), "f"]);
    }
    let stderr = home.fails(1, &["cp", "-r", "p/", "back"]);
    assert!(stderr.contains("5 of 6 failed") && stderr.contains("p/../evil: "), "{stderr}");
    assert_eq!(tree(&home.path("back")), ["fine"]);
    assert!(!home.path("evil").exists());
}

#[test]
fn a_download_ignores_a_stale_source_record() {
    let home = Home::with_pool();
    home.file("f", "aaaa");
    home.ok(&["cp", "f", "p/f"]);
    let note = home.ok(&["xattr", "get", "p/f", "benthic.source"]);
    home.file("g", "bbbb");
    home.ok(&["put", "p/f", "g"]);
    // A writer that ignores the note may leave a stale one.
    home.ok(&["xattr", "set", "p/f", "benthic.source", &note]);
    home.ok(&["cp", "p/f", "back"]);
    assert_eq!(home.read("back"), b"bbbb");
}

#[test]
fn missing_objects_fail() {
    let home = Home::with_pool();
    home.file("f", "x");
    home.ok(&["put", "p/o", "f"]);
    assert!(home.fails(1, &["cp", "p/missing", "h"]).contains("p/missing: "));
    assert!(home.fails(1, &["cp", "-r", "p/none", "h"]).contains("no objects here"));
    assert!(!home.path("h").exists());
    // A file is in the place of a directory.
    assert!(home.fails(1, &["cp", "-r", "p/", "f"]).contains("p/o: "));
    assert_eq!(home.read("f"), b"x");
}
