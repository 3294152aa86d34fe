use super::{Allocator, BLOCK_BYTES, Extent};
use benthic_testkit::random::Rng;

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
    assert!(reloaded.in_use(0) && !reloaded.in_use(20));
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
