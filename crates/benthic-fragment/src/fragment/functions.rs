//! The functions that may run beside objects. All are pure, and none turns small input into large
//! output.

use super::extremes::extremes;
use datafusion_expr::{AggregateUDF, ScalarUDF};
use datafusion_functions::{core, datetime, math, string, unicode};
use datafusion_functions_aggregate::{average, count, sum, variance};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

static SCALARS: LazyLock<HashMap<String, Arc<ScalarUDF>>> = LazyLock::new(|| {
    [
        core::coalesce(),
        core::nullif(),
        datetime::date_part(),
        datetime::date_trunc(),
        math::abs(),
        math::ceil(),
        math::floor(),
        math::round(),
        string::btrim(),
        string::lower(),
        string::starts_with(),
        string::upper(),
        unicode::character_length(),
        unicode::substr(),
    ]
    .into_iter()
    .map(|function| (function.name().to_owned(), function))
    .collect()
});

static AGGREGATES: LazyLock<HashMap<String, Arc<AggregateUDF>>> = LazyLock::new(|| {
    [average::avg_udaf(), count::count_udaf(), sum::sum_udaf(), variance::var_samp_udaf()]
        .into_iter()
        .chain(extremes())
        .map(|function| (function.name().to_owned(), function))
        .collect()
});

/// The scalar function with this name, if it may run beside objects.
pub fn scalar(name: &str) -> Option<Arc<ScalarUDF>> {
    SCALARS.get(name).cloned()
}

/// The aggregate function with this name, if it may run beside objects.
pub fn aggregate(name: &str) -> Option<Arc<AggregateUDF>> {
    AGGREGATES.get(name).cloned()
}
