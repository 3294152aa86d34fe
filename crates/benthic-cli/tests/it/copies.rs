//! cp and mv from objects to objects.

use crate::support::{Home, Running, failed, pattern, printed};
use benthic_testkit::mounts::{mounted, skipped};
use serde_json::{Value, json};
use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

const MIB: u64 = 1024 * 1024;

/// A pool with `p/a`, which has data, attributes and keys, and `p/d/b` and `p/d/e/c`.
fn home() -> Home {
    let home = Home::with_pool();
    home.file("f", pattern(100_000));
    for object in ["p/a", "p/d/b", "p/d/e/c"] {
        home.ok(&["put", object, "f"]);
        home.ok(&["xattr", "set", object, "colour", "black"]);
        home.ok(&["omap", "set", object, "key", "value"]);
    }
    home
}

/// Data, attributes and keys of an object, without the record of the copy.
fn whole(home: &Home, store: &str, object: &str) -> (Vec<u8>, Vec<Value>, Vec<Value>) {
    let run = |words: &[&str]| home.run(&[&["--store", store, "--json"], words].concat());
    let lines = |words: &[&str], name: &str| -> Vec<Value> {
        let lines = String::from_utf8(run(words).stdout).unwrap();
        let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines
            .map(|line| json!([line[name], line["value"]]))
            .filter(|line| line[0] != "benthic.copied")
            .collect()
    };
    let data = run(&["cat", object]);
    assert!(data.status.success(), "{object}");
    (data.stdout, lines(&["xattr", "ls", object], "name"), lines(&["omap", "ls", object], "key"))
}

const HERE: &str = "file:benthic-data";

fn same(home: &Home, object: &str, store: &str, copy: &str) {
    assert!(whole(home, HERE, object) == whole(home, store, copy), "{object} {copy}");
}

fn names(home: &Home, pool: &str) -> Vec<String> {
    let mut names: Vec<String> = home.ok(&["ls", pool]).lines().map(str::to_owned).collect();
    names.sort();
    names
}

#[test]
fn an_object_goes_to_a_name_a_prefix_or_another_pool() {
    let home = home();
    home.ok(&["pool", "create", "q"]);
    for (to, copy) in [("p/x", "p/x"), ("p/x/", "p/x/a"), ("q", "q/a"), ("q:ns/", "q:ns/a"), ("q:/y", "q/y")]
    {
        assert!(home.ok(&["cp", "p/a", to]).starts_with("copied 1 (97.7 KiB), unchanged 0"), "{to}");
        same(&home, "p/a", HERE, copy);
        assert!(home.ok(&["cp", "p/a", to]).starts_with("copied 0 (0 B), unchanged 1"), "{to}");
    }
    assert!(home.ok(&["cp", "p/a", "p/d/b", "q/both/"]).starts_with("copied 2"));
    assert_eq!(
        home.json(&["cp", "p/a", "q:ns/z"]),
        [json!({
            "pool": "q",
            "namespace": "ns",
            "object": "z",
            "from": "p/a",
            "size_bytes": 100_000,
            "status": "copied",
        })]
    );
}

#[test]
fn all_objects_below_a_prefix_are_copied() {
    let home = home();
    let stderr = home.fails(2, &["cp", "-r", "p/d", "q/new", "--create-pool"]);
    assert!(stderr.contains("q:/new is always an object"), "a file, because no pool has this name: {stderr}");
    home.ok(&["cp", "-r", "p/d", "q:/new", "--create-pool"]);
    assert_eq!(names(&home, "q"), ["new/b", "new/e/c"]);
    same(&home, "p/d/e/c", HERE, "q/new/e/c");
    home.ok(&["cp", "-r", "p", "q:all"]);
    assert_eq!(names(&home, "q:all"), ["a", "d/b", "d/e/c"]);
    assert!(home.ok(&["cp", "-r", "p", "q:all"]).starts_with("copied 0 (0 B), unchanged 3"));
}

#[test]
fn a_copy_replaces_all_of_the_target_and_notices_every_change() {
    let home = home();
    home.file("g", pattern(100_000).split_off(1));
    home.ok(&["put", "p/x", "g"]);
    home.ok(&["xattr", "set", "p/x", "old", "1"]);
    home.ok(&["omap", "set", "p/x", "old", "1"]);
    home.ok(&["cp", "p/a", "p/x"]);
    same(&home, "p/a", HERE, "p/x");
    for change in [
        &["xattr", "set", "p/a", "colour", "white"][..],
        &["xattr", "set", "p/x", "colour", "red"],
        &["xattr", "rm", "p/x", "colour"],
        &["omap", "set", "p/a", "more", "1"],
        &["omap", "set", "p/x", "key", "other"],
        &["put", "p/a", "g"],
        &["put", "p/x", "f"],
    ] {
        home.ok(change);
        assert!(home.ok(&["cp", "p/a", "p/x"]).starts_with("copied 1"), "{change:?}");
        same(&home, "p/a", HERE, "p/x");
    }
    // Only `--checksum` finds out that objects without a common history are equal.
    home.ok(&["xattr", "rm", "p/x", "benthic.copied"]);
    assert!(home.ok(&["cp", "--checksum", "p/a", "p/x"]).starts_with("copied 0 (0 B), unchanged 1"));
    assert!(home.ok(&["cp", "p/a", "p/x"]).starts_with("copied 1"));
}

#[test]
fn objects_go_to_another_store() {
    let home = home();
    home.ok(&["--store", "file:other", "pool", "create", "p"]);
    home.ok(&["cp", "-r", "p/d", "p/d", "--to-store", "file:other"]);
    same(&home, "p/d/e/c", "file:other", "p/d/e/c");
    assert!(home.ok(&["cp", "-r", "p/d", "p/d", "--to-store", "file:other"]).starts_with("copied 0"));
    home.ok(&["mv", "p/a", "new/moved", "--to-store", "file:made", "--create-pool"]);
    assert_eq!(whole(&home, "file:made", "new/moved"), whole(&home, HERE, "p/d/b"));
    home.fails(3, &["stat", "p/a"]);
    home.fails(2, &["cp", "f", "p/f", "--to-store", "file:other"]);
    home.fails(2, &["cp", "p/d/b", "./f", "--to-store", "file:other"]);
}

#[test]
fn the_largest_object_is_copied_and_moved() {
    let home = Home::with_pool();
    File::create(home.path("big")).unwrap().set_len(128 * MIB).unwrap();
    home.ok(&["put", "p/big", "big"]);
    home.ok(&["omap", "set", "p/big", "key", "value"]);
    home.ok(&["cp", "p/big", "p/copy"]);
    home.ok(&["mv", "p/big", "p/moved"]);
    for object in ["p/copy", "p/moved"] {
        assert_eq!(home.json(&["stat", object])[0]["size_bytes"], 128 * MIB);
        assert_eq!(home.ok(&["omap", "get", object, "key"]), "value");
        assert_eq!(
            home.ok(&["exec", object, "digest", "compute", "md5"]),
            "fde9e0818281836e4fc0edfede2b8762\n"
        );
    }
    assert_eq!(names(&home, "p"), ["copy", "moved"]);
}

#[test]
fn moved_objects_are_at_the_target_only() {
    let home = home();
    let before = whole(&home, HERE, "p/a");
    assert!(home.ok(&["mv", "p/a", "p/x/"]).starts_with("moved 1 (97.7 KiB)"));
    assert!(whole(&home, HERE, "p/x/a") == before);
    assert!(home.ok(&["mv", "-r", "p/d", "p/y"]).starts_with("moved 2"));
    assert_eq!(names(&home, "p"), ["x/a", "y/b", "y/e/c"]);
    assert_eq!(home.json(&["mv", "p/x/a", "p/a"])[0]["status"], "moved");
    home.fails(1, &["mv", "p/missing", "p/z"]);
    // A move that was interrupted after its copy removes only the source.
    home.ok(&["cp", "p/a", "p/b"]);
    home.ok(&["mv", "p/a", "p/b"]);
    assert_eq!(names(&home, "p"), ["b", "y/b", "y/e/c"]);
    // The target was changed since: it gets the content of the source again.
    home.ok(&["cp", "p/b", "p/c"]);
    let mut other = pattern(100_000);
    other[0] ^= 1;
    home.file("g", &other);
    let record = home.ok(&["xattr", "get", "p/c", "benthic.copied"]);
    home.ok(&["put", "p/c", "g"]);
    home.ok(&["xattr", "set", "p/c", "benthic.copied", &record]);
    home.ok(&["mv", "p/b", "p/c"]);
    assert!(whole(&home, HERE, "p/c") == before);
}

#[test]
fn a_copy_onto_itself_changes_nothing() {
    let home = home();
    let before = home.json(&["stat", "p/a"]);
    for args in [
        &["cp", "p/a", "p/a"][..],
        &["cp", "p/a", "p"],
        &["mv", "p/a", "p/a"],
        &["mv", "p/a", "p:/a", "--to-store", "file:./benthic-data/../benthic-data"],
    ] {
        assert!(home.fails(1, args).contains("the same object"), "{args:?}");
    }
    for verb in ["cp", "mv", "mirror"] {
        let recursive: &[&str] = if verb == "mirror" { &[] } else { &["-r"] };
        for (from, to) in [("p/d", "p/d"), ("p/d", "p/d/e"), ("p/d/e", "p/d"), ("p", "p/d")] {
            let args = [&[verb], recursive, &[from, to]].concat();
            assert!(home.fails(2, &args).contains("overlap"), "{args:?}");
        }
    }
    assert_eq!(home.json(&["stat", "p/a"]), before);
    assert_eq!(names(&home, "p"), ["a", "d/b", "d/e/c"]);
    home.ok(&["mv", "-r", "p/d/e", "p:ns/d"]);
    assert_eq!(names(&home, "p:ns"), ["d/c"]);
}

#[test]
fn unclear_copies_and_moves_are_refused() {
    let home = home();
    for args in [
        &["mv", "./f", "p/f"][..],
        &["mv", "p/a", "./g"],
        &["mv", "p/a", "p/d/b", "p/name"],
        &["mv", "p/d/", "p/x"],
        &["cp", "p/a", "p/d/b", "p/name"],
        &["cp", "p/d/", "p/x"],
    ] {
        let stderr = home.fails(2, args);
        assert_eq!(stderr.lines().count(), 1, "{args:?}: {stderr}");
    }
    assert!(home.fails(1, &["cp", "p/d/b", "p/d/e/c", "p/none/x", "p/to/"]).contains("1 of 3 failed"));
    home.ok(&["put", "p/other/b", "f"]);
    let stderr = home.fails(1, &["cp", "p/d/b", "p/other/b", "p/twice/"]);
    assert!(stderr.contains("p/other/b: another source has the same name"), "{stderr}");
    assert!(home.fails(3, &["cp", "p/a", "nopool:/x"]).contains("no such pool"));
    assert_eq!(names(&home, "p"), ["a", "d/b", "d/e/c", "other/b", "to/b", "to/c", "twice/b"]);
}

#[test]
fn crossing_moves_leave_an_object() {
    let home = Home::with_pool();
    home.file("data", pattern(100 << 20));
    for _ in 0..3 {
        home.ok(&["put", "p/a", "data"]);
        home.ok(&["put", "p/b", "data"]);
        let moves = [["mv", "p/a", "p/b"], ["mv", "p/b", "p/a"]];
        let mut running = moves.map(|args| Running::start(home.command(&args)));
        for one in &mut running {
            one.ends_within(Duration::from_secs(60));
        }
        assert_ne!(home.ok(&["ls", "p"]), "");
    }
}

#[test]
fn a_store_is_recognised_through_another_mount() {
    let home = Home::with_pool();
    home.pipe(&["put", "p/a", "-"], b"data");
    std::fs::create_dir(home.path("mnt")).unwrap();
    let run = |args: &[&str]| {
        let mut command = mounted("mount --bind benthic-data mnt")?;
        let program = home.command(args);
        command.arg(program.get_program()).args(program.get_args()).current_dir(home.dir());
        Some(command.env_remove("BENTHIC_STORE").output().unwrap())
    };
    let Some(copied) = run(&["cp", "p/a", "p/a", "--to-store", "file:./mnt"]) else {
        return skipped("a_store_is_recognised_through_another_mount");
    };
    assert!(failed(&copied, 1).contains("source and destination are the same object"));
    for args in [
        &["mirror", "p/x", "p", "--remove", "--to-store", "file:./mnt"][..],
        &["mv", "-r", "p/x", "p/x/y", "--to-store", "file:./mnt"],
    ] {
        assert!(failed(&run(args).unwrap(), 2).contains("source and destination overlap"), "{args:?}");
    }
    assert_eq!(home.ok(&["get", "p/a", "-"]), "data");
}

#[test]
fn a_written_object_is_no_copy_any_more() {
    let home = Home::with_pool();
    home.pipe(&["put", "p/src", "-"], b"aaaa");
    home.ok(&["cp", "p/src", "p/dst"]);
    home.pipe(&["put", "p/dst", "-"], b"bbbb");
    assert!(home.ok(&["cp", "p/src", "p/dst"]).starts_with("copied 1 "));
    assert_eq!(home.ok(&["get", "p/dst", "-"]), "aaaa");
}

#[test]
fn a_move_refuses_what_would_lose_the_object() {
    let home = Home::with_pool();
    home.pipe(&["put", "p/a", "-"], b"data");
    assert!(home.fails(2, &["mv", "p/a", "p/a", "--to-store", "mem:", "--create-pool"]).contains("memory"));
    assert!(home.fails(2, &["cp", "p/a", ""]).contains("the destination is empty"));
    assert_eq!(home.ok(&["get", "p/a", "-"]), "data");
}

#[test]
fn a_file_keeps_its_permissions_and_an_unfinished_one_is_no_source() {
    let home = Home::with_pool();
    home.pipe(&["put", "p/a", "-"], b"data");
    let file = home.file("d/private", "old");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    home.ok(&["get", "p/a", "d/private"]);
    let mode = std::fs::metadata(&file).unwrap().permissions().mode() & 0o777;
    assert_eq!((home.read("d/private"), mode), (b"data".to_vec(), 0o600));
    home.file("d/.x1.benthic-part", "half");
    let run = home.run(&["cp", "-r", "d", "p/d"]);
    assert!(printed(&run, &[]).starts_with("copied 1 "), "{run:?}");
    assert!(String::from_utf8_lossy(&run.stderr).contains("a file of an unfinished copy"), "{run:?}");
}
