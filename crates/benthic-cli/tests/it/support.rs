//! A temporary directory for each test, in which the program runs.

pub use benthic_testkit::program::{failed, json_lines, printed};

use benthic_testkit::program;
use benthic_testkit::random::Rng;
use benthic_testkit::wait;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::ops::Deref;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

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

/// Runs the block "```sh MARK" of docs/PLACE/MARK.md unchanged and returns its output; `page` is
/// PLACE/MARK. `around` adds the test's own commands before and after the block.
pub fn run_block(page: &str, around: impl FnOnce(&str) -> String) -> String {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let guide = fs::read_to_string(format!("{root}/docs/{page}.md")).unwrap();
    let mark = page.rsplit('/').next().unwrap();
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

/// Time in which a program must report the cause of its wait, on a busy machine.
pub const SAID_WITHIN: Duration = Duration::from_secs(5);

/// A program whose lines on stdout and stderr the test reads while it runs. Dropping it kills the
/// program.
pub struct Running {
    child: Child,
    pub stdout: Receiver<String>,
    pub stderr: Receiver<String>,
}

impl Running {
    pub fn start(mut command: Command) -> Running {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = lines(child.stdout.take().unwrap());
        let stderr = lines(child.stderr.take().unwrap());
        Running { child, stdout, stderr }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// The next JSON line on stderr that has `key`, or a panic after [`SAID_WITHIN`].
    #[track_caller]
    pub fn says(&self, key: &str) -> Value {
        loop {
            let line = self.stderr.recv_timeout(SAID_WITHIN).expect("the program says something in time");
            if let Some(value) = json_lines(line.as_bytes()).pop().filter(|value| !value[key].is_null()) {
                return value[key].clone();
            }
        }
    }

    /// Waits for the end of the program at most `limit`.
    #[track_caller]
    pub fn ends_within(&mut self, limit: Duration) -> ExitStatus {
        for _ in 0..=limit.as_millis() / 20 {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            wait::pause(Duration::from_millis(20));
        }
        panic!("the program still runs after {limit:?}");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines(pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}
