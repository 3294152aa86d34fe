//! `cp --stripe` and the other commands for striped objects.

use crate::support::{Home, json_lines, pattern};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::process::{Child, Stdio};

const KIB: usize = 1024;
const UNIT: usize = 64 * KIB;

/// Three pieces per set, two units per piece.
const TURNS: [&str; 4] = ["--object-size=128KiB", "--stripe-unit=64KiB", "--stripe-count=3", "--stripe"];
/// One unit per piece.
const SMALL: [&str; 2] = ["--object-size=64KiB", "--stripe"];

fn cp(home: &Home, options: &[&str], words: &[&str]) -> Value {
    home.json(&[&["cp"], options, words].concat()).remove(0)
}

fn names(home: &Home) -> Vec<String> {
    let mut names: Vec<String> = home.ok(&["ls", "p"]).lines().map(str::to_owned).collect();
    names.sort();
    names
}

#[test]
fn files_of_sizes_around_every_border_come_back() {
    let home = Home::with_pool();
    let set = 6 * UNIT;
    let around = |size: usize| [size - 1, size, size + 1];
    let borders = [UNIT, 2 * UNIT, 3 * UNIT, 4 * UNIT, set, set + UNIT, 2 * set].map(around);
    for size in [0, 1].into_iter().chain(borders.into_iter().flatten()) {
        let data = pattern(size);
        home.file("f", &data);
        let stored = cp(&home, &TURNS, &["f", "p/f"]);
        // Every full set has three pieces. The last set has one per unit, at most three.
        let pieces = (size / set * 3 + (size % set).div_ceil(UNIT).min(3)).max(1);
        assert_eq!((&stored["pieces"], &stored["size_bytes"]), (&json!(pieces), &json!(size)), "size {size}");
        assert_eq!(names(&home).len(), pieces, "size {size}");
        let fetched = cp(&home, &["--stripe"], &["p/f", "./back"]);
        assert_eq!(
            (&fetched["checked"], &fetched["pieces"]),
            (&json!("digest"), &json!(pieces)),
            "size {size}"
        );
        assert!(home.read("back") == data, "size {size}");
        let stat = home.json(&["stat", "--stripe", "p/f"]).remove(0);
        assert_eq!((&stat["size_bytes"], &stat["pieces"]), (&json!(size), &json!(pieces)));
    }
}

#[test]
fn the_layout_is_that_of_libradosstriper() {
    let home = Home::with_pool();
    let data = pattern(8 * UNIT + 5);
    home.file("f", &data);
    cp(&home, &TURNS, &["f", "p/d/f"]);
    let unit = |index: usize| &data[index * UNIT..data.len().min((index + 1) * UNIT)];
    let piece = |number: usize| home.run(&["get", &format!("p/d/f.{number:016x}"), "-"]).stdout;
    assert!(piece(0) == [unit(0), unit(3)].concat());
    assert!(piece(1) == [unit(1), unit(4)].concat());
    assert!(piece(2) == [unit(2), unit(5)].concat());
    assert!(piece(3) == unit(6) && piece(4) == unit(7) && piece(5) == unit(8));
    let attribute = |name: &str| home.ok(&["xattr", "get", "p/d/f.0000000000000000", name]);
    assert_eq!(attribute("striper.size"), data.len().to_string());
    assert_eq!(attribute("striper.layout.object_size"), "131072");
    assert_eq!(attribute("striper.layout.stripe_unit"), "65536");
    assert_eq!(attribute("striper.layout.stripe_count"), "3");
    assert_eq!(home.ok(&["ls", "--stripe", "p"]), "d/f\n");
    assert!(home.ok(&["ls", "--stripe", "--long", "p"]).contains(&format!("{} ", data.len())));
}

#[test]
fn only_what_changed_is_copied_again() {
    let home = Home::with_pool();
    let mut data = pattern(10 * UNIT);
    home.file("f", &data);
    assert_eq!(cp(&home, &SMALL, &["f", "p/"])["status"], "copied");
    assert_eq!(cp(&home, &SMALL, &["f", "p/"])["status"], "unchanged");
    let again = cp(&home, &[&SMALL[..], &["--checksum"]].concat(), &["f", "p/"]);
    assert_eq!((&again["status"], &again["pieces_kept"]), (&json!("unchanged"), &json!(10)));
    data[3 * UNIT] ^= 1;
    data.truncate(6 * UNIT);
    home.file("f", &data);
    let changed = cp(&home, &SMALL, &["f", "p/"]);
    assert_eq!((&changed["pieces"], &changed["pieces_kept"]), (&json!(6), &json!(5)));
    assert_eq!(names(&home).len(), 6, "what the longer file had more is gone");
    cp(&home, &["--stripe"], &["p/f", "./back"]);
    assert!(home.read("back") == data);
    assert_eq!(cp(&home, &["--stripe"], &["p/f", "./back"])["status"], "unchanged");
    assert_eq!(cp(&home, &["--stripe", "--checksum"], &["p/f", "./back"])["status"], "unchanged");
}

/// Kills a copy after some of its pieces were written.
fn killed_copy(home: &Home) {
    let args = [&["cp", "--jobs=1"], &SMALL[..], &["f", "p/f"]].concat();
    let mut copy: Child = home.command(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while !home.run(&["stat", "p/f.0000000000000008"]).status.success() {
        assert!(copy.try_wait().unwrap().is_none(), "it runs");
    }
    copy.kill().unwrap();
    copy.wait().unwrap();
}

#[test]
fn a_killed_copy_is_invisible_and_can_continue() {
    let home = Home::with_pool();
    let data = pattern(1500 * UNIT);
    home.file("f", &data);
    killed_copy(&home);
    let error = home.fails_with("not_found", &["cp", "--stripe", "p/f", "./back"]);
    assert!(error["message"].as_str().unwrap().contains("incomplete"), "{error}");
    assert!(!home.path("back").exists());
    home.fails_with("not_found", &["stat", "--stripe", "p/f"]);
    assert!(home.ok(&["ls", "--stripe", "--long", "p"]).contains("incomplete"));
    let stored = cp(&home, &SMALL, &["f", "p/f"]);
    let kept = stored["pieces_kept"].as_u64().unwrap();
    assert!((8..1500).contains(&kept), "{stored}");
    cp(&home, &["--stripe"], &["p/f", "./back"]);
    assert!(home.read("back") == data);
}

#[test]
fn the_remains_of_a_killed_copy_can_be_removed() {
    let home = Home::with_pool();
    home.file("f", pattern(1500 * UNIT));
    killed_copy(&home);
    home.ok(&["rm", "--stripe", "p/f"]);
    assert_eq!(names(&home), [""; 0]);
    home.fails_with("not_found", &["rm", "--stripe", "p/f"]);
}

#[test]
fn a_killed_download_can_continue() {
    let home = Home::with_pool();
    let data = pattern(5 * UNIT + 9);
    home.file("f", &data);
    cp(&home, &SMALL, &["f", "p/f"]);
    let mut part = data.clone();
    part[2 * UNIT..3 * UNIT].fill(0);
    home.file(".back.benthic-part", &part);
    let fetched = cp(&home, &["--stripe"], &["p/f", "./back"]);
    assert_eq!(fetched["pieces_kept"], 5);
    assert!(home.read("back") == data && !home.path(".back.benthic-part").exists());
    let modified = |name: &str| fs::metadata(home.path(name)).unwrap().modified().unwrap();
    assert_eq!(modified("back"), modified("f"));
}

#[test]
fn concurrent_downloads_to_one_file_are_refused() {
    let home = Home::with_pool();
    home.file("f", pattern(3 * UNIT));
    cp(&home, &SMALL, &["f", "p/f"]);
    home.file(".back.benthic-part", "theirs");
    let theirs = File::open(home.path(".back.benthic-part")).unwrap();
    theirs.lock().unwrap();
    let error = home.fails_with("busy", &["cp", "--stripe", "p/f", "./back"]);
    assert!(error["message"].as_str().unwrap().contains("another copy to this file is running"), "{error}");
    assert!(!home.path("back").exists() && home.read(".back.benthic-part") == b"theirs");
    drop(theirs);
    cp(&home, &["--stripe"], &["p/f", "./back"]);
    assert!(home.read("back") == home.read("f"));
}

#[test]
fn damaged_pieces_are_named() {
    let home = Home::with_pool();
    let data = pattern(4 * UNIT);
    home.file("f", &data);
    home.file("other", pattern(UNIT + 1).split_off(1));
    cp(&home, &SMALL, &["f", "p/f"]);
    home.ok(&["put", "p/f.0000000000000002", "other"]);
    let error = home.fails_with("corrupt", &["cp", "--stripe", "p/f", "./back"]);
    assert!(error["context"]["object"].as_str().unwrap().ends_with(".0000000000000002"), "{error}");
    assert!(!home.path("back").exists());
    home.fails_with("corrupt", &["cp", "--stripe", "p/f", "p/copy"]);
    home.fails_with("not_found", &["stat", "--stripe", "p/copy"]);
    // Copying the same file repairs the object: pieces whose digest differs are copied again.
    let healed = cp(&home, &[&SMALL[..], &["--checksum"]].concat(), &["f", "p/f"]);
    assert_eq!(healed["pieces_kept"], 3);
    assert_eq!(cp(&home, &["--stripe"], &["p/f", "./back"])["checked"], "digest");
    assert!(home.read("back") == data);

    home.ok(&["rm", "p/f.0000000000000001"]);
    let error = home.fails_with("corrupt", &["cp", "--stripe", "p/f", "./gap"]);
    assert!(error["message"].as_str().unwrap().contains("missing or too short"), "{error}");
    assert_eq!(cp(&home, &["--stripe", "--no-check"], &["p/f", "./gap"])["checked"], "no");
    let gap = [&data[..UNIT], &vec![0; UNIT], &data[2 * UNIT..]].concat();
    assert!(home.read("gap") == gap);
}

/// Creates a striped object as `rados --striper put` does.
fn of_another_program(home: &Home, name: &str, pieces: &[&[u8]]) {
    let size: usize = pieces.iter().map(|piece| piece.len()).sum();
    for (number, piece) in pieces.iter().enumerate() {
        home.file("piece", piece);
        home.ok(&["put", &format!("p/{name}.{number:016x}"), "piece"]);
    }
    let values = [("layout.object_size", UNIT), ("layout.stripe_unit", UNIT), ("layout.stripe_count", 1)];
    for (attribute, value) in values.into_iter().chain([("size", size)]) {
        let first = format!("p/{name}.0000000000000000");
        home.ok(&["xattr", "set", &first, &format!("striper.{attribute}"), &value.to_string()]);
    }
}

#[test]
fn objects_of_another_program_have_no_checksum() {
    let home = Home::with_pool();
    let data = pattern(2 * UNIT + 3);
    of_another_program(&home, "f", &[&data[..UNIT], &data[UNIT..2 * UNIT], &data[2 * UNIT..]]);
    let run = home.run(&["--json", "cp", "--stripe", "p/f", "./back"]);
    assert_eq!(json_lines(&run.stdout)[0]["checked"], "lengths");
    assert!(String::from_utf8(run.stderr).unwrap().contains("no checksum"));
    assert!(home.read("back") == data);
    // A copy of it gets a checksum of the data that was read.
    assert_eq!(cp(&home, &["--stripe"], &["p/f", "p/copy"])["checked"], "lengths");
    assert_eq!(cp(&home, &["--stripe"], &["p/copy", "./again"])["size_bytes"], data.len());
    assert!(home.read("again") == data);

    of_another_program(&home, "short", &[&data[..UNIT], &data[..3], &data[..3]]);
    home.ok(&["xattr", "set", "p/short.0000000000000000", "striper.size", &(2 * UNIT).to_string()]);
    home.fails_with("corrupt", &["cp", "--stripe", "p/short", "./short"]);
    home.ok(&["xattr", "set", "p/short.0000000000000000", "striper.layout.stripe_unit", "0"]);
    home.fails_with("corrupt", &["cp", "--stripe", "p/short", "./short"]);
    home.ok(&["xattr", "set", "p/short.0000000000000000", "striper.size", "many"]);
    home.fails_with("corrupt", &["stat", "--stripe", "p/short"]);
    home.ok(&["rm", "--stripe", "p/short"]);
    assert!(names(&home).iter().all(|name| !name.starts_with("short")));
}

#[test]
fn objects_of_something_else_are_left_alone() {
    let home = Home::with_pool();
    home.file("data", pattern(UNIT));
    File::create(home.path("empty")).unwrap();
    for (name, first) in [("rbd_data.1", "data"), ("rbd_data.2", "empty")] {
        home.ok(&["put", &format!("p/{name}.0000000000000000"), first]);
        home.ok(&["put", &format!("p/{name}.0000000000000001"), "data"]);
        let before = home.json(&["stat", &format!("p/{name}.0000000000000000")]);
        let address = format!("p/{name}");
        for args in [&["rm", "--stripe", &address][..], &["cp", "--stripe", "data", &address]] {
            let error = home.fails_with("invalid_argument", args);
            assert!(error["message"].as_str().unwrap().contains("another program's object"), "{error}");
        }
        let after = home.json(&["stat", &format!("p/{name}.0000000000000000")]);
        assert_eq!(before, after, "not even a lock");
    }
    home.ok(&["put", "p/rbd_data.3.0000000000000001", "data"]);
    home.fails_with("not_found", &["rm", "--stripe", "p/rbd_data.3"]);
    // An image can have gaps, so the program checks every name that a copy would use.
    home.file("two", pattern(2 * UNIT));
    let copy = [&["cp"], &SMALL[..], &["two", "p/rbd_data.3"]].concat();
    let error = home.fails_with("invalid_argument", &copy);
    assert!(error["context"]["object"].as_str().unwrap().ends_with(".0000000000000001"), "{error}");
    assert_eq!(names(&home).len(), 5);
    cp(&home, &SMALL, &["two", "p/two"]);
    home.fails_with("invalid_argument", &["cp", "--stripe", "p/two", "p/rbd_data.3"]);
    home.ok(&["rm", "--stripe", "p/two"]);
    assert_eq!(names(&home).len(), 5);
    let error = home.fails_with("not_found", &["stat", "--stripe", "p/rbd_data.1"]);
    assert!(!error["message"].as_str().unwrap().contains("rm --stripe"), "{error}");
    assert!(home.fails_with("not_found", &["rm", "p/rbd_data.1"])["context"]["hint"].is_null());
    assert!(!home.ok(&["ls", "--stripe", "--long", "p"]).contains("incomplete"));

    // A program that was killed after it took the lock leaves an empty object.
    home.ok(&["put", "p/f.0000000000000000", "empty"]);
    home.ok(&["rm", "--stripe", "p/f"]);
    assert_eq!(names(&home).len(), 5);
}

#[test]
fn damaged_heads_are_listed_among_the_others() {
    let home = Home::with_pool();
    home.file("f", pattern(UNIT));
    for name in ["a", "b", "c"] {
        cp(&home, &SMALL, &["f", &format!("p/{name}")]);
    }
    home.ok(&["xattr", "set", "p/b.0000000000000000", "striper.layout.stripe_unit", "1"]);
    let mut listed = home.json(&["ls", "--stripe", "--long", "p"]);
    listed.sort_by_key(|row| row["object"].to_string());
    let states: Vec<_> = listed.iter().map(|row| (&row["object"], &row["state"])).collect();
    let (a, b, c) = (json!("a"), json!("b"), json!("c"));
    assert_eq!(states, [(&a, &Value::Null), (&b, &json!("damaged")), (&c, &Value::Null)]);
    assert!(home.ok(&["ls", "--stripe", "--long", "p"]).contains("damaged"));
    let error = home.fails_with("corrupt", &["stat", "--stripe", "p/b"]);
    assert!(error["message"].as_str().unwrap().contains("benthic rm --stripe"), "{error}");
    home.ok(&["rm", "--stripe", "p/b"]);
    assert_eq!(names(&home).len(), 2);
}

#[test]
fn the_time_of_the_file_is_kept_only_with_its_content() {
    let home = Home::with_pool();
    home.file("f", pattern(3 * UNIT));
    home.file("other", pattern(UNIT + 1).split_off(1));
    cp(&home, &SMALL, &["f", "p/f"]);
    home.ok(&["put", "p/f.0000000000000001", "other"]);
    assert_eq!(cp(&home, &["--stripe", "--no-check"], &["p/f", "./back"])["checked"], "no");
    let modified = |name: &str| fs::metadata(home.path(name)).unwrap().modified().unwrap();
    assert_ne!(modified("back"), modified("f"));
    assert_eq!(cp(&home, &["--stripe", "--no-check"], &["p/f", "p/copy"])["checked"], "no");
    assert!(home.json(&["stat", "--stripe", "p/copy"])[0]["xxh3"].is_null());
    // The repaired source has a new checksum, so the copies made before do not count as current.
    cp(&home, &[&SMALL[..], &["--checksum"]].concat(), &["f", "p/f"]);
    assert_eq!(cp(&home, &["--stripe"], &["p/f", "./back"])["status"], "copied");
    assert_eq!(cp(&home, &["--stripe"], &["p/f", "p/copy"])["status"], "copied");
    assert_eq!(modified("back"), modified("f"));
}

#[test]
fn copies_between_pools_and_stores_keep_the_layout() {
    let home = Home::with_pool();
    let data = pattern(7 * UNIT + 1);
    home.file("f", &data);
    cp(&home, &TURNS, &["f", "p/f"]);
    home.ok(&["pool", "create", "q"]);
    let layout =
        |args: &[&str]| home.json(&[args, &["stat", "--stripe", "q/f"]].concat()).remove(0)["layout"].clone();
    assert_eq!(cp(&home, &["--stripe"], &["p/f", "q/"])["checked"], "digest");
    assert_eq!(layout(&[])["stripe_count"], 3);
    assert_eq!(cp(&home, &["--stripe"], &["p/f", "q/f"])["status"], "unchanged");
    cp(&home, &["--stripe", "--create-pool", "--to-store=file:other"], &["p/f", "q/f"]);
    assert_eq!(layout(&["--store=file:other"]), layout(&[]));
    home.ok(&["--store=file:other", "cp", "--stripe", "q/f", "./back"]);
    assert!(home.read("back") == data);
    let modified = |name: &str| fs::metadata(home.path(name)).unwrap().modified().unwrap();
    assert_eq!(modified("back"), modified("f"), "the time of the file goes along");
}

#[test]
fn other_lock_holders_are_respected() {
    let home = Home::with_pool();
    home.file("f", pattern(3 * UNIT));
    home.file("g", pattern(UNIT));
    cp(&home, &SMALL, &["f", "p/f"]);
    let held = |mode: &str| {
        format!(r#"{{"name":"striper.lock","owner":"ada","cookie":"1","mode":"{mode}","lease_ms":600000}}"#)
    };
    let first = "p/f.0000000000000000";
    home.ok(&["exec", first, "lock", "acquire", &held("shared")]);
    cp(&home, &["--stripe", "--lock-wait=0"], &["p/f", "./back"]);
    assert!(home.read("back") == home.read("f"));
    home.fails_with("busy", &["cp", "--stripe", "--lock-wait=0", "g", "p/f"]);
    home.fails_with("busy", &["rm", "--stripe", "--lock-wait=0", "p/f"]);
    home.ok(&["exec", first, "lock", "release", r#"{"name":"striper.lock","owner":"ada","cookie":"1"}"#]);
    home.ok(&["exec", first, "lock", "acquire", &held("exclusive")]);
    home.fails_with("busy", &["cp", "--stripe", "--lock-wait=0", "p/f", "./again"]);
    assert!(!home.path("again").exists());
    assert_eq!(home.json(&["stat", "--stripe", "p/f"])[0]["size_bytes"], 3 * UNIT, "nothing was done");
    home.ok(&["exec", first, "lock", "break", r#"{"name":"striper.lock","owner":"ada"}"#]);
    home.ok(&["rm", "--stripe", "--lock-wait=0", "p/f"]);
    assert_eq!(names(&home), [""; 0]);
}

#[test]
fn contradictory_stripe_options_are_refused() {
    let home = Home::with_pool();
    home.file("f", "x");
    home.file("g", "x");
    for args in [
        &["cp", "--stripe-unit=64KiB", "f", "p/f"][..],
        &["cp", "--stripe", "-r", "f", "p/f"],
        &["cp", "--stripe", "f", "g", "p/"],
        &["cp", "--stripe", "f", "./g"],
        &["cp", "--stripe", "--to-store=file:x", "f", "p/f"],
        &["cp", "--stripe", "--to-store=file:x", "p/f", "./f"],
        &["cp", "--stripe", "--stripe-count=2", "p/f", "./back"],
        &["cp", "--stripe", "--create-pool", "p/f", "./back"],
        &["cp", "--stripe", "p/f", "p/f"],
        &["cp", "--stripe", "--to-store=file:./benthic-data", "p/f", "p/f"],
        &["cp", "--stripe", "p/", "./back"],
        &["cp", "--stripe", "--object-size=huge", "f", "p/f"],
        &["rm", "--lock-wait=1", "p/f"],
    ] {
        home.fails(2, args);
    }
    let long = format!("p/{}", "n".repeat(2040));
    for (kind, args) in [
        ("invalid_argument", &["--stripe-unit=1000", "f", "p/f"][..]),
        ("invalid_argument", &["--object-size=0", "f", "p/f"][..]),
        ("invalid_argument", &["--object-size=64KiB", "--stripe-unit=128KiB", "f", "p/f"][..]),
        ("invalid_argument", &["--stripe-count=0", "f", "p/f"][..]),
        ("limit_exceeded", &["--object-size=64MiB", "f", "p/f"][..]),
        ("limit_exceeded", &["f", &long][..]),
        ("invalid_argument", &[".", "p/f"][..]),
        ("not_found", &["./missing", "p/f"][..]),
        ("not_found", &["p/missing", "./back"][..]),
        ("not_found", &["f", "nowhere/f"][..]),
        ("permission_denied", &["f", "p:benthic.tables/f"][..]),
    ] {
        home.fails_with(kind, &[&["cp", "--stripe"], args].concat());
    }
    assert_eq!(home.ok(&["ls", "--all-namespaces", "--hidden", "p"]), "");
    assert!(!home.path("back").exists() && !home.path("x").exists());
}

#[test]
fn single_object_commands_suggest_stripe() {
    let home = Home::with_pool();
    File::create(home.path("huge")).unwrap().set_len(128 * 1024 * 1024 + 1).unwrap();
    assert!(home.fails(1, &["cp", "huge", "p/huge"]).contains("cp --stripe"));
    assert_eq!(cp(&home, &["--stripe"], &["huge", "p/huge"])["pieces"], 33);
    for (args, hint) in [
        (&["stat", "p/huge"][..], "benthic stat --stripe"),
        (&["rm", "p/huge"][..], "benthic rm --stripe"),
        (&["get", "p/huge", "out"][..], "benthic cp --stripe"),
    ] {
        assert!(home.fails_with("not_found", args)["context"]["hint"].as_str().unwrap().contains(hint));
    }
    home.ok(&["rm", "--stripe", "p/huge"]);
    assert_eq!(names(&home), [""; 0]);
}
