//! Builds operators over one object from a checked plan.
//!
//! DataFusion's decoder (`datafusion-proto`) would link a catalog and every file format, and would
//! build any plan. This decoder has one arm for each node on the allow list and none for the
//! others.

use super::check::Checked;
use super::envelope::OBJECT_URL;
use super::functions;
use super::guard::Guard;
use super::index::selection;
use super::reader::{Queue, Readers};
use super::runtime::Runtime;
use super::stop::Stop;
use crate::wasm::NAME;
use arrow::datatypes::Schema;
use benthic_index::Rows;
use datafusion_common::{
    Result, internal_datafusion_err, internal_err, not_impl_datafusion_err, not_impl_err, plan_err,
};
use datafusion_datasource::PartitionedFile;
use datafusion_datasource::file::FileSource;
use datafusion_datasource::file_scan_config::{FileScanConfig, FileScanConfigBuilder};
use datafusion_datasource::source::DataSourceExec;
use datafusion_datasource_parquet::source::ParquetSource;
use datafusion_execution::TaskContext;
use datafusion_execution::object_store::ObjectStoreUrl;
use datafusion_expr::physical_planning_context::ScalarSubqueryResults;
use datafusion_expr::type_coercion::functions::fields_with_udf;
use datafusion_expr::{AggregateUDF, ScalarUDF, WindowUDF};
use datafusion_physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal,
    NegativeExpr, NotExpr, TryCastExpr,
};
use datafusion_physical_expr::projection::{ProjectionExpr, ProjectionExprs};
use datafusion_physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion_physical_expr_common::physical_expr::proto_decode::{
    PhysicalExprDecode, PhysicalExprDecodeCtx,
};
use datafusion_physical_plan::ExecutionPlan;
use datafusion_physical_plan::aggregates::AggregateExec;
use datafusion_physical_plan::empty::EmptyExec;
use datafusion_physical_plan::filter::FilterExec;
use datafusion_physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion_physical_plan::projection::ProjectionExec;
use datafusion_physical_plan::proto::{ExecutionPlanDecode, ExecutionPlanDecodeCtx};
use datafusion_proto_models::protobuf::physical_expr_node::ExprType;
use datafusion_proto_models::protobuf::physical_plan_node::PhysicalPlanType;
use datafusion_proto_models::protobuf::{
    FileScanExecConf, ParquetScanExecNode, PhysicalExprNode, PhysicalPlanNode, PhysicalScalarUdfNode,
};
use std::sync::Arc;

/// Builds the operators for one run, over all rows of the object or over `rows` only.
pub fn plan(
    checked: &Checked,
    queue: &Arc<Queue>,
    runtime: &Runtime,
    rows: Option<&Rows>,
    wasm: Option<Arc<ScalarUDF>>,
) -> Result<Arc<dyn ExecutionPlan>, Stop> {
    Ok(Decoder { queue, rows, wasm, task: runtime.task() }.decode_plan(&checked.plan)?)
}

struct Decoder<'a> {
    queue: &'a Arc<Queue>,
    /// The rows to scan, if an index selected them.
    rows: Option<&'a Rows>,
    /// Calls methods of WebAssembly classes, if the plan names some.
    wasm: Option<Arc<ScalarUDF>>,
    task: Arc<TaskContext>,
}

impl Decoder<'_> {
    fn scan(&self, scan: &ParquetScanExecNode) -> Result<Arc<dyn ExecutionPlan>> {
        let conf = scan.base_conf.as_ref().ok_or_else(|| internal_datafusion_err!("a scan is empty"))?;
        let table = FileScanConfig::parse_table_schema_from_proto(conf)?;
        let schema = Arc::clone(table.file_schema());
        let readers = Readers { queue: Arc::clone(self.queue), schema: Arc::clone(&schema) };
        let mut source = ParquetSource::new(table)
            .with_parquet_file_reader_factory(Arc::new(readers))
            // A page index describes the same pages a second time and may contradict the page
            // headers.
            .with_enable_page_index(false)
            .with_bloom_filter_on_read(false);
        if let Some(predicate) = &scan.predicate {
            source = source.with_predicate(self.decode_expr(predicate, &schema)?);
        }
        let source = self.project(Arc::new(source), conf, &schema)?;
        let mut file = PartitionedFile::new("object", self.queue.size_bytes());
        if let Some(rows) = self.rows {
            file.extensions.insert(selection(rows));
        }
        let scan = FileScanConfigBuilder::new(ObjectStoreUrl::parse(OBJECT_URL)?, source)
            .with_file(file)
            .with_limit(conf.limit.as_ref().map(|limit| limit.limit as usize))
            .build();
        let scan = DataSourceExec::from_data_source(scan);
        // With no rows to scan, read nothing, not even the footer.
        let is_empty = self.rows.is_some_and(Rows::is_empty);
        Ok(if is_empty { Arc::new(EmptyExec::new(scan.schema())) } else { scan })
    }

    fn project(
        &self,
        source: Arc<dyn FileSource>,
        conf: &FileScanExecConf,
        schema: &Schema,
    ) -> Result<Arc<dyn FileSource>> {
        let Some(projections) = &conf.projection_exprs else { return Ok(source) };
        let exprs = projections
            .projections
            .iter()
            .map(|projection| {
                let expr = projection.expr.as_ref();
                let expr = expr.ok_or_else(|| internal_datafusion_err!("a projection has no expression"))?;
                Ok(ProjectionExpr::new(self.decode_expr(expr, schema)?, projection.alias.clone()))
            })
            .collect::<Result<Vec<_>>>()?;
        match source.try_pushdown_projection(&ProjectionExprs::new(exprs))? {
            Some(projected) => Ok(projected),
            None => not_impl_err!("the scan does not accept the projection"),
        }
    }

    fn call(&self, call: &PhysicalScalarUdfNode, schema: &Schema) -> Result<Arc<dyn PhysicalExpr>> {
        let function = self.decode_udf(&call.name, call.fun_definition.as_deref())?;
        let args = call.args.iter().map(|arg| self.decode_expr(arg, schema)).collect::<Result<Vec<_>>>()?;
        // The client has cast the arguments to types that the function takes. The function itself
        // would panic on others.
        let fields = args.iter().map(|arg| arg.return_field(schema)).collect::<Result<Vec<_>>>()?;
        let taken = fields_with_udf(&fields, function.as_ref())?;
        if fields.iter().zip(&taken).any(|(field, taken)| field.data_type() != taken.data_type()) {
            return plan_err!("the arguments of {} have other types than it takes", call.name);
        }
        let config = Arc::clone(self.task.session_config().options());
        // Ignore the return type in the message. It is not trustworthy, so compute it.
        Ok(Arc::new(ScalarFunctionExpr::try_new(function, args, schema, config)?))
    }
}

impl ExecutionPlanDecode for Decoder<'_> {
    fn decode_plan(&self, node: &PhysicalPlanNode) -> Result<Arc<dyn ExecutionPlan>> {
        let context = ExecutionPlanDecodeCtx::new(self);
        let operator = match &node.physical_plan_type {
            Some(PhysicalPlanType::ParquetScan(scan)) => self.scan(scan),
            Some(PhysicalPlanType::Filter(_)) => FilterExec::try_from_proto(node, &context),
            Some(PhysicalPlanType::Projection(_)) => ProjectionExec::try_from_proto(node, &context),
            Some(PhysicalPlanType::Aggregate(_)) => AggregateExec::try_from_proto(node, &context),
            Some(PhysicalPlanType::LocalLimit(_)) => LocalLimitExec::try_from_proto(node, &context),
            Some(PhysicalPlanType::GlobalLimit(_)) => GlobalLimitExec::try_from_proto(node, &context),
            _ => not_impl_err!("a node of the plan does not run beside objects"),
        };
        Ok(Arc::new(Guard::new(operator?)))
    }

    fn decode_plan_with_scalar_subquery_results(
        &self,
        _: &PhysicalPlanNode,
        _: ScalarSubqueryResults,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        not_impl_err!("a subquery does not run beside objects")
    }

    fn decode_expr(&self, node: &PhysicalExprNode, schema: &Schema) -> Result<Arc<dyn PhysicalExpr>> {
        let context = PhysicalExprDecodeCtx::new(schema, self);
        match &node.expr_type {
            Some(ExprType::Column(_)) => Column::try_from_proto(node, &context),
            Some(ExprType::Literal(_)) => Literal::try_from_proto(node, &context),
            Some(ExprType::BinaryExpr(_)) => BinaryExpr::try_from_proto(node, &context),
            Some(ExprType::IsNullExpr(_)) => IsNullExpr::try_from_proto(node, &context),
            Some(ExprType::IsNotNullExpr(_)) => IsNotNullExpr::try_from_proto(node, &context),
            Some(ExprType::NotExpr(_)) => NotExpr::try_from_proto(node, &context),
            Some(ExprType::Negative(_)) => NegativeExpr::try_from_proto(node, &context),
            Some(ExprType::InList(_)) => InListExpr::try_from_proto(node, &context),
            Some(ExprType::Case(_)) => CaseExpr::try_from_proto(node, &context),
            Some(ExprType::Cast(_)) => CastExpr::try_from_proto(node, &context),
            Some(ExprType::TryCast(_)) => TryCastExpr::try_from_proto(node, &context),
            Some(ExprType::LikeExpr(_)) => LikeExpr::try_from_proto(node, &context),
            Some(ExprType::ScalarUdf(call)) => self.call(call, schema),
            _ => not_impl_err!("an expression does not run beside objects"),
        }
    }

    fn task_ctx(&self) -> &TaskContext {
        &self.task
    }

    fn decode_udf(&self, name: &str, _: Option<&[u8]>) -> Result<Arc<ScalarUDF>> {
        if name == NAME
            && let Some(wasm) = &self.wasm
        {
            return Ok(Arc::clone(wasm));
        }
        functions::scalar(name)
            .ok_or_else(|| not_impl_datafusion_err!("a function does not run beside objects"))
    }

    fn decode_udaf(&self, name: &str, _: Option<&[u8]>) -> Result<Arc<AggregateUDF>> {
        functions::aggregate(name)
            .ok_or_else(|| not_impl_datafusion_err!("an aggregate does not run beside objects"))
    }

    fn decode_udwf(&self, _: &str, _: Option<&[u8]>) -> Result<Arc<WindowUDF>> {
        internal_err!("a window function does not run beside objects")
    }
}

impl PhysicalExprDecode for Decoder<'_> {
    fn decode(&self, node: &PhysicalExprNode, schema: &Schema) -> Result<Arc<dyn PhysicalExpr>> {
        self.decode_expr(node, schema)
    }
}
