//! Runs the commands of docs/guide/tour.md and of docs/start/class-author.md unchanged.

use crate::support::{printed, run_block};
use std::path::Path;
use std::process::Command;

#[test]
fn the_tour_works() {
    let printed = run_block("guide/tour", |tour| {
        assert!(tour.contains("digest verify") && tour.contains("bench write"), "all of it was found");
        tour.to_owned()
    });
    assert!(printed.contains("a picture, more or less"), "{printed}");
    assert!(printed.contains("failed with status 13, as it should"), "{printed}");
}

#[test]
fn the_first_success_of_a_class_author_works() {
    let printed = run_block("start/class-author", ToOwned::to_owned);
    let results: Vec<&str> = printed.lines().rev().take(2).collect();
    assert_eq!(results, ["5", "3"], "{printed}");
}

/// Records the session of the README again: the picture must show the program's output. The hash
/// and the size of the module depend on the compiler.
#[test]
fn the_recorded_session_is_true() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let scratch = tempfile::tempdir().unwrap();
    let again = scratch.path().join("session.svg");
    let programs = Path::new(env!("CARGO_BIN_EXE_benthic")).parent().unwrap();
    let mut record = Command::new("python3");
    record.args(["docs/site/record.py", "docs/site/session.sh"]).arg(&again).current_dir(root);
    record.env("PATH", format!("{}:{}", programs.display(), std::env::var("PATH").unwrap()));
    printed(&record.output().unwrap(), &["record.py"]);
    let lines = |file: &Path| -> Vec<String> {
        let text = std::fs::read_to_string(file).unwrap();
        let of_module = |line: &&str| !line.contains(">built ") && !line.contains(">deployed ");
        text.lines().filter(of_module).map(str::to_owned).collect()
    };
    let again = lines(&again);
    assert!(again.iter().any(|line| line.contains(">100000<")), "{again:?}");
    assert_eq!(lines(&root.join("docs/img/session.svg")), again, "run `make docs-session`");
}
