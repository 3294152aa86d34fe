//! Batches that are small enough for whatever the plan makes of them.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::DataType;
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_common::{Result, resources_err};
use datafusion_execution::{SendableRecordBatchStream, TaskContext};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_plan::stream::RecordBatchStreamAdapter;
use datafusion_physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::future::ready;
use futures::{StreamExt, TryStreamExt, stream};
use std::fmt;
use std::sync::Arc;

/// Characters of one batch. Views of one value may stand in every row, and an expression that changes the value makes a
/// copy of each.
const BATCH_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Above the scan: gives its rows in batches whose strings, each counted in full, are at most [`BATCH_BYTES_MAX`] long.
#[derive(Debug)]
pub struct Guard {
    input: Arc<dyn ExecutionPlan>,
}

impl Guard {
    pub fn new(input: Arc<dyn ExecutionPlan>) -> Guard {
        Guard { input }
    }
}

impl DisplayAs for Guard {
    fn fmt_as(&self, _: DisplayFormatType, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Guard")
    }
}

impl ExecutionPlan for Guard {
    fn name(&self) -> &'static str {
        "Guard"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Guard { input: children.swap_remove(0) }))
    }

    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let batches = self.input.execute(partition, task)?;
        let parts = batches
            .and_then(|batch| ready(parts(&batch).map(|parts| stream::iter(parts).map(Ok))))
            .try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), parts)))
    }
}

/// The batch, cut where its strings become too long.
fn parts(batch: &RecordBatch) -> Result<Vec<RecordBatch>> {
    let views: Vec<&[u128]> = batch.columns().iter().filter_map(views).collect();
    let row_bytes = |row: usize| views.iter().map(|views| len_bytes(views[row])).sum::<u64>();
    let mut parts = Vec::new();
    let (mut start, mut part_bytes) = (0, 0);
    for row in 0..if views.is_empty() { 0 } else { batch.num_rows() } {
        let row_bytes = row_bytes(row);
        if row_bytes > BATCH_BYTES_MAX {
            return resources_err!("a row has {row_bytes} bytes of strings");
        }
        if part_bytes + row_bytes > BATCH_BYTES_MAX {
            parts.push(batch.slice(start, row - start));
            (start, part_bytes) = (row, 0);
        }
        part_bytes += row_bytes;
    }
    parts.push(batch.slice(start, batch.num_rows() - start));
    Ok(parts)
}

fn views(column: &ArrayRef) -> Option<&[u128]> {
    match column.data_type() {
        DataType::Utf8View => Some(column.as_string_view().views()),
        DataType::BinaryView => Some(column.as_binary_view().views()),
        _ => None,
    }
}

/// The first four bytes of a view, in the machine's order.
fn len_bytes(view: u128) -> u64 {
    u64::from(view as u32)
}
