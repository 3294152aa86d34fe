//! Runs a program in a temporary directory, as a user does. The functions panic if the program does
//! not behave as the test expects.

use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// A temporary directory in which a program runs. The store is the subdirectory `benthic-data`,
/// which is the default.
pub struct Home {
    dir: TempDir,
    program: &'static str,
    first_args: &'static [&'static str],
}

impl Home {
    /// Creates a directory for this program, without a store. Every call passes `first_args` before
    /// its own arguments.
    pub fn new(program: &'static str, first_args: &'static [&'static str]) -> Home {
        Home { dir: TempDir::new().expect("a temporary directory"), program, first_args }
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir().join(name)
    }

    /// Writes a file and creates its parent directories.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap_or(self.dir())).expect("a directory");
        fs::write(&path, content).expect("a file");
        path
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).expect("a file")
    }

    /// Returns a command for a call of the program, not yet started.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(self.program);
        command.args(self.first_args).args(args).current_dir(self.dir());
        command.env_remove("BENTHIC_STORE").stdin(Stdio::null());
        command
    }

    pub fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("a program that starts")
    }

    pub fn pipe(&self, args: &[&str], input: &[u8]) -> Output {
        Home::feed(self.command(args), input)
    }

    /// Runs a call on a terminal, where a user types `typed` and then Ctrl-D. The standard output
    /// of the result is everything that the terminal showed.
    pub fn on_terminal(&self, args: &[&str], typed: &str) -> Output {
        let quote = |word: &str| format!("'{}'", word.replace('\'', r"'\''"));
        let words = [&[self.program], self.first_args, args].concat();
        let line = words.into_iter().map(quote).collect::<Vec<_>>().join(" ");
        let mut command = Command::new("script");
        command.args(["--quiet", "--return", "--command", &line, "/dev/null"]).current_dir(self.dir());
        command.env_remove("BENTHIC_STORE").env("SHELL", "/bin/sh");
        Home::feed(command, typed.as_bytes())
    }

    fn feed(mut command: Command, input: &[u8]) -> Output {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("a program that starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        std::thread::scope(|scope| {
            // A program that refuses its input closes the pipe, so the write may fail.
            scope.spawn(move || drop(stdin.write_all(input)));
            child.wait_with_output().expect("a program that ends")
        })
    }

    /// Runs a call that must succeed and returns its standard output.
    #[track_caller]
    pub fn ok(&self, args: &[&str]) -> String {
        printed(&self.run(args), args)
    }

    /// Runs a call that must succeed and returns its JSON lines.
    #[track_caller]
    pub fn json(&self, args: &[&str]) -> Vec<Value> {
        json_lines(self.ok(&[&["--json"], args].concat()).as_bytes())
    }

    /// Runs a call that must fail with this exit status and returns its standard error.
    #[track_caller]
    pub fn fails(&self, status: i32, args: &[&str]) -> String {
        failed(&self.run(args), status)
    }

    /// Runs a call that must fail with an error of this kind and returns the error as `--json`
    /// prints it.
    #[track_caller]
    pub fn fails_with(&self, kind: &str, args: &[&str]) -> Value {
        let run = self.run(&[&["--json"], args].concat());
        assert!(!run.status.success(), "{args:?}");
        let error = json_lines(&run.stderr).pop().map_or(Value::Null, |line| line["error"].clone());
        assert_eq!(error["kind"], kind, "{args:?}: {error}");
        error
    }
}

/// Checks the help of a program and of all its commands: each has a description, documents every
/// option and has its own example. Each has a manual page with the same options. `names` is the
/// program's command line in the examples. The commands in `others` belong to other programs.
pub fn check_help(program: &str, names: &[&str], others: &[&str]) {
    let pages = TempDir::new().expect("a temporary directory");
    let written = Command::new(program).arg("man").arg(pages.path()).output().expect("a program that starts");
    printed(&written, &[program, "man"]);
    check_command(program, names, others, Some(pages.path()));
}

/// As [`check_help`], for a command that help and manual pages do not list.
#[track_caller]
pub fn check_hidden_help(program: &str, names: &[&str]) {
    check_command(program, names, &[], None);
}

#[track_caller]
fn check_command(program: &str, names: &[&str], others: &[&str], pages: Option<&Path>) {
    let page = pages.map(|pages| manual_page(pages, names));
    let output =
        Command::new(program).args(&names[1..]).arg("--help").output().expect("a program that starts");
    let help = printed(&output, names);
    let about = help.lines().next().unwrap_or_default();
    assert!(!about.is_empty() && !about.starts_with("Usage"), "{names:?} has no description: {help}");
    let has_example = |text: &str| text.contains(&names.join(" "));
    assert!(
        help.split_once("\nExample").is_some_and(|(_, text)| has_example(text)),
        "{names:?} has no example: {help}"
    );

    // The text of an option or argument is on its line after two spaces, or on the next line with a
    // deeper indentation. It begins with a word: `[default: …]` alone is no text.
    let mut lines = help.lines().skip_while(|line| !line.starts_with("Usage")).peekable();
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut commands = Vec::new();
    let mut section = "";
    while let Some(line) = lines.next() {
        let (text, depth) = (line.trim_start(), indent(line));
        if depth == 0 {
            section = line;
            if line.starts_with("Example") {
                break;
            }
        } else if section.starts_with("Commands") && depth == 2 {
            commands.extend(text.split_whitespace().next());
        } else if text.starts_with('-') && depth <= 6 || section == "Arguments:" && depth == 2 {
            let same_line = text.split_once("  ").map(|(_, text)| text.trim_start());
            let next_line =
                lines.peek().filter(|next| indent(next) > depth + 2).map(|next| next.trim_start());
            let text = same_line.or(next_line).unwrap_or_default();
            assert!(text.starts_with(char::is_alphanumeric), "{names:?} does not document {line}");
            if let Some(page) = &page {
                let option = line.trim_start().split("  ").next().unwrap_or_default();
                for option in option.split([' ', ',', '=', '[', '.']).filter(|word| word.starts_with('-')) {
                    assert!(page.contains(option), "the manual page of {names:?} lacks {option}: {page}");
                }
            }
        }
    }
    for command in commands.into_iter().filter(|command| *command != "help" && !others.contains(command)) {
        check_command(program, &[names, &[command]].concat(), others, pages);
    }
}

/// The text of a command's manual page, without troff's escapes of hyphens.
#[track_caller]
fn manual_page(pages: &Path, names: &[&str]) -> String {
    let path = pages.join(format!("{}.1", names.join("-")));
    let page = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert!(page.contains("Example"), "the manual page of {names:?} has no example: {page}");
    page.replace("\\-", "-")
}

/// The standard output of a call that must have succeeded. A failure message names the call.
#[track_caller]
pub fn printed(run: &Output, call: &[&str]) -> String {
    let stderr = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{call:?}: {}: {stderr}", run.status);
    String::from_utf8(run.stdout.clone()).expect("text")
}

/// The standard error of a call that must have failed with this exit status.
#[track_caller]
pub fn failed(run: &Output, status: i32) -> String {
    let stderr = String::from_utf8_lossy(&run.stderr).into_owned();
    assert_eq!(run.status.code(), Some(status), "{stderr}");
    stderr
}

#[track_caller]
pub fn json_lines(printed: &[u8]) -> Vec<Value> {
    let text = String::from_utf8_lossy(printed);
    let parse = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    text.lines().map(parse).collect()
}
