//! The function `wasm('CLASS.METHOD', value)`: calls a reading method of a WebAssembly class, in
//! the client or beside the object that has the values.
//!
//! The value is the input of the method, and the output is a value of the same type. NULL returns
//! NULL without a call. Each call has a new instance of the module and no object, so the result
//! depends on the value only, and the optimizer may treat the function as immutable.

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BinaryViewArray, LargeBinaryArray, LargeStringArray, StringArray,
    StringViewArray,
};
use arrow::datatypes::{DataType, Field, FieldRef};
use benthic_core::Error;
use benthic_wasm::{Calls, Function};
use bytes::Bytes;
use datafusion_common::{DataFusionError, Result, ScalarValue, internal_err};
use datafusion_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use datafusion_physical_expr::expressions::Literal;
use datafusion_physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The name of the function.
pub const NAME: &str = "wasm";

/// The methods that a query calls, by their names `CLASS.METHOD`.
pub type Methods = BTreeMap<String, Function>;

/// Wraps one of our errors to pass it through the query engine.
pub fn external(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// The method that a call of the function names, if the expression is such a call.
pub fn call_of(expr: &Arc<dyn PhysicalExpr>) -> Option<(&str, &Function)> {
    let call = expr.downcast_ref::<ScalarFunctionExpr>()?;
    let function = call.fun().inner().downcast_ref::<WasmFunction>()?;
    let name = call.args().first()?.downcast_ref::<Literal>()?.value();
    function.method(name).ok()
}

/// The function, with the methods that the query may call.
pub struct WasmFunction {
    methods: Methods,
    calls: Calls,
    output_bytes_max: usize,
    signature: Signature,
}

impl WasmFunction {
    /// The outputs for one batch of rows have at most `output_bytes_max` bytes.
    pub fn new(methods: Methods, calls: Calls, output_bytes_max: usize) -> WasmFunction {
        let signature = Signature::user_defined(Volatility::Immutable);
        WasmFunction { methods, calls, output_bytes_max, signature }
    }

    fn method(&self, name: &ScalarValue) -> Result<(&str, &Function)> {
        let name = name.try_as_str().flatten().unwrap_or_default();
        match self.methods.get_key_value(name) {
            Some((name, function)) => Ok((name, function)),
            None => refuse("write the first argument of wasm as a text in quotes, such as 'redact.text'"),
        }
    }

    fn call(&self, function: &Function, input: &[u8]) -> Result<Bytes> {
        function.call(Bytes::copy_from_slice(input), &self.calls).map_err(external)
    }
}

fn refuse<T>(message: &str) -> Result<T> {
    Err(external(Error::invalid_argument(message)))
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
            return refuse(
                "wasm has two arguments: a method and its input, such as wasm('redact.text', body)",
            );
        };
        self.method(name.unwrap_or(&ScalarValue::Null))?;
        let given = value.data_type();
        if !is_text(given) && !is_binary(given) {
            let message = "the input of a method is text or binary; CAST(… AS VARCHAR) makes a text";
            let error = Error::invalid_argument(message);
            return Err(external(error.with("type", given)));
        }
        Ok(Arc::new(Field::new(NAME, given.clone(), true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [ColumnarValue::Scalar(name), value] = &args.args[..] else {
            return internal_err!("the first argument of wasm is not a scalar");
        };
        let (name, function) = self.method(name)?;
        let run = |values: &ArrayRef| {
            let outputs = Outputs::of(values, self.output_bytes_max, |input| self.call(function, input))?;
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
    fn of(values: &ArrayRef, len_bytes_max: usize, call: impl Fn(&[u8]) -> Result<Bytes>) -> Result<Outputs> {
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
            if len_bytes > len_bytes_max {
                let message = "the outputs of a method for one batch of rows are too large";
                let error = Error::limit_exceeded(message);
                return Err(external(error.with("len_bytes_max", len_bytes_max)));
            }
            outputs.push(output);
        }
        Ok(Outputs(outputs))
    }

    fn into_array(self, data_type: &DataType, name: &str) -> Result<ArrayRef> {
        let binary = || self.0.iter().map(Option::as_deref);
        let instead = "give it a binary input to get a binary output";
        let texts = || -> Result<Vec<Option<&str>>> {
            binary().map(|output| output.map(|output| text(output, name, instead)).transpose()).collect()
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

/// The output of a method `CLASS.METHOD` as a text.
///
/// # Errors
/// `ClassFailed` if it is not valid UTF-8; its message names the alternative.
pub fn text<'a>(output: &'a [u8], name: &str, instead: &str) -> Result<&'a str> {
    std::str::from_utf8(output).map_err(|_| {
        let message = format!("the output of the method is not valid UTF-8; {instead}");
        let (class, method) = name.split_once('.').unwrap_or((name, ""));
        external(Error::class_failed(message).with("class", class).with("method", method))
    })
}
