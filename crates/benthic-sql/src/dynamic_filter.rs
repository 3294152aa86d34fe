//! Dynamic filters: after a join has read its build side, or a top-k sort has its first rows, it
//! rejects rows that it cannot use. A fragment takes the current state of such filters to each
//! object. The state is encoded once per generation of the filter.

use crate::expr::{Expr, any_part};
use crate::fragment::{FilteredFragment, Fragment, envelope};
use bytes::Bytes;
use datafusion::common::Result;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, Literal,
};
use datafusion::physical_expr::{conjunction_opt, split_conjunction};
use datafusion::physical_expr_common::physical_expr::{snapshot_generation, snapshot_physical_expr};
use datafusion::physical_optimizer::pruning::PruningPredicateBuilder;
use parking_lot::Mutex;
use std::sync::Arc;

/// The dynamic filter of a fragment, and a cache of the fragment with the filter's last state.
#[derive(Debug)]
pub struct DynamicFilter {
    /// The encoded fragment without a filter.
    envelope: Bytes,
    compress: bool,
    last: Mutex<(u64, Arc<FilteredFragment>)>,
}

impl DynamicFilter {
    pub fn new(fragment: &Fragment, envelope: Bytes, compress: bool) -> DynamicFilter {
        let now = unfiltered_fragment(fragment, &envelope);
        DynamicFilter { envelope, compress, last: Mutex::new((0, Arc::new(now))) }
    }

    /// The fragment with the current state of the filter.
    ///
    /// # Errors
    /// Errors of evaluating the filter's state.
    pub fn current(&self, fragment: &Fragment) -> Result<Arc<FilteredFragment>> {
        let mut last = self.last.lock();
        let Some(dynamic) = &fragment.dynamic else { return Ok(Arc::clone(&last.1)) };
        let generation = snapshot_generation(dynamic);
        if generation != last.0 {
            *last = (generation, Arc::new(self.build(fragment, dynamic)?));
        }
        Ok(Arc::clone(&last.1))
    }

    fn build(&self, fragment: &Fragment, dynamic: &Expr) -> Result<FilteredFragment> {
        let snapshot = snapshot_physical_expr(Arc::clone(dynamic))?;
        let parts = split_conjunction(&snapshot).into_iter().filter(|part| is_simple(part)).cloned();
        let Some(filter) = conjunction_opt(parts) else {
            return Ok(unfiltered_fragment(fragment, &self.envelope));
        };
        let index = fragment.index_with(&filter).or_else(|| fragment.index.clone());
        let prunes = PruningPredicateBuilder::new()
            .with_file_schema(Arc::clone(&fragment.schema))
            .build(Arc::clone(&filter));
        let filtered = fragment.with_filter(&filter).ok();
        let sent =
            filtered.and_then(|plan| Some((envelope(&plan, index.as_deref(), self.compress).ok()?.0, plan)));
        let (envelope, plan) = match sent {
            Some((envelope, plan)) => (envelope, Some(plan)),
            None => (self.envelope.clone(), None),
        };
        Ok(FilteredFragment { filter: Some(filter), plan, envelope, prunes, index })
    }
}

fn unfiltered_fragment(fragment: &Fragment, envelope: &Bytes) -> FilteredFragment {
    let (envelope, index) = (envelope.clone(), fragment.index.clone());
    FilteredFragment { envelope, index, ..FilteredFragment::default() }
}

/// Whether a part of a filter can be sent and can prune. Literals are useless, and a lookup in a
/// join's hash table cannot be sent.
fn is_simple(part: &Expr) -> bool {
    !part.is::<Literal>()
        && !any_part(part, |expr| {
            !(expr.is::<BinaryExpr>()
                || expr.is::<Column>()
                || expr.is::<Literal>()
                || expr.is::<InListExpr>()
                || expr.is::<IsNullExpr>()
                || expr.is::<IsNotNullExpr>()
                || expr.is::<CastExpr>())
        })
}
