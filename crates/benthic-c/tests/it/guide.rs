//! The guide's program runs as written.

use crate::libraries::{CRATE, compile_file, libraries, run};
use std::fs;
use std::process::Command;

#[test]
fn the_program_of_the_guide_runs() {
    let guide = fs::read_to_string(format!("{CRATE}/../../docs/guide/c.md")).unwrap();
    let (_, rest) = guide.split_once("```c\n").unwrap();
    let (program, _) = rest.split_once("```").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("reef.c");
    fs::write(&source, program).unwrap();
    let program = compile_file(&source, "benthic", directory.path());
    let output = run(Command::new(program).env("LD_LIBRARY_PATH", libraries()));
    assert!(output.contains("somebody was faster: ") && output.lines().count() == 2, "{output}");
    // The SHA-256 hash of the data.
    assert!(
        output.ends_with("\ne1ac7063315a15bbc8cc14f4dd19172caa3184c99f12adb3a3c04567e3cd3136\n"),
        "{output}"
    );
}
