//! Results in sections: a table for each, JSON with every round, and a page.

use crate::html::{Bar, chart, escape, page};
use crate::tables::{Conditions, Table, conditions_html, conditions_json, markdown, write};
use crate::{Outcome, median};
use serde_json::{Value, json};
use std::path::Path;

#[derive(Clone, Copy)]
pub enum Aim {
    /// No target: the row explains another row.
    None,
    /// At least this share of the reference, for rates.
    OfReference(f64),
    /// At most this share of the reference, for times and sizes.
    AtMostOfReference(f64),
    AtMost(f64),
}

/// One quantity, measured in every round.
pub struct Row {
    pub what: String,
    pub unit: &'static str,
    pub ours: Vec<f64>,
    /// Empty if there is no reference.
    pub reference: Vec<f64>,
    pub aim: Aim,
}

pub struct Section {
    pub title: &'static str,
    /// How the rows were measured, and how the two sides differ.
    pub note: String,
    pub rows: Vec<Row>,
}

pub struct Report {
    title: &'static str,
    conditions: Conditions,
    sections: Vec<(&'static str, Section)>,
}

impl Row {
    pub fn compared(
        what: impl Into<String>,
        unit: &'static str,
        ours: &[f64],
        reference: &[f64],
        aim: Aim,
    ) -> Row {
        Row { what: what.into(), unit, ours: ours.to_vec(), reference: reference.to_vec(), aim }
    }

    pub fn alone(what: impl Into<String>, unit: &'static str, ours: Vec<f64>, aim: Aim) -> Row {
        Row { what: what.into(), unit, ours, reference: Vec::new(), aim }
    }

    fn ratio(&self) -> Option<f64> {
        (!self.reference.is_empty()).then(|| median(self.ours.clone()) / median(self.reference.clone()))
    }

    /// Lowest and highest ratio of the rounds, or lowest and highest value if there is no
    /// reference.
    fn spread(&self) -> (f64, f64) {
        let ratios: Vec<f64> = match self.reference.as_slice() {
            [] => self.ours.clone(),
            reference => self.ours.iter().zip(reference).map(|(ours, reference)| ours / reference).collect(),
        };
        let lowest = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        (lowest, ratios.iter().copied().fold(f64::NEG_INFINITY, f64::max))
    }

    fn met(&self) -> Option<bool> {
        match self.aim {
            Aim::None => None,
            Aim::OfReference(wanted) => self.ratio().map(|ratio| ratio >= wanted),
            Aim::AtMostOfReference(wanted) => self.ratio().map(|ratio| ratio <= wanted),
            Aim::AtMost(wanted) => Some(median(self.ours.clone()) <= wanted),
        }
    }

    fn cells(&self) -> Vec<String> {
        let value = |values: &[f64]| format!("{} {}", number(median(values.to_vec())), self.unit);
        let (lowest, highest) = self.spread();
        let spread = match (self.ours.len(), self.reference.is_empty()) {
            (0 | 1, _) => String::new(),
            (_, true) => format!("{} to {}", number(lowest), number(highest)),
            (_, false) => format!("{lowest:.2} to {highest:.2}"),
        };
        vec![
            self.what.clone(),
            value(&self.ours),
            if self.reference.is_empty() { String::new() } else { value(&self.reference) },
            self.ratio().map_or(String::new(), |ratio| format!("{ratio:.2}")),
            spread,
            match self.aim {
                Aim::None => String::new(),
                Aim::OfReference(wanted) => format!("at least {wanted}"),
                Aim::AtMostOfReference(wanted) => format!("at most {wanted}"),
                Aim::AtMost(wanted) => format!("at most {wanted} {}", self.unit),
            },
            self.met().map_or("", |met| if met { "yes" } else { "NO" }).to_owned(),
        ]
    }

    fn to_json(&self) -> Value {
        let (kind, wanted) = match self.aim {
            Aim::None => (None, None),
            Aim::OfReference(wanted) => (Some("ratio at least"), Some(wanted)),
            Aim::AtMostOfReference(wanted) => (Some("ratio at most"), Some(wanted)),
            Aim::AtMost(wanted) => (Some("at most"), Some(wanted)),
        };
        json!({
            "what": self.what,
            "unit": self.unit,
            "ours": median(self.ours.clone()),
            "reference": (!self.reference.is_empty()).then(|| median(self.reference.clone())),
            "ratio": self.ratio(),
            "aim": kind,
            "wanted": wanted,
            "met": self.met(),
            "ours_by_round": self.ours,
            "reference_by_round": self.reference,
        })
    }
}

impl Section {
    /// Adds one round to a row. Rows keep the order in which they were first added.
    pub fn push(
        &mut self,
        what: impl Into<String>,
        unit: &'static str,
        aim: Aim,
        ours: impl IntoIterator<Item = f64>,
        reference: impl IntoIterator<Item = f64>,
    ) {
        let what = what.into();
        let at = self.rows.iter().position(|row| row.what == what).unwrap_or_else(|| {
            self.rows.push(Row::alone(what, unit, Vec::new(), aim));
            self.rows.len() - 1
        });
        self.rows[at].ours.extend(ours);
        self.rows[at].reference.extend(reference);
    }

    fn table(&self) -> Table {
        Table {
            title: self.title.to_owned(),
            note: self.note.clone(),
            heads: vec!["what", "ours", "reference", "ratio", "of the rounds", "aim", "met"],
            rows: self.rows.iter().map(Row::cells).collect(),
        }
    }

    fn bars(&self) -> Vec<Bar> {
        let bar = |row: &Row| {
            let (Some(ratio), Aim::OfReference(wanted) | Aim::AtMostOfReference(wanted)) =
                (row.ratio(), row.aim)
            else {
                return None;
            };
            Some(Bar {
                label: row.what.clone(),
                length: ratio,
                value: format!("{ratio:.2} of the reference, aim {wanted}"),
                class: if row.met() == Some(true) { "storage" } else { "client" },
            })
        };
        self.rows.iter().filter_map(bar).collect()
    }
}

impl Report {
    pub fn new(title: &'static str, mut conditions: Conditions, rounds: usize, quick: bool) -> Report {
        conditions.push(("rounds", format!("{rounds}, medians; the sides in turns")));
        if quick {
            conditions.push(("quick", "only a little of the work; these numbers are not results".to_owned()));
        }
        Report { title, conditions, sections: Vec::new() }
    }

    pub fn add(&mut self, name: &'static str, section: Section) {
        println!("{}", section.table().markdown());
        self.sections.push((name, section));
    }

    /// Writes the report as Markdown, JSON and a page into a directory.
    pub fn write(&self, out: &Path) -> Outcome {
        let tables: Vec<Table> = self.sections.iter().map(|(_, section)| section.table()).collect();
        let sections = self.sections.iter().map(|(name, section)| {
            let rows: Vec<Value> = section.rows.iter().map(Row::to_json).collect();
            json!({ "section": name, "title": section.title, "rows": rows })
        });
        let json = json!({
            "conditions": conditions_json(&self.conditions),
            "sections": sections.collect::<Vec<_>>(),
        });
        let mut body = format!("<h1>{}</h1>\n", escape(self.title));
        body.push_str(&conditions_html(&self.conditions));
        for ((_, section), table) in self.sections.iter().zip(&tables) {
            let bars = section.bars();
            if !bars.is_empty() {
                body.push_str(&format!("<h3>{}</h3>\n{}", escape(section.title), chart(&bars)));
            }
            body.push_str(&table.html());
        }
        write(out, &markdown(&self.conditions, &tables), &json, &page(self.title, &body))
    }
}

/// Formats a number with at least three significant digits, but at most three decimals.
fn number(value: f64) -> String {
    match value.abs() {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        1.0.. => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}
