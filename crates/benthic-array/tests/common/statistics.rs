//! Statistics of chunks: they change no result, and are void after any change of a chunk.

use super::{Expected, Numbers, Stored, encode, object, place, suite};
use benthic_array::{
    Array, AxisRole, Bounded, Decoding, Dtype, IndexProgress, ReadStats, Reduction, ReductionKind, Values,
};
use benthic_core::pushdown::Pushdown;
use benthic_core::{ErrorKind, Pool, WriteOp};
use std::sync::Arc;

const PAGE: &str = ".benthic-statistics/0";

/// The number of chunks of which statistics were computed.
async fn index(array: &Array, pushdown: Pushdown) -> u64 {
    let progress = IndexProgress::default();
    array.index(pushdown, &Arc::default(), &progress).await.unwrap();
    assert_eq!(progress.done(), progress.chunks());
    progress.computed()
}

/// A result, and the number of chunks that were skipped.
async fn reduce(
    array: &Array,
    kind: ReductionKind,
    decoding: &Decoding,
    pushdown: Pushdown,
) -> (Result<Values, ErrorKind>, u64) {
    let stats = Arc::new(ReadStats::default());
    let axes = Bounded(vec![AxisRole::Reduce {}; array.metadata().shape.len()]);
    let reduction = Reduction { kind, axes, skip_nan: true, decoding: Some(decoding.clone()) };
    let reduced = array.reduce(&array.whole(), reduction, pushdown, &stats).await;
    assert_eq!(stats.chunks(), stats.done_chunks());
    (reduced.map_err(|error| error.kind()), stats.pruned_chunks())
}

fn between(min: f64, max: f64) -> Decoding {
    Decoding { wanted_min: Some(min), wanted_max: Some(max), ..Decoding::default() }
}

async fn count(array: &Array, decoding: &Decoding) -> (u64, u64) {
    let mut found = Vec::new();
    for pushdown in [Pushdown::Never, Pushdown::Always, Pushdown::Auto] {
        let (values, pruned) = reduce(array, ReductionKind::Count {}, decoding, pushdown).await;
        found.push((u64::from_le_bytes(values.unwrap().data.try_into().unwrap()), pruned));
    }
    assert!(found.iter().all(|one| *one == found[0]), "{found:?}");
    found[0]
}

pub async fn run(pool: &Arc<dyn Pool>) {
    random(pool).await;
    changes(pool).await;
    growth(pool).await;
}

/// Random arrays, codecs and decodings: every reduction has the same bits with statistics.
async fn random(pool: &Arc<dyn Pool>) {
    let mut pruned_chunks = 0;
    for seed in benthic_testkit::seed::many(33) {
        let mut numbers = Numbers(0x0123_4567_89AB_CDEF ^ (seed + 1));
        let dtype = Dtype::ALL[seed as usize % Dtype::ALL.len()];
        let mut array = Expected::random(&mut numbers, dtype, &[23, 6]);
        // Neighbours have similar values, as in nature.
        array.values.sort_by(f64::total_cmp);
        let stored = Stored {
            chunk: vec![4, 4],
            inner: (numbers.below(3) == 0).then(|| vec![2, 4]),
            codec: numbers.pick(&super::CODECS),
            is_big_endian: false,
            is_transposed: false,
            is_index_at_start: false,
        };
        let opened = stored.store(&place(pool, &format!("statistics-{seed}")), &array, 1.0).await;
        let missing = if numbers.below(2) == 0 { vec![encode(dtype, 1.0, false).into()] } else { Vec::new() };
        let low = numbers.below(300) as f64 - 150.0;
        let mut decoding = Decoding {
            missing: Bounded(missing),
            scale: numbers.pick(&[None, Some(0.1), Some(-3.0), Some(0.0), Some(f64::NAN)]),
            offset: numbers.pick(&[None, Some(7.3), Some(f64::INFINITY)]),
            is_single: numbers.below(2) == 0,
            valid_max: numbers.pick(&[None, Some(100.0)]),
            wanted_min: Some(low),
            wanted_max: numbers.pick(&[None, Some(low), Some(low + 20.0)]),
            ..Decoding::default()
        };
        if numbers.below(4) == 0 {
            decoding.wanted_min = None;
        }
        let mut before = Vec::new();
        for kind in suite::kinds() {
            before.push(reduce(&opened, kind, &decoding, Pushdown::Never).await);
        }
        assert!(before.iter().all(|(_, pruned)| *pruned == 0));
        index(&opened, numbers.pick(&[Pushdown::Never, Pushdown::Always])).await;
        for (kind, (expected, _)) in suite::kinds().into_iter().zip(before) {
            // This one counts missing values.
            if kind == (ReductionKind::Summary {}) {
                continue;
            }
            for pushdown in [Pushdown::Never, Pushdown::Always, Pushdown::Auto] {
                let context = format!("seed {seed}: {dtype} {stored:?} {decoding:?} {kind:?} {pushdown:?}");
                let (found, pruned) = reduce(&opened, kind.clone(), &decoding, pushdown).await;
                assert_eq!(found, expected, "{context}");
                pruned_chunks += pruned;
            }
        }
    }
    assert!(pruned_chunks > 0, "statistics skipped nothing");
}

/// Eight chunks of four values: 0 to 3, 10 to 13 and so on.
async fn ramp(pool: &Arc<dyn Pool>, path: &str) -> Array {
    let values = (0..32u32).map(|index| f64::from(index / 4 * 10 + index % 4)).collect();
    let array = Expected { dtype: Dtype::Int16, shape: vec![32], values };
    let stored = Stored {
        chunk: vec![4],
        inner: None,
        codec: "zstd",
        is_big_endian: false,
        is_transposed: false,
        is_index_at_start: false,
    };
    stored.store(&place(pool, path), &array, 500.0).await
}

async fn changes(pool: &Arc<dyn Pool>) {
    let path = "statistics-changes";
    let array = ramp(pool, path).await;
    let wanted = between(11.0, 22.0);
    assert_eq!(count(&array, &wanted).await, (6, 0));
    assert_eq!(index(&array, Pushdown::Always).await, 8);
    assert_eq!(index(&array, Pushdown::Always).await, 0, "nothing changed");
    assert_eq!(count(&array, &wanted).await, (6, 6));
    // Without a range, and if missing values change the result, every chunk is decoded.
    assert_eq!(count(&array, &Decoding::default()).await, (32, 0));
    let axes = Bounded(vec![AxisRole::Reduce {}]);
    let kept =
        Reduction { kind: ReductionKind::Sum {}, axes, skip_nan: false, decoding: Some(wanted.clone()) };
    let stats = Arc::new(ReadStats::default());
    let sum = array.reduce(&array.whole(), kept, Pushdown::Always, &stats).await.unwrap();
    assert!(f64::from_le_bytes(sum.data.try_into().unwrap()).is_nan());
    assert_eq!(stats.pruned_chunks(), 0);
    // A write that knows nothing of statistics: chunk 0 gets the data of chunk 1.
    let chunk = |number: u64| object(&format!("{path}/c/{number}"));
    let ten = pool.read_range(&chunk(1), 0, 1 << 20).await.unwrap();
    pool.write_full(&chunk(0), ten.clone()).await.unwrap();
    assert_eq!(count(&array, &wanted).await, (9, 5));
    // A change of an attribute, and of a chunk that was removed and made again.
    pool.write(&chunk(7), WriteOp::new().set_xattr("checked", "yes")).await.unwrap();
    assert_eq!(count(&array, &wanted).await, (9, 4));
    let data = pool.read_range(&chunk(6), 0, 1 << 20).await.unwrap();
    pool.remove(&chunk(6)).await.unwrap();
    assert_eq!(count(&array, &wanted).await, (9, 3));
    pool.write_full(&chunk(6), data).await.unwrap();
    assert_eq!(count(&array, &wanted).await, (9, 3));
    assert_eq!(index(&array, Pushdown::Never).await, 3);
    assert_eq!(count(&array, &wanted).await, (9, 5));
    // A missing value that the statistics have, and one that they do not have.
    let missing = |value: i16| Decoding {
        missing: Bounded(vec![value.to_le_bytes().to_vec().into()]),
        ..wanted.clone()
    };
    assert_eq!(count(&array, &missing(11)).await, (7, 5));
    damage(pool, path, &array, &wanted).await;
}

/// A damaged page is found, changes nothing, and is written again.
async fn damage(pool: &Arc<dyn Pool>, path: &str, array: &Array, wanted: &Decoding) {
    let page = object(&format!("{path}/{PAGE}"));
    let good = pool.read_range(&page, 0, 1 << 20).await.unwrap();
    let mut flipped = good.to_vec();
    flipped[good.len() / 2] ^= 1;
    for bad in [flipped, good[..good.len() - 5].to_vec(), Vec::new(), vec![0; 1 << 21]] {
        pool.write_full(&page, bad).await.unwrap();
        assert_eq!(count(array, wanted).await, (9, 0));
        let check = array.check(Pushdown::Never, &Arc::default()).await.unwrap();
        let found: Vec<_> =
            check.findings.iter().map(|finding| (finding.object.name(), finding.error.kind())).collect();
        assert_eq!(found, [(page.name(), ErrorKind::Corrupt)]);
    }
    assert_eq!(index(array, Pushdown::Always).await, 8);
    assert_eq!(count(array, wanted).await, (9, 5));
    assert!(array.check(Pushdown::Never, &Arc::default()).await.unwrap().findings.is_empty());
}

/// Appending reveals elements of the last chunk; another format makes all statistics void.
async fn growth(pool: &Arc<dyn Pool>) {
    let path = "statistics-growth";
    let whole = ramp(pool, path).await;
    let metadata = object(&format!("{path}/zarr.json"));
    let document = pool.read_range(&metadata, 0, 1 << 20).await.unwrap();
    let with = async |old: &str, new: &str| {
        let changed = String::from_utf8(document.to_vec()).unwrap().replace(old, new);
        pool.write_full(&metadata, changed).await.unwrap();
        Array::open(place(pool, path)).await.unwrap()
    };
    let short = with("[32]", "[30]").await;
    assert_eq!(index(&short, Pushdown::Never).await, 8);
    // The last chunk has 70 to 73, of which only 70 and 71 are in the array.
    assert_eq!(count(&short, &between(72.0, 73.0)).await, (0, 8));
    assert_eq!(count(&whole, &between(72.0, 73.0)).await, (2, 7));
    assert_eq!(index(&whole, Pushdown::Never).await, 1);
    assert_eq!(count(&whole, &between(72.0, 73.0)).await, (2, 7));
    let unsigned = with("int16", "uint16").await;
    assert_eq!(count(&unsigned, &between(0.0, 1.0)).await.1, 0);
}
