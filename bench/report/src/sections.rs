//! Results in sections: a table each, JSON with every round, and a page.

use crate::html::{Bar, chart, escape, page};
use crate::stats::median;
use crate::tables::{Conditions, Table, conditions_html, conditions_json, markdown};
use serde_json::{Value, json};

/// What is wanted of a row.
#[derive(Clone, Copy)]
pub enum Aim {
    /// Nothing: it explains another row.
    None,
    /// So much of the reference, at least: of rates.
    OfReference(f64),
    /// So much of the reference, at most: of times and sizes.
    AtMostOfReference(f64),
    /// So much, at most.
    AtMost(f64),
}

/// One thing that was measured.
pub struct Row {
    /// What it is.
    pub what: String,
    /// Of all its values.
    pub unit: &'static str,
    /// Round by round.
    pub ours: Vec<f64>,
    /// Round by round; empty if there is none.
    pub reference: Vec<f64>,
    /// What is wanted.
    pub aim: Aim,
}

/// What belongs together.
pub struct Section {
    /// Its head.
    pub title: &'static str,
    /// How it was measured, and where the two sides differ.
    pub note: String,
    /// What was measured.
    pub rows: Vec<Row>,
}

/// All sections that ran.
pub struct Report {
    title: &'static str,
    conditions: Conditions,
    /// Each with its name.
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
    /// As a table.
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
    /// Without results yet.
    pub fn new(title: &'static str, mut conditions: Conditions, rounds: usize, quick: bool) -> Report {
        conditions.push(("rounds", format!("{rounds}, medians; the sides in turns")));
        if quick {
            conditions.push(("quick", "little of the work: these numbers are no result".to_owned()));
        }
        Report { title, conditions, sections: Vec::new() }
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
            json!({ "section": name, "title": section.title, "rows": rows })
        });
        json!({
            "conditions": conditions_json(&self.conditions),
            "sections": sections.collect::<Vec<_>>(),
        })
    }

    /// With charts of the ratios.
    pub fn html(&self) -> String {
        let mut body = format!("<h1>{}</h1>\n", escape(self.title));
        body.push_str(&conditions_html(&self.conditions));
        for (_, section) in &self.sections {
            let bars = section.bars();
            if !bars.is_empty() {
                body.push_str(&format!("<h3>{}</h3>\n{}", escape(section.title), chart(&bars)));
            }
            body.push_str(&section.table().html());
        }
        page(self.title, &body)
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
