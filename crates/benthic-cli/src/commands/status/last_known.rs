//! The last known values of things that a poll did not see, each with its time.

use benthic_ceph::health::overview::Overview;
use benthic_ceph::health::report::Report;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

#[derive(Default)]
pub struct LastKnown(BTreeMap<String, LastSeen>);

/// A value, and the time of the last poll that saw it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LastSeen {
    unix_s: u64,
    value: Value,
}

impl LastKnown {
    /// Keeps the values of this poll, and returns the last known values of everything else.
    pub fn update(&mut self, report: &Report, overview: &Overview) -> BTreeMap<String, LastSeen> {
        let mut unseen = BTreeMap::new();
        for (name, value) in parts(report, overview) {
            if !value.is_null() {
                self.0.insert(name, LastSeen { unix_s: report.unix_s, value });
            } else if let Some(last) = self.0.get(&name) {
                unseen.insert(name, last.clone());
            }
        }
        unseen
    }
}

/// The values of a poll: the fields of `numbers`, and the values that the page shows beside them.
/// Unknown values are null.
fn parts(report: &Report, overview: &Overview) -> Map<String, Value> {
    let numbers = &report.numbers;
    let mut parts = if let Value::Object(parts) = json!(numbers) { parts } else { Map::new() };
    for field in &numbers.unknown {
        parts.insert((*field).to_owned(), Value::Null);
    }
    // An empty tree was not read: every cluster has a root.
    let places = (!overview.places.is_empty()).then_some(&overview.places);
    for (name, value) in [
        ("availability_percent", json!(report.availability_percent)),
        ("io", json!(overview.io)),
        ("recovery", json!(overview.recovery)),
        ("places", json!(places)),
        ("pools", json!(numbers.knows("pools").then_some(&overview.pools))),
    ] {
        parts.insert(name.to_owned(), value);
    }
    parts
}

#[cfg(test)]
#[path = "last_known_tests.rs"]
mod tests;
