//! A scan of objects: wraps DataFusion's Parquet scan, adds the object to its errors, and looks up
//! rows in indexes.
//!
//! DataFusion's own scan is kept so that all its optimizer rules apply.

use crate::dynamic_filter::shorten;
use crate::errors::{external, from_datafusion};
use crate::index_choice::{IndexChoice, IndexPlan};
use crate::object::DataObject;
use crate::record::ScanAccess;
use crate::unmatched_rows::UnmatchedRows;
use arrow::array::RecordBatch;
use benthic_core::Error;
use benthic_fragment::fragment::{live, selection};
use benthic_index::{Probes, Rows};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, internal_datafusion_err, internal_err};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{
    FileGroup, FileOpener, FileScanConfig, FileSource, ParquetSource,
};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::object_store::ObjectStore;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_plan::DisplayFormatType;
use datafusion::physical_plan::filter_pushdown::FilterPushdownPropagation;
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder};
use datafusion_datasource::morsel::{Morsel, MorselPlan, MorselPlanner, Morselizer};
use futures::FutureExt;
use futures::stream::{BoxStream, StreamExt};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The source of a scan of objects.
#[derive(Clone)]
pub struct ObjectSource {
    pub parquet: ParquetSource,
    pub pruned_objects: usize,
    pub choice: Arc<IndexChoice>,
    /// Index lookup to do before an object is read.
    pub index: Option<Arc<IndexPlan>>,
    /// The record of the scan's access, if the table records it.
    pub access: Option<Arc<ScanAccess>>,
    /// Counters of the lookups. If absent, the scan's own metrics count them.
    pub index_use: Option<IndexUse>,
}

/// Counters of index lookups.
#[derive(Clone, Debug)]
pub struct IndexUse {
    /// Objects in which no row can match.
    pub left_out: Count,
    pub rows: Count,
    pub pages: Count,
    moved: Count,
    lookups: Arc<AtomicUsize>,
    useful_lookups: Arc<AtomicUsize>,
}

/// Number of lookups after which useless ones stop.
const LOOKUPS_MIN: usize = 8;

impl IndexUse {
    /// Adds the counters to a node's metrics. `moved` counts the bytes that the client reads.
    pub fn new(metrics: &ExecutionPlanMetricsSet, partition: usize, moved: Count) -> IndexUse {
        let count = |name: &'static str| MetricBuilder::new(metrics).counter(name, partition);
        IndexUse {
            left_out: count("objects_left_out_by_index"),
            rows: count("rows_by_index"),
            pages: count("index_pages"),
            moved,
            lookups: Arc::default(),
            useful_lookups: Arc::default(),
        }
    }

    /// Records a lookup. `rows` is the number of selected rows if the index helped.
    pub fn add(&self, rows: Option<u64>, pages: u64, moved_bytes: u64) {
        self.lookups.fetch_add(1, Ordering::Relaxed);
        self.pages.add(pages as usize);
        self.moved.add(moved_bytes as usize);
        if let Some(rows) = rows {
            self.useful_lookups.fetch_add(1, Ordering::Relaxed);
            self.rows.add(rows as usize);
            self.left_out.add(usize::from(rows == 0));
        }
    }

    /// Whether the next lookup probably helps. Lookups do not help if too many rows match or if
    /// objects have no index pages.
    fn is_useful(&self) -> bool {
        let lookups = self.lookups.load(Ordering::Relaxed);
        lookups < LOOKUPS_MIN || self.useful_lookups.load(Ordering::Relaxed) * LOOKUPS_MIN >= lookups
    }
}

impl ObjectSource {
    pub fn plain(parquet: ParquetSource) -> ObjectSource {
        ObjectSource {
            parquet,
            pruned_objects: 0,
            choice: Arc::default(),
            index: None,
            access: None,
            index_use: None,
        }
    }

    pub fn with(&self, parquet: ParquetSource) -> ObjectSource {
        ObjectSource { parquet, ..self.clone() }
    }

    fn with_any(&self, source: &Arc<dyn FileSource>) -> Result<Arc<dyn FileSource>> {
        match source.downcast_ref::<ParquetSource>() {
            Some(parquet) => Ok(Arc::new(self.with(parquet.clone()))),
            None => internal_err!("a source of Parquet files changed its type"),
        }
    }
}

impl FileSource for ObjectSource {
    fn create_file_opener(
        &self,
        store: Arc<dyn ObjectStore>,
        scan: &FileScanConfig,
        partition: usize,
    ) -> Result<Arc<dyn FileOpener>> {
        self.parquet.create_file_opener(store, scan, partition)
    }

    fn create_morselizer(
        &self,
        store: Arc<dyn ObjectStore>,
        scan: &FileScanConfig,
        partition: usize,
    ) -> Result<Box<dyn Morselizer>> {
        let look_up = self.index.as_ref().and_then(|index| index.here.as_ref()).map(|probes| {
            let index_use = self.index_use.clone();
            let index_use = index_use.unwrap_or_else(|| {
                let metrics = self.parquet.metrics();
                let moved = MetricBuilder::new(metrics).counter("index_bytes", partition);
                IndexUse::new(metrics, partition, moved)
            });
            Lookup { probes: Arc::clone(probes), index_use }
        });
        // The conditions select the rows of which the other columns are read, because these may be
        // large. The filter above the scan stays.
        let mut files = scan.file_groups.iter().flat_map(FileGroup::iter);
        let has_parts = files
            .any(|file| file.extensions.get_arc::<DataObject>().is_some_and(|object| object.has_parts()));
        let parquet = self.parquet.clone().with_pushdown_filters(has_parts);
        let unmatched = self.parquet.filter().and_then(|predicate| {
            let dropped_rows =
                MetricBuilder::new(self.parquet.metrics()).counter("unmatched_rows", partition);
            let schema = self.table_schema().table_schema();
            UnmatchedRows::of(&predicate, schema, self.parquet.projection(), dropped_rows)
        });
        let files = parquet.create_morselizer(store, scan, partition)?.into();
        Ok(Box::new(Named { files: Files { files, unmatched }, look_up }))
    }

    fn table_schema(&self) -> &TableSchema {
        self.parquet.table_schema()
    }

    fn with_batch_size(&self, batch_rows: usize) -> Arc<dyn FileSource> {
        let sized = self.parquet.with_batch_size(batch_rows);
        self.with_any(&sized).unwrap_or(sized)
    }

    fn filter(&self) -> Option<Arc<dyn PhysicalExpr>> {
        self.parquet.filter()
    }

    fn projection(&self) -> Option<&ProjectionExprs> {
        self.parquet.projection()
    }

    fn metrics(&self) -> &ExecutionPlanMetricsSet {
        self.parquet.metrics()
    }

    fn file_type(&self) -> &str {
        self.parquet.file_type()
    }

    fn fmt_extra(&self, format: DisplayFormatType, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.pruned_objects > 0 {
            write!(formatter, ", objects_pruned={}", self.pruned_objects)?;
        }
        if let Some(index) = &self.index {
            write!(formatter, ", {}", index.text)?;
        }
        // The predicate may hold all keys of a join.
        let rest = fmt::from_fn(|formatter| self.parquet.fmt_extra(format, formatter)).to_string();
        formatter.write_str(&shorten(rest))
    }

    fn try_pushdown_filters(
        &self,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn FileSource>>> {
        let pushed = self.parquet.try_pushdown_filters(filters, config)?;
        let updated_node = pushed.updated_node.map(|node| self.with_any(&node)).transpose()?;
        Ok(FilterPushdownPropagation { filters: pushed.filters, updated_node })
    }

    fn try_pushdown_projection(&self, projection: &ProjectionExprs) -> Result<Option<Arc<dyn FileSource>>> {
        self.parquet.try_pushdown_projection(projection)?.map(|source| self.with_any(&source)).transpose()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.parquet.apply_expressions(f)
    }
}

#[derive(Clone, Debug)]
struct Lookup {
    probes: Arc<Probes>,
    index_use: IndexUse,
}

#[derive(Clone, Debug)]
struct Files {
    files: Arc<dyn Morselizer>,
    unmatched: Option<UnmatchedRows>,
}

/// Adds the object to errors. A panic of the Parquet reader, which a damaged file can cause,
/// becomes an error.
#[derive(Debug)]
struct Named {
    files: Files,
    look_up: Option<Lookup>,
}

impl Morselizer for Named {
    fn plan_file(&self, file: PartitionedFile) -> Result<Box<dyn MorselPlanner>> {
        let object = file.extensions.get_arc::<DataObject>();
        let object = object.ok_or_else(|| internal_datafusion_err!("a file of the scan is not an object"))?;
        if let Some(look_up) = self.look_up.clone().filter(|look_up| look_up.index_use.is_useful()) {
            return Ok(Box::new(LookupPlanner { files: self.files.clone(), file, object, look_up }));
        }
        plan_file(&self.files, file, object, None)
    }
}

/// Plans the scan of an object, or of the rows that an index selected, without the deleted rows.
fn plan_file(
    files: &Files,
    mut file: PartitionedFile,
    object: Arc<DataObject>,
    selected: Option<Rows>,
) -> Result<Box<dyn MorselPlanner>> {
    let live = live(selected, object.deleted_rows()).map_err(|error| external(object.add_context(error)))?;
    match live {
        Some(rows) if rows.is_empty() => {
            object.mark_done();
            return Ok(Box::new(EmptyPlanner));
        }
        Some(rows) => drop(file.extensions.insert(selection(&rows))),
        None => {}
    }
    let planner = catch_panic(&object, || files.files.plan_file(file))?;
    Ok(Box::new(Planner { planner, object, unmatched: files.unmatched.clone() }))
}

#[derive(Debug)]
struct LookupPlanner {
    files: Files,
    file: PartitionedFile,
    object: Arc<DataObject>,
    look_up: Lookup,
}

impl MorselPlanner for LookupPlanner {
    fn plan(self: Box<Self>) -> Result<Option<MorselPlan>> {
        let LookupPlanner { files, file, object, look_up: Lookup { probes, index_use } } = *self;
        let mut plan = MorselPlan::new();
        plan.set_pending_planner(async move {
            let (found, moved_bytes) = object.look_up(&probes).await.map_err(external)?;
            index_use.add(found.rows.as_ref().map(Rows::count), found.pages, moved_bytes);
            plan_file(&files, file, object, found.rows)
        });
        Ok(Some(plan))
    }
}

/// The planner of an object in which no row matches.
#[derive(Debug)]
struct EmptyPlanner;

impl MorselPlanner for EmptyPlanner {
    fn plan(self: Box<Self>) -> Result<Option<MorselPlan>> {
        Ok(None)
    }
}

#[derive(Debug)]
struct Planner {
    planner: Box<dyn MorselPlanner>,
    object: Arc<DataObject>,
    unmatched: Option<UnmatchedRows>,
}

impl MorselPlanner for Planner {
    fn plan(self: Box<Self>) -> Result<Option<MorselPlan>> {
        let Planner { planner, object, unmatched } = *self;
        let Some(mut plan) = catch_panic(&object, || planner.plan())? else { return Ok(None) };
        let named = |planner| -> Box<dyn MorselPlanner> {
            Box::new(Planner { planner, object: Arc::clone(&object), unmatched: unmatched.clone() })
        };
        let morsels = plan.take_morsels().into_iter().map(|morsel| -> Box<dyn Morsel> {
            Box::new(NamedMorsel { morsel, object: Arc::clone(&object), unmatched: unmatched.clone() })
        });
        let mut named_plan = MorselPlan::new()
            .with_morsels(morsels.collect())
            .with_planners(plan.take_ready_planners().into_iter().map(named).collect());
        if let Some(pending) = plan.take_pending_planner() {
            let (object, unmatched) = (Arc::clone(&object), unmatched.clone());
            named_plan.set_pending_planner(async move {
                match AssertUnwindSafe(pending).catch_unwind().await {
                    Ok(Ok(planner)) => {
                        Ok(Box::new(Planner { planner, object, unmatched }) as Box<dyn MorselPlanner>)
                    }
                    Ok(Err(error)) => Err(in_object(&object, &error)),
                    Err(_) => Err(reader_panicked(&object)),
                }
            });
        }
        Ok(Some(named_plan))
    }
}

#[derive(Debug)]
struct NamedMorsel {
    morsel: Box<dyn Morsel>,
    object: Arc<DataObject>,
    unmatched: Option<UnmatchedRows>,
}

impl Morsel for NamedMorsel {
    fn into_stream(self: Box<Self>) -> BoxStream<'static, Result<RecordBatch>> {
        let NamedMorsel { morsel, object, unmatched } = *self;
        let batches = AssertUnwindSafe(morsel.into_stream()).catch_unwind();
        let named = move |batch: std::thread::Result<Result<RecordBatch>>| match batch {
            Ok(Ok(batch)) => Ok(batch),
            Ok(Err(error)) => Err(in_object(&object, &error)),
            Err(_) => Err(reader_panicked(&object)),
        };
        let batches = batches.map(named).boxed();
        if let Some(unmatched) = unmatched { unmatched.drop_from(batches) } else { batches }
    }
}

fn catch_panic<T>(object: &DataObject, work: impl FnOnce() -> Result<T>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(outcome) => outcome.map_err(|error| in_object(object, &error)),
        Err(_) => Err(reader_panicked(object)),
    }
}

/// Adds the object to an error.
pub fn in_object(object: &DataObject, error: &DataFusionError) -> DataFusionError {
    external(object.add_context(from_datafusion(error)))
}

fn reader_panicked(object: &DataObject) -> DataFusionError {
    let error = Error::corrupt("the object cannot be read: the Parquet reader panicked");
    external(object.add_context(error))
}
