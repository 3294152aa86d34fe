//! The shared libraries under test, linked once from the static library that cargo built for this
//! test.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

pub const CRATE: &str = env!("CARGO_MANIFEST_DIR");

static LIBRARIES: LazyLock<PathBuf> = LazyLock::new(|| {
    let directory =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(concat!("benthic-c-", env!("CARGO_CRATE_NAME")));
    // Cargo puts the libraries of a package beside the tests of the package.
    let beside = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.ends_with(".a") && (name == "libbenthic.a" || name.starts_with("libbenthic-"))
    };
    let archives = std::fs::read_dir(&beside).unwrap().map(|entry| entry.unwrap().path());
    let modified = |path: &PathBuf| path.metadata().unwrap().modified().unwrap();
    let archive = archives.filter(is_ours).max_by_key(modified).expect("cargo builds the static library");
    run(Command::new(format!("{CRATE}/link.sh")).arg(archive).arg(&directory));
    directory
});

/// The directory of the shared libraries.
pub fn libraries() -> &'static Path {
    &LIBRARIES
}

/// Runs a command that must succeed.
pub fn run(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?}: {status}\n{stdout}\n{stderr}");
    stdout.into_owned()
}

/// Compiles a C program of this crate, as [`compile_file`] does.
pub fn compile(source: &str, library: &str, into: &Path) -> PathBuf {
    compile_file(&Path::new(CRATE).join(source), library, into)
}

/// Compiles a C program with all warnings, and links it with a library.
pub fn compile_file(source: &Path, library: &str, into: &Path) -> PathBuf {
    let program = into.join(source.file_stem().unwrap());
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
