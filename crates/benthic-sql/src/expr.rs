//! Physical plans and expressions.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::DynamicFilterPhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use std::sync::Arc;

/// A node of a plan with all that is below it.
pub type Plan = Arc<dyn ExecutionPlan>;
/// An expression over rows.
pub type Expr = Arc<dyn PhysicalExpr>;

/// Whether an expression changes while the query runs.
pub fn is_dynamic(expr: &Expr) -> bool {
    any_part(expr, |expr| expr.is::<DynamicFilterPhysicalExpr>())
}

/// Whether an expression has a part for which `wanted` is true.
pub fn any_part(expr: &Expr, wanted: impl Fn(&Expr) -> bool) -> bool {
    let mut found = false;
    // The closure does not fail, so neither does the walk.
    let _ = expr.apply(|expr| {
        found |= wanted(expr);
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    found
}
