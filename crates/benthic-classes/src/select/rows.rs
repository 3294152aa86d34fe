//! Queries on rows with typed columns, such as those of Parquet.
//!
//! This crate has no reader of such data, because the readers are large: a library of another crate
//! implements [`Rows`], and the evaluator is the same.

use super::decimal::Decimal;
use super::eval::Row;
use super::failure::{Failure, Fault, fault};
use super::json::{Json, Take};
use super::query::{Comparison, Expr, FromStep, Items, Name, Path, Step};
use super::run::{HeaderIndex, Host, Run};
use super::timestamp::Timestamp;
use super::value::{Value, excerpt};
use super::wire::Totals;
use super::{RECORD_BYTES_MAX, Work};
use std::borrow::Cow;
use std::ops::RangeInclusive;

/// Rows with typed columns.
pub trait Rows {
    /// The names of the columns.
    fn names(&self) -> &[String];

    /// Begins to read these columns, each once. Rows may be left out if an integer in one of them
    /// is not in its range.
    ///
    /// # Errors
    /// A column that cannot be read.
    fn open(&mut self, columns: &[usize], ranges: &[IntegerRange]) -> Result<(), Fault>;

    /// Reads the next rows. Returns their number, which is 0 only at the end. Adds the bytes that
    /// it read to the totals.
    ///
    /// # Errors
    /// Damaged or too large data; the host's own errors.
    fn next(&mut self, host: &mut dyn Host, totals: &mut Totals) -> Result<usize, Fault>;

    /// The value of an opened column in one of these rows.
    ///
    /// # Errors
    /// A value that is not valid or too large.
    fn cell(&self, column: usize, row: usize) -> Result<Cell<'_>, Fault>;
}

/// A column, and the integers in it that a query can select.
pub type IntegerRange = (usize, RangeInclusive<i128>);

/// A value of a column.
#[derive(Clone, Debug)]
pub enum Cell<'a> {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    /// The first number, divided by a power of ten.
    Decimal(i128, u32),
    Text(Cow<'a, str>),
    /// Days since 1970.
    Date(i32),
    Time(CellTime),
    List(Vec<Cell<'a>>),
    /// Names and values.
    Struct(Vec<(Cow<'a, str>, Cell<'a>)>),
}

/// A point in time.
#[derive(Clone, Copy, Debug)]
pub struct CellTime {
    /// Nanoseconds since 1970.
    pub nanos: i128,
    /// Digits after the second: 0 to 9.
    pub digits: usize,
    /// The offset from UTC is 0; otherwise it is unknown.
    pub is_utc: bool,
}

impl<'a> Cell<'a> {
    fn value(self, work: &Work<'_>) -> Result<Value<'a>, Fault> {
        Ok(match self {
            Cell::Null => Value::Null,
            Cell::Bool(value) => Value::Bool(value),
            Cell::Int(value) => Value::Int(value),
            Cell::Float(value) => Value::Float(value),
            Cell::Decimal(unscaled, scale) => Value::Decimal(decimal(unscaled, scale)?),
            Cell::Text(text) => Value::Text(text),
            Cell::Date(days) => Value::Time(Timestamp::of_days(days).ok_or_else(unsupported_time)?),
            Cell::Time(time) => Value::Time(timestamp(time)?),
            nested @ (Cell::List(_) | Cell::Struct(_)) => Value::Nested(Cow::Owned(nested.json(work)?)),
        })
    }

    fn json(self, work: &Work<'_>) -> Result<Json, Fault> {
        work.tick(1)?;
        Ok(match self {
            Cell::Null => Json::Null,
            Cell::Bool(value) => Json::Bool(value),
            Cell::Int(value) => Json::Int(value),
            // JSON has no such numbers.
            Cell::Float(value) if !value.is_finite() => Json::Null,
            Cell::Float(value) => Json::Float(value),
            Cell::Decimal(unscaled, scale) => Json::Decimal(decimal(unscaled, scale)?),
            Cell::Text(text) => {
                work.tick(text.len())?;
                Json::Text(text.into_owned())
            }
            Cell::Date(_) | Cell::Time(_) => Json::Text(self.value(work)?.text().into_owned()),
            Cell::List(cells) => {
                Json::Array(cells.into_iter().map(|cell| cell.json(work)).collect::<Result<_, _>>()?)
            }
            Cell::Struct(entries) => {
                let json = |(name, cell): (Cow<'_, str>, Cell<'_>)| {
                    work.tick(name.len())?;
                    Ok((name.into_owned(), cell.json(work)?))
                };
                Json::Object(entries.into_iter().map(json).collect::<Result<_, Fault>>()?)
            }
        })
    }
}

fn decimal(unscaled: i128, scale: u32) -> Result<Decimal, Fault> {
    let message = "a decimal number has more than 38 digits";
    Decimal::new(unscaled, scale).ok_or_else(|| fault("UnsupportedParquetType", message))
}

fn unsupported_time() -> Fault {
    fault("UnsupportedParquetType", "a time is not in the years 1 to 9999")
}

fn timestamp(time: CellTime) -> Result<Timestamp, Fault> {
    Timestamp::of_unix_nanos(time.nanos, time.digits, time.is_utc).ok_or_else(unsupported_time)
}

/// One of the rows, with the columns of the query.
#[derive(Clone, Copy)]
pub(super) struct TypedRow<'a> {
    rows: &'a dyn Rows,
    at: usize,
    /// The column of each path.
    columns: &'a [usize],
    paths: &'a [Path],
}

impl<'a> TypedRow<'a> {
    pub fn column(&self, index: usize, work: &Work<'_>) -> Result<Value<'a>, Fault> {
        let value = self.rows.cell(self.columns[index], self.at)?.value(work)?;
        match (&self.paths[index][1..], value) {
            ([], value) => Ok(value),
            (path, Value::Nested(json)) => super::eval::find_in(json.into_owned(), path, work),
            _ => Ok(Value::Missing),
        }
    }

    pub fn each_field(
        &self,
        work: &Work<'_>,
        take: &mut dyn FnMut(&str, Value<'_>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        for (column, name) in self.rows.names().iter().enumerate() {
            work.tick(1 + name.len())?;
            take(name, self.rows.cell(column, self.at)?.value(work)?)?;
        }
        Ok(())
    }
}

impl Run<'_, '_> {
    pub(super) fn rows(&mut self, rows: &mut dyn Rows) -> Result<(), Fault> {
        let (query, work) = (self.query, self.work);
        if !query.from.is_empty() {
            return self.elements(rows);
        }
        let names = HeaderIndex::new(rows.names(), work)?;
        let column = |path: &Path| {
            work.tick(1)?;
            match path.first() {
                Some(Step::Key(name)) => bind(name, &names),
                _ => Err(fault("InvalidKeyPath", "a column of Parquet is a name, and maybe a path in it")),
            }
        };
        let columns = query.columns.iter().map(column).collect::<Result<Vec<usize>, Fault>>()?;
        let read = match query.items {
            Items::All => (0..rows.names().len()).collect(),
            Items::List(_) => {
                let mut read = columns.clone();
                read.sort_unstable();
                read.dedup();
                read
            }
        };
        let mut ranges = Vec::new();
        if let Some(condition) = &query.condition {
            let whole = |index: usize| (query.columns[index].len() == 1).then(|| columns[index]);
            add_ranges(condition, &whole, &mut ranges);
        }
        rows.open(&read, &ranges)?;
        loop {
            let count = self.shared.next_rows(rows)?;
            for at in 0..count {
                let row = TypedRow { rows, at, columns: &columns, paths: &query.columns };
                if !self.row(&Row::Typed(row))? {
                    return Ok(());
                }
            }
            if count == 0 {
                return Ok(());
            }
        }
    }

    /// Makes a record of each element at the end of the query's path, in each row.
    fn elements(&mut self, rows: &mut dyn Rows) -> Result<(), Fault> {
        let (query, work) = (self.query, self.work);
        let names = HeaderIndex::new(rows.names(), work)?;
        let Some(FromStep::Key(name)) = query.from.first() else {
            let message = "a path in rows of Parquet begins with a column, such as S3Object[*].tags[*]";
            return Err(fault("InvalidDataSource", message));
        };
        let column = bind(name, &names)?;
        rows.open(&[column], &[])?;
        loop {
            let count = self.shared.next_rows(rows)?;
            for at in 0..count {
                let value = rows.cell(column, at)?.json(work)?;
                if !self.walk(&value, &query.from[1..])? {
                    return Ok(());
                }
            }
            if count == 0 {
                return Ok(());
            }
        }
    }

    /// Takes the records at the end of a path. Returns whether the query needs more.
    fn walk(&mut self, value: &Json, steps: &[FromStep]) -> Result<bool, Fault> {
        let Some((step, rest)) = steps.split_first() else { return self.take(Some(value)) };
        let mut found = false;
        match (step, value) {
            (FromStep::Each, Json::Array(values)) => {
                for value in values {
                    if !self.walk(value, rest)? {
                        return Ok(false);
                    }
                }
                return Ok(true);
            }
            (FromStep::Index(index), Json::Array(values)) => {
                if let Some(value) = values.get(*index) {
                    return self.walk(value, rest);
                }
            }
            (FromStep::Key(name), Json::Object(entries)) => {
                self.work.tick(entries.len())?;
                for (_, value) in entries.iter().filter(|(key, _)| name.matches(key)) {
                    found = true;
                    if !self.walk(value, rest)? {
                        return Ok(false);
                    }
                }
            }
            _ => {}
        }
        if found { Ok(true) } else { self.take(None) }
    }
}

/// The ranges outside of which a condition does not hold.
fn add_ranges(condition: &Expr, whole: &dyn Fn(usize) -> Option<usize>, ranges: &mut Vec<IntegerRange>) {
    let (column, range) = match condition {
        Expr::And(parts) => return parts.iter().for_each(|part| add_ranges(part, whole, ranges)),
        Expr::Compare(comparison, operands) => {
            let (Expr::Column(index), Expr::Literal(Value::Int(value))) = &**operands else { return };
            let range = match comparison {
                Comparison::Equal => *value..=*value,
                Comparison::Less | Comparison::LessOrEqual => i128::MIN..=*value,
                Comparison::Greater | Comparison::GreaterOrEqual => *value..=i128::MAX,
                Comparison::NotEqual => return,
            };
            (whole(*index), range)
        }
        Expr::Between(operands) => match &**operands {
            (Expr::Column(index), Expr::Literal(Value::Int(low)), Expr::Literal(Value::Int(high))) => {
                (whole(*index), *low..=*high)
            }
            _ => return,
        },
        _ => return,
    };
    ranges.extend(column.map(|column| (column, range)));
}

fn bind(name: &Name, names: &HeaderIndex<'_>) -> Result<usize, Fault> {
    match names.find(name) {
        Some(Some(index)) => Ok(index),
        Some(None) => Err(fault(
            "AmbiguousFieldName",
            format!("several columns have the name '{}'", excerpt(&name.text)),
        )),
        None => Err(fault("MissingHeaders", format!("the data have no column '{}'", excerpt(&name.text)))),
    }
}

/// Checks the size of a value: of its text, or of all texts in it.
///
/// # Errors
/// `OverMaxRecordSize` if values of this size are too large.
pub fn check_cell(len_bytes: usize) -> Result<(), Fault> {
    if len_bytes <= RECORD_BYTES_MAX {
        return Ok(());
    }
    Err(Fault::Query(Failure::new("OverMaxRecordSize", "a value is longer than 1 MiB")))
}
