//! Derives index lookups from a filter: conditions on columns become key ranges in the most
//! selective index.

use crate::expr::Expr;
use arrow::datatypes::DataType;
use benthic_index::{Definition, Kind, Probe, RANGES_MAX, Ranges};
use benthic_table::{Snapshot, widens};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, InListExpr, IsNullExpr, LikeExpr, Literal, NotExpr,
};
use datafusion::scalar::ScalarValue;
use std::collections::HashMap;

/// The indexes of a table, and the names of their columns.
#[derive(Debug, Default)]
pub struct Indexes {
    indexes: Vec<(Definition, Vec<String>)>,
    types: HashMap<String, DataType>,
}

/// Key ranges by column name. The filter rejects all rows with other values.
type ColumnRanges = HashMap<String, Ranges>;

impl Indexes {
    pub fn of(snapshot: &Snapshot) -> Indexes {
        let mut indexes = Indexes::default();
        for index in snapshot.indexes() {
            let columns: Vec<_> =
                index.columns.iter().filter_map(|id| snapshot.schema().by_id(*id)).collect();
            for column in &columns {
                indexes.types.insert(column.name.clone(), column.data_type.clone());
            }
            let names = columns.into_iter().map(|column| column.name.clone()).collect();
            indexes.indexes.push((index.clone(), names));
        }
        indexes
    }

    /// The lookup for a filter in the most selective index, or `None` if no index helps.
    pub fn probe(&self, filter: &Expr) -> Option<Probe> {
        if self.indexes.is_empty() {
            return None;
        }
        let known = self.column_ranges(filter);
        let probe = |(index, names): &(Definition, Vec<String>)| {
            let mut columns: Vec<Ranges> = Vec::new();
            for ranges in names.iter().map_while(|name| known.get(name)) {
                columns.push(ranges.clone());
                if !ranges.are_points() {
                    break;
                }
            }
            // Use fewer columns if more would give too many ranges.
            (1..=columns.len()).rev().find_map(|len| {
                let probe = Probe::new(index, &columns[..len]).ok()?;
                // All columns but the last are points. For the last one, a closed range is better
                // than a half-open one.
                let points = columns[..len].iter().filter(|ranges| ranges.are_points()).count();
                Some(((points, len, columns[len - 1].are_closed()), probe))
            })
        };
        self.indexes.iter().filter_map(probe).max_by_key(|(bounds, _)| *bounds).map(|(_, probe)| probe)
    }

    pub fn describe(&self, probe: &Probe) -> String {
        let names = self
            .indexes
            .iter()
            .find(|(index, _)| index.number == probe.index)
            .map(|(_, names)| names.join(", "));
        format!("index=({}), index_ranges={}", names.unwrap_or_default(), probe.ranges.len())
    }

    fn column_ranges(&self, expr: &Expr) -> ColumnRanges {
        if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
            return match binary.op() {
                Operator::And => {
                    all_of(self.column_ranges(binary.left()), self.column_ranges(binary.right()))
                }
                Operator::Or => {
                    any_of(&self.column_ranges(binary.left()), &self.column_ranges(binary.right()))
                }
                op => {
                    let swapped = || self.compare(binary.right(), op.swap()?, binary.left());
                    self.compare(binary.left(), *op, binary.right()).or_else(swapped).into_iter().collect()
                }
            };
        }
        let column = self
            .in_list(expr)
            .or_else(|| self.like(expr))
            .or_else(|| self.null(expr))
            .or_else(|| self.is_true(expr));
        column.into_iter().collect()
    }

    fn compare(&self, column: &Expr, op: Operator, value: &Expr) -> Option<(String, Ranges)> {
        let (name, kind) = self.column(column)?;
        let value = literal(value).filter(|value| Kind::of(&value.data_type()) == Some(kind))?;
        let value = value.to_array().ok()?;
        let ranges = match op {
            Operator::Eq => Ranges::equal(&value),
            Operator::Lt | Operator::LtEq => Ranges::between(None, Some(&value)),
            Operator::Gt | Operator::GtEq => Ranges::between(Some(&value), None),
            _ => return None,
        };
        Some((name, ranges.ok()?))
    }

    fn in_list(&self, expr: &Expr) -> Option<(String, Ranges)> {
        let list = expr.downcast_ref::<InListExpr>().filter(|list| !list.negated())?;
        if list.list().len() > RANGES_MAX {
            return None;
        }
        let equal = |value| Some(self.compare(list.expr(), Operator::Eq, value)?.1);
        let ranges = list.list().iter().map(equal).reduce(|all, next| Some(all?.or(&next?)))?;
        Some((self.column(list.expr())?.0, ranges?))
    }

    fn like(&self, expr: &Expr) -> Option<(String, Ranges)> {
        let like =
            expr.downcast_ref::<LikeExpr>().filter(|like| !like.negated() && !like.case_insensitive())?;
        let (name, _) = self.column(like.expr()).filter(|(_, kind)| *kind == Kind::Text)?;
        let pattern = literal(like.pattern())?;
        let prefix = pattern.try_as_str()??.split(['%', '_', '\\']).next()?;
        (!prefix.is_empty()).then(|| (name, Ranges::prefix(prefix.as_bytes())))
    }

    fn null(&self, expr: &Expr) -> Option<(String, Ranges)> {
        let (name, _) = self.column(expr.downcast_ref::<IsNullExpr>()?.arg())?;
        Some((name, Ranges::null()))
    }

    /// A Boolean column as a condition, or its negation.
    fn is_true(&self, expr: &Expr) -> Option<(String, Ranges)> {
        let (column, wanted) = match expr.downcast_ref::<NotExpr>() {
            Some(not) => (not.arg(), false),
            None => (expr, true),
        };
        let (name, _) = self.column(column).filter(|(_, kind)| *kind == Kind::Bool)?;
        Some((name, Ranges::equal(&ScalarValue::from(wanted).to_array().ok()?).ok()?))
    }

    /// The column that an operand refers to, and the kind of its keys. A cast to a larger type is
    /// transparent, because it changes no value and never fails.
    fn column(&self, expr: &Expr) -> Option<(String, Kind)> {
        let cast = expr.downcast_ref::<CastExpr>();
        let column = cast.map_or(expr, CastExpr::expr).downcast_ref::<Column>()?;
        let data_type = self.types.get(column.name())?;
        let kind = Kind::of(data_type)?;
        let is_in_a_zone = |data_type: &DataType| matches!(data_type, DataType::Timestamp(_, Some(_)));
        let keeps_values = |to: &DataType| {
            let is_only_shown_otherwise =
                matches!(kind, Kind::Text | Kind::Bytes) || (is_in_a_zone(data_type) && is_in_a_zone(to));
            widens(data_type, to) || (Kind::of(to) == Some(kind) && is_only_shown_otherwise)
        };
        cast.is_none_or(|cast| keeps_values(cast.cast_type())).then(|| (column.name().to_owned(), kind))
    }
}

fn literal(expr: &Expr) -> Option<&ScalarValue> {
    expr.downcast_ref::<Literal>().map(Literal::value)
}

fn all_of(mut one: ColumnRanges, other: ColumnRanges) -> ColumnRanges {
    for (name, ranges) in other {
        let both = match one.get(&name) {
            Some(first) => first.and(&ranges),
            None => ranges,
        };
        one.insert(name, both);
    }
    one
}

fn any_of(one: &ColumnRanges, other: &ColumnRanges) -> ColumnRanges {
    let both = one.iter().filter_map(|(name, ranges)| Some((name.clone(), ranges.or(other.get(name)?))));
    both.filter(|(_, ranges)| ranges.len() <= RANGES_MAX).collect()
}
