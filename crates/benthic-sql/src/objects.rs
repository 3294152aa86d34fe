//! Parquet objects or local files as a table, and the parts of its scan that table objects share.

use crate::columns::{check_names, has_floats, schema_in_queries, union_by_name};
use crate::errors::from_datafusion;
use crate::object::DataObject;
use crate::reader::Readers;
use crate::scan::ObjectSource;
use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use benthic_core::{Error, Pool, Result};
use benthic_fragment::fragment::OBJECT_URL;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Statistics;
use datafusion::common::stats::Precision;
use datafusion::datasource::TableType;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::metadata::DFParquetMetadata;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;
use parquet::arrow::parquet_to_arrow_schema;
use parquet::file::metadata::ParquetMetaData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The address of a scan of local files. It differs from the address of a scan of objects, so that
/// no rule sends such a scan to an OSD.
pub const FILE_URL: &str = "file:///";

/// A table of Parquet objects, or of local Parquet files.
#[derive(Debug)]
pub struct Objects {
    objects: Vec<Arc<DataObject>>,
    schema: SchemaRef,
    statistics: Statistics,
}

impl Objects {
    /// A table of one object.
    ///
    /// # Errors
    /// Errors of [`Objects::of`].
    pub async fn of_one(object: Arc<DataObject>) -> Result<Objects> {
        Objects::of(vec![object]).await
    }

    /// A table of at least one object, or of local files. Columns match by name.
    ///
    /// # Errors
    /// `Corrupt` if an object is not a Parquet file; `Unsupported` if two of its columns have the
    /// same name; `InvalidArgument` if the types of a column do not fit together; errors of the
    /// pool or the file system.
    pub async fn of(objects: Vec<Arc<DataObject>>) -> Result<Objects> {
        let mut known: Option<Described> = None;
        for object in &objects {
            let more = describe(object).await?;
            known = Some(match known {
                Some(known) => merge(known, more).map_err(|error| object.add_context(error))?,
                None => more,
            });
        }
        let none = || Error::internal("a table of objects has no objects");
        let (schema, statistics) = known.ok_or_else(none)?;
        Ok(Objects { objects, schema, statistics })
    }

    /// The pool of the objects; `None` for local files.
    pub fn pool(&self) -> Option<&Arc<dyn Pool>> {
        self.objects.first().and_then(|object| object.pool())
    }
}

/// The columns of objects, and their statistics.
type Described = (SchemaRef, Statistics);

async fn describe(object: &DataObject) -> Result<Described> {
    let footer = object.footer().await?;
    // The readers panic on some damaged footers.
    catch_unwind(AssertUnwindSafe(|| describe_footer(object, &footer))).unwrap_or_else(|_| {
        Err(object.add_context(Error::corrupt("the object cannot be read: the Parquet reader panicked")))
    })
}

fn describe_footer(object: &DataObject, footer: &ParquetMetaData) -> Result<Described> {
    let file = footer.file_metadata();
    let corrupt = |message: &str| object.add_context(Error::corrupt(message));
    let schema = parquet_to_arrow_schema(file.schema_descr(), file.key_value_metadata())
        .map_err(|error| corrupt("the schema cannot be read").with_source(error))?;
    let schema = Arc::new(schema_in_queries(&schema));
    check_names(&schema).map_err(|error| object.add_context(error))?;
    let statistics = DFParquetMetadata::statistics_from_parquet_metadata(footer, &schema)
        .map_err(|error| corrupt("the statistics cannot be read").with_source(error))?;
    let statistics = without_bounds_of_floats(statistics, &schema);
    Ok((schema, statistics))
}

fn merge((schema, statistics): Described, (more, more_statistics): Described) -> Result<Described> {
    if schema == more {
        let merged = Statistics::try_merge_iter([&statistics, &more_statistics], &schema);
        return Ok((schema, merged.map_err(|error| from_datafusion(&error))?));
    }
    let schema = Arc::new(union_by_name(&schema, &more)?);
    // Bounds of different types cannot be compared, so keep only the number of rows.
    let num_rows = statistics.num_rows.add(&more_statistics.num_rows);
    let statistics = Statistics { num_rows, ..Statistics::new_unknown(&schema) };
    Ok((schema, statistics))
}

#[async_trait]
impl TableProvider for Objects {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn statistics(&self) -> Option<Statistics> {
        Some(self.statistics.clone())
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        limit: Option<usize>,
    ) -> datafusion::common::Result<Arc<dyn ExecutionPlan>> {
        let parquet = source(TableSchema::from(Arc::clone(&self.schema)), Readers::default());
        let source = ObjectSource::plain(parquet);
        let url =
            if self.objects.iter().any(|object| object.is_local_file()) { FILE_URL } else { OBJECT_URL };
        let scan = FileScanConfigBuilder::new(ObjectStoreUrl::parse(url)?, Arc::new(source))
            .with_file_groups(file_groups(&self.objects, session))
            .with_projection_indices(projection.cloned())?
            .with_limit(limit)
            .with_statistics(self.statistics.clone())
            .build();
        Ok(DataSourceExec::from_data_source(scan))
    }
}

/// The Parquet source of a scan, without row filters.
pub fn source(schema: TableSchema, readers: Readers) -> ParquetSource {
    ParquetSource::new(schema)
        .with_parquet_file_reader_factory(Arc::new(readers))
        .with_pushdown_filters(false)
        .with_bloom_filter_on_read(true)
}

/// Distributes at least one object over the partitions of a scan.
pub fn file_groups(objects: &[Arc<DataObject>], session: &dyn Session) -> Vec<FileGroup> {
    let groups = session.config().target_partitions().clamp(1, objects.len());
    let group = |group| FileGroup::new(objects.iter().skip(group).step_by(groups).map(file).collect());
    (0..groups).map(group).collect()
}

/// Represents an object as a file of a scan.
pub fn file(object: &Arc<DataObject>) -> PartitionedFile {
    let mut file = PartitionedFile::new(format!("{object:?}"), object.size_bytes());
    file.extensions.insert_arc(Arc::clone(object));
    file
}

fn without_bounds_of_floats(mut statistics: Statistics, schema: &Schema) -> Statistics {
    for (column, field) in statistics.column_statistics.iter_mut().zip(schema.fields()) {
        if has_floats(field.data_type()) {
            column.min_value = Precision::Absent;
            column.max_value = Precision::Absent;
        }
    }
    statistics
}
