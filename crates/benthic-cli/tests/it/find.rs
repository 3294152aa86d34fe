//! cat, find, du and tree.

use crate::support::{Home, failed, json_lines, pattern};
use serde_json::{Value, json};
use std::io::Read;
use std::process::Stdio;

/// A pool with objects of 1, 20, 300 and 4,000 bytes.
fn home() -> Home {
    let home = Home::with_pool();
    for (name, size_bytes) in
        [("top.txt", 1), ("a/one.jpg", 20), ("a/b/two.jpg", 300), ("a/b/three.txt", 4_000)]
    {
        home.file("f", pattern(size_bytes));
        home.ok(&["put", &format!("p/{name}"), "f"]);
    }
    home.ok(&["put", "p:ns/other", "f"]);
    home
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn cat_prints_objects_one_after_the_other() {
    let home = Home::with_pool();
    home.file("f", "one\n");
    home.file("g", b"\xff\0");
    home.ok(&["put", "p/f", "f"]);
    home.ok(&["put", "p:ns/g", "g"]);
    assert_eq!(home.run(&["cat", "p/f", "p:ns/g", "p/f"]).stdout, b"one\n\xff\0one\n");
    assert_eq!(home.run(&["--json", "cat", "p:ns/g"]).stdout, b"\xff\0", "only the bytes");
    assert!(home.fails(3, &["cat", "p/missing"]).contains("no such object object=p/missing"));
    let run = home.run(&["cat", "p/f", "p/missing", "p/f"]);
    assert_eq!(run.stdout, b"one\none\n");
    let stderr = failed(&run, 1);
    assert!(stderr.contains("p/missing: no such object\n") && stderr.contains("1 of 3 failed"), "{stderr}");
    let run = home.run(&["cat", "p/f", "p"]);
    assert!(run.stdout.is_empty() && failed(&run, 6).contains("benthic ls p"), "nothing, for a typing error");
}

#[test]
fn a_closed_pipe_ends_cat_quietly() {
    let home = Home::with_pool();
    home.file("f", pattern(1 << 20));
    home.ok(&["put", "p/f", "f"]);
    let mut command = home.command(&["cat", "p/f", "p/f"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdout.take().unwrap().read_exact(&mut [0; 10]).unwrap();
    let run = child.wait_with_output().unwrap();
    assert_eq!((run.status.code(), run.stderr.as_slice()), (Some(0), &b""[..]));
}

#[test]
fn find_selects_by_name_size_and_age() {
    let home = home();
    let found = |args: &[&str]| home.ok(&[&["find"], args].concat());
    assert_eq!(sorted(&found(&["p"])), ["p/a/b/three.txt", "p/a/b/two.jpg", "p/a/one.jpg", "p/top.txt"]);
    assert_eq!(found(&["p:ns"]), "p:ns/other\n");
    for prefix in ["p/a/b", "p/a/b/"] {
        assert_eq!(sorted(&found(&[prefix])), ["p/a/b/three.txt", "p/a/b/two.jpg"]);
    }
    assert_eq!(sorted(&found(&["p", "--name", "*.jpg"])), ["p/a/b/two.jpg", "p/a/one.jpg"]);
    assert_eq!(sorted(&found(&["p", "--name", "t*[!g]"])), ["p/a/b/three.txt", "p/top.txt"]);
    assert_eq!(found(&["p", "--name", "o?e.jpg"]), "p/a/one.jpg\n");
    assert_eq!(found(&["p", "--name", "a*"]), "", "only the last part of a name");
    assert_eq!(sorted(&found(&["p", "--larger", "20"])), ["p/a/b/three.txt", "p/a/b/two.jpg"]);
    assert_eq!(
        sorted(&found(&["p", "--larger", "19", "--smaller", "1KiB"])),
        ["p/a/b/two.jpg", "p/a/one.jpg"]
    );
    assert_eq!(found(&["p", "--name", "*.txt", "--smaller", "2"]), "p/top.txt\n");
    assert_eq!(found(&["p", "--newer", "1h"]).lines().count(), 4);
    assert_eq!(found(&["p", "--older", "1h"]), "");
    assert_eq!(found(&["p", "--older", "0s"]).lines().count(), 4);
    assert_eq!(
        home.json(&["find", "p", "--name", "top*"]),
        [json!({ "pool": "p", "namespace": "", "object": "top.txt" })]
    );
    assert_eq!(home.json(&["find", "p", "--larger", "1000"])[0]["size_bytes"], 4_000);
}

#[test]
fn a_prefix_without_objects_is_an_error_and_an_empty_pool_is_none() {
    let home = home();
    for verb in ["find", "du", "tree"] {
        let error = home.fails_with("not_found", &[verb, "p/none"]);
        assert_eq!(error["context"]["prefix"], "p/none/", "{verb}");
        home.fails(3, &[verb, "missing"]);
        home.ok(&[verb, "p:empty"]);
    }
    assert_eq!(home.ok(&["find", "p/a", "--name", "none"]), "");
    home.fails(2, &["find", "p", "--name", "[a"]);
    home.fails(2, &["find", "p", "--older", "3"]);
}

#[test]
fn du_counts_objects_and_bytes_by_level() {
    let home = home();
    let rows = |args: &[&str]| -> Vec<(String, u64, u64)> {
        let row = |line: Value| {
            let number = |key: &str| line[key].as_u64().unwrap();
            (line["prefix"].as_str().unwrap().to_owned(), number("objects"), number("size_bytes"))
        };
        home.json(&[&["du"], args].concat()).into_iter().map(row).collect()
    };
    let row = |prefix: &str, objects, size_bytes| (prefix.to_owned(), objects, size_bytes);
    assert_eq!(rows(&["p"]), [row("a/", 3, 4_320), row("", 4, 4_321)]);
    assert_eq!(rows(&["p", "--depth", "0"]), [row("", 4, 4_321)]);
    assert_eq!(rows(&["p", "--depth", "9"]), [row("a/b/", 2, 4_300), row("a/", 3, 4_320), row("", 4, 4_321)]);
    assert_eq!(rows(&["p/a"]), [row("a/b/", 2, 4_300), row("a/", 3, 4_320)]);
    assert_eq!(rows(&["p:empty"]), [row("", 0, 0)]);
    let text = home.ok(&["du", "p"]);
    let words: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(words, [["4.2", "KiB", "3", "objects", "p/a/"], ["4.2", "KiB", "4", "objects", "p/"]]);
}

#[test]
fn a_tree_shows_every_object_below_its_prefix() {
    let home = home();
    assert_eq!(
        home.ok(&["tree", "p"]),
        "p/\n\
         ├── a/\n\
         │   ├── b/\n\
         │   │   ├── three.txt\n\
         │   │   └── two.jpg\n\
         │   └── one.jpg\n\
         └── top.txt\n\n\
         2 prefixes, 4 objects\n"
    );
    assert_eq!(
        home.ok(&["tree", "p", "--depth", "1"]),
        "p/\n├── a/ (3 objects)\n└── top.txt\n\n1 prefix, 4 objects\n"
    );
    assert_eq!(home.ok(&["tree", "p/a/b"]), "p/a/b/\n├── three.txt\n└── two.jpg\n\n0 prefixes, 2 objects\n");
    let lines = json_lines(home.ok(&["--json", "tree", "p", "--depth", "1"]).as_bytes());
    assert_eq!(lines[0], json!({ "pool": "p", "namespace": "", "prefix": "a/", "objects": 3 }));
    assert_eq!(lines[1], json!({ "pool": "p", "namespace": "", "object": "top.txt" }));
    assert_eq!(lines.len(), 2);
}

#[test]
fn names_that_are_no_paths_are_counted_and_drawn() {
    let home = Home::with_pool();
    home.file("f", "x");
    for name in ["//", "a", "a/", "a/b", "line\nend"] {
        home.ok(&["put", &format!("p/{name}"), "f"]);
    }
    let tree = home.ok(&["tree", "p"]);
    assert!(tree.contains("── line\\nend\n") && tree.ends_with("\n3 prefixes, 5 objects\n"), "{tree}");
    let total = home.json(&["du", "p", "--depth", "9"]).pop().unwrap();
    assert_eq!((&total["objects"], &total["size_bytes"]), (&json!(5), &json!(5)));
}
