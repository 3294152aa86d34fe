//! Preserves the written value of literals, with three rules that correct DataFusion's treatment of
//! them.

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

/// Adds the rules to a session state that already has DataFusion's own.
pub fn with_rules(state: SessionStateBuilder) -> SessionStateBuilder {
    let mut first = Analyzer::new().rules;
    // This rule runs first, while expressions still have the types that the user wrote.
    first.insert(0, Arc::new(ExactDecimals));
    first.insert(1, Arc::new(KeysOfMaps));
    // This rule runs last, after constants were folded into literals.
    state.with_analyzer_rules(first).with_optimizer_rule(Arc::new(BothZeros))
}

/// DataFusion parses a number with a decimal point as a float, so comparing it with a decimal uses
/// the nearest float. For long numbers that is another value. This rule turns such literals into
/// decimals.
#[derive(Debug)]
struct ExactDecimals;

impl AnalyzerRule for ExactDecimals {
    fn name(&self) -> &'static str {
        "exact_decimals"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = rewrite_exprs(plan, &|expr, schema| {
            let mut changed = false;
            for group in coerced_groups(expr) {
                changed |= make_decimals(group, schema);
            }
            changed
        });
        Ok(plan?.data)
    }
}

const OF_ONE_TYPE: [&str; 6] = ["coalesce", "greatest", "ifnull", "least", "nullif", "nvl"];

/// The groups of subexpressions that are coerced to one type.
fn coerced_groups(expr: &mut Expr) -> Vec<Vec<&mut Expr>> {
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

/// If a group contains decimals, turns its float literals into decimals.
fn make_decimals(group: Vec<&mut Expr>, schema: &DFSchema) -> bool {
    let (literals, others): (Vec<_>, Vec<_>) =
        group.into_iter().partition(|expr| matches!(expr, Expr::Literal(..)));
    let mut widest = None;
    for other in &others {
        match other.get_type(schema) {
            Ok(DataType::Decimal128(precision, scale)) => {
                let (whole_digits, digits) = widest.unwrap_or_default();
                widest = Some((precision.saturating_sub_signed(scale).max(whole_digits), scale.max(digits)));
            }
            // With a float in the group the comparison is inexact anyway. If a type is unknown,
            // change nothing.
            Ok(DataType::Float16 | DataType::Float32 | DataType::Float64) | Err(_) => return false,
            Ok(_) => {}
        }
    }
    let Some((whole_digits, digits)) = widest else { return false };
    let mut changed = false;
    for literal in literals {
        changed |= make_decimal(literal, whole_digits, digits);
    }
    changed
}

/// Turns a float literal into a decimal, unless the two types would have no common type.
fn make_decimal(literal: &mut Expr, whole_digits: u8, scale: i8) -> bool {
    let Expr::Literal(ScalarValue::Float64(Some(value)), _) = literal else { return false };
    // The shortest text that parses to this float. It equals the written text if that had at most
    // 15 digits.
    let text = value.to_string();
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let Ok(scale) = usize::try_from(scale) else { return false };
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

/// DataFusion does not cast the key in `map['key']`. Texts in tables are views, so this rule makes
/// the key a view, too.
#[derive(Debug)]
struct KeysOfMaps;

impl AnalyzerRule for KeysOfMaps {
    fn name(&self) -> &'static str {
        "keys_of_maps"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = rewrite_exprs(plan, &|expr, schema| {
            let Expr::ScalarFunction(call) = expr else { return false };
            let [map, Expr::Literal(key, _), ..] = &mut call.args[..] else { return false };
            match (map.get_type(schema), &*key) {
                (Ok(DataType::Map(entries, _)), ScalarValue::Utf8(text))
                    if call.func.name() == "get_field" && has_view_keys(entries.data_type()) =>
                {
                    *key = ScalarValue::Utf8View(text.clone());
                    true
                }
                _ => false,
            }
        });
        Ok(plan?.data)
    }
}

fn has_view_keys(entries: &DataType) -> bool {
    matches!(entries, DataType::Struct(pair) if pair.first().is_some_and(|key| key.data_type() == &DataType::Utf8View))
}

/// Zero and minus zero are equal, but DataFusion compares floats in long lists by their bits. This
/// rule adds the other zero to every list that contains one.
#[derive(Debug)]
struct BothZeros;

impl OptimizerRule for BothZeros {
    fn name(&self) -> &'static str {
        "both_zeros"
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        rewrite_exprs(plan, &|expr, _| {
            let Expr::InList(list) = expr else { return false };
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

/// Applies `rewrite` to every expression of the plan. It returns whether it changed the expression.
///
/// # Errors
/// Errors of rebuilding plans.
pub fn rewrite_exprs(
    plan: LogicalPlan,
    rewrite: &dyn Fn(&mut Expr, &DFSchema) -> bool,
) -> Result<Transformed<LogicalPlan>> {
    plan.transform_up_with_subqueries(|plan| {
        let schema = merge_schema(&plan.inputs());
        // An unaliased column is named after its expression. Keep the old name.
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
