//! Lambdas in calls of functions, such as `array_filter(jets, j -> j.pt > 30)`.
//!
//! The parser knows lambdas only in dialects that also change other syntax. In the generic dialect,
//! `->` is an operator, which DataFusion does not have. It binds less than comparisons and more
//! than `AND`. So an argument of a function that takes lambdas is a lambda if its leftmost operand
//! is `name -> …`, and the rest of the argument is the lambda's body. In other functions, `->`
//! reads a value out of a text in JSON. DataFusion also does not plan `j.pt` for the parameter `j`,
//! so it becomes `j['pt']`.

use crate::walk::change_exprs;
use datafusion::logical_expr::HigherOrderUDF;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, LambdaFunction,
    LambdaFunctionParameter, LambdaSyntax, ObjectName, OneOrManyWithParens, Subscript, Value, VisitMut,
};
use std::collections::HashMap;
use std::mem::replace;
use std::sync::Arc;

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
    if !is_name_of_one(&function.name, functions) {
        return;
    }
    let FunctionArguments::List(list) = &mut function.args else { return };
    for arg in &mut list.args {
        let FunctionArg::Unnamed(FunctionArgExpr::Expr(body)) = arg else { continue };
        let Some(name) = take_parameter(body) else { continue };
        change_exprs(body, &mut |expr| rewrite_field(expr, &name));
        let body = replace(body, Expr::Identifier(name.clone()));
        *arg = FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Lambda(LambdaFunction {
            params: OneOrManyWithParens::One(LambdaFunctionParameter { name, data_type: None }),
            body: Box::new(body),
            syntax: LambdaSyntax::Arrow,
        })));
    }
}

fn is_name_of_one(name: &ObjectName, functions: &Functions) -> bool {
    let [name] = &name.0[..] else { return false };
    name.as_ident().is_some_and(|name| functions.contains_key(&normal(name)))
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
