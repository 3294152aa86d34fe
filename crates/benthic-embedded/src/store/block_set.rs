//! A set of blocks of the data file.
//!
//! The set is a bitmap in regions. A region whose blocks are all in the set, or all not, takes no
//! bitmap. So memory follows the borders between used and free space rather than the size of the
//! data file: a full file of 10 TiB takes 2 MiB instead of 320.

/// Number of blocks per region. Regions are the unit in which the bitmap is stored.
pub(crate) const REGION_BLOCKS: u64 = 32_768;
const REGION_WORDS: usize = (REGION_BLOCKS / 64) as usize;
const REGION_BYTES: usize = REGION_WORDS * 8;
const ALL: [u8; REGION_BYTES] = [0xff; REGION_BYTES];
const NONE: [u8; REGION_BYTES] = [0; REGION_BYTES];

#[derive(Default)]
pub(crate) struct BlockSet {
    regions: Vec<Region>,
}

#[derive(Default)]
struct Region {
    /// Number of the region's blocks in the set.
    len: u64,
    /// `None` if all blocks are in the set, or none.
    words: Option<Box<[u64; REGION_WORDS]>>,
}

impl BlockSet {
    /// Loads the bitmap of one region. Regions must come in order. Returns false if the bitmap is
    /// invalid.
    pub fn load(&mut self, region: u32, bitmap: &[u8]) -> bool {
        if bitmap.len() != REGION_BYTES || (region as usize) < self.regions.len() {
            return false;
        }
        self.regions.resize_with(region as usize, Region::default);
        self.regions.push(Region::load(bitmap));
        true
    }

    /// The bitmap of one region, as it is stored.
    pub fn bitmap(&self, region: u32) -> Vec<u8> {
        let region = &self.regions[region as usize];
        let bitmap = match &region.words {
            None if region.len == 0 => NONE.to_vec(),
            None => ALL.to_vec(),
            Some(words) => words.iter().flat_map(|word| word.to_le_bytes()).collect(),
        };
        assert_eq!(bitmap.len(), REGION_BYTES, "a stored bitmap has the length of a region");
        bitmap
    }

    /// Adds `count` blocks, or removes them. Returns the number of blocks that changed.
    pub fn set(&mut self, first: u64, count: u64, present: bool) -> u64 {
        let mut changed = 0;
        for (region, from, to) in parts(first, count) {
            if self.regions.len() <= region {
                self.regions.resize_with(region + 1, Region::default);
            }
            changed += self.regions[region].set(from, to, present);
        }
        changed
    }

    /// Number of blocks of a range that are in the set.
    pub fn count(&self, first: u64, count: u64) -> u64 {
        let parts = parts(first, count);
        parts.filter_map(|(region, from, to)| Some(self.regions.get(region)?.count(from, to))).sum()
    }

    /// The runs of blocks of a range that are in the set, or, if not `present`, of those that are
    /// not. A run is its first block and its number of blocks.
    pub fn runs(&self, first: u64, count: u64, present: bool) -> impl Iterator<Item = (u64, u64)> {
        let (mut at, end) = (first, first + count);
        std::iter::from_fn(move || {
            let start = self.find(at, end, present);
            at = self.find(start, end, !present);
            (start < end).then_some((start, at - start))
        })
    }

    /// The first block of `from..end` that is in the set, or, if not `present`, the first that is
    /// not; `end` if there is none.
    fn find(&self, from: u64, end: u64, present: bool) -> u64 {
        let empty = Region::default();
        let found = parts(from, end - from).find_map(|(index, from, to)| {
            let block = self.regions.get(index).unwrap_or(&empty).find(from, to, present)?;
            Some(index as u64 * REGION_BLOCKS + block)
        });
        found.unwrap_or(end)
    }

    /// Number of blocks in the set.
    pub fn len(&self) -> u64 {
        self.regions.iter().map(|region| region.len).sum()
    }

    /// No block from here on is in the set.
    pub fn end(&self) -> u64 {
        self.regions.len() as u64 * REGION_BLOCKS
    }

    /// Number of regions with a bitmap in memory.
    #[cfg(test)]
    pub fn bitmaps(&self) -> usize {
        self.regions.iter().filter(|region| region.words.is_some()).count()
    }
}

impl Region {
    fn load(bitmap: &[u8]) -> Region {
        if bitmap == NONE {
            return Region::default();
        }
        if bitmap == ALL {
            return Region { len: REGION_BLOCKS, words: None };
        }
        let mut words = Box::new([0; REGION_WORDS]);
        for (word, bytes) in words.iter_mut().zip(bitmap.chunks_exact(8)) {
            *word = bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        }
        Region { len: words.iter().map(|word| u64::from(word.count_ones())).sum(), words: Some(words) }
    }

    fn set(&mut self, from: u64, to: u64, present: bool) -> u64 {
        let all = if self.len == 0 { 0 } else { u64::MAX };
        let words = self.words.get_or_insert_with(|| Box::new([all; REGION_WORDS]));
        let mut changed = 0;
        for (index, mask) in masks(from, to) {
            let word = &mut words[index];
            let before = *word;
            *word = if present { before | mask } else { before & !mask };
            changed += u64::from((before ^ *word).count_ones());
        }
        self.len = if present { self.len + changed } else { self.len - changed };
        assert!(self.len <= REGION_BLOCKS, "a region has no more blocks than fit into it");
        if self.len == 0 || self.len == REGION_BLOCKS {
            self.words = None;
        }
        changed
    }

    fn count(&self, from: u64, to: u64) -> u64 {
        match &self.words {
            None if self.len == 0 => 0,
            None => to - from,
            Some(words) => {
                masks(from, to).map(|(index, mask)| u64::from((words[index] & mask).count_ones())).sum()
            }
        }
    }

    fn find(&self, from: u64, to: u64, present: bool) -> Option<u64> {
        let Some(words) = &self.words else {
            return ((self.len > 0) == present && from < to).then_some(from);
        };
        masks(from, to).find_map(|(index, mask)| {
            let wanted = if present { words[index] & mask } else { !words[index] & mask };
            (wanted != 0).then(|| index as u64 * 64 + u64::from(wanted.trailing_zeros()))
        })
    }
}

/// The parts of a range of blocks by region: the region, and the range within it.
fn parts(first: u64, count: u64) -> impl Iterator<Item = (usize, u64, u64)> {
    let end = first + count;
    (first / REGION_BLOCKS..end.div_ceil(REGION_BLOCKS)).map(move |region| {
        let base = region * REGION_BLOCKS;
        (region as usize, first.max(base) - base, end.min(base + REGION_BLOCKS) - base)
    })
}

/// The words that a range of a region's blocks touches, each with the mask of these blocks.
fn masks(from: u64, to: u64) -> impl Iterator<Item = (usize, u64)> {
    (from / 64..to.div_ceil(64)).map(move |index| {
        let base = index * 64;
        let (start, end) = (from.max(base) - base, to.min(base + 64) - base);
        let mask = if start < end { u64::MAX << start & u64::MAX >> (64 - end) } else { 0 };
        (index as usize, mask)
    })
}

#[cfg(test)]
#[path = "block_set_tests.rs"]
mod tests;
