//! Short names and helpers for physical plans and expressions.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::DynamicFilterPhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use std::sync::Arc;

/// A plan node and everything below it.
pub type Plan = Arc<dyn ExecutionPlan>;
/// A physical expression.
pub type Expr = Arc<dyn PhysicalExpr>;

/// Whether the expression contains a dynamic filter, which changes while the query runs.
pub fn is_dynamic(expr: &Expr) -> bool {
    any_part(expr, |expr| expr.is::<DynamicFilterPhysicalExpr>())
}

/// Whether any part of the expression satisfies `wanted`.
pub fn any_part(expr: &Expr, wanted: impl Fn(&Expr) -> bool) -> bool {
    let mut found = false;
    // The closure never fails, so neither does the walk.
    let _ = expr.apply(|expr| {
        found |= wanted(expr);
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    found
}
