"""The xarray backend: datasets equal those that xarray's own backend opens, and reductions through the
accessor equal xarray's.
"""

import contextlib
import itertools
import pickle

import numpy as np
import pytest
import xarray as xr
import zarr

import benthic
import benthic.xarray
from benthic import zarr_store
from climate import ENCODING, climate

NAMES = itertools.count()


@pytest.fixture(params=[2, 3])
def written(beside, request):
    """The address of a dataset, and the store and pool that have it."""
    name = f"xarray-{next(NAMES)}"
    store = zarr_store(beside.store, beside.pool_name, name)
    data = climate() if request.param == 2 else climate().drop_vars("name")
    data.to_zarr(store, zarr_format=request.param, encoding=ENCODING, consolidated=request.param == 2)
    return beside, name, store


def opened(written, **options):
    place, name, _ = written
    return xr.open_dataset(f"benthic://{place.pool_name}/{name}", engine="benthic", store=place.store, **options)


def test_a_dataset_equals_the_one_that_xarray_opens(written):
    theirs = xr.open_dataset(written[2], engine="zarr", consolidated=False)
    for pushdown in ("auto", "always", "never"):
        ours = opened(written, pushdown=pushdown)
        xr.testing.assert_identical(ours, theirs)
        part = dict(lat=slice(-20, 10), lon=[5.0, 20.0, 80.0], time="2024-01-03")
        xr.testing.assert_identical(opened(written, pushdown=pushdown).sel(part), theirs.sel(part))
    raw = dict(mask_and_scale=False, decode_times=False)
    xr.testing.assert_identical(opened(written, **raw), xr.open_dataset(written[2], engine="zarr", consolidated=False, **raw))


KINDS = ["count", "sum", "prod", "min", "max", "mean", "var", "std", "any", "all", "median", "argmin", "argmax"]
PARTS = [
    lambda array: array,
    lambda array: array.sel(lat=slice(-20, 10)),
    lambda array: array.isel(time=5),
    lambda array: array.isel(time=slice(1, None, 3)).isel(lat=slice(2, -2)),
    lambda array: array.sel(time="2024-01-04"),
    lambda array: array.isel(lat=[9, 2, 3, 7], time=[30, 31, 47]) if "time" in array.dims else array,
]


@pytest.mark.parametrize("variable", ["t2m", "rain", "count"])
def test_reductions_equal_those_of_xarray(written, variable):
    ours = opened(written, pushdown="always")[variable]
    theirs = xr.open_dataset(written[2], engine="zarr", consolidated=False)[variable].load()
    for kind, part in itertools.product(KINDS, PARTS):
        if kind.startswith("arg") and part is PARTS[-1]:
            continue
        if kind == "prod" and variable == "rain":
            # It overflows, and then depends on the order of the factors.
            continue
        array, wanted = part(ours), part(theirs)
        assert array.benthic.is_pushable
        for dim in [None, "lat", *([["time", "lat"]] if "time" in array.dims and not kind.startswith("arg") else [])]:
            found = getattr(array.benthic, kind)(dim)
            expected = getattr(wanted, kind)(dim)
            assert found.dtype == expected.dtype and found.attrs == expected.attrs
            # xarray sums float32 in float32.
            tolerance = 1e-4 if expected.dtype == np.float32 else 1e-9
            xr.testing.assert_allclose(found, expected, rtol=tolerance)
            assert set(found.coords) == set(expected.coords) and found.name == expected.name
    assert ours.benthic.is_pushable, "the array was read into memory"


TRANSPOSED = [
    lambda array: array.T,
    lambda array: array.isel(time=slice(1, 40, 3)).transpose("lat", ...),
    lambda array: array.transpose(..., "time").isel(lat=slice(2, 9)),
    lambda array: array.isel(time=7).T,
    lambda array: array.isel(lat=[9, 2, 3, 7]).T,
    lambda array: array.isel(time=[3], lat=[5]).T,
]


@pytest.mark.parametrize("variable", ["t2m", "rain", "count"])
def test_transposed_arrays_are_reduced(written, variable):
    ours = opened(written, pushdown="always")[variable]
    loaded = xr.open_dataset(written[2], engine="zarr", consolidated=False).load()
    for part, kind in itertools.product(TRANSPOSED, ["count", "max", "mean", "argmax"]):
        array, wanted = part(ours), part(loaded[variable])
        if kind == "argmax" and wanted.sizes["lat"] in (1, 4):
            continue
        assert array.benthic.is_pushable
        for dim in [None, "lat", *([["time", "lat"]] if "time" in array.dims and kind != "argmax" else [])]:
            found, expected = getattr(array.benthic, kind)(dim), getattr(wanted, kind)(dim)
            assert found.dtype == expected.dtype and found.dims == expected.dims and found.attrs == expected.attrs
            xr.testing.assert_allclose(found, expected, rtol=1e-4)
    array, wanted = ours.T, loaded[variable].T
    for found, expected in [
        (array.benthic.groupby("time.day").mean(), wanted.groupby("time.day").mean()),
        (array.benthic.resample(time="90min").max(), wanted.resample(time="90min").max()),
        (array.benthic.coarsen(lat=5).max(), wanted.coarsen(lat=5).max()),
        (array.benthic.quantile([0.2, 0.7], "lat"), wanted.quantile([0.2, 0.7], "lat")),
        (array.benthic.where(loaded.lat > 0).sum("lat"), wanted.where(loaded.lat > 0).sum("lat")),
    ]:
        assert found.dims == expected.dims
        xr.testing.assert_allclose(found, expected, rtol=0.002)
    assert ours.benthic.is_pushable, "the array was read into memory"


GROUPINGS = [
    ("groupby", ("time.day",), {}),
    ("groupby", ("time.hour",), {}),
    ("groupby", ("lat",), {}),
    ("resample", (), {"time": "1D"}),
    # Some periods have no time.
    ("resample", (), {"time": "90min"}),
    ("coarsen", (), {"lat": 5}),
    ("coarsen", (), {"time": 7, "lat": 4, "boundary": "trim"}),
    ("coarsen", ({"lat": 4},), {"boundary": "trim", "side": "right"}),
    ("coarsen", (), {"lat": 4, "boundary": "pad"}),
    ("groupby", (), {"lat": xr.groupers.BinGrouper([-25, -10, 5, 7])}),
]


@pytest.mark.parametrize("variable", ["t2m", "rain", "count"])
def test_grouped_reductions_equal_those_of_xarray(written, variable):
    ours = opened(written, pushdown="always")[variable]
    theirs = xr.open_dataset(written[2], engine="zarr", consolidated=False)[variable].load()
    kinds = [kind for kind in KINDS if not kind.startswith("arg") and kind != "prod"]
    for kind, part, (grouping, arguments, options) in itertools.product(kinds, [*PARTS[:2], PARTS[-1]], GROUPINGS):
        if part is not PARTS[0] and grouping == "coarsen":
            continue
        array, wanted = part(ours), part(theirs)
        found = getattr(getattr(array.benthic, grouping)(*arguments, **options), kind)()
        expected = getattr(getattr(wanted, grouping)(*arguments, **options), kind)()
        case = (kind, grouping, arguments, options)
        assert found.dtype == expected.dtype and found.attrs == expected.attrs, case
        assert found.dims == expected.dims and found.name == expected.name, case
        assert set(found.coords) == set(expected.coords), case
        tolerance = 1e-4 if expected.dtype == np.float32 else 1e-9
        xr.testing.assert_allclose(found, expected, rtol=tolerance)


@pytest.mark.parametrize("variable", ["t2m", "rain", "count"])
def test_quantiles_equal_those_of_xarray(written, variable):
    ours = opened(written, pushdown="always")[variable]
    theirs = xr.open_dataset(written[2], engine="zarr", consolidated=False)[variable].load()
    for part, q, dim in itertools.product(PARTS, (0.25, [0.1, 0.9]), (None, "lat", ["lat", "time"])):
        array, wanted = part(ours), part(theirs)
        if not set(np.atleast_1d(dim if dim else "lat")) <= set(array.dims):
            continue
        found, expected = array.benthic.quantile(q, dim, keep_attrs=True), wanted.quantile(q, dim, keep_attrs=True)
        xr.testing.assert_allclose(found, expected, rtol=0.002)
        assert found.dims == expected.dims and found.attrs == expected.attrs and found.name == expected.name
        assert set(found.coords) == set(expected.coords)
    for q, (grouping, arguments, options) in itertools.product((0.25, [0.1, 0.9]), GROUPINGS):
        if grouping == "coarsen":
            continue
        found = getattr(ours.benthic, grouping)(*arguments, **options).quantile(q)
        expected = getattr(theirs, grouping)(*arguments, **options).quantile(q)
        # xarray drops some coordinates that have no group.
        xr.testing.assert_allclose(found.reset_coords(drop=True), expected.reset_coords(drop=True), rtol=0.002)
        assert found.dims == expected.dims and set(found.coords) >= set(expected.coords)
    assert ours.benthic.is_pushable, "the array was read into memory"
    xr.testing.assert_allclose((ours + 0).benthic.quantile(0.3, "lat"), theirs.quantile(0.3, "lat"))


def test_groups_of_a_dimension_and_another_one_are_reduced(written):
    ours = opened(written, pushdown="always").t2m
    theirs = xr.open_dataset(written[2], engine="zarr", consolidated=False).t2m.load()
    for dim in [["time", "lat"], ...]:
        found = ours.benthic.groupby("time.day").mean(dim)
        xr.testing.assert_allclose(found, theirs.groupby("time.day").mean(dim), rtol=1e-5)
    season = theirs.time.dt.day % 2
    found = ours.benthic.groupby(season.rename("parity")).max(keep_attrs=False)
    xr.testing.assert_identical(found, theirs.groupby(season.rename("parity")).max(keep_attrs=False))
    # Only these groups are reduced beside the chunks: the group's dimension remains.
    found = ours.benthic.groupby("time.day").mean("lat")
    xr.testing.assert_allclose(found, theirs.groupby("time.day").mean("lat"), rtol=1e-5)


def test_positions_without_a_group_are_left_out(written):
    ours = opened(written, pushdown="always").t2m
    theirs = xr.open_dataset(written[2], engine="zarr", consolidated=False).t2m.load()
    band = xr.DataArray(np.where(theirs.lat > 14, np.nan, theirs.lat // 20), dims="lat", name="band")
    xr.testing.assert_allclose(ours.benthic.groupby(band).mean(), theirs.groupby(band).mean(), rtol=1e-5)


def test_removed_arrays_do_not_hide_the_others(written):
    place, name, store = written
    zarr.consolidate_metadata(store)
    for key in ("zarr.json", ".zarray"):
        with contextlib.suppress(benthic.NotFoundError):
            place.store.pool(place.pool_name).rm(f"{name}/t2m/{key}")
    assert "t2m" not in opened(written) and "rain" in opened(written)


def test_groups_are_reduced_beside_the_chunks(written):
    ours = opened(written, pushdown="always").t2m
    array = benthic.xarray.source_of(ours.variable).data.stored
    for grouped in [
        lambda: ours.benthic.groupby("time.day").mean(),
        lambda: ours.benthic.resample(time="1D").max(),
        lambda: ours.benthic.coarsen(lat=5).mean(),
        lambda: ours.benthic.between(280).groupby("time.hour").count(),
    ]:
        array.last_stats = None
        grouped()
        assert array.last_stats.pushed_chunks == array.last_stats.chunks > 0
    assert ours.benthic.is_pushable, "the array was read into memory"


@pytest.mark.parametrize("variable", ["t2m", "rain", "count"])
def test_values_out_of_a_range_count_as_missing(written, variable):
    ours = opened(written, pushdown="always")[variable]
    theirs = xr.open_dataset(written[2], engine="zarr", consolidated=False)[variable].load()
    middle = float(theirs.median())
    for minimum, maximum in [(middle, None), (None, middle), (middle - 2.5, middle + 2.5), (None, None)]:
        wanted = theirs
        if minimum is not None:
            wanted = wanted.where(theirs >= minimum)
        if maximum is not None:
            wanted = wanted.where(theirs <= maximum)
        assert ours.benthic.between(np.float32(280)).is_pushable
        for kind in ["count", "sum", "min", "mean", "std"]:
            found, expected = getattr(ours.benthic.between(minimum, maximum), kind)("time"), getattr(wanted, kind)("time")
            assert found.dtype == expected.dtype and found.attrs == expected.attrs
            xr.testing.assert_allclose(found, expected, rtol=1e-4)
        days = ours.benthic.between(minimum, maximum).groupby("time.day").max()
        xr.testing.assert_allclose(days, wanted.groupby("time.day").max())


@pytest.mark.parametrize("variable", ["t2m", "rain", "count"])
def test_values_where_a_condition_does_not_hold_count_as_missing(written, variable):
    data = opened(written, pushdown="always")
    loaded = xr.open_dataset(written[2], engine="zarr", consolidated=False).load()
    ours, theirs = data[variable], loaded[variable]
    warm = (loaded.t2m > 280) & (loaded.time.dt.hour > 6)
    conditions = [loaded.mask, warm, loaded.lat > 0] if theirs.ndim == 3 else [loaded.lat > 0, (warm.sum("lon") > 4)]
    for condition in conditions:
        masked = ours.benthic.where(condition)
        assert masked.is_pushable
        for kind, dim in itertools.product(["count", "sum", "min", "mean", "std"], ["time", ["time", "lat"]]):
            found, expected = getattr(masked, kind)(dim), getattr(theirs.where(condition), kind)(dim)
            assert found.dtype == expected.dtype and found.attrs == expected.attrs
            xr.testing.assert_allclose(found, expected, rtol=1e-4)
        days = masked.between(3).where(loaded.lat < 20).groupby("time.day").max()
        usual = theirs.where(theirs >= 3).where(condition).where(loaded.lat < 20)
        xr.testing.assert_allclose(days, usual.groupby("time.day").max())
    # xarray selects the common positions, or adds dimensions.
    part = ours.benthic.where(conditions[0].isel(lat=slice(3, 9)))
    wide = ours.benthic.where(xr.DataArray([True, False], dims="other"))
    assert not part.is_pushable and not wide.is_pushable
    xr.testing.assert_allclose(part.mean(), theirs.where(conditions[0].isel(lat=slice(3, 9))).mean(), rtol=1e-4)
    # The result has the coordinates of the condition.
    named = conditions[0].assign_coords(height=2)
    xr.testing.assert_allclose(ours.benthic.where(named).mean("time"), theirs.where(named).mean("time"), rtol=1e-4)
    with pytest.raises(benthic.InvalidArgumentError, match="DataArray"):
        ours.benthic.where(True)


def test_no_dimension_reduces_nothing(written):
    data = opened(written, pushdown="always")
    loaded = xr.open_dataset(written[2], engine="zarr", consolidated=False).load()
    for kind in ["sum", "prod", "count"]:
        xr.testing.assert_identical(getattr(data.rain.benthic, kind)([]), getattr(loaded.rain, kind)([]))


@pytest.mark.parametrize("variable", ["t2m", "rain"])
def test_statistics_skip_chunks_and_change_nothing(written, variable):
    place, name, _ = written
    ours = opened(written, pushdown="always")[variable]
    ranges = [(300, None), (None, -80), (55.5, 60), (1000, None), (None, None)]
    kinds = ["count", "mean", "max", "median", "std"]
    cases = list(itertools.product(ranges, kinds, [None, "time"]))

    def reduced():
        return [getattr(ours.benthic.between(*bounds), kind)(dim) for bounds, kind, dim in cases]

    before = reduced()
    array = place.store.array(f"{place.pool_name}/{name}/{variable}")
    assert array.index() > 0 and array.index() == 0
    for found, expected in zip(reduced(), before, strict=True):
        xr.testing.assert_identical(found, expected)
    assert int(ours.benthic.between(1000).count()) == 0


def test_reductions_keep_nan_on_request(written):
    ours = opened(written, pushdown="always").t2m
    theirs = xr.open_dataset(written[2], engine="zarr", consolidated=False).t2m.load()
    xr.testing.assert_allclose(ours.benthic.mean("time", skipna=False), theirs.mean("time", skipna=False), rtol=1e-5)
    xr.testing.assert_allclose(ours.benthic.std(ddof=1), theirs.std(ddof=1), rtol=1e-5)


def test_what_cannot_be_pushed_is_computed_as_usual(written):
    ours = opened(written)
    theirs = xr.open_dataset(written[2], engine="zarr", consolidated=False).load()
    for part in [
        lambda data: data.t2m + 1,
        lambda data: data.t2m.isel(lat=[0, 1, 1]),
        lambda data: data.t2m.isel(lat=slice(None, None, -1)),
        lambda data: data.t2m.isel(lat=xr.DataArray([1, 2], dims="p"), lon=xr.DataArray([3, 4], dims="p")),
        lambda data: data.t2m.where(data.t2m > 280),
    ]:
        assert not part(ours).benthic.is_pushable
        xr.testing.assert_allclose(part(ours).benthic.mean("time"), part(theirs).mean("time"), rtol=1e-5)
    loaded = ours.t2m.load()
    assert not loaded.benthic.is_pushable
    assert not ours.time.benthic.is_pushable
    with pytest.raises(benthic.InvalidArgumentError, match="dimensions=time,lat"):
        ours["count"].benthic.mean("lon")


def test_a_lazy_array_can_be_pickled(durable):
    name = f"xarray-{next(NAMES)}"
    climate().drop_vars("name").to_zarr(zarr_store(durable.store, durable.pool_name, name), zarr_format=3)
    ours = xr.open_dataset(f"benthic://{durable.pool_name}/{name}", engine="benthic", store=durable.store)
    again = pickle.loads(pickle.dumps(ours.t2m.isel(time=slice(2, 9))))
    assert again.benthic.is_pushable
    xr.testing.assert_identical(again.benthic.sum(), ours.t2m.isel(time=slice(2, 9)).benthic.sum())


def test_mistakes_get_clear_errors(in_memory):
    store = in_memory.store
    with pytest.raises(benthic.NotFoundError):
        xr.open_dataset(f"benthic://{in_memory.pool_name}/none", engine="benthic", store=store)
    with pytest.raises(benthic.InvalidArgumentError, match="benthic://POOL/GROUP"):
        xr.open_dataset("data.nc", engine="benthic", store=store)


def test_types_that_the_class_lacks_are_read_by_zarr(in_memory):
    store = zarr_store(in_memory.store, in_memory.pool_name, "complex")
    data = xr.Dataset({"z": ("x", np.array([1 + 2j, 3]))})
    data.to_zarr(store, zarr_format=3)
    ours = xr.open_dataset(f"benthic://{in_memory.pool_name}/complex", engine="benthic", store=in_memory.store)
    xr.testing.assert_identical(ours, data)
    assert not ours.z.benthic.is_pushable
    assert zarr.open_group(store)["z"].dtype == complex


def test_any_and_all_take_nan_as_true(beside):
    store = zarr_store(beside.store, beside.pool_name, f"xarray-{next(NAMES)}")
    data = xr.Dataset({"v": (("x", "y"), np.array([[np.nan, 0], [0, 0], [np.nan, np.nan]]))})
    data.to_zarr(store, zarr_format=3)
    address = f"{store}".rstrip("/")
    ours = xr.open_dataset(address, engine="benthic", store=beside.store, pushdown="always").v
    for kind, dim in itertools.product(["any", "all"], [None, "x", "y"]):
        assert ours.benthic.is_pushable
        xr.testing.assert_identical(getattr(ours.benthic, kind)(dim), getattr(data.v, kind)(dim))


@pytest.mark.parametrize(
    ("dtype", "missing", "is_pushable"),
    [("i2", 1e20, False), ("i1", 255, False), ("i4", 2**31, False), ("i2", -7, True), ("f4", -9999.9, False), ("f4", -8.0, True)],
)
def test_fill_values_mask_what_xarray_masks(in_memory, dtype, missing, is_pushable):
    store = zarr_store(in_memory.store, in_memory.pool_name, f"xarray-{next(NAMES)}")
    root = zarr.create_group(store)
    values = np.array([0, -1, -7, 5, -8, -9999.9 if dtype == "f4" else 9], dtype)
    root.create_array("v", data=values, dimension_names=["x"], attributes={"missing_value": missing})
    theirs = xr.open_dataset(store, engine="zarr", consolidated=False).v
    ours = xr.open_dataset(f"{store}".rstrip("/"), engine="benthic", store=in_memory.store, pushdown="always").v
    xr.testing.assert_identical(ours.load(), theirs.load())
    ours = xr.open_dataset(f"{store}".rstrip("/"), engine="benthic", store=in_memory.store, pushdown="always").v
    assert ours.benthic.is_pushable == is_pushable
    xr.testing.assert_allclose(ours.benthic.sum(), theirs.sum())
    xr.testing.assert_identical(ours.benthic.count(), theirs.count())


def test_attributes_that_json_lacks(in_memory):
    store = zarr_store(in_memory.store, in_memory.pool_name, f"xarray-{next(NAMES)}")
    root = zarr.create_group(store, attributes={"limit": float("inf")})
    root.create_array("v", data=np.arange(3.0), dimension_names=["x"], attributes={"odd": float("nan")})
    ours = xr.open_dataset(f"{store}".rstrip("/"), engine="benthic", store=in_memory.store)
    assert ours.attrs["limit"] == np.inf and np.isnan(ours.v.attrs["odd"])


def test_an_array_is_not_a_group(in_memory):
    store = zarr_store(in_memory.store, in_memory.pool_name, f"xarray-{next(NAMES)}")
    zarr.create_group(store).create_array("v", data=np.arange(3.0))
    with pytest.raises(benthic.InvalidArgumentError, match="name the group"):
        xr.open_dataset(f"{store}v", engine="benthic", store=in_memory.store)
