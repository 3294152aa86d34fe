//! Arrays: reading and reducing them.

use crate::errors::to_exception;
use crate::runtime::wait;
use crate::slot::Slot;
use crate::store::{Shared, Store};
use benthic_array::{
    ArrayAddress, AxisRole, Bounded, Decoding, Groups, IndexProgress, Mask, Place, ReadStats, Reduction,
    ReductionKind, Regrid, Slice, Values, Weight, Weights,
};
use benthic_core::codec::Wire;
use benthic_core::{Error, Result};
use bytes::Bytes;
use pyo3::prelude::{Bound, PyRef, PyResult, Python};
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyByteArray, PyBytes};
use pyo3::{FromPyObject, pyclass, pymethods};
use std::sync::Arc;

#[pyclass(frozen)]
pub struct Array {
    array: Arc<Slot<benthic_array::Array>>,
}

/// Format version, type, shape, dimensions, chunk shape, inner chunk shape, codecs, document with
/// the attributes.
type Facts<'py> = (
    u8,
    &'static str,
    Vec<u64>,
    Vec<Option<String>>,
    Vec<u64>,
    Option<Vec<u64>>,
    Vec<String>,
    Bound<'py, PyBytes>,
);

/// Number of objects: touched, reduced or selected by the class, not stored; bytes transferred;
/// objects that statistics excluded.
type StatsFacts = (u64, u64, u64, u64, u64);

/// The smallest and the largest value.
type Range = (Option<f64>, Option<f64>);

/// Missing values, valid stored values, scale, offset, wanted decoded values, whether in float32.
type DecodingFacts = (Vec<Vec<u8>>, Range, Option<f64>, Option<f64>, Range, bool);

fn decoding((missing, valid, scale, offset, wanted, is_single): DecodingFacts) -> Decoding {
    Decoding {
        missing: Bounded(missing.into_iter().map(Bytes::from).collect()),
        valid_min: valid.0,
        valid_max: valid.1,
        scale,
        offset,
        is_single,
        wanted_min: wanted.0,
        wanted_max: wanted.1,
    }
}

/// The role of an axis in a reduction.
#[derive(FromPyObject)]
enum AxisFacts {
    Reduced(bool),
    /// The number of groups, and the group of each position.
    Groups((u32, Vec<u32>)),
}

fn role(facts: AxisFacts) -> AxisRole {
    match facts {
        AxisFacts::Reduced(is_reduced) => AxisRole::reduce_if(is_reduced),
        AxisFacts::Groups((count, of)) => AxisRole::Group { groups: Groups { count, of: Bounded(of) } },
    }
}

/// Type, shape, elements, statistics.
type ReadResult<'py> = (&'static str, Vec<u64>, Bound<'py, PyByteArray>, StatsFacts);

/// The place of an array or group, `POOL[:NS][/PATH]`.
///
/// # Errors
/// `InvalidArgument`; those of opening the pool.
pub async fn place(shared: &Shared, address: &str) -> Result<Place> {
    let ArrayAddress { pool, path } = address.parse()?;
    Ok(Place { pool: shared.pool(&pool.pool).await?, namespace: pool.namespace, path })
}

impl Array {
    pub async fn open(shared: &Shared, address: &str) -> Result<Array> {
        let array = benthic_array::Array::open(place(shared, address).await?).await?;
        Ok(Array { array: shared.slots().add(array) })
    }
}

/// `numbers` are the edges of a histogram or the quantiles.
fn kind(name: &str, ddof: u32, numbers: Vec<f64>) -> Result<ReductionKind> {
    Ok(match name {
        "count" => ReductionKind::Count {},
        "sum" => ReductionKind::Sum {},
        "prod" => ReductionKind::Product {},
        "min" => ReductionKind::Min {},
        "max" => ReductionKind::Max {},
        "mean" => ReductionKind::Mean {},
        "var" => ReductionKind::Variance { ddof },
        "std" => ReductionKind::Std { ddof },
        "argmin" => ReductionKind::Argmin {},
        "argmax" => ReductionKind::Argmax {},
        "any" => ReductionKind::Any {},
        "all" => ReductionKind::All {},
        "histogram" => ReductionKind::Histogram { edges: Bounded(numbers) },
        "quantile" => ReductionKind::Quantile { q: Bounded(numbers) },
        other => {
            let message = "unknown reduction; there are count, sum, prod, min, max, mean, var, std, argmin, argmax, any, \
                all, histogram and quantile";
            return Err(Error::invalid_argument(message).with("got", other));
        }
    })
}

fn slices(slices: &[(u64, u64, u64)]) -> Vec<Slice> {
    slices.iter().map(|(start, step, count)| Slice { start: *start, step: *step, count: *count }).collect()
}

fn result<'py>(py: Python<'py>, values: &Values, stats: &ReadStats) -> ReadResult<'py> {
    let stats = (
        stats.chunks(),
        stats.pushed_chunks(),
        stats.missing_chunks(),
        stats.moved_bytes(),
        stats.pruned_chunks(),
    );
    (values.dtype.name(), values.shape.clone(), PyByteArray::new(py, &values.data), stats)
}

#[pymethods]
impl Array {
    fn describe<'py>(&self, py: Python<'py>) -> PyResult<Facts<'py>> {
        let array = self.array.get().map_err(|error| to_exception(&error))?;
        let metadata = array.metadata();
        let format = &metadata.format;
        Ok((
            metadata.zarr_format,
            format.dtype.name(),
            metadata.shape.clone(),
            metadata.dimensions.clone(),
            format.shape.0.clone(),
            format.inner_shape().map(<[u64]>::to_vec),
            metadata.codecs.clone(),
            PyBytes::new(py, &metadata.document),
        ))
    }

    /// The fill value as little-endian bytes, and whether it marks missing elements.
    fn fill<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyBytes>, bool)> {
        let array = self.array.get().map_err(|error| to_exception(&error))?;
        let metadata = array.metadata();
        Ok((PyBytes::new(py, &metadata.format.fill), metadata.v2_fill.is_some()))
    }

    /// Elements in C order, little-endian.
    fn read<'py>(
        &self,
        py: Python<'py>,
        store: PyRef<'_, Store>,
        selection: Vec<(u64, u64, u64)>,
        pushdown: &str,
    ) -> PyResult<ReadResult<'py>> {
        let shared = store.shared()?;
        let stats = Arc::new(ReadStats::default());
        let values = wait(py, async || {
            let pushdown = shared.pushdown(pushdown)?;
            self.array.get()?.read(&slices(&selection), pushdown, &stats).await
        })?;
        Ok(result(py, &values, &stats))
    }

    /// Stores statistics of the chunks. The number of stored chunks, and of those that were
    /// computed.
    fn index(&self, py: Python<'_>, store: PyRef<'_, Store>, pushdown: &str) -> PyResult<(u64, u64)> {
        let shared = store.shared()?;
        let progress = IndexProgress::default();
        wait(py, async || {
            let pushdown = shared.pushdown(pushdown)?;
            self.array.get()?.index(pushdown, &Arc::default(), &progress).await
        })?;
        Ok((progress.chunks(), progress.computed()))
    }

    #[allow(clippy::too_many_arguments, reason = "Python gives them their names")]
    fn reduce<'py>(
        &self,
        py: Python<'py>,
        store: PyRef<'_, Store>,
        name: &str,
        ddof: u32,
        numbers: Vec<f64>,
        selection: Vec<(u64, u64, u64)>,
        axes: Vec<AxisFacts>,
        skip_nan: bool,
        decoding: Option<DecodingFacts>,
        mask: Option<(Vec<u64>, PyBackedBytes)>,
        pushdown: &str,
    ) -> PyResult<ReadResult<'py>> {
        let shared = store.shared()?;
        let stats = Arc::new(ReadStats::default());
        let decoding = decoding.map(self::decoding);
        let axes = axes.into_iter().map(role).collect();
        let mask =
            mask.map(|(shape, bits)| Mask { shape: Bounded(shape), bits: Bytes::copy_from_slice(&bits) });
        let values = wait(py, async || {
            let pushdown = shared.pushdown(pushdown)?;
            let kind = kind(name, ddof, numbers)?;
            let reduction = Reduction { kind, axes: Bounded(axes), skip_nan, decoding };
            self.array.get()?.reduce_masked(&slices(&selection), reduction, mask, pushdown, &stats).await
        })?;
        Ok(result(py, &values, &stats))
    }

    /// Each weight has 16 bytes: the index of the source, the number of the cell, and the weight.
    #[allow(clippy::too_many_arguments, reason = "Python gives them their names")]
    fn regrid<'py>(
        &self,
        py: Python<'py>,
        store: PyRef<'_, Store>,
        selection: Vec<(u64, u64, u64)>,
        source_shape: Vec<u64>,
        cells: u32,
        weights: PyBackedBytes,
        missing_max: Option<f64>,
        decoding: Option<DecodingFacts>,
        pushdown: &str,
    ) -> PyResult<ReadResult<'py>> {
        let shared = store.shared()?;
        let stats = Arc::new(ReadStats::default());
        let decoding = decoding.map(self::decoding);
        let values = wait(py, async || {
            let pushdown = shared.pushdown(pushdown)?;
            let list = weights.chunks(16).map(Weight::from_input).collect::<Result<_>>()?;
            let weights = Weights::new(source_shape, cells, list)?;
            let regrid = Regrid { weights, missing_max, decoding };
            self.array.get()?.regrid(&slices(&selection), regrid, pushdown, &stats).await
        })?;
        Ok(result(py, &values, &stats))
    }
}
