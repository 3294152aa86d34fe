//! The C libraries on the cluster that `BENTHIC_TEST_CEPH_CONF` names, and beside Debian's Ceph
//! packages.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../it/libraries.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod libraries;

use benthic_testkit::cluster::shared_conf;
use libraries::{CRATE, compile, libraries, run};
use std::process::Command;

fn check(source: &str) {
    let directory = tempfile::tempdir().unwrap();
    let program = compile(source, "benthic", directory.path());
    let store = format!("ceph:?conf={}", shared_conf().display());
    run(Command::new(program).arg(store).env("LD_LIBRARY_PATH", libraries()));
}

#[test]
fn the_example_runs() {
    check("examples/tour.c");
}

#[test]
fn operations_do_what_the_header_says() {
    check("tests/c/operations.c");
}

#[test]
fn operations_complete_while_the_caller_does_something_else() {
    check("tests/c/completions.c");
}

#[test]
fn hostile_calls_fail_with_errors() {
    check("tests/c/hostile.c");
}

#[test]
fn python3_rados_runs_on_a_directory() {
    let directory = tempfile::tempdir().unwrap();
    let store = format!("file:{}", directory.path().join("store").display());
    // Debian's Python, for which Debian's package is.
    let mut python = Command::new("/usr/bin/python3");
    python.arg(format!("{CRATE}/tests/ceph/session.py")).env("BENTHIC_STORE", store);
    run(python.env("LD_LIBRARY_PATH", libraries().join("librados")));
}
