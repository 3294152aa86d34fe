//! cp from files to objects.

use crate::support::{Home, json_lines, keys, pattern, tree};
use serde_json::json;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::time::{Duration, SystemTime};

fn statuses(home: &Home, args: &[&str]) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = home
        .json(args)
        .iter()
        .map(|line| {
            (line["object"].as_str().unwrap().to_owned(), line["status"].as_str().unwrap().to_owned())
        })
        .collect();
    found.sort();
    found
}

#[test]
fn a_second_copy_of_a_directory_changes_nothing() {
    let home = Home::with_pool();
    home.file("d/a", "");
    home.file("d/sub/b", pattern(100_000));
    home.file("d/sub/ü c", pattern(5_000));
    assert!(home.ok(&["cp", "-r", "d", "p/x"]).starts_with("copied 3 (102.5 KiB), unchanged 0"));
    assert_eq!(home.run(&["get", "p/x/sub/b", "-"]).stdout, pattern(100_000));
    let source: serde_json::Value =
        serde_json::from_str(&home.ok(&["xattr", "get", "p/x/sub/b", "benthic.source"])).unwrap();
    assert_eq!(keys(&source), ["modified_unix_ns", "size_bytes", "xxh3"]);
    assert_eq!(source["size_bytes"], 100_000);
    assert_eq!(source["xxh3"], home.ok(&["exec", "p/x/sub/b", "digest", "compute", "xxh3"]).trim_end());

    assert!(home.ok(&["cp", "-r", "d", "p/x"]).starts_with("copied 0 (0 B), unchanged 3"));
    // A new modification time causes a copy, except with `--checksum`.
    let touched = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    File::options().write(true).open(home.path("d/a")).unwrap().set_modified(touched).unwrap();
    let unchanged = |name: &str| (format!("x/{name}"), "unchanged".to_owned());
    assert_eq!(
        statuses(&home, &["cp", "-r", "--checksum", "d", "p/x"]),
        [unchanged("a"), unchanged("sub/b"), unchanged("sub/ü c")]
    );
    assert_eq!(
        statuses(&home, &["cp", "-r", "d", "p/x"]),
        [("x/a".to_owned(), "copied".to_owned()), unchanged("sub/b"), unchanged("sub/ü c")]
    );
}

#[test]
fn an_object_that_another_client_wrote_is_copied_again() {
    let home = Home::with_pool();
    home.file("f", "aaaa");
    home.file("g", "bbbb");
    home.ok(&["cp", "f", "p/f"]);
    home.ok(&["put", "p/f", "g"]);
    assert_eq!(statuses(&home, &["cp", "f", "p/f"]), [("f".to_owned(), "copied".to_owned())]);
    assert_eq!(home.ok(&["get", "p/f", "-"]), "aaaa");
    // If size and time are equal, only `--checksum` detects the new content.
    let time = fs::metadata(home.path("f")).unwrap().modified().unwrap();
    home.file("f", "cccc");
    File::options().write(true).open(home.path("f")).unwrap().set_modified(time).unwrap();
    assert_eq!(statuses(&home, &["cp", "f", "p/f"]), [("f".to_owned(), "unchanged".to_owned())]);
    assert_eq!(statuses(&home, &["cp", "--checksum", "f", "p/f"]), [("f".to_owned(), "copied".to_owned())]);
}

#[test]
fn a_line_of_json_names_file_and_object() {
    let home = Home::with_pool();
    home.file("f", "four");
    assert_eq!(
        home.json(&["cp", "f", "p:ns/dir/"]),
        [json!({
            "pool": "p",
            "namespace": "ns",
            "object": "dir/f",
            "path": "f",
            "size_bytes": 4,
            "status": "copied",
        })]
    );
}

#[test]
fn large_files_are_copied_in_several_operations() {
    let home = Home::with_pool();
    let mib = 1024 * 1024;
    for (name, size_bytes) in [("at", 64 * mib), ("above", 64 * mib + 1), ("most", 128 * mib)] {
        File::create(home.path(name)).unwrap().set_len(size_bytes).unwrap();
        home.ok(&["cp", name, "p/"]);
        assert_eq!(home.json(&["stat", &format!("p/{name}")])[0]["size_bytes"], size_bytes);
        assert_eq!(statuses(&home, &["cp", name, "p/"]), [(name.to_owned(), "unchanged".to_owned())]);
    }
}

#[test]
fn failed_files_are_reported_and_the_others_are_copied() {
    let home = Home::with_pool();
    home.file("d/good", "x");
    home.file("d/long", "x");
    fs::write(home.path("d").join(std::ffi::OsStr::from_bytes(b"bad\xff")), "x").unwrap();
    File::create(home.path("d/huge")).unwrap().set_len(128 * 1024 * 1024 + 1).unwrap();
    let run = home.run(&["--json", "cp", "-r", "d", "p"]);
    assert_eq!(run.status.code(), Some(1));
    assert_eq!(json_lines(&run.stdout).len(), 2);
    let errors = json_lines(&run.stderr);
    let kinds: Vec<&str> = errors.iter().map(|line| line["error"]["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["invalid_argument", "limit_exceeded", "some_failed"]);
    assert!(errors[0]["error"]["subject"].as_str().unwrap().ends_with("bad\u{fffd}"));
    assert!(home.fails(1, &["cp", "-r", "d", "p"]).contains("d/huge: "));
    let prefix = "n".repeat(2045);
    assert!(home.fails(1, &["cp", "d/good", "d/long", &format!("p/{prefix}/")]).contains("too long"));
}

#[test]
fn skipped_files_are_counted_and_listed_only_on_request() {
    let home = Home::with_pool();
    home.file("d/f", "x");
    for index in 0..5 {
        symlink(".", home.path(&format!("d/link{index}"))).unwrap();
    }
    let stderr = String::from_utf8(home.run(&["cp", "-r", "d", "p"]).stderr).unwrap();
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.contains("path=d/link0, and 4 more; -v lists them"), "{stderr}");
    let stderr = String::from_utf8(home.run(&["-v", "cp", "-r", "d", "p"]).stderr).unwrap();
    assert!(stderr.contains("d/link4"), "{stderr}");
}

#[test]
fn contradictory_copies_are_refused() {
    let home = Home::with_pool();
    home.file("d/f", "x");
    home.file("g", "x");
    for args in [
        &["cp", "g", "d/f", "p/name"][..],
        &["cp", "g", "p:/o", "p/"],
        &["cp", "g", "./h"],
        &["cp", "p/", "h"],
        &["cp", "--create-pool", "p/o", "h"],
        &["cp", "g"],
    ] {
        home.fails(2, args);
    }
    home.ok(&["put", "p/o", "g"]);
    fs::create_dir(home.path("p")).unwrap();
    for (args, parts) in [
        (["cp", "p/o", "p/new"], ["\"p\" is both", "p:/new", "./p/new"]),
        (["cp", "p/o", "p"], ["\"p\" is both", "POOL:/OBJECT", "./p"]),
        (["cp", "d/f", "./h"], ["\"d/f\" is a file here", "d:/f", "./d/f"]),
    ] {
        let stderr = home.fails(2, &args);
        assert!(parts.iter().all(|part| stderr.contains(part)), "{stderr}");
    }
    assert_eq!((tree(&home.path("p")).len(), home.ok(&["ls", "p"]).as_str()), (0, "o\n"));
    home.ok(&["cp", "p/o", "./p/new"]);
    assert_eq!(home.read("p/new"), b"x");
    home.ok(&["rm", "p/o"]);
    assert!(home.fails(1, &["cp", "d", "p/"]).contains("-r"));
    assert!(home.fails(3, &["cp", "d/f", "other/o"]).contains("POOL:/OBJECT"));
    assert!(home.fails(3, &["cp", "no-such-thing/x", "h"]).contains("no such file either"));
    assert_eq!(home.ok(&["ls", "p"]), "");
    assert_eq!(home.ok(&["pool", "ls"]), "p\n");
    home.ok(&["cp", "--create-pool", "g", "made/"]);
    assert_eq!(home.ok(&["pool", "ls"]), "made\np\n");
    assert_eq!(tree(&home.path("d")), ["f"]);
}
