//! Turns the state of a dynamic filter into conditions that a fragment can carry to objects.
//!
//! The filter of a join has the bounds of the build side's keys, and a list of the keys or a lookup
//! in the join's hash table. If the join has several partitions, a CASE selects the condition of a
//! row's partition by a hash. A fragment carries the bounds and short lists as they are, and a
//! [Bloom filter](MembershipFilter) of longer lists. It carries neither the hash nor the lookup. So
//! the partitions of a CASE become one condition of the values of all partitions.

use crate::columns::has_floats;
use crate::expr::{Expr, any_part};
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::{cast, max, min};
use arrow::datatypes::{DataType, Int64Type, Schema};
use benthic_fragment::membership::MembershipFilter;
use datafusion::common::{Result, ScalarValue};
use datafusion::functions::core::r#struct::StructFunc;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, Literal, lit,
};
use datafusion::physical_expr::{ScalarFunctionExpr, conjunction_opt, split_conjunction};
use std::collections::HashSet;
use std::sync::Arc;

/// Maximum number of keys for which a join gives their list. DataFusion makes an expression of
/// each.
pub const JOIN_KEYS_MAX: usize = 128 * 1024;
/// Maximum size of the keys for which a join gives their list.
pub const JOIN_KEYS_BYTES_MAX: usize = 1024 * 1024;
/// Maximum length of a list that is not replaced by a Bloom filter. An index and statistics can use
/// a list, but in a plan each value takes about eight times as many bytes as in a Bloom filter.
const LIST_MAX: usize = 150;

/// A condition that is true for all rows for which `expr` is true, and that a fragment can carry.
/// Its Bloom filters take at most `filter_bytes_max`. Returns `None` if there is no such condition.
///
/// # Errors
/// Errors of evaluating the keys.
pub fn sendable(expr: &Expr, schema: &Schema, filter_bytes_max: usize) -> Result<Option<Expr>> {
    Sender { schema, filter_bytes_left: filter_bytes_max }.condition(expr)
}

/// Whether statistics, an index or a Parquet file's own filters may use the condition.
pub fn prunes(part: &Expr) -> bool {
    !any_part(part, |expr| expr.is::<MembershipFilter>())
}

struct Sender<'a> {
    schema: &'a Schema,
    filter_bytes_left: usize,
}

impl Sender<'_> {
    fn condition(&mut self, expr: &Expr) -> Result<Option<Expr>> {
        let mut conditions = Vec::new();
        for part in split_conjunction(expr) {
            conditions.extend(self.part(part)?);
        }
        Ok(conjunction_opt(conditions))
    }

    fn part(&mut self, part: &Expr) -> Result<Option<Expr>> {
        if let Some(case) = part.downcast_ref::<CaseExpr>() {
            return self.partitions(case);
        }
        if let Some(list) = part.downcast_ref::<InListExpr>().filter(|list| !list.negated()) {
            return self.members(&[list]);
        }
        // A join that keeps nulls adds them with OR.
        if let Some(binary) = part.downcast_ref::<BinaryExpr>().filter(|binary| *binary.op() == Operator::Or)
        {
            let (Some(left), Some(right)) = (self.condition(binary.left())?, self.condition(binary.right())?)
            else {
                return Ok(None);
            };
            return Ok(Some(Arc::new(BinaryExpr::new(left, Operator::Or, right))));
        }
        Ok(is_simple(part).then(|| Arc::clone(part)))
    }

    /// One condition for all alternatives of a CASE.
    fn partitions(&mut self, case: &CaseExpr) -> Result<Option<Expr>> {
        let mut alternatives = Vec::new();
        for then in case.when_then_expr().iter().map(|(_, then)| then).chain(case.else_expr()) {
            match literal(then) {
                Some(ScalarValue::Boolean(Some(false))) => {}
                Some(_) => return Ok(None),
                None => alternatives.push(split_conjunction(then)),
            }
        }
        let lists = alternatives
            .iter()
            .map(|parts| parts.iter().find_map(|part| part.downcast_ref::<InListExpr>()))
            .collect::<Option<Vec<_>>>()
            .filter(|lists| lists.windows(2).all(|pair| pair[0].expr() == pair[1].expr()))
            .filter(|lists| lists.iter().all(|list| !list.negated()));
        let members = if let Some(lists) = lists { self.members(&lists)? } else { None };
        Ok(conjunction_opt(bounds(&alternatives).into_iter().chain(members)))
    }

    /// The condition that a key is in one of the lists, all of the same key.
    fn members(&mut self, lists: &[&InListExpr]) -> Result<Option<Expr>> {
        let Some(key) = lists.first().map(|list| list.expr()) else { return Ok(None) };
        let values = lists.iter().flat_map(|list| list.list());
        let Some(mut values) = values.map(|value| literal(value)).collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        let mut seen = HashSet::new();
        values.retain(|value| seen.insert(*value));
        let values: Vec<ScalarValue> = values.into_iter().cloned().collect();
        let columns = ScalarFunctionExpr::try_downcast_func::<StructFunc>(key.as_ref());
        // A join finds -0.0 for 0.0, but a list does not.
        if columns.is_none() && has_floats(&key.data_type(self.schema)?) {
            return Ok(None);
        }
        if columns.is_none() && values.len() <= LIST_MAX {
            if !is_simple(key) {
                return Ok(None);
            }
            let values = values.into_iter().map(lit).collect();
            return Ok(Some(Arc::new(InListExpr::try_new(Arc::clone(key), values, false, self.schema)?)));
        }
        if values.is_empty() {
            return Ok(None);
        }
        let values = ScalarValue::iter_to_array(values)?;
        let (keys, values) = match columns {
            Some(call) => (call.args().to_vec(), values.as_struct().columns().to_vec()),
            None => (vec![Arc::clone(key)], vec![values]),
        };
        if !keys.iter().all(is_simple) || has_most(&values)? {
            return Ok(None);
        }
        // Keys of some types have no filter.
        let filter = MembershipFilter::of(keys, &values, self.filter_bytes_left).ok().flatten();
        Ok(filter.map(|filter| {
            self.filter_bytes_left -= filter.len_bytes();
            Arc::new(filter) as Expr
        }))
    }
}

/// The bounds that all alternatives have, each the widest one. A bound is null if the keys of an
/// alternative are all null. Then the alternative has no rows.
fn bounds(alternatives: &[Vec<&Expr>]) -> Vec<Expr> {
    let Some(first) = alternatives.first() else { return Vec::new() };
    let widest = |part: &&Expr| {
        let (key, operator, _) = bound_of(part)?;
        let mut widest: Option<&ScalarValue> = None;
        for parts in alternatives {
            let same = parts.iter().filter_map(|part| bound_of(part));
            let mut same = same.filter(|(other, op, _)| *other == key && *op == operator);
            let (_, _, value) = same.next()?;
            if value.is_null() {
                continue;
            }
            let is_wider = match widest {
                Some(widest) => value.partial_cmp(widest)?.is_lt() == (operator == Operator::GtEq),
                None => true,
            };
            if is_wider {
                widest = Some(value);
            }
        }
        Some(Arc::new(BinaryExpr::new(Arc::clone(key), operator, lit(widest?.clone()))) as Expr)
    };
    first.iter().filter_map(widest).collect()
}

fn bound_of(part: &Expr) -> Option<(&Expr, Operator, &ScalarValue)> {
    let binary = part.downcast_ref::<BinaryExpr>()?;
    let is_bound = matches!(binary.op(), Operator::GtEq | Operator::LtEq) && is_simple(binary.left());
    is_bound.then_some((binary.left(), *binary.op(), literal(binary.right())?))
}

/// Whether the values of a column of integers are most of the integers between their bounds. Then
/// the bounds are as good as a list.
fn has_most(values: &[ArrayRef]) -> Result<bool> {
    let [column] = values else { return Ok(false) };
    if !(column.data_type().is_signed_integer() || *column.data_type() == DataType::Date32) {
        return Ok(false);
    }
    let column = cast(&cast_date(column)?, &DataType::Int64)?;
    let column = column.as_primitive::<Int64Type>();
    let (Some(least), Some(greatest)) = (min(column), max(column)) else { return Ok(false) };
    Ok((column.len() as u64) > greatest.abs_diff(least) / 2)
}

fn cast_date(column: &ArrayRef) -> Result<ArrayRef> {
    match column.data_type() {
        DataType::Date32 => Ok(cast(column, &DataType::Int32)?),
        _ => Ok(Arc::clone(column)),
    }
}

fn literal(expr: &Expr) -> Option<&ScalarValue> {
    expr.downcast_ref::<Literal>().map(Literal::value)
}

/// Whether a part of a filter can be sent and can prune. Literals are useless.
fn is_simple(part: &Expr) -> bool {
    !part.is::<Literal>()
        && !any_part(part, |expr| {
            !(expr.is::<BinaryExpr>()
                || expr.is::<Column>()
                || expr.is::<Literal>()
                || expr.is::<InListExpr>()
                || expr.is::<IsNullExpr>()
                || expr.is::<IsNotNullExpr>()
                || expr.is::<CastExpr>())
        })
}
