//! Filters that the nodes above a fragment tighten while they run: what a join has learnt of its other side, what a sort with a
//! limit will not take any more.

use crate::fragment::{Expr, Fragment, Plan, envelope};
use benthic_index::Probe;
use bytes::Bytes;
use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, DynamicFilterPhysicalExpr, InListExpr, IsNotNullExpr, IsNullExpr, Literal,
};
use datafusion::physical_expr::{conjunction_opt, split_conjunction};
use datafusion::physical_expr_common::physical_expr::{snapshot_generation, snapshot_physical_expr};
use datafusion::physical_optimizer::pruning::{PruningPredicate, PruningPredicateBuilder};
use parking_lot::Mutex;
use std::sync::Arc;

/// A fragment as it runs at one time.
#[derive(Debug, Default)]
pub struct Now {
    /// The filter, if there is one by now.
    pub filter: Option<Expr>,
    /// The fragment's nodes with it, if it can be among them.
    pub plan: Option<Plan>,
    /// What is sent.
    pub envelope: Bytes,
    /// Leaves out objects by what the manifest says of them.
    pub prunes: Option<Arc<PruningPredicate>>,
    /// Leaves out rows by what an index says of them.
    pub probe: Option<Arc<Probe>>,
}

/// The filter of a fragment and what was made of it last.
#[derive(Debug)]
pub struct Tightening {
    /// The fragment as it is sent without a filter.
    envelope: Bytes,
    compress: bool,
    last: Mutex<(u64, Arc<Now>)>,
}

impl Tightening {
    /// A fragment without a filter, until there is one.
    pub fn new(fragment: &Fragment, envelope: Bytes, compress: bool) -> Tightening {
        let now = Now { envelope: envelope.clone(), probe: fragment.probe.clone(), ..Now::default() };
        Tightening { envelope, compress, last: Mutex::new((0, Arc::new(now))) }
    }

    /// The fragment with the filter of now.
    ///
    /// # Errors
    /// Those of evaluating the filter's state.
    pub fn now(&self, fragment: &Fragment) -> Result<Arc<Now>> {
        let mut last = self.last.lock();
        let Some(dynamic) = &fragment.dynamic else {
            return Ok(Arc::clone(&last.1));
        };
        let generation = snapshot_generation(dynamic);
        if generation != last.0 {
            *last = (generation, Arc::new(self.made(fragment, dynamic)?));
        }
        Ok(Arc::clone(&last.1))
    }

    fn made(&self, fragment: &Fragment, dynamic: &Expr) -> Result<Now> {
        let snapshot = snapshot_physical_expr(Arc::clone(dynamic))?;
        let parts = split_conjunction(&snapshot).into_iter().filter(|part| is_simple(part)).cloned();
        let Some(filter) = conjunction_opt(parts) else {
            let probe = fragment.probe.clone();
            return Ok(Now { envelope: self.envelope.clone(), probe, ..Now::default() });
        };
        let probe = fragment.probe_with(&filter).or_else(|| fragment.probe.clone());
        let prunes = PruningPredicateBuilder::new()
            .with_file_schema(Arc::clone(&fragment.schema))
            .build(Arc::clone(&filter));
        let filtered = fragment.filtered(&filter).ok();
        let sent =
            filtered.and_then(|plan| Some((envelope(&plan, probe.as_ref(), self.compress).ok()?, plan)));
        let (envelope, plan) = match sent {
            Some((envelope, plan)) => (envelope, Some(plan)),
            None => (self.envelope.clone(), None),
        };
        Ok(Now { filter: Some(filter), plan, envelope, prunes, probe })
    }
}

/// Whether an expression changes while the query runs.
pub fn is_dynamic(expr: &Expr) -> bool {
    has(expr, |expr| expr.is::<DynamicFilterPhysicalExpr>())
}

/// Whether a part of a filter is more than `true`, and of nodes that can be sent and that prune: not a look-up in the hash table
/// of a join.
fn is_simple(part: &Expr) -> bool {
    !part.is::<Literal>()
        && !has(part, |expr| {
            !(expr.is::<BinaryExpr>()
                || expr.is::<Column>()
                || expr.is::<Literal>()
                || expr.is::<InListExpr>()
                || expr.is::<IsNullExpr>()
                || expr.is::<IsNotNullExpr>()
                || expr.is::<CastExpr>())
        })
}

fn has(expr: &Expr, wanted: impl Fn(&Expr) -> bool) -> bool {
    let mut found = false;
    // The closure does not fail, so neither does the walk.
    let _ = expr.apply(|expr| {
        found |= wanted(expr);
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    found
}
