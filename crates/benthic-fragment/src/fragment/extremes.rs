//! `min` and `max` with correct results for groups of floating-point numbers.
//!
//! DataFusion 55.2 initialises a group with the smallest or largest finite number, and replaces a
//! NaN with the next value. A group of infinities then has an extreme that is not among its values,
//! and the result of a group with a NaN depends on the order of its rows. Here the order is Arrow's
//! total order, as in aggregates without groups: NaN is greater than all numbers.

use arrow::array::ArrowPrimitiveType;
use arrow::datatypes::{ArrowNativeTypeOp, DataType, FieldRef, Float16Type, Float32Type, Float64Type};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion_expr::utils::AggregateOrderSensitivity;
use datafusion_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, GroupsAccumulator, ReversedUDAF,
    SetMonotonicity, Signature, StatisticsArgs,
};
use datafusion_functions_aggregate::min_max;
use datafusion_functions_aggregate_common::aggregate::groups_accumulator::prim_op::PrimitiveGroupsAccumulator;
use std::sync::Arc;

/// The aggregates `min` and `max`, corrected for groups of floating-point numbers.
pub fn extremes() -> [Arc<AggregateUDF>; 2] {
    let of = |inner, is_max| Arc::new(AggregateUDF::from(Extreme { inner, is_max }));
    [of(min_max::min_udaf(), false), of(min_max::max_udaf(), true)]
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Extreme {
    inner: Arc<AggregateUDF>,
    is_max: bool,
}

impl Extreme {
    fn groups<T: ArrowPrimitiveType + Send>(&self, data_type: &DataType) -> Box<dyn GroupsAccumulator> {
        let is_max = self.is_max;
        let take = move |extreme: &mut T::Native, value: T::Native| {
            let is_further = if is_max { value.is_gt(*extreme) } else { value.is_lt(*extreme) };
            if is_further {
                *extreme = value;
            }
        };
        // Every other value replaces the initial one.
        let start = if is_max { T::Native::MIN_TOTAL_ORDER } else { T::Native::MAX_TOTAL_ORDER };
        Box::new(PrimitiveGroupsAccumulator::<T, _>::new(data_type, take).with_starting_value(start))
    }
}

impl AggregateUDFImpl for Extreme {
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

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        let data_type = args.return_field.data_type();
        Ok(match data_type {
            DataType::Float16 => self.groups::<Float16Type>(data_type),
            DataType::Float32 => self.groups::<Float32Type>(data_type),
            DataType::Float64 => self.groups::<Float64Type>(data_type),
            _ => return self.inner.create_groups_accumulator(args),
        })
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.inner.create_sliding_accumulator(args)
    }

    fn is_descending(&self) -> Option<bool> {
        self.inner.is_descending()
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.order_sensitivity()
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(arg_types)
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        self.inner.inner().reverse_expr()
    }

    fn value_from_stats(&self, args: &StatisticsArgs<'_>) -> Option<ScalarValue> {
        self.inner.value_from_stats(args)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        self.inner.inner().set_monotonicity(data_type)
    }
}
