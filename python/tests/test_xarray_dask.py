"""Reductions of Dask's arrays through the accessor: lazy, beside the chunks, and with the same bits as without Dask."""

import itertools

import dask.distributed
import numpy as np
import pytest
import xarray as xr

import benthic.xarray
from benthic import zarr_store
from climate import ENCODING, climate

NAMES = itertools.count()


def write(place):
    """Writes a dataset, and returns its address."""
    name = f"dask-{next(NAMES)}"
    data = climate().drop_vars("name")
    data.to_zarr(zarr_store(place.store, place.pool_name, name), zarr_format=3, encoding=ENCODING, consolidated=False)
    return f"benthic://{place.pool_name}/{name}"


@pytest.fixture
def datasets(beside):
    """The same dataset twice: with Dask's arrays, and without."""
    options = dict(engine="benthic", store=beside.store, pushdown="always")
    address = write(beside)
    return xr.open_dataset(address, chunks={}, **options), xr.open_dataset(address, **options)


def assert_lazy_and_identical(found, expected):
    assert found.chunks is not None
    # The chunks are not loaded.
    assert not any("open_dataset" in layer for layer in found.data.dask.layers if "mask" not in layer)
    xr.testing.assert_identical(found.compute(), expected)
    assert found.dtype == expected.dtype


PARTS = [
    lambda array: array,
    lambda array: array.sel(lat=slice(-20, 10)).isel(time=slice(1, None, 3)),
    lambda array: array.isel(time=5),
    lambda array: array.isel(lat=slice(1, 9)).T,
]


@pytest.mark.parametrize("variable", ["t2m", "rain", "count"])
def test_reductions_have_the_same_bits(datasets, variable):
    with_dask, without = (data[variable] for data in datasets)
    for part, kind in itertools.product(PARTS, ["count", "sum", "mean", "std", "any", "median", "argmax"]):
        array, expected = part(with_dask), part(without)
        assert array.benthic.is_pushable and array.chunks is not None
        for dim in ["lat", *([["time", "lat"]] if "time" in array.dims and kind != "argmax" else [])]:
            assert_lazy_and_identical(getattr(array.benthic, kind)(dim), getattr(expected.benthic, kind)(dim))
    assert_lazy_and_identical(with_dask.benthic.max(), without.benthic.max())
    # The same positions as a list, which only arrays without Dask push.
    backwards = with_dask.isel(lat=slice(None, None, -1)), without.isel(lat=list(range(15))[::-1])
    assert_lazy_and_identical(*(array.benthic.mean("time") for array in backwards))


def test_chunks_are_reduced_beside_the_data(datasets):
    with_dask = datasets[0].t2m
    array = benthic.xarray.source_of(with_dask.variable).data.stored
    found = with_dask.benthic.mean("time")
    assert found.chunks == with_dask.chunks[1:] and array.last_stats is None
    found.compute()
    assert array.last_stats.pushed_chunks == array.last_stats.chunks == 5


@pytest.mark.parametrize("variable", ["t2m", "rain", "count"])
def test_groups_conditions_and_quantiles_have_the_same_bits(datasets, variable):
    with_dask, without = datasets
    land = without.mask.load() if variable != "count" else without.lat > 0
    lazy_land = with_dask.mask if variable != "count" else land

    def reductions(array, condition):
        accessor = array.benthic
        return [
            accessor.groupby("time.day").mean(),
            accessor.groupby("lat").max(),
            # Some periods have no time; xarray computes integers with such periods.
            accessor.resample(time="1D" if variable == "count" else "90min").sum(),
            accessor.coarsen(time=7, boundary="trim").mean(),
            accessor.groupby(lat=xr.groupers.BinGrouper([-25, -10, 5, 7])).count(),
            accessor.quantile([0.1, 0.9], "time"),
            accessor.groupby("time.day").quantile(0.3),
            accessor.between(3, 281).max("lat"),
            accessor.where(condition).mean("time"),
            accessor.where(condition).groupby("time.hour").mean(),
        ]

    for part in [lambda array: array, lambda array: array.T]:
        found = reductions(part(with_dask[variable]), lazy_land)
        for lazy, expected in zip(found, reductions(part(without[variable]), land), strict=True):
            assert_lazy_and_identical(lazy, expected)


@pytest.mark.parametrize(
    "change",
    [
        lambda array: array + 1,
        lambda array: abs(array),
        lambda array: array.astype(float),
        lambda array: array.isel(lat=[0, 3, 1]),
        lambda array: array.isel(lat=xr.DataArray([1, 2], dims="p"), lon=xr.DataArray([3, 4], dims="p")),
        lambda array: array.where(array > 280),
        lambda array: array.fillna(0),
        lambda array: array.chunk(lat=5),
        lambda array: xr.concat([array, array], "lat"),
        lambda array: array.copy(data=array.data * 2),
        lambda array: array.shift(time=1),
        lambda array: array.persist(),
    ],
)
def test_changed_arrays_are_computed_as_usual(datasets, change):
    with_dask, without = (change(data.t2m) for data in datasets)
    assert not with_dask.benthic.is_pushable
    xr.testing.assert_allclose(with_dask.benthic.mean("time"), without.mean("time"), rtol=1e-5)


def test_no_positions_are_computed_as_usual(datasets):
    with_dask, without = (data.t2m for data in datasets)
    empty = with_dask.sel(time=slice("2030", "2031"))
    assert not empty.benthic.is_pushable
    xr.testing.assert_identical(empty.benthic.sum("time").compute(), without.sel(time=slice("2030", "2031")).sum("time"))


def test_workers_reduce_by_themselves(durable):
    """In several processes, which connect by themselves; also after `chunk` instead of `chunks={}`."""
    address = write(durable)
    data = climate()
    ours = xr.open_dataset(address, engine="benthic", store=durable.store, chunks={})
    rechunked = xr.open_dataset(address, engine="benthic", store=durable.store).t2m.chunk(lon=4)
    climatology = data.t2m.mean()
    with (
        dask.distributed.LocalCluster(n_workers=2, threads_per_worker=2, dashboard_address=None) as cluster,
        dask.distributed.Client(cluster) as client,
    ):
        assert ours.t2m.chunks == ((10, 10, 10, 10, 8), (15,), (9, 9))
        anomaly = ours.t2m.benthic.mean("time") - climatology
        assert anomaly.chunks is not None
        assert not any("open_dataset" in layer for layer in anomaly.data.dask.layers)
        xr.testing.assert_allclose(anomaly.compute(), data.t2m.mean("time") - climatology, atol=1e-3)
        means = rechunked.benthic.mean("time").persist()
        dask.distributed.wait(means)
        holders = {worker for workers in client.who_has(means.data).values() for worker in workers}
        assert len(holders) == 2
        xr.testing.assert_allclose(means.compute(), data.t2m.mean("time"), rtol=1e-5)
        # Without the accessor, Dask reduces.
        xr.testing.assert_allclose(ours.rain.mean("time").compute(), data.rain.mean("time"), rtol=1e-6)
