//! Runs an aggregate once that a query contains several times.
//!
//! A query can name the same view or common table expression several times, and DataFusion plans
//! each of them separately. So each aggregate in it would read its tables again. This planner finds
//! equal aggregates in the optimized plan. The first of them that a query needs runs, and the
//! others take its rows from memory.
//!
//! Equal means the same nodes, expressions and tables. A session opens each table once, and a
//! snapshot is a table of its own. Only aggregates are shared: their rows are few. If there are too
//! many of them, each aggregate runs for itself.
//!
//! Each copy has its own physical plan, and the optimizer may distribute the rows of two copies in
//! different ways. So all partitions of all copies take their rows from one run of one copy.

use crate::expr::Plan;
use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::runtime::JoinSet;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::utils::memory::RecordBatchMemoryCounter;
use datafusion::common::{DFSchemaRef, DataFusionError, Result, Statistics, internal_err};
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{
    Expr, Extension, LogicalPlan, UserDefinedLogicalNode, UserDefinedLogicalNodeCore,
};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::{EmissionType, reset_plan_states};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildStats, DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PhysicalExpr, PlanProperties,
    StatisticsArgs,
};
use datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner};
use futures::stream::{self, StreamExt, TryStreamExt};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tokio::sync::OnceCell;

/// Maximum memory for the rows of a shared aggregate.
const SHARED_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Plans queries like DataFusion, but shares equal aggregates.
#[derive(Debug)]
pub struct SharingPlanner {
    /// Maximum memory for the rows of one aggregate.
    bytes_max: usize,
}

impl SharingPlanner {
    /// Shares the rows of an aggregate if they take at most so many bytes.
    #[must_use]
    pub fn new(bytes_max: usize) -> SharingPlanner {
        SharingPlanner { bytes_max }
    }
}

impl Default for SharingPlanner {
    fn default() -> SharingPlanner {
        SharingPlanner::new(SHARED_BYTES_MAX)
    }
}

#[async_trait]
impl QueryPlanner for SharingPlanner {
    async fn create_physical_plan(&self, plan: &LogicalPlan, session: &dyn Session) -> Result<Plan> {
        let (plan, count) = share(plan)?;
        let rows = (0..count).map(|_| Arc::new(SharedRows::new(self.bytes_max))).collect();
        let planner =
            DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(SubplanPlanner { rows })]);
        planner.create_physical_plan(&plan, session).await
    }
}

/// The plan with a [`CommonSubplan`] above each aggregate that occurs several times, and the number
/// of different ones.
fn share(plan: &LogicalPlan) -> Result<(LogicalPlan, usize)> {
    let mut found: HashMap<Key, usize> = HashMap::new();
    let mut is_recursive = false;
    plan.apply_with_subqueries(|node| {
        is_recursive |= matches!(node, LogicalPlan::RecursiveQuery(_));
        if let Some(key) = Key::of(node)? {
            *found.entry(key).or_default() += 1;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    found.retain(|_, times| *times > 1);
    // Each iteration of a recursive query runs the same plan on other rows.
    if found.is_empty() || is_recursive {
        return Ok((plan.clone(), 0));
    }
    let mut numbers: HashMap<Key, usize> = HashMap::new();
    let shared = plan.clone().transform_down_with_subqueries(|node| {
        let Some(key) = Key::of(&node)?.filter(|key| found.contains_key(key)) else {
            return Ok(Transformed::no(node));
        };
        let next = numbers.len();
        let number = *numbers.entry(key).or_insert(next);
        let node = Arc::new(CommonSubplan { number, input: node });
        let node = LogicalPlan::Extension(Extension { node });
        Ok(Transformed::new(node, true, TreeNodeRecursion::Jump))
    })?;
    Ok((shared.data, numbers.len()))
}

/// Aggregates with equal keys have the same rows.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    plan: LogicalPlan,
    /// Addresses of the tables that the plan scans. Calls of a table function with other arguments
    /// have the same name.
    tables: Vec<usize>,
}

impl Key {
    /// The key of an aggregate over tables that has the same rows each time it runs. `None` for
    /// other nodes.
    fn of(plan: &LogicalPlan) -> Result<Option<Key>> {
        if !matches!(plan, LogicalPlan::Aggregate(_)) {
            return Ok(None);
        }
        let (mut tables, mut is_stable) = (Vec::new(), true);
        plan.apply_with_subqueries(|node| {
            match node {
                LogicalPlan::TableScan(scan) => tables.push(Arc::as_ptr(&scan.source).addr()),
                // A second run may return other rows as the first ones, and it would get the filter
                // that the first run of the sort pushed into its scan.
                LogicalPlan::Limit(_) | LogicalPlan::Extension(_) => is_stable = false,
                LogicalPlan::Sort(sort) => is_stable &= sort.fetch.is_none(),
                _ => {}
            }
            node.apply_expressions(|expr| {
                // A column of an outer query has other values for each of its rows.
                is_stable &= !expr.is_volatile() && !expr.contains_outer();
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        Ok((is_stable && !tables.is_empty()).then(|| Key { plan: plan.clone(), tables }))
    }
}

/// An aggregate that occurs several times in a query. Equal ones have the same number.
#[derive(Debug, PartialEq, Eq, Hash, PartialOrd)]
struct CommonSubplan {
    number: usize,
    input: LogicalPlan,
}

impl UserDefinedLogicalNodeCore for CommonSubplan {
    fn name(&self) -> &'static str {
        "CommonSubplan"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "CommonSubplan: number={}", self.number)
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<CommonSubplan> {
        match (inputs.pop(), inputs.is_empty()) {
            (Some(input), true) => Ok(CommonSubplan { number: self.number, input }),
            _ => internal_err!("a common subplan has one input"),
        }
    }
}

/// Plans each [`CommonSubplan`] of a query.
struct SubplanPlanner {
    /// The rows of each, by number.
    rows: Vec<Arc<SharedRows>>,
}

#[async_trait]
impl ExtensionPlanner for SubplanPlanner {
    async fn plan_extension(
        &self,
        _: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _: &[&LogicalPlan],
        inputs: &[Plan],
        _: &dyn Session,
        _: &PhysicalPlanningContext,
    ) -> Result<Option<Plan>> {
        let Some(node) = node.as_any().downcast_ref::<CommonSubplan>() else { return Ok(None) };
        match (inputs, self.rows.get(node.number)) {
            ([input], Some(rows)) => {
                Ok(Some(Arc::new(CommonSubplanExec::new(node.number, Arc::clone(input), Arc::clone(rows)))))
            }
            _ => internal_err!("a common subplan has one input and a number"),
        }
    }
}

/// Returns the rows of its input, which another node with an equal input may have computed.
#[derive(Debug)]
pub struct CommonSubplanExec {
    number: usize,
    rows: Arc<SharedRows>,
    copy: Arc<PlanCopy>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl CommonSubplanExec {
    fn new(number: usize, input: Plan, rows: Arc<SharedRows>) -> CommonSubplanExec {
        // The rows may come from a copy with another order or distribution.
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            Partitioning::UnknownPartitioning(input.properties().partitioning.partition_count()),
            EmissionType::Final,
            input.properties().boundedness,
        );
        CommonSubplanExec {
            number,
            rows,
            copy: Arc::new(PlanCopy::new(input)),
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// Whether its own input ran.
    pub fn has_run(&self) -> bool {
        self.copy.has_run.load(Ordering::Acquire)
    }
}

impl DisplayAs for CommonSubplanExec {
    fn fmt_as(&self, format: DisplayFormatType, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match format {
            DisplayFormatType::TreeRender => write!(formatter, "number={}", self.number),
            _ => write!(formatter, "CommonSubplanExec: number={}", self.number),
        }
    }
}

impl ExecutionPlan for CommonSubplanExec {
    fn name(&self) -> &'static str {
        "CommonSubplanExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Plan> {
        vec![&self.copy.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Plan>) -> Result<Plan> {
        match (children.pop(), children.is_empty()) {
            (Some(input), true) => {
                Ok(Arc::new(CommonSubplanExec::new(self.number, input, Arc::clone(&self.rows))))
            }
            _ => internal_err!("a common subplan has one input"),
        }
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![if partition.is_none() { ChildStats::At(None) } else { ChildStats::Skip }]
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        match inputs {
            [input] => Ok(Arc::clone(input)),
            _ => internal_err!("a common subplan has one input"),
        }
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (rows, copy) = (Arc::clone(&self.rows), Arc::clone(&self.copy));
        let partitions = self.properties.partitioning.partition_count();
        let found = async move {
            let shared = rows.get_or_run(&copy, &task).await?;
            match shared.filter(|shared| shared.partitions.len() == partitions) {
                Some(shared) => {
                    let batches = shared.partitions[partition].clone();
                    Ok::<_, DataFusionError>(stream::iter(batches.into_iter().map(Ok)).boxed())
                }
                None => Ok(copy.own().await?.execute(partition, task)?.boxed()),
            }
        };
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let batches = stream::once(found).try_flatten();
        let counted = batches.inspect_ok(move |batch| baseline.record_output(batch.num_rows()));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), counted)))
    }
}

/// One of the equal plans.
#[derive(Debug)]
struct PlanCopy {
    input: Plan,
    has_run: AtomicBool,
    own: OnceCell<Plan>,
}

impl PlanCopy {
    fn new(input: Plan) -> PlanCopy {
        PlanCopy { input, has_run: AtomicBool::new(false), own: OnceCell::new() }
    }

    /// The plan to run for the rows of all copies. A plan can run once, so a second run needs a
    /// new one.
    fn to_run(&self) -> Result<Plan> {
        let input = Arc::clone(&self.input);
        if self.has_run.swap(true, Ordering::AcqRel) { reset_plan_states(input) } else { Ok(input) }
    }

    /// The plan to run for the rows of this copy only.
    async fn own(&self) -> Result<Plan> {
        self.own.get_or_try_init(|| async { self.to_run() }).await.cloned()
    }
}

/// The rows of all equal plans.
#[derive(Debug)]
struct SharedRows {
    rows: OnceCell<Option<Collected>>,
    bytes_max: usize,
}

/// The batches of each partition, and the memory that they take.
#[derive(Debug)]
struct Collected {
    partitions: Vec<Vec<RecordBatch>>,
    _memory: Arc<MemoryReservation>,
}

impl SharedRows {
    fn new(bytes_max: usize) -> SharedRows {
        SharedRows { rows: OnceCell::new(), bytes_max }
    }

    /// The rows. The first caller computes them with its copy of the plan. `None` if they take too
    /// much memory.
    async fn get_or_run(&self, copy: &PlanCopy, task: &Arc<TaskContext>) -> Result<Option<&Collected>> {
        let rows = self.rows.get_or_try_init(|| async { self.run(&copy.to_run()?, task).await });
        Ok(rows.await?.as_ref())
    }

    async fn run(&self, plan: &Plan, task: &Arc<TaskContext>) -> Result<Option<Collected>> {
        let memory = Arc::new(MemoryConsumer::new("CommonSubplan").register(task.memory_pool()));
        let bytes = Arc::new(AtomicUsize::new(0));
        let count = plan.properties().partitioning.partition_count();
        let bytes_max = self.bytes_max;
        let mut running = JoinSet::new();
        for partition in 0..count {
            let mut rows = plan.execute(partition, Arc::clone(task))?;
            let (memory, bytes) = (Arc::clone(&memory), Arc::clone(&bytes));
            running.spawn(async move {
                let mut batches = Vec::new();
                // The batches of an aggregate are slices of one.
                let mut counter = RecordBatchMemoryCounter::new();
                while let Some(batch) = rows.try_next().await? {
                    let size = counter.count_batch(&batch);
                    let all = bytes.fetch_add(size, Ordering::Relaxed) + size;
                    if all > bytes_max || memory.try_grow(size).is_err() {
                        return Ok(None);
                    }
                    batches.push(batch);
                }
                Ok::<_, DataFusionError>(Some((partition, batches)))
            });
        }
        let mut partitions = vec![Vec::new(); count];
        while let Some(ended) = running.join_next().await {
            let ended = ended.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?;
            let Some((partition, batches)) = ended? else { return Ok(None) };
            partitions[partition] = batches;
        }
        Ok(Some(Collected { partitions, _memory: memory }))
    }
}
