//! `array_has_any` and `array_has_all` of a column and a short list of literals, as conditions on
//! each literal.
//!
//! Objects run `array_has`. They refuse the two other functions, which compare each element with
//! each other one, and literals that are lists.

use crate::literals::rewrite_exprs;
use benthic_table::widens;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::functions_nested::array_has::array_has_udf;
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::utils::{conjunction, disjunction};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, lit};
use datafusion::optimizer::AnalyzerRule;

/// Maximum number of literals. Each is compared with all elements.
const LITERALS_MAX: usize = 16;

/// Replaces calls of `array_has_any` and `array_has_all`.
#[derive(Debug)]
pub struct ElementsOfLists;

impl AnalyzerRule for ElementsOfLists {
    fn name(&self) -> &'static str {
        "elements_of_lists"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = rewrite_exprs(plan, &|expr, schema| match of_elements(expr, schema) {
            Some(elements) => {
                *expr = elements;
                true
            }
            None => false,
        });
        Ok(plan?.data)
    }
}

fn of_elements(expr: &Expr, schema: &DFSchema) -> Option<Expr> {
    let Expr::ScalarFunction(call) = expr else { return None };
    let [list, literals] = &call.args[..] else { return None };
    // A cast that gives the literals the type of the column, for example texts as views.
    let literals = match literals {
        Expr::Cast(Cast { expr, .. }) => expr,
        literals => literals,
    };
    let Expr::ScalarFunction(literals) = literals else { return None };
    // A cast that gives the column the type of the literals. A cast that changes values stays.
    let list = match list {
        Expr::Cast(Cast { expr, .. })
            if is_same(&expr.get_type(schema).ok()?, &list.get_type(schema).ok()?) =>
        {
            expr
        }
        list => list,
    };
    let (Expr::Column(_), "make_array") = (list, literals.func.name()) else { return None };
    let (DataType::List(element) | DataType::LargeList(element)) = list.get_type(schema).ok()? else {
        return None;
    };
    if literals.args.len() > LITERALS_MAX {
        return None;
    }
    let literals = literals.args.iter().map(|literal| of_type(literal, element.data_type()));
    let each = literals.collect::<Option<Vec<ScalarValue>>>()?.into_iter();
    let each = each.map(|literal| array_has_udf().call(vec![list.clone(), lit(literal)]));
    // Without literals, there is nothing to join.
    match call.func.name() {
        "array_has_any" => disjunction(each),
        "array_has_all" => conjunction(each),
        _ => None,
    }
}

/// Whether a cast of a list gives equal elements.
fn is_same(from: &DataType, to: &DataType) -> bool {
    use DataType::{LargeList, List};
    let (List(from) | LargeList(from), List(to) | LargeList(to)) = (from, to) else { return false };
    let (from, to) = (from.data_type(), to.data_type());
    widens(from, to) || from.is_string() && to.is_string()
}

/// The literal as a value of this type, if the type has it.
fn of_type(literal: &Expr, data_type: &DataType) -> Option<ScalarValue> {
    let Expr::Literal(literal, _) = literal else { return None };
    let from = literal.data_type();
    let is_same_kind = from == *data_type && !data_type.is_floating()
        || from.is_integer() && data_type.is_integer()
        || from.is_string() && data_type.is_string();
    if literal.is_null() || !is_same_kind {
        return None;
    }
    let value = literal.cast_to(data_type).ok()?;
    (value.cast_to(&from).ok()? == *literal).then_some(value)
}
