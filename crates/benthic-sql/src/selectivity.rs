//! Estimates the share of the rows that a condition selects, from the
//! [distributions](Distribution) of values in a table's file lists.

use crate::manifest::Facts;
use benthic_index::{Distribution, Ranges};
use benthic_table::FileEntry;
use std::collections::HashMap;
use std::sync::Arc;

/// Objects whose distributions an estimate uses. A table may have a million of them.
const OBJECTS_MAX: usize = 256;

/// The distributions of the values of columns in the objects of a scan.
#[derive(Debug, Default)]
pub struct Distributions {
    pub by_name: HashMap<String, Vec<(Distribution, u64)>>,
    pub rows: u64,
}

impl Distributions {
    /// The distributions of these columns, from the facts about objects.
    pub fn of(names: &[&str], facts: &[Arc<Facts>], entries: &[FileEntry]) -> Distributions {
        let mut found = Distributions::default();
        let step = entries.len().div_ceil(OBJECTS_MAX).max(1);
        let places = facts.iter().flat_map(|facts| (0..facts.objects()).map(move |row| (facts, row)));
        for (entry, (facts, row)) in entries.iter().zip(places).step_by(step) {
            found.rows = found.rows.saturating_add(entry.rows);
            for name in names {
                if let Some(distribution) = facts.distribution(name, row) {
                    let all = found.by_name.entry((*name).to_owned()).or_default();
                    all.push((distribution, entry.rows));
                }
            }
        }
        found
    }

    /// An estimate of the rows whose value of a column is in these ranges. Absent if the
    /// distributions of more than half of the rows are unknown: older builds did not write them.
    pub fn estimate(&self, name: &str, ranges: &Ranges) -> Option<Estimate> {
        let known = self.by_name.get(name)?;
        let known_rows = known.iter().fold(0, |sum: u64, (_, rows)| sum.saturating_add(*rows));
        if known_rows == 0 || known_rows < self.rows / 2 {
            return None;
        }
        let mean = |of: &dyn Fn(&Distribution) -> f64| {
            known.iter().map(|(found, rows)| of(found) * *rows as f64).sum::<f64>() / known_rows as f64
        };
        let share = mean(&|found| found.share(ranges));
        Some(Estimate { share, repeat: mean(&|found| found.repeat(share)) })
    }
}

/// An estimate of the rows that conditions select.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Share of all rows.
    pub share: f64,
    /// How likely the next row is selected, too: the longer the runs of rows, the faster is a scan
    /// of them.
    pub repeat: f64,
}

impl Estimate {
    /// The rows that satisfy both conditions, as if these were independent.
    #[must_use]
    pub fn and(self, other: Estimate) -> Estimate {
        Estimate { share: self.share * other.share, repeat: self.repeat * other.repeat }
    }

    /// The rows that satisfy one of the conditions.
    #[must_use]
    pub fn or(self, other: Estimate) -> Estimate {
        let sum = self.share + other.share;
        let repeat = (self.share * self.repeat + other.share * other.repeat) / sum.max(f64::MIN_POSITIVE);
        Estimate { share: sum.min(1.0), repeat }
    }
}
