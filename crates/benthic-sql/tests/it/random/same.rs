//! Compares two answers.

use super::query::Query;
use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use benthic_core::{Error, ErrorKind, Result};

/// Tolerance for numbers that depend on the order of computation, both absolute and relative.
const DIFFERENCE_MAX: f64 = 1e-9;

/// An answer prepared for comparison: rows as text, sorted if the query does not order them.
pub struct Answer(Result<Vec<Vec<String>>>);

impl Answer {
    pub fn new(rows: Result<Vec<RecordBatch>>, query: &Query) -> Answer {
        let mut rows = match rows {
            Ok(batches) => batches.iter().flat_map(texts).collect::<Vec<_>>(),
            Err(error) => return Answer(Err(error)),
        };
        if !query.ordered {
            // Sort by exact columns first, because they distinguish the rows.
            rows.sort_by_cached_key(|row| {
                let (approximate, exact): (Vec<_>, Vec<_>) =
                    row.iter().enumerate().partition(|(place, _)| query.approximate.contains(place));
                [exact, approximate].concat().into_iter().map(|(_, text)| text.clone()).collect::<Vec<_>>()
            });
        }
        Answer(Ok(rows))
    }
}

fn texts(batch: &RecordBatch) -> Vec<Vec<String>> {
    let options = FormatOptions::default().with_null("NULL");
    let columns: Vec<ArrayFormatter<'_>> =
        batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap()).collect();
    (0..batch.num_rows())
        .map(|row| columns.iter().map(|column| column.value(row).to_string()).collect())
        .collect()
}

/// Describes the first difference.
pub fn differ(left: &Answer, right: &Answer, query: &Query) -> Option<String> {
    let (left, right) = match (&left.0, &right.0) {
        (Ok(left), Ok(right)) => (left, right),
        (Err(left), Err(right)) if left.kind() == right.kind() => return None,
        (Ok(_), Err(error)) | (Err(error), Ok(_)) if query.may_fail && divides_by_zero(error) => return None,
        (left, right) => return Some(format!("{} | {}", outcome(left), outcome(right))),
    };
    if left.len() != right.len() {
        let only = |these: &[Vec<String>], those: &[Vec<String>]| {
            these.iter().find(|row| !those.contains(row)).cloned()
        };
        return Some(format!(
            "{} rows | {} rows, such as {:?} | {:?}",
            left.len(),
            right.len(),
            only(left, right),
            only(right, left)
        ));
    }
    let (left, right) = left.iter().zip(right).find(|(left, right)| !rows_are_equal(left, right, query))?;
    Some(format!("{left:?} | {right:?}"))
}

fn divides_by_zero(error: &Error) -> bool {
    error.kind() == ErrorKind::InvalidArgument && error.message().contains("Divide by zero")
}

fn outcome(answer: &Result<Vec<Vec<String>>>) -> String {
    match answer {
        Ok(rows) => format!("{} rows", rows.len()),
        Err(error) => format!("{:?}: {error}", error.kind()),
    }
}

fn rows_are_equal(left: &[String], right: &[String], query: &Query) -> bool {
    let equal = |(place, (left, right)): (usize, (&String, &String))| {
        left == right || (query.approximate.contains(&place) && is_near(left, right))
    };
    left.len() == right.len() && left.iter().zip(right).enumerate().all(equal)
}

fn is_near(left: &str, right: &str) -> bool {
    let (Ok(left), Ok(right)) = (left.parse::<f64>(), right.parse::<f64>()) else { return false };
    (left - right).abs() <= DIFFERENCE_MAX * left.abs().max(right.abs()).max(1.0)
}
