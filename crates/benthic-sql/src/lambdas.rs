//! Lambdas in calls of functions, such as `array_filter(jets, j -> j.pt > 30)`.
//!
//! The parser knows lambdas only in dialects that also change other syntax. In the generic dialect,
//! `->` is an operator, which DataFusion does not have. It binds less than comparisons and more
//! than `AND`. So an argument of a function that takes lambdas is a lambda if its leftmost operand
//! is `name -> …`, and the rest of the argument is the lambda's body. In other functions, `->`
//! reads a value out of a text in JSON. DataFusion also does not plan `j.pt` for the parameter `j`,
//! so it becomes `j['pt']`. It has no function that is true if all elements match: no element may
//! match the opposite condition.

use crate::walk::change_exprs;
use datafusion::logical_expr::HigherOrderUDF;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, LambdaFunction,
    LambdaFunctionParameter, LambdaSyntax, ObjectName, OneOrManyWithParens, Subscript, UnaryOperator, Value,
    VisitMut,
};
use std::collections::HashMap;
use std::mem::replace;
use std::sync::Arc;

/// The names of the function that is true if all elements match, and the function that is true if
/// any does.
const ALL_MATCH: [&str; 3] = ["all_match", "array_all_match", "list_all_match"];
const ANY_MATCH: &str = "array_any_match";

/// The functions that take lambdas, by name.
type Functions = HashMap<String, Arc<HigherOrderUDF>>;

/// Turns arguments of the form `name -> expression` of these functions into lambdas.
pub fn rewrite(statement: &mut Statement, functions: &Functions) {
    match statement {
        Statement::Explain(explain) => rewrite(&mut explain.statement, functions),
        Statement::Statement(statement) => rewrite_in(&mut **statement, functions),
        _ => {}
    }
}

/// The same in an expression, or another part of a statement.
pub fn rewrite_in(part: &mut impl VisitMut, functions: &Functions) {
    change_exprs(part, &mut |expr| rewrite_call(expr, functions));
}

fn rewrite_call(expr: &mut Expr, functions: &Functions) {
    let Expr::Function(function) = expr else { return };
    let is_all = is_one(&function.name, |name| ALL_MATCH.contains(&name));
    if is_all {
        function.name = ObjectName::from(Ident::new(ANY_MATCH));
    }
    if !is_one(&function.name, |name| functions.contains_key(name)) {
        return;
    }
    let FunctionArguments::List(list) = &mut function.args else { return };
    for arg in &mut list.args {
        let FunctionArg::Unnamed(FunctionArgExpr::Expr(body)) = arg else { continue };
        let Some(name) = take_parameter(body) else { continue };
        change_exprs(body, &mut |expr| rewrite_field(expr, &name));
        let body = replace(body, Expr::Identifier(name.clone()));
        let body = if is_all { opposite(body) } else { body };
        *arg = FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Lambda(LambdaFunction {
            params: OneOrManyWithParens::One(LambdaFunctionParameter { name, data_type: None }),
            body: Box::new(body),
            syntax: LambdaSyntax::Arrow,
        })));
    }
    if is_all {
        let any = replace(expr, Expr::Identifier(Ident::new(ANY_MATCH)));
        *expr = opposite(any);
    }
}

/// The opposite of a condition, as one operand.
fn opposite(condition: Expr) -> Expr {
    let expr = Box::new(Expr::Nested(Box::new(condition)));
    Expr::Nested(Box::new(Expr::UnaryOp { op: UnaryOperator::Not, expr }))
}

/// Whether a function has one of these names.
fn is_one(name: &ObjectName, names: impl Fn(&str) -> bool) -> bool {
    let [name] = &name.0[..] else { return false };
    name.as_ident().is_some_and(|name| names(&normal(name)))
}

/// Removes `name ->` from the left end of an expression, and returns the name.
fn take_parameter(expr: &mut Expr) -> Option<Ident> {
    let Expr::BinaryOp { left, op, right } = expr else { return None };
    match (&**left, &*op) {
        (Expr::Identifier(name), BinaryOperator::Arrow) => {
            let name = name.clone();
            let right = replace(&mut **right, Expr::Identifier(name.clone()));
            *expr = right;
            Some(name)
        }
        _ => take_parameter(left),
    }
}

fn rewrite_field(expr: &mut Expr, parameter: &Ident) {
    let Expr::CompoundIdentifier(names) = expr else { return };
    let [first, fields @ ..] = &names[..] else { return };
    if normal(first) != normal(parameter) {
        return;
    }
    let field = |name: &Ident| {
        let name = Expr::Value(Value::SingleQuotedString(normal(name)).into());
        AccessExpr::Subscript(Subscript::Index { index: name })
    };
    *expr = Expr::CompoundFieldAccess {
        root: Box::new(Expr::Identifier(first.clone())),
        access_chain: fields.iter().map(field).collect(),
    };
}

/// The name as the planner reads it.
fn normal(name: &Ident) -> String {
    if name.quote_style.is_some() { name.value.clone() } else { name.value.to_lowercase() }
}
