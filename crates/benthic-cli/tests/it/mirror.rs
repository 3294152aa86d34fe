//! mirror.

use crate::support::{Home, Running, json_lines, tree};
use std::fs;
use std::time::Duration;

fn names(home: &Home, pool: &str) -> Vec<String> {
    let mut names: Vec<String> = home.ok(&["ls", pool]).lines().map(str::to_owned).collect();
    names.sort();
    names
}

/// The name and status in each line of JSON.
fn statuses(home: &Home, args: &[&str]) -> Vec<(String, String)> {
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let mut lines: Vec<(String, String)> =
        home.json(args).iter().map(|line| (text(&line["object"]), text(&line["status"]))).collect();
    lines.sort();
    lines
}

fn expect(lines: &[(&str, &str)]) -> Vec<(String, String)> {
    lines.iter().map(|(name, status)| ((*name).to_owned(), (*status).to_owned())).collect()
}

fn directory(home: &Home) {
    for (name, content) in [("a", "1"), ("sub/b", "22"), ("sub/deep/c", "333")] {
        home.file(&format!("d/{name}"), content);
    }
}

#[test]
fn a_directory_is_mirrored_to_a_prefix() {
    let home = Home::with_pool();
    directory(&home);
    home.file("f", "x");
    home.ok(&["put", "p/x/old", "f"]);
    home.ok(&["put", "p/x/sub/../a", "f"]);
    home.ok(&["put", "p/xy", "f"]);
    let dry = ["mirror", "d", "p/x", "--remove", "--dry-run"];
    let text = home.ok(&dry);
    assert!(text.contains("would copy p/x/a\n") && text.contains("would remove p/x/old\n"), "{text}");
    assert!(text.contains("would copy 3 (6 B), unchanged 0, skipped 0, would remove 2, failed 0"), "{text}");
    assert_eq!(names(&home, "p"), ["x/old", "x/sub/../a", "xy"], "a dry run changes nothing");
    assert_eq!(home.ok(&["mirror", "d", "p/x"]), "copied 3 (6 B), unchanged 0, skipped 0, failed 0\n");
    assert_eq!(names(&home, "p"), ["x/a", "x/old", "x/sub/../a", "x/sub/b", "x/sub/deep/c", "xy"]);
    fs::remove_file(home.path("d/a")).unwrap();
    home.file("d/sub/b", "changed");
    let changes = |copied: &str, removed: &str| {
        expect(&[
            ("x/a", removed),
            ("x/old", removed),
            ("x/sub/../a", removed),
            ("x/sub/b", copied),
            ("x/sub/deep/c", "unchanged"),
        ])
    };
    assert_eq!(statuses(&home, &dry), changes("would_copy", "would_remove"));
    assert_eq!(statuses(&home, &["mirror", "--remove", "d", "p/x"]), changes("copied", "removed"));
    assert_eq!(names(&home, "p"), ["x/sub/b", "x/sub/deep/c", "xy"]);
    assert_eq!(home.ok(&["cat", "p/x/sub/b"]), "changed");
}

#[test]
fn a_prefix_is_mirrored_to_a_directory() {
    let home = Home::with_pool();
    directory(&home);
    home.ok(&["cp", "-r", "d", "p:ns/x"]);
    home.ok(&["mirror", "p:ns/x", "back"]);
    assert_eq!(tree(&home.path("back")), tree(&home.path("d")));
    home.ok(&["rm", "p:ns/x/sub/b"]);
    home.file("back/extra/file", "x");
    home.file("back/a", "damaged");
    let text = home.ok(&["mirror", "p:ns/x", "back", "--remove", "--dry-run"]);
    assert!(text.contains("would copy p:ns/x/a\n") && text.contains("would remove back/sub/b\n"), "{text}");
    assert_eq!(home.read("back/a"), b"damaged");
    assert_eq!(
        home.ok(&["mirror", "p:ns/x", "back", "--remove"]),
        "copied 1 (1 B), unchanged 1, skipped 0, removed 2, failed 0\n"
    );
    assert_eq!(tree(&home.path("back")), ["a", "sub/deep/c"]);
    assert_eq!(home.read("back/a"), b"1");
    assert!(home.ok(&["mirror", "p:ns/x", "new", "--remove", "--dry-run"]).contains("would remove 0"));
    assert!(!home.path("new").exists());
}

#[test]
fn a_pool_is_mirrored_to_a_pool_of_another_store() {
    let home = Home::with_pool();
    directory(&home);
    home.ok(&["cp", "-r", "d", "p"]);
    home.ok(&["omap", "set", "p/a", "key", "1"]);
    let mirror = ["mirror", "p", "p", "--to-store", "file:other", "--create-pool", "--remove"];
    assert!(home.ok(&mirror).starts_with("copied 3"));
    let there = |words: &[&str]| home.ok(&[&["--store", "file:other"], words].concat());
    assert_eq!(there(&["omap", "get", "p/a", "key"]), "1");
    home.ok(&["omap", "set", "p/a", "key", "2"]);
    home.ok(&["mv", "p/sub/b", "p/moved"]);
    assert_eq!(
        statuses(&home, &mirror),
        expect(&[("a", "copied"), ("moved", "copied"), ("sub/b", "removed"), ("sub/deep/c", "unchanged")])
    );
    assert_eq!(there(&["omap", "get", "p/a", "key"]), "2");
    assert_eq!(there(&["find", "p"]).lines().count(), 3);
    assert!(home.ok(&mirror).starts_with("copied 0 (0 B), unchanged 3, skipped 0, removed 0, failed 0"));
    // The copy is a source as good as the original.
    home.ok(&["--store", "file:other", "mirror", "p", "./back"]);
    assert_eq!(tree(&home.path("back")), ["a", "moved", "sub/deep/c"]);
}

#[test]
fn nothing_is_removed_after_a_failure_or_for_an_empty_source() {
    let home = Home::with_pool();
    directory(&home);
    home.ok(&["cp", "-r", "d", "p/x"]);
    fs::remove_file(home.path("d/a")).unwrap();
    fs::File::create(home.path("d/huge")).unwrap().set_len(128 * 1024 * 1024 + 1).unwrap();
    assert!(home.fails(1, &["mirror", "d", "p/x", "--remove"]).contains("nothing was removed"));
    fs::create_dir(home.path("empty")).unwrap();
    assert!(home.fails(3, &["mirror", "empty", "p/x", "--remove"]).contains("the source is empty"));
    assert!(home.fails(1, &["mirror", "p/none", "p:ns", "--remove"]).contains("no objects here"));
    assert!(home.fails(1, &["mirror", "p/none", "./d", "--remove"]).contains("no objects here"));
    assert!(home.fails(1, &["mirror", "./none", "p/x", "--remove"]).contains("./none"));
    assert_eq!(names(&home, "p"), ["x/a", "x/sub/b", "x/sub/deep/c"]);
    assert!(home.path("d/sub/b").exists());
    home.fails(2, &["mirror", "d/sub/b", "p/x"]);
    home.fails(2, &["mirror", "d", "./other"]);
    home.fails(2, &["mirror", "d", "p/x", "--to-store", "file:other"]);
}

#[test]
fn the_store_is_never_a_source_or_target_of_its_own_copies() {
    let home = Home::with_pool();
    for name in ["a", "b"] {
        home.pipe(&["put", &format!("p/x/{name}"), "-"], name.as_bytes());
    }
    home.file("stray", "not in the source");
    assert!(home.ok(&["mirror", "p/x", ".", "--remove"]).contains("removed 1,"));
    assert_eq!((home.read("a"), home.path("stray").exists()), (b"a".to_vec(), false));
    assert_eq!(home.ok(&["ls", "p"]), "x/a\nx/b\n");
    // Nothing of the store is uploaded, and no object replaces a part of it.
    assert!(home.ok(&["cp", "-r", ".", "p/all"]).starts_with("copied 2 "));
    for directory in ["benthic-data", "benthic-data/kv"] {
        assert!(home.fails(1, &["cp", "-r", directory, "p/own"]).contains("a part of the store"));
        assert!(home.fails(1, &["mirror", "p/x", directory, "--remove"]).contains("a part of the store"));
    }
    home.pipe(&["put", "p/in/benthic-data/format", "-"], b"damage");
    home.pipe(&["put", "p/in/benthic-data/new/file", "-"], b"damage");
    let refused = home.fails(1, &["cp", "-r", "p/in", "."]);
    assert_eq!(refused.matches("this path is a part of the store").count(), 2, "{refused}");
    assert!(home.fails(6, &["get", "p/x/a", "benthic-data/format"]).contains("a part of the store"));
    assert!(home.ok(&["fsck"]).contains("0 findings"));
}

#[test]
fn a_source_that_disappears_removes_nothing() {
    let home = Home::with_pool();
    // There is much to remove, so that the command is still busy when the test interferes.
    let (files, others) = (1_000, 4_000);
    for index in 0..files {
        home.file(&format!("d/{index:04}"), "");
        home.file(&format!("more/{index:04}"), "");
    }
    for index in 0..others {
        home.file(&format!("more/only-{index:04}"), "");
    }
    // Acts when the first removal is reported. Returns the numbers of removals and of failures.
    let interfere = |args: &[&str], act: &dyn Fn()| {
        let mut command = Running::start(home.command(&[&["--json"], args].concat()));
        let lines = command.stdout.iter().map(|line| json_lines(line.as_bytes()).remove(0));
        let mut removed = 0;
        for _line in lines.filter(|line| line["status"] == "removed") {
            if removed == 0 {
                act();
            }
            removed += 1;
        }
        assert_eq!(command.ends_within(Duration::from_secs(60)).code(), Some(3), "{args:?}");
        removed
    };
    home.ok(&["cp", "-r", "more", "p/x"]);
    let removed = interfere(&["mirror", "d", "p/x", "--remove", "--jobs", "1"], &|| {
        std::fs::rename(home.path("d"), home.path("gone")).unwrap();
    });
    let left = home.ok(&["ls", "p", "--prefix", "x/"]).lines().count();
    assert!(left >= files, "{left} objects are left");
    assert_eq!(left, files + others - removed);

    home.ok(&["pool", "create", "q"]);
    home.ok(&["cp", "-r", "gone", "q"]);
    let removed = interfere(&["mirror", "q", "more", "--remove", "--jobs", "1"], &|| {
        home.ok(&["pool", "rm", "q", "--yes", "q"]);
    });
    let left = std::fs::read_dir(home.path("more")).unwrap().count();
    assert!(left >= files && left == files + others - removed, "{left} files are left");
}
