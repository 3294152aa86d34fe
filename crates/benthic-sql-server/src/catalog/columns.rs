//! The columns of SELECTs: their names and aggregates.

use super::ast::{call, null, parts, unused};
use benthic_sql::walk::{Part, walk_expr};
use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Ident, Query, SelectItem, SetExpr, UnaryOperator, Value,
};
use std::collections::BTreeSet;
use std::mem;

/// Makes a scalar subquery an aggregate, as the query engine requires: the greatest value of at
/// most one row is this value.
pub fn at_most_one_row(query: &mut Query) {
    let SetExpr::Select(select) = &mut *query.body else { return };
    let groups = !matches!(&select.group_by, GroupByExpr::Expressions(by, _) if by.is_empty());
    if groups || select.from.is_empty() || select.projection.iter().any(has_aggregate) {
        return;
    }
    if let [SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }] =
        &mut select.projection[..]
    {
        let value = mem::replace(expr, null());
        *expr = call("max", value);
        query.limit_clause = None;
        query.order_by = None;
    }
}

/// Whether a column of a SELECT calls an aggregate function, not counting its subqueries.
pub fn has_aggregate(item: &SelectItem) -> bool {
    const AGGREGATES: [&str; 9] =
        ["count", "max", "min", "sum", "avg", "array_agg", "string_agg", "bool_and", "bool_or"];
    let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else { return false };
    let (mut found, mut depth) = (false, 0);
    walk_expr(expr, &mut |part| match part {
        Part::Query(_) => depth += 1,
        Part::QueryEnd => depth -= 1,
        Part::Expr(Expr::Function(function)) if depth == 0 => {
            found |= AGGREGATES.contains(&parts(&function.name).1.as_str());
        }
        _ => {}
    });
    found
}

/// The name that Postgres gives a column.
pub fn column_name(item: &SelectItem) -> String {
    fn of(expr: &Expr) -> String {
        match expr {
            Expr::Identifier(ident) => ident.value.clone(),
            Expr::CompoundIdentifier(idents) => {
                idents.last().map(|ident| ident.value.clone()).unwrap_or_default()
            }
            Expr::Function(function) => parts(&function.name).1,
            Expr::Cast { expr, .. } | Expr::Nested(expr) | Expr::UnaryOp { op: UnaryOperator::Not, expr } => {
                of(expr)
            }
            Expr::Case { .. } => "case".to_owned(),
            Expr::Value(value) if matches!(value.value, Value::Boolean(_)) => "bool".to_owned(),
            _ => "?column?".to_owned(),
        }
    }
    match item {
        SelectItem::UnnamedExpr(expr) => of(expr),
        SelectItem::ExprWithAlias { alias, .. } => alias.value.clone(),
        other => other.to_string(),
    }
}

/// Names the columns of the answer as Postgres does, and each in another way, as the query engine
/// requires.
pub fn name_columns(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) => {
            let mut used = BTreeSet::new();
            for item in &mut select.projection {
                let name = column_name(item);
                let unused = unused(&name, &mut used);
                let is_name = |expr: &Expr| matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
                match item {
                    SelectItem::UnnamedExpr(expr) if !is_name(expr) || unused != name => {
                        let expr = mem::replace(expr, null());
                        *item = SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', unused) };
                    }
                    SelectItem::ExprWithAlias { alias, .. } if unused != name => alias.value = unused,
                    _ => {}
                }
            }
        }
        SetExpr::Query(query) => name_columns(&mut query.body),
        SetExpr::SetOperation { left, .. } => name_columns(left),
        _ => {}
    }
}
