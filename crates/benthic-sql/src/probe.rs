//! Derives index lookups from a filter. Conditions on columns become key ranges in indexes of
//! values, searches for words and elements become keys in indexes of words and elements, and AND
//! and OR become intersections and unions of the rows that they find.

use crate::expr::Expr;
use crate::selectivity::{Distributions, Estimate};
use arrow::datatypes::DataType;
use benthic_fragment::text_search::search_of;
use benthic_index::{Definition, IndexKind, Kind, Probe, Probes, RANGES_MAX, Ranges};
use benthic_table::{Snapshot, widens};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::ScalarFunctionExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, InListExpr, IsNullExpr, LikeExpr, Literal, NotExpr,
};
use datafusion::physical_expr::utils::{split_conjunction, split_disjunction};
use datafusion::scalar::ScalarValue;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

/// The indexes of a table, and the names of their columns.
#[derive(Debug, Default)]
pub struct Indexes {
    indexes: Vec<(Definition, Vec<String>)>,
    types: HashMap<String, DataType>,
}

/// Key ranges by column name. The filter rejects all rows with other values.
type ColumnRanges = HashMap<String, Ranges>;

/// A part of an intersection that selects a larger share of the rows is left out.
const PART_SHARE_MAX: f64 = 0.6;

/// An index lookup, with an estimate of the rows that it selects.
#[derive(Clone, Debug)]
pub struct Lookup {
    pub probes: Probes,
    /// Absent if nothing is known about the values.
    pub estimate: Option<Estimate>,
}

impl Lookup {
    /// The intersection, without parts that select most rows if others select fewer.
    fn all(mut parts: Vec<Lookup>) -> Option<Lookup> {
        parts.sort_by(|one, other| one.order().total_cmp(&other.order()));
        let useful = parts.partition_point(|part| part.order() <= PART_SHARE_MAX);
        parts.truncate(useful.max(1));
        // A part of which nothing is known may select very few rows.
        let estimates = parts.iter().map(|part| part.estimate);
        let estimate = estimates.reduce(|all, next| Some(all?.and(next?))).flatten();
        let probes = Probes::all(parts.into_iter().map(|part| part.probes))?;
        Some(Lookup { probes, estimate })
    }

    /// The union.
    fn any(parts: Vec<Lookup>) -> Option<Lookup> {
        let estimates = parts.iter().map(|part| part.estimate);
        let estimate = estimates.reduce(|all, next| Some(all?.or(next?))).flatten();
        let probes = Probes::any(parts.into_iter().map(|part| part.probes).collect())?;
        Some(Lookup { probes, estimate })
    }

    /// The share by which parts of an intersection are ordered.
    fn order(&self) -> f64 {
        self.estimate.map_or(PART_SHARE_MAX, |estimate| estimate.share)
    }
}

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

    /// The columns of all indexes whose values have a distribution.
    pub fn columns(&self) -> impl Iterator<Item = &str> {
        let columns = self.types.iter().filter(|(_, data_type)| Kind::of(data_type).is_some());
        columns.map(|(name, _)| name.as_str())
    }

    /// The lookup for a filter, or `None` if no index helps.
    pub fn lookup(&self, filter: &Expr, known: &Distributions) -> Option<Lookup> {
        if self.indexes.is_empty() {
            return None;
        }
        let mut parts = self.value_lookups(&self.column_ranges(filter), known);
        for condition in split_conjunction(filter) {
            let several = self.word_probes(condition).or_else(|| self.element_probe(condition));
            parts.extend(several.map(|probes| Lookup { probes, estimate: None }));
            let alternatives = split_disjunction(condition);
            // The ranges above contain an OR of conditions on one column.
            if alternatives.len() > 1 && self.value_lookups(&self.column_ranges(condition), known).is_empty()
            {
                let all: Option<Vec<Lookup>> =
                    alternatives.iter().map(|part| self.lookup(part, known)).collect();
                parts.extend(all.and_then(Lookup::any));
            }
        }
        Lookup::all(parts)
    }

    /// Lookups in indexes of values, the most selective one first. An index is left out if better
    /// ones have all its columns.
    fn value_lookups(&self, known: &ColumnRanges, distributions: &Distributions) -> Vec<Lookup> {
        let probe = |(index, names): &'_ (Definition, Vec<String>)| {
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
                Some(((points, len, columns[len - 1].are_closed()), names[..len].to_vec(), probe))
            })
        };
        let of_values = self.indexes.iter().filter(|(index, _)| index.kind == IndexKind::Values);
        let mut found: Vec<_> = of_values.filter_map(probe).collect();
        found.sort_by_key(|(bounds, ..)| Reverse(*bounds));
        let mut covered = HashSet::new();
        let covers_more = |(_, names, probe): (_, Vec<String>, Probe)| {
            // As if the columns were independent.
            let estimate = |name: &String| distributions.estimate(name, known.get(name)?);
            let estimate = names.iter().map(estimate).reduce(|all, next| Some(all?.and(next?))).flatten();
            let new = names.into_iter().filter(|name| covered.insert(name.clone())).count();
            (new > 0).then(|| Lookup { probes: Probes::from(probe), estimate })
        };
        found.into_iter().filter_map(covers_more).collect()
    }

    /// Lookups in an index of words, for a call of one of the functions that search for words.
    fn word_probes(&self, condition: &Expr) -> Option<Probes> {
        let (text, query) = search_of(condition)?;
        let (name, _) = self.column(text)?;
        let is_of_column = |(index, names): &&(Definition, Vec<String>)| {
            index.kind == IndexKind::Words && names.first() == Some(&name)
        };
        let (index, _) = self.indexes.iter().find(is_of_column)?;
        Probe::words(index, &query)
    }

    /// A lookup in an index of elements, for lists that have a value.
    fn element_probe(&self, condition: &Expr) -> Option<Probes> {
        let call = condition.downcast_ref::<ScalarFunctionExpr>()?;
        let [list, value] = call.args() else { return None };
        let cast = list.downcast_ref::<CastExpr>();
        let column = cast.map_or(list, CastExpr::expr).downcast_ref::<Column>()?;
        let DataType::List(element) = self.types.get(column.name())? else { return None };
        let keeps_elements = match cast.map(CastExpr::cast_type) {
            Some(DataType::List(to)) => keeps_keys(element.data_type(), to.data_type()),
            Some(_) => false,
            None => true,
        };
        let kind = Kind::of(element.data_type());
        let value = literal(value)
            .filter(|value| !value.is_null() && kind.is_some() && Kind::of(&value.data_type()) == kind)?;
        let is_of_column = |(index, names): &&(Definition, Vec<String>)| {
            index.kind == IndexKind::Elements && names.first().is_some_and(|name| name == column.name())
        };
        let (index, _) = self.indexes.iter().find(is_of_column)?;
        let ranges = Ranges::equal(&value.to_array().ok()?).ok()?;
        let probe = Probe::new(index, &[ranges]).ok()?;
        (call.fun().name() == "array_has" && keeps_elements).then(|| probe.into())
    }

    /// The indexes that a lookup uses.
    pub fn name(&self, probes: &Probes) -> String {
        let name = |probe: &Probe| {
            let found = self.indexes.iter().find(|(index, _)| index.number == probe.index);
            let names = found.map(|(_, names)| names.join(", ")).unwrap_or_default();
            match found.is_some_and(|(index, _)| index.kind == IndexKind::Words) {
                true => format!("text({names})"),
                false => format!("({names})"),
            }
        };
        probes.describe(&name)
    }

    pub fn describe(&self, probes: &Probes) -> String {
        let ranges: usize = probes.probes().iter().map(|probe| probe.ranges.len()).sum();
        format!("index={}, index_ranges={ranges}", self.name(probes))
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
        let is_known = cast.is_none_or(|cast| keeps_keys(data_type, cast.cast_type()));
        is_known.then(|| (column.name().to_owned(), kind))
    }
}

/// Whether a cast of a column changes no key of an index.
pub fn keeps_keys(from: &DataType, to: &DataType) -> bool {
    let is_in_a_zone = |data_type: &DataType| matches!(data_type, DataType::Timestamp(_, Some(_)));
    let kind = Kind::of(from);
    let is_only_shown_otherwise =
        matches!(kind, Some(Kind::Text | Kind::Bytes)) || (is_in_a_zone(from) && is_in_a_zone(to));
    widens(from, to) || (kind.is_some() && Kind::of(to) == kind && is_only_shown_otherwise)
}

fn literal(expr: &Expr) -> Option<&ScalarValue> {
    expr.downcast_ref::<Literal>().map(Literal::value)
}

fn all_of(mut one: ColumnRanges, other: ColumnRanges) -> ColumnRanges {
    for (name, ranges) in other {
        let both = if let Some(first) = one.get(&name) { first.and(&ranges) } else { ranges };
        one.insert(name, both);
    }
    one
}

fn any_of(one: &ColumnRanges, other: &ColumnRanges) -> ColumnRanges {
    let both = one.iter().filter_map(|(name, ranges)| Some((name.clone(), ranges.or(other.get(name)?))));
    both.filter(|(_, ranges)| ranges.len() <= RANGES_MAX).collect()
}
