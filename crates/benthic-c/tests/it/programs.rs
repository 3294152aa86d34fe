//! C programs on every engine.

use crate::libraries::{compile, libraries, run};
use std::process::Command;

/// Compiles a program and runs it on a store.
pub fn check(source: &str, library: &str, store: &str) {
    let directory = tempfile::tempdir().unwrap();
    let program = compile(source, library, directory.path());
    run(Command::new(program).arg(store).env("LD_LIBRARY_PATH", libraries()));
}

fn check_on_the_embedded_engines(source: &str, library: &str) {
    check(source, library, "mem:");
    let directory = tempfile::tempdir().unwrap();
    check(source, library, &format!("file:{}", directory.path().join("store").display()));
}

#[test]
fn the_example_runs() {
    check_on_the_embedded_engines("examples/tour.c", "benthic");
}

#[test]
fn operations_do_what_the_header_says() {
    check_on_the_embedded_engines("tests/c/operations.c", "benthic");
}

#[test]
fn operations_complete_while_the_caller_does_something_else() {
    check_on_the_embedded_engines("tests/c/completions.c", "benthic");
}

#[test]
fn hostile_calls_fail_with_errors() {
    check_on_the_embedded_engines("tests/c/hostile.c", "benthic");
}

#[test]
fn the_api_of_librados_does_what_programs_expect() {
    check_on_the_embedded_engines("tests/c/librados.c", "benthic-rados");
}
