//! Random arrays, selections and reductions: the result is the expected one, and has the same bits
//! whether the class or the client computes it.

use super::{CODECS, Expected, Numbers, Stored, encode, place};
use benthic_array::{
    Array, AxisRole, Bounded, Dtype, Groups, Mask, NumberKind, ReadStats, Reduction, ReductionKind, Slice,
    Values,
};
use benthic_core::pushdown::Pushdown;
use benthic_core::{ErrorKind, Pool, Result};
use std::sync::Arc;

pub fn stored(numbers: &mut Numbers, shape: &[u64]) -> Stored {
    let inner: Vec<u64> = shape.iter().map(|len| 1 + numbers.below(len.clamp(&1, &4) + 1)).collect();
    let is_sharded = numbers.below(3) == 0;
    let chunk =
        inner.iter().map(|len| if is_sharded { len * (1 + numbers.below(3)) } else { *len }).collect();
    Stored {
        chunk,
        inner: is_sharded.then_some(inner),
        codec: numbers.pick(&CODECS),
        is_big_endian: numbers.below(2) == 0,
        is_transposed: numbers.below(3) == 0,
        is_index_at_start: numbers.below(2) == 0,
    }
}

pub fn slice(numbers: &mut Numbers, len: u64) -> Slice {
    if len == 0 || numbers.below(3) == 0 {
        return Slice::all(len);
    }
    let (start, step) = (numbers.below(len), 1 + numbers.below(4));
    Slice { start, step, count: numbers.below((len - start).div_ceil(step) + 1) }
}

fn role(numbers: &mut Numbers, count: u64) -> AxisRole {
    match numbers.below(3) {
        0 => AxisRole::Keep {},
        1 => AxisRole::Reduce {},
        _ => {
            let groups = 1 + numbers.below(4);
            // Neighbours are often in the same group, and some positions are in none.
            let mut group = 0;
            let of = (0..count).map(|_| {
                if numbers.below(2) == 0 {
                    group = numbers.below(groups + 1);
                }
                if group == groups { Groups::NONE } else { group as u32 }
            });
            AxisRole::Group { groups: Groups { of: Bounded(of.collect()), count: groups as u32 } }
        }
    }
}

pub fn kinds() -> Vec<ReductionKind> {
    vec![
        ReductionKind::Count {},
        ReductionKind::Sum {},
        ReductionKind::Product {},
        ReductionKind::Min {},
        ReductionKind::Max {},
        ReductionKind::Mean {},
        ReductionKind::Variance { ddof: 1 },
        ReductionKind::Std { ddof: 0 },
        ReductionKind::Argmin {},
        ReductionKind::Argmax {},
        ReductionKind::Any {},
        ReductionKind::All {},
        ReductionKind::Histogram { edges: Bounded(vec![-50.0, 0.0, 10.0, 99.0]) },
        ReductionKind::Quantile { q: Bounded(vec![0.0, 0.3, 0.5, 0.99, 1.0]) },
        ReductionKind::Summary {},
    ]
}

/// The result of one cell. `None` for the smallest or largest of no values, if they are integers or
/// an axis has no position.
fn expected(
    kind: &ReductionKind,
    dtype: Dtype,
    values: &[(u64, f64)],
    skip_nan: bool,
    reduces_nothing: bool,
) -> Option<Vec<f64>> {
    let kept: Vec<(u64, f64)> =
        values.iter().copied().filter(|(_, value)| !skip_nan || !value.is_nan()).collect();
    let numbers = || kept.iter().map(|(_, value)| *value);
    let first_nan = kept.iter().find(|(_, value)| value.is_nan());
    let count = kept.len() as f64;
    let best = |is_better: fn(f64, f64) -> bool| {
        let fold = |best: Option<(u64, f64)>, new: &(u64, f64)| match best {
            Some(best) if !is_better(new.1, best.1) => Some(best),
            _ => Some(*new),
        };
        first_nan.copied().or_else(|| kept.iter().fold(None, fold))
    };
    let (least, most) = (best(|new, old| new < old), best(|new, old| new > old));
    let is_float = dtype.number_kind() == NumberKind::Float;
    let none = (is_float && !reduces_nothing).then_some(f64::NAN);
    let value_of = |best: Option<(u64, f64)>| best.map(|(_, value)| value).or(none);
    let variance = |ddof: f64| {
        let mean = numbers().sum::<f64>() / count;
        let squares: f64 = numbers().map(|value| (value - mean) * (value - mean)).sum();
        if count > ddof { squares / (count - ddof) } else { f64::NAN }
    };
    // The cases have too few different values for an error.
    let quantile = |q: f64| {
        let mut sorted: Vec<f64> = numbers().collect();
        if sorted.is_empty() || first_nan.is_some() {
            return f64::NAN;
        }
        sorted.sort_by(f64::total_cmp);
        let position = (sorted.len() - 1) as f64 * q;
        let (low, high) = (sorted[position.floor() as usize], sorted[position.ceil() as usize]);
        low + (high - low) * position.fract()
    };
    let summary = || {
        let known = || values.iter().map(|(_, value)| *value).filter(|value| !value.is_nan());
        let count = known().count() as f64;
        let (min, max) = (known().fold(f64::INFINITY, f64::min), known().fold(f64::NEG_INFINITY, f64::max));
        vec![min, max, count, values.len() as f64 - count]
    };
    let one = match kind {
        ReductionKind::Summary {} => return Some(summary()),
        ReductionKind::Quantile { q } => return Some(q.0.iter().map(|q| quantile(*q)).collect()),
        ReductionKind::Count {} => values.iter().filter(|(_, value)| !value.is_nan()).count() as f64,
        ReductionKind::Sum {} => numbers().sum::<f64>() + 0.0,
        ReductionKind::Product {} => match is_float {
            true => numbers().product(),
            false => {
                let wrapped = numbers()
                    .fold(1u64, |product, value| product.wrapping_mul((value as i64).cast_unsigned()));
                match dtype.number_kind() == NumberKind::Signed || dtype == Dtype::Bool {
                    true => wrapped.cast_signed() as f64,
                    false => wrapped as f64,
                }
            }
        },
        ReductionKind::Min {} => value_of(least)?,
        ReductionKind::Max {} => value_of(most)?,
        ReductionKind::Mean {} => numbers().sum::<f64>() / count,
        ReductionKind::Variance { ddof } => variance(f64::from(*ddof)),
        ReductionKind::Std { ddof } => variance(f64::from(*ddof)).sqrt(),
        ReductionKind::Argmin {} => least?.0 as f64,
        ReductionKind::Argmax {} => most?.0 as f64,
        ReductionKind::Any {} => numbers().any(|value| value != 0.0).into(),
        ReductionKind::All {} => numbers().all(|value| value != 0.0).into(),
        ReductionKind::Histogram { edges: Bounded(edges) } => {
            let bin = |index: usize| {
                let is_last = index + 2 == edges.len();
                let is_in = |value: f64| {
                    value >= edges[index]
                        && (value < edges[index + 1] || is_last && value == edges[index + 1])
                };
                numbers().filter(|value| is_in(*value)).count() as f64
            };
            return Some((0..edges.len() - 1).map(bin).collect());
        }
    };
    Some(vec![one])
}

pub fn floats(values: &Values) -> Vec<f64> {
    let element = |element: &[u8]| {
        let json = benthic_array::element_json(values.dtype, element);
        json.as_f64().or_else(|| json.as_bool().map(f64::from)).unwrap_or_else(|| match json.as_str() {
            Some("Infinity") => f64::INFINITY,
            Some("-Infinity") => f64::NEG_INFINITY,
            _ => f64::NAN,
        })
    };
    values.data.chunks_exact(values.dtype.size_bytes()).map(element).collect()
}

/// Products and variances are rounded in another order.
fn is_close(kind: &ReductionKind, found: f64, expected: f64) -> bool {
    let tolerance = match kind {
        ReductionKind::Product {}
        | ReductionKind::Variance { .. }
        | ReductionKind::Std { .. }
        | ReductionKind::Quantile { .. } => 1e-9 * expected.abs().max(1e-3),
        _ => 0.0,
    };
    found == expected || (found.is_nan() && expected.is_nan()) || (found - expected).abs() <= tolerance
}

pub async fn both<T: PartialEq + std::fmt::Debug>(
    context: &str,
    run: impl AsyncFn(Pushdown) -> Result<T>,
) -> Option<T> {
    let never = run(Pushdown::Never).await;
    for pushdown in [Pushdown::Always, Pushdown::Auto] {
        match (run(pushdown).await, &never) {
            (Ok(found), Ok(never)) => assert_eq!(found, *never, "{context} {pushdown:?}"),
            (Err(found), Err(never)) => assert_eq!(found.kind(), never.kind(), "{context}: {found}"),
            (found, never) => panic!("{context} {pushdown:?}: {found:?}, but {never:?}"),
        }
    }
    match never {
        Ok(found) => Some(found),
        Err(error) if error.kind() == ErrorKind::InvalidArgument => None,
        Err(error) => panic!("{context}: {error}"),
    }
}

/// Runs this number of cases. Returns the number of objects on which the class ran.
pub async fn run(pool: &Arc<dyn Pool>, cases: u64) -> u64 {
    let work = Arc::new(ReadStats::default());
    for seed in benthic_testkit::seed::many(cases) {
        let mut numbers = Numbers(0x9E37_79B9_7F4A_7C15 ^ (seed + 1));
        let dtype = Dtype::ALL[seed as usize % Dtype::ALL.len()];
        let axes = numbers.below(4) as usize;
        let shape: Vec<u64> = (0..axes).map(|_| numbers.pick(&[0, 1, 5, 9, 13, 17])).collect();
        let mut array = Expected::random(&mut numbers, dtype, &shape);
        let fill =
            if dtype.number_kind() == NumberKind::Float && numbers.below(2) == 0 { f64::NAN } else { 1.0 };
        // Half of the array is not stored.
        if numbers.below(2) == 0 {
            let half = array.values.len() / 2;
            array.values[half..].fill(fill);
        }
        let stored = stored(&mut numbers, &shape);
        let context = format!("seed {seed}: {dtype} {shape:?} {stored:?}");
        let opened = stored.store(&place(pool, &format!("case-{seed}")), &array, fill).await;
        let slices: Vec<Slice> = shape.iter().map(|len| slice(&mut numbers, *len)).collect();
        check_read(&context, &opened, &array, &slices, &work).await;
        let axes: Vec<AxisRole> = slices.iter().map(|slice| role(&mut numbers, slice.count)).collect();
        for kind in kinds() {
            let skip_nan = numbers.below(2) == 0;
            let reduction = Reduction { kind, axes: Bounded(axes.clone()), skip_nan, decoding: None };
            check_reduction(&context, &opened, &array, &slices, &reduction, None, &work).await;
            if dtype.number_kind() == NumberKind::Float {
                let mask = mask(&mut numbers, &slices);
                check_reduction(&context, &opened, &array, &slices, &reduction, Some(mask), &work).await;
            }
        }
    }
    work.pushed_chunks()
}

async fn check_read(
    context: &str,
    opened: &Array,
    array: &Expected,
    slices: &[Slice],
    work: &Arc<ReadStats>,
) {
    let context = format!("{context} read {slices:?}");
    let values = both(&context, async |pushdown| opened.read(slices, pushdown, work).await).await.unwrap();
    let expected: Vec<u8> =
        array.selected(slices).into_iter().flat_map(|(_, value)| encode(array.dtype, value, false)).collect();
    assert_eq!(values.data, expected, "{context}");
    assert_eq!(values.shape, slices.iter().map(|slice| slice.count).collect::<Vec<_>>(), "{context}");
}

/// A mask that repeats along some axes. Often it keeps only the end of the selection, so that it
/// leaves out whole chunks.
fn mask(numbers: &mut Numbers, slices: &[Slice]) -> Mask {
    let lens = slices.iter().map(|slice| if numbers.below(3) == 0 { 1 } else { slice.count });
    let shape: Vec<u64> = lens.collect();
    let len: u64 = shape.iter().product();
    let start = numbers.pick(&[0, 0, len / 2, len]);
    Mask::new(shape, (0..len).map(|index| index >= start && numbers.below(4) > 0)).unwrap()
}

fn keeps(mask: &Mask, index: &[u64]) -> bool {
    let axes = mask.shape.0.iter().zip(index);
    let bit = axes.fold(0, |bit, (len, index)| bit * len + if *len == 1 { 0 } else { *index });
    mask.bits[bit as usize / 8] & 1 << (bit % 8) != 0
}

async fn check_reduction(
    context: &str,
    opened: &Array,
    array: &Expected,
    slices: &[Slice],
    reduction: &Reduction,
    mask: Option<Mask>,
    work: &Arc<ReadStats>,
) {
    let context = format!("{context} {slices:?} {reduction:?} {mask:?}");
    let reduce = async |pushdown| {
        let (reduction, mask) = (reduction.clone(), mask.clone());
        opened.reduce_masked(slices, reduction, mask, pushdown, work).await
    };
    let found = both(&context, reduce).await;
    let roles = &reduction.axes.0;
    // `None` for an element in no group.
    let cell_of = |index: &[u64]| -> Option<Vec<u64>> {
        let mut cell = Vec::new();
        for (index, role) in index.iter().zip(roles) {
            match role {
                AxisRole::Keep {} => cell.push(*index),
                AxisRole::Reduce {} => {}
                AxisRole::Group { groups } => match groups.of.0[*index as usize] {
                    Groups::NONE => return None,
                    group => cell.push(group.into()),
                },
            }
        }
        Some(cell)
    };
    let len = |(role, slice): (&AxisRole, &Slice)| match role {
        AxisRole::Keep {} => Some(slice.count),
        AxisRole::Reduce {} => None,
        AxisRole::Group { groups } => Some(groups.count.into()),
    };
    let shape: Vec<u64> = roles.iter().zip(slices).filter_map(len).collect();
    let mut selected = array.selected(slices);
    for (index, value) in &mut selected {
        if mask.as_ref().is_some_and(|mask| !keeps(mask, index)) {
            *value = f64::NAN;
        }
    }
    let cells = super::positions(&shape);
    let reduces_nothing =
        roles.iter().zip(slices).any(|(role, slice)| *role == AxisRole::Reduce {} && slice.count == 0);
    let has_groups = roles.iter().any(|role| matches!(role, AxisRole::Group { .. }));
    if has_groups && matches!(reduction.kind, ReductionKind::Argmin {} | ReductionKind::Argmax {}) {
        assert!(found.is_none(), "{context}: {found:?}");
        return;
    }
    let expected: Option<Vec<f64>> = cells
        .iter()
        .map(|cell| {
            let values = selected.iter().filter(|(index, _)| cell_of(index).as_ref() == Some(cell));
            let values: Vec<(u64, f64)> = (0..).zip(values.map(|(_, value)| *value)).collect();
            expected(&reduction.kind, array.dtype, &values, reduction.skip_nan, reduces_nothing)
        })
        .collect::<Option<Vec<Vec<f64>>>>()
        .map(|cells| cells.concat());
    match (found, expected) {
        (None, None) => {}
        (Some(found), Some(expected)) => {
            assert_eq!(found.dtype, reduction.result_dtype(array.dtype), "{context}");
            let floats = floats(&found);
            assert_eq!(floats.len(), expected.len(), "{context}");
            for (found, expected) in floats.iter().zip(&expected) {
                assert!(is_close(&reduction.kind, *found, *expected), "{context}: {found} is not {expected}");
            }
        }
        (found, expected) => panic!("{context}: {found:?} is not {expected:?}"),
    }
}
