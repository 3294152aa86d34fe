//! Advice from recorded access: the indexes and the sort order that recorded queries would have
//! used.
//!
//! The estimates use the sums of each shape of queries: how many objects and bytes such a query
//! read, and which share of the rows it selected. They assume that the selected rows are scattered
//! over the objects. The share that some of a shape's conditions select is unknown. So a shape
//! suggests nothing if one index does not answer all its conditions.

use crate::access::{Access, AccessShape, AccessSums, ConditionKind};
use crate::head::INDEXES_MAX;
use crate::snapshot::Snapshot;
use benthic_index::{COLUMNS_MAX, Definition as Index, IndexKind, Kind};
use std::collections::{BTreeMap, BTreeSet};

/// Rows of a page, as the writer makes them.
const PAGE_ROWS: f64 = 8_192.0;
/// The directory of an index in an object, and the page that a lookup of one key reads.
const DIRECTORY_BYTES: f64 = 512.0;
const INDEX_PAGE_BYTES: f64 = 16_384.0;
const INDEX_BYTES_PER_ROW: f64 = 5.0;
/// An index does not help if a query selects a larger share of the rows.
const INDEX_SHARE_MAX: f64 = 0.2;
/// A suggestion must save at least this share of the bytes that its queries read.
const SAVED_MIN: f64 = 0.2;

/// A change of a table that recorded queries suggest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Suggestion {
    /// Add an index over the values of these columns.
    Index(Vec<u32>),
    /// Add an index over the words of this column.
    TextIndex(u32),
    /// Sort the rows of each object by these columns.
    Sort(Vec<u32>),
}

/// The sums of the queries that a suggestion helps, and an estimate of its effect.
#[derive(Clone, Debug, PartialEq)]
pub struct Suggested {
    pub suggestion: Suggestion,
    pub sums: AccessSums,
    /// An estimate of the bytes that the same queries would read.
    pub bytes_after: u64,
    /// The conditions of the queries: column numbers and kinds.
    pub conditions: BTreeSet<(u32, ConditionKind)>,
}

/// The suggestions from recorded access.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Advice {
    /// The suggestions, those that save most bytes first.
    pub suggested: Vec<Suggested>,
    /// Indexes that no recorded query used.
    pub unused_indexes: Vec<Index>,
    /// Numbers of columns that no recorded query read.
    pub unread_columns: Vec<u32>,
}

/// Derives advice from the recorded access of a table.
pub fn advise(access: &Access, snapshot: &Snapshot) -> Advice {
    let indexes: Vec<Index> = snapshot.indexes().cloned().collect();
    let mut found: BTreeMap<Suggestion, Suggested> = BTreeMap::new();
    for (shape, sums) in &access.shapes {
        let Some((suggestion, bytes_after)) = suggest_for(shape, sums, snapshot, &indexes, access) else {
            continue;
        };
        let known = found.entry(suggestion.clone()).or_insert_with(|| Suggested {
            suggestion,
            sums: AccessSums::default(),
            bytes_after: 0,
            conditions: BTreeSet::new(),
        });
        known.sums.add(sums);
        known.bytes_after = known.bytes_after.saturating_add(bytes_after);
        known.conditions.extend(&shape.conditions);
    }
    let mut suggested = without_prefixes(found);
    suggested.sort_by_key(|one| std::cmp::Reverse(one.sums.bytes_read.saturating_sub(one.bytes_after)));
    // A table has one sort order, and few indexes.
    let (mut sorts, mut new) = (0, indexes.len());
    suggested.retain(|one| {
        let (counter, max) = match one.suggestion {
            Suggestion::Sort(_) => (&mut sorts, 1),
            Suggestion::Index(_) | Suggestion::TextIndex(_) => (&mut new, INDEXES_MAX),
        };
        *counter += 1;
        *counter <= max
    });
    let used: BTreeSet<u32> = access.shapes.keys().flat_map(|shape| &shape.indexes).copied().collect();
    let read: BTreeSet<u32> = access.shapes.keys().flat_map(|shape| &shape.columns).copied().collect();
    let is_cut = access.shapes.keys().any(|shape| shape.columns.len() >= crate::SHAPE_COLUMNS_MAX);
    let columns = snapshot.schema().columns().iter().map(|column| column.id);
    let has_queries = access.queries() > 0;
    Advice {
        suggested,
        unused_indexes: indexes
            .into_iter()
            .filter(|index| has_queries && !used.contains(&index.number))
            .collect(),
        unread_columns: columns.filter(|id| has_queries && !is_cut && !read.contains(id)).collect(),
    }
}

/// The best suggestion for the queries of a shape, and the bytes that they would then read.
fn suggest_for(
    shape: &AccessShape,
    sums: &AccessSums,
    snapshot: &Snapshot,
    indexes: &[Index],
    access: &Access,
) -> Option<(Suggestion, u64)> {
    let schema = snapshot.schema();
    let is_known = |id: u32| schema.by_id(id).is_some_and(|column| Kind::of(&column.data_type).is_some());
    let is_answered = |(id, kind): &(u32, ConditionKind)| *kind != ConditionKind::Other && is_known(*id);
    let conditions = &shape.conditions;
    if sums.queries == 0 || sums.rows == 0 || conditions.is_empty() || !conditions.iter().all(is_answered) {
        return None;
    }
    let of = |wanted: ConditionKind| {
        let ids = conditions.iter().filter(move |(_, kind)| *kind == wanted).map(|(id, _)| *id);
        let mut ids: Vec<u32> = ids.collect();
        // Columns of many queries first, so that one index serves many queries.
        ids.sort_by_key(|id| (std::cmp::Reverse(queries_with(access, *id)), *id));
        ids
    };
    let (words, mut columns) = (of(ConditionKind::Words), of(ConditionKind::Equal));
    let ranges: Vec<u32> = of(ConditionKind::Range).into_iter().filter(|id| !columns.contains(id)).collect();
    columns.extend(&ranges);
    // One index answers conditions of one kind, with one range at most.
    let is_one_index = match words.len() {
        0 => ranges.len() <= 1 && columns.len() <= COLUMNS_MAX,
        words => words == 1 && columns.is_empty(),
    };
    if !is_one_index {
        return None;
    }
    let share = sums.rows_selected as f64 / sums.rows as f64;
    let is_indexed = |kind: IndexKind, ids: &[u32]| {
        indexes.iter().any(|index| index.kind == kind && ids.contains(&index.columns[0]))
    };
    let mut found: Vec<(f64, Suggestion)> = Vec::new();
    if share <= INDEX_SHARE_MAX {
        // An index that exists helps already, or cannot help.
        let (kind, ids, suggestion) = match words.first() {
            Some(text) => (IndexKind::Words, vec![*text], Suggestion::TextIndex(*text)),
            None => (IndexKind::Values, columns.clone(), Suggestion::Index(columns.clone())),
        };
        let is_used = indexes.iter().any(|index| shape.indexes.contains(&index.number));
        if is_used || is_indexed(kind, &ids) {
            return None;
        }
        found.push((estimate_index(sums), suggestion));
    }
    // Queries may need the present sort order.
    let is_sort_used = snapshot.sort().first().is_some_and(|id| queries_with(access, *id) > 0);
    if columns.first().is_some_and(|id| !is_sort_used && snapshot.partitioning().field() != Some(*id)) {
        found.push((
            estimate_sort(sums, snapshot.layout().row_group_rows() as f64),
            Suggestion::Sort(columns),
        ));
    }
    let (bytes_after, suggestion) = found.into_iter().min_by(|one, other| one.0.total_cmp(&other.0))?;
    let is_enough = bytes_after <= (1.0 - SAVED_MIN) * sums.bytes_read as f64;
    is_enough.then_some((suggestion, bytes_after as u64))
}

/// The bytes that the queries would read with an index: a directory and a page of the index in each
/// object, and the pages of the data that contain selected rows.
fn estimate_index(sums: &AccessSums) -> f64 {
    let (objects, rows) = (sums.objects as f64, sums.rows as f64);
    let page_bytes = (rows / objects.max(1.0) * INDEX_BYTES_PER_ROW).min(INDEX_PAGE_BYTES);
    let pages = (rows / PAGE_ROWS).max(objects).max(1.0);
    let touched = (sums.rows_selected as f64).min(pages) / pages;
    objects * (DIRECTORY_BYTES + page_bytes) + sums.bytes_read as f64 * touched
}

/// The bytes that the queries would read if each object was sorted: the row groups with selected
/// rows, and one more.
fn estimate_sort(sums: &AccessSums, group_rows: f64) -> f64 {
    let (objects, rows) = ((sums.objects as f64).max(1.0), sums.rows as f64);
    let groups = (rows / objects / group_rows).ceil().max(1.0);
    let touched = (rows_share(sums) * groups + 1.0).min(groups) / groups;
    sums.bytes_read as f64 * touched
}

fn rows_share(sums: &AccessSums) -> f64 {
    sums.rows_selected as f64 / (sums.rows as f64).max(1.0)
}

fn queries_with(access: &Access, column: u32) -> u64 {
    let has = |shape: &&AccessShape| shape.conditions.iter().any(|(id, _)| *id == column);
    let queries = access.shapes.iter().filter(|(shape, _)| has(shape)).map(|(_, sums)| sums.queries);
    queries.fold(0, u64::saturating_add)
}

/// Adds an index to a longer one that begins with the same columns.
fn without_prefixes(mut found: BTreeMap<Suggestion, Suggested>) -> Vec<Suggested> {
    let mut kept: Vec<Suggested> = Vec::new();
    // A list of columns sorts after its prefixes.
    while let Some((suggestion, one)) = found.pop_last() {
        let longer = kept.iter_mut().find(|longer| match (&longer.suggestion, &suggestion) {
            (Suggestion::Index(longer), Suggestion::Index(columns)) => longer.starts_with(columns),
            (Suggestion::Sort(longer), Suggestion::Sort(columns)) => longer.starts_with(columns),
            _ => false,
        });
        match longer {
            Some(longer) => {
                longer.sums.add(&one.sums);
                longer.bytes_after = longer.bytes_after.saturating_add(one.bytes_after);
                longer.conditions.extend(one.conditions);
            }
            None => kept.push(one),
        }
    }
    kept
}

#[cfg(test)]
#[path = "advice_tests.rs"]
mod tests;
