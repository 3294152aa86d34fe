//! Walks over the syntax tree of a statement.
//!
//! The parser's walk is generic over its visitor: each visitor adds thousands of functions, which
//! take seconds to compile. So callers share two walks, one that reads and one that changes
//! expressions, and pass closures to them.

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    self, Expr, ObjectName, Query, TableFactor, Visit, VisitMut, Visitor, visit_expressions_mut,
};
use std::convert::Infallible;
use std::ops::ControlFlow;

/// A part of a statement.
pub enum Part<'a> {
    Query(&'a Query),
    /// The end of the query that began last.
    QueryEnd,
    Relation(&'a ObjectName),
    TableFactor(&'a TableFactor),
    Expr(&'a Expr),
}

/// Calls `visit` for each part of a statement that reads, the outer parts first.
pub fn walk(statement: &Statement, visit: &mut dyn FnMut(Part)) {
    match statement {
        Statement::Explain(explain) => walk(&explain.statement, visit),
        Statement::Statement(statement) => walk_statement(statement, visit),
        // These statements do not read.
        Statement::CreateExternalTable(_) | Statement::CopyTo(_) | Statement::Reset(_) => {}
    }
}

/// [`walk`] for a statement of the parser.
pub fn walk_statement(statement: &ast::Statement, visit: &mut dyn FnMut(Part)) {
    let _ = Visit::visit(statement, &mut Walk(visit));
}

/// [`walk`] for an expression.
pub fn walk_expr(expr: &Expr, visit: &mut dyn FnMut(Part)) {
    let _ = Visit::visit(expr, &mut Walk(visit));
}

/// Calls `change` for each expression in a part of a statement, the inner ones first.
pub fn change_exprs(part: &mut impl VisitMut, change: &mut dyn FnMut(&mut Expr)) {
    type Change<'a> = &'a mut dyn FnMut(&mut Expr) -> ControlFlow<Infallible>;
    let change: Change = &mut |expr| {
        change(expr);
        ControlFlow::Continue(())
    };
    let _ = visit_expressions_mut(part, change);
}

struct Walk<'a>(&'a mut dyn FnMut(Part));

impl Walk<'_> {
    fn visit(&mut self, part: Part) -> ControlFlow<Infallible> {
        (self.0)(part);
        ControlFlow::Continue(())
    }
}

impl Visitor for Walk<'_> {
    type Break = Infallible;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Infallible> {
        self.visit(Part::Query(query))
    }

    fn post_visit_query(&mut self, _query: &Query) -> ControlFlow<Infallible> {
        self.visit(Part::QueryEnd)
    }

    fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<Infallible> {
        self.visit(Part::Relation(name))
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<Infallible> {
        self.visit(Part::TableFactor(factor))
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Infallible> {
        self.visit(Part::Expr(expr))
    }
}
