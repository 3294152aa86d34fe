//! Limits the size of batches between operators, and yields after each batch.
//!
//! A string in a dictionary may occur in every row of a batch. An expression that makes new strings
//! from it would copy it for every row, which could exhaust the OSD's memory.

use arrow::array::{Array, ArrayRef, AsArray, OffsetSizeTrait, RecordBatch};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_common::{Result, resources_err};
use datafusion_execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::Stream;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// Maximum bytes of strings in a batch. Views of one value may be in every row, and an expression
/// that changes the value copies it for each row.
const BATCH_BYTES_MAX: u64 = 1024 * 1024;

/// Wraps every operator. It splits batches so that their strings, each counted in full, have at
/// most [`BATCH_BYTES_MAX`] bytes. It returns `Pending` once after each batch: otherwise a filter
/// or an aggregate would process all batches before the polling thread could check the deadline.
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
        let input = self.input.execute(partition, task)?;
        Ok(Box::pin(Parts { input, rest: None, paused: true }))
    }
}

struct Parts {
    input: SendableRecordBatchStream,
    rest: Option<RecordBatch>,
    paused: bool,
}

impl Stream for Parts {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        if !self.paused {
            self.paused = true;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let batch = match self.rest.take() {
            Some(rest) => rest,
            None => match ready!(self.input.as_mut().poll_next(context)) {
                Some(Ok(batch)) => batch,
                other => return Poll::Ready(other),
            },
        };
        self.paused = false;
        let rows = rows_that_fit(&batch)?;
        if rows < batch.num_rows() {
            self.rest = Some(batch.slice(rows, batch.num_rows() - rows));
        }
        Poll::Ready(Some(Ok(batch.slice(0, rows))))
    }
}

impl RecordBatchStream for Parts {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }
}

/// Number of leading rows whose strings fit into one batch.
fn rows_that_fit(batch: &RecordBatch) -> Result<usize> {
    let mut row_bytes: Vec<u64> = Vec::new();
    for column in batch.columns() {
        add_lengths(column, &mut row_bytes);
    }
    let mut bytes = 0_u64;
    for (row, row_bytes) in row_bytes.into_iter().enumerate() {
        bytes = bytes.saturating_add(row_bytes);
        if bytes > BATCH_BYTES_MAX {
            return match row {
                0 => resources_err!("a row has {bytes} bytes of strings"),
                row => Ok(row),
            };
        }
    }
    Ok(batch.num_rows())
}

fn add_lengths(column: &ArrayRef, row_bytes: &mut Vec<u64>) {
    let mut add = |lengths: &mut dyn Iterator<Item = u64>| {
        row_bytes.resize(column.len(), 0);
        row_bytes.iter_mut().zip(lengths).for_each(|(row, length)| *row += length);
    };
    fn between<O: OffsetSizeTrait>(offsets: &[O]) -> impl Iterator<Item = u64> {
        offsets.windows(2).map(|pair| (pair[1].as_usize() - pair[0].as_usize()) as u64)
    }
    match column.data_type() {
        DataType::Utf8 => add(&mut between(column.as_string::<i32>().value_offsets())),
        DataType::LargeUtf8 => add(&mut between(column.as_string::<i64>().value_offsets())),
        DataType::Binary => add(&mut between(column.as_binary::<i32>().value_offsets())),
        DataType::LargeBinary => add(&mut between(column.as_binary::<i64>().value_offsets())),
        _ => {
            if let Some(views) = views(column) {
                add(&mut views.iter().map(|view| len_bytes(*view)));
            }
        }
    }
}

/// The views of a column of string views or binary views.
pub fn views(column: &ArrayRef) -> Option<&[u128]> {
    match column.data_type() {
        DataType::Utf8View => Some(column.as_string_view().views()),
        DataType::BinaryView => Some(column.as_binary_view().views()),
        _ => None,
    }
}

/// The length of the value that a view shows.
pub fn len_bytes(view: u128) -> u64 {
    // The length is in the low four bytes.
    u64::from(view as u32)
}
