//! A small lexer for types, columns and partitionings.

use crate::relations::quoted;
use benthic_core::{Error, Result};

/// A text that is consumed from the left.
pub(super) struct Lexer<'a> {
    whole: &'a str,
    rest: &'a str,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Lexer<'a> {
        Lexer { whole: text, rest: text.trim_start() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Consumes a character if it is next.
    pub(super) fn sign(&mut self, sign: char) -> bool {
        let rest = self.rest.strip_prefix(sign);
        self.rest = rest.map_or(self.rest, str::trim_start);
        rest.is_some()
    }

    /// Consumes a character that must be next.
    pub(super) fn expect(&mut self, sign: char) -> Result<()> {
        if self.sign(sign) { Ok(()) } else { Err(self.error(&format!("a '{sign}' is missing"))) }
    }

    /// Consumes a word if it is next, ignoring case.
    pub(super) fn word(&mut self, word: &str) -> bool {
        let is_next = self.plain().eq_ignore_ascii_case(word);
        if is_next {
            self.skip(word.len());
        }
        is_next
    }

    /// Consumes a keyword or number: letters, digits, `_`, `-` and `+`.
    pub(super) fn take(&mut self) -> &'a str {
        let word = self.plain();
        self.skip(word.len());
        word
    }

    /// Consumes a column name. A quoted name is between double quotes, and a double quote in it is
    /// doubled. An unquoted name ends at white space, a comma, a parenthesis or a double quote.
    pub(super) fn name(&mut self) -> Result<String> {
        let Some(quoted) = self.rest.strip_prefix('"') else {
            let end = self.rest.find(|c: char| c.is_whitespace() || "(),\"".contains(c));
            let name = &self.rest[..end.unwrap_or(self.rest.len())];
            self.skip(name.len());
            return match name.is_empty() {
                true => Err(self.error("a column's name is missing")),
                false => Ok(name.to_owned()),
            };
        };
        self.between(quoted, '"')
    }

    /// Consumes a text between single quotes. A single quote in it is doubled.
    pub(super) fn text(&mut self) -> Result<String> {
        match self.rest.strip_prefix('\'') {
            Some(quoted) => self.between(quoted, '\''),
            None => Err(self.error("a text in single quotes is missing")),
        }
    }

    fn between(&mut self, mut quoted: &'a str, quote: char) -> Result<String> {
        let mut text = String::new();
        loop {
            let Some((part, rest)) = quoted.split_once(quote) else {
                return Err(self.error("a quote is not closed"));
            };
            text.push_str(part);
            match rest.strip_prefix(quote) {
                Some(more) => {
                    text.push(quote);
                    quoted = more;
                }
                None => {
                    self.rest = rest.trim_start();
                    return Ok(text);
                }
            }
        }
    }

    fn plain(&self) -> &'a str {
        let end = self.rest.find(|c: char| !(c.is_ascii_alphanumeric() || "_-+".contains(c)));
        &self.rest[..end.unwrap_or(self.rest.len())]
    }

    fn skip(&mut self, len_bytes: usize) {
        self.rest = self.rest[len_bytes..].trim_start();
    }

    /// An error at the current position.
    pub(super) fn error(&self, message: &str) -> Error {
        let error = Error::invalid_argument(message).with("got", self.whole);
        if self.rest.is_empty() { error } else { error.with("at", self.rest) }
    }
}

/// Quotes a name if necessary, so that it can be parsed again.
pub(super) fn show_name(name: &str) -> String {
    let plain = |c: char| !(c.is_whitespace() || c.is_control() || "(),\"".contains(c));
    if !name.is_empty() && name.chars().all(plain) { name.to_owned() } else { quoted(name) }
}
