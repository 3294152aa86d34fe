//! Evaluates expressions on a record.

use super::csv::Record;
use super::decimal::Decimal;
use super::failure::{Fault, fault};
use super::json::{Json, record_too_long};
use super::query::{Comparison, Expr, Function, Name, Path, Side, Step, Type};
use super::rows::TypedRow;
use super::timestamp::Timestamp;
use super::value::{Number, Value, not_a, parse_bool};
use super::{RECORD_BYTES_MAX, Work};
use std::borrow::Cow;
use std::cmp::Ordering;

/// Limit on the characters that TRIM removes.
const TRIM_BYTES_MAX: usize = 1024;

/// The record of an expression.
pub(super) enum Row<'a> {
    /// A record of CSV, with the index of its field for each column of the query.
    Csv { record: &'a Record<'a>, columns: &'a [usize], names: Option<&'a [String]> },
    /// A record of JSON, with the paths of the query's columns; `None` if the path of the query
    /// ends before a record.
    Json(Option<&'a Json>, &'a [Path]),
    /// A row with types.
    Typed(TypedRow<'a>),
    /// The results of the query's aggregates.
    Aggregates(&'a [Value<'static>]),
}

impl<'a> Row<'a> {
    fn column(&self, index: usize, work: &Work<'_>) -> Result<Value<'a>, Fault> {
        match self {
            Row::Csv { record, columns, .. } => Ok(record
                .field(columns[index])
                .map_or(Value::Missing, |text| Value::Text(Cow::Borrowed(text)))),
            Row::Json(record, paths) => match record {
                Some(record) => find(record, &paths[index], work),
                None => Ok(Value::Missing),
            },
            Row::Typed(row) => row.column(index, work),
            Row::Aggregates(_) => Ok(Value::Missing),
        }
    }

    /// Passes all fields of the record with their names to `take`.
    pub fn each_field(
        &self,
        work: &Work<'_>,
        take: &mut dyn FnMut(&str, Value<'_>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        match self {
            Row::Typed(row) => row.each_field(work, take),
            Row::Csv { record, names, .. } => {
                for (index, text) in record.fields().iter().enumerate() {
                    let value = Value::Text(Cow::Borrowed(text));
                    match names.and_then(|names| names.get(index)) {
                        Some(name) => take(name, value)?,
                        None => take(&format!("_{}", index + 1), value)?,
                    }
                }
                Ok(())
            }
            Row::Json(None, _) | Row::Aggregates(_) => Ok(()),
            Row::Json(Some(Json::Object(entries)), _) => {
                entries.iter().try_for_each(|(name, value)| take(name, Value::of_json(value)))
            }
            Row::Json(Some(other), _) => take("_1", Value::of_json(other)),
        }
    }
}

/// The value at the end of a path.
fn find<'a>(record: &'a Json, path: &[Step], work: &Work<'_>) -> Result<Value<'a>, Fault> {
    let mut value = record;
    for (index, step) in path.iter().enumerate() {
        let next = match (step, value) {
            (Step::Index(index), Json::Array(values)) => values.get(*index),
            (Step::Key(name), Json::Object(entries)) => {
                key_of(entries, name, work)?.map(|index| &entries[index].1)
            }
            _ => None,
        };
        value = match next {
            Some(next) => next,
            // `_1` is the record itself.
            None if index == 0 && matches!(step, Step::Key(name) if name.text == "_1") => value,
            None => return Ok(Value::Missing),
        };
    }
    Ok(Value::of_json(value))
}

/// The value at the end of a path in a value that is made for it.
pub(super) fn find_in<'a>(mut value: Json, path: &[Step], work: &Work<'_>) -> Result<Value<'a>, Fault> {
    for step in path {
        let next = match (step, value) {
            (Step::Index(index), Json::Array(values)) => values.into_iter().nth(*index),
            (Step::Key(name), Json::Object(mut entries)) => {
                key_of(&entries, name, work)?.map(|index| entries.swap_remove(index).1)
            }
            _ => None,
        };
        let Some(next) = next else { return Ok(Value::Missing) };
        value = next;
    }
    Ok(match value {
        Json::Text(text) => Value::Text(Cow::Owned(text)),
        nested @ (Json::Array(_) | Json::Object(_)) => Value::Nested(Cow::Owned(nested)),
        plain => Value::of_json(&plain).into_owned(),
    })
}

/// The index of the key with a name.
fn key_of(entries: &[(String, Json)], name: &Name, work: &Work<'_>) -> Result<Option<usize>, Fault> {
    work.tick(entries.len())?;
    if let Some(exact) = entries.iter().position(|(key, _)| *key == name.text) {
        return Ok(Some(exact));
    }
    let mut others = (0..entries.len()).filter(|index| name.matches(&entries[*index].0));
    let other = others.next();
    if others.next().is_some() {
        let message = format!("several keys match '{}'; put it in quotes", super::value::excerpt(&name.text));
        return Err(fault("AmbiguousFieldName", message));
    }
    Ok(other)
}

/// The value of an expression. A text counts as work by its length, because the operation that
/// takes the value reads it.
pub(super) fn eval<'a>(expr: &'a Expr, row: &Row<'a>, work: &Work<'_>) -> Result<Value<'a>, Fault> {
    work.tick(1)?;
    let eval_one = |expr: &'a Expr| eval(expr, row, work);
    let value = match expr {
        Expr::Literal(value) => borrow(value),
        Expr::Column(index) => row.column(*index, work)?,
        Expr::Aggregate(index) => match row {
            Row::Aggregates(results) => borrow(&results[*index]),
            _ => Value::Missing,
        },
        Expr::Not(operand) => truth(eval_one(operand)?.truth()?.map(|value| !value)),
        Expr::Negate(operand) => {
            let value = eval_one(operand)?;
            if value.is_null() {
                Value::Null
            } else {
                Number::Int(0).apply(super::query::Operator::Subtract, value.operand()?)?.value()
            }
        }
        Expr::And(operands) => truth(all_of(operands, row, work, true)?),
        Expr::Or(operands) => truth(all_of(operands, row, work, false)?),
        Expr::Compare(comparison, operands) => {
            let (left, right) = (eval_one(&operands.0)?, eval_one(&operands.1)?);
            truth(compare(*comparison, &left, &right, work)?)
        }
        Expr::Arithmetic(operator, operands) => {
            let (left, right) = (eval_one(&operands.0)?, eval_one(&operands.1)?);
            if left.is_null() || right.is_null() {
                Value::Null
            } else {
                left.operand()?.apply(*operator, right.operand()?)?.value()
            }
        }
        Expr::Concat(parts) => {
            let mut text = String::new();
            for part in parts {
                let part = eval_one(part)?;
                if part.is_null() {
                    return Ok(Value::Null);
                }
                text.push_str(&part.text());
                work.tick(text.len())?;
                if text.len() > RECORD_BYTES_MAX {
                    return Err(record_too_long());
                }
            }
            Value::Text(Cow::Owned(text))
        }
        Expr::IsNull(operand) => Value::Bool(eval_one(operand)?.is_null()),
        Expr::IsMissing(operand) => Value::Bool(matches!(eval_one(operand)?, Value::Missing)),
        Expr::In(operand, list) => {
            let operand = eval_one(operand)?;
            let mut found = Some(false);
            for other in list {
                match compare(Comparison::Equal, &operand, &eval_one(other)?, work)? {
                    Some(true) => {
                        found = Some(true);
                        break;
                    }
                    Some(false) => {}
                    None => found = None,
                }
            }
            truth(found)
        }
        Expr::Between(operands) => {
            let value = eval_one(&operands.0)?;
            let low = compare(Comparison::GreaterOrEqual, &value, &eval_one(&operands.1)?, work)?;
            let high = compare(Comparison::LessOrEqual, &value, &eval_one(&operands.2)?, work)?;
            truth(match (low, high) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            })
        }
        Expr::Like(operands) => {
            let (text, pattern) = (eval_one(&operands.0)?, eval_one(&operands.1)?);
            let escape = operands.2.as_ref().map(eval_one).transpose()?;
            if text.is_null() || pattern.is_null() {
                return Ok(Value::Null);
            }
            let escape = escape.map(|escape| one_character(&text_of(&escape, work)?)).transpose()?;
            Value::Bool(super::like::like(&text_of(&text, work)?, &text_of(&pattern, work)?, escape, work)?)
        }
        Expr::Cast(operand, to) => cast(eval_one(operand)?, *to, work)?,
        Expr::Case(case) => {
            let operand = case.operand.as_ref().map(eval_one).transpose()?;
            for (condition, result) in &case.branches {
                let condition = eval_one(condition)?;
                let holds = match &operand {
                    Some(operand) => compare(Comparison::Equal, operand, &condition, work)?,
                    None => condition.truth()?,
                };
                if holds == Some(true) {
                    return eval_one(result);
                }
            }
            if let Some(result) = &case.otherwise { eval_one(result)? } else { Value::Null }
        }
        Expr::Call(function, arguments) => call(*function, arguments, row, work)?,
    };
    if let Value::Text(text) = &value {
        work.tick(text.len())?;
    }
    Ok(value)
}

fn borrow<'a>(value: &'a Value<'static>) -> Value<'a> {
    match value {
        Value::Text(text) => Value::Text(Cow::Borrowed(text)),
        other => other.clone(),
    }
}

fn truth(value: Option<bool>) -> Value<'static> {
    value.map_or(Value::Null, Value::Bool)
}

/// AND with `of` true, OR with false.
fn all_of(operands: &[Expr], row: &Row<'_>, work: &Work<'_>, of: bool) -> Result<Option<bool>, Fault> {
    let mut result = Some(of);
    for operand in operands {
        match eval(operand, row, work)?.truth()? {
            Some(value) if value != of => return Ok(Some(!of)),
            Some(_) => {}
            None => result = None,
        }
    }
    Ok(result)
}

fn compare(
    comparison: Comparison,
    left: &Value<'_>,
    right: &Value<'_>,
    work: &Work<'_>,
) -> Result<Option<bool>, Fault> {
    Ok(order(left, right, work)?.map(|order| match comparison {
        Comparison::Equal => order == Ordering::Equal,
        Comparison::NotEqual => order != Ordering::Equal,
        Comparison::Less => order == Ordering::Less,
        Comparison::LessOrEqual => order != Ordering::Greater,
        Comparison::Greater => order == Ordering::Greater,
        Comparison::GreaterOrEqual => order != Ordering::Less,
    }))
}

/// [`Value::compare`]. It counts work itself, because one value may be compared with many.
pub(super) fn order(left: &Value<'_>, right: &Value<'_>, work: &Work<'_>) -> Result<Option<Ordering>, Fault> {
    work.tick(match (left, right) {
        (Value::Text(left), Value::Text(right)) => left.len().min(right.len()),
        (Value::Text(text), _) | (_, Value::Text(text)) => text.len(),
        _ => 0,
    })?;
    Ok(left.compare(right))
}

/// [`Value::text`]. The text of an array or an object is made each time.
fn text_of<'v>(value: &'v Value<'_>, work: &Work<'_>) -> Result<Cow<'v, str>, Fault> {
    let text = value.text();
    if let Cow::Owned(text) = &text {
        work.tick(text.len())?;
    }
    Ok(text)
}

fn one_character(text: &str) -> Result<char, Fault> {
    let mut characters = text.chars();
    match (characters.next(), characters.next()) {
        (Some(character), None) => Ok(character),
        _ => {
            let message = "the text after ESCAPE must have one character";
            Err(fault("EvaluatorLikePatternInvalidEscapeSequence", message))
        }
    }
}

fn cast<'a>(value: Value<'a>, to: Type, work: &Work<'_>) -> Result<Value<'a>, Fault> {
    if value.is_null() {
        return Ok(value);
    }
    let failed = |what| not_a(&value.text(), what);
    match (to, &value) {
        (Type::Text, Value::Text(_)) | (Type::Bool, Value::Bool(_)) => Ok(value),
        (Type::Text, _) => Ok(Value::Text(Cow::Owned(text_of(&value, work)?.into_owned()))),
        (Type::Bool, Value::Text(text)) => {
            parse_bool(text).map(Value::Bool).ok_or_else(|| failed("a Boolean"))
        }
        (Type::Bool, _) => {
            let number = value.number().ok_or_else(|| failed("a Boolean"))?;
            Ok(Value::Bool(number.float() != 0.0))
        }
        (Type::Int, Value::Bool(value)) => Ok(Value::Int(i128::from(*value))),
        (Type::Int, _) => match value.number().ok_or_else(|| failed("an integer"))? {
            Number::Int(number) => Ok(Value::Int(number)),
            Number::Decimal(number) => Ok(Value::Int(number.truncate())),
            Number::Float(number) if number.abs() < 1e38 => Ok(Value::Int(number.trunc() as i128)),
            Number::Float(_) => Err(fault("IntegerOverflow", "a number is too large for an integer")),
        },
        (Type::Float, _) => Ok(Value::Float(value.number().ok_or_else(|| failed("a number"))?.float())),
        (Type::Timestamp, _) => Ok(Value::Time(value.time().ok_or_else(|| failed("a timestamp"))?)),
        (Type::Decimal(form), _) => {
            let number = match &value {
                // With an exponent, too.
                Value::Text(text) => Decimal::parse(text.trim()),
                _ => value.number().and_then(Number::to_decimal),
            };
            let number = match form {
                Some((precision, scale)) => number.and_then(|number| number.fit(precision, scale)),
                None => number,
            };
            Ok(Value::Decimal(number.ok_or_else(|| failed("a decimal number of this precision"))?))
        }
    }
}

fn call<'a>(
    function: Function,
    arguments: &'a [Expr],
    row: &Row<'a>,
    work: &Work<'_>,
) -> Result<Value<'a>, Fault> {
    match function {
        Function::Coalesce => {
            for argument in arguments {
                let value = eval(argument, row, work)?;
                if !value.is_null() {
                    return Ok(value);
                }
            }
            return Ok(Value::Null);
        }
        Function::NullIf => {
            let (left, right) = (eval(&arguments[0], row, work)?, eval(&arguments[1], row, work)?);
            let is_equal = compare(Comparison::Equal, &left, &right, work)? == Some(true);
            return Ok(if is_equal { Value::Null } else { left });
        }
        Function::DateAdd(_)
        | Function::DateDiff(_)
        | Function::Extract(_)
        | Function::ToString
        | Function::UtcNow => {
            return call_of_time(function, arguments, row, work);
        }
        _ => {}
    }
    let first = eval(&arguments[0], row, work)?;
    if first.is_null() {
        return Ok(Value::Null);
    }
    let text = match first {
        Value::Text(text) => text,
        other => Cow::Owned(text_of(&other, work)?.into_owned()),
    };
    Ok(match function {
        Function::Lower => changed_case(text.to_lowercase())?,
        Function::Upper => changed_case(text.to_uppercase())?,
        Function::CharLength => Value::Int(text.chars().count() as i128),
        Function::Trim(side) => {
            let characters = match arguments.get(1) {
                Some(argument) => {
                    let characters = eval(argument, row, work)?;
                    if characters.is_null() {
                        return Ok(Value::Null);
                    }
                    text_of(&characters, work)?.into_owned()
                }
                None => " ".to_owned(),
            };
            // Each character of the text is searched in these.
            if characters.len() > TRIM_BYTES_MAX {
                let message = "the characters of TRIM are longer than 1 KiB";
                return Err(fault("EvaluatorInvalidArguments", message));
            }
            let is_removed = |character: char| characters.contains(character);
            let trimmed = match side {
                Side::Both => text.trim_matches(is_removed),
                Side::Leading => text.trim_start_matches(is_removed),
                Side::Trailing => text.trim_end_matches(is_removed),
            };
            Value::Text(Cow::Owned(trimmed.to_owned()))
        }
        Function::Substring => {
            let (start, len) = (eval(&arguments[1], row, work)?, arguments.get(2));
            let len = len.map(|len| eval(len, row, work)).transpose()?;
            if start.is_null() || len.as_ref().is_some_and(Value::is_null) {
                return Ok(Value::Null);
            }
            let message = "SUBSTRING needs integers";
            let start = integer(&start, message)?;
            // As SQL has it: positions before the first character count towards the length.
            let end = match len.map(|len| integer(&len, message)).transpose()? {
                Some(len) if len < 0 => {
                    return Err(fault("EvaluatorInvalidArguments", "the length of SUBSTRING is negative"));
                }
                Some(len) => start.saturating_add(len),
                None => i128::MAX,
            };
            let first = start.max(1);
            let skip = usize::try_from(first - 1).unwrap_or(usize::MAX);
            let take = usize::try_from(end.saturating_sub(first).max(0)).unwrap_or(usize::MAX);
            Value::Text(Cow::Owned(text.chars().skip(skip).take(take).collect()))
        }
        _ => Value::Null,
    })
}

fn call_of_time<'a>(
    function: Function,
    arguments: &'a [Expr],
    row: &Row<'a>,
    work: &Work<'_>,
) -> Result<Value<'a>, Fault> {
    let mut values = Vec::new();
    for argument in arguments {
        let value = eval(argument, row, work)?;
        if value.is_null() {
            return Ok(Value::Null);
        }
        values.push(value);
    }
    let time = |value: &Value<'_>| value.time().ok_or_else(|| not_a(&value.text(), "a timestamp"));
    Ok(match (function, values.as_slice()) {
        (Function::DateAdd(part), [quantity, to]) => {
            let message = "DATE_ADD adds an integer";
            let quantity = integer(quantity, message)?;
            Value::Time(time(to)?.add(part, quantity)?)
        }
        (Function::DateDiff(part), [from, to]) => Value::Int(time(from)?.difference(part, &time(to)?)),
        (Function::Extract(part), [from]) => Value::Int(time(from)?.part(part)),
        (Function::ToString, [of, pattern]) => Value::Text(Cow::Owned(time(of)?.format(&pattern.text())?)),
        _ => Timestamp::of_unix_ms(work.unix_ms).map_or(Value::Null, Value::Time),
    })
}

/// Some letters are longer in the other case.
fn changed_case(text: String) -> Result<Value<'static>, Fault> {
    if text.len() > RECORD_BYTES_MAX {
        return Err(record_too_long());
    }
    Ok(Value::Text(Cow::Owned(text)))
}

fn integer(value: &Value<'_>, message: &str) -> Result<i128, Fault> {
    match value.operand()? {
        Number::Int(value) => Ok(value),
        Number::Decimal(value) if value.is_integer() => Ok(value.truncate()),
        Number::Float(value) if value.fract() == 0.0 && value.abs() < 1e38 => Ok(value as i128),
        Number::Decimal(_) | Number::Float(_) => Err(fault("EvaluatorInvalidArguments", message)),
    }
}
