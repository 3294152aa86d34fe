//! A table for the query engine: the objects of one snapshot.
//!
//! [`TableRows`] prunes objects with the manifest and hands the others to DataFusion's own Parquet
//! scan, so that all optimizer rules apply.

use crate::columns::{ByNumber, counted_column, same_by_name, schema_in_queries};
use crate::errors::external;
use crate::index_choice::{IndexChoice, ScanSize};
use crate::manifest::RemainingObjects;
use crate::object::{DataObject, Reading};
use crate::objects::{file_groups, source};
use crate::probe::Indexes;
use crate::reader::Readers;
use crate::record::ScanAccess;
use crate::scan::ObjectSource;
use crate::selectivity::Distributions;
use crate::work::Work;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use benthic_fragment::fragment::OBJECT_URL;
use benthic_table::Snapshot;
use benthic_table::ids::TableObject;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DFSchema, Result};
use datafusion::datasource::TableType;
use datafusion::datasource::physical_plan::FileScanConfigBuilder;
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_optimizer::pruning::PruningPredicateBuilder;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

/// Statistics of columns that a query reads but does not filter are loaded only up to this many
/// objects times columns.
const FACTS_MAX: u64 = 1_000_000;
/// The same limit for distributions, which take some hundred bytes each.
const DISTRIBUTIONS_MAX: u64 = 100_000;

/// The rows of a snapshot, as a table of the query engine.
pub struct TableRows {
    snapshot: Snapshot,
    schema: SchemaRef,
    reading: Reading,
    pruning: bool,
    only: Option<HashSet<TableObject>>,
    indexes: Arc<Indexes>,
}

impl TableRows {
    pub fn new(snapshot: Snapshot, reading: Reading) -> TableRows {
        let schema = Arc::new(schema_in_queries(snapshot.schema().arrow()));
        TableRows { snapshot, schema, reading, pruning: false, only: None, indexes: Arc::default() }
    }

    #[must_use]
    pub fn with_pruning(self, pruning: bool) -> TableRows {
        TableRows { pruning, ..self }
    }

    #[must_use]
    pub fn with_index(mut self, index: bool) -> TableRows {
        self.indexes = Arc::new(if index { Indexes::of(&self.snapshot) } else { Indexes::default() });
        self
    }

    /// Reads only these data objects, if any are given.
    #[must_use]
    pub fn with_objects(self, only: Option<HashSet<TableObject>>) -> TableRows {
        TableRows { only, ..self }
    }

    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    pub fn work(&self) -> &Arc<Work> {
        &self.reading.work
    }

    /// The objects that remain after pruning with these filters. `read` are the columns that the
    /// query reads.
    ///
    /// # Errors
    /// Errors of [`RemainingObjects::load`].
    pub async fn prune(
        &self,
        session: &dyn Session,
        read: &[usize],
        filters: &[Expr],
    ) -> Result<RemainingObjects> {
        let predicate = match conjunction(filters.iter().cloned()) {
            Some(filter) if self.pruning => {
                let schema = DFSchema::try_from(Arc::clone(&self.schema))?;
                let filter = session.create_physical_expr(filter, &schema)?;
                PruningPredicateBuilder::new().with_file_schema(Arc::clone(&self.schema)).build(filter)
            }
            _ => None,
        };
        let mut columns: BTreeSet<&str> =
            filters.iter().flat_map(Expr::column_refs).map(|column| column.name.as_str()).collect();
        // A scan of chosen objects is a part of a scan that was planned elsewhere: the statistics
        // of other columns would not change its plan.
        if self.pruning
            && self.only.is_none()
            && self.snapshot.objects().saturating_mul(read.len() as u64) <= FACTS_MAX
        {
            columns.extend(read.iter().map(|column| self.schema.field(*column).name().as_str()));
        }
        let columns = (Vec::from_iter(columns), self.columns_to_estimate(filters));
        let read = (&columns.0[..], &columns.1[..]);
        RemainingObjects::load(&self.snapshot, read, predicate.as_deref(), self.only.as_ref()).await
    }

    /// The columns with conditions for which an index may help. None in a table of very many
    /// objects.
    fn columns_to_estimate(&self, filters: &[Expr]) -> Vec<&str> {
        let columns = filters.iter().flat_map(Expr::column_refs);
        let filtered: HashSet<&str> = columns.map(|column| column.name.as_str()).collect();
        let columns: Vec<&str> = self.indexes.columns().filter(|name| filtered.contains(name)).collect();
        let count = self.snapshot.objects().saturating_mul(columns.len() as u64);
        if count <= DISTRIBUTIONS_MAX { columns } else { Vec::new() }
    }

    /// The access of a scan, if the table records it. A scan of chosen objects is one of many that
    /// belong to a query of another program.
    fn access(&self, read: &[usize], filters: &[Expr], kept: &RemainingObjects) -> Option<Arc<ScanAccess>> {
        let recorder = &self.reading.recorder;
        let access = || ScanAccess::of(&self.snapshot, recorder, read, filters, &kept.entries);
        self.only.is_none().then(access).flatten()
    }

    /// The objects as the query reads them. It needs the columns `read`, and those of the filters.
    fn objects(
        &self,
        kept: &RemainingObjects,
        read: &[usize],
        filters: &[Expr],
    ) -> Result<Vec<Arc<DataObject>>> {
        let read = read.iter().map(|column| self.schema.field(*column).name().as_str());
        let filtered = filters.iter().flat_map(Expr::column_refs).map(|column| column.name.as_str());
        let mut needed: HashSet<&str> = read.chain(filtered).collect();
        if needed.is_empty() {
            needed
                .extend(counted_column(&self.schema).map(|column| self.schema.field(column).name().as_str()));
        }
        let needed: HashSet<u32> = needed
            .iter()
            .map(|name| Ok(self.snapshot.schema().by_name(name)?.id))
            .collect::<benthic_core::Result<_>>()
            .map_err(external)?;
        let mut by_name = HashMap::new();
        let mut objects = Vec::with_capacity(kept.entries.len());
        let facts = kept.facts.iter().flat_map(|facts| (0..facts.objects()).map(move |row| (facts, row)));
        for (entry, (facts, row)) in kept.entries.iter().zip(facts) {
            let file = self.snapshot.schema_of(entry.schema).map_err(external)?;
            let same = || same_by_name(file, self.snapshot.schema());
            let is_read_by_name = *by_name.entry(entry.schema).or_insert_with(same);
            let (snapshot, facts) = (self.snapshot.clone(), (Arc::clone(facts), row));
            let parts = entry.parts_with(file, |column| needed.contains(&column.id));
            let (parts, _) =
                parts.map_err(|error| external(error.with("table", snapshot.table().address())))?;
            let entry = (entry.clone(), parts);
            let object = DataObject::of_table(snapshot, entry, is_read_by_name, facts, &self.reading);
            objects.push(Arc::new(object));
        }
        Ok(objects)
    }
}

impl fmt::Debug for TableRows {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} snapshot={}", self.snapshot.table().address(), self.snapshot.id())
    }
}

#[async_trait]
impl TableProvider for TableRows {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        // Filters prune whole objects only, so the plan keeps its filter node.
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let all = || (0..self.schema.fields().len()).collect();
        let read = projection.cloned().unwrap_or_else(all);
        let mut kept = self.prune(session, &read, filters).await?;
        let mut statistics = kept.statistics(&self.schema)?;
        if let Some(limit) = limit.filter(|_| filters.is_empty()) {
            kept.limit(limit as u64);
            statistics = statistics.to_inexact();
        }
        let distributions = Distributions::of(&self.columns_to_estimate(filters), &kept.facts, &kept.entries);
        kept.forget_distributions()?;
        let objects = self.objects(&kept, &read, filters)?;
        self.reading.work.add_objects(objects.len() as u64);
        if objects.is_empty() {
            return Ok(Arc::new(EmptyExec::new(Arc::new(self.schema.project(&read)?))));
        }
        let choice = IndexChoice {
            indexes: Arc::clone(&self.indexes),
            distributions,
            size: ScanSize::of(&kept.entries, &self.schema, &read),
            round_trip: self.reading.work.round_trip(),
        };
        let source = ObjectSource {
            pruned_objects: kept.pruned_objects,
            choice: Arc::new(choice),
            access: self.access(&read, filters, &kept),
            ..ObjectSource::plain(source(TableSchema::from(Arc::clone(&self.schema)), Readers::default()))
        };
        let scan = FileScanConfigBuilder::new(ObjectStoreUrl::parse(OBJECT_URL)?, Arc::new(source))
            .with_file_groups(file_groups(&objects, session))
            .with_projection_indices(projection.cloned())?
            .with_limit(limit)
            .with_statistics(statistics)
            .with_expr_adapter(Some(Arc::new(ByNumber(self.snapshot.schema().clone()))))
            .build();
        Ok(DataSourceExec::from_data_source(scan))
    }
}
