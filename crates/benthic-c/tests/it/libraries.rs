//! The shared libraries under test, linked once from the static library that cargo built for this test.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;
use tempfile::TempDir;

pub const CRATE: &str = env!("CARGO_MANIFEST_DIR");

static LIBRARIES: LazyLock<TempDir> = LazyLock::new(|| {
    let directory = tempfile::tempdir().unwrap();
    // Cargo puts the libraries of a package beside the tests of the package.
    let programs = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let is_ours = |path: &Path| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name == "libbenthic.a" || name.starts_with("libbenthic-") && name.ends_with(".a")
    };
    let archives = std::fs::read_dir(&programs).unwrap().map(|entry| entry.unwrap().path());
    let newest =
        archives.filter(|path| is_ours(path)).max_by_key(|path| path.metadata().unwrap().modified().unwrap());
    let archive = newest.expect("cargo builds the static library");
    run(Command::new(format!("{CRATE}/link.sh")).arg(archive).arg(directory.path()));
    directory
});

/// The directory of the shared libraries.
pub fn libraries() -> &'static Path {
    LIBRARIES.path()
}

/// Runs a command that must succeed.
pub fn run(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?}: {status}\n{stdout}\n{stderr}");
    stdout.into_owned()
}

/// Compiles a C program of this folder with all warnings, and links it with a library.
pub fn compile(source: &str, library: &str, into: &Path) -> PathBuf {
    let program = into.join(Path::new(source).file_stem().unwrap());
    let source = format!("{CRATE}/{source}");
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-pthread", "-I"]);
    cc.arg(format!("{CRATE}/include")).arg(source).arg("-o").arg(&program);
    cc.arg("-L").arg(libraries()).arg(format!("-l{library}"));
    run(&mut cc);
    program
}

/// The functions that a library exports, each with its version.
pub fn exported(library: &str) -> BTreeSet<String> {
    let listed = run(Command::new("nm").args(["-D", "--defined-only"]).arg(libraries().join(library)));
    let functions = listed.lines().filter_map(|line| line.split_once(" T ").map(|(_, name)| name.to_owned()));
    functions.collect()
}
