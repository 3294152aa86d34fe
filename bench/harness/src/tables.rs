//! Results as tables, in Markdown and HTML, and the files of a report.

use crate::Outcome;
use crate::html::{self, escape};
use serde_json::{Value, json};
use std::path::Path;

/// The conditions of a measurement: names and values.
pub type Conditions = Vec<(&'static str, String)>;

pub struct Table {
    pub title: String,
    pub note: String,
    pub heads: Vec<&'static str>,
    pub rows: Vec<Vec<String>>,
}

impl Table {
    pub fn markdown(&self) -> String {
        let mut text = format!("## {}\n\n{}\n\n", self.title, self.note);
        let rule = vec!["---:"; self.heads.len()];
        for row in [&self.heads, &rule] {
            text.push_str(&format!("| {} |\n", row.join(" | ")));
        }
        for row in &self.rows {
            text.push_str(&format!("| {} |\n", row.join(" | ")));
        }
        text
    }

    pub fn html(&self) -> String {
        let title = format!("<h2>{}</h2>\n<p>{}</p>\n", escape(&self.title), escape(&self.note));
        title + &html::table(&self.heads, self.rows.iter().cloned())
    }
}

pub fn markdown(conditions: &Conditions, tables: &[Table]) -> String {
    let mut text = String::new();
    for (name, value) in conditions {
        text.push_str(&format!("- {name}: {value}\n"));
    }
    for table in tables {
        text.push('\n');
        text.push_str(&table.markdown());
    }
    text
}

pub fn conditions_html(conditions: &Conditions) -> String {
    html::list(conditions.iter().map(|(name, value)| format!("{name}: {value}")))
}

pub fn conditions_json(conditions: &Conditions) -> Value {
    Value::Object(conditions.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect())
}

pub fn write(out: &Path, markdown: &str, json: &Value, html: &str) -> Outcome {
    for (name, content) in
        [("report.md", markdown), ("report.json", format!("{json:#}\n").as_str()), ("report.html", html)]
    {
        let path = out.join(name);
        std::fs::write(&path, content)?;
        eprintln!("written: {}", path.display());
    }
    Ok(())
}
