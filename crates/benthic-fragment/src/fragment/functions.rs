//! The functions that may run beside objects. All are pure, none turns small input into large
//! output, and the time of each grows at most in proportion to its input.

use super::extremes::extremes;
use super::percentile::percentile;
use super::stop::{Stop, unsupported};
use crate::wasm::NAME;
use crate::{json, text_search};
use datafusion_expr::{AggregateUDF, HigherOrderUDF, ScalarUDF};
use datafusion_functions::{core, datetime, math, string, unicode};
use datafusion_functions_aggregate::{
    approx_distinct, approx_median, average, bit_and_or_xor, bool_and_or, correlation, count, covariance,
    stddev, sum, variance,
};
use datafusion_functions_nested::all_default_higher_order_functions;
use datafusion_functions_nested::array_avg::array_avg_udf;
use datafusion_functions_nested::array_has::array_has_udf;
use datafusion_functions_nested::array_sum::array_sum_udf;
use datafusion_functions_nested::cardinality::cardinality_udf;
use datafusion_functions_nested::empty::array_empty_udf;
use datafusion_functions_nested::extract::array_element_udf;
use datafusion_functions_nested::length::array_length_udf;
use datafusion_functions_nested::min_max::{array_max_udf, array_min_udf};
use datafusion_proto_models::protobuf::physical_expr_node::ExprType;
use datafusion_proto_models::protobuf::{PhysicalExprNode, PhysicalScalarUdfNode};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

/// The types that the arguments of a function may have.
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
    /// Exactly this many, one of them a list. The other one may be an element.
    OfList(usize),
    /// A struct or map, and literals.
    Path,
    /// A text, and a query that is the same for all rows. The result is a Boolean.
    Query,
    /// A text in JSON, and a path that is the same for all rows.
    JsonPath,
}

static SCALARS: LazyLock<HashMap<String, (Arc<ScalarUDF>, Arguments)>> = LazyLock::new(|| {
    let with = |arguments| move |function: Arc<ScalarUDF>| (function, arguments);
    numeric()
        .into_iter()
        .map(with(Arguments::Numbers))
        .chain(others().into_iter().map(with(Arguments::Any)))
        .chain([string::btrim()].into_iter().map(with(Arguments::OneString)))
        .chain(of_one_list().into_iter().map(with(Arguments::OfList(1))))
        .chain([array_element_udf(), array_has_udf()].into_iter().map(with(Arguments::OfList(2))))
        .chain([core::get_field()].into_iter().map(with(Arguments::Path)))
        .chain(text_search::functions().into_iter().map(with(Arguments::Query)))
        .chain(json::functions().into_iter().map(with(Arguments::JsonPath)))
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

/// `array_has_any` and `array_has_all` are missing: they compare each element with each other.
fn of_one_list() -> [Arc<ScalarUDF>; 7] {
    [
        array_avg_udf(),
        array_empty_udf(),
        array_length_udf(),
        array_max_udf(),
        array_min_udf(),
        array_sum_udf(),
        cardinality_udf(),
    ]
}

/// Functions whose last argument is a lambda, an expression that is evaluated once for each
/// element.
static HIGHER_ORDER: LazyLock<HashMap<String, Arc<HigherOrderUDF>>> = LazyLock::new(|| {
    all_default_higher_order_functions()
        .into_iter()
        .filter(|function| {
            ["array_any_match", "array_filter", "array_first", "array_transform"].contains(&function.name())
        })
        .map(|function| (function.name().to_owned(), function))
        .collect()
});

static AGGREGATES: LazyLock<HashMap<String, Arc<AggregateUDF>>> = LazyLock::new(|| {
    aggregates()
        .into_iter()
        .chain(own_aggregates())
        .map(|function| (function.name().to_owned(), function))
        .collect()
});

/// DataFusion's aggregates whose state takes a limited number of bytes a group. Distinct values,
/// medians and arrays do not. `decode.rs` limits the groups that a batch can add, because some
/// states take several KiB.
fn aggregates() -> [Arc<AggregateUDF>; 17] {
    [
        approx_distinct::approx_distinct_udaf(),
        approx_median::approx_median_udaf(),
        average::avg_udaf(),
        bit_and_or_xor::bit_and_udaf(),
        bit_and_or_xor::bit_or_udaf(),
        bit_and_or_xor::bit_xor_udaf(),
        bool_and_or::bool_and_udaf(),
        bool_and_or::bool_or_udaf(),
        correlation::corr_udaf(),
        count::count_udaf(),
        covariance::covar_pop_udaf(),
        covariance::covar_samp_udaf(),
        stddev::stddev_pop_udaf(),
        stddev::stddev_udaf(),
        sum::sum_udaf(),
        variance::var_pop_udaf(),
        variance::var_samp_udaf(),
    ]
}

/// The aggregates that differ from those of DataFusion with the same names. Clients plan with the
/// same functions.
pub fn own_aggregates() -> impl Iterator<Item = Arc<AggregateUDF>> {
    extremes().into_iter().chain([percentile()])
}

/// Maximum number of centroids of a quantile.
pub(super) const CENTROIDS_MAX: usize = 1_000;

/// Whether the aggregate keeps a t-digest for each group, which takes much memory. It has as many
/// centroids as its third argument says, or a hundred.
pub(super) fn is_quantile(name: &str) -> bool {
    ["approx_median", "approx_percentile_cont"].contains(&name)
}

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
        // The caller checks that the query is a literal.
        Arguments::Numbers | Arguments::Query => Ok(0),
        Arguments::Any => Ok(1),
        Arguments::OneString if call.args.len() == 1 => Ok(1),
        Arguments::OfList(count) if call.args.len() == *count => Ok(1),
        Arguments::OfList(_) => Err(unsupported("more arguments of a list do not run beside objects")),
        Arguments::Path => Ok(1),
        Arguments::JsonPath => {
            let path = call.args.get(1..).unwrap_or_default();
            let is_literal = |step: &PhysicalExprNode| matches!(step.expr_type, Some(ExprType::Literal(_)));
            match path.len() <= json::STEPS_MAX && path.iter().all(is_literal) {
                true => Ok(1),
                false => Err(unsupported("a path in JSON is too long, or not the same for all rows")),
            }
        }
        Arguments::OneString => {
            Err(unsupported("trimming other characters than blanks does not run beside objects"))
        }
    }
}

/// The higher-order function with this name, if it may run beside objects.
pub fn higher_order(name: &str) -> Option<Arc<HigherOrderUDF>> {
    HIGHER_ORDER.get(name).cloned()
}

/// Whether the function takes lists, structs or maps. All others would copy or cast them in ways of
/// their own.
pub fn takes_nested(name: &str) -> bool {
    let arguments = SCALARS.get(name).map(|(_, arguments)| arguments);
    matches!(arguments, Some(Arguments::OfList(_) | Arguments::Path))
}

/// The full name of the function or aggregate with this name or alias, if it may run beside
/// objects.
pub fn full_name(name: &str) -> Option<String> {
    let is = |full: &str, aliases: &[String]| full == name || aliases.iter().any(|alias| alias == name);
    let scalars = SCALARS.values().map(|(function, _)| (function.name(), function.aliases()));
    let lambdas = HIGHER_ORDER.values().map(|function| (function.name(), function.aliases()));
    let aggregates = AGGREGATES.values().map(|function| (function.name(), function.aliases()));
    let mut all = scalars.chain(lambdas).chain(aggregates).chain([(NAME, &[] as &[String])]);
    all.find(|(full, aliases)| is(full, aliases)).map(|(full, _)| full.to_owned())
}

/// The aggregate function with this name, if it may run beside objects.
pub fn aggregate(name: &str) -> Option<Arc<AggregateUDF>> {
    AGGREGATES.get(name).cloned()
}
