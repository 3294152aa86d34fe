//! Tracks which blocks of the data file are in use.
//!
//! There are two views. The *logged* view follows the log: it is a set of blocks that changes in
//! log order, is written to the key-value store at every checkpoint, and is brought up to date by
//! replay. The *free* list has the blocks that may be allocated. An operation that takes a block
//! removes it from the list. A freed block returns to the list only after the operation that freed
//! it is durable.

use super::block_set::{BlockSet, REGION_BLOCKS};
use super::keys::{BLOCK_BYTES, Extent};
use std::collections::{BTreeMap, BTreeSet};

/// A large allocation skips free runs shorter than this, but at most [`RUNS_SKIPPED_MAX`] of them.
const RUN_BLOCKS_WANTED: u64 = 16;
const RUNS_SKIPPED_MAX: usize = 64;

/// The unit in which free space is returned to the file system.
pub(crate) const GRANULE_BLOCKS: u64 = 16;

#[derive(Default)]
pub(crate) struct Allocator {
    logged: BlockSet,
    /// Regions whose bitmap differs from the one in the key-value store.
    dirty: BTreeSet<u32>,
    /// Maps the first block of each free run to its number of blocks. No two runs are adjacent.
    free: BTreeMap<u64, u64>,
    /// All blocks from here on are free.
    end_block: u64,
    /// Start of the next search for a free run.
    cursor_block: u64,
}

impl Allocator {
    /// Loads the bitmap of one region. Regions must come in order. Returns false if the bitmap is
    /// invalid.
    pub fn load_region(&mut self, region: u32, bitmap: &[u8]) -> bool {
        self.logged.load(region, bitmap)
    }

    /// Builds the free list from the logged view. Called once, after loading and replay.
    pub fn build_free_list(&mut self) {
        self.free.clear();
        let mut run_start = 0;
        for (first, count) in self.logged.runs(0, self.logged.end(), true) {
            if first > run_start {
                self.free.insert(run_start, first - run_start);
            }
            run_start = first + count;
        }
        self.end_block = run_start;
        self.cursor_block = 0;
        let free_blocks: u64 = self.free.values().sum();
        assert_eq!(free_blocks + self.used_blocks(), self.end_block, "a block is either free or in use");
    }

    /// Allocates blocks for `len_bytes`, in few runs.
    pub fn allocate(&mut self, len_bytes: u64) -> Vec<Extent> {
        let mut wanted = len_bytes.div_ceil(BLOCK_BYTES);
        let mut taken = Vec::new();
        let mut skipped = 0;
        while wanted > 0 {
            let next = self.free.range(self.cursor_block..).next().or_else(|| self.free.iter().next());
            let Some((&start, &run)) = next.filter(|_| skipped <= self.free.len()) else {
                taken.push(extent(self.end_block, wanted));
                self.end_block += wanted;
                wanted = 0;
                break;
            };
            assert!(
                run > 0 && start + run <= self.end_block,
                "a free run has blocks, and lies before the end"
            );
            self.cursor_block = start + run;
            if run < wanted.min(RUN_BLOCKS_WANTED) && skipped < RUNS_SKIPPED_MAX.min(self.free.len()) {
                skipped += 1;
                continue;
            }
            let count = run.min(wanted);
            self.free.remove(&start);
            if count < run {
                self.free.insert(start + count, run - count);
                self.cursor_block = start + count;
            }
            taken.push(extent(start, count));
            wanted -= count;
        }
        let taken_bytes: u64 = taken.iter().map(|extent| extent.len_bytes).sum();
        assert_eq!(wanted, 0, "all blocks were found");
        assert_eq!(
            taken_bytes,
            len_bytes.next_multiple_of(BLOCK_BYTES),
            "the extents have the requested length"
        );
        debug_assert!(taken.iter().all(|extent| self.is_unused(*extent)), "allocated blocks were free");
        taken
    }

    pub fn release(&mut self, freed: Extent) {
        let (mut start, mut count) = blocks(freed);
        assert!(count > 0 && start + count <= self.end_block, "released blocks were allocated");
        let before_end = self.free.range(..start).next_back().map_or(0, |(before, run)| before + run);
        let after_start = self.free.range(start..).next().map_or(self.end_block, |(after, _)| *after);
        assert!(before_end <= start && start + count <= after_start, "released blocks are not free already");
        debug_assert!(self.is_unused(freed), "released blocks are not in use");
        if let Some((&before, &run)) = self.free.range(..start).next_back()
            && before + run == start
        {
            self.free.remove(&before);
            (start, count) = (before, run + count);
        }
        if let Some(run) = self.free.remove(&(start + count)) {
            count += run;
        }
        if start + count == self.end_block {
            self.end_block = start;
        } else {
            self.free.insert(start, count);
        }
    }

    /// All free runs except the one at the end.
    pub fn free_runs(&self) -> Vec<Extent> {
        self.free.iter().map(|(start, count)| extent(*start, *count)).collect()
    }

    /// Removes a run from the free list if [`Allocator::free_runs`] would still report it
    /// unchanged.
    pub fn take_run(&mut self, run: Extent) -> bool {
        let (start, count) = blocks(run);
        assert!(count > 0, "a run has blocks");
        self.free.get(&start) == Some(&count) && self.free.remove(&start).is_some()
    }

    /// Marks an extent from [`Allocator::allocate`] as used in the logged view.
    pub fn log_taken(&mut self, extent: Extent) {
        assert!(extent.len_bytes > 0, "an allocation has blocks");
        assert_eq!(self.replay(extent, true), blocks(extent).1, "a block is allocated once");
    }

    /// Marks an extent as free in the logged view. [`Allocator::are_in_use`] must hold for it.
    pub fn log_freed(&mut self, extent: Extent) {
        assert!(extent.len_bytes > 0, "an operation frees blocks");
        assert_eq!(self.replay(extent, false), blocks(extent).1, "a block is freed once");
    }

    /// Applies a record of the log to the logged view. Applying a record twice has no further
    /// effect. Returns the number of blocks that changed.
    pub fn replay(&mut self, extent: Extent, in_use: bool) -> u64 {
        let (first, count) = blocks(extent);
        let regions = first / REGION_BLOCKS..(first + count).div_ceil(REGION_BLOCKS);
        self.dirty.extend(regions.map(|region| region as u32));
        self.logged.set(first, count, in_use)
    }

    /// Returns the bitmaps that changed since the last call.
    pub fn take_dirty(&mut self) -> Vec<(u32, Vec<u8>)> {
        let dirty = std::mem::take(&mut self.dirty);
        dirty.into_iter().map(|region| (region, self.logged.bitmap(region))).collect()
    }

    /// Returns true if all blocks of the extents are in use in the logged view, and no two extents
    /// overlap.
    pub fn are_in_use(&self, extents: &[Extent]) -> bool {
        let mut runs: Vec<_> = extents.iter().map(|extent| blocks(*extent)).collect();
        runs.sort_unstable();
        runs.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0)
            && runs.iter().all(|(first, count)| self.logged.count(*first, *count) == *count)
    }

    fn is_unused(&self, of: Extent) -> bool {
        let (first, count) = blocks(of);
        self.logged.count(first, count) == 0
    }

    /// The parts of an extent that are in use in the logged view, or, if not `in_use`, the parts
    /// that are free there.
    pub fn parts(&self, of: Extent, in_use: bool) -> Vec<Extent> {
        let (first, count) = blocks(of);
        self.logged.runs(first, count, in_use).map(|(start, count)| extent(start, count)).collect()
    }

    /// The free granules that the extents touch. A granule is [`GRANULE_BLOCKS`] long and aligned
    /// to that length.
    pub fn free_granules(&self, extents: &[Extent]) -> Vec<Extent> {
        let mut granules = BTreeSet::new();
        for (first, count) in extents.iter().map(|extent| blocks(*extent)) {
            granules.extend(first / GRANULE_BLOCKS..(first + count).div_ceil(GRANULE_BLOCKS));
        }
        let all_free = |granule: &u64| {
            let (first, end) = (granule * GRANULE_BLOCKS, (granule + 1) * GRANULE_BLOCKS);
            let run_end = match self.free.range(..=first).next_back() {
                Some((start, run)) if start + run > first => start + run,
                _ => first,
            };
            run_end >= end.min(self.end_block)
        };
        granules
            .into_iter()
            .filter(all_free)
            .map(|granule| extent(granule * GRANULE_BLOCKS, GRANULE_BLOCKS))
            .collect()
    }

    pub fn used_blocks(&self) -> u64 {
        self.logged.len()
    }
}

/// The first block of an extent, and its number of blocks.
pub(crate) fn blocks(extent: Extent) -> (u64, u64) {
    let aligned =
        extent.offset_bytes.is_multiple_of(BLOCK_BYTES) && extent.len_bytes.is_multiple_of(BLOCK_BYTES);
    assert!(aligned, "an extent consists of whole blocks");
    (extent.offset_bytes / BLOCK_BYTES, extent.len_bytes / BLOCK_BYTES)
}

fn extent(start: u64, count: u64) -> Extent {
    Extent { offset_bytes: start * BLOCK_BYTES, len_bytes: count * BLOCK_BYTES }
}

#[cfg(test)]
#[path = "alloc_tests.rs"]
mod tests;
