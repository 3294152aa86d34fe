use super::{Allocator, BLOCK_BYTES, Extent, REGION_BLOCKS, blocks, extent};
use benthic_testkit::random::Rng;
use std::collections::BTreeSet;

fn sizes(extents: &[Extent]) -> u64 {
    extents.iter().map(|extent| extent.len_bytes).sum()
}

#[test]
fn a_block_is_allocated_once() {
    let mut allocator = Allocator::default();
    let mut owned = std::collections::BTreeSet::new();
    let mut held = Vec::new();
    let mut random = Rng(7);
    for round in 0..2_000 {
        if random.below(16) < 6 && !held.is_empty() {
            let extent: Extent = held.swap_remove(random.below(held.len()));
            for block in 0..extent.len_bytes / BLOCK_BYTES {
                assert!(owned.remove(&(extent.offset_bytes / BLOCK_BYTES + block)));
            }
            allocator.release(extent);
        } else {
            let len_bytes = random.below(300_000) as u64 + 1;
            let extents = allocator.allocate(len_bytes);
            assert_eq!(sizes(&extents), len_bytes.next_multiple_of(BLOCK_BYTES), "round {round}");
            for extent in extents {
                for block in 0..extent.len_bytes / BLOCK_BYTES {
                    assert!(owned.insert(extent.offset_bytes / BLOCK_BYTES + block), "round {round}");
                }
                held.push(extent);
            }
        }
    }
    for extent in held {
        allocator.release(extent);
    }
    assert_eq!(allocator.end_block, 0, "all space comes back");
    assert!(allocator.free.is_empty());
}

#[test]
fn the_free_list_is_rebuilt_from_the_log() {
    let mut allocator = Allocator::default();
    let taken: Vec<Extent> = (0..10).flat_map(|_| allocator.allocate(40_000)).collect();
    taken.iter().for_each(|extent| allocator.log_taken(*extent));
    for extent in [taken[2], taken[3], taken[9]] {
        allocator.log_freed(extent);
        allocator.release(extent);
    }
    let mut reloaded = Allocator::default();
    for (region, bitmap) in allocator.take_dirty() {
        assert!(reloaded.load_region(region, &bitmap));
    }
    reloaded.build_free_list();
    assert_eq!((&reloaded.free, reloaded.end_block), (&allocator.free, allocator.end_block));
    assert_eq!(reloaded.used_blocks(), 70);
    assert_eq!(reloaded.parts(extent(0, 30), false), [extent(20, 10)]);
}

#[test]
fn only_blocks_in_use_can_be_freed_and_only_once() {
    let mut allocator = Allocator::default();
    let extent = allocator.allocate(8 * BLOCK_BYTES)[0];
    assert!(!allocator.are_in_use(&[extent]), "it is not logged yet");
    allocator.log_taken(extent);
    let half = Extent { len_bytes: extent.len_bytes / 2, ..extent };
    let other = Extent { offset_bytes: half.len_bytes, ..half };
    assert!(allocator.are_in_use(&[other, half]));
    assert!(!allocator.are_in_use(&[extent, other]), "a block is in two of them");
    allocator.log_freed(half);
    assert!(allocator.are_in_use(&[other]) && !allocator.are_in_use(&[half]));
    assert!(std::panic::catch_unwind(move || allocator.log_freed(half)).is_err(), "a block is freed once");
}

#[test]
#[should_panic(expected = "not free already")]
fn an_extent_is_released_once() {
    let mut allocator = Allocator::default();
    let extents: Vec<_> = (0..3).flat_map(|_| allocator.allocate(BLOCK_BYTES)).collect();
    allocator.release(extents[1]);
    allocator.release(extents[1]);
}

#[test]
fn a_bitmap_of_another_size_is_rejected() {
    assert!(!Allocator::default().load_region(0, &[0; 100]));
}

/// Marks what it allocates and frees in the logged view, as operations do.
struct Logged<'a> {
    allocator: &'a mut Allocator,
    used: &'a mut BTreeSet<u64>,
}

impl Logged<'_> {
    fn allocate(&mut self, len_bytes: u64) -> Vec<Extent> {
        let extents = self.allocator.allocate(len_bytes);
        for taken in &extents {
            self.allocator.log_taken(*taken);
            let (first, count) = blocks(*taken);
            (first..first + count).for_each(|block| assert!(self.used.insert(block), "block {block}"));
        }
        extents
    }

    fn free(&mut self, freed: Extent) {
        assert!(self.allocator.are_in_use(&[freed]));
        self.allocator.log_freed(freed);
        self.allocator.release(freed);
        let (first, count) = blocks(freed);
        (first..first + count).for_each(|block| assert!(self.used.remove(&block), "block {block}"));
    }
}

#[test]
fn the_views_agree_with_a_plain_set_of_blocks() {
    for seed in benthic_testkit::seed::many(4) {
        let (mut random, mut allocator, mut used) = (Rng(seed), Allocator::default(), BTreeSet::new());
        let mut held: Vec<Extent> = Vec::new();
        for step in 0..400 {
            let mut logged = Logged { allocator: &mut allocator, used: &mut used };
            if random.below(5) < 2 && !held.is_empty() {
                let whole = held.swap_remove(random.below(held.len()));
                let (first, count) = blocks(whole);
                let kept = random.below(count as usize) as u64;
                logged.free(extent(first + kept, count - kept));
                held.extend((kept > 0).then(|| extent(first, kept)));
            } else {
                held.extend(logged.allocate(1 + random.below(600) as u64 * BLOCK_BYTES));
            }
            if step % 100 < 99 {
                continue;
            }
            let end = used.last().map_or(0, |last| last + 1);
            let free = (0..end).filter(|block| !used.contains(block));
            let listed = allocator.free.iter().flat_map(|(first, count)| *first..first + count);
            assert!(listed.eq(free), "seed={seed} step={step}");
            assert_eq!((allocator.end_block, allocator.used_blocks()), (end, used.len() as u64));
            let (free, end_block) = (allocator.free.clone(), allocator.end_block);
            allocator.build_free_list();
            assert_eq!((&allocator.free, allocator.end_block), (&free, end_block), "seed={seed} step={step}");
        }
    }
}

#[test]
fn a_full_data_file_of_ten_terabytes_takes_memory_only_at_its_holes() {
    // 10 TiB.
    const REGIONS: u64 = 81_920;
    let full = [0xff_u8; 4_096];
    let mut holed = full;
    holed[100..102].fill(0);
    let mut allocator = Allocator::default();
    for region in 0..REGIONS {
        let bitmap = if region % 8_192 == 5 { &holed } else { &full };
        assert!(allocator.load_region(region as u32, bitmap));
    }
    allocator.build_free_list();
    assert_eq!((allocator.free.len(), allocator.logged.bitmaps()), (10, 10));
    assert_eq!(
        (allocator.end_block, allocator.used_blocks()),
        (REGIONS * REGION_BLOCKS, allocator.end_block - 160)
    );

    // The holes, and three regions and a block behind the end.
    let extents = allocator.allocate((160 + 3 * REGION_BLOCKS + 1) * BLOCK_BYTES);
    extents.iter().for_each(|taken| allocator.log_taken(*taken));
    assert_eq!((extents.len(), allocator.free.len()), (11, 0));
    assert_eq!(allocator.logged.bitmaps(), 1, "only the last region has free blocks");

    // A terabyte is freed.
    let freed = extent(REGION_BLOCKS / 2, 8_192 * REGION_BLOCKS);
    assert!(allocator.are_in_use(&[freed]));
    allocator.log_freed(freed);
    allocator.release(freed);
    assert_eq!((allocator.free_runs(), allocator.logged.bitmaps()), (vec![freed], 3));
    let freed_bitmaps = allocator.take_dirty();
    assert_eq!(freed_bitmaps.len(), 8_193 + 9 + 4, "regions of the freed terabyte, of the holes, of the end");
}
