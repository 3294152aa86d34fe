//! The operators `->` and `->>` on texts in JSON, which are the functions `json_get` and
//! `json_as_text`.
//!
//! In the parser's generic dialect they bind less than comparisons, so `doc ->> 'kind' = 'push'`
//! would compare the key with the value. `||` binds as much as `*`, so `doc ->> 'n' || 1 + 2` would
//! add 2 to a text. In Postgres, all three bind more than comparisons and less than arithmetic, and
//! operators that bind as much as each other group from left to right ("Operator Precedence" in its
//! manual). The rules here do the same. Parentheses in the statement remain. Other operators, such
//! as those on bits, keep the parser's order.

use crate::walk::change_exprs;
use benthic_fragment::json;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{self, BinaryOperator, VisitMut};
use std::mem::replace;

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

/// Makes `->`, `->>` and `||` bind more than comparisons and less than arithmetic. Lambdas, which
/// also have arrows, must be rewritten before.
pub fn rewrite(statement: &mut Statement) {
    match statement {
        Statement::Explain(explain) => rewrite(&mut explain.statement),
        Statement::Statement(statement) => rewrite_in(&mut **statement),
        _ => {}
    }
}

/// The same in an expression, or another part of a statement.
pub fn rewrite_in(part: &mut impl VisitMut) {
    change_exprs(part, &mut bind);
}

/// Turns `doc -> (key = value)` without parentheses into `(doc -> key) = value`, and
/// `(value = doc) -> key` into `value = (doc -> key)`. Both operands are grouped correctly already,
/// but an operator of the second one may bind less than this operator.
fn bind(expr: &mut ast::Expr) {
    let ast::Expr::BinaryOp { left, op, right } = expr else { return };
    if level(op).is_none() {
        return;
    }
    let op = op.clone();
    let (mut left, mut right) = (take(left), take(right));
    let operands = take(first_compared(&mut right));
    let operand = last_compared(&mut left);
    *operand = regroup(take(operand), op, operands);
    *first_compared(&mut right) = left;
    *expr = right;
}

/// The operands and operators in the same order, grouped by the levels of the operators.
fn regroup(left: ast::Expr, op: BinaryOperator, right: ast::Expr) -> ast::Expr {
    let (mut first, mut rest) = (right, Vec::new());
    loop {
        match first {
            ast::Expr::BinaryOp { left, op: next, right }
                if level(&next).is_some_and(|next| Some(next) <= level(&op)) =>
            {
                rest.push((next, *right));
                first = *left;
            }
            other => {
                first = other;
                break;
            }
        }
    }
    rest.push((op, first));
    let mut all = left;
    for (op, operand) in rest.into_iter().rev() {
        let left = last_operand(&mut all, &op);
        *left = ast::Expr::BinaryOp { left: Box::new(take(left)), op, right: Box::new(operand) };
    }
    all
}

/// The left operand of an operator that follows an expression.
fn last_operand<'e>(mut expr: &'e mut ast::Expr, following: &BinaryOperator) -> &'e mut ast::Expr {
    loop {
        match expr {
            ast::Expr::BinaryOp { op, .. } if level(op).is_none_or(|op| Some(op) >= level(following)) => {
                return expr;
            }
            ast::Expr::BinaryOp { right, .. } => expr = right,
            other => return other,
        }
    }
}

/// How much an operator binds. `None` for those that keep the parser's groups.
fn level(op: &BinaryOperator) -> Option<u8> {
    use BinaryOperator as B;
    match op {
        B::Multiply | B::Divide | B::Modulo => Some(2),
        B::Plus | B::Minus => Some(1),
        B::Arrow | B::LongArrow | B::StringConcat => Some(0),
        _ => None,
    }
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
