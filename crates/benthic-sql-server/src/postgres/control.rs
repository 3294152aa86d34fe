//! Statements about the session, which drivers send on their own: transactions, settings and
//! cursors. The server only reads, so transactions have no effect beyond their status and cursors.

use super::cursors::{self, Declare, Fetch};
use benthic_core::{Error, Result};
use std::collections::BTreeMap;
use std::time::Duration;

/// Limits on the settings that a client can store.
const SETTINGS_MAX: usize = 200;
const SETTING_BYTES_MAX: usize = 1_024;

/// A statement that is not a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// Nothing but blanks and comments.
    Empty,
    Begin,
    Commit,
    Rollback,
    Set(String, String),
    Show(String),
    /// Removes one prepared statement, or all.
    Deallocate(Option<String>),
    Declare(Declare),
    Fetch(Fetch),
    /// Closes one cursor, or all.
    Close(Option<String>),
    /// `SAVEPOINT`, `RELEASE` or `ROLLBACK TO`. The text is the tag of the answer.
    Savepoint(&'static str),
    /// Has no effect. The text is the tag of the answer.
    Nothing(&'static str),
}

/// Recognizes a statement that is not a query.
///
/// # Errors
/// `Unsupported` for a statement about a session that has an effect the server does not offer.
pub fn parse(sql: &str) -> Result<Option<Control>> {
    let sql = without_comments(sql).trim_end_matches(|c: char| c == ';' || c.is_whitespace());
    let mut words = sql.split(|c: char| c.is_whitespace() || c == ';').filter(|word| !word.is_empty());
    let first = words.next().unwrap_or_default();
    let (verb, after) = (first.to_uppercase(), &sql[first.len()..]);
    let rest: Vec<&str> = words.collect();
    let second = rest.first().map(|word| word.to_uppercase()).unwrap_or_default();
    Ok(Some(match verb.as_str() {
        "" => Control::Empty,
        "BEGIN" | "START" => Control::Begin,
        "COMMIT" | "END" => Control::Commit,
        "ABORT" => Control::Rollback,
        "ROLLBACK" if rest.iter().take(2).any(|word| word.eq_ignore_ascii_case("TO")) => {
            Control::Savepoint("ROLLBACK")
        }
        "ROLLBACK" => Control::Rollback,
        "SAVEPOINT" => Control::Savepoint("SAVEPOINT"),
        "RELEASE" => Control::Savepoint("RELEASE"),
        "SET" => set(sql)?,
        "RESET" => Control::Nothing("RESET"),
        "DISCARD" => Control::Nothing("DISCARD ALL"),
        "UNLISTEN" => Control::Nothing("UNLISTEN"),
        "DEALLOCATE" => {
            let name = rest.iter().rev().find(|word| !word.eq_ignore_ascii_case("PREPARE"));
            let name = name.filter(|name| !name.eq_ignore_ascii_case("ALL"));
            Control::Deallocate(name.map(|name| unquoted(name)))
        }
        // These are queries of the session.
        "SHOW" if matches!(second.as_str(), "TABLES" | "COLUMNS") => return Ok(None),
        "SHOW" => {
            let name = rest.join(" ");
            let name = if name.eq_ignore_ascii_case("TRANSACTION ISOLATION LEVEL") {
                "transaction_isolation".to_owned()
            } else {
                unquoted(&name).to_lowercase()
            };
            Control::Show(name)
        }
        "DECLARE" => Control::Declare(cursors::declare(after)?),
        "FETCH" | "MOVE" => Control::Fetch(cursors::fetch(after, verb == "MOVE")?),
        "CLOSE" => Control::Close(cursors::close(after)?),
        "LISTEN" | "NOTIFY" | "LOCK" | "PREPARE" | "EXECUTE" => {
            let message =
                format!("{verb} is not supported; use the protocol's prepared statements and portals");
            return Err(Error::unsupported(message));
        }
        _ => return Ok(None),
    }))
}

fn set(sql: &str) -> Result<Control> {
    let text = sql[3..].trim();
    let mut text = text;
    for scope in ["SESSION ", "LOCAL "] {
        if text.get(..scope.len()).is_some_and(|start| start.eq_ignore_ascii_case(scope)) {
            text = text[scope.len()..].trim();
        }
    }
    let starts = |word: &str| text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
    if starts("CHARACTERISTICS") || starts("TRANSACTION") || starts("AUTHORIZATION") {
        return Ok(Control::Nothing("SET"));
    }
    if starts("TIME ZONE") {
        return Ok(Control::Set("timezone".to_owned(), unquoted(text[9..].trim())));
    }
    let end = text.find(|c: char| c.is_whitespace() || c == '=').unwrap_or(text.len());
    let (name, value) = text.split_at(end);
    let value = value.trim_start();
    let value = value
        .strip_prefix('=')
        .or_else(|| value.get(..3).filter(|to| to.eq_ignore_ascii_case("TO ")).map(|_| &value[3..]));
    match value {
        Some(value) if !name.is_empty() => {
            Ok(Control::Set(unquoted(name).to_lowercase(), unquoted(value.trim())))
        }
        _ => Err(Error::invalid_argument("a setting must be SET name = value")),
    }
}

fn unquoted(word: &str) -> String {
    let bare = |quote: char| word.strip_prefix(quote).and_then(|word| word.strip_suffix(quote));
    bare('\'').or_else(|| bare('"')).unwrap_or(word).to_owned()
}

/// The text from the first word on.
pub fn without_comments(mut sql: &str) -> &str {
    loop {
        sql = sql.trim_start_matches(|c: char| c.is_whitespace() || c == ';');
        if let Some(comment) = sql.strip_prefix("--") {
            sql = comment.split_once('\n').map_or("", |(_, rest)| rest);
        } else if let Some(comment) = sql.strip_prefix("/*") {
            sql = comment.split_once("*/").map_or("", |(_, rest)| rest);
        } else {
            return sql;
        }
    }
}

/// The settings of a connection.
#[derive(Clone)]
pub struct SessionSettings(BTreeMap<String, String>);

/// The settings that clients read, and their values until a client sets them.
const DEFAULTS: [(&str, &str); 23] = [
    ("client_encoding", "UTF8"),
    ("datestyle", "ISO, MDY"),
    ("integer_datetimes", "on"),
    ("intervalstyle", "postgres"),
    ("server_encoding", "UTF8"),
    ("server_version", VERSION),
    ("standard_conforming_strings", "on"),
    ("timezone", "UTC"),
    ("application_name", ""),
    ("default_transaction_read_only", "on"),
    ("in_hot_standby", "on"),
    ("is_superuser", "off"),
    ("bytea_output", "hex"),
    ("default_transaction_isolation", "read committed"),
    ("extra_float_digits", "1"),
    ("max_identifier_length", "63"),
    ("max_index_keys", "32"),
    ("search_path", "\"$user\", public"),
    ("server_version_num", "150000"),
    ("statement_timeout", "0"),
    ("transaction_isolation", "read committed"),
    ("transaction_read_only", "on"),
    ("benthic.progress", "off"),
];

/// The version of Postgres whose catalog clients see.
pub const VERSION: &str = "15.0";

/// The names of parameters that the server reports, as clients compare them.
const REPORTED: [(&str, &str); 12] = [
    ("client_encoding", "client_encoding"),
    ("datestyle", "DateStyle"),
    ("integer_datetimes", "integer_datetimes"),
    ("intervalstyle", "IntervalStyle"),
    ("server_encoding", "server_encoding"),
    ("server_version", "server_version"),
    ("standard_conforming_strings", "standard_conforming_strings"),
    ("timezone", "TimeZone"),
    ("application_name", "application_name"),
    ("default_transaction_read_only", "default_transaction_read_only"),
    ("in_hot_standby", "in_hot_standby"),
    ("is_superuser", "is_superuser"),
];

impl Default for SessionSettings {
    fn default() -> SessionSettings {
        let values = DEFAULTS.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        SessionSettings(values.collect())
    }
}

impl SessionSettings {
    /// The settings that the server reports, with their names for clients.
    pub fn reported_settings(&self) -> impl Iterator<Item = (&'static str, &str)> {
        REPORTED.iter().filter_map(|(name, shown)| Some((*shown, self.0.get(*name)?.as_str())))
    }

    /// All settings and their values.
    pub fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Returns a value.
    ///
    /// # Errors
    /// `InvalidArgument` for a setting that does not exist.
    pub fn get(&self, name: &str) -> Result<&str> {
        self.0
            .get(&name.to_lowercase())
            .map(String::as_str)
            .ok_or_else(|| Error::invalid_argument("no such setting").with("setting", name))
    }

    /// Sets a value, and returns the setting's name for clients if the server reports it. The
    /// server accepts settings that it does not know, because drivers set many.
    ///
    /// # Errors
    /// `Unsupported` for another encoding than UTF-8; `LimitExceeded`.
    pub fn set(&mut self, name: &str, value: &str) -> Result<Option<&'static str>> {
        let name = name.to_lowercase();
        // Some clients quote values in the first message, too.
        let value = value.trim_matches('\'');
        let is_utf8 = ["UTF8", "UTF-8", "UNICODE", "SQL_ASCII"];
        match name.as_str() {
            "client_encoding" if !is_utf8.iter().any(|known| known.eq_ignore_ascii_case(value)) => {
                let message = "the server sends and takes only UTF-8";
                return Err(Error::unsupported(message).with("client_encoding", value));
            }
            // Rows are the same for all values of these, so clients must keep reading the defaults.
            "client_encoding"
            | "datestyle"
            | "intervalstyle"
            | "timezone"
            | "bytea_output"
            | "standard_conforming_strings"
            | "server_version" => return Ok(None),
            _ => {}
        }
        if (self.0.len() >= SETTINGS_MAX && !self.0.contains_key(&name))
            || name.len() + value.len() > SETTING_BYTES_MAX
        {
            return Err(Error::limit_exceeded("the settings are too many or too long"));
        }
        let reported = REPORTED.iter().find(|(known, _)| *known == name).map(|(_, shown)| *shown);
        self.0.insert(name, value.to_owned());
        Ok(reported)
    }

    /// The time limit that the client sets on its statements.
    pub fn statement_timeout(&self) -> Option<Duration> {
        let value = self.0.get("statement_timeout")?;
        let digits = value.trim_end_matches(|c: char| !c.is_ascii_digit());
        let unit_ms = match value[digits.len()..].trim() {
            "" | "ms" => 1,
            "s" => 1_000,
            "min" => 60_000,
            "h" => 3_600_000,
            _ => return None,
        };
        let time_ms = digits.parse::<u64>().ok()?.saturating_mul(unit_ms);
        (time_ms > 0).then(|| Duration::from_millis(time_ms))
    }

    /// Whether long queries report their progress.
    pub fn has_progress(&self) -> bool {
        self.0.get("benthic.progress").is_some_and(|value| matches!(value.as_str(), "on" | "true" | "1"))
    }
}

/// Splits a text into statements. Semicolons in quotes and comments do not end one.
pub fn statements(mut text: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        while !text.is_empty() {
            let (statement, rest) = split_statement(text);
            text = rest;
            if !without_comments(statement).is_empty() {
                return Some(statement);
            }
        }
        None
    })
}

/// The text before the first semicolon that ends a statement, and the text after it.
fn split_statement(text: &str) -> (&str, &str) {
    let bytes = text.as_bytes();
    let mut at = 0;
    let skip =
        |from: usize, end: &str| text[from..].find(end).map_or(text.len(), |len| from + len + end.len());
    while at < bytes.len() {
        at = match bytes[at] {
            b'\'' => {
                let escapes = at > 0 && matches!(bytes[at - 1], b'E' | b'e');
                let mut end = at + 1;
                while end < bytes.len() && bytes[end] != b'\'' {
                    end += if escapes && bytes[end] == b'\\' { 2 } else { 1 };
                }
                end + 1
            }
            b'"' => skip(at + 1, "\""),
            b'-' if bytes.get(at + 1) == Some(&b'-') => skip(at, "\n"),
            b'/' if bytes.get(at + 1) == Some(&b'*') => skip(at, "*/"),
            b'$' => {
                let tag = text[at + 1..].find(|c: char| !c.is_alphanumeric() && c != '_');
                match tag.filter(|len| bytes[at + 1 + len] == b'$') {
                    Some(len) if !bytes[at + 1].is_ascii_digit() => {
                        skip(at + len + 2, &text[at..at + len + 2])
                    }
                    _ => at + 1,
                }
            }
            b';' => return (&text[..at], &text[at + 1..]),
            _ => at + 1,
        };
    }
    (text, "")
}
