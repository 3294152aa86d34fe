//! Finds the methods that a query calls by `wasm('CLASS.METHOD', value)`, and orders its
//! conditions.
//!
//! [`resolve`] finds the methods that a statement names, before it is planned: planning cannot wait
//! for a pool. Classes belong to pools, so it searches the pools of the statement's tables.

use crate::expr::{Expr, Plan, any_part};
use crate::walk::{Part, walk};
use benthic_core::{Error, Pool};
use benthic_fragment::wasm::{Methods, NAME, call_of};
use benthic_wasm::deployed;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_expr::{conjunction, split_conjunction};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Expr as SqlExpr, FunctionArg, FunctionArgExpr, FunctionArguments};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Limit of the outputs for one batch of rows.
pub const OUTPUT_BYTES_MAX: usize = 1024 * 1024 * 1024;

/// The methods that a statement names in calls of the function. Only literals name methods.
pub fn named_methods(statement: &Statement) -> BTreeSet<String> {
    let mut methods = BTreeSet::new();
    walk(statement, &mut |part| {
        if let Part::Expr(SqlExpr::Function(call)) = part
            && call.name.to_string().eq_ignore_ascii_case(NAME)
            && let FunctionArguments::List(arguments) = &call.args
            && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(SqlExpr::Value(first)))) =
                arguments.args.first()
        {
            methods.extend(first.clone().into_string());
        }
    });
    methods
}

/// Finds the methods in these pools.
///
/// # Errors
/// `InvalidArgument` if a name is not `CLASS.METHOD`, if the method writes, and if the pools have
/// different versions of a class; `NotFound` if no pool has the class; `Unsupported` if the class
/// has no such method; errors of the pools.
pub async fn resolve(names: BTreeSet<String>, pools: &[Arc<dyn Pool>]) -> benthic_core::Result<Methods> {
    let mut methods = Methods::new();
    for name in names {
        let Some((class, method)) = name.split_once('.') else {
            let message = "the first argument of wasm is CLASS.METHOD, such as wasm('redact.text', body)";
            return Err(Error::invalid_argument(message).with("argument", name));
        };
        let mut found = None;
        for pool in pools {
            let Some(deployed) = deployed::find(&**pool, class).await? else { continue };
            match &found {
                None => found = Some((pool, deployed)),
                Some((_, other)) if other.current == deployed.current => {}
                Some(_) => {
                    let message = "the pools of the query have different versions of the class; deploy the same one to each";
                    return Err(Error::invalid_argument(message).with("class", class));
                }
            }
        }
        let Some((pool, deployed)) = found else {
            if pools.is_empty() {
                let message = "the query names no table of a pool, so it cannot call a method of a class";
                return Err(Error::not_found(message).with("class", class));
            }
            let pools: Vec<&str> = pools.iter().map(|pool| pool.name()).collect();
            return Err(deployed::gone(class).with("pool", pools.join(",")));
        };
        let function = deployed::function(&**pool, &deployed, method).await?;
        methods.insert(name, function);
    }
    Ok(methods)
}

/// Whether the expression calls the function.
pub fn calls_wasm(expr: &Expr) -> bool {
    any_part(expr, |expr| call_of(expr).is_some())
}

/// Whether the expression calls a method that the engine does not run.
pub fn calls_only_here(expr: &Expr) -> bool {
    any_part(expr, |expr| call_of(expr).is_some_and(|(_, function)| !function.is_run_by_engine))
}

/// Moves conditions that call the function into a filter of their own, above the other conditions.
/// So the other conditions can run beside objects, and only the rows that satisfy them cost a call.
#[derive(Debug)]
pub struct WasmFiltersLast;

impl PhysicalOptimizerRule for WasmFiltersLast {
    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> Result<Plan> {
        let split = plan.transform_up(|plan| {
            let Some(filter) = plan.downcast_ref::<FilterExec>() else { return Ok(Transformed::no(plan)) };
            let parts = split_conjunction(filter.predicate()).into_iter().cloned();
            let (calls, others): (Vec<Expr>, Vec<Expr>) = parts.partition(calls_wasm);
            if calls.is_empty() || others.is_empty() {
                return Ok(Transformed::no(plan));
            }
            let input = FilterExec::try_new(conjunction(others), Arc::clone(filter.input()))?;
            let above = FilterExecBuilder::from(filter)
                .with_input(Arc::new(input))
                .with_predicate(conjunction(calls))
                .build()?;
            Ok(Transformed::yes(Arc::new(above) as Plan))
        })?;
        Ok(split.data)
    }

    fn name(&self) -> &'static str {
        "WasmFiltersLast"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
