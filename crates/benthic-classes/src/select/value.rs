//! The values of expressions, and the conversions between their types.

use super::decimal::Decimal;
use super::failure::{Fault, fault};
use super::json::Json;
use super::query::Operator;
use super::timestamp::Timestamp;
use std::borrow::Cow;
use std::cmp::Ordering;

/// A value of an expression.
#[derive(Clone, Debug)]
pub(super) enum Value<'a> {
    /// The record has no such column.
    Missing,
    Null,
    Bool(bool),
    /// Wide enough for the integers of JSON and for sums of them.
    Int(i128),
    Decimal(Decimal),
    Float(f64),
    Text(Cow<'a, str>),
    Time(Timestamp),
    /// An array or an object.
    Nested(Cow<'a, Json>),
}

impl<'a> Value<'a> {
    pub fn of_json(json: &'a Json) -> Value<'a> {
        match json {
            Json::Null => Value::Null,
            Json::Bool(value) => Value::Bool(*value),
            Json::Int(value) => Value::Int(*value),
            Json::Decimal(value) => Value::Decimal(*value),
            Json::Float(value) => Value::Float(*value),
            Json::Text(text) => Value::Text(Cow::Borrowed(text)),
            Json::Array(_) | Json::Object(_) => Value::Nested(Cow::Borrowed(json)),
        }
    }

    pub fn is_null(&self) -> bool {
        matches!(self, Value::Missing | Value::Null)
    }

    pub fn is_nan(&self) -> bool {
        matches!(self, Value::Float(value) if value.is_nan())
    }

    /// Whether a condition holds; `None` is unknown.
    pub fn truth(&self) -> Result<Option<bool>, Fault> {
        match self {
            Value::Missing | Value::Null => Ok(None),
            Value::Bool(value) => Ok(Some(*value)),
            Value::Text(text) => parse_bool(text).map(Some).ok_or_else(|| not_a(text, "a Boolean")),
            _ => Err(fault("InvalidDataType", "a condition must be a Boolean")),
        }
    }

    /// The value as a number; text counts if it is one.
    pub fn number(&self) -> Option<Number> {
        match self {
            Value::Int(value) => Some(Number::Int(*value)),
            Value::Decimal(value) => Some(Number::Decimal(*value)),
            Value::Float(value) => Some(Number::Float(*value)),
            Value::Text(text) => parse_number(text),
            _ => None,
        }
    }

    /// The operand of arithmetic, of SUM and of AVG.
    pub fn operand(&self) -> Result<Number, Fault> {
        match (self.number(), self) {
            (Some(number), _) => Ok(number),
            (None, Value::Text(text)) => Err(not_a(text, "a number")),
            (None, _) => Err(fault("InvalidDataType", "arithmetic needs numbers")),
        }
    }

    /// The value as a timestamp; text counts if it is one.
    pub fn time(&self) -> Option<Timestamp> {
        match self {
            Value::Time(time) => Some(*time),
            Value::Text(text) => Timestamp::parse(text),
            _ => None,
        }
    }

    /// The order of two values; `None` if one is null or the types have none. A text is compared
    /// with a number, a Boolean or a timestamp as one if it is one, because all values of CSV are
    /// texts.
    pub fn compare(&self, other: &Value<'_>) -> Option<Ordering> {
        match (self, other) {
            (Value::Text(left), Value::Text(right)) => Some(left.as_bytes().cmp(right.as_bytes())),
            (Value::Bool(left), Value::Bool(right)) => Some(left.cmp(right)),
            (Value::Bool(left), Value::Text(right)) => Some(left.cmp(&parse_bool(right)?)),
            (Value::Text(left), Value::Bool(right)) => Some(parse_bool(left)?.cmp(right)),
            (Value::Time(_), _) | (_, Value::Time(_)) => Some(self.time()?.compare(&other.time()?)),
            _ => self.number()?.compare(other.number()?),
        }
    }

    /// The value as text, as in answers in CSV.
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Value::Missing | Value::Null => Cow::Borrowed(""),
            Value::Bool(true) => Cow::Borrowed("true"),
            Value::Bool(false) => Cow::Borrowed("false"),
            Value::Int(value) => Cow::Owned(value.to_string()),
            Value::Decimal(value) => Cow::Owned(value.text()),
            Value::Float(value) => Cow::Owned(float_text(*value)),
            Value::Text(text) => Cow::Borrowed(text),
            Value::Time(time) => Cow::Owned(time.text()),
            Value::Nested(json) => {
                let mut text = Vec::new();
                json.write(&mut text);
                Cow::Owned(String::from_utf8(text).unwrap_or_default())
            }
        }
    }

    pub fn into_owned(self) -> Value<'static> {
        match self {
            Value::Missing => Value::Missing,
            Value::Null => Value::Null,
            Value::Bool(value) => Value::Bool(value),
            Value::Int(value) => Value::Int(value),
            Value::Decimal(value) => Value::Decimal(value),
            Value::Float(value) => Value::Float(value),
            Value::Text(text) => Value::Text(Cow::Owned(text.into_owned())),
            Value::Time(time) => Value::Time(time),
            nested @ Value::Nested(_) => Value::Text(Cow::Owned(nested.text().into_owned())),
        }
    }
}

/// A number.
#[derive(Clone, Copy, Debug)]
pub(super) enum Number {
    Int(i128),
    Decimal(Decimal),
    Float(f64),
}

impl Number {
    pub fn float(self) -> f64 {
        match self {
            Number::Int(value) => value as f64,
            Number::Decimal(value) => value.float(),
            Number::Float(value) => value,
        }
    }

    /// The number with exact digits; `None` for a binary one, and for an integer of 39 digits.
    fn decimal(self) -> Option<Decimal> {
        match self {
            Number::Int(value) => Decimal::new(value, 0),
            Number::Decimal(value) => Some(value),
            Number::Float(_) => None,
        }
    }

    /// The number with exact digits, also if it is a binary one: its shortest text has them. `None`
    /// if it has more than 38 digits.
    pub fn to_decimal(self) -> Option<Decimal> {
        match self {
            Number::Float(value) => Decimal::parse(&float_text(value)),
            exact => exact.decimal(),
        }
    }

    pub fn value(self) -> Value<'static> {
        match self {
            Number::Int(value) => Value::Int(value),
            Number::Decimal(value) => Value::Decimal(value),
            Number::Float(value) => Value::Float(value),
        }
    }

    pub fn compare(self, other: Number) -> Option<Ordering> {
        if let (Number::Int(left), Number::Int(right)) = (self, other) {
            return Some(left.cmp(&right));
        }
        match (self.decimal(), other.decimal()) {
            (Some(left), Some(right)) => Some(left.compare(right)),
            _ => self.float().partial_cmp(&other.float()),
        }
    }

    pub fn apply(self, operator: Operator, other: Number) -> Result<Number, Fault> {
        let too_large = || fault("IntegerOverflow", "the result of an operation is too large");
        if matches!(operator, Operator::Divide | Operator::Remainder) && other.float() == 0.0 {
            return Err(fault("EvaluatorInvalidArguments", "division by zero"));
        }
        if let (Number::Int(left), Number::Int(right)) = (self, other) {
            let result = match operator {
                Operator::Add => left.checked_add(right),
                Operator::Subtract => left.checked_sub(right),
                Operator::Multiply => left.checked_mul(right),
                Operator::Divide => left.checked_div(right),
                Operator::Remainder => left.checked_rem(right),
            };
            return result.map(Number::Int).ok_or_else(too_large);
        }
        if let (Some(left), Some(right)) = (self.decimal(), other.decimal()) {
            return left.apply(operator, right).map(Number::Decimal).ok_or_else(too_large);
        }
        let (left, right) = (self.float(), other.float());
        let result = match operator {
            Operator::Add => left + right,
            Operator::Subtract => left - right,
            Operator::Multiply => left * right,
            Operator::Divide => left / right,
            Operator::Remainder => left % right,
        };
        if result.is_finite() || !left.is_finite() || !right.is_finite() {
            return Ok(Number::Float(result));
        }
        Err(too_large())
    }

    /// The average of `count` numbers with this sum.
    pub fn average(self, count: u64) -> Result<Number, Fault> {
        let sum = match self {
            Number::Int(sum) => Decimal::new(sum, 0).map_or(self, Number::Decimal),
            _ => self,
        };
        sum.apply(Operator::Divide, Number::Int(count.into()))
    }
}

/// An integer, a decimal number, or with an exponent a binary one; not the other texts that Rust
/// reads as one, such as `inf`. Numbers of more than 38 digits are binary ones.
pub(super) fn parse_number(text: &str) -> Option<Number> {
    let text = text.trim();
    let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
    if text.len() > 400 || !text.as_bytes().iter().all(is_part) {
        return None;
    }
    if let Ok(value) = text.parse() {
        return Some(Number::Int(value));
    }
    if !text.contains(['e', 'E'])
        && let Some(value) = Decimal::parse(text)
    {
        return Some(Number::Decimal(value));
    }
    text.parse().ok().filter(|value: &f64| value.is_finite()).map(Number::Float)
}

pub(super) fn parse_bool(text: &str) -> Option<bool> {
    let text = text.trim();
    match () {
        () if text.eq_ignore_ascii_case("true") => Some(true),
        () if text.eq_ignore_ascii_case("false") => Some(false),
        () => None,
    }
}

/// The shortest text that reads as this number, or `NaN`, `inf` or `-inf`.
pub(super) fn float_text(value: f64) -> String {
    if !value.is_finite() {
        return value.to_string();
    }
    serde_json::to_string(&value).unwrap_or_default()
}

/// The start of a text, for messages.
pub(super) fn excerpt(text: &str) -> String {
    text.chars().take(40).flat_map(char::escape_default).collect()
}

pub(super) fn not_a(text: &str, what: &str) -> Fault {
    fault("CastFailed", format!("'{}' is not {what}", excerpt(text)))
}
