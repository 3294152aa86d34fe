//! Decodes, checks and runs a fragment on one object.
//!
//! A class method runs on a thread of the OSD, without an async runtime. The plan therefore runs on
//! the calling thread only: [`run`] polls it, and serves the byte ranges that it requests from the
//! method's context. A plan comes from an untrusted client, so `check` validates it first against
//! an allow list. An object may be hostile too, so `bounds` validates its bytes before they are
//! decoded. `docs/design/0005-query-fragments-in-ceph-osd.md` lists the attacks and the defences.

mod blocked;
mod check;
mod decode;
mod encode;
mod envelope;
mod extremes;
mod functions;
mod guard;
mod index;
mod methods;
mod pattern;
mod percentile;
mod ranges;
mod reader;
mod runtime;
mod selected;
mod stop;

pub use blocked::Blocked;
pub use encode::{encode, encode_with_methods};
pub use envelope::{BUILD, ENVELOPE_BYTES_MAX, Envelope, OBJECT_URL, OfObject, Reply, Status, WasmMethod};
pub use functions::own_aggregates;
pub use index::{live, selection};
pub use methods::encode as encode_methods;
pub use ranges::Ranges;
pub use reader::{merge_ranges, split_ranges};
pub use selected::{has_limit, rows_selected, rows_selected_by};

use arrow::array::{
    Array, ArrayRef, AsArray, LargeListArray, ListArray, MapArray, RecordBatch, RecordBatchOptions,
    StructArray,
};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::CompressionType;
use arrow::ipc::writer::{IpcWriteOptions, StreamWriter};
use benthic_core::{Error, Result};
use bytes::Bytes;
use datafusion_common::DataFusionError;
use datafusion_execution::SendableRecordBatchStream;
use ranges::elapsed_us;
use reader::Queue;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use stop::{Stop, unsupported};

/// Maximum size of one batch of the reply, if each column held its own bytes.
const BATCH_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// Smaller batches are merged up to this size: this saves metadata and compresses better.
const SMALL_BYTES_MAX: u64 = 2 * 1024 * 1024;

/// Checks whether the class would accept a fragment, so that a client can decide before it sends
/// one.
///
/// # Errors
/// The reason for the refusal.
pub fn accepts(envelope: &Envelope) -> Result<(), String> {
    match build(envelope) {
        Ok(()) => Ok(()),
        Err(Stop::Answer(_, why)) => Err(why),
        Err(Stop::Fail(error)) => Err(error.to_string()),
    }
}

/// Checks a fragment, and builds its operators: some refusals depend on the types of expressions.
fn build(envelope: &Envelope) -> Result<(), Stop> {
    let checked = check::check_cached(&envelope.to_bytes())?;
    // Only the OSD has the function that calls methods.
    if checked.envelope.methods.is_empty() {
        let runtime = runtime::Runtime::new(&checked.envelope)?;
        decode::plan(&checked, &Arc::new(Queue::new(0)), &runtime, None, None)?;
    }
    Ok(())
}

/// Runs a request on the object: an encoded [`Envelope`], which an [`OfObject`] may follow.
///
/// # Errors
/// Errors of `ranges`. All other failures are the [`Status`] of the reply.
pub fn run(ranges: &mut dyn Ranges, request: &[u8]) -> Result<Reply> {
    match try_run(ranges, request) {
        Ok(reply) => Ok(reply),
        Err(Stop::Answer(status, message)) => Ok(Reply::without_rows(status, message)),
        Err(Stop::Fail(error)) => Err(error),
    }
}

fn try_run(ranges: &mut dyn Ranges, request: &[u8]) -> Result<Reply, Stop> {
    let start = ranges.monotonic();
    let (envelope, deleted) = OfObject::split(request).map_err(unsupported)?;
    let checked = check::check_cached(envelope)?;
    if let Some(why) = ranges.blocked().and_then(|blocked| blocked.refusal(&checked.functions)) {
        return Err(unsupported(why));
    }
    let wasm = methods::prepare(&checked.envelope, ranges)?;
    let runtime = runtime::Runtime::new(&checked.envelope)?;
    let queue = Arc::new(Queue::new(ranges.size_bytes()));
    let found = index::look_up(ranges, checked.envelope.probes.as_ref())?;
    let live = index::live(found.rows.clone(), deleted.as_ref());
    let live = live.map_err(|error| Stop::Answer(Status::Failed, error.to_string()))?;
    let plan = decode::plan(&checked, &queue, &runtime, live.as_ref(), wasm)?;
    let stream = plan.execute(0, runtime.task())?;
    let mut output = Output::new(&plan.schema(), &checked.envelope)?;
    let plan_us = elapsed_us(ranges, start);

    let start = ranges.monotonic();
    drive(stream, &queue, ranges, &mut output)?;
    let totals = queue.totals();
    Ok(Reply {
        status: Status::Ok.into(),
        message: String::new(),
        rows: output.rows,
        ipc: output.finish()?,
        read_bytes: totals.read_bytes,
        reads: totals.reads,
        read_us: totals.read_us,
        plan_us,
        run_us: elapsed_us(ranges, start),
        reserved_bytes_max: runtime.reserved_bytes_max(),
        index_pages: found.pages,
        index_rows: found.rows.map(|rows| rows.count()),
        rows_selected: rows_selected_by(&plan),
    })
}

/// Polls the plan and serves its reads. There is no other executor, so a plan that waits for
/// anything but its object would wait forever: stop it with an error.
fn drive(
    mut stream: SendableRecordBatchStream,
    queue: &Queue,
    ranges: &mut dyn Ranges,
    output: &mut Output,
) -> Result<(), Stop> {
    let woken = Arc::new(Woken(AtomicBool::new(false)));
    let waker = Waker::from(Arc::clone(&woken));
    let mut context = Context::from_waker(&waker);
    loop {
        ranges.check_deadline()?;
        match stream.as_mut().poll_next(&mut context) {
            Poll::Ready(Some(batch)) => output.write(&batch?)?,
            Poll::Ready(None) => return Ok(()),
            Poll::Pending => {
                let served = queue.serve(ranges)?;
                if !served && !woken.0.swap(false, Ordering::Relaxed) {
                    return Err(Error::internal("the plan waits for something that is not its object").into());
                }
            }
        }
    }
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The reply's rows, as an Arrow IPC stream in progress.
struct Output {
    writer: StreamWriter<Vec<u8>>,
    schema: SchemaRef,
    rows: u64,
    len_bytes_max: u64,
    /// Batches too small to send alone, and their total size. A selective filter makes very many of
    /// them.
    small: Vec<RecordBatch>,
    small_bytes: u64,
}

impl Output {
    fn new(schema: &SchemaRef, envelope: &Envelope) -> Result<Output, Stop> {
        let compression = envelope.compress.then_some(CompressionType::ZSTD);
        let options =
            IpcWriteOptions::default().try_with_compression(compression).map_err(DataFusionError::from)?;
        let writer =
            StreamWriter::try_new_with_options(Vec::new(), schema, options).map_err(DataFusionError::from)?;
        Ok(Output {
            writer,
            schema: Arc::clone(schema),
            rows: 0,
            len_bytes_max: envelope.output_bytes_max,
            small: Vec::new(),
            small_bytes: 0,
        })
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<(), Stop> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let batch_bytes = columns_bytes(batch);
        if batch_bytes > BATCH_BYTES_MAX {
            return Err(Stop::Answer(Status::TooLarge, "the reply has too many columns".to_owned()));
        }
        self.rows += batch.num_rows() as u64;
        if self.small_bytes + batch_bytes > SMALL_BYTES_MAX {
            self.send_small()?;
        }
        // A view holds its whole page in memory, so copy the few bytes that it shows.
        self.small.push(compact(batch)?);
        self.small_bytes += batch_bytes;
        if self.small_bytes >= SMALL_BYTES_MAX { self.send_small() } else { Ok(()) }
    }

    fn send_small(&mut self) -> Result<(), Stop> {
        if self.small.is_empty() {
            return Ok(());
        }
        let batch = match self.small.as_slice() {
            [batch] => batch.clone(),
            batches => compact(&concat_batches(&self.schema, batches).map_err(DataFusionError::from)?)?,
        };
        self.small.clear();
        self.small_bytes = 0;
        self.writer.write(&batch).map_err(DataFusionError::from)?;
        if self.writer.get_ref().len() as u64 > self.len_bytes_max {
            let message = "the reply is larger than the client allows".to_owned();
            return Err(Stop::Answer(Status::TooLarge, message));
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Bytes, Stop> {
        self.send_small()?;
        Ok(Bytes::from(self.writer.into_inner().map_err(DataFusionError::from)?))
    }
}

/// Size of a batch's columns if each column held its own bytes.
fn columns_bytes(batch: &RecordBatch) -> u64 {
    let column_bytes = |column: &ArrayRef| match guard::views(column) {
        Some(views) => views.iter().map(|view| guard::len_bytes(*view) + 16).sum(),
        None if column.data_type().is_nested() => guard::value_bytes(column).iter().sum(),
        None => column.to_data().get_slice_memory_size().map_or(u64::MAX, |bytes| bytes as u64),
    };
    batch.columns().iter().map(column_bytes).fold(0, u64::saturating_add)
}

/// Copies the bytes that views show, since a short view keeps its whole page in memory.
fn compact(batch: &RecordBatch) -> Result<RecordBatch, DataFusionError> {
    let columns = batch.columns().iter().map(compact_column).collect::<Result<Vec<ArrayRef>, ArrowError>>();
    // A batch without columns still has a row count.
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let compact =
        columns.and_then(|columns| RecordBatch::try_new_with_options(batch.schema(), columns, &rows));
    Ok(compact?)
}

fn compact_column(column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let struct_of = |array: &StructArray| {
        let columns = array.columns().iter().map(compact_column).collect::<Result<_, _>>()?;
        StructArray::try_new_with_length(array.fields().clone(), columns, array.nulls().cloned(), array.len())
    };
    Ok(match column.data_type() {
        DataType::Utf8View => Arc::new(column.as_string_view().gc()),
        DataType::BinaryView => Arc::new(column.as_binary_view().gc()),
        DataType::Struct(_) => Arc::new(struct_of(column.as_struct())?),
        DataType::List(field) => {
            let list = column.as_list::<i32>();
            let (offsets, values) = (list.offsets().clone(), compact_column(list.values())?);
            Arc::new(ListArray::try_new(Arc::clone(field), offsets, values, list.nulls().cloned())?)
        }
        DataType::LargeList(field) => {
            let list = column.as_list::<i64>();
            let (offsets, values) = (list.offsets().clone(), compact_column(list.values())?);
            Arc::new(LargeListArray::try_new(Arc::clone(field), offsets, values, list.nulls().cloned())?)
        }
        DataType::Map(field, sorted) => {
            let map = column.as_map();
            let (offsets, entries) = (map.offsets().clone(), struct_of(map.entries())?);
            let nulls = map.nulls().cloned();
            Arc::new(MapArray::try_new(Arc::clone(field), offsets, entries, nulls, *sorted)?)
        }
        _ => Arc::clone(column),
    })
}
