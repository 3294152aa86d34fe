//! Limits on the text of a statement. The query engine handles a statement recursively, so that a
//! deep one would need more stack than a thread has, and that would end the whole server.

use benthic_core::{Error, Result};
use benthic_sql::walk::{Part, walk};
use datafusion::sql::parser::DFParser;
use datafusion::sql::sqlparser::dialect::{Dialect, GenericDialect, PostgreSqlDialect};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

/// Maximum size of a statement.
const BYTES_MAX: usize = 1 << 20;
/// Limit on keywords and operators, each of which can make the statement deeper by one. The parser
/// itself limits parentheses.
const DEPTH_MAX: usize = 2_000;
/// Limit on the tables that a statement names.
const RELATIONS_MAX: usize = 500;

/// Checks that a statement is small enough to be planned.
///
/// # Errors
/// `LimitExceeded`.
pub fn check(sql: &str) -> Result<()> {
    limit("the statement is too long", sql.len(), BYTES_MAX)?;
    // The session and the catalog read a statement in different dialects.
    for dialect in [&GenericDialect {} as &dyn Dialect, &PostgreSqlDialect {}] {
        let depth = Tokenizer::new(dialect, sql).tokenize().map_or(0, |tokens| depth(&tokens));
        limit("the statement has too many keywords and operators", depth, DEPTH_MAX)?;
    }
    let mut relations = 0;
    for statement in DFParser::parse_sql(sql).unwrap_or_default() {
        walk(&statement, &mut |part| relations += usize::from(matches!(part, Part::Relation(_))));
    }
    limit("the statement names too many tables", relations, RELATIONS_MAX)
}

/// Numbers the parameters of a statement: `?` becomes `$1`, `$2` and so on, as the query engine
/// requires.
pub fn number_parameters(sql: &str) -> String {
    let is_unnumbered = |token: &Token| matches!(token, Token::Placeholder(name) if name == "?");
    let tokens = Tokenizer::new(&GenericDialect {}, sql).tokenize().unwrap_or_default();
    if !tokens.iter().any(is_unnumbered) {
        return sql.to_owned();
    }
    let mut number = 0;
    let text = tokens.iter().map(|token| {
        if is_unnumbered(token) {
            number += 1;
            format!("${number}")
        } else {
            token.to_string()
        }
    });
    text.collect()
}

fn limit(message: &'static str, found: usize, max: usize) -> Result<()> {
    if found <= max {
        return Ok(());
    }
    Err(Error::limit_exceeded(message).with("found", found).with("max", max))
}

/// The number of tokens that can make a statement deeper.
fn depth(tokens: &[Token]) -> usize {
    let is_flat = |token: &&Token| match token {
        Token::Word(word) => matches!(word.keyword, Keyword::NoKeyword | Keyword::AS),
        Token::Whitespace(_) | Token::Comma | Token::Period | Token::SemiColon | Token::Placeholder(_) => {
            true
        }
        Token::LParen | Token::RParen => true,
        Token::Number(..) | Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_) => true,
        _ => false,
    };
    tokens.iter().filter(|token| !is_flat(token)).count()
}
