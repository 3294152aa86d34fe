//! The function `wasm('CLASS.METHOD', value)`: calls a reading method of a deployed WebAssembly class.
//!
//! The value is the input of the method, and the output is a value of the same type. NULL returns NULL
//! without a call. Each call has a new instance of the module and no object, so the result depends on
//! the value only, and the optimizer may treat the function as immutable.
//!
//! [`resolve`] finds the methods that a statement names, before it is planned: planning cannot wait for
//! a pool. Classes belong to pools, so it searches the pools of the statement's tables.

use crate::errors::external;
use crate::expr::{Expr, Plan, any_part};
use crate::relations::visit;
use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BinaryViewArray, LargeBinaryArray, LargeStringArray, StringArray,
    StringViewArray,
};
use arrow::datatypes::{DataType, Field, FieldRef};
use benthic_core::{Clock, Error, ErrorKind, Pool};
use benthic_wasm::{Function, deployed};
use bytes::Bytes;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr::{ScalarFunctionExpr, conjunction, split_conjunction};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Expr as SqlExpr, FunctionArg, FunctionArgExpr, FunctionArguments, Visitor,
};
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::ControlFlow;
use std::sync::Arc;

/// The name of the function.
pub const NAME: &str = "wasm";

/// Limit of the outputs for one batch of rows.
const OUTPUT_BYTES_MAX: usize = 1024 * 1024 * 1024;

/// The methods that a statement calls, by their names `CLASS.METHOD`.
pub type Methods = BTreeMap<String, Function>;

/// The methods that a statement names in calls of the function. Only literals name methods.
pub fn named_methods(statement: &Statement) -> BTreeSet<String> {
    let mut calls = Calls::default();
    visit(statement, &mut calls);
    calls.0
}

#[derive(Default)]
struct Calls(BTreeSet<String>);

impl Visitor for Calls {
    type Break = Infallible;

    fn pre_visit_expr(&mut self, expr: &SqlExpr) -> ControlFlow<Infallible> {
        if let SqlExpr::Function(call) = expr
            && call.name.to_string().eq_ignore_ascii_case(NAME)
            && let FunctionArguments::List(arguments) = &call.args
            && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(SqlExpr::Value(first)))) =
                arguments.args.first()
        {
            self.0.extend(first.clone().into_string());
        }
        ControlFlow::Continue(())
    }
}

/// Finds the methods in these pools.
///
/// # Errors
/// `InvalidArgument` if a name is not `CLASS.METHOD`, if the method writes, and if the pools have
/// different versions of a class; `NotFound` if no pool has the class; `Unsupported` if the class has
/// no such method; errors of the pools.
pub async fn resolve(names: BTreeSet<String>, pools: &[Arc<dyn Pool>]) -> benthic_core::Result<Methods> {
    let mut methods = Methods::new();
    for name in names {
        let Some((class, method)) = name.split_once('.') else {
            let message = "the first argument of wasm is CLASS.METHOD, such as wasm('redact.text', body)";
            return Err(Error::new(ErrorKind::InvalidArgument, message).with("argument", name));
        };
        let mut found = None;
        for pool in pools {
            let Some(deployed) = deployed::find(&**pool, class).await? else { continue };
            match &found {
                None => found = Some((pool, deployed)),
                Some((_, other)) if other.current == deployed.current => {}
                Some(_) => {
                    let message = "the pools of the query have different versions of the class; deploy the same one to each";
                    return Err(Error::new(ErrorKind::InvalidArgument, message).with("class", class));
                }
            }
        }
        let Some((pool, deployed)) = found else {
            if pools.is_empty() {
                let message = "the query names no table of a pool, so it cannot call a method of a class";
                return Err(Error::new(ErrorKind::NotFound, message).with("class", class));
            }
            let pools: Vec<&str> = pools.iter().map(|pool| pool.name()).collect();
            return Err(deployed::gone(class).with("pool", pools.join(",")));
        };
        let function = deployed::function(&**pool, &deployed, method).await?;
        methods.insert(name, function);
    }
    Ok(methods)
}

/// The function, with the methods that the query may call.
pub struct WasmFunction {
    methods: Methods,
    clock: Arc<dyn Clock>,
    signature: Signature,
}

impl WasmFunction {
    pub fn new(methods: Methods, clock: Arc<dyn Clock>) -> WasmFunction {
        WasmFunction { methods, clock, signature: Signature::user_defined(Volatility::Immutable) }
    }

    fn method(&self, name: &ScalarValue) -> Result<(&str, &Function)> {
        let name = name.try_as_str().flatten().unwrap_or_default();
        match self.methods.get_key_value(name) {
            Some((name, function)) => Ok((name, function)),
            None => refused("write the first argument of wasm as a text in quotes, such as 'redact.text'"),
        }
    }

    fn call(&self, function: &Function, input: &[u8]) -> Result<Bytes> {
        function.call(Bytes::copy_from_slice(input), &*self.clock).map_err(external)
    }
}

fn refused<T>(message: &str) -> Result<T> {
    Err(external(Error::new(ErrorKind::InvalidArgument, message)))
}

impl fmt::Debug for WasmFunction {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_map().entries(&self.methods).finish()
    }
}

impl PartialEq for WasmFunction {
    fn eq(&self, other: &WasmFunction) -> bool {
        self.methods == other.methods
    }
}

impl Eq for WasmFunction {}

impl Hash for WasmFunction {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.methods.keys().for_each(|name| name.hash(hasher));
    }
}

impl ScalarUDFImpl for WasmFunction {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        internal_err!("the type of wasm depends on its arguments")
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        // Errors here would lose their kind, so `return_field_from_args` reports them.
        let coerced = |given: &DataType| match given {
            DataType::Null => DataType::Utf8View,
            DataType::Dictionary(_, values) => DataType::clone(values),
            DataType::FixedSizeBinary(_) => DataType::Binary,
            other => other.clone(),
        };
        Ok(types.iter().map(coerced).collect())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let ([_, value], [name, _]) = (args.arg_fields, args.scalar_arguments) else {
            return refused(
                "wasm has two arguments: a method and its input, such as wasm('redact.text', body)",
            );
        };
        self.method(name.unwrap_or(&ScalarValue::Null))?;
        let given = value.data_type();
        if !is_text(given) && !is_binary(given) {
            let message = "the input of a method is text or binary; CAST(… AS VARCHAR) makes a text";
            let error = Error::new(ErrorKind::InvalidArgument, message);
            return Err(external(error.with("type", crate::syntax::show_type(given))));
        }
        Ok(Arc::new(Field::new(NAME, given.clone(), true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [ColumnarValue::Scalar(name), value] = &args.args[..] else {
            return internal_err!("the first argument of wasm is not a scalar");
        };
        let (name, function) = self.method(name)?;
        let run = |values: &ArrayRef| {
            let outputs = Outputs::of(values, |input| self.call(function, input))?;
            outputs.into_array(values.data_type(), name)
        };
        Ok(match value {
            ColumnarValue::Array(values) => ColumnarValue::Array(run(values)?),
            ColumnarValue::Scalar(value) => {
                let output = run(&value.to_array_of_size(1)?)?;
                ColumnarValue::Scalar(ScalarValue::try_from_array(&output, 0)?)
            }
        })
    }
}

fn is_text(given: &DataType) -> bool {
    matches!(given, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

fn is_binary(given: &DataType) -> bool {
    matches!(given, DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
}

/// The outputs for a batch of values; `None` for NULL.
struct Outputs(Vec<Option<Bytes>>);

impl Outputs {
    fn of(values: &ArrayRef, call: impl Fn(&[u8]) -> Result<Bytes>) -> Result<Outputs> {
        let value = |row: usize| -> &[u8] {
            match values.data_type() {
                DataType::Utf8 => values.as_string::<i32>().value(row).as_bytes(),
                DataType::LargeUtf8 => values.as_string::<i64>().value(row).as_bytes(),
                DataType::Utf8View => values.as_string_view().value(row).as_bytes(),
                DataType::Binary => values.as_binary::<i32>().value(row),
                DataType::LargeBinary => values.as_binary::<i64>().value(row),
                _ => values.as_binary_view().value(row),
            }
        };
        let mut outputs = Vec::with_capacity(values.len());
        let mut len_bytes = 0;
        for row in 0..values.len() {
            let output = if values.is_null(row) { None } else { Some(call(value(row))?) };
            len_bytes += output.as_ref().map_or(0, Bytes::len);
            if len_bytes > OUTPUT_BYTES_MAX {
                let message = "the outputs of a method for one batch of rows are too large";
                let error = Error::new(ErrorKind::LimitExceeded, message);
                return Err(external(error.with("len_bytes_max", OUTPUT_BYTES_MAX)));
            }
            outputs.push(output);
        }
        Ok(Outputs(outputs))
    }

    fn into_array(self, data_type: &DataType, name: &str) -> Result<ArrayRef> {
        let binary = || self.0.iter().map(Option::as_deref);
        let texts = || -> Result<Vec<Option<&str>>> {
            binary().map(|output| output.map(|output| text(output, name)).transpose()).collect()
        };
        Ok(match data_type {
            DataType::Utf8 => Arc::new(StringArray::from(texts()?)),
            DataType::LargeUtf8 => Arc::new(LargeStringArray::from(texts()?)),
            DataType::Utf8View => Arc::new(StringViewArray::from(texts()?)),
            DataType::Binary => Arc::new(binary().collect::<BinaryArray>()),
            DataType::LargeBinary => Arc::new(binary().collect::<LargeBinaryArray>()),
            DataType::BinaryView => Arc::new(binary().collect::<BinaryViewArray>()),
            other => return internal_err!("wasm does not return {other}"),
        })
    }
}

fn text<'a>(output: &'a [u8], name: &str) -> Result<&'a str> {
    std::str::from_utf8(output).map_err(|_| {
        let message =
            "the output of the method is not valid UTF-8; give it a binary input to get a binary output";
        let (class, method) = name.split_once('.').unwrap_or((name, ""));
        external(Error::new(ErrorKind::ClassFailed, message).with("class", class).with("method", method))
    })
}

/// Whether the expression calls the function.
pub fn calls_wasm(expr: &Expr) -> bool {
    any_part(expr, |expr| {
        let call = expr.downcast_ref::<ScalarFunctionExpr>();
        call.is_some_and(|call| call.fun().inner().is::<WasmFunction>())
    })
}

/// Moves conditions that call the function into a filter of their own, above the other conditions. So the
/// other conditions can run beside objects, and only the rows that satisfy them cost a call.
#[derive(Debug)]
pub struct WasmFiltersLast;

impl PhysicalOptimizerRule for WasmFiltersLast {
    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> Result<Plan> {
        let split = plan.transform_up(|plan| {
            let Some(filter) = plan.downcast_ref::<FilterExec>() else { return Ok(Transformed::no(plan)) };
            let parts = split_conjunction(filter.predicate()).into_iter().cloned();
            let (calls, others): (Vec<Expr>, Vec<Expr>) = parts.partition(calls_wasm);
            if calls.is_empty() || others.is_empty() {
                return Ok(Transformed::no(plan));
            }
            let input = FilterExec::try_new(conjunction(others), Arc::clone(filter.input()))?;
            let above = FilterExecBuilder::from(filter)
                .with_input(Arc::new(input))
                .with_predicate(conjunction(calls))
                .build()?;
            Ok(Transformed::yes(Arc::new(above) as Plan))
        })?;
        Ok(split.data)
    }

    fn name(&self) -> &'static str {
        "WasmFiltersLast"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
