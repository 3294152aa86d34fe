//! Limits on functions whose arguments say how large a value they return, such as `repeat`.
//!
//! A session's memory limit does not count the values that functions return, and an allocation that
//! fails ends the process. So such a function first estimates, from above, what it would return for
//! a batch of rows.

use crate::errors::external;
use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, IntervalMonthDayNanoType, IntervalUnit, TimeUnit};
use benthic_core::Error;
use datafusion::common::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature};
use datafusion::prelude::SessionContext;
use std::sync::Arc;

/// Maximum size of the values that a function returns for a batch of rows.
const OUTPUT_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Memory of an item of a list, and of the number that selects it.
const ITEM_BYTES: u64 = 16;
/// Maximum size of a character.
const CHAR_BYTES: u64 = 4;
const NS_PER_S: i128 = 1_000_000_000;
/// The functions.
const NAMES: [&str; 7] =
    ["array_repeat", "array_resize", "generate_series", "lpad", "range", "repeat", "rpad"];

/// Registers the functions in a context, in place of those without a limit.
///
/// # Errors
/// If the context lacks one of them.
pub fn register(context: &SessionContext) -> Result<()> {
    for name in NAMES {
        let inner = context.udf(name)?;
        context.register_udf(ScalarUDF::from(Bounded { inner }));
    }
    Ok(())
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Bounded {
    inner: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for Bounded {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arg_types)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if output_bytes(self.name(), &args)? > OUTPUT_BYTES_MAX {
            let error = Error::limit_exceeded("a function would return too large values")
                .with("function", self.name())
                .with("len_bytes_max", OUTPUT_BYTES_MAX);
            return Err(external(error));
        }
        self.inner.invoke_with_args(args)
    }
}

/// An upper bound of the size of what a function returns.
fn output_bytes(name: &str, args: &ScalarFunctionArgs) -> Result<u64> {
    // Without a column, the function computes one value for all rows.
    let is_scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
    let rows = if is_scalar { 1 } else { args.number_rows };
    if matches!(name, "generate_series" | "range") {
        return range_items(&args.args, rows).map(|items| items.saturating_mul(ITEM_BYTES));
    }
    let [values, counts, ..] = args.args.as_slice() else { return Ok(0) };
    if counts.data_type() != DataType::Int64 {
        // The function refuses it, or it is null.
        return Ok(0);
    }
    let (counts, repeated) = match counts {
        ColumnarValue::Scalar(count) => (count.to_array()?, rows as u64),
        ColumnarValue::Array(counts) => (Arc::clone(counts), 1),
    };
    let counts = || counts.as_primitive::<Int64Type>().iter().flatten().map(|count| count.max(0) as u64);
    let sum = counts().fold(0, u64::saturating_add).saturating_mul(repeated);
    if matches!(name, "lpad" | "rpad") {
        return Ok(sum.saturating_mul(CHAR_BYTES));
    }
    let copied = bytes(values, rows)?.saturating_mul(counts().max().unwrap_or(0));
    Ok(if name == "repeat" { copied } else { copied.saturating_add(sum.saturating_mul(ITEM_BYTES)) })
}

/// The size of the values of all rows.
fn bytes(values: &ColumnarValue, rows: usize) -> Result<u64> {
    let of_array = |array: &ArrayRef| -> Result<u64> {
        let bytes: usize = match array.data_type() {
            DataType::Utf8 => array.as_string::<i32>().iter().flatten().map(str::len).sum(),
            DataType::LargeUtf8 => array.as_string::<i64>().iter().flatten().map(str::len).sum(),
            DataType::Utf8View => array.as_string_view().iter().flatten().map(str::len).sum(),
            _ => array.to_data().get_slice_memory_size()?,
        };
        Ok(bytes as u64)
    };
    match values {
        ColumnarValue::Scalar(value) => {
            of_array(&value.to_array()?).map(|bytes| bytes.saturating_mul(rows as u64))
        }
        ColumnarValue::Array(array) => of_array(array),
    }
}

/// The number of items in ranges of integers, dates or timestamps.
fn range_items(args: &[ColumnarValue], rows: usize) -> Result<u64> {
    let arrays = args.iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<ArrayRef>>>()?;
    if arrays.iter().all(|array| *array.data_type() == DataType::Int64) {
        return Ok(integer_items(&arrays, rows));
    }
    let [start, stop, step] = arrays.as_slice() else { return Ok(0) };
    let DataType::Interval(IntervalUnit::MonthDayNano) = step.data_type() else { return Ok(0) };
    let seconds = |array| cast(&cast(array, &DataType::Timestamp(TimeUnit::Second, None))?, &DataType::Int64);
    let (start, stop) = (seconds(start)?, seconds(stop)?);
    let (start, stop) = (start.as_primitive::<Int64Type>(), stop.as_primitive::<Int64Type>());
    let mut items = 0_u64;
    for ((start, stop), step) in start.iter().zip(stop).zip(step.as_primitive::<IntervalMonthDayNanoType>()) {
        if let (Some(start), Some(stop), Some(step)) = (start, stop, step) {
            // The shortest month and the shortest day, which loses an hour of daylight saving.
            let hours = (i128::from(step.months) * 28 + i128::from(step.days)) * 23;
            let step_ns = hours * 3_600 * NS_PER_S + i128::from(step.nanoseconds);
            let signs = [step.months.signum().into(), step.days.signum().into(), step.nanoseconds.signum()];
            // A step such as a month minus 31 days may be zero.
            let is_mixed = signs.contains(&1) && signs.contains(&-1);
            let step_ns = if is_mixed { 1 } else { step_ns.abs().max(1) };
            let len_ns = ((i128::from(stop) - i128::from(start)).abs() + 1) * NS_PER_S;
            items = items.saturating_add(u64::try_from(len_ns / step_ns).unwrap_or(u64::MAX));
        }
    }
    Ok(items)
}

/// The number of items in ranges of integers.
fn integer_items(arrays: &[ArrayRef], rows: usize) -> u64 {
    let numbers: Vec<&Int64Array> = arrays.iter().map(|array| array.as_primitive::<Int64Type>()).collect();
    let mut items = 0_u64;
    for row in 0..rows {
        let value = |place: usize| {
            let numbers = numbers.get(place).filter(|numbers| numbers.is_valid(row));
            numbers.map(|numbers| numbers.value(row))
        };
        let (start, stop) = if arrays.len() == 1 { (Some(0), value(0)) } else { (value(0), value(1)) };
        let step = if arrays.len() < 3 { Some(1) } else { value(2) };
        if let (Some(start), Some(stop), Some(step)) = (start, stop, step) {
            let is_empty = if step > 0 { start > stop } else { start < stop };
            let steps = start.abs_diff(stop) / step.unsigned_abs().max(1);
            items = items.saturating_add(if is_empty { 0 } else { steps });
        }
    }
    items
}
