//! Probes of several indexes: unions and intersections of the rows that they find.
//!
//! A lookup reads the directories of all indexes, decides from them which pages to read, and
//! combines the rows that the pages list. So a scan reads only rows that all conditions, or one of
//! several, may select. A part that selects too many rows is left out of an intersection, and makes
//! a union useless.

use crate::directory::{Directory, PAGES_READ_MAX, PagesOfProbe, RUNS_MAX};
use crate::lookup::{LookupResult, LookupStep, ReadEntries};
use crate::page::corrupt;
use crate::probe::{ELEMENTS, Probe};
use crate::rows::Rows;
use benthic_core::Result;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of probes in one lookup.
pub const PROBES_MAX: usize = 16;
const DEPTH_MAX: usize = 8;
/// Without an estimate, a lookup ends if it finds a larger share of the rows, in thousandths.
const LIMIT: u32 = 200;
const LIMIT_UNIT: u32 = 1_000;
/// To find the start of a run of selected rows takes a scan as long as to decode so many rows.
pub const RUN_ROWS: u64 = 40;
/// A scan of selected rows still decompresses all pages, which is one part in this many of the work
/// of a whole scan.
pub const PAGES_PART: u64 = 2;
/// So few runs always pay: opening the object takes longer.
pub const RUNS_FREE: u64 = 16;
/// A part of an intersection may find one row in this many: the other parts remove most of them.
const ROWS_PER_PART_MIN: u64 = 2;
/// The intersection of parts that probably find so few rows is good enough without further pages.
const ROWS_ENOUGH: u64 = 4;

/// The probes of a query, as a tree. The same bytes go to every object of a table.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Probes {
    #[prost(oneof = "Node", tags = "1, 2, 3")]
    node: Option<Node>,
    /// The lookup ends if it finds a larger share of an object's rows, in thousandths; 0 for the
    /// usual limit. Of the whole tree only.
    #[prost(uint32, tag = "4")]
    limit: u32,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Node {
    #[prost(message, tag = "1")]
    One(Probe),
    /// The intersection.
    #[prost(message, tag = "2")]
    All(Parts),
    /// The union.
    #[prost(message, tag = "3")]
    Any(Parts),
}

#[derive(Clone, PartialEq, prost::Message)]
struct Parts {
    #[prost(message, repeated, tag = "1")]
    parts: Vec<Probes>,
}

impl From<Probe> for Probes {
    fn from(probe: Probe) -> Probes {
        Probes { node: Some(Node::One(probe)), limit: 0 }
    }
}

impl Probes {
    /// The intersection of these parts, or of the first ones if all would be too many. `None` if
    /// there is no part.
    pub fn all(parts: impl IntoIterator<Item = Probes>) -> Option<Probes> {
        let (mut taken, mut count) = (Vec::new(), 0);
        for part in parts.into_iter().flat_map(Probes::into_all_parts) {
            count += part.probes().len();
            if count > PROBES_MAX {
                break;
            }
            taken.push(part);
        }
        Probes::of(taken, Node::All)
    }

    /// The union of these parts. `None` if there is no part, or if there are too many.
    pub fn any(parts: Vec<Probes>) -> Option<Probes> {
        let count: usize = parts.iter().map(|part| part.probes().len()).sum();
        if count > PROBES_MAX { None } else { Probes::of(parts, Node::Any) }
    }

    fn of(mut parts: Vec<Probes>, node: fn(Parts) -> Node) -> Option<Probes> {
        if parts.len() <= 1 {
            return parts.pop();
        }
        let is_too_deep = parts.iter().any(|part| part.depth() >= DEPTH_MAX);
        (!is_too_deep).then(|| Probes { node: Some(node(Parts { parts })), limit: 0 })
    }

    /// The same lookup, with another limit of the share of an object's rows.
    #[must_use]
    pub fn with_limit(self, share: f64) -> Probes {
        let limit = (share.clamp(0.0, 1.0) * f64::from(LIMIT_UNIT)) as u32;
        Probes { limit: limit.max(1), ..self }
    }

    /// Whether a scan of these rows takes less time than a scan of the whole object. A search for
    /// words spends most time on the words of the rows that it reads, so its runs do not matter.
    fn pays(&self, found: &Rows) -> bool {
        let (rows, runs) = (found.count(), found.ranges().len() as u64);
        let rest = u64::from(found.of()) - u64::from(found.of()) / PAGES_PART;
        runs <= RUNS_FREE
            || rows + RUN_ROWS * runs <= rest
            || self.probes().iter().any(|probe| !matches!(probe.tokenizer.as_str(), "" | ELEMENTS))
    }

    fn rows_max(&self, rows: u32) -> u64 {
        let limit = if self.limit == 0 { LIMIT } else { self.limit.min(LIMIT_UNIT) };
        u64::from(rows) * u64::from(limit) / u64::from(LIMIT_UNIT)
    }

    /// The parts of an intersection, or the whole.
    fn into_all_parts(self) -> Vec<Probes> {
        if let Some(Node::All(all)) = self.node { all.parts } else { vec![self] }
    }

    fn parts(&self) -> &[Probes] {
        match &self.node {
            Some(Node::All(parts) | Node::Any(parts)) => &parts.parts,
            Some(Node::One(_)) | None => &[],
        }
    }

    fn depth(&self) -> usize {
        1 + self.parts().iter().map(Probes::depth).max().unwrap_or(0)
    }

    /// All probes of the tree.
    pub fn probes(&self) -> Vec<&Probe> {
        match &self.node {
            Some(Node::One(probe)) => vec![probe],
            _ => self.parts().iter().flat_map(Probes::probes).collect(),
        }
    }

    /// Describes the tree. `name` returns the name of a probe's index.
    pub fn describe(&self, name: &dyn Fn(&Probe) -> String) -> String {
        let join = |parts: &[Probes], word: &str| {
            let nested = |part: &Probes| match part.parts() {
                [] => part.describe(name),
                _ => format!("[{}]", part.describe(name)),
            };
            let mut parts: Vec<String> = parts.iter().map(nested).collect();
            // The words of a query have the same index.
            parts.dedup();
            parts.join(word)
        };
        match &self.node {
            Some(Node::One(probe)) => name(probe),
            Some(Node::All(all)) => join(&all.parts, " and "),
            Some(Node::Any(any)) => join(&any.parts, " or "),
            None => String::new(),
        }
    }

    /// Checks probes that came over the network.
    ///
    /// # Errors
    /// The reason why the probes are invalid.
    pub fn check(&self) -> std::result::Result<(), &'static str> {
        self.check_nodes(&mut 0, 1)
    }

    fn check_nodes(&self, nodes: &mut usize, depth: usize) -> std::result::Result<(), &'static str> {
        *nodes += 1;
        if self.limit > LIMIT_UNIT {
            return Err("a limit above all rows");
        }
        if *nodes > 2 * PROBES_MAX || depth > DEPTH_MAX {
            return Err("too many probes, or too deep ones");
        }
        match &self.node {
            Some(Node::One(probe)) => probe.check(),
            Some(Node::All(of) | Node::Any(of)) if !of.parts.is_empty() => {
                of.parts.iter().try_for_each(|part| part.check_nodes(nodes, depth + 1))
            }
            _ => Err("an empty probe"),
        }
    }

    /// Takes the next step of a lookup. A lookup needs at most two reads.
    ///
    /// # Errors
    /// `Corrupt`; `Unsupported` for a format newer than this build's.
    pub fn look_up(&self, known: &ReadEntries) -> Result<LookupStep> {
        let keys: BTreeSet<Bytes> = self.probes().into_iter().map(Probe::directory_key).collect();
        let unread: Vec<Bytes> = keys.iter().filter(|key| !known.is_read(key)).cloned().collect();
        if !unread.is_empty() {
            return Ok(LookupStep::Read(unread));
        }
        let mut directories = BTreeMap::new();
        for key in keys {
            if let Some(value) = known.get(&key) {
                let directory = Directory::decode(&key, value)?;
                directories.insert(key, directory);
            }
        }
        let Some(rows) = directories.values().next().map(|directory| directory.rows) else {
            return Ok(LookupStep::Done(LookupResult::default()));
        };
        if directories.values().any(|directory| directory.rows != rows) {
            return Err(corrupt("two indexes cover different rows"));
        }
        let rows_max = self.rows_max(rows);
        let plan = self.plan(&directories, rows_max).filter(|plan| plan.rows_min <= rows_max);
        let Some(plan) = plan else { return Ok(LookupStep::Done(LookupResult::default())) };
        let unread: Vec<Bytes> = plan.pages.iter().filter(|key| !known.is_read(key)).cloned().collect();
        if !unread.is_empty() {
            return Ok(LookupStep::Read(unread));
        }
        let found = plan.find(known)?.filter(|found| found.count() <= rows_max && self.pays(found));
        Ok(LookupStep::Done(LookupResult { rows: found, pages: plan.pages.len() as u64 }))
    }

    /// Chooses the pages to read. `None` if these probes do not help.
    fn plan<'a>(&'a self, directories: &'a BTreeMap<Bytes, Directory>, rows_max: u64) -> Option<Plan<'a>> {
        match self.node.as_ref()? {
            Node::One(probe) => {
                let directory = directories.get(&probe.directory_key())?;
                if directory.columns != probe.columns || directory.tokenizer != probe.tokenizer {
                    return None;
                }
                let PagesOfProbe { numbers, rows, rows_min } = directory.pages_of(probe, rows_max)?;
                let pages = numbers.iter().map(|number| probe.page_key(*number)).collect();
                let reads = numbers.len();
                let node = PlanNode::One { probe, directory, numbers, rows_max };
                Some(Plan { node, pages, reads, rows, rows_min })
            }
            Node::All(all) => {
                let of = u64::from(directories.values().next()?.rows);
                let part_rows_max = of / ROWS_PER_PART_MIN;
                let plan = |part: &'a Probes| part.plan(directories, part_rows_max);
                let mut plans: Vec<Plan<'a>> = all.parts.iter().filter_map(plan).collect();
                plans.sort_by_key(|plan| (plan.rows, plan.reads));
                let (mut taken, mut pages, mut reads, mut rows) = (Vec::new(), BTreeSet::new(), 0, of);
                for mut plan in plans {
                    if (!taken.is_empty() && rows <= ROWS_ENOUGH) || reads + plan.reads > PAGES_READ_MAX {
                        continue;
                    }
                    // As if the conditions were independent.
                    rows = (u128::from(rows) * u128::from(plan.rows) / u128::from(of.max(1))) as u64;
                    reads += plan.reads;
                    pages.append(&mut plan.pages);
                    taken.push(plan);
                }
                let rows_min = if let [only] = &taken[..] { only.rows_min } else { 0 };
                (!taken.is_empty()).then(|| Plan { node: PlanNode::All(taken), pages, reads, rows, rows_min })
            }
            Node::Any(any) => {
                let plan = |part: &'a Probes| part.plan(directories, rows_max);
                let plans: Vec<Plan<'a>> = any.parts.iter().map(plan).collect::<Option<_>>()?;
                let pages: BTreeSet<Bytes> = plans.iter().flat_map(|plan| &plan.pages).cloned().collect();
                let reads = plans.iter().map(|plan| plan.reads).sum();
                let rows = plans.iter().map(|plan| plan.rows).fold(0, u64::saturating_add);
                let rows_min = plans.iter().map(|plan| plan.rows_min).max().unwrap_or(0);
                let plan = Plan { node: PlanNode::Any(plans), pages, reads, rows, rows_min };
                (reads <= PAGES_READ_MAX).then_some(plan)
            }
        }
    }
}

/// The entries that a lookup reads in one object.
struct Plan<'a> {
    node: PlanNode<'a>,
    /// The omap keys of the pages.
    pages: BTreeSet<Bytes>,
    /// How often a page is decoded: two probes may need the same page.
    reads: usize,
    /// An estimate of the rows that it finds.
    rows: u64,
    /// The rows that it finds at least.
    rows_min: u64,
}

enum PlanNode<'a> {
    One { probe: &'a Probe, directory: &'a Directory, numbers: BTreeSet<u16>, rows_max: u64 },
    All(Vec<Plan<'a>>),
    Any(Vec<Plan<'a>>),
}

impl Plan<'_> {
    /// The rows that may match. `None` if they are too many.
    fn find(&self, known: &ReadEntries) -> Result<Option<Rows>> {
        match &self.node {
            PlanNode::One { probe, directory, numbers, rows_max } => {
                let mut pages = Vec::with_capacity(numbers.len());
                for number in numbers {
                    let value = known.get(&probe.page_key(*number));
                    pages.push((*number, value.ok_or_else(|| corrupt("it is missing"))?.clone()));
                }
                directory.find(probe, pages, *rows_max)
            }
            PlanNode::All(parts) => {
                let mut all: Option<Rows> = None;
                for part in parts {
                    all = match (all, part.find(known)?) {
                        (Some(one), Some(other)) => Some(one.and(&other)),
                        (one, other) => one.or(other),
                    };
                    if all.as_ref().is_some_and(has_too_many_runs) {
                        return Ok(None);
                    }
                }
                Ok(all)
            }
            PlanNode::Any(parts) => {
                let mut any: Option<Rows> = None;
                for part in parts {
                    let Some(rows) = part.find(known)? else { return Ok(None) };
                    any = Some(any.map_or_else(|| rows.clone(), |any| any.or(&rows)));
                    if any.as_ref().is_some_and(has_too_many_runs) {
                        return Ok(None);
                    }
                }
                Ok(any)
            }
        }
    }
}

fn has_too_many_runs(rows: &Rows) -> bool {
    rows.ranges().len() > RUNS_MAX
}

#[cfg(test)]
#[path = "probes_tests.rs"]
mod tests;
