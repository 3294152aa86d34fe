//! Tracks which blocks of the data file are in use.
//!
//! There are two views. The *logged* view follows the log: it is a bitmap that changes in log
//! order, is written to the key-value store at every checkpoint, and is brought up to date by
//! replay. The *free* list has the blocks that may be allocated. An operation that takes a block
//! removes it from the list. A freed block returns to the list only after the operation that freed
//! it is durable.

use super::keys::{BLOCK_BYTES, Extent};
use std::collections::{BTreeMap, BTreeSet};

/// Number of blocks per region. Regions are the unit in which the bitmap is stored.
pub(crate) const REGION_BLOCKS: u64 = 32_768;
const REGION_WORDS: usize = (REGION_BLOCKS / 64) as usize;
pub(crate) const REGION_BYTES: usize = REGION_WORDS * 8;

/// A large allocation skips free runs shorter than this, but at most [`RUNS_SKIPPED_MAX`] of them.
const RUN_BLOCKS_WANTED: u64 = 16;
const RUNS_SKIPPED_MAX: usize = 64;

/// The unit in which free space is returned to the file system.
pub(crate) const GRANULE_BLOCKS: u64 = 16;

type Region = Box<[u64; REGION_WORDS]>;

#[derive(Default)]
pub(crate) struct Allocator {
    logged: Vec<Region>,
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
        if bitmap.len() != REGION_BYTES || (region as usize) < self.logged.len() {
            return false;
        }
        self.grow_to(region as usize);
        for (word, bytes) in self.logged[region as usize].iter_mut().zip(bitmap.chunks_exact(8)) {
            *word = bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        }
        true
    }

    /// Builds the free list from the logged view. Called once, after loading and replay.
    pub fn build_free_list(&mut self) {
        self.free.clear();
        let mut run_start = 0;
        for (index, word) in self.logged.iter().flat_map(|region| region.iter()).enumerate() {
            let first = index as u64 * 64;
            if *word == 0 {
                continue;
            }
            for bit in (0..64).filter(|bit| word >> bit & 1 != 0) {
                let block = first + bit;
                if block > run_start {
                    self.free.insert(run_start, block - run_start);
                }
                run_start = block + 1;
            }
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
        let (start, count) = blocks(extent);
        let mut changed = 0;
        for block in start..start + count {
            let (region, bit) = ((block / REGION_BLOCKS) as usize, block % REGION_BLOCKS);
            self.grow_to(region);
            let word = &mut self.logged[region][(bit / 64) as usize];
            let before = *word;
            if in_use {
                *word |= 1 << (bit % 64);
            } else {
                *word &= !(1 << (bit % 64));
            }
            changed += u64::from(*word != before);
            self.dirty.insert(region as u32);
        }
        changed
    }

    /// Returns the bitmaps that changed since the last call.
    pub fn take_dirty(&mut self) -> Vec<(u32, Vec<u8>)> {
        std::mem::take(&mut self.dirty)
            .into_iter()
            .map(|region| {
                let words = self.logged[region as usize].iter();
                let bitmap: Vec<u8> = words.flat_map(|word| word.to_le_bytes()).collect();
                assert_eq!(bitmap.len(), REGION_BYTES, "a stored bitmap has the length of a region");
                (region, bitmap)
            })
            .collect()
    }

    pub fn in_use(&self, block: u64) -> bool {
        let bit = block % REGION_BLOCKS;
        self.logged
            .get((block / REGION_BLOCKS) as usize)
            .is_some_and(|region| region[(bit / 64) as usize] >> (bit % 64) & 1 != 0)
    }

    /// Returns true if all blocks of the extents are in use in the logged view, and no two extents
    /// overlap.
    pub fn are_in_use(&self, extents: &[Extent]) -> bool {
        let mut runs: Vec<_> = extents.iter().map(|extent| blocks(*extent)).collect();
        runs.sort_unstable();
        runs.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0)
            && runs.iter().all(|(first, count)| (*first..first + count).all(|block| self.in_use(block)))
    }

    fn is_unused(&self, of: Extent) -> bool {
        let (first, count) = blocks(of);
        (first..first + count).all(|block| !self.in_use(block))
    }

    /// The parts of an extent that are free in the logged view.
    pub fn unused(&self, of: Extent) -> Vec<Extent> {
        let (first, count) = blocks(of);
        let mut runs: Vec<Extent> = Vec::new();
        for block in (first..first + count).filter(|block| !self.in_use(*block)) {
            match runs.last_mut() {
                Some(run) if run.offset_bytes + run.len_bytes == block * BLOCK_BYTES => {
                    run.len_bytes += BLOCK_BYTES
                }
                _ => runs.push(extent(block, 1)),
            }
        }
        runs
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
        self.logged.iter().flat_map(|region| region.iter()).map(|word| u64::from(word.count_ones())).sum()
    }

    fn grow_to(&mut self, region: usize) {
        while self.logged.len() <= region {
            self.logged.push(Box::new([0; REGION_WORDS]));
        }
    }
}

fn blocks(extent: Extent) -> (u64, u64) {
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
