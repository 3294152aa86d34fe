//! The project as the tidy rules see it: its files and its crates.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A text file of the project. The path is relative to the root and uses `/`.
pub struct File {
    pub path: String,
    pub text: String,
}

impl File {
    pub fn is(&self, extension: &str) -> bool {
        Path::new(&self.path).extension().is_some_and(|found| found == extension)
    }

    /// Returns `path:line: message` for every line for which `wrong` returns a message.
    pub fn lines(&self, mut wrong: impl FnMut(&str) -> Option<&'static str>) -> Vec<String> {
        let line =
            |(index, line): (usize, &str)| Some(format!("{}:{}: {}", self.path, index + 1, wrong(line)?));
        self.text.split('\n').enumerate().filter_map(line).collect()
    }
}

/// All text files of the project: tracked and untracked files that git does not ignore, or all
/// files if there is no git.
pub fn files() -> Vec<File> {
    let git = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output();
    let mut paths = Vec::new();
    match git {
        Ok(output) if output.status.success() => {
            let list = String::from_utf8(output.stdout).unwrap();
            paths.extend(list.split_terminator('\0').map(str::to_owned));
        }
        _ => walk(&root(), "", &mut paths),
    }
    // Git still lists files that were just deleted, and files that are not text have no lines.
    let read = |path: String| Some(File { text: std::fs::read_to_string(root().join(&path)).ok()?, path });
    let files: Vec<File> = paths.into_iter().filter_map(read).collect();
    assert!(files.iter().any(|file| file.path == "Cargo.toml"), "the project's files were not found");
    files
}

fn walk(dir: &Path, prefix: &str, paths: &mut Vec<String>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let path = format!("{prefix}{}", entry.file_name().to_str().unwrap());
        if [".git", ".venv", "benthic-data", "target"].contains(&path.as_str()) {
            continue;
        }
        if entry.file_type().unwrap().is_dir() {
            walk(&entry.path(), &format!("{path}/"), paths);
        } else {
            paths.push(path);
        }
    }
}

/// A crate of the workspace.
pub struct Package {
    pub name: String,
    /// Path of the crate's `Cargo.toml`, relative to the root.
    pub manifest: String,
    pub dependencies: Vec<Dependency>,
}

pub struct Dependency {
    pub name: String,
    /// Only for tests, examples and benchmarks.
    pub dev: bool,
}

pub fn packages() -> Vec<Package> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages: Vec<Package> = metadata["packages"].as_array().unwrap().iter().map(package).collect();
    assert!(packages.iter().any(|package| package.name == "benthic-core"), "the crates were not found");
    packages
}

fn package(metadata: &Value) -> Package {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let manifest = PathBuf::from(text(&metadata["manifest_path"]));
    let dependency = |found: &Value| Dependency { name: text(&found["name"]), dev: found["kind"] == "dev" };
    Package {
        name: text(&metadata["name"]),
        manifest: manifest.strip_prefix(root()).unwrap().to_str().unwrap().to_owned(),
        dependencies: metadata["dependencies"].as_array().unwrap().iter().map(dependency).collect(),
    }
}

/// The directory of the project.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}
