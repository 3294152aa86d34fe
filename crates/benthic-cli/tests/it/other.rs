//! `benthic sql`, `benthic table`, `benthic s3` and `benthic csi` start the programs installed
//! beside it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

fn run(dir: &Path, args: &[&str]) -> Output {
    Command::new(dir.join("benthic")).args(args).env_remove("BENTHIC_STORE").output().unwrap()
}

#[test]
fn separate_programs_get_the_arguments() {
    let dir = TempDir::new().unwrap();
    fs::copy(env!("CARGO_BIN_EXE_benthic"), dir.path().join("benthic")).unwrap();
    let missing = run(dir.path(), &["sql", "--object", "p/o", "SELECT 1"]);
    let error = String::from_utf8(missing.stderr).unwrap();
    assert!(missing.status.code() == Some(7) && error.contains("-p benthic-sql"), "{error}");

    let missing = run(dir.path(), &["s3", "serve"]);
    let error = String::from_utf8(missing.stderr).unwrap();
    assert!(missing.status.code() == Some(7) && error.contains("make s3"), "{error}");

    let missing = run(dir.path(), &["csi", "--node-id", "n"]);
    let error = String::from_utf8(missing.stderr).unwrap();
    assert!(missing.status.code() == Some(7) && error.contains("make csi"), "{error}");

    let program = dir.path().join("benthic-sql");
    fs::write(&program, "#!/bin/sh\nprintf '%s\\n' \"$@\"\nexit 11\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let args = ["--json", "--store", "file:x", "sql", "--object", "p/o", "--pushdown", "never", "SELECT -1"];
    let answer = run(dir.path(), &args);
    let lines = "--store\nfile:x\n--json\nsql\n--object\np/o\n--pushdown\nnever\nSELECT -1\n";
    assert_eq!((String::from_utf8(answer.stdout).unwrap().as_str(), answer.status.code()), (lines, Some(11)));
}
