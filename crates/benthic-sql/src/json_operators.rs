//! The operators `->` and `->>` on texts in JSON, which are the functions `json_get` and
//! `json_as_text`.
//!
//! In the parser's generic dialect they bind less than comparisons and `||`, so
//! `doc ->> 'kind' = 'push'` would compare the key with the value. Postgres reads it as
//! `(doc ->> 'kind') = 'push'`, and so do the rules here. Parentheses in the statement remain.

use benthic_fragment::json;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{self, BinaryOperator, visit_expressions_mut};
use std::mem::replace;
use std::ops::ControlFlow;

/// Plans the operators.
#[derive(Debug)]
pub struct JsonOperators;

impl ExprPlanner for JsonOperators {
    fn plan_binary_op(&self, expr: RawBinaryExpr, _: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let name = match expr.op {
            BinaryOperator::Arrow => json::GET,
            BinaryOperator::LongArrow => json::AS_TEXT,
            _ => return Ok(PlannerResult::Original(expr)),
        };
        let Some(func) = json::functions().into_iter().find(|function| function.name() == name) else {
            return Ok(PlannerResult::Original(expr));
        };
        // A path of several steps is one call, so that the values between are not built.
        let mut args = match expr.left {
            Expr::ScalarFunction(call)
                if call.func.name() == json::GET && call.args.len() <= json::STEPS_MAX =>
            {
                call.args
            }
            left => vec![left],
        };
        args.push(expr.right);
        Ok(PlannerResult::Planned(Expr::ScalarFunction(ScalarFunction { func, args })))
    }
}

/// Makes the operators bind more than comparisons, and as much as `||`. Lambdas, which also have
/// arrows, must be rewritten before.
pub fn rewrite(statement: &mut Statement) {
    match statement {
        Statement::Explain(explain) => rewrite(&mut explain.statement),
        Statement::Statement(statement) => {
            let _ = visit_expressions_mut(&mut **statement, |expr| {
                bind(expr);
                ControlFlow::<()>::Continue(())
            });
        }
        _ => {}
    }
}

/// Turns `doc -> (key = value)` without parentheses into `(doc -> key) = value`, and
/// `(value = doc) -> key` into `value = (doc -> key)`.
fn bind(expr: &mut ast::Expr) {
    use BinaryOperator::{Arrow, LongArrow};
    let ast::Expr::BinaryOp { left, op: op @ (Arrow | LongArrow), right } = expr else { return };
    let op = op.clone();
    let (mut left, mut right) = (take(left), take(right));
    let mut joined = take(first_compared(&mut right));
    let key = first_joined(&mut joined);
    let doc = last_compared(&mut left);
    *key = ast::Expr::BinaryOp { left: Box::new(take(doc)), op, right: Box::new(take(key)) };
    *doc = joined;
    *first_compared(&mut right) = left;
    *expr = right;
}

fn take(expr: &mut ast::Expr) -> ast::Expr {
    replace(expr, ast::Expr::Wildcard(ast::helpers::attached_token::AttachedToken::empty()))
}

/// The first operand of a comparison, which may be the first operand of another one; any other
/// expression itself.
fn first_compared(mut expr: &mut ast::Expr) -> &mut ast::Expr {
    use ast::Expr as E;
    loop {
        match expr {
            E::BinaryOp { op, .. } if !is_comparison(op) => return expr,
            E::BinaryOp { left: first, .. } => expr = first,
            E::IsNull(first)
            | E::IsNotNull(first)
            | E::IsTrue(first)
            | E::IsNotTrue(first)
            | E::IsFalse(first)
            | E::IsNotFalse(first)
            | E::IsUnknown(first)
            | E::IsNotUnknown(first)
            | E::IsDistinctFrom(first, _)
            | E::IsNotDistinctFrom(first, _)
            | E::InList { expr: first, .. }
            | E::InSubquery { expr: first, .. }
            | E::Between { expr: first, .. }
            | E::Like { expr: first, .. }
            | E::ILike { expr: first, .. }
            | E::SimilarTo { expr: first, .. } => expr = first,
            other => return other,
        }
    }
}

/// The last operand of a comparison, or any other expression itself.
fn last_compared(mut expr: &mut ast::Expr) -> &mut ast::Expr {
    use ast::Expr as E;
    loop {
        match expr {
            E::BinaryOp { op, .. } if !is_comparison(op) => return expr,
            E::BinaryOp { right: last, .. } => expr = last,
            E::Between { high: last, .. }
            | E::Like { pattern: last, escape_char: None, .. }
            | E::ILike { pattern: last, escape_char: None, .. }
            | E::SimilarTo { pattern: last, escape_char: None, .. } => expr = last,
            other => return other,
        }
    }
}

/// The first operand of `||`, or any other expression itself.
fn first_joined(mut expr: &mut ast::Expr) -> &mut ast::Expr {
    loop {
        match expr {
            ast::Expr::BinaryOp { left, op: BinaryOperator::StringConcat, .. } => expr = left,
            other => return other,
        }
    }
}

fn is_comparison(op: &BinaryOperator) -> bool {
    use BinaryOperator as B;
    matches!(
        op,
        B::Eq
            | B::NotEq
            | B::Lt
            | B::LtEq
            | B::Gt
            | B::GtEq
            | B::PGRegexMatch
            | B::PGRegexIMatch
            | B::PGRegexNotMatch
            | B::PGRegexNotIMatch
    )
}
