//! Listings: reads a page from every shard and merges the pages in key order.

use super::PoolSal;
use crate::sal::{Bucket, Entry, List, ListPage, ListPosition};
use benthic_classes::bucket::wire;
use benthic_core::{ObjectId, Result};
use futures::future::try_join_all;
use std::collections::VecDeque;

/// Rounds of shard calls without a new entry before a page ends early.
const EMPTY_ROUNDS_MAX: usize = 8;

/// The state of one shard in a listing.
struct Cursor {
    shard: ObjectId,
    entries: VecDeque<Entry>,
    /// Where the shard's listing continues.
    after: Option<ListPosition>,
    at_end: bool,
    page_entries: u32,
}

impl PoolSal {
    pub(super) async fn list_shards(&self, bucket: &Bucket, list: &List) -> Result<ListPage> {
        wire::List::from(list).check()?;
        let entries_max = list.entries_max as usize;
        // Request an equal share from each shard and some more. A shard that runs out is asked
        // again for twice as many entries.
        let share = list.entries_max / bucket.shards.max(1);
        let page_entries = (share + share / 4 + 8).min(list.entries_max);
        let mut cursors = Vec::new();
        for shard in self.shards(bucket.id, bucket.shards)? {
            let after = list.after.clone();
            cursors.push(Cursor { shard, entries: VecDeque::new(), after, at_end: false, page_entries });
        }
        let mut listed = ListPage { entries: Vec::new(), next: None };
        let mut empty_rounds = 0;
        loop {
            let starved = cursors.iter_mut().filter(|cursor| cursor.entries.is_empty() && !cursor.at_end);
            let fills = starved.map(|cursor| self.fill(cursor, list));
            let filled = try_join_all(fills).await?.len();
            let before = listed.entries.len();
            merge(&mut cursors, &mut listed.entries, entries_max);
            if listed.entries.len() >= entries_max {
                let more = cursors.iter().any(|cursor| !cursor.at_end || !cursor.entries.is_empty());
                listed.next = listed.entries.last().filter(|_| more).map(|last| last.position(list.kind));
                return Ok(listed);
            }
            if filled == 0 && cursors.iter().all(|cursor| cursor.at_end) {
                return Ok(listed);
            }
            empty_rounds = if listed.entries.len() > before { 0 } else { empty_rounds + 1 };
            if empty_rounds >= EMPTY_ROUNDS_MAX {
                listed.next = end_early(&mut cursors, &mut listed.entries, entries_max, list);
                return Ok(listed);
            }
        }
    }

    async fn fill(&self, cursor: &mut Cursor, list: &List) -> Result<()> {
        let input = List { after: cursor.after.take(), entries_max: cursor.page_entries, ..list.clone() };
        let page: wire::ListOutput = self.call_read(&cursor.shard, "list", &wire::List::from(&input)).await?;
        cursor.page_entries = cursor.page_entries.saturating_mul(2).min(list.entries_max);
        cursor.entries = page.entries.into_iter().map(Entry::from).collect();
        cursor.at_end = page.next.is_none();
        cursor.after = page.next.map(ListPosition::from);
        Ok(())
    }
}

/// Moves entries to `out` in key order while the next entry of every shard is known.
fn merge(cursors: &mut [Cursor], out: &mut Vec<Entry>, entries_max: usize) {
    while out.len() < entries_max
        && cursors.iter().all(|cursor| cursor.at_end || !cursor.entries.is_empty())
        && pop_least(cursors, out)
    {}
}

/// Moves the smallest entry to `out`. Several shards may return the same prefix; `out` gets it
/// once.
fn pop_least(cursors: &mut [Cursor], out: &mut Vec<Entry>) -> bool {
    fn first(cursor: &Cursor) -> Option<&str> {
        cursor.entries.front().map(Entry::key)
    }
    let filled = cursors.iter_mut().filter(|cursor| !cursor.entries.is_empty());
    let Some(least) = filled.min_by(|a, b| first(a).cmp(&first(b))) else { return false };
    let Some(entry) = least.entries.pop_front() else { return false };
    let is_duplicate =
        matches!((&entry, out.last()), (Entry::Prefix(new), Some(Entry::Prefix(last))) if new == last);
    if !is_duplicate {
        out.push(entry);
    }
    true
}

/// Ends a page although the next entry of some shards is unknown. The page ends at the smallest of
/// the positions that these shards have reached.
fn end_early(
    cursors: &mut [Cursor],
    out: &mut Vec<Entry>,
    entries_max: usize,
    list: &List,
) -> Option<ListPosition> {
    let starved = cursors.iter().filter(|cursor| cursor.entries.is_empty() && !cursor.at_end);
    let reached = starved.filter_map(|cursor| cursor.after.clone()).min_by(|a, b| a.key.cmp(&b.key))?;
    let before = |cursors: &[Cursor]| {
        let keys = cursors.iter().filter_map(|cursor| cursor.entries.front());
        keys.map(Entry::key).min().is_some_and(|key| key < reached.key.as_str())
    };
    while out.len() < entries_max && before(cursors) && pop_least(cursors, out) {}
    match out.last() {
        Some(last) if out.len() >= entries_max => Some(last.position(list.kind)),
        // That shard was still looking for an entry with this prefix, which the page contains
        // already.
        Some(Entry::Prefix(prefix)) if reached.key.starts_with(prefix.as_str()) => {
            Some(ListPosition { key: prefix.clone(), within: None })
        }
        _ => Some(reached),
    }
}

#[cfg(test)]
#[path = "list_tests.rs"]
mod tests;
