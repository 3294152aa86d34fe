//! Builds operators over one object from a checked plan.
//!
//! DataFusion's decoder (`datafusion-proto`) would link a catalog and every file format, and would
//! build any plan. This decoder has one arm for each node on the allow list and none for the
//! others.

use super::check::Checked;
use super::envelope::OBJECT_URL;
use super::functions;
use super::guard::{BATCH_BYTES_MAX, Guard};
use super::index::selection;
use super::pattern::{Comparison, PatternMatch, operands};
use super::reader::{Queue, Readers};
use super::runtime::Runtime;
use super::stop::Stop;
use crate::membership::{self, MembershipFilter};
use crate::wasm::NAME;
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Schema};
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
use datafusion_physical_expr::aggregate::AggregateFunctionExpr;
use datafusion_physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LambdaExpr,
    LambdaVariable, LikeExpr, Literal, NegativeExpr, NotExpr, TryCastExpr,
};
use datafusion_physical_expr::projection::{ProjectionExpr, ProjectionExprs};
use datafusion_physical_expr::{
    HigherOrderFunctionExpr, LexOrdering, PhysicalExpr, PhysicalSortExpr, ScalarFunctionExpr,
};
use datafusion_physical_expr_common::physical_expr::proto_decode::{
    PhysicalExprDecode, PhysicalExprDecodeCtx,
};
use datafusion_physical_plan::ExecutionPlan;
use datafusion_physical_plan::aggregates::AggregateExec;
use datafusion_physical_plan::empty::EmptyExec;
use datafusion_physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion_physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion_physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion_physical_plan::projection::ProjectionExec;
use datafusion_physical_plan::proto::{ExecutionPlanDecode, ExecutionPlanDecodeCtx};
use datafusion_physical_plan::sorts::sort::SortExec;
use datafusion_proto_models::protobuf::physical_expr_node::ExprType;
use datafusion_proto_models::protobuf::physical_plan_node::PhysicalPlanType;
use datafusion_proto_models::protobuf::{
    FileScanExecConf, ParquetScanExecNode, PhysicalBinaryExprNode, PhysicalExprNode,
    PhysicalHigherOrderUdfNode, PhysicalLambdaVariableExprNode, PhysicalPlanNode, PhysicalScalarUdfNode,
    SortExecNode,
};
use std::cell::Cell;
use std::sync::Arc;

/// Maximum number of groups that a batch can add to an aggregate. It is also the maximum number of
/// rows of a batch.
const GROUPS_OF_BATCH_MAX: usize = 8_192;
/// Maximum memory for the groups that a batch can add: one for their accumulators, and one for
/// copies of strings.
const GROUPS_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Memory of a group in an aggregate that keeps the groups in arrays.
const IN_ARRAY_BYTES: usize = 64;
/// Memory of a group in an aggregate that makes an accumulator for each group. A t-digest grows by
/// at most one centroid of 16 bytes for each value.
const ACCUMULATOR_BYTES: usize = 1024;
/// Memory of the sketch that counts different values. A group's 257th value makes it.
const SKETCH_BYTES: usize = 16 * 1024;
/// Memory of the bitmap that counts different 16-bit integers.
const BITMAP_BYTES: usize = 8 * 1024;

/// Builds the operators for one run, over all rows of the object or over `rows` only.
pub fn plan(
    checked: &Checked,
    queue: &Arc<Queue>,
    runtime: &Runtime,
    rows: Option<&Rows>,
    wasm: Option<Arc<ScalarUDF>>,
) -> Result<Arc<dyn ExecutionPlan>, Stop> {
    let decoder = Decoder { queue, rows, wasm, task: runtime.task(), in_lambda: Cell::new(false) };
    Ok(decoder.decode_plan(&checked.plan)?)
}

struct Decoder<'a> {
    queue: &'a Arc<Queue>,
    /// The rows to scan, if an index selected them.
    rows: Option<&'a Rows>,
    /// Calls methods of WebAssembly classes, if the plan names some.
    wasm: Option<Arc<ScalarUDF>>,
    task: Arc<TaskContext>,
    in_lambda: Cell<bool>,
}

impl Decoder<'_> {
    fn scan(&self, scan: &ParquetScanExecNode) -> Result<Arc<dyn ExecutionPlan>> {
        let conf = scan.base_conf.as_ref().ok_or_else(|| internal_datafusion_err!("a scan is empty"))?;
        let table = FileScanConfig::parse_table_schema_from_proto(conf)?;
        let schema = Arc::clone(table.file_schema());
        let predicate = scan.predicate.as_ref().map(|predicate| self.decode_expr(predicate, &schema));
        let predicate = predicate.transpose()?;
        let lookups = predicate.as_ref().map_or(0, literals);
        let readers = Readers::new(Arc::clone(self.queue), Arc::clone(&schema), lookups);
        let mut source = ParquetSource::new(table)
            .with_parquet_file_reader_factory(Arc::new(readers))
            // A page index describes the same pages a second time and may contradict the page
            // headers.
            .with_enable_page_index(false)
            .with_bloom_filter_on_read(true);
        if let Some(predicate) = predicate {
            source = source.with_predicate(predicate);
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
        let args = call.args.iter().map(|arg| self.decode_expr(arg, schema)).collect::<Result<Vec<_>>>()?;
        if call.name == membership::NAME {
            let filter = call.fun_definition.as_deref().unwrap_or_default();
            return Ok(Arc::new(MembershipFilter::from_bytes(args, filter, schema)?));
        }
        let function = self.decode_udf(&call.name, call.fun_definition.as_deref())?;
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

    fn pattern_match(
        &self,
        binary: &PhysicalBinaryExprNode,
        comparison: Comparison,
        schema: &Schema,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let (left, right) = (binary.l.as_deref(), binary.r.as_deref());
        let Ok((text, pattern)) = operands(left, right, &binary.operands) else {
            return internal_err!("a regular expression has two operands");
        };
        let pattern = self.decode_expr(pattern, schema)?;
        let pattern =
            pattern.downcast_ref::<Literal>().and_then(|pattern| pattern.value().try_as_str().flatten());
        let Some(pattern) = pattern else { return not_impl_err!("a pattern is no text") };
        Ok(Arc::new(PatternMatch::new(self.decode_expr(text, schema)?, pattern, comparison, schema)?))
    }

    fn call_with_lambda(
        &self,
        call: &PhysicalHigherOrderUdfNode,
        schema: &Schema,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let function = functions::higher_order(&call.name)
            .ok_or_else(|| not_impl_datafusion_err!("a function does not run beside objects"))?;
        let arg = |node: &PhysicalExprNode| match &node.expr_type {
            Some(ExprType::Lambda(_)) => {
                self.in_lambda.set(true);
                let lambda = LambdaExpr::try_from_proto(node, &PhysicalExprDecodeCtx::new(schema, self));
                self.in_lambda.set(false);
                lambda
            }
            _ => self.decode_expr(node, schema),
        };
        let args = call.args.iter().map(arg).collect::<Result<Vec<_>>>()?;
        let config = Arc::clone(self.task.session_config().options());
        let call = HigherOrderFunctionExpr::try_new_with_schema(function, args, schema, config)?;
        // A lambda that gave a text would copy it for each element.
        match call.return_type() {
            DataType::List(item) | DataType::LargeList(item)
                if call.name() == "array_transform" && !is_fixed(item.data_type()) =>
            {
                not_impl_err!("a lambda that gives no number does not run beside objects")
            }
            _ => Ok(Arc::new(call)),
        }
    }

    /// Refuses expressions over nested values that are not known to be bounded, and expressions in
    /// lambdas that would copy a string for each element.
    fn check_bounded(&self, expr: Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Arc<dyn PhysicalExpr>> {
        let is_nested =
            |expr: &Arc<dyn PhysicalExpr>| expr.data_type(schema).is_ok_and(|kind| kind.is_nested());
        let function = expr.downcast_ref::<ScalarFunctionExpr>().map(|call| call.fun().name());
        let takes_nested = expr.is::<IsNullExpr>()
            || expr.is::<IsNotNullExpr>()
            || expr.is::<HigherOrderFunctionExpr>()
            || function.is_some_and(functions::takes_nested);
        let cast = expr.downcast_ref::<CastExpr>().map(CastExpr::expr);
        let cast = cast.or_else(|| expr.downcast_ref::<TryCastExpr>().map(TryCastExpr::expr));
        if let Some(cast) = cast
            && (is_nested(cast) || is_nested(&expr))
        {
            return match is_small_cast(&cast.data_type(schema)?, &expr.data_type(schema)?) {
                true => Ok(expr),
                false => not_impl_err!("a cast of a list, struct or map does not run beside objects"),
            };
        }
        if !takes_nested && expr.children().into_iter().any(is_nested) {
            return not_impl_err!("an expression of a list, struct or map does not run beside objects");
        }
        if !self.in_lambda.get() || function == Some("get_field") || expr.is::<Literal>() {
            return Ok(expr);
        }
        // A text of the row would be searched or copied once for each element.
        if !expr.is::<LambdaVariable>() && !is_fixed(&expr.data_type(schema)?) {
            return not_impl_err!("a text, list, struct or map in a lambda does not run beside objects");
        }
        Ok(expr)
    }

    fn aggregate(
        &self,
        node: &PhysicalPlanNode,
        context: &ExecutionPlanDecodeCtx<'_>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let operator = AggregateExec::try_from_proto(node, context)?;
        let Some(aggregate) = operator.downcast_ref::<AggregateExec>() else {
            return internal_err!("an aggregate is another operator");
        };
        let schema = aggregate.input_schema();
        let is_nested =
            |expr: &Arc<dyn PhysicalExpr>| expr.data_type(&schema).is_ok_and(|kind| kind.is_nested());
        let by = aggregate.group_expr();
        let groups = by.expr().iter().map(|(expr, _)| Arc::clone(expr));
        let others = aggregate.aggr_expr().iter().filter(|aggregate| aggregate.fun().name() != "count");
        if groups.chain(others.flat_map(|aggregate| aggregate.expressions())).any(|expr| is_nested(&expr)) {
            return not_impl_err!("an aggregate of a list, struct or map does not run beside objects");
        }
        for ((expr, _), (null, _)) in by.expr().iter().zip(by.null_expr()) {
            if expr.data_type(&schema)? != null.data_type(&schema)? {
                return plan_err!("a grouping set leaves out a column with a value of another type");
            }
        }
        // The functions themselves would panic on other types, as in `call`.
        for aggregate in aggregate.aggr_expr() {
            let args = aggregate.expressions();
            let fields = args.iter().map(|arg| arg.return_field(&schema)).collect::<Result<Vec<_>>>()?;
            let taken = fields_with_udf(&fields, aggregate.fun())?;
            if fields.iter().zip(&taken).any(|(field, taken)| field.data_type() != taken.data_type()) {
                return plan_err!(
                    "the arguments of {} have other types than it takes",
                    aggregate.fun().name()
                );
            }
        }
        // The memory of the groups is counted after each batch.
        let group_bytes = aggregate.aggr_expr().iter().map(|aggregate| group_bytes(aggregate, &schema));
        let group_bytes = group_bytes.sum::<Result<usize>>()?.max(1);
        let sets = by.groups().len().max(1);
        let rows_max = match by.is_true_no_grouping() {
            true => GROUPS_OF_BATCH_MAX,
            false => (GROUPS_BYTES_MAX / group_bytes).min(GROUPS_OF_BATCH_MAX) / sets,
        };
        let is_text =
            |expr: &Arc<dyn PhysicalExpr>| expr.data_type(&schema).is_ok_and(|kind| !is_fixed(&kind));
        let keys = by.expr().iter().filter(|(expr, _)| is_text(expr)).count();
        let keeps_text = |aggregate: &&Arc<AggregateFunctionExpr>| {
            aggregate.fun().name() != "count" && aggregate.expressions().iter().any(is_text)
        };
        let copies = sets * (keys + aggregate.aggr_expr().iter().filter(keeps_text).count());
        let bytes_max = (GROUPS_BYTES_MAX / copies.max(1)) as u64;
        if rows_max >= GROUPS_OF_BATCH_MAX && bytes_max >= BATCH_BYTES_MAX {
            return Ok(operator);
        }
        let input = Arc::new(Guard::smaller(Arc::clone(aggregate.input()), rows_max, bytes_max));
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        operator.replace_children(vec![input], options)
    }

    /// The first rows of the object in some order. The sort keeps whole batches, of which a row or
    /// two may be among the first. So a filter below it removes the rows that come after those
    /// found so far, and the rest is copied out of the buffers that it shares with the removed
    /// rows.
    fn sort(&self, sort: &SortExecNode) -> Result<Arc<dyn ExecutionPlan>> {
        let input = sort.input.as_deref().ok_or_else(|| internal_datafusion_err!("a sort has no input"))?;
        let input = self.decode_plan(input)?;
        let schema = input.schema();
        let keys = sort.expr.iter().map(|key| {
            let Some(ExprType::Sort(key)) = &key.expr_type else {
                return internal_err!("a sort has a key without an order");
            };
            let options = SortOptions { descending: !key.asc, nulls_first: key.nulls_first };
            let key =
                key.expr.as_deref().ok_or_else(|| internal_datafusion_err!("a sort has an empty key"))?;
            let expr = self.decode_expr(key, &schema)?;
            // The sort itself would panic for a column that does not exist.
            if expr.data_type(&schema)?.is_nested() {
                return not_impl_err!("an order of lists, structs or maps does not run beside objects");
            }
            Ok(PhysicalSortExpr { expr, options })
        });
        let keys = LexOrdering::new(keys.collect::<Result<Vec<_>>>()?);
        let keys = keys.ok_or_else(|| internal_datafusion_err!("a sort has no key"))?;
        let fetch = usize::try_from(sort.fetch).ok();
        let operator = SortExec::new(keys, Arc::clone(&input)).with_fetch(fetch);
        let Some(first) = operator.dynamic_expressions_produced().pop() else {
            return internal_err!("a sort has no limit");
        };
        let filter = FilterExecBuilder::new(first, input).with_batch_size(1).build()?;
        let input = Arc::new(Guard::copying(Arc::new(filter)));
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        Arc::new(operator).replace_children(vec![input], options)
    }
}

impl ExecutionPlanDecode for Decoder<'_> {
    fn decode_plan(&self, node: &PhysicalPlanNode) -> Result<Arc<dyn ExecutionPlan>> {
        let context = ExecutionPlanDecodeCtx::new(self);
        let operator = match &node.physical_plan_type {
            Some(PhysicalPlanType::ParquetScan(scan)) => self.scan(scan),
            Some(PhysicalPlanType::Filter(_)) => FilterExec::try_from_proto(node, &context),
            Some(PhysicalPlanType::Projection(_)) => ProjectionExec::try_from_proto(node, &context),
            Some(PhysicalPlanType::Aggregate(_)) => self.aggregate(node, &context),
            Some(PhysicalPlanType::Sort(sort)) => self.sort(sort),
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
        let expr = match &node.expr_type {
            Some(ExprType::Column(_)) => Column::try_from_proto(node, &context),
            Some(ExprType::Literal(_)) => Literal::try_from_proto(node, &context),
            Some(ExprType::BinaryExpr(binary)) if let Some(comparison) = Comparison::of(&binary.op) => {
                self.pattern_match(binary, comparison, schema)
            }
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
            Some(ExprType::HigherOrderUdf(call)) => self.call_with_lambda(call, schema),
            Some(ExprType::LambdaVariable(variable)) => variable_of(variable, schema),
            _ => not_impl_err!("an expression does not run beside objects"),
        };
        self.check_bounded(expr?, schema)
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

/// The variable of a lambda. It follows the columns of the input, because a lambda has one
/// parameter and is in no other one. The index in the message is ignored: it could name a column,
/// of which each element would get a copy.
fn variable_of(variable: &PhysicalLambdaVariableExprNode, schema: &Schema) -> Result<Arc<dyn PhysicalExpr>> {
    let Some(field) = &variable.field else { return not_impl_err!("a variable has no type") };
    Ok(Arc::new(LambdaVariable::new(schema.fields().len(), Arc::new(field.try_into()?))))
}

/// Maximum memory that a row can add to an aggregate, without strings.
fn group_bytes(aggregate: &AggregateFunctionExpr, schema: &Schema) -> Result<usize> {
    if aggregate.groups_accumulator_supported() {
        return Ok(if aggregate.fun().name() == "approx_distinct" { SKETCH_BYTES } else { IN_ARRAY_BYTES });
    }
    let types =
        aggregate.expressions().iter().map(|arg| arg.data_type(schema)).collect::<Result<Vec<_>>>()?;
    let has_bitmap = types.iter().any(|kind| matches!(kind, DataType::Int16 | DataType::UInt16));
    Ok(ACCUMULATOR_BYTES + if has_bitmap { BITMAP_BYTES } else { 0 })
}

/// The number of literals in an expression.
fn literals(expr: &Arc<dyn PhysicalExpr>) -> usize {
    usize::from(expr.is::<Literal>()) + expr.children().into_iter().map(literals).sum::<usize>()
}

/// Whether each value takes a few bytes.
fn is_fixed(data_type: &DataType) -> bool {
    data_type.primitive_width().is_some() || matches!(data_type, DataType::Boolean | DataType::Null)
}

/// Whether a cast of lists changes at most the types of numbers.
fn is_small_cast(from: &DataType, to: &DataType) -> bool {
    use DataType::{LargeList, List};
    match (from, to) {
        (List(from), List(to) | LargeList(to)) | (LargeList(from), LargeList(to)) => {
            is_small_cast(from.data_type(), to.data_type())
        }
        _ => from == to || is_fixed(from) && is_fixed(to),
    }
}
