//! put, get, ls, stat and rm.

use crate::support::{Home, failed, json_lines, keys, pattern, printed, tree};
use serde_json::json;
use std::fs::{self, File};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};

const MIB: u64 = 1024 * 1024;

#[test]
fn stored_bytes_are_read_back() {
    let home = Home::with_pool();
    for (name, size_bytes) in [("empty", 0), ("one", 1), ("odd", 100_003), ("ranges", 9 * 1024 * 1024 + 1)] {
        let content = pattern(size_bytes);
        home.file(name, &content);
        assert_eq!(home.ok(&["put", &format!("p/{name}"), name]), "");
        home.ok(&["get", &format!("p/{name}"), "back"]);
        assert!(home.read("back") == content, "{name}");
        assert!(home.run(&["get", &format!("p/{name}"), "-"]).stdout == content, "{name}");
    }
    printed(&home.pipe(&["put", "p:ns/from stdin", "-"], b"piped"), &["put"]);
    assert_eq!(home.ok(&["get", "p:ns/from stdin", "-"]), "piped");
    home.fails(3, &["get", "p/from stdin", "-"]);
}

#[test]
fn a_put_replaces_the_data_and_keeps_the_attributes() {
    let home = Home::with_pool();
    home.file("long", pattern(70_000));
    home.file("short", "short");
    home.ok(&["put", "p/o", "long"]);
    home.ok(&["xattr", "set", "p/o", "colour", "black"]);
    home.ok(&["put", "p/o", "short"]);
    assert_eq!(home.ok(&["get", "p/o", "-"]), "short");
    assert_eq!(home.ok(&["xattr", "get", "p/o", "colour"]), "black");
}

#[test]
fn the_largest_object_fits_and_one_byte_more_stores_nothing() {
    let home = Home::with_pool();
    let file = File::create(home.path("big")).unwrap();
    file.set_len(128 * MIB).unwrap();
    home.ok(&["put", "p/big", "big"]);
    assert_eq!(home.json(&["stat", "p/big"])[0]["size_bytes"], 128 * MIB);
    assert_eq!(home.ok(&["exec", "p/big", "digest", "md5"]), "fde9e0818281836e4fc0edfede2b8762\n");
    home.ok(&["get", "p/big", "back"]);
    let back = home.read("back");
    assert!(back.len() as u64 == 128 * MIB && back.iter().all(|byte| *byte == 0));

    file.set_len(128 * MIB + 1).unwrap();
    let stderr = home.fails(11, &["put", "p/more", "big"]);
    assert!(stderr.contains("128 MiB"), "{stderr}");
    failed(&home.pipe(&["put", "p/more", "-"], &home.read("big")), 11);
    assert_eq!(home.ok(&["ls", "p"]), "big\n");
    home.fails_with("limit_exceeded", &["put", "p/big", "big"]);
    assert_eq!(home.json(&["stat", "p/big"])[0]["size_bytes"], 128 * MIB);
}

#[test]
fn names_end_at_their_limits() {
    let home = Home::with_pool();
    home.file("f", "x");
    home.ok(&["put", &format!("p/{}", "n".repeat(2048)), "f"]);
    home.ok(&["put", &format!("p:{}/o", "n".repeat(256)), "f"]);
    for (kind, object) in [
        ("limit_exceeded", format!("p/{}", "n".repeat(2049))),
        ("limit_exceeded", format!("p:{}/o", "n".repeat(257))),
        ("invalid_argument", "p/".to_owned()),
        ("invalid_argument", "/o".to_owned()),
        ("invalid_argument", "p".to_owned()),
    ] {
        home.fails_with(kind, &["put", &object, "f"]);
        home.fails_with(kind, &["stat", &object]);
    }
    // Object names are data, never file paths.
    for name in ["..", "a/../b", "//", "-x", "\n", "é"] {
        home.ok(&["put", &format!("p/{name}"), "f"]);
        assert_eq!(home.json(&["stat", &format!("p/{name}")])[0]["object"], name);
    }
}

#[test]
fn a_file_is_replaced_whole_or_not_at_all() {
    let home = Home::with_pool();
    home.file("f", "new");
    home.ok(&["put", "p/o", "f"]);
    home.file("out/target", "old and longer");
    assert!(home.fails(3, &["get", "p/missing", "out/target"]).contains("p/missing"));
    assert_eq!(home.read("out/target"), b"old and longer");
    home.fails(3, &["get", "p/missing", "out/new"]);
    home.ok(&["get", "p/o", "out/target"]);
    assert_eq!(home.read("out/target"), b"new");
    assert_eq!(tree(&home.path("out")), ["target"]);
    let created_by_others = fs::metadata(home.path("f")).unwrap().permissions().mode();
    assert_eq!(fs::metadata(home.path("out/target")).unwrap().permissions().mode(), created_by_others);

    symlink("target", home.path("out/link")).unwrap();
    home.ok(&["get", "p/o", "out/link"]);
    assert!(home.path("out/link").is_symlink());
    home.ok(&["get", "p/o", "/dev/null"]);
    assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    assert!(home.fails(6, &["get", "p/o", "out"]).contains("directory"));
    assert!(
        home.fails(3, &["get", "p/o", "no/such/dir"]).contains("directory; create it first path=no/such\n")
    );
    assert!(home.fails(6, &["put", "p/o", "out"]).contains("benthic cp -r"));
    home.fails(3, &["put", "p/o", "no-such-file"]);
}

#[test]
fn a_listing_obeys_its_options() {
    let home = Home::with_pool();
    home.file("f", "four");
    for object in ["p/a", "p/b/1", "p/b/2", "p:ns/c", "p/line\nend"] {
        home.ok(&["put", object, "f"]);
    }
    let lines = |args: &[&str]| -> Vec<String> {
        let mut lines: Vec<String> = home.ok(args).lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(lines(&["ls", "p"]), ["a", "b/1", "b/2", "line\\nend"]);
    assert_eq!(lines(&["ls", "p", "--prefix", "b/"]), ["b/1", "b/2"]);
    assert_eq!(lines(&["ls", "p:ns"]), ["c"]);
    assert_eq!(lines(&["ls", "p", "--all-namespaces"]), ["p/a", "p/b/1", "p/b/2", "p/line\\nend", "p:ns/c"]);
    let long = home.ok(&["ls", "-l", "p:ns"]);
    let fields: Vec<&str> = long.split_whitespace().collect();
    assert_eq!((fields[0], fields[2]), ("4", "c"));
    assert!(fields[1].starts_with("20") && fields[1].ends_with('Z'), "{long}");
    assert_eq!(home.json(&["ls", "p:ns"]), [json!({"pool": "p", "namespace": "ns", "object": "c"})]);
    let long = &home.json(&["ls", "--long", "p:ns"])[0];
    assert_eq!(keys(long), ["modified_unix_ns", "namespace", "object", "pool", "size_bytes"]);
    assert!(home.json(&["ls", "p"]).iter().any(|line| line["object"] == "line\nend"));
    assert!(home.fails(6, &["ls", "p/a"]).contains("benthic ls p --prefix a`"));
    assert!(home.fails(6, &["ls", "p/"]).contains("`benthic ls p`"));
    home.fails(2, &["ls", "p:ns", "--all-namespaces"]);
}

#[test]
fn a_long_listing_has_every_object_once() {
    let home = Home::with_pool();
    for index in 0..300 {
        home.file(&format!("many/{index:03}"), "");
    }
    home.ok(&["cp", "-r", "many", "p"]);
    let mut names: Vec<String> = home.ok(&["ls", "p"]).lines().map(str::to_owned).collect();
    names.sort();
    assert_eq!(names, (0..300).map(|index| format!("{index:03}")).collect::<Vec<_>>());
}

#[test]
fn stat_shows_size_time_and_version() {
    let home = Home::with_pool();
    home.file("f", "four");
    home.ok(&["put", "p/o", "f"]);
    let first = home.json(&["stat", "p/o"]).remove(0);
    assert_eq!(keys(&first), ["modified_unix_ns", "namespace", "object", "pool", "size_bytes", "version"]);
    let written_s = first["modified_unix_ns"].as_i64().unwrap() / 1_000_000_000;
    assert!((written_s - fs::metadata(home.path("f")).unwrap().mtime()).abs() < 100);
    home.ok(&["put", "p/o", "f"]);
    let second = home.json(&["stat", "p/o"]).remove(0);
    assert!(second["version"].as_u64() > first["version"].as_u64());
    assert!(home.ok(&["stat", "p/o"]).starts_with("p/o 4 B size_bytes=4 modified=20"));
    let error = home.fails_with("not_found", &["stat", "p/missing"]);
    assert_eq!(error["context"]["object"], "p/missing");
    assert_eq!(home.fails(3, &["stat", "p/missing"]), "benthic: no such object object=p/missing\n");
    assert!(home.fails(6, &["stat", "p"]).contains("`benthic ls p`"));
    assert!(home.fails(6, &["put", "p", "f"]).contains("`benthic put p/NAME f`"));
    assert!(home.fails(6, &["rm", "p"]).contains("`benthic pool rm p`"));
}

#[test]
fn rm_removes_existing_objects_and_reports_missing_ones() {
    let home = Home::with_pool();
    home.file("f", "");
    for object in ["p/a", "p/b", "p/c"] {
        home.ok(&["put", object, "f"]);
    }
    home.fails(3, &["rm", "p/missing"]);
    home.fails(6, &["rm", "p/a", "typo"]);
    assert_eq!(home.ok(&["ls", "p"]).lines().count(), 3, "a typing error removes nothing");
    let stderr = home.fails(1, &["rm", "p/a", "p/missing", "p/b"]);
    assert!(
        stderr.contains("benthic: p/missing: no such object\n") && stderr.contains("1 of 3 failed"),
        "{stderr}"
    );
    assert_eq!(home.ok(&["ls", "p"]), "c\n");
    let run = home.run(&["--json", "rm", "p/c", "p/missing"]);
    assert_eq!(json_lines(&run.stdout), [json!({"pool": "p", "namespace": "", "object": "c"})]);
    let errors = json_lines(&run.stderr);
    assert_eq!(
        (&errors[0]["error"]["kind"], &errors[0]["error"]["subject"]),
        (&json!("not_found"), &json!("p/missing"))
    );
    assert_eq!(errors[1]["error"]["kind"], "some_failed");
}
