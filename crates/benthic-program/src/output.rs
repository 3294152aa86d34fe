//! Command output: results to stdout as text or JSON, errors and warnings to stderr.

use crate::exit::{Failure, Outcome};
use crate::units;
use benthic_core::{Action, Error, ObjectId, Wait};
use serde_json::{Map, Value, json};
use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The destination of results and errors.
///
/// The reader of stdout may close the pipe before the command ends, as `head` does. The command
/// then finishes its work without output, and its exit status tells how that work ended. A command
/// that only reads and prints calls [`Output::end_with_reader`], and ends.
pub struct Output {
    json: bool,
    to_terminal: bool,
    stdout: Mutex<BufWriter<Stdout>>,
    ends_with_reader: AtomicBool,
    is_closed: AtomicBool,
}

impl Output {
    /// Creates an output that prints results as JSON, one object per line, or as text.
    pub fn new(json: bool) -> Output {
        let stdout = io::stdout();
        Output {
            json,
            to_terminal: stdout.is_terminal(),
            stdout: Mutex::new(BufWriter::new(stdout)),
            ends_with_reader: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
        }
    }

    /// Makes output fail with [`Failure::ClosedPipe`] after the reader closed stdout. Only commands
    /// that change nothing may call it.
    pub fn end_with_reader(&self) {
        self.ends_with_reader.store(true, Ordering::Relaxed);
    }

    pub fn is_json(&self) -> bool {
        self.json
    }

    pub fn is_terminal(&self) -> bool {
        self.to_terminal
    }

    /// Prints one result: a line of text, or a line of JSON.
    pub fn result(&self, text: impl Display, value: impl FnOnce() -> Value) -> Outcome {
        if self.json {
            self.print(format_args!("{}\n", value()))
        } else {
            self.print(format_args!("{text}\n"))
        }
    }

    /// Prints a line for people. JSON output omits it.
    pub fn note(&self, text: impl Display) -> Outcome {
        if self.json { Ok(()) } else { self.print(format_args!("{text}\n")) }
    }

    /// Prints a line of JSON in both output modes.
    pub fn json_line(&self, value: &Value) -> Outcome {
        self.print(format_args!("{value}\n"))
    }

    /// Writes bytes to stdout unchanged.
    pub fn write_bytes(&self, data: &[u8]) -> Outcome {
        self.write(|stdout| stdout.write_all(data))
    }

    /// Prints a stored value. Text mode writes the bytes unchanged, and on a terminal ends them
    /// with a line end. JSON mode puts the bytes into the field `key`.
    pub fn value(&self, data: &[u8], key: &str, fields: Map<String, Value>) -> Outcome {
        self.bytes(data, self.to_terminal, key, fields)
    }

    /// Prints the result of a method. Like [`Output::value`], but text always ends with a line end.
    pub fn method_result(&self, data: &[u8], key: &str, fields: Map<String, Value>) -> Outcome {
        let is_text = !data.is_empty() && std::str::from_utf8(data).is_ok();
        self.bytes(data, is_text || self.to_terminal, key, fields)
    }

    fn bytes(&self, data: &[u8], end_line: bool, key: &str, mut fields: Map<String, Value>) -> Outcome {
        if self.json {
            insert_bytes(&mut fields, key, data);
            return self.json_line(&Value::Object(fields));
        }
        self.write_bytes(data)?;
        if end_line && !data.ends_with(b"\n") { self.write_bytes(b"\n") } else { Ok(()) }
    }

    pub fn flush(&self) -> Outcome {
        self.write(Write::flush)
    }

    fn print(&self, text: std::fmt::Arguments<'_>) -> Outcome {
        self.write(|stdout| {
            stdout.write_fmt(text)?;
            if self.to_terminal { stdout.flush() } else { Ok(()) }
        })
    }

    fn write(&self, write: impl FnOnce(&mut BufWriter<Stdout>) -> io::Result<()>) -> Outcome {
        let mut stdout = self.stdout.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_closed.load(Ordering::Relaxed) {
            return Ok(());
        }
        match write(&mut stdout) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                if self.ends_with_reader.load(Ordering::Relaxed) {
                    return Err(Failure::ClosedPipe);
                }
                self.is_closed.store(true, Ordering::Relaxed);
                Ok(())
            }
            written => {
                written.map_err(|error| Error::io(Action::Write, "cannot write to stdout", error).into())
            }
        }
    }

    /// Prints the reason why the command failed.
    pub fn failure(&self, failure: &Failure) {
        match failure {
            Failure::ClosedPipe | Failure::Verdict(_) => {}
            Failure::Error(error) => self.error(error, None),
            _ => {
                let message = units::no_control(&failure.to_string());
                error_line(self.json, &message, failure.kind_name(), Map::new());
            }
        }
    }

    /// Prints the error of one item. `subject` names its object or file, where a command processes
    /// several.
    pub fn error(&self, error: &Error, subject: Option<&str>) {
        let mut fields = Map::new();
        if !error.op().is_empty() {
            fields.insert("op".to_owned(), json!(error.op()));
        }
        if let Some(subject) = subject {
            fields.insert("subject".to_owned(), json!(subject));
        }
        let context: Map<String, Value> = error.context().map(|(k, v)| (k.to_owned(), json!(v))).collect();
        if !context.is_empty() {
            fields.insert("context".to_owned(), Value::Object(context));
        }
        if let Some(source) = std::error::Error::source(error) {
            fields.insert("cause".to_owned(), json!(source.to_string()));
        }
        match subject {
            _ if self.json => error_line(true, &error.message(), error.kind().row().name, fields),
            Some(name) => {
                let message = format_error(error, subject);
                stderr_line(format_args!("benthic: {}: {message}", units::one_line(name)));
            }
            None => stderr_line(format_args!("benthic: {}", format_error(error, None))),
        }
    }

    /// Prints on stderr the cause and the length of the command's wait.
    pub fn waiting(&self, wait: &Wait, waited: Duration) {
        let message = format!("waiting for {}", units::no_control(&wait.to_string()));
        if self.json {
            let waiting = json!({ "for": wait.whom, "seconds": waited.as_secs(), "message": message });
            stderr_line(format_args!("{}", json!({ "waiting": waiting })));
        } else {
            stderr_line(format_args!("benthic: {message}"));
        }
    }

    /// Prints a warning, which does not change the exit status.
    pub fn warning(&self, message: impl Display) {
        if self.json {
            stderr_line(format_args!("{}", json!({ "warning": { "message": message.to_string() } })));
        } else {
            stderr_line(format_args!("benthic: warning: {message}"));
        }
    }
}

/// Formats an error for people. It omits the operation, which the user typed, and the subject,
/// which the line starts with.
fn format_error(error: &Error, subject: Option<&str>) -> String {
    let mut shown = Error::new(error.kind(), error.message());
    for (key, value) in error.context().filter(|(_, value)| Some(*value) != subject) {
        shown = shown.with(key, value);
    }
    match std::error::Error::source(error) {
        Some(source) => units::no_control(&format!("{shown}: {source}")),
        None => units::no_control(&shown.to_string()),
    }
}

/// Prints a failure to stderr. `fields` are additional fields for JSON output.
pub fn error_line(as_json: bool, message: &dyn Display, kind: &str, mut fields: Map<String, Value>) {
    if !as_json {
        return stderr_line(format_args!("benthic: {message}"));
    }
    fields.insert("kind".to_owned(), json!(kind));
    fields.insert("message".to_owned(), json!(message.to_string()));
    stderr_line(format_args!("{}", json!({ "error": fields })));
}

/// Prints a line to stderr, above the progress bar. It ignores errors because there is no place
/// left to report them.
fn stderr_line(line: std::fmt::Arguments<'_>) {
    #[cfg(feature = "cli")]
    return crate::progress::suspend_current(|| drop(writeln!(io::stderr().lock(), "{line}")));
    #[cfg(not(feature = "cli"))]
    drop(writeln!(io::stderr().lock(), "{line}"));
}

/// The JSON fields that identify an object.
pub fn object_fields(pool: &str, object: &ObjectId) -> Map<String, Value> {
    let mut fields = Map::new();
    fields.insert("pool".to_owned(), json!(pool));
    fields.insert("namespace".to_owned(), json!(object.namespace()));
    fields.insert("object".to_owned(), json!(object.name()));
    fields
}

/// The JSON of an object: the fields that identify it, and those of the JSON object `more`.
pub fn object_json(pool: &str, object: &ObjectId, more: Value) -> Value {
    let mut fields = object_fields(pool, object);
    if let Value::Object(more) = more {
        fields.extend(more);
    }
    Value::Object(fields)
}

/// Inserts bytes into a JSON object: as a string in `key` if they are UTF-8, otherwise in
/// hexadecimal in `key_hex`.
pub fn insert_bytes(fields: &mut Map<String, Value>, key: &str, data: &[u8]) {
    match std::str::from_utf8(data) {
        Ok(text) => fields.insert(key.to_owned(), json!(text)),
        Err(_) => fields.insert(format!("{key}_hex"), json!(units::hex(data))),
    };
}
