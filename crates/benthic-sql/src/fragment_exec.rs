//! The plan node that runs a fragment. For each object it pushes the fragment to the OSD or runs it
//! in the client. Both ways return the same rows. If an OSD refuses or fails a fragment, the node
//! runs it in the client.

use crate::dynamic_filter::DynamicFilter;
use crate::errors::external;
use crate::fragment::{FilteredFragment, Fragment};
use crate::object::DataObject;
use crate::reader::Readers;
use crate::scan::{IndexUse, in_object};
use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use arrow::ipc::reader::StreamReader;
use benthic_core::pushdown::{Choice, Pushdown, Step};
use benthic_core::{Clock, Error, ErrorKind};
use benthic_fragment::fragment::{OfObject, Reply, Status, rows_selected_by};
use benthic_fragment::wasm::Methods;
use bytes::Bytes;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet, Time,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, displayable,
};
use futures::future::ready;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt, stream};
use prost::Message;
use std::collections::HashSet;
use std::fmt;
use std::io::Cursor;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Number of objects that a partition processes concurrently.
const OBJECTS_AT_ONCE: usize = 4;
/// Interval of the checks whether a trial pull takes too long.
const TRY_FOR: Duration = Duration::from_millis(10);

type Batches = BoxStream<'static, Result<RecordBatch>>;

/// Options for all objects of a fragment.
#[derive(Clone, Debug)]
pub struct PushdownOptions {
    pub pushdown: Pushdown,
    /// Whether bytes of the objects probably take long to arrive.
    pub is_far: bool,
    pub compress: bool,
    /// Clock that measures the times that [`Choice`] compares.
    pub clock: Arc<dyn Clock>,
}

/// Plan node of a fragment and its objects.
#[derive(Debug)]
pub struct FragmentExec {
    fragment: Arc<Fragment>,
    filter: Arc<DynamicFilter>,
    methods: Arc<Methods>,
    groups: usize,
    choice: Arc<Choice>,
    clock: Arc<dyn Clock>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl FragmentExec {
    /// A node that distributes the objects over `groups` partitions. The second argument is the
    /// [request](Fragment::envelope).
    pub fn new(
        fragment: Fragment,
        (envelope, methods): (Bytes, Methods),
        groups: usize,
        options: PushdownOptions,
    ) -> FragmentExec {
        let mut equivalences = fragment.plan.properties().eq_properties.clone();
        // Only the rows of one object have an order.
        equivalences.clear_orderings();
        let properties = PlanProperties::new(
            equivalences,
            Partitioning::UnknownPartitioning(groups),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        FragmentExec {
            filter: Arc::new(DynamicFilter::new(&fragment, envelope, options.compress)),
            fragment: Arc::new(fragment),
            methods: Arc::new(methods),
            groups,
            choice: Arc::new(Choice::new(options.pushdown, options.is_far)),
            clock: options.clock,
            properties: Arc::new(properties.with_scheduling_type(SchedulingType::Cooperative)),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

impl FragmentExec {
    pub fn fragment(&self) -> &Fragment {
        &self.fragment
    }
}

impl DisplayAs for FragmentExec {
    fn fmt_as(&self, format: DisplayFormatType, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if format == DisplayFormatType::TreeRender {
            return write!(formatter, "objects={}", self.fragment.objects.len());
        }
        write!(formatter, "FragmentExec: objects={}", self.fragment.objects.len())?;
        if self.fragment.pruned_objects > 0 {
            write!(formatter, ", objects_pruned={}", self.fragment.pruned_objects)?;
        }
        if let Some(index) = &self.fragment.index {
            write!(formatter, ", {}", index.text)?;
        }
        if let Some(dynamic) = &self.fragment.dynamic {
            write!(formatter, ", only {}", self.filter.describe(dynamic))?;
        }
        formatter.write_str(", beside each: ")?;
        let nodes = displayable(self.fragment.plan.as_ref()).indent(false).to_string();
        let nodes: Vec<&str> = nodes.lines().map(str::trim).collect();
        formatter.write_str(&nodes.join(" <- "))
    }
}

impl ExecutionPlan for FragmentExec {
    fn name(&self) -> &'static str {
        "FragmentExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        // A join creates its dynamic filter only if a node below it contains the filter.
        if let Some(dynamic) = &self.fragment.dynamic { f(dynamic) } else { Ok(TreeNodeRecursion::Continue) }
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if children.is_empty() { Ok(self) } else { internal_err!("a fragment has no children") }
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let objects: Vec<_> =
            self.fragment.objects.iter().skip(partition).step_by(self.groups).cloned().collect();
        let run = Arc::new(Run {
            fragment: Arc::clone(&self.fragment),
            filter: Arc::clone(&self.filter),
            methods: Arc::clone(&self.methods),
            choice: Arc::clone(&self.choice),
            clock: Arc::clone(&self.clock),
            counters: Counters::new(&self.metrics, partition),
            schema: self.schema(),
            task,
        });
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let rows = stream::iter(objects)
            .map(move |object| Arc::clone(&run).batches_of(object))
            .flatten_unordered(OBJECTS_AT_ONCE)
            .boxed();
        let rows = if let Some(limit) = self.fragment.limit { first(rows, limit) } else { rows };
        let counted = rows.inspect_ok(move |batch| baseline.record_output(batch.num_rows()));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), counted)))
    }
}

fn first(batches: Batches, rows: usize) -> Batches {
    batches
        .scan(rows, |left, batch| {
            let batch = match batch {
                _ if *left == 0 => return ready(None),
                Ok(batch) => batch,
                Err(error) => return ready(Some(Err(error))),
            };
            let rows = batch.num_rows().min(*left);
            *left -= rows;
            ready(Some(Ok(batch.slice(0, rows))))
        })
        .boxed()
}

struct Counters {
    pushed: Count,
    pulled: Count,
    given_up: Count,
    left_out: Count,
    refused_busy: Count,
    refused_too_large: Count,
    refused_unsupported: Count,
    refused_failed: Count,
    bytes_read_there: Count,
    bytes_moved: Count,
    time_there: Time,
    time_here: Time,
    /// Rows that satisfied the filters.
    rows_selected: Count,
    readers: Arc<Readers>,
    index_use: IndexUse,
}

impl Counters {
    fn new(metrics: &ExecutionPlanMetricsSet, partition: usize) -> Counters {
        let count = |name: &'static str| MetricBuilder::new(metrics).counter(name, partition);
        let time = |name: &'static str| MetricBuilder::new(metrics).subset_time(name, partition);
        let bytes_moved = count("bytes_moved");
        Counters {
            pushed: count("objects_pushed"),
            pulled: count("objects_pulled"),
            given_up: count("objects_given_up"),
            left_out: count("objects_left_out"),
            refused_busy: count("refused_busy"),
            refused_too_large: count("refused_too_large"),
            refused_unsupported: count("refused_unsupported"),
            refused_failed: count("refused_failed"),
            bytes_read_there: count("bytes_read_there"),
            rows_selected: count("rows_selected"),
            readers: Arc::new(Readers { wanted_bytes: bytes_moved.clone() }),
            index_use: IndexUse::new(metrics, partition, bytes_moved.clone()),
            bytes_moved,
            time_there: time("time_there"),
            time_here: time("time_here"),
        }
    }
}

enum Pushed {
    Rows(Vec<RecordBatch>),
    Busy,
    Refused,
}

struct Run {
    fragment: Arc<Fragment>,
    filter: Arc<DynamicFilter>,
    /// The methods of WebAssembly classes that the fragment calls.
    methods: Arc<Methods>,
    choice: Arc<Choice>,
    clock: Arc<dyn Clock>,
    counters: Counters,
    schema: SchemaRef,
    task: Arc<TaskContext>,
}

impl Run {
    fn batches_of(self: Arc<Run>, object: Arc<DataObject>) -> Batches {
        stream::once(async move {
            let filtered = self.filter.current(&self.fragment)?;
            if filtered.prunes.as_ref().is_some_and(|filter| object.is_pruned_by(filter)) {
                self.counters.left_out.add(1);
                object.mark_done();
                return Ok(stream::empty().boxed());
            }
            let mut start = self.clock.monotonic();
            let mut step = match object.can_run_fragments() {
                true => self.choice.next(object.size_bytes()),
                false => Step::Pull,
            };
            loop {
                step = match step {
                    Step::Pull => return Arc::clone(&self).pull(&object, &filtered),
                    Step::TryPull => match Arc::clone(&self).try_pull(&object, &filtered).await? {
                        Some(batches) => return Ok(batches),
                        None => {
                            start = self.clock.monotonic();
                            Step::Push
                        }
                    },
                    Step::Wait(time) => {
                        tokio::time::sleep(time).await;
                        Step::Push
                    }
                    Step::Push => match self.push(&object, &filtered, start).await? {
                        Pushed::Rows(batches) => {
                            object.mark_done();
                            return Ok(stream::iter(batches).map(Ok).boxed());
                        }
                        Pushed::Busy => self.choice.next_when_busy(object.size_bytes(), self.since(start)),
                        Pushed::Refused => Step::Pull,
                    },
                };
            }
        })
        .try_flatten()
        .boxed()
    }

    fn since(&self, start: Duration) -> Duration {
        self.clock.monotonic().saturating_sub(start)
    }

    /// Pushes the fragment. `start` is the time of the first attempt.
    async fn push(
        &self,
        object: &DataObject,
        filtered: &FilteredFragment,
        start: Duration,
    ) -> Result<Pushed> {
        let counters = &self.counters;
        let scanned = match self.scan(object, filtered).await {
            Ok(Some(Reply { status, .. })) if status == i32::from(Status::SendModules) => {
                if let Err(error) = self.send_modules(object).await {
                    return self.on_refused_module(error);
                }
                self.scan(object, filtered).await
            }
            scanned => scanned,
        };
        let reply = match scanned {
            Ok(Some(reply)) => reply,
            Ok(None) => {
                let why = "the reply comes from another build";
                return self.refuse(&counters.refused_unsupported, object, why);
            }
            Err(error) => return self.on_error(error),
        };
        counters.bytes_read_there.add(reply.read_bytes as usize);
        counters.time_there.add_duration(Duration::from_micros(reply.plan_us + reply.run_us));
        match Status::try_from(reply.status) {
            Ok(Status::Ok) => {}
            Ok(Status::Busy) => {
                counters.refused_busy.add(1);
                return Ok(Pushed::Busy);
            }
            Ok(Status::TooLarge) => return Ok(self.refuse_too_large()),
            // Run it in the client. It fails there too, with the usual message and error kind.
            Ok(Status::Failed) => {
                counters.refused_failed.add(1);
                return Ok(Pushed::Refused);
            }
            Ok(Status::OtherBuild) => {
                static WARNED: AtomicBool = AtomicBool::new(false);
                if !WARNED.swap(true, Ordering::Relaxed) {
                    tracing::warn!(
                        "all fragments run in the client, which is slower: the OSDs have the class of another build of this \
                         program; install libcls_table_1.so with `benthic class install` and restart the OSDs"
                    );
                }
                return Ok(self.refuse_all(&counters.refused_unsupported));
            }
            // `SendModules` a second time: the OSD's cache is too small for them, or its
            // `libcls_wasm_1.so` is of an older build.
            Ok(Status::Unsupported | Status::SendModules) | Err(_) => {
                return self.refuse(&counters.refused_unsupported, object, &reply.message);
            }
        }
        let Some(batches) = batches(&reply, &self.schema)? else {
            return self.refuse(&counters.refused_unsupported, object, "the reply has another schema");
        };
        counters.pushed.add(1);
        counters.rows_selected.add(reply.rows_selected.unwrap_or(0) as usize);
        if filtered.index.as_ref().is_some_and(|index| index.beside.is_some()) {
            counters.index_use.add(reply.index_rows, reply.index_pages, 0);
        }
        self.choice.add_pushed(object.size_bytes(), self.since(start));
        Ok(Pushed::Rows(batches))
    }

    /// The reply of the object, or `None` if another build wrote it.
    async fn scan(
        &self,
        object: &DataObject,
        filtered: &FilteredFragment,
    ) -> benthic_core::Result<Option<Reply>> {
        let method = if self.methods.is_empty() { "scan" } else { "scan_wasm" };
        let request = OfObject::request(&filtered.envelope, object.deleted_rows());
        let request_bytes = request.len();
        let output = object.exec("table", method, request).await?;
        self.counters.bytes_moved.add(request_bytes + output.len());
        Ok(Reply::decode(output).ok())
    }

    /// Sends the modules of the methods to the OSD that stores the object.
    async fn send_modules(&self, object: &DataObject) -> benthic_core::Result<()> {
        let mut sent = HashSet::new();
        for function in self.methods.values().filter(|function| sent.insert(function.module)) {
            let input = function.attached();
            self.counters.bytes_moved.add(input.len());
            object.exec("wasm", "check", input).await?;
        }
        Ok(())
    }

    /// The methods run in the client if the OSDs refuse the modules. An older build may not know
    /// them, and the rules or the client's caps may forbid them.
    fn on_refused_module(&self, error: Error) -> Result<Pushed> {
        match error.kind() {
            ErrorKind::Unsupported
            | ErrorKind::InvalidArgument
            | ErrorKind::PermissionDenied
            | ErrorKind::LimitExceeded
            | ErrorKind::ClassFailed
            | ErrorKind::Busy => {
                tracing::warn!("the methods run in the client, because the OSDs refuse them: {error}");
                Ok(self.refuse_all(&self.counters.refused_unsupported))
            }
            _ => Err(external(error)),
        }
    }

    fn on_error(&self, error: Error) -> Result<Pushed> {
        match error.kind() {
            ErrorKind::PermissionDenied if !self.methods.is_empty() => self.on_refused_module(error),
            ErrorKind::Unsupported => {
                static WARNED: AtomicBool = AtomicBool::new(false);
                if !WARNED.swap(true, Ordering::Relaxed) {
                    tracing::warn!("all fragments run in the client, which is slower: {error}");
                }
                Ok(self.refuse_all(&self.counters.refused_unsupported))
            }
            // The call exceeded its time or memory.
            ErrorKind::LimitExceeded => Ok(self.refuse_too_large()),
            ErrorKind::ClassFailed => {
                tracing::warn!("the fragment failed beside its object and runs in the client: {error}");
                Ok(self.refuse_all(&self.counters.refused_failed))
            }
            _ => Err(external(error)),
        }
    }

    fn refuse(&self, reason: &Count, object: &DataObject, why: &str) -> Result<Pushed> {
        tracing::info!("the OSD refused the fragment, which runs in the client: {why} object={object:?}");
        Ok(self.refuse_all(reason))
    }

    /// Counts the refusal, and stops pushing.
    fn refuse_all(&self, reason: &Count) -> Pushed {
        reason.add(1);
        self.choice.stop_pushing();
        Pushed::Refused
    }

    fn refuse_too_large(&self) -> Pushed {
        self.counters.refused_too_large.add(1);
        self.choice.note_too_large();
        Pushed::Refused
    }

    /// Pulls the object, but returns `None` if the first rows take too long.
    async fn try_pull(
        self: Arc<Run>,
        object: &Arc<DataObject>,
        filtered: &FilteredFragment,
    ) -> Result<Option<Batches>> {
        let start = self.clock.monotonic();
        let mut rows = Arc::clone(&self).pull(object, filtered)?;
        loop {
            match tokio::time::timeout(TRY_FOR, rows.next()).await {
                Ok(first) => {
                    self.choice.end_trial_pull();
                    return Ok(Some(stream::iter(first).chain(rows).boxed()));
                }
                Err(_) if self.choice.give_up_if_slow(object.size_bytes(), self.since(start)) => {
                    self.counters.given_up.add(1);
                    return Ok(None);
                }
                Err(_) => {}
            }
        }
    }

    /// Pulls the object: runs the fragment in the client, which reads only the bytes that it needs.
    fn pull(self: Arc<Run>, object: &Arc<DataObject>, filtered: &FilteredFragment) -> Result<Batches> {
        let start = self.clock.monotonic();
        let size_bytes = object.size_bytes();
        let counters = &self.counters;
        let plan = self.fragment.on(object, (&counters.readers, &counters.index_use), filtered)?;
        let named = Arc::clone(object);
        let batches =
            plan.execute(0, Arc::clone(&self.task))?.map_err(move |error| in_object(&named, &error));
        let done = stream::once(async move {
            self.counters.pulled.add(1);
            self.counters.rows_selected.add(rows_selected_by(&plan).unwrap_or(0) as usize);
            let elapsed = self.since(start);
            self.choice.add_pulled(size_bytes, elapsed);
            self.counters.time_here.add_duration(elapsed);
        });
        Ok(batches.chain(done.filter_map(|()| ready(None))).boxed())
    }
}

/// The rows of a reply, or `None` if they have another schema.
fn batches(reply: &Reply, schema: &SchemaRef) -> Result<Option<Vec<RecordBatch>>> {
    let reader = StreamReader::try_new(Cursor::new(&reply.ipc), None)?;
    let sent = reader.schema();
    let types = |schema: &SchemaRef| {
        schema.fields().iter().map(|field| field.data_type().clone()).collect::<Vec<_>>()
    };
    if types(&sent) != types(schema) {
        return Ok(None);
    }
    let batches = reader.map(|batch| {
        let batch = batch?;
        let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(schema), batch.columns().to_vec(), &rows)?)
    });
    batches.collect::<Result<Vec<_>>>().map(Some)
}
