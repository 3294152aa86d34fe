//! Fragments on the client side: finds the part of a plan that reads objects and may run beside
//! them.
//!
//! The search starts at a scan of objects and adds the nodes above it while each object can process
//! its rows independently: filters, projections, partial aggregates, limits. The nodes above
//! combine the rows of all objects.

use crate::columns::{counted_column, has_floats};
use crate::expr::{Expr, Plan, is_dynamic};
use crate::index_choice::{IndexChoice, IndexPlan};
use crate::join_filter::prunes;
use crate::object::DataObject;
use crate::objects::{file, source};
use crate::plan::{parquet_of, project, scan_of_objects};
use crate::reader::Readers;
use crate::record::ScanAccess;
use crate::scan::{IndexUse, ObjectSource};
use crate::wasm::{calls_only_here, calls_wasm};
use arrow::datatypes::SchemaRef;
use benthic_fragment::fragment::{Envelope, OBJECT_URL, accepts, encode_methods, encode_with_methods};
use benthic_fragment::wasm::Methods;
use bytes::Bytes;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, internal_err};
use datafusion::datasource::physical_plan::{FileScanConfig, FileScanConfigBuilder, FileSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::functions::core::getfield::GetFieldFunc;
use datafusion::physical_expr::ScalarFunctionExpr;
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_expr::projection::{ProjectionExpr, ProjectionExprs};
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_expr::{conjunction_opt, split_conjunction};
use datafusion::physical_expr_adapter::PhysicalExprAdapterFactory;
use datafusion::physical_optimizer::pruning::PruningPredicate;
use datafusion::physical_plan::Partitioning;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

/// Maximum size of a fragment's reply. An object whose reply would be larger is pulled.
const OUTPUT_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// A LIMIT of at most so many rows runs beside the objects even if nothing filters them.
const FEW_ROWS: usize = 8_192;

/// A part of a plan that runs on each of its objects. Its scan names no object, so one plan serves
/// all of them.
#[derive(Debug)]
pub struct Fragment {
    pub plan: Plan,
    /// Maximum number of rows from all objects together.
    pub limit: Option<usize>,
    pub objects: Vec<Arc<DataObject>>,
    pub pruned_objects: usize,
    /// Dynamic filter that nodes above fill in while they run. Its columns are those of the
    /// objects.
    pub dynamic: Option<Expr>,
    pub schema: SchemaRef,
    /// The static predicate of the scan.
    fixed: Option<Expr>,
    choice: Arc<IndexChoice>,
    /// Index lookup that selects the rows to scan.
    pub index: Option<Arc<IndexPlan>>,
    /// The record of the scan's access, if the table records it.
    pub access: Option<Arc<ScanAccess>>,
    /// Adapts expressions to objects with an older schema.
    adapter: Option<Arc<dyn PhysicalExprAdapterFactory>>,
    /// Whether the fragment returns less data than it reads. Otherwise reading byte ranges is
    /// better.
    is_useful: bool,
}

/// A fragment with the current state of its dynamic filter.
#[derive(Debug, Default)]
pub struct FilteredFragment {
    /// The filter, once the nodes above have set it.
    pub filter: Option<Expr>,
    /// The plan with the filter, if the filter can be sent.
    pub plan: Option<Plan>,
    pub envelope: Bytes,
    /// Prunes objects with the manifest's statistics.
    pub prunes: Option<Arc<PruningPredicate>>,
    /// Index lookup that includes the filter.
    pub index: Option<Arc<IndexPlan>>,
}

impl Fragment {
    /// Converts a node and everything below it to a fragment, if this is possible and useful.
    ///
    /// # Errors
    /// Errors of rebuilding nodes.
    pub fn of(plan: &Plan) -> Result<Option<Fragment>> {
        if !can_push_down(plan) && scan_of_objects(plan).is_none() {
            return Ok(None);
        }
        Ok(climb(plan)?.filter(|fragment| fragment.is_useful))
    }

    /// The encoded request, and the methods of WebAssembly classes that it calls.
    ///
    /// # Errors
    /// The reason why no object would accept the fragment.
    pub fn envelope(&self, compress: bool) -> Result<(Bytes, Methods), String> {
        envelope(&self.plan, self.index.as_deref(), compress)
    }

    /// The index lookup for the static predicate combined with this filter.
    pub fn index_with(&self, filter: &Expr) -> Option<Arc<IndexPlan>> {
        let all = self.fixed.iter().chain([filter]).cloned();
        conjunction_opt(all).and_then(|filter| self.choice.plan(&filter))
    }

    /// Whether a condition of the query removes rows of the fragment.
    pub fn has_filter(&self) -> bool {
        self.fixed.is_some() || self.plan.exists(|plan| Ok(plan.is::<FilterExec>())).unwrap_or(true)
    }

    /// The plan with a filter directly above the scan.
    ///
    /// # Errors
    /// Errors of rebuilding nodes, for example if the scan lacks a column of the filter.
    pub fn with_filter(&self, filter: &Expr) -> Result<Plan> {
        let filtered = Arc::clone(&self.plan).transform_up(|plan| {
            let Some(scan) = scan_of_objects(&plan) else { return Ok(Transformed::no(plan)) };
            let plan = with_pruning(scan, filter)?;
            let filter = reassign_expr_columns(Arc::clone(filter), &plan.schema())?;
            Ok(Transformed::yes(Arc::new(FilterExec::try_new(filter, plan)?) as Plan))
        })?;
        Ok(filtered.data)
    }

    /// The plan over one object, with the current dynamic filter.
    ///
    /// # Errors
    /// Errors of rebuilding nodes.
    pub fn on(
        &self,
        object: &Arc<DataObject>,
        (readers, index_use): (&Arc<Readers>, &IndexUse),
        filtered: &FilteredFragment,
    ) -> Result<Plan> {
        let plan = filtered.plan.as_ref().unwrap_or(&self.plan);
        let on_object = Arc::clone(plan).transform_up(|plan| {
            // Each object has a sort of its own, which counts the rows that it has seen.
            if plan.is::<SortExec>() {
                return Ok(Transformed::yes(plan.reset_state()?));
            }
            let Some(scan) = scan_of_objects(&plan) else { return Ok(Transformed::no(plan)) };
            let mut source = parquet_of(scan)?.clone();
            source = source.with_parquet_file_reader_factory(Arc::<Readers>::clone(readers));
            // A plan with the filter has it in the scan, too.
            let filter = filtered.filter.clone().filter(|_| filtered.plan.is_none());
            if let Some(predicate) = conjunction_opt(source.filter().into_iter().chain(filter)) {
                source = source.with_predicate(predicate);
            }
            let scan = FileScanConfigBuilder::from(scan.clone())
                .with_source(Arc::new(ObjectSource {
                    index: filtered.index.clone(),
                    index_use: Some(index_use.clone()),
                    ..ObjectSource::plain(source)
                }))
                .with_expr_adapter(self.adapter.clone())
                .with_file(file(object))
                .build();
            Ok(Transformed::yes(DataSourceExec::from_data_source(scan) as Plan))
        })?;
        Ok(on_object.data)
    }
}

/// Encodes a plan as a request, and lists the methods that it calls. `compress` selects compressed
/// replies.
///
/// # Errors
/// The reason why no object would accept the plan.
pub fn envelope(plan: &Plan, index: Option<&IndexPlan>, compress: bool) -> Result<(Bytes, Methods), String> {
    let (plan, methods) = encode_with_methods(plan).map_err(|error| error.to_string())?;
    let envelope = Envelope {
        output_bytes_max: OUTPUT_BYTES_MAX,
        compress,
        probes: index.and_then(|index| index.beside.as_deref().cloned()),
        methods: encode_methods(&methods),
        ..Envelope::new(plan)
    };
    accepts(&envelope)?;
    Ok((envelope.to_bytes(), methods))
}

/// Whether a fragment may end with this node. Nodes that only pass rows on stay above the fragment.
fn can_push_down(plan: &Plan) -> bool {
    plan.is::<FilterExec>()
        || plan.is::<ProjectionExec>()
        || plan.is::<AggregateExec>()
        || plan.is::<SortExec>()
        || plan.is::<LocalLimitExec>()
        || plan.is::<GlobalLimitExec>()
}

/// Converts a node and everything below it to a fragment, if this is possible.
///
/// # Errors
/// Errors of rebuilding nodes.
pub fn climb(plan: &Plan) -> Result<Option<Fragment>> {
    if let Some(scan) = scan_of_objects(plan) {
        let projection = scan.file_source().projection();
        if projection.is_some_and(|all| all.iter().any(|projected| calls_only_here(&projected.expr))) {
            return Ok(None);
        }
        return leaf(scan).map(Some);
    }
    let [input] = plan.children()[..] else { return Ok(None) };
    let hands_on = plan.is::<CooperativeExec>()
        || plan.downcast_ref::<RepartitionExec>().is_some_and(|repartition| {
            matches!(repartition.partitioning(), Partitioning::RoundRobinBatch(_))
        });
    if hands_on {
        return climb(input);
    }
    if !can_push_down(plan) {
        return Ok(None);
    }
    let Some(fragment) = climb(input)? else { return Ok(None) };
    add_node(plan, fragment)
}

fn add_node(plan: &Plan, mut fragment: Fragment) -> Result<Option<Fragment>> {
    // The nodes above need the first rows of all objects.
    if fragment.plan.is::<SortExec>() {
        return Ok(None);
    }
    let mut stays = false;
    plan.apply_expressions(&mut |expr| {
        stays |= calls_only_here(expr);
        Ok(TreeNodeRecursion::Continue)
    })?;
    if stays {
        return Ok(None);
    }
    let fewest = |limit: Option<usize>, fetch: Option<usize>| limit.into_iter().chain(fetch).min();
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        if *aggregate.mode() != AggregateMode::Partial || fragment.limit.is_some() {
            return Ok(None);
        }
        fragment.plan = Arc::new(without_dynamic_filter(aggregate, fragment.plan)?);
        fragment.is_useful = true;
        return Ok(Some(fragment));
    }
    if let Some(sort) = plan.downcast_ref::<SortExec>() {
        // With a limit below the sort, each object would choose its rows separately.
        if sort.fetch().is_none() || fragment.limit.is_some() {
            return Ok(None);
        }
        let sort = SortExec::new(sort.expr().clone(), fragment.plan).with_fetch(sort.fetch());
        fragment.plan = Arc::new(sort);
        fragment.is_useful = true;
        return Ok(Some(fragment));
    }
    if plan.is::<FilterExec>() {
        // The limit counts the rows of all objects together, but below the filter each object would
        // apply it separately.
        if fragment.limit.is_some() {
            return Ok(None);
        }
        fragment.is_useful = true;
    }
    // A call costs more than moving the row.
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        fragment.is_useful |= projection.expr().iter().any(|projected| calls_wasm(&projected.expr));
    }
    if plan.downcast_ref::<GlobalLimitExec>().is_some_and(|limit| limit.skip() > 0) {
        return Ok(None);
    }
    fragment.limit = fewest(fragment.limit, plan.fetch());
    fragment.is_useful |= is_small(fragment.limit);
    fragment.plan = Arc::clone(plan).replace_children(
        vec![fragment.plan],
        ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute),
    )?;
    Ok(Some(fragment))
}

/// Builds the fragment's scan from a scan of objects. The result names no object and has no
/// statistics and no dynamic predicates. It reads only columns and fields of structs in use. If the
/// scan computes other expressions, a projection above it does so instead.
fn leaf(scan: &FileScanConfig) -> Result<Fragment> {
    let schema = scan.file_schema();
    let whole = ProjectionExprs::from_indices(&(0..schema.fields().len()).collect::<Vec<_>>(), schema);
    let projection = scan.file_source().projection().unwrap_or(&whole);
    let computes = projection.iter().any(|projected| !is_path(&projected.expr));
    let predicate = scan.file_source().filter();
    let parts = predicate.iter().flat_map(split_conjunction).cloned();
    let (dynamic, fixed): (Vec<Expr>, Vec<Expr>) = parts.partition(is_dynamic);

    let read: BTreeSet<usize> = projection.column_indices().into_iter().collect();
    let filtered = fixed.iter().flat_map(collect_columns).map(|column| column.index());
    let mut used: BTreeSet<usize> = read.iter().copied().chain(filtered).collect();
    if used.is_empty() {
        // A scan without columns still counts rows. Give it one column that can be pushed.
        used.extend(counted_column(schema));
    }
    let used = Arc::new(schema.project(&Vec::from_iter(used))?);
    let on_used = |expr: &Expr| reassign_expr_columns(Arc::clone(expr), &used);
    let mut source = source(TableSchema::from(Arc::clone(&used)), Readers::default());
    let prunes: Vec<Expr> = fixed.iter().map(on_used).collect::<Result<_>>()?;
    if let Some(predicate) = conjunction_opt(prunes) {
        source = source.with_predicate(predicate);
    }
    let exprs = |on: &SchemaRef| -> Result<Vec<ProjectionExpr>> {
        let expr = |projected: &ProjectionExpr| {
            let expr = reassign_expr_columns(Arc::clone(&projected.expr), on)?;
            Ok(ProjectionExpr::new(expr, projected.alias.clone()))
        };
        projection.iter().map(expr).collect()
    };
    let source = if computes {
        let names = read.iter().map(|column| schema.field(*column).name());
        let places = names.map(|name| Ok(used.index_of(name)?)).collect::<Result<Vec<usize>>>()?;
        project(&source, &ProjectionExprs::from_indices(&places, &used))?
    } else {
        project(&source, &ProjectionExprs::new(exprs(&used)?))?
    };
    let bare = FileScanConfigBuilder::new(ObjectStoreUrl::parse(OBJECT_URL)?, Arc::new(source))
        .with_limit(scan.limit)
        .build();
    let mut plan: Plan = DataSourceExec::from_data_source(bare);
    if computes {
        let exprs = exprs(&plan.schema())?;
        plan = Arc::new(ProjectionExec::try_new(exprs, plan)?);
    }
    let of_table = scan.file_source().downcast_ref::<ObjectSource>();
    // A filter below a limit would select other rows.
    let dynamic = conjunction_opt(dynamic).filter(|_| scan.limit.is_none());
    Ok(Fragment {
        plan,
        limit: scan.limit,
        objects: objects(scan)?,
        pruned_objects: of_table.map_or(0, |source| source.pruned_objects),
        fixed: conjunction_opt(fixed),
        choice: of_table.map(|source| Arc::clone(&source.choice)).unwrap_or_default(),
        index: of_table.and_then(|source| source.index.clone()),
        access: of_table.and_then(|source| source.access.clone()),
        schema: Arc::clone(schema),
        adapter: scan.expr_adapter_factory.clone(),
        is_useful: dynamic.is_some()
            || is_small(scan.limit)
            || projection.iter().any(|projected| calls_wasm(&projected.expr)),
        dynamic,
    })
}

/// Whether a limit selects so few rows that sending them costs less than reading the columns of a
/// row group.
fn is_small(limit: Option<usize>) -> bool {
    limit.is_some_and(|rows| rows <= FEW_ROWS)
}

/// A scan that also skips row groups with the parts of a filter that statistics can use. Statistics
/// of floating-point numbers do not cover NaN.
fn with_pruning(scan: &FileScanConfig, filter: &Expr) -> Result<Plan> {
    let schema = scan.file_schema();
    let has_floats = |part: &Expr| {
        part.data_type(schema).is_err()
            || collect_columns(part).iter().any(|column| has_floats(schema.field(column.index()).data_type()))
    };
    let parts = split_conjunction(filter)
        .into_iter()
        .filter(|part| prunes(part))
        .filter_map(|part| reassign_expr_columns(Arc::clone(part), schema).ok())
        .filter(|part| !has_floats(part));
    let source = parquet_of(scan)?.clone();
    let predicate = conjunction_opt(source.filter().into_iter().chain(parts));
    let source = predicate.into_iter().fold(source, |source, predicate| source.with_predicate(predicate));
    let scan = FileScanConfigBuilder::from(scan.clone()).with_source(Arc::new(source)).build();
    Ok(DataSourceExec::from_data_source(scan))
}

/// Whether an expression is a column, or a field of a struct. Then the scan itself reads only this
/// field.
fn is_path(expr: &Expr) -> bool {
    expr.is::<Column>()
        || ScalarFunctionExpr::try_downcast_func::<GetFieldFunc>(expr.as_ref()).is_some_and(|call| {
            let (of, names) = (call.args().first(), call.args().iter().skip(1));
            of.is_some_and(is_path) && names.into_iter().all(|name| name.is::<Literal>())
        })
}

/// The objects of a scan without duplicates. A scan may read an object in several parts.
fn objects(scan: &FileScanConfig) -> Result<Vec<Arc<DataObject>>> {
    let mut objects: Vec<Arc<DataObject>> = Vec::new();
    let mut seen = HashSet::new();
    for file in scan.file_groups.iter().flat_map(|group| group.iter()) {
        let Some(object) = file.extensions.get_arc::<DataObject>() else {
            return internal_err!("a file of the scan is not an object");
        };
        if seen.insert(Arc::as_ptr(&object)) {
            objects.push(object);
        }
    }
    Ok(objects)
}

fn without_dynamic_filter(aggregate: &AggregateExec, input: Plan) -> Result<AggregateExec> {
    let rebuilt = AggregateExec::try_new(
        *aggregate.mode(),
        aggregate.group_expr().clone(),
        aggregate.aggr_expr().to_vec(),
        aggregate.filter_expr().to_vec(),
        input,
        aggregate.input_schema(),
    )?;
    Ok(rebuilt.with_limit_options(aggregate.limit_options()))
}
