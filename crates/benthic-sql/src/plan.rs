//! Helpers for scans of objects in physical plans.

use crate::expr::{Expr, Plan};
use crate::object::DataObject;
use crate::objects::source;
use crate::reader::Readers;
use crate::scan::ObjectSource;
use benthic_fragment::fragment::OBJECT_URL;
use benthic_table::FileEntry;
use datafusion::common::{Result, internal_err};
use datafusion::datasource::physical_plan::{FileScanConfig, FileSource, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{conjunction_opt, split_conjunction};
use datafusion::physical_plan::ExecutionPlanProperties;

/// The scan of objects or local files in a node, or `None` for other nodes.
pub fn scan_of_parquet(plan: &Plan) -> Option<&FileScanConfig> {
    plan.downcast_ref::<DataSourceExec>()?.data_source().downcast_ref()
}

/// The scan of objects in a node, or `None` for other nodes.
pub fn scan_of_objects(plan: &Plan) -> Option<&FileScanConfig> {
    scan_of_parquet(plan).filter(|scan| scan.object_store_url.as_str() == OBJECT_URL)
}

/// The Parquet source of a scan of objects.
///
/// # Errors
/// `Internal` if the source is not Parquet.
pub fn parquet_of(scan: &FileScanConfig) -> Result<&ParquetSource> {
    let source = scan.file_source();
    let parquet = source.downcast_ref::<ObjectSource>().map(|source| &source.parquet);
    match parquet.or_else(|| source.downcast_ref::<ParquetSource>()) {
        Some(parquet) => Ok(parquet),
        None => internal_err!("a scan of objects reads no Parquet"),
    }
}

/// Rebuilds the Parquet source of a scan, with only those parts of its predicate for which `prunes`
/// is true.
///
/// # Errors
/// `Internal` if the projection does not fit.
pub fn source_of(
    scan: &FileScanConfig,
    projection: Option<&ProjectionExprs>,
    prunes: impl Fn(&Expr) -> bool,
) -> Result<ParquetSource> {
    let mut source = source(scan.file_source().table_schema().clone(), Readers::default());
    if let Some(predicate) = scan.file_source().filter() {
        let parts = split_conjunction(&predicate).into_iter().filter(|part| prunes(part)).cloned();
        if let Some(predicate) = conjunction_opt(parts) {
            source = source.with_predicate(predicate);
        }
    }
    if let Some(projection) = projection { project(&source, projection) } else { Ok(source) }
}

/// Adds a projection to a source.
///
/// # Errors
/// `Internal` if the projection does not fit.
pub fn project(source: &ParquetSource, projection: &ProjectionExprs) -> Result<ParquetSource> {
    let projected = source.try_pushdown_projection(projection)?;
    match projected.as_ref().and_then(|source| source.downcast_ref::<ParquetSource>()) {
        Some(projected) => Ok(projected.clone()),
        None => internal_err!("the scan does not accept its own projection"),
    }
}

/// The data objects of tables that a plan scans.
pub fn scanned_entries(plan: &Plan) -> Vec<FileEntry> {
    let groups = scan_of_objects(plan).into_iter().flat_map(|scan| &scan.file_groups);
    let objects = groups.flat_map(|group| group.iter()).filter_map(|file| {
        let object = file.extensions.get_arc::<DataObject>()?;
        object.entry()
    });
    objects.chain(plan.children().into_iter().flat_map(scanned_entries)).collect()
}

/// Number of output partitions of a node.
pub fn partitions(plan: &Plan) -> usize {
    plan.output_partitioning().partition_count()
}
