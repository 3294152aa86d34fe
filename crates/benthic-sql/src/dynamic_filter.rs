//! Dynamic filters: after a join has read its build side, or a top-k sort has its first rows, it
//! rejects rows that it cannot use. A fragment takes the current state of such filters to each
//! object. The state is encoded once per generation of the filter.

use crate::conditions::cannot_fail;
use crate::expr::Expr;
use crate::fragment::{FilteredFragment, Fragment, envelope};
use crate::join_filter::sendable;
use benthic_fragment::membership::FILTER_BYTES_MAX;
use bytes::Bytes;
use datafusion::common::Result;
use datafusion::physical_expr::{conjunction_opt, split_conjunction};
use datafusion::physical_expr_common::physical_expr::{snapshot_generation, snapshot_physical_expr};
use datafusion::physical_optimizer::pruning::PruningPredicateBuilder;
use parking_lot::Mutex;
use std::sync::Arc;

/// Maximum length of a filter in an explained plan.
const SHOWN_CHARS_MAX: usize = 1_000;
/// A Bloom filter in a request takes at most this part of the objects' mean size.
const OBJECT_PART: u64 = 16;

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

    /// The filter's last state that was sent, for people.
    pub fn describe(&self, dynamic: &Expr) -> String {
        let last = Arc::clone(&self.last.lock().1);
        let text = if let Some(filter) = &last.filter { filter.to_string() } else { dynamic.to_string() };
        shorten(text)
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
        let sendable = sendable(&snapshot, &fragment.schema, filter_bytes_max(fragment))?;
        // The filter runs below the query's own conditions, which may remove the rows for which it
        // fails.
        let parts = sendable.iter().flat_map(split_conjunction);
        let parts = parts.filter(|part| !fragment.has_filter() || cannot_fail(part, &fragment.schema));
        let Some(filter) = conjunction_opt(parts.cloned()) else {
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

/// Maximum size of the Bloom filters in a request. Every object gets a request.
fn filter_bytes_max(fragment: &Fragment) -> usize {
    let total_bytes: u64 = fragment.objects.iter().map(|object| object.size_bytes()).sum();
    let mean_bytes = total_bytes / (fragment.objects.len() as u64).max(1);
    usize::try_from(mean_bytes / OBJECT_PART).unwrap_or(usize::MAX).min(FILTER_BYTES_MAX)
}

fn unfiltered_fragment(fragment: &Fragment, envelope: &Bytes) -> FilteredFragment {
    let (envelope, index) = (envelope.clone(), fragment.index.clone());
    FilteredFragment { envelope, index, ..FilteredFragment::default() }
}

/// The start of a text, because the filter of a join may list very many keys.
pub fn shorten(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(SHOWN_CHARS_MAX) {
        text.truncate(end);
        text.push('…');
    }
    text
}
