//! Weights of regriddings in netCDF files, as ESMF, xESMF, CDO and SCRIP store them.

use crate::source::{SourceArray, SourceGroup, open};
use benthic_array::{Values, Weight, Weights};
use benthic_core::{Error, Result};
use std::path::Path;

/// The variables with the cell, the source and the weight.
const NAMES: [[&str; 3]; 2] = [["row", "col", "S"], ["dst_address", "src_address", "remap_matrix"]];
/// Limit on the size of a variable: a list of 2²⁶ numbers.
const VARIABLE_BYTES_MAX: u64 = 1 << 29;

/// The weights of a file, and the shape of the new grid.
pub struct WeightFile {
    pub weights: Weights,
    pub shape: Vec<u64>,
}

/// Reads weights for the last two axes of a selection, if the file does not tell the shape of its
/// source grid. `shape` is that of the new grid, if the file lacks it. Blocks.
///
/// # Errors
/// `InvalidArgument` if the file has no weights, or invalid ones, or no shape; those of [`open`].
pub fn read(path: &Path, selected: &[u64], shape: &[u64]) -> Result<WeightFile> {
    let (group, _) = open(path)?;
    let invalid = |message: &str| Error::invalid_argument(message);
    let names = NAMES.iter().find(|names| names.iter().all(|name| find(&group, name).is_some()));
    let names = names.ok_or_else(|| {
        invalid(
            "the file has no weights of ESMF (row, col, S) or SCRIP (dst_address, src_address, remap_matrix)",
        )
    })?;
    let [cells, sources, weights] = names.map(|name| numbers(&group, name));
    let (cells, sources, weights) = (cells?, sources?, weights?);
    if weights.len() != cells.len() || sources.len() != cells.len() {
        return Err(invalid("weights of gradients are not supported; make weights of first order"));
    }
    // Grids are in Fortran's order.
    let grid = |name: &str| -> Result<Option<Vec<u64>>> {
        let lens = find(&group, name).map(|_| numbers(&group, name)).transpose()?;
        Ok(lens.map(|lens| lens.into_iter().rev().map(|len| len as u64).collect()))
    };
    let source_shape =
        grid("src_grid_dims")?.unwrap_or_else(|| selected.iter().rev().take(2).rev().copied().collect());
    let shape = match grid("dst_grid_dims")? {
        Some(stored) if shape.is_empty() || stored == shape => stored,
        None if !shape.is_empty() => shape.to_vec(),
        Some(_) => return Err(invalid("the file has another shape of the new grid than --shape")),
        None => return Err(invalid("the file lacks the shape of the new grid; give it as --shape")),
    };
    let size = cells_of(&shape).ok_or_else(|| invalid("the new grid has 2^32 cells or more"))?;
    let source_size =
        cells_of(&source_shape).ok_or_else(|| invalid("the source grid has 2^32 cells or more"))?;
    let place = |name: &str, number: f64, size: u32| {
        if number >= 1.0 && number <= f64::from(size) && number.fract() == 0.0 {
            return Ok((number - 1.0) as u32);
        }
        let message = "the file has a weight for a cell outside the grid; cells are numbered from 1";
        Err(invalid(message).with("variable", name).with("number", number).with("cells", size))
    };
    // Weights of 0 are padding, with any numbers.
    let list = cells.into_iter().zip(sources).zip(weights).filter(|(_, weight)| *weight != 0.0);
    let list = list.map(|((cell, source), weight)| {
        let cell = place(names[0], cell, size)?;
        Ok(Weight { source: place(names[1], source, source_size)?, cell, weight })
    });
    Ok(WeightFile { weights: Weights::new(source_shape, size, list.collect::<Result<_>>()?)?, shape })
}

/// The number of cells of a grid, if 32 bits can hold it.
fn cells_of(shape: &[u64]) -> Option<u32> {
    let size = shape.iter().try_fold(1u64, |size, len| size.checked_mul(*len))?;
    u32::try_from(size).ok()
}

fn find<'g>(group: &'g SourceGroup, name: &str) -> Option<&'g SourceArray> {
    group.arrays.iter().find(|array| array.name == name)
}

/// The numbers of a variable.
fn numbers(group: &SourceGroup, name: &str) -> Result<Vec<f64>> {
    let missing = || Error::internal("a variable of the file is missing").with("variable", name);
    let array = find(group, name).ok_or_else(missing)?;
    let elements = array.shape.iter().try_fold(8u64, |size, len| size.checked_mul(*len));
    if elements.is_none_or(|size_bytes| size_bytes > VARIABLE_BYTES_MAX) {
        let message = "the file has too many weights; regrid to a part of the cells at a time";
        return Err(Error::limit_exceeded(message).with("variable", name));
    }
    let data = array.elements.read(&vec![0; array.shape.len()], &array.shape)?;
    Ok(Values { dtype: array.dtype, shape: array.shape.clone(), data }.into_floats(None))
}
