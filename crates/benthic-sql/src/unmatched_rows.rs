//! Drops rows of a scan that the joins and top-k sorts above it reject.
//!
//! A join pushes a dynamic filter into the scan of its probe side, once it has read its build side.
//! Without Parquet row filters, DataFusion uses such a filter for statistics only, and every row
//! travels through repartitions, aggregates and other joins up to the join that rejects it. This
//! module evaluates the filter on decoded batches. Parquet row filters would do so too, but they
//! decode the columns of the filter twice and skip single values. Of the queries of TPC-H, they
//! make as many slower as faster.

use crate::columns::has_floats;
use arrow::array::{Array, AsArray, BooleanArray, RecordBatch};
use arrow::compute::{BatchCoalescer, prep_null_mask_filter};
use arrow::datatypes::Schema;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::expressions::{CaseExpr, Column, DynamicFilterPhysicalExpr};
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, conjunction_opt, split_conjunction};
use datafusion::physical_expr_common::physical_expr::snapshot_physical_expr;
use datafusion::physical_plan::metrics::Count;
use futures::stream::{BoxStream, StreamExt, TryStreamExt, try_unfold};
use std::collections::HashMap;
use std::sync::Arc;

/// Number of rows of the batches that are put together from the remaining rows.
const BATCH_ROWS: usize = 8192;
/// A filter that keeps more than this part of a batch costs more than it saves.
const KEPT_MAX: f64 = 0.75;
/// Number of batches without a filter after one for which the filter did not pay.
const UNFILTERED_BATCHES: usize = 15;

/// The dynamic filters of a scan, on the columns that it returns.
#[derive(Clone, Debug)]
pub struct UnmatchedRows {
    filters: Vec<Arc<dyn PhysicalExpr>>,
    dropped_rows: Count,
}

impl UnmatchedRows {
    /// The dynamic parts of the predicate of a scan of a table with this schema. `projection` are
    /// the columns that the scan returns. `None` if the predicate has no dynamic part on these
    /// columns. Parts with floats do not count, because a join finds -0.0 for 0.0, but its filter
    /// does not.
    pub fn of(
        predicate: &Arc<dyn PhysicalExpr>,
        schema: &Schema,
        projection: Option<&ProjectionExprs>,
        dropped_rows: Count,
    ) -> Option<UnmatchedRows> {
        let mut places = HashMap::new();
        for (place, returned) in projection?.iter().enumerate() {
            if let Some(column) = returned.expr.downcast_ref::<Column>() {
                places.insert(column.index(), place);
            }
        }
        let is_returned = |column: &Column| places.contains_key(&column.index());
        let is_float = |expr: &Arc<dyn PhysicalExpr>| {
            Ok(expr.data_type(schema).map_or(true, |found| has_floats(&found)))
        };
        let is_usable = |part: &Arc<dyn PhysicalExpr>| {
            part.is::<DynamicFilterPhysicalExpr>()
                && collect_columns(part).iter().all(is_returned)
                && !part.exists(is_float).unwrap_or(true)
        };
        let parts = split_conjunction(predicate).into_iter().filter(|part| is_usable(part));
        let on_returned = |expr: Arc<dyn PhysicalExpr>| {
            let Some(column) = expr.downcast_ref::<Column>() else { return Ok(Transformed::no(expr)) };
            let place = places[&column.index()];
            Ok(Transformed::yes(Arc::new(Column::new(column.name(), place)) as Arc<dyn PhysicalExpr>))
        };
        let parts = parts.map(|part| -> Result<Arc<dyn PhysicalExpr>> {
            Ok(Arc::clone(part).transform_up(on_returned)?.data)
        });
        let filters = parts.collect::<Result<Vec<_>>>().ok().filter(|filters| !filters.is_empty())?;
        Some(UnmatchedRows { filters, dropped_rows })
    }

    /// The rows without those that the current filter rejects, in their order.
    pub fn drop_from(
        self,
        rows: BoxStream<'static, Result<RecordBatch>>,
    ) -> BoxStream<'static, Result<RecordBatch>> {
        let UnmatchedRows { filters, dropped_rows } = self;
        let Some(filter) = conjunction_opt(filters.into_iter().filter(|filter| !is_partitioned(filter)))
        else {
            return rows;
        };
        let rows = rows.fuse().boxed();
        let kept = Kept { rows, filter, dropped_rows, matched: None, unfiltered: 0 };
        try_unfold(kept, |mut kept| async move { Ok(kept.next().await?.map(|batch| (batch, kept))) }).boxed()
    }
}

/// Whether this is the filter of a partitioned join. It computes the partition of each row first,
/// which costs more than it saves.
fn is_partitioned(filter: &Arc<dyn PhysicalExpr>) -> bool {
    let current = snapshot_physical_expr(Arc::clone(filter));
    current.and_then(|filter| filter.exists(|part| Ok(part.is::<CaseExpr>()))).unwrap_or(true)
}

struct Kept {
    rows: BoxStream<'static, Result<RecordBatch>>,
    filter: Arc<dyn PhysicalExpr>,
    dropped_rows: Count,
    /// Puts together the rows that remain of several batches.
    matched: Option<BatchCoalescer>,
    /// Number of batches to return without filtering them.
    unfiltered: usize,
}

impl Kept {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.matched.as_mut().and_then(BatchCoalescer::next_completed_batch) {
                return Ok(Some(batch));
            }
            let Some(batch) = self.rows.try_next().await? else {
                let Some(mut last) = self.matched.take() else { return Ok(None) };
                last.finish_buffered_batch()?;
                return Ok(last.next_completed_batch());
            };
            let kept = match self.unfiltered.checked_sub(1) {
                Some(unfiltered) => {
                    self.unfiltered = unfiltered;
                    None
                }
                None => {
                    let kept = self.matching(&batch);
                    self.unfiltered = if kept.is_none() { UNFILTERED_BATCHES } else { 0 };
                    kept
                }
            };
            match (kept, &mut self.matched) {
                (None, None) => return Ok(Some(batch)),
                (None, Some(matched)) => matched.push_batch(batch)?,
                (Some(kept), matched) => {
                    self.dropped_rows.add(batch.num_rows() - kept.true_count());
                    let new = || BatchCoalescer::new(batch.schema(), BATCH_ROWS);
                    matched.get_or_insert_with(new).push_batch_with_filter(batch, &kept)?;
                }
            }
        }
    }

    /// The rows that the filter keeps. `None` for all of them.
    fn matching(&self, batch: &RecordBatch) -> Option<BooleanArray> {
        // The filter runs below other conditions, which may remove the rows for which it fails.
        let Ok(ColumnarValue::Array(kept)) = self.filter.evaluate(batch) else { return None };
        let kept = kept.as_boolean_opt()?;
        let kept = if kept.null_count() > 0 { prep_null_mask_filter(kept) } else { kept.clone() };
        (kept.true_count() as f64 <= batch.num_rows() as f64 * KEPT_MAX).then_some(kept)
    }
}
