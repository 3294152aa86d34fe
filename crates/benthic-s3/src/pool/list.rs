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
    /// Entries to request next.
    page_entries: u32,
    /// Entries that the page has taken from the shard.
    taken: usize,
}

impl PoolSal {
    pub(super) async fn list_shards(&self, bucket: &Bucket, list: &List) -> Result<ListPage> {
        wire::List::from(list).check()?;
        let entries_max = list.entries_max as usize;
        // Assume first that each shard has an equal share of the page.
        let page_entries = with_reserve(list.entries_max / bucket.shards.max(1)).min(list.entries_max);
        let mut cursors = Vec::new();
        for shard in self.shards(bucket.id, bucket.shards)? {
            let after = list.after.clone();
            let entries = VecDeque::new();
            cursors.push(Cursor { shard, entries, after, at_end: false, page_entries, taken: 0 });
        }
        let mut listed = ListPage { entries: Vec::new(), next: None };
        let mut empty_rounds = 0;
        loop {
            let starved = cursors.iter_mut().filter(|cursor| cursor.entries.is_empty() && !cursor.at_end);
            let fills = starved.map(|cursor| self.fill(cursor, list));
            let filled = try_join_all(fills).await?.len();
            let before = listed.entries.len();
            merge(&mut cursors, &mut listed.entries, entries_max);
            cursors.iter_mut().for_each(|cursor| cursor.plan(listed.entries.len(), entries_max));
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
        cursor.entries = page.entries.into_iter().map(Entry::from).collect();
        cursor.at_end = page.next.is_none();
        cursor.after = page.next.map(ListPosition::from);
        Ok(())
    }
}

/// A number of entries and some more, because the shares of shards differ.
fn with_reserve(entries: u32) -> u32 {
    entries.saturating_add(entries / 4).saturating_add(8)
}

impl Cursor {
    /// Decides how many entries to request next, from the part of the page that came from this
    /// shard: all of it if every shard has the same prefixes, and a small one if they have
    /// different keys.
    fn plan(&mut self, listed: usize, entries_max: usize) {
        let left = entries_max.saturating_sub(listed);
        let wanted = match listed {
            0 => self.page_entries.saturating_mul(2),
            listed => with_reserve(u32::try_from(left * self.taken / listed).unwrap_or(u32::MAX)),
        };
        self.page_entries = wanted.min(u32::try_from(left).unwrap_or(u32::MAX)).max(1);
    }
}

/// Moves entries to `out` in key order while the next entry of every shard is known.
fn merge(cursors: &mut [Cursor], out: &mut Vec<Entry>, entries_max: usize) {
    while out.len() < entries_max
        && cursors.iter().all(|cursor| cursor.at_end || !cursor.entries.is_empty())
        && pop_least(cursors, out)
    {}
}

/// Moves the smallest entry to `out`. If it is a prefix, all shards that have it next give it up,
/// so that they run out together and one round of calls continues all of them.
fn pop_least(cursors: &mut [Cursor], out: &mut Vec<Entry>) -> bool {
    fn first(cursor: &Cursor) -> Option<&str> {
        cursor.entries.front().map(Entry::key)
    }
    let filled = cursors.iter_mut().filter(|cursor| !cursor.entries.is_empty());
    let Some(least) = filled.min_by(|a, b| first(a).cmp(&first(b))) else { return false };
    let Some(entry) = least.entries.pop_front() else { return false };
    least.taken += 1;
    if matches!(entry, Entry::Prefix(_)) {
        for cursor in cursors.iter_mut().filter(|cursor| cursor.entries.front() == Some(&entry)) {
            cursor.entries.pop_front();
            cursor.taken += 1;
        }
        if out.last() == Some(&entry) {
            // A shard that had run out has the same prefix.
            return true;
        }
    }
    out.push(entry);
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
