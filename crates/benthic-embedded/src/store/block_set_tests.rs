use super::{ALL, BlockSet, NONE, REGION_BLOCKS, REGION_BYTES};
use benthic_testkit::random::Rng;
use std::collections::BTreeSet;

/// A random range that often covers or borders whole regions and words.
fn range(random: &mut Rng) -> (u64, u64) {
    let unit = [1, 64, REGION_BLOCKS][random.below(3)];
    let first = random.below((4 * REGION_BLOCKS / unit) as usize) as u64 * unit;
    let count = (random.below(4) as u64 * unit + random.below(3) as u64).min(4 * REGION_BLOCKS - first);
    (first, count)
}

fn in_runs(set: &BlockSet, first: u64, count: u64, present: bool) -> Vec<u64> {
    let runs: Vec<_> = set.runs(first, count, present).collect();
    assert!(runs.windows(2).all(|pair| pair[0].0 + pair[0].1 < pair[1].0), "runs are as long as possible");
    runs.into_iter().flat_map(|(first, count)| first..first + count).collect()
}

fn reloaded(set: &BlockSet) -> BlockSet {
    let mut loaded = BlockSet::default();
    for region in 0..set.end() / REGION_BLOCKS {
        assert!(loaded.load(region as u32, &set.bitmap(region as u32)));
    }
    loaded
}

#[test]
fn random_changes_agree_with_a_plain_set() {
    for seed in benthic_testkit::seed::many(4) {
        let (mut random, mut set, mut plain) = (Rng(seed), BlockSet::default(), BTreeSet::new());
        for step in 0..40 {
            let ((first, count), present) = (range(&mut random), random.one_in(2));
            let before = plain.len();
            for block in first..first + count {
                if present {
                    plain.insert(block)
                } else {
                    plain.remove(&block)
                };
            }
            let what = format!("seed={seed} step={step}");
            assert_eq!(set.set(first, count, present), before.abs_diff(plain.len()) as u64, "{what}");
            assert_eq!(set.len(), plain.len() as u64, "{what}");

            let (first, count) = range(&mut random);
            let inside: Vec<u64> = plain.range(first..first + count).copied().collect();
            let outside: Vec<u64> = (first..first + count).filter(|block| !plain.contains(block)).collect();
            assert_eq!(set.count(first, count), inside.len() as u64, "{what}");
            assert_eq!(in_runs(&set, first, count, true), inside, "{what}");
            assert_eq!(in_runs(&set, first, count, false), outside, "{what}");
        }
        let (all, loaded) = (set.end(), reloaded(&set));
        assert_eq!(in_runs(&loaded, 0, all, true), plain.into_iter().collect::<Vec<_>>(), "seed={seed}");
        assert_eq!((loaded.len(), loaded.bitmaps()), (set.len(), set.bitmaps()), "seed={seed}");
    }
}

#[test]
fn only_regions_with_used_and_free_blocks_take_a_bitmap() {
    let mut set = BlockSet::default();
    set.set(0, 3 * REGION_BLOCKS, true);
    assert_eq!((set.len(), set.bitmaps()), (3 * REGION_BLOCKS, 0));
    set.set(REGION_BLOCKS, 1, false);
    assert_eq!((set.len(), set.bitmaps()), (3 * REGION_BLOCKS - 1, 1));
    set.set(REGION_BLOCKS, 1, true);
    set.set(2 * REGION_BLOCKS, REGION_BLOCKS, false);
    assert_eq!((set.len(), set.bitmaps()), (2 * REGION_BLOCKS, 0));
    assert_eq!((set.bitmap(1), set.bitmap(2)), (ALL.to_vec(), NONE.to_vec()));
}

#[test]
fn regions_load_in_order_and_may_be_missing() {
    let mut set = BlockSet::default();
    assert!(set.load(2, &ALL));
    assert!(!set.load(2, &ALL) && !set.load(1, &ALL), "regions come in order");
    assert!(!set.load(3, &ALL[1..]), "a bitmap has the length of a region");
    assert_eq!(set.runs(0, set.end(), true).collect::<Vec<_>>(), [(2 * REGION_BLOCKS, REGION_BLOCKS)]);
    assert_eq!(set.count(5 * REGION_BLOCKS, REGION_BYTES as u64), 0, "blocks after the last region are free");
}
