//! Literals mean what is written: two rules for what the query engine makes of them otherwise.

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use datafusion::optimizer::{Analyzer, AnalyzerRule, OptimizerConfig, OptimizerRule};
use std::sync::Arc;

const DECIMAL_DIGITS_MAX: usize = 38;

/// Adds the rules to a state of the query engine that has its own.
pub fn with_rules(state: SessionStateBuilder) -> SessionStateBuilder {
    let mut first = Analyzer::new().rules;
    // What is compared still has the types that were written.
    first.insert(0, Arc::new(ExactDecimals));
    // At the end, when constants are literals.
    state.with_analyzer_rules(first).with_optimizer_rule(Arc::new(BothZeros))
}

/// A number with a point is a floating-point number, and a decimal meets the nearest of these, which is another number than
/// the one that was written, if that is long. This makes a decimal of it.
#[derive(Debug)]
struct ExactDecimals;

impl AnalyzerRule for ExactDecimals {
    fn name(&self) -> &'static str {
        "exact_decimals"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = rewritten(plan, &|expr, schema| {
            let mut changed = false;
            for alike in alike(expr) {
                changed |= make_decimals(alike, schema);
            }
            changed
        });
        Ok(plan?.data)
    }
}

/// Functions whose arguments are all brought to one type.
const OF_ONE_TYPE: [&str; 6] = ["coalesce", "greatest", "ifnull", "least", "nullif", "nvl"];

/// What of an expression is brought to one type.
fn alike(expr: &mut Expr) -> Vec<Vec<&mut Expr>> {
    match expr {
        Expr::BinaryExpr(binary) if binary.op.supports_propagation() => {
            vec![vec![binary.left.as_mut(), binary.right.as_mut()]]
        }
        Expr::Between(between) => {
            vec![vec![between.expr.as_mut(), between.low.as_mut(), between.high.as_mut()]]
        }
        Expr::InList(list) => {
            vec![[list.expr.as_mut()].into_iter().chain(&mut list.list).collect()]
        }
        Expr::ScalarFunction(call) if OF_ONE_TYPE.contains(&call.func.name()) => {
            vec![call.args.iter_mut().collect()]
        }
        Expr::Case(case) => {
            let (mut compared, mut results) = (Vec::new(), Vec::new());
            compared.extend(case.expr.as_deref_mut());
            for (when, then) in &mut case.when_then_expr {
                compared.push(when.as_mut());
                results.push(then.as_mut());
            }
            results.extend(case.else_expr.as_deref_mut());
            vec![compared, results]
        }
        _ => Vec::new(),
    }
}

/// Makes decimals of the literals among expressions that are brought to one type, if others are decimals.
fn make_decimals(alike: Vec<&mut Expr>, schema: &DFSchema) -> bool {
    let (literals, others): (Vec<_>, Vec<_>) =
        alike.into_iter().partition(|expr| matches!(expr, Expr::Literal(..)));
    let mut widest = None;
    for other in &others {
        match other.get_type(schema) {
            Ok(DataType::Decimal128(precision, scale)) => {
                let (whole_digits, digits) = widest.unwrap_or_default();
                widest = Some((precision.saturating_sub_signed(scale).max(whole_digits), scale.max(digits)));
            }
            // These are inexact together; what is not known yet stays as it is.
            Ok(DataType::Float16 | DataType::Float32 | DataType::Float64) | Err(_) => return false,
            Ok(_) => {}
        }
    }
    let Some((whole_digits, digits)) = widest else {
        return false;
    };
    let mut changed = false;
    for literal in literals {
        changed |= make_decimal(literal, whole_digits, digits);
    }
    changed
}

/// Makes a decimal of a floating-point literal, unless the two would have no common type.
fn make_decimal(literal: &mut Expr, whole_digits: u8, scale: i8) -> bool {
    let Expr::Literal(ScalarValue::Float64(Some(value)), _) = literal else {
        return false;
    };
    // The shortest text that is this number: what was written, if that had no more than 15 digits.
    let text = value.to_string();
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let Ok(scale) = usize::try_from(scale) else {
        return false;
    };
    let whole_digits = whole.trim_start_matches('-').len().max(usize::from(whole_digits));
    if whole_digits + fraction.len().max(scale) > DECIMAL_DIGITS_MAX {
        return false;
    }
    let (Ok(number), Ok(digits)) = (format!("{whole}{fraction}").parse(), u8::try_from(fraction.len()))
    else {
        return false;
    };
    let precision = u8::try_from(whole.trim_start_matches('-').len()).unwrap_or(u8::MAX) + digits;
    *literal = Expr::Literal(ScalarValue::Decimal128(Some(number), precision, digits as i8), None);
    true
}

/// The zeros of floating-point numbers are equal, but the query engine looks up long lists by bits. This puts the other zero
/// into every list that has one.
#[derive(Debug)]
struct BothZeros;

impl OptimizerRule for BothZeros {
    fn name(&self) -> &'static str {
        "both_zeros"
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        rewritten(plan, &|expr, _| {
            let Expr::InList(list) = expr else {
                return false;
            };
            let missing = list.list.iter().filter_map(other_zero).find(|zero| !list.list.contains(zero));
            let changed = missing.is_some();
            list.list.extend(missing);
            changed
        })
    }
}

fn other_zero(expr: &Expr) -> Option<Expr> {
    let other = match expr {
        Expr::Literal(ScalarValue::Float64(Some(zero)), _) if *zero == 0.0 => ScalarValue::from(-zero),
        Expr::Literal(ScalarValue::Float32(Some(zero)), _) if *zero == 0.0 => ScalarValue::from(-zero),
        _ => return None,
    };
    Some(Expr::Literal(other, None))
}

/// The plan with every expression as `rewrite` leaves it, which says whether it changed it.
fn rewritten(
    plan: LogicalPlan,
    rewrite: &impl Fn(&mut Expr, &DFSchema) -> bool,
) -> Result<Transformed<LogicalPlan>> {
    plan.transform_up_with_subqueries(|plan| {
        let schema = merge_schema(&plan.inputs());
        // A column that has no other name is named by its expression.
        let names = NamePreserver::new(&plan);
        plan.map_expressions(|expr| {
            let name = names.save(&expr);
            let done = expr.transform_up(|mut expr| {
                let changed = rewrite(&mut expr, &schema);
                Ok(Transformed::new_transformed(expr, changed))
            })?;
            Ok(done.update_data(|expr| name.restore(expr)))
        })
    })
}
