//! Pieces of SQL, mostly written as text and parsed, which is shorter than building them.

use benthic_sql::relations::quoted;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectName, Query, SetExpr, Statement,
    TableAlias, TableFactor, Value,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::ops::ControlFlow;

/// Lets a visitor go on.
pub const CONTINUE: ControlFlow<Infallible> = ControlFlow::Continue(());

/// The last part of a name, and the schema before it.
pub fn parts(name: &ObjectName) -> (Option<String>, String) {
    let mut parts: Vec<String> = name
        .0
        .iter()
        .map(|part| part.as_ident().map_or_else(|| part.to_string(), |ident| ident.value.to_lowercase()))
        .collect();
    let last = parts.pop().unwrap_or_default();
    (parts.pop(), last)
}

/// Whether the rewriting has emptied all parts of a query.
pub fn is_empty(query: &Query) -> bool {
    fn of(body: &SetExpr) -> bool {
        match body {
            SetExpr::Select(select) => {
                select.from.is_empty()
                    && matches!(&select.selection, Some(Expr::Value(value)) if value.value == Value::Boolean(false))
            }
            SetExpr::Query(query) => of(&query.body),
            SetExpr::SetOperation { left, right, .. } => of(left) && of(right),
            _ => false,
        }
    }
    of(&query.body)
}

/// A query without rows.
pub fn empty_query(columns: &[String]) -> Query {
    let mut used = BTreeSet::new();
    let columns = columns.iter().map(|name| format!("NULL AS {}", quoted(&unused(name, &mut used))));
    let columns: Vec<String> = columns.collect();
    parse_query(&format!("SELECT {} WHERE false", columns.join(", ")))
}

/// A name that no other column has.
pub fn unused(name: &str, used: &mut BTreeSet<String>) -> String {
    let mut unused = name.to_owned();
    while !used.insert(unused.clone()) {
        unused.push('_');
    }
    unused
}

/// Parses a query that this file has written.
pub fn parse_query(sql: &str) -> Query {
    let parsed = Parser::parse_sql(&PostgreSqlDialect {}, sql).ok().and_then(|mut parsed| parsed.pop());
    match parsed {
        Some(Statement::Query(query)) => *query,
        _ => unreachable!("this file writes valid SQL: {sql}"),
    }
}

/// Parses an expression that this module has written.
fn parse_expr(sql: &str) -> Expr {
    let parsed =
        Parser::new(&PostgreSqlDialect {}).try_with_sql(sql).and_then(|mut parser| parser.parse_expr());
    parsed.unwrap_or_else(|_| unreachable!("this file writes valid SQL: {sql}"))
}

/// NULL.
pub fn null() -> Expr {
    Expr::Value(Value::Null.into())
}

/// TRUE or FALSE.
pub fn literal(value: bool) -> Expr {
    Expr::Value(Value::Boolean(value).into())
}

/// A call of a function with one argument.
pub fn call(name: &str, argument: Expr) -> Expr {
    with_first(&format!("{name}(NULL)"), argument)
}

/// The call that `template` is, with `argument` in place of its first argument.
pub fn with_first(template: &str, argument: Expr) -> Expr {
    let mut call = parse_expr(template);
    if let Expr::Function(Function { args: FunctionArguments::List(list), .. }) = &mut call
        && let Some(first) = list.args.first_mut()
    {
        *first = FunctionArg::Unnamed(FunctionArgExpr::Expr(argument));
    }
    call
}

/// A call of a function with two arguments.
pub fn call_with_two(name: &str, arguments: [Expr; 2]) -> Expr {
    let mut call = parse_expr(&format!("{name}(NULL, NULL)"));
    if let Expr::Function(Function { args: FunctionArguments::List(list), .. }) = &mut call {
        list.args = arguments.map(|argument| FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))).into();
    }
    call
}

/// The arguments of a call without arguments.
pub fn call_without_arguments() -> FunctionArguments {
    match parse_expr("version()") {
        Expr::Function(function) => function.args,
        _ => FunctionArguments::None,
    }
}

/// An alias of a table.
pub fn table_alias(name: &str) -> TableAlias {
    let query = parse_query(&format!("SELECT 1 FROM x AS {}", quoted(name)));
    match *query.body {
        SetExpr::Select(mut select) => match select.from.pop().map(|from| from.relation) {
            Some(TableFactor::Table { alias: Some(alias), .. }) => alias,
            _ => unreachable!("the query has a table with an alias"),
        },
        _ => unreachable!("the query is a SELECT"),
    }
}
