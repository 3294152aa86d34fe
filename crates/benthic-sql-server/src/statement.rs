//! Limits on the text of a statement. The query engine handles a statement recursively, so that a
//! deep one would need more stack than a thread has, and that would end the whole server.

use benthic_core::{Error, Result};
use benthic_sql::travel;
use benthic_sql::walk::{Part, walk, walk_statement};
use datafusion::sql::parser::DFParser;
use datafusion::sql::sqlparser::ast::{Ident, ObjectName, ObjectNamePart, Query};
use datafusion::sql::sqlparser::dialect::{Dialect, GenericDialect, PostgreSqlDialect};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};
use std::collections::HashMap;

/// Maximum size of a statement.
const BYTES_MAX: usize = 1 << 20;
/// Limit on keywords and operators, each of which can make the statement deeper by one. The parser
/// itself limits parentheses.
const DEPTH_MAX: usize = 2_000;
/// Limit on the tables in the plan of a statement.
const RELATIONS_MAX: usize = 500;

/// Checks that a statement is small enough to be planned.
///
/// # Errors
/// `LimitExceeded`; `InvalidArgument` for an invalid time in a clause of time travel.
pub fn check(sql: &str) -> Result<()> {
    limit("the statement is too long", sql.len(), BYTES_MAX)?;
    // The session and the catalog read a statement in different dialects.
    for dialect in [&GenericDialect {} as &dyn Dialect, &PostgreSqlDialect {}] {
        let depth = Tokenizer::new(dialect, sql).tokenize().map_or(0, |tokens| depth(&tokens));
        limit("the statement has too many keywords and operators", depth, DEPTH_MAX)?;
    }
    let mut relations = Relations::default();
    // The session parses the text without clauses of time travel, which the parser does not know.
    for statement in DFParser::parse_sql(&travel::rewrite(sql)?).unwrap_or_default() {
        walk(&statement, &mut |part| relations.add(&part));
    }
    limit("the statement names too many tables", relations.found, RELATIONS_MAX)?;
    let mut relations = Relations::default();
    for statement in Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap_or_default() {
        walk_statement(&statement, &mut |part| relations.add(&part));
    }
    limit("the statement names too many tables", relations.found, RELATIONS_MAX)
}

/// Counts the tables in the plan of a statement. The plan contains a common table expression as
/// often as its name is used, so few names can stand for very many tables.
#[derive(Default)]
struct Relations {
    found: usize,
    /// The queries around the current part, the innermost one last.
    open: Vec<OpenQuery>,
}

/// A query that is not completely counted.
struct OpenQuery {
    found: usize,
    /// The names of the common table expressions that are not counted yet, the next one last. They
    /// come before the other parts of the query.
    next: Vec<String>,
    /// The tables in each common table expression.
    counted: HashMap<String, usize>,
}

impl OpenQuery {
    fn new(query: &Query) -> OpenQuery {
        let tables = query.with.iter().flat_map(|with| &with.cte_tables).rev();
        let next = tables.map(|table| normalized(&table.alias.name)).collect();
        OpenQuery { found: 0, next, counted: HashMap::new() }
    }
}

impl Relations {
    fn add(&mut self, part: &Part) {
        match part {
            Part::Query(query) => self.open.push(OpenQuery::new(query)),
            Part::QueryEnd => {
                let found = self.open.pop().map_or(0, |query| query.found);
                if let Some(outer) = self.open.last_mut()
                    && let Some(name) = outer.next.pop()
                {
                    outer.counted.insert(name, found.max(1));
                }
                self.count(found);
            }
            Part::Relation(name) => self.count(self.tables_of(name)),
            _ => {}
        }
    }

    fn count(&mut self, tables: usize) {
        let found = self.open.last_mut().map_or(&mut self.found, |query| &mut query.found);
        *found = found.saturating_add(tables);
    }

    /// The tables that a name stands for.
    fn tables_of(&self, name: &ObjectName) -> usize {
        // The query engine compares names with their parts, as text.
        let parts: Vec<String> = name.0.iter().filter_map(ObjectNamePart::as_ident).map(normalized).collect();
        let name = parts.join(".");
        self.open.iter().rev().find_map(|query| query.counted.get(&name)).copied().unwrap_or(1)
    }
}

/// A name as the query engine compares it.
fn normalized(name: &Ident) -> String {
    match name.quote_style {
        Some(_) => name.value.clone(),
        None => name.value.to_ascii_lowercase(),
    }
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
