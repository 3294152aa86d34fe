//! Which blocks of the data file are in use.
//!
//! Two views. The *logged* view is what the log says: a bitmap, changed in log order, written to the key-value store
//! at every checkpoint and caught up by replay. The *free* list is what may be given out: a block leaves it when an
//! operation takes it, and returns only after the operation that freed it is durable.

use super::keys::{BLOCK_BYTES, Extent};
use std::collections::{BTreeMap, BTreeSet};

/// Blocks per region: the unit in which the bitmap is stored.
pub(crate) const REGION_BLOCKS: u64 = 32_768;
const REGION_WORDS: usize = (REGION_BLOCKS / 64) as usize;
pub(crate) const REGION_BYTES: usize = REGION_WORDS * 8;

/// A large allocation does not take shorter free runs than this, unless it looked at [`RUNS_SKIPPED_MAX`].
const RUN_BLOCKS_WANTED: u64 = 16;
const RUNS_SKIPPED_MAX: usize = 64;

/// What is given back to the file system, if all of it is free.
pub(crate) const GRANULE_BLOCKS: u64 = 16;

type Region = Box<[u64; REGION_WORDS]>;

#[derive(Default)]
pub(crate) struct Allocator {
    logged: Vec<Region>,
    /// Regions whose bitmap differs from the one in the key-value store.
    dirty: BTreeSet<u32>,
    /// Free runs: first block → number of blocks. No two are adjacent.
    free: BTreeMap<u64, u64>,
    /// All blocks from here on are free.
    end_block: u64,
    /// Where the search for a free run goes on.
    cursor_block: u64,
}

impl Allocator {
    /// Takes over the bitmap of one region; regions come in order.
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

    /// Makes the free list from the logged view; after loading and replay.
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
    }

    /// Takes blocks for `len_bytes`, in few runs.
    pub fn allocate(&mut self, len_bytes: u64) -> Vec<Extent> {
        let mut wanted = len_bytes.div_ceil(BLOCK_BYTES);
        let mut taken = Vec::new();
        let mut skipped = 0;
        while wanted > 0 {
            let next = self.free.range(self.cursor_block..).next().or_else(|| self.free.iter().next());
            let Some((&start, &run)) = next.filter(|_| skipped <= self.free.len()) else {
                taken.push(extent(self.end_block, wanted));
                self.end_block += wanted;
                break;
            };
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
        taken
    }

    /// Gives blocks back to the free list.
    pub fn release(&mut self, freed: Extent) {
        let (mut start, mut count) = blocks(freed);
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

    /// The free runs, but for the one at the end.
    pub fn free_runs(&self) -> Vec<Extent> {
        self.free.iter().map(|(start, count)| extent(*start, *count)).collect()
    }

    /// Takes a run out of the free list, if it is still as [`Allocator::free_runs`] said.
    pub fn take_run(&mut self, run: Extent) -> bool {
        let (start, count) = blocks(run);
        self.free.get(&start) == Some(&count) && self.free.remove(&start).is_some()
    }

    /// Records in the logged view that an operation took or freed an extent.
    pub fn log(&mut self, extent: Extent, in_use: bool) {
        let (start, count) = blocks(extent);
        if count == 0 {
            return;
        }
        self.grow_to(((start + count - 1) / REGION_BLOCKS) as usize);
        for block in start..start + count {
            let (region, bit) = ((block / REGION_BLOCKS) as usize, block % REGION_BLOCKS);
            let word = &mut self.logged[region][(bit / 64) as usize];
            if in_use {
                *word |= 1 << (bit % 64);
            } else {
                *word &= !(1 << (bit % 64));
            }
            self.dirty.insert(region as u32);
        }
    }

    /// The bitmaps that changed since the last call.
    pub fn take_dirty(&mut self) -> Vec<(u32, Vec<u8>)> {
        std::mem::take(&mut self.dirty)
            .into_iter()
            .map(|region| {
                (region, self.logged[region as usize].iter().flat_map(|word| word.to_le_bytes()).collect())
            })
            .collect()
    }

    /// Whether the log says that a block is in use.
    pub fn in_use(&self, block: u64) -> bool {
        let bit = block % REGION_BLOCKS;
        self.logged
            .get((block / REGION_BLOCKS) as usize)
            .is_some_and(|region| region[(bit / 64) as usize] >> (bit % 64) & 1 != 0)
    }

    /// The parts of an extent that are not in use, as the log says.
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

    /// The granules, [`GRANULE_BLOCKS`] long and aligned so, that these extents have a part in and that are all free.
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

    /// Blocks in use, as the log says.
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
    (extent.offset_bytes / BLOCK_BYTES, extent.len_bytes / BLOCK_BYTES)
}

fn extent(start: u64, count: u64) -> Extent {
    Extent { offset_bytes: start * BLOCK_BYTES, len_bytes: count * BLOCK_BYTES }
}

#[cfg(test)]
#[path = "alloc_tests.rs"]
mod tests;
