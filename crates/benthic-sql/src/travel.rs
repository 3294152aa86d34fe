//! Time travel: `POOL.TABLE FOR VERSION AS OF 7`, `FOR VERSION AS OF 'TAG'` and
//! `FOR TIMESTAMP AS OF '2026-01-31 12:00'`.
//!
//! The parser does not know these clauses in this dialect. So they become a part of the table's
//! name before the text is parsed: `POOL."TABLE:v7" AS TABLE`. No table has a `:` in its name.

use crate::relations::quoted;
use arrow::compute::kernels::cast_utils::string_to_timestamp_nanos;
use benthic_core::{Error, Result};
use benthic_table::SnapshotSelector;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::{Keyword, RESERVED_FOR_TABLE_ALIAS};
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer, Word};

/// Replaces the clauses in a text. A text without them, or one that cannot be read, stays as it is.
///
/// # Errors
/// `InvalidArgument` for an invalid time.
pub fn rewrite(sql: &str) -> Result<String> {
    if !sql.to_uppercase().contains("OF") {
        return Ok(sql.to_owned());
    }
    let Ok(tokens) = Tokenizer::new(&GenericDialect {}, sql).tokenize() else { return Ok(sql.to_owned()) };
    let (mut text, mut at) = (String::with_capacity(sql.len()), 0);
    while at < tokens.len() {
        let name = match &tokens[at] {
            Token::Word(name) => clause_after(&tokens, at + 1)?.map(|clause| (name, clause)),
            _ => None,
        };
        let Some((name, (suffix, end))) = name else {
            text.push_str(&tokens[at].to_string());
            at += 1;
            continue;
        };
        let table = match name.quote_style {
            Some(_) => name.value.clone(),
            None => name.value.to_lowercase(),
        };
        text.push_str(&quoted(&format!("{table}:{suffix}")));
        if !has_alias(&tokens[end..]) {
            text.push_str(&format!(" AS {}", quoted(&table)));
        }
        at = end;
    }
    Ok(text)
}

/// The table's own name and the selected snapshot, for a name as [`rewrite`] makes it.
pub fn selector(name: &str) -> (&str, SnapshotSelector) {
    let Some((table, suffix)) = name.split_once(':') else { return (name, SnapshotSelector::Current) };
    let selector = match suffix.split_at_checked(1) {
        Some(("v", id)) => match id.parse() {
            Ok(id) => SnapshotSelector::Id(id),
            Err(_) => SnapshotSelector::Tag(id.to_owned()),
        },
        Some(("t", time)) => SnapshotSelector::TimeMs(time.parse().unwrap_or(0)),
        _ => SnapshotSelector::Tag(suffix.to_owned()),
    };
    (table, selector)
}

/// The suffix for the clause that begins at a token, and the first token after the clause.
fn clause_after(tokens: &[Token], start: usize) -> Result<Option<(String, usize)>> {
    let mut words = Significant { tokens, at: start };
    let mut kind = words.next();
    if is_keyword(kind, Keyword::FOR) {
        kind = words.next();
    }
    let is_version = is_keyword(kind, Keyword::VERSION);
    let is_time = is_keyword(kind, Keyword::TIMESTAMP) || is_keyword(kind, Keyword::SYSTEM_TIME);
    if !(is_version || is_time)
        || !is_keyword(words.next(), Keyword::AS)
        || !is_keyword(words.next(), Keyword::OF)
    {
        return Ok(None);
    }
    let mut value = words.next();
    if is_time && is_keyword(value, Keyword::TIMESTAMP) {
        value = words.next();
    }
    let suffix = match value {
        Some(Token::Number(number, _)) if is_version => format!("v{number}"),
        Some(Token::SingleQuotedString(tag)) if is_version => format!("v{tag}"),
        Some(Token::SingleQuotedString(time)) if is_time => format!("t{}", time_ms(time)?),
        _ => {
            let message = "write FOR VERSION AS OF 7, FOR VERSION AS OF 'TAG', or FOR TIMESTAMP AS OF '2026-01-31 12:00'";
            return Err(Error::invalid_argument(message));
        }
    };
    Ok(Some((suffix, words.at)))
}

fn time_ms(text: &str) -> Result<u64> {
    // Arrow's parser needs the seconds.
    let time = string_to_timestamp_nanos(text).or_else(|_| string_to_timestamp_nanos(&format!("{text}:00")));
    let time = time.map_err(|error| {
        let message = "not a time; write it as '2026-01-31 12:00', in UTC, or with a zone";
        Error::invalid_argument(message).with("time", text).with_source(error)
    })?;
    Ok(u64::try_from(time.div_euclid(1_000_000)).unwrap_or(0))
}

/// Whether the next token is an alias of the table before it.
fn has_alias(tokens: &[Token]) -> bool {
    match (Significant { tokens, at: 0 }).next() {
        Some(Token::Word(Word { keyword, .. })) => {
            *keyword == Keyword::AS || !RESERVED_FOR_TABLE_ALIAS.contains(keyword)
        }
        _ => false,
    }
}

fn is_keyword(token: Option<&Token>, wanted: Keyword) -> bool {
    matches!(token, Some(Token::Word(Word { keyword, quote_style: None, .. })) if *keyword == wanted)
}

/// The tokens without blanks and comments.
struct Significant<'t> {
    tokens: &'t [Token],
    at: usize,
}

impl<'t> Iterator for Significant<'t> {
    type Item = &'t Token;

    fn next(&mut self) -> Option<&'t Token> {
        loop {
            let token = self.tokens.get(self.at)?;
            self.at += 1;
            if !matches!(token, Token::Whitespace(_)) {
                return Some(token);
            }
        }
    }
}
