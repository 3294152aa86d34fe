//! Functions that the administrator of a cluster blocks.

use super::functions;
use std::collections::BTreeSet;

/// Names of functions and aggregates that fragments must not call. The client calls them instead.
#[derive(Debug, Default)]
pub struct Blocked {
    names: BTreeSet<String>,
    unknown: Option<String>,
}

impl Blocked {
    /// Parses names with commas or spaces between them. A name that fragments do not have blocks all fragments: a typing
    /// error must not let a function run.
    pub fn parse(names: &str) -> Blocked {
        let names = names.split([',', ' ']).filter(|name| !name.is_empty());
        let mut blocked = Blocked::default();
        for name in names.map(str::to_lowercase) {
            match functions::full_name(&name) {
                Some(full) => drop(blocked.names.insert(full)),
                None => blocked.unknown = Some(name),
            }
        }
        blocked
    }

    /// Why a fragment that calls these functions must not run.
    pub(super) fn refusal(&self, called: &BTreeSet<String>) -> Option<String> {
        if let Some(name) = &self.unknown {
            return Some(format!(
                "the administrator blocks a function that fragments do not have; correct the name {name}"
            ));
        }
        let name = called.intersection(&self.names).next()?;
        Some(format!("the administrator blocks the function {name}"))
    }
}
