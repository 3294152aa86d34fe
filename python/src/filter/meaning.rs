//! Translates Substrait expressions to expressions of the query engine with the same meaning.
//!
//! pyarrow compares floating-point numbers by IEEE 754: NaN is neither less than, greater than nor
//! equal to any number, and both zeros are equal. The query engine uses a total order: −NaN, −∞, …,
//! −0, +0, …, +∞, NaN. So a comparison with a float becomes a range with pyarrow's meaning. Ranges
//! still let the engine skip objects by their statistics.

use super::wire::{
    Expression, ExtensionDeclaration, FieldReference, IfThen, Literal, ScalarFunction, SingularOrList,
};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use datafusion::common::{Column, ScalarValue};
use datafusion::functions::expr_fn::isnan;
use datafusion::logical_expr::{Expr, Operator, binary_expr, in_list, lit};
use std::collections::HashMap;

/// Translates the expressions of one message.
pub struct Reader<'a> {
    functions: HashMap<u32, &'a str>,
    schema: &'a Schema,
}

/// Operands of a comparison of a column with a constant.
struct Comparison<'a> {
    column: &'a Field,
    operator: Operator,
    value: ScalarValue,
}

impl<'a> Reader<'a> {
    /// Creates a reader for a message that declares these functions, on rows of this schema.
    pub fn new(extensions: &'a [ExtensionDeclaration], schema: &'a Schema) -> Reader<'a> {
        let functions = extensions.iter().filter_map(|extension| extension.function.as_ref());
        let functions = functions.map(|function| {
            // The name may be followed by a colon and the argument types.
            let name = function.name.split_once(':').map_or(function.name.as_str(), |(name, _)| name);
            (function.anchor, name)
        });
        Reader { functions: functions.collect(), schema }
    }

    /// Collects the parts of a conjunction.
    pub fn conjuncts<'b>(&self, expression: &'b Expression, parts: &mut Vec<&'b Expression>) {
        match &expression.function {
            Some(function) if self.functions.get(&function.anchor) == Some(&"and") => {
                let arguments = function.arguments.iter().filter_map(|argument| argument.value.as_ref());
                arguments.for_each(|argument| self.conjuncts(argument, parts));
            }
            _ => parts.push(expression),
        }
    }

    /// The top-level column that a reference points to or into.
    pub fn column_of(&self, field: &FieldReference) -> Option<&'a Field> {
        if field.root.is_some() {
            return None;
        }
        let place = usize::try_from(field.direct.as_ref()?.field.as_ref()?.place).ok()?;
        self.schema.fields().get(place).map(AsRef::as_ref)
    }

    /// Translates an expression that is true, false or null, if its meaning in pyarrow is known.
    pub fn condition(&self, expression: &Expression) -> Option<Expr> {
        if let Some(function) = &expression.function {
            return self.function(function);
        }
        if let Some(choice) = &expression.if_then {
            return self.is_in(choice);
        }
        if let Some(list) = &expression.is_one_of {
            let (column, among) = self.among(list)?;
            // pyarrow's `is_in` gives false for null, where SQL's IN gives null.
            return Some(named(column).is_not_null().and(among));
        }
        if let Some(literal) = &expression.literal {
            return literal.boolean.map(lit);
        }
        let column = self.column(expression)?;
        (*column.data_type() == DataType::Boolean).then(|| named(column))
    }

    fn function(&self, function: &ScalarFunction) -> Option<Expr> {
        // Options change the meaning of a function.
        if !function.options.is_empty() {
            return None;
        }
        let arguments: Option<Vec<&Expression>> =
            function.arguments.iter().map(|argument| argument.value.as_ref()).collect();
        let operator = match (*self.functions.get(&function.anchor)?, arguments?.as_slice()) {
            ("and", [left, right]) => return Some(self.condition(left)?.and(self.condition(right)?)),
            ("or", [left, right]) => return Some(self.condition(left)?.or(self.condition(right)?)),
            ("not", [inner]) => return Some(!self.condition(inner)?),
            ("is_null", [inner]) => return Some(named(self.column(inner)?).is_null()),
            ("is_not_null", [inner]) => return Some(named(self.column(inner)?).is_not_null()),
            ("is_nan", [inner]) => {
                let column = self.column(inner)?;
                return is_float(column.data_type()).then(|| isnan(named(column)));
            }
            ("equal", [left, right]) => (Operator::Eq, *left, *right),
            ("not_equal", [left, right]) => (Operator::NotEq, *left, *right),
            ("gt", [left, right]) => (Operator::Gt, *left, *right),
            ("gte", [left, right]) => (Operator::GtEq, *left, *right),
            ("lt", [left, right]) => (Operator::Lt, *left, *right),
            ("lte", [left, right]) => (Operator::LtEq, *left, *right),
            _ => return None,
        };
        self.column_comparison(operator)
    }

    fn column_comparison(
        &self,
        (operator, left, right): (Operator, &Expression, &Expression),
    ) -> Option<Expr> {
        if let Some(value) = &right.literal {
            return self.comparison(left, operator, value).map(Comparison::into_expr);
        }
        if let Some(value) = &left.literal {
            return self.comparison(right, operator.swap()?, value).map(Comparison::into_expr);
        }
        let (left, right) = (self.column(left)?, self.column(right)?);
        let may_be = left.data_type() == right.data_type() && !left.data_type().is_floating();
        (may_be && !left.data_type().is_nested()).then(|| binary_expr(named(left), operator, named(right)))
    }

    fn comparison(&self, column: &Expression, operator: Operator, value: &Literal) -> Option<Comparison<'a>> {
        let column = self.column(column)?;
        Some(Comparison { column, operator, value: value_of(value, column.data_type())? })
    }

    /// Translates DuckDB's form of SQL's IN: an `is_in`, or null where the column is null.
    fn is_in(&self, choice: &IfThen) -> Option<Expr> {
        let [clause] = choice.ifs.as_slice() else { return None };
        choice.otherwise.as_ref()?.literal.as_ref()?.null.as_ref()?;
        let is_valid = clause.condition.as_ref()?.function.as_ref()?;
        let ("is_not_null", [valid]) =
            (*self.functions.get(&is_valid.anchor)?, is_valid.arguments.as_slice())
        else {
            return None;
        };
        let (column, among) = self.among(clause.then.as_ref()?.is_one_of.as_ref()?)?;
        let valid = self.column(valid.value.as_ref()?)?;
        (is_valid.options.is_empty() && valid.name() == column.name()).then_some(among)
    }

    /// A column, and the condition that it is in a list of values, null where it is null. Fails if
    /// the list holds a null, because Substrait does not define its meaning.
    fn among(&self, list: &SingularOrList) -> Option<(&'a Field, Expr)> {
        let column = self.column(list.value.as_ref()?)?;
        if column.data_type().is_floating() {
            return None;
        }
        let value = |option: &Expression| value_of(option.literal.as_ref()?, column.data_type()).map(lit);
        let values: Vec<Expr> = list.options.iter().map(value).collect::<Option<_>>()?;
        Some((column, in_list(named(column), values, false)))
    }

    /// A top-level column as a whole.
    fn column(&self, expression: &Expression) -> Option<&'a Field> {
        let field = expression.field.as_ref()?;
        let is_whole = field.direct.as_ref()?.field.as_ref()?.child.is_none();
        is_whole.then(|| self.column_of(field)).flatten()
    }
}

impl Comparison<'_> {
    fn into_expr(self) -> Expr {
        let Comparison { column, operator, value } = self;
        let name = named(column);
        match value {
            ScalarValue::Float32(Some(value)) => {
                float_comparison(&name, operator, value.into(), |bound| lit(bound as f32))
            }
            ScalarValue::Float64(Some(value)) => float_comparison(&name, operator, value, lit),
            value => binary_expr(name, operator, lit(value)),
        }
    }
}

/// Translates a comparison with a floating-point number. `bound` converts a number to a value of
/// the column's type.
fn float_comparison(column: &Expr, operator: Operator, value: f64, bound: impl Fn(f64) -> Expr) -> Expr {
    let at_least = |least: f64| column.clone().gt_eq(bound(least));
    let at_most = |most: f64| column.clone().lt_eq(bound(most));
    let above = |least: f64| column.clone().gt(bound(least));
    let below = |most: f64| column.clone().lt(bound(most));
    if value.is_nan() {
        // No number compares equal to NaN or is ordered with it: false, or null where the column is
        // null. `!=` is the negation.
        let nothing = at_least(f64::INFINITY).and(at_most(f64::NEG_INFINITY));
        return if operator == Operator::NotEq { !nothing } else { nothing };
    }
    let (least, most) = if value == 0.0 { (-0.0, 0.0) } else { (value, value) };
    match operator {
        Operator::Gt => above(most).and(at_most(f64::INFINITY)),
        Operator::GtEq => at_least(least).and(at_most(f64::INFINITY)),
        Operator::Lt => below(least).and(at_least(f64::NEG_INFINITY)),
        Operator::LtEq => at_most(most).and(at_least(f64::NEG_INFINITY)),
        Operator::NotEq => below(least).or(above(most)),
        _ => at_least(least).and(at_most(most)),
    }
}

fn named(column: &Field) -> Expr {
    Expr::from(Column::from_name(column.name()))
}

fn is_float(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Float32 | DataType::Float64)
}

/// Converts a literal to a value of the column's type, if the conversion is exact.
fn value_of(literal: &Literal, data_type: &DataType) -> Option<ScalarValue> {
    if literal.variation != 0 {
        return None;
    }
    Some(match data_type {
        DataType::Boolean => literal.boolean?.into(),
        DataType::Int8 => i8::try_from(literal.i8?).ok()?.into(),
        DataType::Int16 => i16::try_from(literal.i16?).ok()?.into(),
        DataType::Int32 => literal.i32?.into(),
        DataType::Int64 => literal.i64?.into(),
        DataType::Float32 => literal.fp32?.into(),
        DataType::Float64 => literal.fp64?.into(),
        DataType::Utf8 => literal.string.as_deref()?.into(),
        DataType::Binary => ScalarValue::Binary(Some(literal.binary.clone()?)),
        DataType::Date32 => ScalarValue::Date32(Some(literal.date?)),
        DataType::Time64(TimeUnit::Microsecond) => ScalarValue::Time64Microsecond(Some(literal.time?)),
        DataType::Timestamp(unit, zone) => {
            let us = if zone.is_some() { literal.timestamp_tz? } else { literal.timestamp? };
            match unit {
                TimeUnit::Microsecond => ScalarValue::TimestampMicrosecond(Some(us), zone.clone()),
                TimeUnit::Millisecond if us % 1_000 == 0 => {
                    ScalarValue::TimestampMillisecond(Some(us / 1_000), zone.clone())
                }
                _ => return None,
            }
        }
        DataType::Decimal128(precision, scale) => {
            let decimal = literal.decimal.as_ref()?;
            let value = i128::from_le_bytes(decimal.value.as_slice().try_into().ok()?);
            let more_digits = u32::try_from(i32::from(*scale) - decimal.scale).ok()?;
            let value = value.checked_mul(10_i128.checked_pow(more_digits)?)?;
            let fits = value.unsigned_abs() < 10_u128.checked_pow(u32::from(*precision))?;
            fits.then_some(ScalarValue::Decimal128(Some(value), *precision, *scale))?
        }
        _ => return None,
    })
}
