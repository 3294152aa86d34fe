//! `approx_percentile_cont` whose input needs no order.
//!
//! With `WITHIN GROUP (ORDER BY x)`, DataFusion 55.2 sorts all rows before it aggregates them. The
//! t-digest sorts each batch itself, and uses only the direction of the order. So this version
//! declares that its result does not depend on the order of its input.

use arrow::datatypes::{DataType, FieldRef};
use datafusion_common::Result;
use datafusion_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion_expr::utils::AggregateOrderSensitivity;
use datafusion_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, Signature};
use datafusion_functions_aggregate::approx_percentile_cont::approx_percentile_cont_udaf;
use std::sync::Arc;

/// The aggregate `approx_percentile_cont`.
pub fn percentile() -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::from(Percentile { inner: approx_percentile_cont_udaf() }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Percentile {
    inner: Arc<AggregateUDF>,
}

impl AggregateUDFImpl for Percentile {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arg_types)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.inner.accumulator(args)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn supports_within_group_clause(&self) -> bool {
        true
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}
