//! Statements about cursors: `DECLARE`, `FETCH`, `MOVE` and `CLOSE`. A cursor is a portal with the
//! cursor's name, as in Postgres, because clients describe it with the message for portals. It only
//! moves forward, and ends with its transaction: anything else would need the rows in memory.
//!
//! The words before the query are read here, because the query is in the dialect of `benthic sql`.
//!
//! Source: Postgres' documentation, "DECLARE" and "FETCH".

use super::control::without_comments;
use benthic_core::{Error, Result};

/// `DECLARE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declare {
    pub name: String,
    pub is_binary: bool,
    pub query: String,
}

/// `FETCH` or `MOVE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetch {
    pub name: String,
    /// The number of rows; `None` for all that remain.
    pub rows: Option<u64>,
    /// Whether the rows are only skipped.
    pub is_move: bool,
}

impl Fetch {
    pub fn verb(&self) -> &'static str {
        if self.is_move { "MOVE" } else { "FETCH" }
    }
}

/// Reads `DECLARE` from the word after it on.
///
/// # Errors
/// `InvalidArgument` for another statement; `Unsupported` for a cursor that moves backward or
/// outlives its transaction.
pub fn declare(mut rest: &str) -> Result<Declare> {
    let name = name(word(&mut rest))?;
    let (mut is_binary, mut before) = (false, String::new());
    loop {
        let found = word(&mut rest).to_uppercase();
        match (before.as_str(), found.as_str()) {
            ("CURSOR" | "HOLD", "FOR") => break,
            (_, "BINARY") => is_binary = true,
            ("NO", "SCROLL") | ("WITHOUT", "HOLD") => {}
            (_, "ASENSITIVE" | "INSENSITIVE" | "NO" | "CURSOR" | "WITH" | "WITHOUT") => {}
            (_, "SCROLL") => {
                return Err(unsupported("a cursor only moves forward; declare it without SCROLL"));
            }
            ("WITH", "HOLD") => {
                return Err(unsupported("a cursor ends with its transaction; declare it without WITH HOLD"));
            }
            _ => return Err(invalid("a cursor must be DECLARE name CURSOR FOR query")),
        }
        before = found;
    }
    Ok(Declare { name, is_binary, query: rest.trim().to_owned() })
}

/// Reads `FETCH` or `MOVE` from the word after it on.
///
/// # Errors
/// As [`declare`].
pub fn fetch(mut rest: &str, is_move: bool) -> Result<Fetch> {
    let mut words = Vec::new();
    // The longest form has four words.
    while words.len() <= 4 {
        match word(&mut rest) {
            "" => break,
            found => words.push(found),
        }
    }
    let name = name(words.pop().unwrap_or_default())?;
    let mut words: Vec<String> = words.into_iter().map(str::to_uppercase).collect();
    words.pop_if(|last| matches!(last.as_str(), "FROM" | "IN"));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let rows = match words.as_slice() {
        [] | ["NEXT" | "FORWARD"] => Some(1),
        ["ALL"] | ["FORWARD", "ALL"] => None,
        [rows] | ["FORWARD", rows] => Some(rows.parse().unwrap_or(0)),
        _ => Some(0),
    };
    if rows == Some(0) {
        return Err(unsupported("a cursor only moves forward, by a number of rows or by ALL"));
    }
    Ok(Fetch { name, rows, is_move })
}

/// Reads `CLOSE` from the word after it on. Returns the cursor's name; `None` for all cursors.
///
/// # Errors
/// `InvalidArgument` for another statement.
pub fn close(mut rest: &str) -> Result<Option<String>> {
    let found = word(&mut rest);
    if !word(&mut rest).is_empty() {
        return Err(invalid("a cursor is closed with CLOSE name"));
    }
    if found.eq_ignore_ascii_case("ALL") { Ok(None) } else { name(found).map(Some) }
}

/// Takes the next word, or the next name in double quotes; empty at the end.
fn word<'s>(rest: &mut &'s str) -> &'s str {
    let text = without_comments(rest);
    let end = match text.strip_prefix('"') {
        Some(quoted) => quoted.find('"').map(|len| len + 2),
        None => text.find(|c: char| c.is_whitespace() || c == ';'),
    };
    let (found, after) = text.split_at(end.unwrap_or(text.len()));
    *rest = after;
    found
}

/// The name of a cursor, which is lower case without quotes.
fn name(word: &str) -> Result<String> {
    let quoted = word.strip_prefix('"').map(|rest| rest.strip_suffix('"').unwrap_or_default());
    let is_name = |word: &str| word.chars().all(|c| c.is_alphanumeric() || c == '_');
    match quoted {
        Some(name) if !name.is_empty() => Ok(name.to_owned()),
        None if !word.is_empty() && is_name(word) => Ok(word.to_lowercase()),
        _ => Err(invalid("the name of the cursor is missing or invalid")),
    }
}

fn invalid(message: &str) -> Error {
    Error::invalid_argument(message)
}

fn unsupported(message: &str) -> Error {
    Error::unsupported(message)
}

#[cfg(test)]
#[path = "cursors_tests.rs"]
mod tests;
