"""Regridding equals a product with a dense matrix of NumPy, with the rules of xESMF for missing values, and has the same bits
wherever the chunks were regridded.
"""

import itertools

import numpy as np
import pytest
import xarray as xr
import zarr

import benthic
import benthic.xarray
from benthic import RegridWeights, zarr_store
from benthic._stored import source_of
from seeds import one

NAMES = itertools.count()


def opened(place, data, **options):
    name = f"regrid-{next(NAMES)}"
    zarr.create_array(zarr_store(place.store, place.pool_name, name), data=data, **options)
    return place.store.array(f"{place.pool_name}/{name}")


def random_weights(rng, source_shape, shape, count):
    cells, sources = (rng.integers(0, np.prod(size), count) for size in (shape, source_shape))
    weights = np.where(rng.random(count) < 0.1, 0, rng.normal(0.5, 1, count))
    matrix = np.zeros((np.prod(shape), np.prod(source_shape)))
    np.add.at(matrix, (cells, sources), weights)
    has_weights = np.bincount(cells[weights != 0], minlength=len(matrix)) > 0
    return RegridWeights(cells, sources, weights, shape, source_shape), matrix, has_weights


def expected(matrix, has_weights, data, shape, skipna, na_thres):
    """As xESMF's Regridder. Also the size of the terms."""
    lines = data.reshape(-1, matrix.shape[1]).astype("f8")
    missing = np.isnan(lines)
    values = np.where(missing, 0, lines) @ matrix.T
    sizes = np.where(missing, 0, abs(lines)) @ abs(matrix.T)
    is_missing = (missing.astype("f8") @ (matrix != 0).T) > 0
    if skipna:
        valid = (~missing).astype("f8") @ matrix.T
        is_missing = valid < np.clip(1 - na_thres, 1e-6, 1 - 1e-6)
        values, sizes = values / np.where(is_missing, 1, valid), sizes / np.where(is_missing, 1, valid)
    values[is_missing | ~has_weights] = np.nan
    return values.reshape(-1, *shape), sizes.reshape(-1, *shape)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i2", "u1"])
def test_regridding_equals_a_product_of_matrices(beside, dtype):
    rng = np.random.default_rng(one())
    data = rng.normal(100, 30, (6, 17, 23)).astype(dtype)
    if np.dtype(dtype).kind == "f":
        data[rng.random(data.shape) < 0.05] = np.nan
    array = opened(beside, data, chunks=(2, 7, 10))
    for skipna, na_thres in [(False, 1.0), (True, 1.0), (True, 0.5), (True, 0.0)]:
        weights, matrix, has_weights = random_weights(rng, (17, 23), (5, 8), 300)
        values, sizes = expected(matrix, has_weights, data, (5, 8), skipna, na_thres)
        found = [
            array.regrid(weights, skipna=skipna, na_thres=na_thres, pushdown=pushdown)
            for pushdown in ("always", "never", "auto")
        ]
        assert found[0].tobytes() == found[1].tobytes() == found[2].tobytes()
        np.testing.assert_array_equal(np.isnan(found[0]), np.isnan(values))
        assert (abs(found[0] - values)[~np.isnan(values)] <= (1e-13 * sizes)[~np.isnan(values)]).all()
        for key in [np.s_[3], np.s_[::-2], np.s_[[5, 0, 5]], np.s_[1:1]]:
            part = array.regrid(weights, key, skipna=skipna, na_thres=na_thres)
            np.testing.assert_array_equal(part, found[0][key])
        np.testing.assert_allclose(weights.apply(data, skipna=skipna, na_thres=na_thres), found[0], rtol=1e-9)


def test_only_chunks_with_weights_are_read(beside):
    data = np.arange(4 * 40 * 40, dtype="f4").reshape(4, 40, 40)
    array = opened(beside, data, chunks=(4, 10, 10))
    weights = RegridWeights([0, 0, 1], [0, 41, 1599], [0.5, 0.5, 1.0], (2,), (40, 40))
    found = array.regrid(weights, pushdown="always")
    np.testing.assert_array_equal(found, np.stack([(data[:, 0, 0] + data[:, 1, 1]) / 2, data[:, 39, 39]], -1))
    assert (array.last_stats.chunks, array.last_stats.pushed_chunks) == (16, 2)
    assert array.last_stats.moved_bytes < 2000
    # The weights belong to the selected positions.
    small = RegridWeights([0], [1], [1.0], (1,), (2, 3))
    np.testing.assert_array_equal(array.regrid(small, np.s_[:, 7:9, 3:9:2]), data[:, 7, 5, None])


def test_sums_are_compensated(in_memory):
    data = np.array([1.0, 1e20, 1.0, -1e20] * 100)
    weights = RegridWeights([0] * 400, np.arange(400), [1.0] * 400, (1,), (400,))
    assert opened(in_memory, data, chunks=(7,)).regrid(weights) == 200


def test_bilinear_weights_interpolate(in_memory):
    rng = np.random.default_rng(one())
    lat, lon = np.arange(-60.0, 61, 7)[::-1], np.arange(0, 360, 11.25)
    data = rng.normal(0, 10, (lat.size, lon.size))
    to_lat, to_lon = rng.uniform(-59, 60, 9), np.append(rng.uniform(-400, 400, 15), [0, 360, -11.25])
    wrapped = np.concatenate([lon, [360]]), np.concatenate([data, data[:, :1]], 1)
    rows = np.stack([np.interp(to_lon % 360, wrapped[0], row) for row in wrapped[1]])
    expected = np.stack([np.interp(to_lat, lat[::-1], column[::-1]) for column in rows.T], 1)
    weights = RegridWeights.bilinear(lat, lon, to_lat, to_lon, period=360)
    array = opened(in_memory, data, chunks=(5, 9))
    np.testing.assert_allclose(array.regrid(weights), expected, rtol=1e-9, atol=1e-9)
    outside = RegridWeights.bilinear(lat, lon, [70, 0], [-1, 5])
    assert np.isnan(array.regrid(outside)).tolist() == [[True, True], [True, False]]
    with pytest.raises(benthic.InvalidArgumentError, match="different coordinates"):
        RegridWeights.bilinear(lat, [0, 0], [0], [0])


def esmf(weights, lat, lon):
    """Weights as ESMF stores them."""
    records = weights._records
    centers = np.meshgrid(lat, lon, indexing="ij")
    return xr.Dataset({
        "row": ("n_s", records["cell"].astype("i4") + 1), "col": ("n_s", records["source"].astype("i4") + 1),
        "S": ("n_s", records["weight"]),
        "src_grid_dims": ("src_grid_rank", np.array(weights.source_shape[::-1], "i4")),
        "dst_grid_dims": ("dst_grid_rank", np.array(weights.shape[::-1], "i4")),
        "yc_b": ("n_b", centers[0].ravel(), {"units": "degrees"}),
        "xc_b": ("n_b", centers[1].ravel(), {"units": "degrees"}),
    })  # fmt: skip


@pytest.fixture
def climate(beside):
    rng = np.random.default_rng(one())
    lat, lon = np.arange(-30.0, 30, 4), np.arange(0.0, 90, 5)
    t2m = rng.normal(280, 10, (8, lat.size, lon.size)).astype("f4")
    t2m[rng.random(t2m.shape) < 0.05] = np.nan
    data = xr.Dataset(
        {"t2m": (("time", "lat", "lon"), t2m, {"units": "K"}), "rain": (("time", "lat", "lon"), np.round(t2m - 250, 1))},
        {"time": np.arange(8), "lat": lat, "lon": lon, "area": (("lat", "lon"), rng.random(t2m.shape[1:]))},
    )
    name = f"regrid-{next(NAMES)}"
    encoding = {"rain": {"dtype": "i2", "scale_factor": 0.1, "_FillValue": -9999}, "t2m": {"chunks": (4, 9, 9)}}
    data.to_zarr(zarr_store(beside.store, beside.pool_name, name), encoding=encoding, zarr_format=3, consolidated=False)
    address = f"benthic://{beside.pool_name}/{name}"
    return xr.open_dataset(address, engine="benthic", store=beside.store, pushdown="always")


def test_the_accessor_takes_weights_of_other_programs(climate, tmp_path):
    to_lat, to_lon = np.arange(-27.0, 26, 6), np.arange(2.0, 84, 9)
    weights = RegridWeights.bilinear(climate.lat, climate.lon, to_lat, to_lon)
    loaded = climate.compute()
    data = esmf(weights, to_lat, to_lon)
    data.to_netcdf(tmp_path / "weights.nc")
    radians = {"units": "radians"}
    scrip = xr.Dataset({
        "dst_address": data.row, "src_address": data.col, "remap_matrix": data.S.expand_dims("num_wgts", 1),
        "src_grid_dims": data.src_grid_dims, "dst_grid_dims": data.dst_grid_dims,
        "dst_grid_center_lat": ("n_b", np.radians(data.yc_b.values), radians),
        "dst_grid_center_lon": ("n_b", np.radians(data.xc_b.values), radians),
    })  # fmt: skip
    xesmf = data[["row", "col", "S"]], xr.Dataset(coords={"lat": to_lat, "lon": to_lon})
    for name, skipna in itertools.product(["t2m", "rain"], [False, True]):
        values = weights.apply(loaded[name], skipna=skipna)
        coords = {"time": loaded.time, "lat": to_lat, "lon": to_lon}
        expected = xr.DataArray(values, coords, ("time", "lat", "lon"), name)
        stored = source_of(climate[name].variable).data.stored
        for given in [(weights,), (data,), (tmp_path / "weights.nc",), (scrip,), xesmf]:
            stored.last_stats = None
            found = climate[name].benthic.regrid(*given, skipna=skipna)
            assert stored.last_stats.pushed_chunks > 0
            xr.testing.assert_allclose(found, expected, rtol=1e-5)
            assert found.dtype == loaded[name].dtype and found.attrs == {} and found.name == name
            for part in [dict(time=3), dict(time=[6, 0, 1]), dict(time=slice(1, 8, 3))]:
                xr.testing.assert_identical(climate[name].isel(part).benthic.regrid(*given, skipna=skipna), found.isel(part))


def test_grids_of_other_shapes_and_what_cannot_be_pushed(climate):
    loaded = climate.compute()
    weights = RegridWeights([0, 1, 5], [0, 30, 2], [1.0, 2.0, 0.5], (2, 3), (15, 18))
    lat, lon = np.arange(6.0).reshape(2, 3), np.arange(6.0).reshape(2, 3) ** 2
    data = esmf(weights, [0, 1], [0, 1, 2])
    data["yc_b"], data["xc_b"] = ("n_b", lat.ravel()), ("n_b", lon.ravel())
    expected = xr.DataArray(
        weights.apply(loaded.t2m).astype("f4"),
        {"time": loaded.time, "lat": (("y", "x"), lat), "lon": (("y", "x"), lon)}, ("time", "y", "x"), "t2m", {"units": "K"},
    )  # fmt: skip
    curved = xr.Dataset(coords={"lat": (("y", "x"), lat), "lon": (("y", "x"), lon)})
    for given in [(data,), (data[["row", "col", "S"]], curved)]:
        xr.testing.assert_allclose(climate.t2m.benthic.regrid(*given, keep_attrs=True), expected)
        xr.testing.assert_allclose(loaded.t2m.benthic.regrid(*given, keep_attrs=True), expected)
    line = xr.Dataset(coords={"lat": ("cell", np.arange(6.0)), "lon": ("cell", np.arange(6.0))})
    assert climate.t2m.benthic.regrid(data[["row", "col", "S"]], line).dims == ("time", "cell")
    warm = climate.t2m.benthic.where(loaded.area > 0.5).regrid(weights, skipna=True)
    np.testing.assert_allclose(warm, weights.apply(loaded.t2m.where(loaded.area > 0.5), skipna=True), rtol=1e-5)
    turned = climate.t2m.transpose("lat", "time", "lon")
    square = RegridWeights([0, 1], [0, 30], [1.0, 2.0], (2,), (climate.sizes["time"], 18))
    np.testing.assert_allclose(turned.benthic.regrid(square), square.apply(loaded.t2m.transpose("lat", "time", "lon")), rtol=1e-5)
    lazy = climate.t2m.chunk().benthic.regrid(weights)
    xr.testing.assert_allclose(lazy, climate.t2m.benthic.regrid(weights))
    warm = climate.t2m.benthic.between(280).regrid(weights)
    np.testing.assert_allclose(warm, weights.apply(loaded.t2m.where(loaded.t2m >= 280)), rtol=1e-5)


def test_mistakes_get_clear_errors(climate):
    weights = RegridWeights([0], [0], [1.0], (1,), (15, 18))
    data = esmf(weights, [0], [0])
    bare = data[["row", "col", "S"]]
    for given, message in [
        ((bare,), "as grid"), ((bare.drop_vars("S"),), "row, col, S"),
        ((RegridWeights([0], [0], [1.0], (1,), (15, 17)),), "another grid"),
        ((RegridWeights([0], [0], [1.0], (1,), (15, 18, 1, 1)),), "another grid"),
        ((data.assign(S=data.S * np.nan),), "finite"), ((data.assign(row=data.row + 1),), "cells=1"),
        ((data.assign(col=data.col - 1),), "sources=270"), ((data.assign(row=data.row + 0.5),), "integer"),
        ((xr.Dataset({"dst_address": data.row, "src_address": data.col, "remap_matrix": data.S.expand_dims("w", 1).isel(w=[0, 0, 0])}),),
         "first order"),
    ]:  # fmt: skip
        with pytest.raises(benthic.InvalidArgumentError, match=message):
            climate.t2m.benthic.regrid(*given)
    stored = source_of(climate.t2m.variable).data.stored
    for key in [np.s_[..., ::-1], np.s_[:, 0], np.s_[:, [0, 1]]]:
        with pytest.raises(benthic.InvalidArgumentError, match="grid"):
            stored.regrid(weights, key)
    with pytest.raises(benthic.InvalidArgumentError, match="from 0 to 1"):
        stored.regrid(weights, skipna=True, na_thres=2)
    with pytest.raises(benthic.InvalidArgumentError, match="from 0 to 1"):
        weights.apply(climate.t2m, skipna=True, na_thres=2)
    # The numbers in files have 32 bits.
    large = np.array([65_536, 40_000], np.int32)
    assert RegridWeights([0], [2**31], [1.0], (1,), large).source_shape == (65_536, 40_000)
