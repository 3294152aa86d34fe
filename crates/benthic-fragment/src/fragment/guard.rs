//! Limits the size of batches between operators, and yields after each batch.
//!
//! A string in a dictionary may occur in every row of a batch. An expression that makes new strings
//! from it would copy it for every row, which could exhaust the OSD's memory. In the same way, a
//! row may hold a list of any length.

use super::compact;
use arrow::array::{
    Array, ArrayRef, AsArray, MutableArrayData, OffsetSizeTrait, RecordBatch, RecordBatchOptions, make_array,
};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion_common::tree_node::TreeNodeRecursion;
use datafusion_common::{Result, resources_err};
use datafusion_execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::Stream;
use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// Maximum bytes of strings, lists, structs and maps in a batch. Views of one value may be in every
/// row, and an expression that changes the value copies it for each row.
pub const BATCH_BYTES_MAX: u64 = 1024 * 1024;

/// The least that a value in a list, struct or map counts. An expression makes at most as many
/// bytes of it, unless the value is a string.
const VALUE_BYTES: u64 = 16;

/// Wraps every operator. It splits batches so that their strings and nested values, each counted in
/// full, have at most [`BATCH_BYTES_MAX`] bytes. It returns `Pending` once after each batch:
/// otherwise a filter or an aggregate would process all batches before the polling thread could
/// check the deadline.
#[derive(Debug)]
pub struct Guard {
    input: Arc<dyn ExecutionPlan>,
    copies: bool,
    rows_max: usize,
    bytes_max: u64,
}

impl Guard {
    pub fn new(input: Arc<dyn ExecutionPlan>) -> Guard {
        Guard { input, copies: false, rows_max: usize::MAX, bytes_max: BATCH_BYTES_MAX }
    }

    /// Also copies strings out of the buffers that they share, for an operator that keeps batches.
    pub fn copying(input: Arc<dyn ExecutionPlan>) -> Guard {
        Guard { copies: true, ..Guard::new(input) }
    }

    /// Also limits the rows of a batch, and lowers the limit of its bytes, for an operator that may
    /// keep much for each row or copy strings many times.
    pub fn smaller(input: Arc<dyn ExecutionPlan>, rows_max: usize, bytes_max: u64) -> Guard {
        let bytes_max = bytes_max.min(BATCH_BYTES_MAX);
        Guard { rows_max: rows_max.max(1), bytes_max, ..Guard::new(input) }
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
        let input = children.swap_remove(0);
        Ok(Arc::new(Guard { input, copies: self.copies, rows_max: self.rows_max, bytes_max: self.bytes_max }))
    }

    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, task)?;
        let (copies, rows_max, bytes_max) = (self.copies, self.rows_max, self.bytes_max);
        Ok(Box::pin(Parts { input, rest: VecDeque::new(), paused: true, copies, rows_max, bytes_max }))
    }
}

struct Parts {
    input: SendableRecordBatchStream,
    rest: VecDeque<RecordBatch>,
    paused: bool,
    copies: bool,
    rows_max: usize,
    bytes_max: u64,
}

impl Stream for Parts {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        if !self.paused {
            self.paused = true;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        if self.rest.is_empty() {
            match ready!(self.input.as_mut().poll_next(context)) {
                Some(Ok(batch)) => self.rest = parts(&batch, self.rows_max, self.bytes_max)?,
                other => return Poll::Ready(other),
            }
        }
        self.paused = false;
        let copies = self.copies;
        let batch = self.rest.pop_front().map(|batch| if copies { compact(&batch) } else { Ok(batch) });
        Poll::Ready(batch)
    }
}

impl RecordBatchStream for Parts {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }
}

/// Splits a batch. The parts of nested columns are copies: a function may visit all values that an
/// array holds, also those outside its part.
fn parts(batch: &RecordBatch, rows_max: usize, bytes_max: u64) -> Result<VecDeque<RecordBatch>> {
    let mut row_bytes: Vec<u64> = Vec::new();
    for column in batch.columns() {
        add_lengths(column, &mut row_bytes);
    }
    if batch.num_rows() > rows_max {
        row_bytes.resize(batch.num_rows(), 0);
    }
    let (mut starts, mut bytes, mut rows) = (vec![0], 0_u64, 0);
    for (row, row_bytes) in row_bytes.into_iter().enumerate() {
        if row_bytes > bytes_max {
            return resources_err!(
                "a row has {row_bytes} bytes of strings, lists, structs and maps; at most {bytes_max} are processed"
            );
        }
        (bytes, rows) = (bytes + row_bytes, rows + 1);
        if bytes > bytes_max || rows > rows_max {
            starts.push(row);
            (bytes, rows) = (row_bytes, 1);
        }
    }
    if starts.len() == 1 {
        return Ok(VecDeque::from([batch.clone()]));
    }
    let ends = starts.iter().copied().skip(1).chain([batch.num_rows()]);
    let part = |(start, end): (&usize, usize)| -> Result<RecordBatch> {
        let part = batch.slice(*start, end - start);
        let columns = part.columns().iter().map(|column| match column.data_type().is_nested() {
            true => copy(column),
            false => Ok(Arc::clone(column)),
        });
        // A batch without columns still has a row count.
        let rows = RecordBatchOptions::new().with_row_count(Some(end - start));
        Ok(RecordBatch::try_new_with_options(part.schema(), columns.collect::<Result<_>>()?, &rows)?)
    };
    starts.iter().zip(ends).map(part).collect()
}

fn copy(column: &ArrayRef) -> Result<ArrayRef> {
    let data = column.to_data();
    let mut copy = MutableArrayData::new(vec![&data], false, data.len());
    copy.try_extend(0, 0, data.len())?;
    Ok(make_array(copy.freeze()))
}

fn add_lengths(column: &ArrayRef, row_bytes: &mut Vec<u64>) {
    let mut add = |lengths: &mut dyn Iterator<Item = u64>| {
        row_bytes.resize(column.len(), 0);
        row_bytes.iter_mut().zip(lengths).for_each(|(row, length)| *row = row.saturating_add(length));
    };
    fn between<O: OffsetSizeTrait>(offsets: &[O]) -> impl Iterator<Item = u64> {
        offsets.windows(2).map(|pair| (pair[1].as_usize() - pair[0].as_usize()) as u64)
    }
    match column.data_type() {
        DataType::Utf8 => add(&mut between(column.as_string::<i32>().value_offsets())),
        DataType::LargeUtf8 => add(&mut between(column.as_string::<i64>().value_offsets())),
        DataType::Binary => add(&mut between(column.as_binary::<i32>().value_offsets())),
        DataType::LargeBinary => add(&mut between(column.as_binary::<i64>().value_offsets())),
        DataType::Utf8View | DataType::BinaryView => {
            add(&mut views(column).into_iter().flatten().map(|view| len_bytes(*view)));
        }
        DataType::Struct(_) => {
            for field in column.as_struct().columns() {
                add(&mut value_bytes(field).into_iter());
            }
        }
        DataType::List(_) => {
            let list = column.as_list::<i32>();
            add(&mut list_bytes(list.value_offsets(), list.values()).into_iter());
        }
        DataType::LargeList(_) => {
            let list = column.as_list::<i64>();
            add(&mut list_bytes(list.value_offsets(), list.values()).into_iter());
        }
        DataType::Map(..) => {
            let map = column.as_map();
            let entries: ArrayRef = Arc::new(map.entries().clone());
            add(&mut list_bytes(map.value_offsets(), &entries).into_iter());
        }
        _ => {}
    }
}

/// The bytes of each value in a list, struct or map, or of each nested value of a batch.
pub fn value_bytes(array: &ArrayRef) -> Vec<u64> {
    let mut bytes = vec![VALUE_BYTES; array.len()];
    add_lengths(array, &mut bytes);
    bytes
}

fn list_bytes<O: OffsetSizeTrait>(offsets: &[O], values: &ArrayRef) -> Vec<u64> {
    let place = |offset: &O| offset.as_usize() - offsets[0].as_usize();
    let shown = values.slice(offsets[0].as_usize(), offsets.last().map_or(0, place));
    let bytes = value_bytes(&shown);
    offsets.windows(2).map(|pair| bytes[place(&pair[0])..place(&pair[1])].iter().sum()).collect()
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
