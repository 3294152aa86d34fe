//! Functions that the administrator of a cluster blocks.

use super::functions;
use std::collections::BTreeSet;

/// Names of functions and aggregates that fragments must not call. The client calls them instead.
#[derive(Debug, Default)]
pub struct Blocked {
    names: BTreeSet<String>,
    unknown: BTreeSet<String>,
}

impl Blocked {
    /// Parses names with commas or white space between them. A name that fragments do not have
    /// blocks all fragments: a typing error must not let a function run.
    pub fn parse(names: &str) -> Blocked {
        let names = names.split(|c: char| c == ',' || c.is_whitespace()).filter(|name| !name.is_empty());
        let mut blocked = Blocked::default();
        for name in names.map(str::to_lowercase) {
            match functions::full_name(&name) {
                Some(full) => drop(blocked.names.insert(full)),
                None => drop(blocked.unknown.insert(name)),
            }
        }
        blocked
    }

    /// Why a fragment that calls these functions must not run.
    pub(super) fn refusal(&self, called: &BTreeSet<String>) -> Option<String> {
        if !self.unknown.is_empty() {
            let names = Vec::from_iter(self.unknown.iter().map(String::as_str)).join(", ");
            return Some(format!(
                "no fragment runs, because BENTHIC_TABLE_BLOCKED contains unknown functions; correct these names: {names}"
            ));
        }
        let name = called.intersection(&self.names).next()?;
        Some(format!("the administrator blocks the function {name}"))
    }
}
