//! C programs on every engine.

use crate::libraries::{compile, libraries, run};
use std::process::Command;

fn check(source: &str, store: &str) {
    let directory = tempfile::tempdir().unwrap();
    let program = compile(source, "benthic", directory.path());
    run(Command::new(program).arg(store).env("LD_LIBRARY_PATH", libraries()));
}

fn check_on_all_engines(source: &str) {
    check(source, "mem:");
    let directory = tempfile::tempdir().unwrap();
    check(source, &format!("file:{}", directory.path().join("store").display()));
}

#[test]
fn the_example_runs() {
    check_on_all_engines("examples/tour.c");
}

#[test]
fn operations_do_what_the_header_says() {
    check_on_all_engines("tests/c/operations.c");
}

#[test]
fn operations_complete_while_the_caller_does_something_else() {
    check_on_all_engines("tests/c/completions.c");
}

#[test]
fn hostile_calls_fail_with_errors() {
    check_on_all_engines("tests/c/hostile.c");
}
