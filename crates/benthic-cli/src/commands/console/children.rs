//! Runs the programs for tables, arrays and S3, and reads their output of `--json`.
//!
//! A child gets its arguments as a list, without a shell. It ends when its time or its output
//! exceeds a limit, or when the client that waits for it goes away.

use crate::commands::other::{self, Program};
use benthic_core::{Action, Error, ErrorKind, Result};
use benthic_program::session::Session;
use benthic_program::store::blocking;
use benthic_program::uri::StoreUri;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Limit on children that run at once. Further requests wait for [`QUEUE_LIMIT`].
const CHILDREN_MAX: usize = 4;
const QUEUE_LIMIT: Duration = Duration::from_secs(10);
/// Time limit of a child.
pub const CHILD_LIMIT: Duration = Duration::from_secs(60);
/// Limit on the output of a child.
const OUTPUT_BYTES_MAX: u64 = 8 * 1024 * 1024;
const ERRORS_BYTES_MAX: u64 = 64 * 1024;

/// The programs that are installed beside this one.
pub struct Children {
    directory: PathBuf,
    store: String,
    slots: Semaphore,
}

/// The output of a child.
pub struct Printed {
    /// The JSON lines of stdout.
    pub lines: Vec<String>,
    /// True if a limit ended the child.
    pub is_cut: bool,
}

impl Printed {
    /// The lines as values.
    ///
    /// # Errors
    /// `Internal` if a line is not of this type.
    pub fn values<T: DeserializeOwned>(&self) -> Result<Vec<T>> {
        let parse = |line: &String| serde_json::from_str(line);
        self.lines
            .iter()
            .map(parse)
            .collect::<std::result::Result<_, _>>()
            .map_err(|error| Error::internal("the program printed no JSON of this form").with_source(error))
    }

    /// The only line as a value.
    ///
    /// # Errors
    /// `Internal` if there is no line, or it is not JSON.
    pub fn value(&self) -> Result<Value> {
        let none = || Error::internal("the program printed nothing");
        self.values()?.into_iter().next().ok_or_else(none)
    }
}

impl Children {
    pub fn new(session: &Session) -> Result<Children> {
        let here = std::env::current_exe()
            .map_err(|error| Error::io(Action::Admin, "cannot find the directory of this program", error))?;
        let directory = here.parent().map(PathBuf::from).unwrap_or_default();
        Ok(Children { directory, store: session.uri().to_owned(), slots: Semaphore::new(CHILDREN_MAX) })
    }

    /// Whether each program is there, by verb.
    pub fn installed_programs(&self) -> Value {
        let is_there = |program: &Program| self.directory.join(program.name).is_file();
        json!({ "sql": is_there(&other::SQL), "array": is_there(&other::ARRAY), "s3": is_there(&other::S3) })
    }

    /// Runs a program to its end. If it prints at most `lines_max` lines, all of them are returned;
    /// otherwise it is ended after them.
    ///
    /// # Errors
    /// `Unsupported` if the program is missing, or the store is in the memory of this process;
    /// `Busy` if too many children run; `LimitExceeded` if the child takes too long, or prints too
    /// much; the child's own error.
    pub async fn run(&self, program: &Program, args: Vec<OsString>, lines_max: usize) -> Result<Printed> {
        self.run_with(program, args, lines_max, "").await
    }

    /// The same with a secret, which the program reads from its stdin: everybody on the machine can
    /// see its arguments.
    pub async fn run_with(
        &self,
        program: &Program,
        args: Vec<OsString>,
        lines_max: usize,
        secret: &str,
    ) -> Result<Printed> {
        let (printed, failure) = self.run_to_end(program, args, lines_max, secret).await?;
        failure.map_or(Ok(printed), Err)
    }

    /// Runs a program that lists entries. It fails if an entry is damaged; the entry has the error,
    /// too, so the list is returned.
    ///
    /// # Errors
    /// As [`Children::run`].
    pub async fn list(&self, program: &Program, args: Vec<OsString>, lines_max: usize) -> Result<Printed> {
        let (printed, failure) = self.run_to_end(program, args, lines_max, "").await?;
        let Some(error) = failure else { return Ok(printed) };
        let is_of_entry = |entry: &Value| entry["kind"] == error.kind().row().name;
        if printed.values::<Value>()?.iter().any(is_of_entry) { Ok(printed) } else { Err(error) }
    }

    /// Runs a program to its end. Returns its output, and its error.
    async fn run_to_end(
        &self,
        program: &Program,
        args: Vec<OsString>,
        lines_max: usize,
        secret: &str,
    ) -> Result<(Printed, Option<Error>)> {
        if matches!(self.store.parse(), Ok(StoreUri::Mem)) {
            let message =
                "other programs cannot read a store in the memory of this one; use a directory or a cluster";
            return Err(Error::unsupported(message).with("store", &self.store));
        }
        let busy = || {
            Error::busy("too many queries are running; repeat this one later")
                .with("queries_max", CHILDREN_MAX)
        };
        let slot = timeout(QUEUE_LIMIT, self.slots.acquire()).await;
        let slot = slot.ok().and_then(std::result::Result::ok).ok_or_else(busy)?;
        let (running, stdout, stderr) = self.start(program, args, secret)?;
        // Dropping it ends the child, and so its output.
        let ended = timeout(CHILD_LIMIT, read_all(&running, stdout, stderr, lines_max)).await;
        drop(slot);
        ended.unwrap_or_else(|_| {
            let message = "the program took too long and was ended";
            Err(Error::limit_exceeded(message)
                .with("program", program.name)
                .with("seconds_max", CHILD_LIMIT.as_secs()))
        })
    }

    fn start(
        &self,
        program: &Program,
        args: Vec<OsString>,
        secret: &str,
    ) -> Result<(Running, impl Read + use<>, impl Read + use<>)> {
        let mut command = Command::new(self.directory.join(program.name));
        command.arg("--store").arg(&self.store).arg("--json").args(args);
        // The secret is shorter than a pipe's buffer, so writing it does not wait for the child.
        let stdin = if secret.is_empty() { Stdio::null() } else { Stdio::piped() };
        command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => other::missing(program),
            _ => Error::io(Action::Admin, "cannot start the program", error).with("program", program.name),
        })?;
        if let Some(mut stdin) = child.stdin.take() {
            // A child that has ended says why itself.
            let _ = stdin.write_all(secret.as_bytes());
        }
        let pipes = child.stdout.take().zip(child.stderr.take());
        let running = Running(Arc::new(Mutex::new(child)));
        let lost = || Error::internal("the child has no pipes");
        let (stdout, stderr) = pipes.ok_or_else(lost)?;
        Ok((running, stdout, stderr))
    }
}

/// A child that ends when this is dropped.
struct Running(Arc<Mutex<Child>>);

impl Running {
    /// Waits for a child whose output has ended. Waiting in a blocking call would keep the lock
    /// that [`Running::end`] needs.
    async fn wait(&self) -> Result<ExitStatus> {
        loop {
            let ended = self.0.lock().unwrap_or_else(PoisonError::into_inner).try_wait();
            let ended = ended.map_err(|error| Error::io(Action::Admin, "cannot wait for the program", error));
            if let Some(status) = ended? {
                return Ok(status);
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    fn end(&self) {
        // It may have ended already.
        let _ = self.0.lock().unwrap_or_else(PoisonError::into_inner).kill();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
        let child = Arc::clone(&self.0);
        // A killed process ends soon, and waiting removes it from the process table.
        std::thread::spawn(move || child.lock().unwrap_or_else(PoisonError::into_inner).wait());
    }
}

async fn read_all(
    running: &Running,
    stdout: impl Read + Send + 'static,
    stderr: impl Read + Send + 'static,
    lines_max: usize,
) -> Result<(Printed, Option<Error>)> {
    let lines = blocking(move || read_lines(stdout, lines_max));
    let errors = blocking(move || {
        let mut text = Vec::new();
        let read = stderr.take(ERRORS_BYTES_MAX).read_to_end(&mut text);
        read.map_err(|error| Error::io(Action::Read, "cannot read the output of the program", error))?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    });
    // A child that prints more than is wanted ends now, and so its errors.
    let lines = async {
        let lines = lines.await;
        if lines.as_ref().is_ok_and(|lines| lines.is_cut) {
            running.end();
        }
        lines
    };
    let (lines, errors) = futures::try_join!(lines, errors)?;
    if lines.is_cut {
        return Ok((lines, None));
    }
    let status = running.wait().await?;
    // A check that found something prints its findings and fails.
    if status.success() || !lines.lines.is_empty() && last_error(&errors).is_none() {
        return Ok((lines, None));
    }
    let failure = last_error(&errors).unwrap_or_else(|| {
        Error::internal("the program failed without an error").with("stderr", errors.trim())
    });
    Ok((lines, Some(failure)))
}

fn read_lines(stdout: impl Read, lines_max: usize) -> Result<Printed> {
    let mut stdout = BufReader::new(stdout.take(OUTPUT_BYTES_MAX));
    let mut lines = Vec::new();
    loop {
        let mut line = Vec::new();
        let len = stdout
            .read_until(b'\n', &mut line)
            .map_err(|error| Error::io(Action::Read, "cannot read the output of the program", error))?;
        let is_whole = line.last() == Some(&b'\n');
        if len == 0 && stdout.get_ref().limit() > 0 {
            return Ok(Printed { lines, is_cut: false });
        }
        if lines.len() == lines_max || !is_whole {
            break;
        }
        lines.push(String::from_utf8_lossy(&line).into_owned());
    }
    if lines.is_empty() {
        let message = "a line of the program's output is too large";
        return Err(Error::limit_exceeded(message).with("size_bytes_max", OUTPUT_BYTES_MAX));
    }
    Ok(Printed { lines, is_cut: true })
}

/// The last error that a child printed as JSON.
fn last_error(stderr: &str) -> Option<Error> {
    let parsed = |line: &str| serde_json::from_str::<Map<String, Value>>(line).ok();
    let error = stderr.lines().rev().filter_map(parsed).find_map(|mut fields| fields.remove("error"))?;
    let kind = error["kind"].as_str().unwrap_or_default();
    let kind = ErrorKind::from_name(kind).unwrap_or(ErrorKind::InvalidArgument);
    let mut message = error["message"].as_str().unwrap_or("the program failed").to_owned();
    if let Some(cause) = error["cause"].as_str() {
        message = format!("{message}: {cause}");
    }
    let context = error["context"].as_object().into_iter().flatten();
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let context: Vec<String> = context.map(|(key, value)| format!("{key}={}", text(value))).collect();
    let error = Error::new(kind, message);
    Some(if context.is_empty() { error } else { error.with("about", context.join(" ")) })
}

#[cfg(test)]
#[path = "children_tests.rs"]
mod tests;
