//! Several copies of the same files at the same time.

use crate::support::{Home, failed, json_lines, pattern, printed, tree};
use std::process::{Output, Stdio};

const FILES: usize = 500;

/// Runs these calls at the same time and waits for all of them.
fn together(home: &Home, calls: [&[&str]; 2]) -> [Output; 2] {
    let start = |args: &[&str]| {
        let mut command = home.command(&[&["--json"], args].concat());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let started = calls.map(start);
    std::thread::scope(|scope| {
        let ended = started.map(|child| scope.spawn(|| child.wait_with_output().unwrap()));
        ended.map(|thread| thread.join().unwrap())
    })
}

fn write_tree(home: &Home, root: &str) {
    for index in 0..FILES {
        home.file(&format!("{root}/{:02}/{index:04}", index % 20), index.to_string().repeat(index));
    }
}

/// Checks that two directories have the same files.
fn assert_same(home: &Home, here: &str, there: &str) {
    let names = tree(&home.path(here));
    assert_eq!(names, tree(&home.path(there)));
    for name in names {
        assert!(home.read(&format!("{here}/{name}")) == home.read(&format!("{there}/{name}")), "{name}");
    }
}

#[test]
fn two_copies_of_one_directory_store_every_file_once() {
    let home = Home::with_pool();
    write_tree(&home, "tree");
    // The store takes this file in several operations.
    home.file("tree/large", pattern((64 << 20) + 1));
    let copy = &["cp", "-r", "tree", "p/x"][..];
    let mut copied = 0;
    for run in together(&home, [copy, copy]) {
        let lines = json_lines(printed(&run, copy).as_bytes());
        assert_eq!((lines.len(), run.stderr.as_slice()), (FILES + 1, &b""[..]));
        copied += lines.iter().filter(|line| line["status"] == "copied").count();
    }
    assert_eq!(copied, FILES + 1);

    let back = &["cp", "-r", "p/x", "back"][..];
    for run in together(&home, [back, back]) {
        assert_eq!(json_lines(printed(&run, back).as_bytes()).len(), FILES + 1);
        assert_eq!(run.stderr, b"");
    }
    assert_same(&home, "tree", "back");
}

#[test]
fn two_copies_of_different_directories_conflict_in_the_files_that_differ() {
    let home = Home::with_pool();
    let content = [pattern(3_000_000), pattern(3_000_001)[1..].to_vec()];
    for (root, content) in ["one", "two"].iter().zip(&content) {
        write_tree(&home, root);
        home.file(&format!("{root}/other"), content);
    }
    let runs = together(&home, [&["cp", "-r", "one", "p/x"], &["cp", "-r", "two", "p/x"]]);
    let winner = usize::from(!runs[0].status.success());
    assert_eq!(printed(&runs[winner], &["cp"]).lines().count(), FILES + 1);
    let errors = json_lines(failed(&runs[1 - winner], 1).as_bytes());
    let of =
        |name: &str| -> Vec<&str> { errors.iter().filter_map(|line| line["error"][name].as_str()).collect() };
    assert_eq!(of("subject"), [["one/other", "two/other"][1 - winner]]);
    assert_eq!(of("kind"), ["conflict", "some_failed"]);
    home.ok(&["cp", "-r", "p/x", "back"]);
    assert_same(&home, ["one", "two"][winner], "back");
}
