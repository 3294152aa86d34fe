//! Random weights on random arrays: the cells are those of a slow matrix product, and have the same
//! bits whether the class or the client computes them.

use super::suite::{both, floats, slice, stored};
use super::{Expected, Numbers, encode, place, positions};
use benthic_array::{Bounded, Decoding, Dtype, NumberKind, ReadStats, Regrid, Slice, Weight, Weights};
use benthic_core::Pool;
use std::sync::Arc;

/// Weights of these source axes. Some are zero, and some are repeated. Those of a case are eighths,
/// so that sums are exact in any order, or have all digits.
fn weights(numbers: &mut Numbers, sources: u64, cells: u64, is_exact: bool) -> Vec<Weight> {
    let len = if sources * cells == 0 { 0 } else { numbers.below(3 * cells + 2) };
    let weight = |numbers: &mut Numbers| {
        let eighths = numbers.below(17) as f64 / 8.0 - 0.5;
        Weight {
            source: numbers.below(sources) as u32,
            cell: numbers.below(cells) as u32,
            weight: if is_exact { eighths } else { eighths / 7.0 },
        }
    };
    let mut list: Vec<Weight> = (0..len).map(|_| weight(numbers)).collect();
    // Weights of neighbouring sources, as those of interpolations.
    if sources > 1 && numbers.below(2) == 0 {
        list.extend((0..cells.min(sources - 1)).flat_map(|cell| {
            [0, 1].map(|next| Weight { source: (cell + next) as u32, cell: cell as u32, weight: 0.5 })
        }));
    }
    list.extend(list.clone().into_iter().take(2));
    list
}

/// The cell of the elements, and the sum of the absolute values of its terms.
fn expected(terms: &[(f64, f64)], missing_max: Option<f64>) -> (f64, f64) {
    let terms: Vec<(f64, f64)> = terms.iter().copied().filter(|(weight, _)| *weight != 0.0).collect();
    if terms.is_empty() {
        return (f64::NAN, 0.0);
    }
    let size = terms.iter().map(|(weight, value)| (weight * value).abs()).filter(|term| !term.is_nan()).sum();
    let sum = |terms: &[(f64, f64)]| terms.iter().map(|(weight, value)| weight * value).sum::<f64>();
    let Some(missing_max) = missing_max else { return (sum(&terms), size) };
    let valid: Vec<(f64, f64)> = terms.into_iter().filter(|(_, value)| !value.is_nan()).collect();
    let part: f64 = valid.iter().map(|(weight, _)| weight).sum();
    let is_missing = part < (1.0 - missing_max).clamp(1e-6, 1.0 - 1e-6);
    if is_missing { (f64::NAN, 0.0) } else { (sum(&valid) / part, size / part) }
}

/// Runs this number of cases. Returns the number of objects on which the class ran.
pub async fn run(pool: &Arc<dyn Pool>, cases: u64) -> u64 {
    let work = Arc::new(ReadStats::default());
    for seed in benthic_testkit::seed::many(cases) {
        let mut numbers = Numbers(0x2545_F491_4F6C_DD1D ^ (seed + 1));
        let dtype = Dtype::ALL[seed as usize % Dtype::ALL.len()];
        let axes = 1 + numbers.below(4) as usize;
        let shape: Vec<u64> = (0..axes).map(|_| numbers.pick(&[1, 2, 5, 9, 13])).collect();
        let array = Expected::random(&mut numbers, dtype, &shape);
        let is_float = dtype.number_kind() == NumberKind::Float;
        let fill = if is_float && numbers.below(2) == 0 { f64::NAN } else { 1.0 };
        let stored = stored(&mut numbers, &shape);
        let opened = stored.store(&place(pool, &format!("regrid-{seed}")), &array, fill).await;
        let slices: Vec<Slice> = shape.iter().map(|len| slice(&mut numbers, *len)).collect();
        let counts: Vec<u64> = slices.iter().map(|slice| slice.count).collect();
        let outer = counts.len() - 1 - numbers.below(2).min(counts.len() as u64 - 1) as usize;
        let source_shape = counts[outer..].to_vec();
        let (sources, cells) = (source_shape.iter().product::<u64>(), numbers.below(12));
        let is_exact = numbers.below(2) == 0;
        let list = weights(&mut numbers, sources, cells, is_exact);
        // A missing integer.
        let missing = (!is_float).then(|| encode(dtype, 1.0, false).into());
        let decoding = missing.filter(|_| numbers.below(2) == 0).map(|missing| Decoding {
            missing: Bounded(vec![missing]),
            scale: Some(0.5),
            ..Decoding::default()
        });
        for missing_max in [None, Some(numbers.pick(&[0.0, 0.25, 0.5, 1.0]))] {
            let context =
                format!("seed {seed}: {dtype} {shape:?} {stored:?} {slices:?} {list:?} {missing_max:?}");
            let weights = Weights::new(source_shape.clone(), cells as u32, list.clone()).unwrap();
            let regrid = Regrid { weights, missing_max, decoding: decoding.clone() };
            let run = async |pushdown| opened.regrid(&slices, regrid.clone(), pushdown, &work).await;
            let found = both(&context, run).await.unwrap();
            assert_eq!(found.shape, [&counts[..outer], &[cells]].concat(), "{context}");
            let mut values: Vec<f64> = array.selected(&slices).into_iter().map(|(_, value)| value).collect();
            if decoding.is_some() {
                values
                    .iter_mut()
                    .for_each(|value| *value = if *value == 1.0 { f64::NAN } else { *value * 0.5 });
            }
            let cell_of = |place: usize, cell: u64| {
                let of_cell = list.iter().filter(|weight| u64::from(weight.cell) == cell);
                let value = |weight: &Weight| values[place * sources as usize + weight.source as usize];
                let terms: Vec<(f64, f64)> = of_cell.map(|weight| (weight.weight, value(weight))).collect();
                expected(&terms, missing_max)
            };
            let places = 0..positions(&counts[..outer]).len();
            let cells = places.flat_map(|place| (0..cells).map(move |cell| (place, cell)));
            for ((place, cell), found) in cells.zip(floats(&found)) {
                let (expected, size) = cell_of(place, cell);
                let tolerance = if is_exact { 0.0 } else { 1e-14 * size };
                let is_close = found == expected || (found - expected).abs() <= tolerance;
                assert!(
                    is_close || found.is_nan() && expected.is_nan(),
                    "{context}: {place} {cell}: {found} is not {expected}"
                );
            }
        }
    }
    work.pushed_chunks()
}
