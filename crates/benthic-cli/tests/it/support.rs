//! A temporary directory for each test, in which the program runs.

pub use benthic_testkit::program::{failed, json_lines, printed};

use benthic_testkit::program;
use benthic_testkit::random::Rng;
use serde_json::Value;
use std::fs;
use std::ops::Deref;
use std::path::Path;
use std::process::Command;

/// A directory whose store is the default, the subdirectory `benthic-data`.
pub struct Home(program::Home);

impl Home {
    /// A directory without a store.
    pub fn bare() -> Home {
        Home(program::Home::new(env!("CARGO_BIN_EXE_benthic"), &[]))
    }

    /// A directory whose store has the pool `p`.
    pub fn with_pool() -> Home {
        let home = Home::bare();
        home.ok(&["pool", "create", "p"]);
        home
    }
}

impl Deref for Home {
    type Target = program::Home;

    fn deref(&self) -> &program::Home {
        &self.0
    }
}

/// The sorted keys of a JSON object.
pub fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

/// The sorted paths of all files below a directory, relative to it.
pub fn tree(directory: &Path) -> Vec<String> {
    fn walk(directory: &Path, root: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, root, found);
            } else {
                found.push(path.strip_prefix(root).unwrap().to_string_lossy().into_owned());
            }
        }
    }
    let mut found = Vec::new();
    walk(directory, directory, &mut found);
    found.sort();
    found
}

/// Runs the block "```sh MARK" of docs/guide/MARK.md unchanged and returns its output. `around`
/// adds the test's own commands before and after the block.
pub fn run_block(mark: &str, around: impl FnOnce(&str) -> String) -> String {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let guide = fs::read_to_string(format!("{root}/docs/guide/{mark}.md")).unwrap();
    let block = guide.split(&format!("```sh {mark}\n")).nth(1).and_then(|rest| rest.split("```").next());
    // Replaces the program that a reader would build with the program under test.
    let binary = Path::new(env!("CARGO_BIN_EXE_benthic")).parent().unwrap();
    let script = around(block.unwrap()).replace("$PWD/target/release", &binary.display().to_string());
    let scratch = tempfile::tempdir().unwrap();
    let run = Command::new("bash")
        .args(["-euo", "pipefail", "-c", &script])
        .current_dir(root)
        .env("TMPDIR", scratch.path())
        .env_remove("BENTHIC_STORE")
        .output()
        .unwrap();
    printed(&run, &[mark])
}

/// Pseudorandom bytes.
pub fn pattern(len_bytes: usize) -> Vec<u8> {
    Rng(1).bytes(len_bytes)
}
