//! The results: a table a section, JSON with every round, and a page.

use crate::files::Flushes;
use bench_report::html::{Bar, chart, escape, page};
use bench_report::stats::median;
use bench_report::tables::{Conditions, Table, conditions_html, conditions_json, markdown};
use serde_json::{Value, json};

/// What is wanted of a row.
#[derive(Clone, Copy)]
pub enum Aim {
    /// Nothing: it explains another row.
    None,
    /// So much of the reference, at least.
    OfReference(f64),
    /// So much, at most.
    AtMost(f64),
}

/// One thing that was measured.
pub struct Row {
    pub what: String,
    pub unit: &'static str,
    /// Round by round.
    pub ours: Vec<f64>,
    /// Round by round; empty if there is none.
    pub reference: Vec<f64>,
    pub aim: Aim,
}

/// What belongs together.
pub struct Section {
    pub title: &'static str,
    /// How it was measured, and where the two sides differ.
    pub note: String,
    pub rows: Vec<Row>,
}

/// All sections that ran.
pub struct Report {
    conditions: Conditions,
    pub sections: Vec<(&'static str, Section)>,
}

impl Row {
    /// A row that stands against a reference, of rates.
    pub fn compared(
        what: impl Into<String>,
        unit: &'static str,
        ours: &[f64],
        reference: &[f64],
        aim: Aim,
    ) -> Row {
        Row { what: what.into(), unit, ours: ours.to_vec(), reference: reference.to_vec(), aim }
    }

    /// A row that stands for itself.
    pub fn alone(what: impl Into<String>, unit: &'static str, ours: Vec<f64>, aim: Aim) -> Row {
        Row { what: what.into(), unit, ours, reference: Vec::new(), aim }
    }

    /// Flushes of the disk, where it counts them.
    pub fn flushes(what: impl Into<String>, ours: &Flushes, reference: &Flushes) -> Option<Row> {
        let row = Row::compared(what, "", &ours.by_round(), &reference.by_round(), Aim::None);
        (!row.ours.is_empty() && !row.reference.is_empty()).then_some(row)
    }

    fn ratio(&self) -> Option<f64> {
        (!self.reference.is_empty()).then(|| median(self.ours.clone()) / median(self.reference.clone()))
    }

    /// Lowest and highest: of the rounds' ratios, or of what was measured if there is no reference.
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
                Aim::OfReference(wanted) => format!("at least {wanted:.1}"),
                Aim::AtMost(wanted) => format!("at most {wanted} {}", self.unit),
            },
            self.met().map_or("", |met| if met { "yes" } else { "NO" }).to_owned(),
        ]
    }

    fn to_json(&self) -> Value {
        let (kind, wanted) = match self.aim {
            Aim::None => (None, None),
            Aim::OfReference(wanted) => (Some("ratio at least"), Some(wanted)),
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
    pub fn table(&self) -> Table {
        Table {
            title: self.title.to_owned(),
            note: self.note.clone(),
            heads: vec!["what", "ours", "reference", "ratio", "of the rounds", "aim", "met"],
            rows: self.rows.iter().map(Row::cells).collect(),
        }
    }

    /// Bars of the ratios that something is wanted of.
    fn bars(&self) -> Vec<Bar> {
        let bar = |row: &Row| {
            let (Some(ratio), Aim::OfReference(wanted)) = (row.ratio(), row.aim) else { return None };
            Some(Bar {
                label: row.what.clone(),
                length: ratio,
                value: format!("{ratio:.2} of the reference, aim {wanted:.1}"),
                class: if ratio >= wanted { "storage" } else { "client" },
            })
        };
        self.rows.iter().filter_map(bar).collect()
    }
}

impl Report {
    pub fn new(mut conditions: Conditions, rounds: usize, quick: bool) -> Report {
        conditions.push(("rounds", format!("{rounds}, medians; the sides in turns")));
        if quick {
            conditions.push(("quick", "little of the work: these numbers are no result".to_owned()));
        }
        Report { conditions, sections: Vec::new() }
    }

    /// For people, and for docs/performance.md.
    pub fn markdown(&self) -> String {
        let tables: Vec<Table> = self.sections.iter().map(|(_, section)| section.table()).collect();
        markdown(&self.conditions, &tables)
    }

    /// For programs.
    pub fn to_json(&self) -> Value {
        let sections = self.sections.iter().map(|(name, section)| {
            let rows: Vec<Value> = section.rows.iter().map(Row::to_json).collect();
            ((*name).to_owned(), Value::Array(rows))
        });
        json!({
            "conditions": conditions_json(&self.conditions),
            "sections": Value::Object(sections.collect()),
        })
    }

    /// With charts of the ratios.
    pub fn html(&self) -> String {
        let mut body = "<h1>The embedded engine against its references</h1>\n".to_owned();
        body.push_str(&conditions_html(&self.conditions));
        for (_, section) in &self.sections {
            let bars = section.bars();
            if !bars.is_empty() {
                body.push_str(&format!("<h3>{}</h3>\n{}", escape(section.title), chart(&bars)));
            }
            body.push_str(&section.table().html());
        }
        page("Benthic, embedded", &body)
    }
}

/// With as many places as say something.
fn number(value: f64) -> String {
    match value.abs() {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        1.0.. => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}
