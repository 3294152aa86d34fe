//! A single Parquet object as a table, and the parts of its scan that table objects share.

use crate::columns::{has_floats, schema_in_queries};
use crate::object::DataObject;
use crate::reader::Readers;
use crate::scan::ObjectSource;
use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use benthic_core::{Error, ErrorKind, Result};
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
use std::collections::HashSet;
use std::sync::Arc;

/// A table of Parquet objects.
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
    /// `Corrupt` if the object is not a Parquet file; `Unsupported` if two of its columns have the
    /// same name; errors of the pool.
    pub async fn of_one(object: Arc<DataObject>) -> Result<Objects> {
        let footer = object.footer().await?;
        let file = footer.file_metadata();
        let corrupt = |message: &str| object.add_context(Error::new(ErrorKind::Corrupt, message));
        let schema = parquet_to_arrow_schema(file.schema_descr(), file.key_value_metadata())
            .map_err(|error| corrupt("the schema cannot be read").with_source(error))?;
        let schema = Arc::new(schema_in_queries(&schema));
        let mut names = HashSet::new();
        if let Some(twice) = schema.fields().iter().find(|field| !names.insert(field.name())) {
            let message = "two columns have the same name, so that a query cannot tell them apart";
            return Err(object
                .add_context(Error::new(ErrorKind::Unsupported, message))
                .with("column", twice.name()));
        }
        let statistics = DFParquetMetadata::statistics_from_parquet_metadata(&footer, &schema)
            .map_err(|error| corrupt("the statistics cannot be read").with_source(error))?;
        let statistics = without_bounds_of_floats(statistics, &schema);
        Ok(Objects { objects: vec![object], schema, statistics })
    }
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
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        limit: Option<usize>,
    ) -> datafusion::common::Result<Arc<dyn ExecutionPlan>> {
        let parquet = source(TableSchema::from(Arc::clone(&self.schema)), Readers::default());
        let source = ObjectSource::plain(parquet);
        let scan = FileScanConfigBuilder::new(ObjectStoreUrl::parse(OBJECT_URL)?, Arc::new(source))
            .with_file_groups(self.objects.iter().map(|object| FileGroup::new(vec![file(object)])).collect())
            .with_projection_indices(projection.cloned())?
            .with_limit(limit)
            .with_statistics(self.statistics.clone())
            .build();
        Ok(DataSourceExec::from_data_source(scan))
    }
}

/// The Parquet source of a scan. Row filters and Bloom filters are off.
pub fn source(schema: TableSchema, readers: Readers) -> ParquetSource {
    ParquetSource::new(schema)
        .with_parquet_file_reader_factory(Arc::new(readers))
        .with_pushdown_filters(false)
        .with_bloom_filter_on_read(false)
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
