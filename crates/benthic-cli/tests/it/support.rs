//! A directory of its own for each test, with the program run in it.

use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// A directory; its store is `benthic-data` in it, as by default.
pub struct Home(TempDir);

impl Home {
    /// A directory without a store.
    pub fn bare() -> Home {
        Home(TempDir::new().unwrap())
    }

    /// A directory whose store has the pool `p`.
    pub fn with_pool() -> Home {
        let home = Home::bare();
        home.ok(&["pool", "create", "p"]);
        home
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file, and the directories that it is in.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_benthic"));
        command.args(args).current_dir(self.0.path()).env_remove("BENTHIC_STORE").stdin(Stdio::null());
        command
    }

    pub fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs with input.
    pub fn pipe(&self, args: &[&str], input: &[u8]) -> Output {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        std::thread::scope(|scope| {
            // A program that refuses its input closes the pipe.
            scope.spawn(move || drop(stdin.write_all(input)));
            child.wait_with_output().unwrap()
        })
    }

    /// Runs what must succeed, and returns what it printed.
    pub fn ok(&self, args: &[&str]) -> String {
        printed(&self.run(args), args)
    }

    /// Runs what must succeed, and returns its lines of JSON.
    pub fn json(&self, args: &[&str]) -> Vec<Value> {
        let with_json: Vec<&str> = ["--json"].iter().chain(args).copied().collect();
        json_lines(self.ok(&with_json).as_bytes())
    }

    /// Runs what must fail with this exit status, and returns what it printed to stderr.
    #[track_caller]
    pub fn fails(&self, status: i32, args: &[&str]) -> String {
        failed(&self.run(args), status)
    }

    /// Runs what must fail with this kind, in JSON, and returns the error.
    #[track_caller]
    pub fn fails_with(&self, kind: &str, args: &[&str]) -> Value {
        let with_json: Vec<&str> = ["--json"].iter().chain(args).copied().collect();
        let run = self.run(&with_json);
        assert!(!run.status.success(), "{args:?}");
        let error = json_lines(&run.stderr).pop().unwrap()["error"].clone();
        assert_eq!(error["kind"], kind, "{args:?}: {error}");
        error
    }
}

#[track_caller]
pub fn printed(run: &Output, what: &[&str]) -> String {
    let stderr = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{what:?}: {}: {stderr}", run.status);
    String::from_utf8(run.stdout.clone()).unwrap()
}

#[track_caller]
pub fn failed(run: &Output, status: i32) -> String {
    let stderr = String::from_utf8_lossy(&run.stderr).into_owned();
    assert_eq!(run.status.code(), Some(status), "{stderr}");
    stderr
}

#[track_caller]
pub fn json_lines(printed: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(printed).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

/// The keys of a JSON object, sorted.
pub fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

/// All files below a directory, relative to it, sorted.
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

/// Runs the block "```sh MARK" of docs/guide/MARK.md unchanged and returns its output. `around` adds
/// the test's own commands before and after the block.
pub fn run_block(mark: &str, around: impl FnOnce(&str) -> String) -> String {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let guide = fs::read_to_string(format!("{root}/docs/guide/{mark}.md")).unwrap();
    let block = guide.split(&format!("```sh {mark}\n")).nth(1).and_then(|rest| rest.split("```").next());
    // The program under test stands in for the one that the reader built.
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

/// Bytes that differ everywhere.
pub fn pattern(len_bytes: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    (0..len_bytes).map(|_| next()).collect()
}
