//! A scan of objects: DataFusion's own scan of Parquet files, whose errors name the object.

use crate::errors::{external, told};
use crate::object::DataObject;
use arrow::array::RecordBatch;
use benthic_core::{Error, ErrorKind};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, internal_datafusion_err, internal_err};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileOpener, FileScanConfig, FileSource, ParquetSource};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::object_store::ObjectStore;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_plan::DisplayFormatType;
use datafusion::physical_plan::filter_pushdown::FilterPushdownPropagation;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion_datasource::morsel::{Morsel, MorselPlan, MorselPlanner, Morselizer};
use futures::stream::{BoxStream, StreamExt};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// What scans of objects read with.
#[derive(Clone)]
pub struct ObjectSource {
    /// DataFusion's source.
    pub parquet: ParquetSource,
    /// Objects of the table that are not scanned, because of what its manifest says of them.
    pub pruned_objects: usize,
}

impl ObjectSource {
    /// The same with another source below.
    pub fn with(&self, parquet: ParquetSource) -> ObjectSource {
        ObjectSource { parquet, ..self.clone() }
    }

    fn with_any(&self, source: &Arc<dyn FileSource>) -> Result<Arc<dyn FileSource>> {
        match source.downcast_ref::<ParquetSource>() {
            Some(parquet) => Ok(Arc::new(self.with(parquet.clone()))),
            None => internal_err!("a source of Parquet files became another"),
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
        Ok(Box::new(Named(self.parquet.create_morselizer(store, scan, partition)?)))
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
        self.parquet.fmt_extra(format, formatter)
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

/// Names the object in errors; a panic of the reader, which a damaged file can cause, is one.
#[derive(Debug)]
struct Named<T>(T);

impl Morselizer for Named<Box<dyn Morselizer>> {
    fn plan_file(&self, file: PartitionedFile) -> Result<Box<dyn MorselPlanner>> {
        let object = file.extensions.get_arc::<DataObject>();
        let object = object.ok_or_else(|| internal_datafusion_err!("a file of the scan is no object"))?;
        let planner = guarded(&object, || self.0.plan_file(file))?;
        Ok(Box::new(Planner { planner, object }))
    }
}

#[derive(Debug)]
struct Planner {
    planner: Box<dyn MorselPlanner>,
    object: Arc<DataObject>,
}

impl MorselPlanner for Planner {
    fn plan(self: Box<Self>) -> Result<Option<MorselPlan>> {
        let Planner { planner, object } = *self;
        let Some(mut plan) = guarded(&object, || planner.plan())? else {
            return Ok(None);
        };
        let named = |planner| -> Box<dyn MorselPlanner> {
            Box::new(Planner { planner, object: Arc::clone(&object) })
        };
        let morsels = plan.take_morsels().into_iter().map(|morsel| -> Box<dyn Morsel> {
            Box::new(NamedMorsel { morsel, object: Arc::clone(&object) })
        });
        let mut named_plan = MorselPlan::new()
            .with_morsels(morsels.collect())
            .with_planners(plan.take_ready_planners().into_iter().map(named).collect());
        if let Some(pending) = plan.take_pending_planner() {
            let object = Arc::clone(&object);
            named_plan.set_pending_planner(async move {
                match pending.await {
                    Ok(planner) => Ok(Box::new(Planner { planner, object }) as Box<dyn MorselPlanner>),
                    Err(error) => Err(in_object(&object, &error)),
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
}

impl Morsel for NamedMorsel {
    fn into_stream(self: Box<Self>) -> BoxStream<'static, Result<RecordBatch>> {
        let NamedMorsel { morsel, object } = *self;
        let batches = AssertUnwindSafe(morsel.into_stream()).catch_unwind();
        let named = move |batch: std::thread::Result<Result<RecordBatch>>| match batch {
            Ok(Ok(batch)) => Ok(batch),
            Ok(Err(error)) => Err(in_object(&object, &error)),
            Err(_) => Err(gave_up(&object)),
        };
        batches.map(named).boxed()
    }
}

fn guarded<T>(object: &DataObject, work: impl FnOnce() -> Result<T>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(outcome) => outcome.map_err(|error| in_object(object, &error)),
        Err(_) => Err(gave_up(object)),
    }
}

/// An error with the name of the object that it is about.
pub fn in_object(object: &DataObject, error: &DataFusionError) -> DataFusionError {
    external(object.named(told(error)))
}

fn gave_up(object: &DataObject) -> DataFusionError {
    let error = Error::new(ErrorKind::Corrupt, "the object cannot be read: the Parquet reader gave up");
    external(object.named(error))
}
