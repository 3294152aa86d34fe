//! Commands for attributes and omap.

use crate::support::{Home, printed};
use serde_json::json;

#[test]
fn attributes_are_set_read_listed_and_removed() {
    let home = Home::with_pool();
    home.ok(&["xattr", "set", "p/o", "colour", "black"]);
    printed(&home.pipe(&["xattr", "set", "p/o", "binary", "-"], b"\xff\n\0"), &["set"]);
    assert_eq!(home.ok(&["xattr", "get", "p/o", "colour"]), "black");
    assert_eq!(home.run(&["xattr", "get", "p/o", "binary"]).stdout, b"\xff\n\0");
    assert_eq!(home.ok(&["xattr", "ls", "p/o"]), "binary\t\\xff\\n\\x00\ncolour\tblack\n");
    let json = home.json(&["xattr", "ls", "p/o"]);
    assert_eq!((&json[0]["value_hex"], &json[1]["value"]), (&json!("ff0a00"), &json!("black")));
    assert_eq!(home.json(&["xattr", "get", "p/o", "colour"])[0]["value"], "black");
    home.ok(&["xattr", "rm", "p/o", "colour"]);
    home.ok(&["xattr", "rm", "p/o", "colour"]);
    assert!(home.fails(3, &["xattr", "get", "p/o", "colour"]).contains("colour"));
    for args in [&["xattr", "ls", "p/no"][..], &["xattr", "get", "p/no", "a"], &["xattr", "rm", "p/no", "a"]]
    {
        assert!(home.fails(3, args).contains("p/no"));
    }
    home.ok(&["xattr", "set", "p/o", &"n".repeat(100), ""]);
    home.fails_with("limit_exceeded", &["xattr", "set", "p/o", &"n".repeat(101), ""]);
    home.fails_with("invalid_argument", &["xattr", "set", "p/o", "", ""]);
}

#[test]
fn omap_entries_are_set_read_listed_and_removed() {
    let home = Home::with_pool();
    home.ok(&["omap", "set", "p/o", "b", "2"]);
    home.ok(&["omap", "set", "p/o", "a", "1"]);
    home.ok(&["omap", "set", "p/o", "--hex", "ff00", "binary key"]);
    assert_eq!(home.ok(&["omap", "ls", "p/o"]), "a\t1\nb\t2\n\\xff\\x00\tbinary key\n");
    assert_eq!(home.ok(&["omap", "ls", "--hex", "p/o", "--prefix", "ff"]), "ff00\tbinary key\n");
    assert_eq!(home.json(&["omap", "ls", "p/o"])[2]["key_hex"], "ff00");
    assert_eq!(home.ok(&["omap", "get", "p/o", "b"]), "2");
    assert_eq!(home.ok(&["omap", "get", "p/o", "FF00", "--hex"]), "binary key");
    home.ok(&["omap", "rm", "p/o", "b"]);
    assert!(home.fails(3, &["omap", "get", "p/o", "b"]).contains("no such key"));
    home.fails(3, &["omap", "ls", "p/missing"]);
    home.fails_with("invalid_argument", &["omap", "get", "--hex", "p/o", "xyz"]);
}

#[test]
fn a_value_comes_from_a_file_or_stdin() {
    let home = Home::with_pool();
    home.file("value", b"\xff\n");
    for set in [&["xattr", "set", "p/o", "n"][..], &["omap", "set", "p/o", "n"]] {
        let get = [set[0], "get", "p/o", "n"];
        home.ok(&[set, &["@value"]].concat());
        assert_eq!(home.run(&get).stdout, b"\xff\n", "{set:?}");
        home.fails(3, &[set, &["@no-such-file"]].concat());
        // A text that begins with @ comes through stdin.
        printed(&home.pipe(&[set, &["-"]].concat(), b"@value"), set);
        assert_eq!(home.ok(&get), "@value", "{set:?}");
    }
    home.file("long", vec![7; 65_537]);
    home.fails_with("limit_exceeded", &["xattr", "set", "p/o", "n", "@long"]);
    let piped = home.pipe(&["exec", "p/o", "digest", "compute", "-"], b"@value");
    assert!(String::from_utf8_lossy(&piped.stderr).contains("@value"), "exec reads its input alike");
}

#[test]
fn a_long_omap_is_listed_over_its_pages() {
    let home = Home::with_pool();
    // Each call is a process, so the test also opens and closes the store a thousand times.
    let keys = 1_030;
    for index in 0..keys {
        home.ok(&["omap", "set", "p/o", &format!("{index:05}"), "v"]);
    }
    let listed: Vec<String> = home.ok(&["omap", "ls", "p/o"]).lines().map(str::to_owned).collect();
    assert_eq!(listed, (0..keys).map(|index| format!("{index:05}\tv")).collect::<Vec<_>>());
}
