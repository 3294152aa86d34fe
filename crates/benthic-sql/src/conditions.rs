//! Filters whose conditions objects accept in part. The accepted conditions become a filter of
//! their own below the others, so that it can run beside the objects, and the others run in the
//! client on fewer rows.

use crate::expr::{Expr, Plan, any_part, is_dynamic};
use crate::fragment::{climb, envelope};
use crate::plan::{scan_of_objects, source_of};
use crate::scan::ObjectSource;
use crate::wasm::calls_only_here;
use arrow::datatypes::{DataType, Schema};
use benthic_fragment::membership::MembershipFilter;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::datasource::physical_plan::{FileScanConfig, FileScanConfigBuilder, FileSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NotExpr,
};
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_expr::{conjunction, split_conjunction};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::sorts::sort::SortExec;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Splits a filter of which objects accept some conditions and refuse others. Returns `None` for
/// other nodes.
///
/// # Errors
/// Errors of rebuilding nodes.
pub fn split(plan: &Plan) -> Result<Option<Plan>> {
    let Some(filter) = plan.downcast_ref::<FilterExec>() else { return Ok(None) };
    let conditions = split_conjunction(filter.predicate());
    if conditions.len() < 2 {
        return Ok(None);
    }
    let input = prune_with_accepted(Arc::clone(filter.input()))?;
    let Some(fragment) = climb(&input)? else { return Ok(None) };
    if fragment.limit.is_some() || fragment.plan.is::<SortExec>() {
        return Ok(None);
    }
    let (mut beside, mut here) = (Vec::new(), Vec::new());
    for condition in conditions {
        // A condition may fail for rows that an earlier one removes.
        let may_run = here.is_empty() || cannot_fail(condition, &input.schema());
        // An object limits the patterns, texts and literals of all its conditions together.
        let all = conjunction(beside.iter().chain([condition]).cloned());
        let place = if may_run && is_accepted(&all, &fragment.plan) { &mut beside } else { &mut here };
        place.push(Arc::clone(condition));
    }
    if beside.is_empty() || here.is_empty() {
        return Ok(None);
    }
    let here = conjunction(here);
    let given: Vec<usize> = match filter.projection() {
        Some(projection) => projection.to_vec(),
        None => (0..input.schema().fields().len()).collect(),
    };
    let used = collect_columns(&here);
    let moved: BTreeSet<usize> = given.iter().copied().chain(used.iter().map(Column::index)).collect();
    let places = given.iter().map(|column| moved.range(..column).count()).collect();
    let beside = FilterExecBuilder::new(conjunction(beside), input)
        .apply_projection(Some(moved.into_iter().collect()))?
        .build()?;
    let here = reassign_expr_columns(here, &beside.schema())?;
    let above = FilterExecBuilder::new(here, Arc::new(beside))
        .apply_projection(Some(places))?
        .with_default_selectivity(filter.default_selectivity())
        .with_batch_size(filter.batch_size())
        .with_fetch(filter.fetch())
        .build()?;
    Ok(Some(Arc::new(above)))
}

/// Removes conditions that objects refuse from the predicates of scans. These only prune. An object
/// counts the patterns and texts of the predicate in addition to those of the filter, so the
/// predicate keeps only conditions that can be in both.
fn prune_with_accepted(plan: Plan) -> Result<Plan> {
    let pruned = plan.transform_up(|plan| {
        let scan = scan_of_objects(&plan);
        let source = scan.and_then(|scan| scan.file_source().downcast_ref::<ObjectSource>());
        let (Some(scan), Some(source)) = (scan, source) else { return Ok(Transformed::no(plan)) };
        let Some(predicate) = source.filter() else { return Ok(Transformed::no(plan)) };
        let mut kept: Vec<Expr> = Vec::new();
        for part in split_conjunction(&predicate).into_iter().filter(|part| !is_dynamic(part)) {
            kept.push(Arc::clone(part));
            if !scan_accepts(&kept, scan).unwrap_or(false) {
                kept.pop();
            }
        }
        let prunes = |part: &Expr| is_dynamic(part) || is_in(part, &kept);
        let parquet = source_of(scan, scan.file_source().projection(), prunes)?;
        let scan = with_source(scan, Arc::new(source.with(parquet)));
        Ok(Transformed::yes(DataSourceExec::from_data_source(scan) as Plan))
    })?;
    Ok(pruned.data)
}

fn with_source(scan: &FileScanConfig, source: Arc<dyn FileSource>) -> FileScanConfig {
    FileScanConfigBuilder::from(scan.clone()).with_source(source).build()
}

fn is_in(part: &Expr, parts: &[Expr]) -> bool {
    parts.iter().any(|other| Arc::ptr_eq(part, other))
}

/// Whether objects accept parts of a scan's predicate, both as its predicate and as a filter above
/// it.
fn scan_accepts(parts: &[Expr], scan: &FileScanConfig) -> Result<bool> {
    let all = conjunction(parts.iter().cloned());
    let columns: BTreeSet<usize> = collect_columns(&all).iter().map(Column::index).collect();
    let columns = ProjectionExprs::from_indices(&Vec::from_iter(columns), scan.file_schema());
    let source = source_of(scan, Some(&columns), |part| is_in(part, parts))?;
    let plan: Plan = DataSourceExec::from_data_source(with_source(scan, Arc::new(source)));
    let Some(fragment) = climb(&plan)? else { return Ok(false) };
    let all = reassign_expr_columns(all, &fragment.plan.schema())?;
    Ok(is_accepted(&all, &fragment.plan))
}

/// Whether objects accept a condition on the rows of this plan.
fn is_accepted(condition: &Expr, input: &Plan) -> bool {
    !calls_only_here(condition)
        && FilterExec::try_new(Arc::clone(condition), Arc::clone(input))
            .is_ok_and(|filter| envelope(&(Arc::new(filter) as Plan), None, false).is_ok())
}

/// Whether a condition fails for no row. Divisions, functions and most casts may fail.
pub fn cannot_fail(condition: &Expr, schema: &Schema) -> bool {
    let compares = |op: &Operator| op.supports_propagation() || matches!(op, Operator::And | Operator::Or);
    let is_safe = |part: &Expr| {
        part.is::<Column>()
            || part.is::<Literal>()
            || part.is::<IsNullExpr>()
            || part.is::<IsNotNullExpr>()
            || part.is::<NotExpr>()
            || part.is::<InListExpr>()
            || part.is::<LikeExpr>()
            || part.is::<MembershipFilter>()
            || part.downcast_ref::<CastExpr>().is_some_and(|cast| {
                cast.expr().data_type(schema).is_ok_and(|from| is_widening(&from, cast.cast_type()))
            })
            || part.downcast_ref::<BinaryExpr>().is_some_and(|binary| compares(binary.op()))
    };
    !any_part(condition, |part| !is_safe(part))
}

/// Whether a cast keeps every integer.
fn is_widening(from: &DataType, to: &DataType) -> bool {
    let (Some(from_bytes), Some(to_bytes)) = (from.primitive_width(), to.primitive_width()) else {
        return false;
    };
    from.is_integer()
        && to.is_integer()
        && match (from.is_signed_integer(), to.is_signed_integer()) {
            (true, false) => false,
            (false, true) => from_bytes < to_bytes,
            _ => from_bytes <= to_bytes,
        }
}
