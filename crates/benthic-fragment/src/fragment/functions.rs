//! The functions that may run beside objects. All are pure, none turns small input into large
//! output, and the time of each grows at most in proportion to its input.

use super::extremes::extremes;
use super::stop::{Stop, unsupported};
use datafusion_expr::{AggregateUDF, ScalarUDF};
use datafusion_functions::{core, datetime, math, string, unicode};
use datafusion_functions_aggregate::{average, count, sum, variance};
use datafusion_proto_models::protobuf::PhysicalScalarUdfNode;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

/// What the arguments of a function may be.
#[derive(Clone, Copy)]
enum Arguments {
    /// Numbers. Then the result is a number, which takes at most 16 bytes a row.
    Numbers,
    /// Any values. The result may be a string, and a literal among them may be copied into every
    /// row.
    Any,
    /// One string. With a second argument, the function searches a list of characters for every
    /// character of the string.
    OneString,
}

static SCALARS: LazyLock<HashMap<String, (Arc<ScalarUDF>, Arguments)>> = LazyLock::new(|| {
    let with = |arguments| move |function: Arc<ScalarUDF>| (function, arguments);
    numeric()
        .into_iter()
        .map(with(Arguments::Numbers))
        .chain(others().into_iter().map(with(Arguments::Any)))
        .chain([string::btrim()].into_iter().map(with(Arguments::OneString)))
        .map(|(function, arguments)| (function.name().to_owned(), (function, arguments)))
        .collect()
});

/// Functions from numbers to a number. `random` is missing because it is not pure.
fn numeric() -> [Arc<ScalarUDF>; 37] {
    [
        math::abs(),
        math::acos(),
        math::acosh(),
        math::asin(),
        math::asinh(),
        math::atan(),
        math::atan2(),
        math::atanh(),
        math::cbrt(),
        math::ceil(),
        math::cos(),
        math::cosh(),
        math::cot(),
        math::degrees(),
        math::exp(),
        math::factorial(),
        math::floor(),
        math::gcd(),
        math::isnan(),
        math::iszero(),
        math::lcm(),
        math::ln(),
        math::log(),
        math::log10(),
        math::log2(),
        math::nanvl(),
        math::pi(),
        math::power(),
        math::radians(),
        math::round(),
        math::signum(),
        math::sin(),
        math::sinh(),
        math::sqrt(),
        math::tan(),
        math::tanh(),
        math::trunc(),
    ]
}

fn others() -> [Arc<ScalarUDF>; 9] {
    [
        core::coalesce(),
        core::nullif(),
        datetime::date_part(),
        datetime::date_trunc(),
        string::lower(),
        string::starts_with(),
        string::upper(),
        unicode::character_length(),
        unicode::substr(),
    ]
}

static AGGREGATES: LazyLock<HashMap<String, Arc<AggregateUDF>>> = LazyLock::new(|| {
    [average::avg_udaf(), count::count_udaf(), sum::sum_udaf(), variance::var_samp_udaf()]
        .into_iter()
        .chain(extremes())
        .map(|function| (function.name().to_owned(), function))
        .collect()
});

/// The scalar function with this name, if it may run beside objects.
pub fn scalar(name: &str) -> Option<Arc<ScalarUDF>> {
    SCALARS.get(name).map(|(function, _)| Arc::clone(function))
}

/// Checks a call of a scalar function without its arguments' own parts. Returns how many strings
/// per row the call may make.
pub(super) fn check_call(call: &PhysicalScalarUdfNode) -> Result<usize, Stop> {
    let Some((_, arguments)) = SCALARS.get(&call.name).filter(|_| call.fun_definition.is_none()) else {
        return Err(unsupported("a function does not run beside objects"));
    };
    match arguments {
        Arguments::Numbers => Ok(0),
        Arguments::Any => Ok(1),
        Arguments::OneString if call.args.len() == 1 => Ok(1),
        Arguments::OneString => {
            Err(unsupported("trimming other characters than blanks does not run beside objects"))
        }
    }
}

/// The aggregate function with this name, if it may run beside objects.
pub fn aggregate(name: &str) -> Option<Arc<AggregateUDF>> {
    AGGREGATES.get(name).cloned()
}
