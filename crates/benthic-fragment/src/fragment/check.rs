//! Checks a plan message before anything is built from it.
//!
//! The check is an allow list, because a plan may come from any client. A refused plan costs the
//! client only a fetch of the object, so the list is short. It refuses sinks, other scans, joins,
//! most functions, extension nodes, literals of lists and structs, and everything that a new
//! version of DataFusion adds.

use super::envelope::{BUILD, ENVELOPE_BYTES_MAX, Envelope, OBJECT_URL, Status};
use super::functions;
use super::pattern;
use super::stop::{Stop, unsupported};
use crate::{membership, text_search, wasm};
use datafusion_proto_models::datafusion_common::arrow_type::ArrowTypeEnum;
use datafusion_proto_models::datafusion_common::scalar_value::Value;
use datafusion_proto_models::datafusion_common::{ArrowType, Field, Schema};
use datafusion_proto_models::protobuf::physical_aggregate_expr_node::AggregateFunction;
use datafusion_proto_models::protobuf::physical_expr_node::ExprType;
use datafusion_proto_models::protobuf::physical_plan_node::PhysicalPlanType;
use datafusion_proto_models::protobuf::{
    AggregateExecNode, AggregateMode, ParquetScanExecNode, PhysicalBinaryExprNode, PhysicalExprNode,
    PhysicalHigherOrderUdfNode, PhysicalPlanNode, PhysicalScalarUdfNode, SortExecNode,
};
use parking_lot::Mutex;
use prost::Message;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, LazyLock};

const NODES_MAX: usize = 1_024;
/// Maximum number of expressions that can create strings. All their results may be in memory at
/// once.
const STRING_MAKERS_MAX: usize = 32;
/// Maximum size of all string literals together. A literal may be copied into every row.
const LITERAL_BYTES_MAX: usize = 4_096;
/// Maximum length of an `IN` list, whose values never become columns.
const IN_LIST_MAX: usize = 10_000;
/// Maximum number of columns that an operator outputs.
const COLUMNS_GIVEN_MAX: usize = 512;
/// Maximum number of `LIKE` patterns and searches for words. Each is compiled and compared with
/// every row.
const PATTERNS_MAX: usize = 16;
const PATTERN_BYTES_MAX: usize = 128;
/// Maximum nesting of `CASE`. Each level asks every level below whether it can be null.
const CASE_DEPTH_MAX: usize = 4;
/// Maximum number of calls of WebAssembly methods in a plan. Their outputs for one batch are in
/// memory at once.
pub const CALLS_MAX: usize = 4;
/// Maximum depth of a plan, and of an expression during evaluation. The messages themselves nest at
/// most 100 deep.
const DEPTH_MAX: usize = 64;
/// Maximum number of columns of a schema, each with all its parts.
const COLUMNS_MAX: usize = 10_000;
/// Maximum depth of lists, structs and maps in a column.
const TYPE_DEPTH_MAX: usize = 8;
const BATCH_ROWS_MAX: u32 = 8_192;
const OUTPUT_BYTES_MAX: u64 = 16 * 1024 * 1024;
const CACHED_MAX: usize = 32;
/// Larger envelopes are not cached, to limit the cache's memory.
const CACHED_ENVELOPE_BYTES_MAX: usize = 64 * 1024;

/// Maximum number of rows of a sort. It holds them all in memory.
const TOP_ROWS_MAX: i64 = 8_192;

/// Maximum number of functions of an aggregate. Each has a state for each group.
const AGGREGATES_MAX: usize = 100;
/// Maximum number of quantiles of an aggregate.
const QUANTILES_MAX: usize = 16;
/// Maximum number of grouping sets of an aggregate. Each row is in a group of each set.
const SETS_MAX: usize = 32;

const OPERATORS: [&str; 16] = [
    "And",
    "Or",
    "Eq",
    "NotEq",
    "Lt",
    "LtEq",
    "Gt",
    "GtEq",
    "Plus",
    "Minus",
    "Multiply",
    "Divide",
    "Modulo",
    "IsDistinctFrom",
    "IsNotDistinctFrom",
    "StringConcat",
];

/// An envelope whose plan passed the check.
#[derive(Debug)]
pub struct Checked {
    pub envelope: Envelope,
    pub plan: PhysicalPlanNode,
    /// The functions and aggregates that the plan calls.
    pub functions: BTreeSet<String>,
}

/// Cache of checked plans by envelope. All objects of a table get the same bytes, and the result of
/// the check depends on nothing else.
static CACHE: LazyLock<Mutex<HashMap<Vec<u8>, Arc<Checked>>>> = LazyLock::new(Mutex::default);

/// Checks an envelope, or returns the cached result.
pub fn check_cached(envelope: &[u8]) -> Result<Arc<Checked>, Stop> {
    if let Some(checked) = CACHE.lock().get(envelope) {
        return Ok(Arc::clone(checked));
    }
    let checked = Arc::new(check(envelope)?);
    if envelope.len() <= CACHED_ENVELOPE_BYTES_MAX {
        let mut cache = CACHE.lock();
        if cache.len() >= CACHED_MAX {
            cache.clear();
        }
        cache.insert(envelope.to_vec(), Arc::clone(&checked));
    }
    Ok(checked)
}

fn check(envelope: &[u8]) -> Result<Checked, Stop> {
    if envelope.len() > ENVELOPE_BYTES_MAX {
        return Err(unsupported("the plan is too large"));
    }
    let envelope = Envelope::decode(envelope)
        .map_err(|error| unsupported(format!("the envelope cannot be decoded: {error}")))?;
    if envelope.build != BUILD {
        let message = "the plan comes from another build".to_owned();
        return Err(Stop::Answer(Status::OtherBuild, message));
    }
    if !(1..=BATCH_ROWS_MAX).contains(&envelope.batch_rows) || envelope.output_bytes_max > OUTPUT_BYTES_MAX {
        return Err(unsupported("the batch or the reply would be too large"));
    }
    if envelope.methods.len() > CALLS_MAX {
        return Err(unsupported("the envelope names too many methods"));
    }
    if let Some(probes) = &envelope.probes {
        probes.check().map_err(unsupported)?;
    }
    // Prost limits messages to 100 levels, so the recursive walk below cannot overflow the stack.
    let mut plan = PhysicalPlanNode::decode(envelope.plan.as_ref())
        .map_err(|error| unsupported(format!("the plan cannot be decoded: {error}")))?;
    let names = envelope.methods.iter().map(|method| method.name.clone()).collect();
    let mut walk = Walk { names, ..Walk::default() };
    walk.plan(&mut plan, 0)?;
    Ok(Checked { envelope, plan, functions: walk.functions })
}

#[derive(Default)]
struct Walk {
    nodes: usize,
    string_makers: usize,
    literal_bytes: usize,
    patterns: usize,
    regexes: usize,
    membership_bytes: usize,
    case_depth: usize,
    in_lambda: bool,
    /// The methods of WebAssembly classes that the plan may call.
    names: HashSet<String>,
    calls: usize,
    functions: BTreeSet<String>,
}

impl Walk {
    fn enter(&mut self, depth: usize) -> Result<usize, Stop> {
        self.nodes += 1;
        if self.nodes > NODES_MAX || depth > DEPTH_MAX {
            return Err(unsupported("the plan has too many nodes, or too deep ones"));
        }
        Ok(depth + 1)
    }

    fn string_maker(&mut self) -> Result<(), Stop> {
        self.string_makers += 1;
        if self.string_makers > STRING_MAKERS_MAX {
            return Err(unsupported("the plan makes too many strings"));
        }
        Ok(())
    }

    fn plan(&mut self, node: &mut PhysicalPlanNode, depth: usize) -> Result<(), Stop> {
        let depth = self.enter(depth)?;
        let input = match &mut node.physical_plan_type {
            Some(PhysicalPlanType::ParquetScan(scan)) => return self.scan(scan, depth),
            Some(PhysicalPlanType::Filter(filter)) => {
                // A filter would collect rows of many batches. With batch size 1 it passes each
                // batch on at once.
                filter.batch_size = 1;
                if filter.projection.len() > COLUMNS_GIVEN_MAX {
                    return Err(unsupported("a filter of too many columns"));
                }
                self.exprs(&filter.expr, depth)?;
                &mut filter.input
            }
            Some(PhysicalPlanType::Projection(projection)) => {
                if projection.expr.len() > COLUMNS_GIVEN_MAX {
                    return Err(unsupported("a projection of too many columns"));
                }
                self.exprs(&projection.expr, depth)?;
                &mut projection.input
            }
            Some(PhysicalPlanType::Aggregate(aggregate)) => {
                self.aggregate(aggregate, depth)?;
                &mut aggregate.input
            }
            Some(PhysicalPlanType::Sort(sort)) => {
                self.sort(sort, depth)?;
                &mut sort.input
            }
            Some(PhysicalPlanType::LocalLimit(limit)) if limit.required_ordering.is_empty() => {
                &mut limit.input
            }
            Some(PhysicalPlanType::GlobalLimit(limit)) if limit.required_ordering.is_empty() => {
                &mut limit.input
            }
            _ => return Err(unsupported("a node of the plan does not run beside objects")),
        };
        let input = input.as_mut().ok_or_else(|| unsupported("a node of the plan has no input"))?;
        self.plan(input, depth)
    }

    fn scan(&mut self, scan: &mut ParquetScanExecNode, depth: usize) -> Result<(), Stop> {
        let conf = scan.base_conf.as_ref().ok_or_else(|| unsupported("a scan is empty"))?;
        if conf.object_store_url != OBJECT_URL || !conf.file_groups.is_empty() {
            return Err(unsupported("a scan names files other than the object"));
        }
        if !conf.projection.is_empty()
            || !conf.table_partition_cols.is_empty()
            || !conf.output_ordering.is_empty()
            || conf.output_partitioning.is_some()
        {
            return Err(unsupported("a scan has options that do not run beside objects"));
        }
        let schema = conf.schema.as_ref().ok_or_else(|| unsupported("a scan has no schema"))?;
        columns(schema)?;
        if schema.columns.iter().any(copies_strings) {
            return Err(unsupported("a scan copies its strings; it must give views"));
        }
        // With this option the scan itself would filter rows by its predicate, without a filter
        // node above it.
        let options = scan.parquet_options.as_ref().and_then(|options| options.global.as_ref());
        if options.is_some_and(|options| options.pushdown_filters) {
            return Err(unsupported("a scan filters; a filter above it can"));
        }
        // The predicate only prunes row groups, so its results are as small as the statistics.
        let calls = self.calls;
        self.exprs(&scan.predicate, depth)?;
        if self.calls > calls {
            return Err(unsupported("a scan calls a method; a filter above it can"));
        }
        let projections = conf.projection_exprs.as_ref().map(|projections| &projections.projections);
        if projections.map_or(schema.columns.len(), Vec::len) > COLUMNS_GIVEN_MAX {
            return Err(unsupported("a scan of too many columns"));
        }
        for projection in projections.into_iter().flatten() {
            self.exprs(&projection.expr, depth)?;
            if !projection.expr.as_ref().is_some_and(is_path) {
                return Err(unsupported("a scan computes; a projection above it can"));
            }
        }
        Ok(())
    }

    fn aggregate(&mut self, aggregate: &mut AggregateExecNode, depth: usize) -> Result<(), Stop> {
        if aggregate.mode != AggregateMode::Partial as i32 {
            return Err(unsupported("an aggregate is not a partial one"));
        }
        let groups = aggregate.group_expr.len();
        let sets = aggregate.groups.len().checked_div(groups).unwrap_or(0);
        let has_sets = match aggregate.has_grouping_set {
            // The values of the columns that a set leaves out.
            true => {
                let is_literal =
                    |null: &PhysicalExprNode| matches!(null.expr_type, Some(ExprType::Literal(_)));
                (1..=SETS_MAX).contains(&sets)
                    && groups <= SETS_MAX
                    && aggregate.groups.len() == sets * groups
                    && aggregate.null_expr.len() == groups
                    && aggregate.null_expr.iter().all(is_literal)
            }
            false => {
                aggregate.groups.iter().all(|null| !null)
                    && aggregate.groups.len() == groups
                    && aggregate.null_expr.is_empty()
            }
        };
        if !has_sets
            || aggregate.group_expr_name.len() != groups
            || aggregate.aggr_expr_name.len() != aggregate.aggr_expr.len()
            || aggregate.filter_expr.len() != aggregate.aggr_expr.len()
        {
            return Err(unsupported("an aggregate has too many grouping sets, or is not complete"));
        }
        if aggregate.aggr_expr.len() > AGGREGATES_MAX {
            return Err(unsupported("an aggregate has too many functions"));
        }
        columns(aggregate.input_schema.as_ref().ok_or_else(|| unsupported("an aggregate has no schema"))?)?;
        // The decoder would trust this result schema. Remove it so that it is computed.
        aggregate.schema = None;
        aggregate.dynamic_filter = None;
        // A hint that would make the aggregate reserve memory.
        aggregate.limit = None;
        self.exprs(aggregate.group_expr.iter().chain(&aggregate.null_expr), depth)?;
        for filter in &aggregate.filter_expr {
            self.exprs(&filter.expr, depth)?;
        }
        let mut quantiles = 0;
        for expr in &aggregate.aggr_expr {
            let Some(ExprType::AggregateExpr(aggregate)) = &expr.expr_type else {
                return Err(unsupported("an aggregate contains another expression"));
            };
            let Some(AggregateFunction::UserDefinedAggrFunction(name)) = &aggregate.aggregate_function else {
                return Err(unsupported("an aggregate has no function"));
            };
            if functions::aggregate(name).is_none() || aggregate.fun_definition.is_some() {
                return Err(unsupported("an aggregate function does not run beside objects"));
            }
            self.functions.insert(name.clone());
            let is_quantile = functions::is_quantile(name);
            if aggregate.distinct || (!aggregate.ordering_req.is_empty() && !is_quantile) {
                return Err(unsupported("a distinct or ordered aggregate does not run beside objects"));
            }
            quantiles += usize::from(is_quantile);
            let many = aggregate.expr.get(2).is_some_and(|centroids| !are_few(centroids));
            if is_quantile && (many || quantiles > QUANTILES_MAX || aggregate.ordering_req.len() > 1) {
                return Err(unsupported("the plan has too many quantiles, or one with too many centroids"));
            }
            self.exprs(aggregate.ordering_req.iter().filter_map(|key| key.expr.as_deref()), depth)?;
            self.exprs(&aggregate.expr, depth)?;
        }
        Ok(())
    }

    fn sort(&mut self, sort: &SortExecNode, depth: usize) -> Result<(), Stop> {
        if !(1..=TOP_ROWS_MAX).contains(&sort.fetch) {
            return Err(unsupported("a sort of all rows, or of many, does not run beside objects"));
        }
        if sort.expr.is_empty() {
            return Err(unsupported("a sort without an order does not run beside objects"));
        }
        for key in &sort.expr {
            let Some(ExprType::Sort(key)) = &key.expr_type else {
                return Err(unsupported("a sort has a key without an order"));
            };
            // The keys of a batch's rows are copies of the values.
            self.string_maker()?;
            self.exprs(key.expr.as_deref(), depth)?;
        }
        Ok(())
    }

    fn exprs<'e>(
        &mut self,
        exprs: impl IntoIterator<Item = &'e PhysicalExprNode>,
        depth: usize,
    ) -> Result<(), Stop> {
        exprs.into_iter().try_for_each(|expr| self.expr(expr, depth))
    }

    fn expr(&mut self, node: &PhysicalExprNode, depth: usize) -> Result<(), Stop> {
        let depth = self.enter(depth)?;
        match &node.expr_type {
            Some(ExprType::Column(_)) => Ok(()),
            Some(ExprType::Literal(literal)) => {
                self.literal_bytes += scalar(literal.value.as_ref())?;
                if self.literal_bytes > LITERAL_BYTES_MAX {
                    return Err(unsupported("literals are too long"));
                }
                Ok(())
            }
            Some(ExprType::BinaryExpr(binary)) if pattern::Comparison::of(&binary.op).is_some() => {
                let text = self.regular_expression(binary)?;
                self.expr(text, depth)
            }
            Some(ExprType::BinaryExpr(binary)) => {
                if !OPERATORS.contains(&binary.op.as_str()) {
                    return Err(unsupported("an operator does not run beside objects"));
                }
                if binary.op == "StringConcat" {
                    self.string_maker()?;
                }
                // The decoder turns a list of operands into a tree of the same depth.
                let depth = depth + binary.operands.len();
                self.exprs(&binary.operands, depth)?;
                self.exprs(binary.l.as_deref(), depth)?;
                self.exprs(binary.r.as_deref(), depth)
            }
            Some(ExprType::IsNullExpr(is)) => self.exprs(is.expr.as_deref(), depth),
            Some(ExprType::IsNotNullExpr(is)) => self.exprs(is.expr.as_deref(), depth),
            Some(ExprType::NotExpr(not)) => self.exprs(not.expr.as_deref(), depth),
            Some(ExprType::Negative(negative)) => self.exprs(negative.expr.as_deref(), depth),
            Some(ExprType::InList(list)) => {
                self.exprs(list.expr.as_deref(), depth)?;
                if list.list.len() > IN_LIST_MAX {
                    return Err(unsupported("a list is too long"));
                }
                list.list.iter().try_for_each(|node| match &node.expr_type {
                    Some(ExprType::Literal(literal)) => scalar(literal.value.as_ref()).map(drop),
                    _ => self.expr(node, depth),
                })
            }
            Some(ExprType::Case(case)) => {
                self.string_maker()?;
                self.case_depth += 1;
                if self.case_depth > CASE_DEPTH_MAX {
                    return Err(unsupported("cases are nested too deeply"));
                }
                self.exprs(case.expr.as_deref(), depth)?;
                for arm in &case.when_then_expr {
                    self.exprs(&arm.when_expr, depth)?;
                    self.exprs(&arm.then_expr, depth)?;
                }
                self.exprs(case.else_expr.as_deref(), depth)?;
                self.case_depth -= 1;
                Ok(())
            }
            Some(ExprType::Cast(cast)) => {
                self.cast(cast.arrow_type.as_ref())?;
                self.exprs(cast.expr.as_deref(), depth)
            }
            Some(ExprType::TryCast(cast)) => {
                self.cast(cast.arrow_type.as_ref())?;
                self.exprs(cast.expr.as_deref(), depth)
            }
            Some(ExprType::LikeExpr(like)) => {
                self.pattern(like.pattern.as_deref())?;
                self.exprs(like.expr.as_deref(), depth)
            }
            Some(ExprType::ScalarUdf(call)) if call.name == wasm::NAME && !self.in_lambda => {
                let [name, value] = &call.args[..] else {
                    return Err(unsupported("a call of a method has two arguments"));
                };
                let name = match &name.expr_type {
                    Some(ExprType::Literal(literal)) => text(literal.value.as_ref()),
                    _ => None,
                };
                if name.is_none_or(|name| !self.names.contains(name)) || call.fun_definition.is_some() {
                    return Err(unsupported("the plan calls a method that the envelope does not have"));
                }
                self.calls += 1;
                if self.calls > CALLS_MAX {
                    return Err(unsupported("the plan calls too many methods"));
                }
                self.functions.insert(wasm::NAME.to_owned());
                self.string_maker()?;
                self.expr(value, depth)
            }
            Some(ExprType::HigherOrderUdf(call)) => self.higher_order(call, depth),
            Some(ExprType::LambdaVariable(variable)) if self.in_lambda => {
                let field = variable.field.as_ref();
                column(field.ok_or_else(|| unsupported("a variable has no type"))?, &mut 0, 0)
            }
            Some(ExprType::ScalarUdf(call)) if call.name == membership::NAME && !self.in_lambda => {
                self.membership_filter(call)?;
                self.exprs(&call.args, depth)
            }
            Some(ExprType::ScalarUdf(call)) if text_search::is_search(&call.name) => {
                functions::check_call(call)?;
                let [text, query] = &call.args[..] else {
                    return Err(unsupported("a search for words has two arguments"));
                };
                self.functions.insert(call.name.clone());
                self.pattern(Some(query))?;
                self.expr(text, depth)
            }
            Some(ExprType::ScalarUdf(call)) => {
                for _ in 0..functions::check_call(call)? {
                    self.string_maker()?;
                }
                self.functions.insert(call.name.clone());
                self.exprs(&call.args, depth)
            }
            _ => Err(unsupported("an expression does not run beside objects")),
        }
    }

    /// A pattern of `LIKE`, or the query of a search for words.
    fn pattern(&mut self, pattern: Option<&PhysicalExprNode>) -> Result<(), Stop> {
        self.patterns += 1;
        let Some(ExprType::Literal(pattern)) = pattern.and_then(|pattern| pattern.expr_type.as_ref()) else {
            return Err(unsupported("a pattern is not the same for all rows"));
        };
        if self.patterns > PATTERNS_MAX || scalar(pattern.value.as_ref())? > PATTERN_BYTES_MAX {
            return Err(unsupported("patterns are too many or too long"));
        }
        Ok(())
    }

    fn membership_filter(&mut self, call: &PhysicalScalarUdfNode) -> Result<(), Stop> {
        let filter = call.fun_definition.as_deref().unwrap_or_default();
        self.membership_bytes += filter.len();
        if !membership::is_filter(filter) || self.membership_bytes > membership::FILTER_BYTES_MAX {
            return Err(unsupported("membership filters are incomplete or too large"));
        }
        if !(1..=membership::KEYS_MAX).contains(&call.args.len()) {
            return Err(unsupported("a membership filter has no keys, or too many"));
        }
        Ok(())
    }

    /// Checks the pattern, and returns the text.
    fn regular_expression<'e>(
        &mut self,
        binary: &'e PhysicalBinaryExprNode,
    ) -> Result<&'e PhysicalExprNode, Stop> {
        let (left, right) = (binary.l.as_deref(), binary.r.as_deref());
        let (text, pattern) = pattern::operands(left, right, &binary.operands)?;
        self.regexes += 1;
        if self.regexes > pattern::REGEXES_MAX {
            return Err(unsupported("regular expressions are too many"));
        }
        self.pattern(Some(pattern))?;
        Ok(text)
    }

    fn higher_order(&mut self, call: &PhysicalHigherOrderUdfNode, depth: usize) -> Result<(), Stop> {
        if functions::higher_order(&call.name).is_none() || call.fun_definition.is_some() {
            return Err(unsupported("a function does not run beside objects"));
        }
        // A lambda in a lambda could compare each element with each other one.
        let [list, PhysicalExprNode { expr_type: Some(ExprType::Lambda(lambda)), .. }] = &call.args[..]
        else {
            return Err(unsupported("a function of a list and a lambda has other arguments"));
        };
        if self.in_lambda || lambda.params.len() != 1 {
            return Err(unsupported("a lambda is in another one, or has several parameters"));
        }
        self.functions.insert(call.name.clone());
        self.string_maker()?;
        self.expr(list, depth)?;
        let depth = self.enter(depth)?;
        self.in_lambda = true;
        self.exprs(lambda.body.as_deref(), depth)?;
        self.in_lambda = false;
        Ok(())
    }

    fn cast(&mut self, to: Option<&ArrowType>) -> Result<(), Stop> {
        if plain(to).is_ok() && !is_text(to) {
            return Ok(());
        }
        self.string_maker()?;
        // The type of a list, too.
        let field = Field { arrow_type: to.cloned().map(Box::new), ..Field::default() };
        column(&field, &mut 0, 0)
    }
}

/// Whether an expression is an acceptable number of centroids.
fn are_few(centroids: &PhysicalExprNode) -> bool {
    let Some(ExprType::Literal(literal)) = &centroids.expr_type else { return false };
    let count = match literal.value {
        Some(Value::Int64Value(count)) => usize::try_from(count).ok(),
        Some(Value::Uint64Value(count)) => usize::try_from(count).ok(),
        Some(Value::Int32Value(count)) => usize::try_from(count).ok(),
        Some(Value::Uint32Value(count)) => usize::try_from(count).ok(),
        _ => None,
    };
    count.is_some_and(|count| count <= functions::CENTROIDS_MAX)
}

/// Whether an expression is a column, or a field of a struct. Then the scan reads only this field.
fn is_path(node: &PhysicalExprNode) -> bool {
    match &node.expr_type {
        Some(ExprType::Column(_)) => true,
        Some(ExprType::ScalarUdf(call)) if call.name == "get_field" => match &call.args[..] {
            [of, names @ ..] => {
                is_path(of) && names.iter().all(|name| matches!(name.expr_type, Some(ExprType::Literal(_))))
            }
            [] => false,
        },
        _ => false,
    }
}

fn columns(schema: &Schema) -> Result<(), Stop> {
    let mut parts = 0;
    schema.columns.iter().try_for_each(|field| column(field, &mut parts, 0))
}

/// Accepts plain types, and lists, structs and maps of them. A list of fixed length is refused:
/// each null takes as much memory as a whole list, and the plan chooses the length.
fn column(field: &Field, parts: &mut usize, depth: usize) -> Result<(), Stop> {
    *parts += 1;
    if *parts > COLUMNS_MAX {
        return Err(unsupported("a schema has too many columns"));
    }
    let children = parts_of(field);
    if children.is_empty() {
        return plain(field.arrow_type.as_deref());
    }
    if depth == TYPE_DEPTH_MAX {
        return Err(unsupported("a type is nested too deeply"));
    }
    children.into_iter().try_for_each(|field| column(field, parts, depth + 1))
}

fn parts_of(field: &Field) -> Vec<&Field> {
    use ArrowTypeEnum as T;
    match kind(field.arrow_type.as_deref()) {
        Some(T::List(list) | T::LargeList(list)) => list.field_type.as_deref().into_iter().collect(),
        Some(T::Map(map)) => map.field_type.as_deref().into_iter().collect(),
        Some(T::Struct(fields)) => fields.sub_field_types.iter().collect(),
        _ => Vec::new(),
    }
}

fn copies_strings(field: &Field) -> bool {
    owns_bytes(field.arrow_type.as_deref()) || parts_of(field).into_iter().any(copies_strings)
}

fn kind(arrow_type: Option<&ArrowType>) -> Option<&ArrowTypeEnum> {
    arrow_type.and_then(|arrow_type| arrow_type.arrow_type_enum.as_ref())
}

/// Accepts only types without nested parts.
fn plain(arrow_type: Option<&ArrowType>) -> Result<(), Stop> {
    use ArrowTypeEnum as T;
    match kind(arrow_type) {
        Some(
            T::Bool(_)
            | T::Uint8(_)
            | T::Int8(_)
            | T::Uint16(_)
            | T::Int16(_)
            | T::Uint32(_)
            | T::Int32(_)
            | T::Uint64(_)
            | T::Int64(_)
            | T::Float32(_)
            | T::Float64(_)
            | T::Utf8(_)
            | T::Utf8View(_)
            | T::LargeUtf8(_)
            | T::Binary(_)
            | T::BinaryView(_)
            | T::LargeBinary(_)
            | T::Date32(_)
            | T::Date64(_)
            | T::Time32(_)
            | T::Time64(_)
            | T::Timestamp(_)
            | T::Decimal128(_),
        ) => Ok(()),
        _ => Err(unsupported("a type does not run beside objects")),
    }
}

/// Strings and binaries that own their bytes, so that a dictionary value is copied into every row.
fn owns_bytes(arrow_type: Option<&ArrowType>) -> bool {
    use ArrowTypeEnum as T;
    matches!(kind(arrow_type), Some(T::Utf8(_) | T::LargeUtf8(_) | T::Binary(_) | T::LargeBinary(_)))
}

fn text(value: Option<&Value>) -> Option<&str> {
    match value {
        Some(Value::Utf8Value(text) | Value::LargeUtf8Value(text) | Value::Utf8ViewValue(text)) => Some(text),
        _ => None,
    }
}

fn is_text(arrow_type: Option<&ArrowType>) -> bool {
    use ArrowTypeEnum as T;
    owns_bytes(arrow_type) || matches!(kind(arrow_type), Some(T::Utf8View(_) | T::BinaryView(_)))
}

/// Checks a literal and returns the length of its string in bytes.
fn scalar(value: Option<&Value>) -> Result<usize, Stop> {
    use Value as V;
    let len_bytes = match value {
        Some(V::Utf8Value(text) | V::LargeUtf8Value(text) | V::Utf8ViewValue(text)) => text.len(),
        Some(V::BinaryValue(bytes) | V::LargeBinaryValue(bytes) | V::BinaryViewValue(bytes)) => bytes.len(),
        _ => 0,
    };
    match value {
        Some(V::NullValue(arrow_type)) => plain(Some(arrow_type))?,
        Some(
            V::BoolValue(_)
            | V::Utf8Value(_)
            | V::LargeUtf8Value(_)
            | V::Utf8ViewValue(_)
            | V::Int8Value(_)
            | V::Int16Value(_)
            | V::Int32Value(_)
            | V::Int64Value(_)
            | V::Uint8Value(_)
            | V::Uint16Value(_)
            | V::Uint32Value(_)
            | V::Uint64Value(_)
            | V::Float32Value(_)
            | V::Float64Value(_)
            | V::Date32Value(_)
            | V::Date64Value(_)
            | V::Time32Value(_)
            | V::Time64Value(_)
            | V::Decimal128Value(_)
            | V::TimestampValue(_)
            | V::BinaryValue(_)
            | V::LargeBinaryValue(_)
            | V::BinaryViewValue(_)
            | V::IntervalMonthDayNano(_),
        ) => {}
        _ => return Err(unsupported("a literal does not run beside objects")),
    }
    Ok(len_bytes)
}
