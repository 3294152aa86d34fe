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

/// A number with a point is a floating-point number, and a decimal column is compared with the nearest of these that has the
/// column's scale, which is another number than the one that was written, if that is long. This makes a decimal of it.
#[derive(Debug)]
struct ExactDecimals;

impl AnalyzerRule for ExactDecimals {
    fn name(&self) -> &'static str {
        "exact_decimals"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = rewritten(plan, &|expr, schema| {
            let Some((compared, literals)) = comparison(expr) else {
                return false;
            };
            // What is not known yet stays as it is.
            let Ok(DataType::Decimal128(precision, scale)) = compared.get_type(schema) else {
                return false;
            };
            let mut changed = false;
            for literal in literals {
                changed |= make_decimal(literal, precision, scale);
            }
            changed
        });
        Ok(plan?.data)
    }
}

/// What an expression compares, and with which literals.
fn comparison(expr: &mut Expr) -> Option<(Expr, Vec<&mut Expr>)> {
    match expr {
        Expr::BinaryExpr(binary) if binary.op.supports_propagation() => {
            let (left, right) = (binary.left.as_mut(), binary.right.as_mut());
            match (&*left, &*right) {
                (Expr::Literal(..), Expr::Literal(..)) => None,
                (_, Expr::Literal(..)) => Some((left.clone(), vec![right])),
                (Expr::Literal(..), _) => Some((right.clone(), vec![left])),
                _ => None,
            }
        }
        Expr::Between(between) => {
            Some((between.expr.as_ref().clone(), vec![between.low.as_mut(), between.high.as_mut()]))
        }
        Expr::InList(list) => Some((list.expr.as_ref().clone(), list.list.iter_mut().collect())),
        _ => None,
    }
}

/// Makes a decimal of a floating-point literal, unless the two would have no common type.
fn make_decimal(literal: &mut Expr, precision: u8, scale: i8) -> bool {
    let Expr::Literal(ScalarValue::Float64(Some(value)), _) = literal else {
        return false;
    };
    // The shortest text that is this number: what was written, if that had no more than 15 digits.
    let text = value.to_string();
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let Ok(scale) = usize::try_from(scale) else {
        return false;
    };
    let whole_digits = whole.trim_start_matches('-').len().max(usize::from(precision).saturating_sub(scale));
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
