//! The operators `->` and `->>` on texts in JSON, which are the functions `json_get` and
//! `json_as_text`.
//!
//! In the parser's generic dialect they bind less than comparisons, so `doc ->> 'kind' = 'push'`
//! would compare the key with the value. Postgres reads it as `(doc ->> 'kind') = 'push'`, and so
//! do the rules here. Parentheses in the statement remain.

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

/// Makes the operators bind more than comparisons. Lambdas, which also have arrows, must be
/// rewritten before.
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

/// Turns `doc -> (key = value)` without parentheses into `(doc -> key) = value`.
fn bind(expr: &mut ast::Expr) {
    let ast::Expr::BinaryOp { left, op: op @ (BinaryOperator::Arrow | BinaryOperator::LongArrow), right } =
        expr
    else {
        return;
    };
    let Some(key) = first_operand(right) else { return };
    let key_of = |key| ast::Expr::BinaryOp { left: left.clone(), op: op.clone(), right: Box::new(key) };
    let placeholder = ast::Expr::Wildcard(ast::helpers::attached_token::AttachedToken::empty());
    let bound = key_of(replace(key, placeholder));
    *key = bound;
    let comparison = (**right).clone();
    *expr = comparison;
}

/// The first operand of a comparison.
fn first_operand(expr: &mut ast::Expr) -> Option<&mut ast::Expr> {
    use ast::Expr as E;
    let first = match expr {
        E::BinaryOp { left, op, .. } if is_comparison(op) => left,
        E::IsNull(first)
        | E::IsNotNull(first)
        | E::IsTrue(first)
        | E::IsNotTrue(first)
        | E::IsFalse(first)
        | E::IsNotFalse(first)
        | E::IsDistinctFrom(first, _)
        | E::IsNotDistinctFrom(first, _)
        | E::InList { expr: first, .. }
        | E::InSubquery { expr: first, .. }
        | E::Between { expr: first, .. }
        | E::Like { expr: first, .. }
        | E::ILike { expr: first, .. }
        | E::SimilarTo { expr: first, .. } => first,
        _ => return None,
    };
    // A comparison may be the first operand of another one.
    match first_operand(first) {
        Some(_) => first_operand(first),
        None => Some(first),
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
