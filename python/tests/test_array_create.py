"""`benthic array create`: xarray reads the same from the pool as from the file."""

import itertools
import json
import subprocess

import netCDF4
import numpy as np
import pytest
import xarray as xr
import zarr

import benthic
from seeds import one
from stores import PROGRAMS

PROGRAM = PROGRAMS / "benthic-array"
NAMES = itertools.count()

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="`make array` builds benthic-array")


@pytest.fixture(scope="module")
def climate(tmp_path_factory):
    """Runs verbs of `benthic array` on a store with the pool `climate`."""
    uri = f"file:{tmp_path_factory.mktemp('store')}/s"
    with benthic.connect(uri) as store:
        store.create_pool("climate")

    def run(*args):
        command = [str(PROGRAM), "--store", uri, "--json", "array", *map(str, args)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    run.uri = uri
    return run


def write_netcdf(path, format, **options):
    """A file with floats, packed integers, coordinates, attributes and, in version 4, groups."""
    rng = np.random.default_rng(one())
    file = netCDF4.Dataset(path, "w", format=format)
    file.title, file.version, file.factors = "reef", np.int32(3), np.array([0.5, 1.5])
    for name, length in {"time": None, "lat": 13, "lon": 20}.items():
        file.createDimension(name, length)

    def variable(name, dtype, dims, values, fill_value=None, group=file, attrs=(), **more):
        made = group.createVariable(name, dtype, dims, fill_value=fill_value, **more)
        made.setncatts(dict(attrs))
        made.set_auto_maskandscale(False)
        made[...] = values
        return made

    units = {"units": "hours since 2000-01-01", "calendar": "standard"}
    variable("time", "f8", ("time",), np.arange(7) * 6.0, attrs=units)
    variable("lat", "f4", ("lat",), np.linspace(-60, 60, 13))
    variable("lon", "f8", ("lon",), np.linspace(0, 342, 20))
    floats = rng.normal(280, 9, (7, 13, 20)).astype("f4")
    floats[rng.random(floats.shape) < 0.1] = -9999
    variable("t2m", "f4", ("time", "lat", "lon"), floats, -9999.0, **options)
    packing = {"scale_factor": 0.01, "add_offset": 273.15, "missing_value": np.int16(-32767)}
    packed = rng.integers(-(2**15), 2**15, (7, 13, 20)).astype("i2")
    variable("packed", "i2", ("time", "lat", "lon"), packed, -32768, attrs=packing, **options)
    variable("scalar", "f8", (), 7.25, attrs={"note": "µ"})
    variable("byte", "i1", ("lat",), np.arange(13) - 6, attrs={"valid_range": np.array([-6, 6], "i1")})
    gaps = np.where(rng.random((13, 20)) < 0.5, np.nan, 1.5)
    variable("gaps", "f8", ("lat", "lon"), gaps, np.nan, attrs={"missing_value": np.nan})
    if format == "NETCDF4":
        for dtype in ("u1", "u2", "u4", "u8", "i8"):
            variable(dtype, dtype, ("lat",), rng.integers(0, 100, 13))
        variable("big", "f4", ("lat", "lon"), rng.random((13, 20)).astype("f4"), endian="big")
        # One of many chunks is stored, and records are missing.
        file.createVariable("sparse", "f4", ("time", "lat", "lon"), chunksizes=(1, 5, 7))[2, 3, 4] = 1
        file.createVariable("short", "i4", ("time", "lat"))[:3] = 1
        inner = file.createGroup("inner")
        inner.origin = "nested"
        inner.createDimension("z", 3)
        variable("z", "f4", ("z",), [1, 2, 3], group=inner)
        variable("q", "f4", ("z", "lat"), rng.random((3, 13)), group=inner, fletcher32=True, **options)
    file.close()


def check(theirs, ours):
    """The same variables, values, types and attributes."""
    assert set(ours.variables) == set(theirs.variables)
    for name, variable in theirs.variables.items():
        found = ours.variables[name]
        assert (found.dtype, found.dims) == (variable.dtype, variable.dims), name
        np.testing.assert_array_equal(found.values, variable.values, err_msg=name)
        assert set(found.attrs) == set(variable.attrs), name
        for key, value in variable.attrs.items():
            np.testing.assert_array_equal(found.attrs[key], value, err_msg=f"{name}.{key}")
    assert set(ours.attrs) == set(theirs.attrs)


@pytest.mark.parametrize("codec", ["blosc", "zstd", "gzip", "none"])
@pytest.mark.parametrize(
    "format, options",
    [
        ("NETCDF3_CLASSIC", {}),
        ("NETCDF3_64BIT_OFFSET", {}),
        ("NETCDF3_64BIT_DATA", {}),
        ("NETCDF4_CLASSIC", {"zlib": True}),
        ("NETCDF4", {}),
        ("NETCDF4", {"zlib": True, "shuffle": True}),
        ("NETCDF4", {"compression": "zstd"}),
    ],
)
def test_a_netcdf_file_equals_its_arrays(climate, tmp_path, format, options, codec):
    path, name = tmp_path / "file.nc", f"n{next(NAMES)}"
    write_netcdf(path, format, **options)
    climate("create", f"climate/{name}", "--from", path, "--codec", codec)
    climate("export", f"climate/{name}", tmp_path / "copy.zarr")
    for group in ["", "inner"] if format == "NETCDF4" else [""]:
        address = f"benthic://climate/{name}/{group}".rstrip("/")
        for decode in (True, False):
            theirs = xr.open_dataset(path, group=group or None, engine="netcdf4", decode_cf=decode)
            check(theirs, xr.open_dataset(address, engine="benthic", store=climate.uri, decode_cf=decode))
            copied = {"engine": "zarr", "group": group, "consolidated": False, "decode_cf": decode}
            check(theirs, xr.open_dataset(tmp_path / "copy.zarr", **copied))
            theirs.close()


def test_chosen_chunks_and_one_variable(climate, tmp_path):
    path, name = tmp_path / "file.nc", f"n{next(NAMES)}"
    write_netcdf(path, "NETCDF4")
    climate("create", f"climate/{name}", "--from", f"{path}:t2m", "--chunks", "2,5,5")
    ours = xr.open_dataset(f"benthic://climate/{name}", engine="benthic", store=climate.uri)
    theirs = xr.open_dataset(path, engine="netcdf4")
    assert set(ours.variables) == {"t2m", "time", "lat", "lon"}
    xr.testing.assert_equal(ours.t2m, theirs.t2m)
    assert ours.t2m.encoding["chunks"] == (2, 5, 5)


@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_an_hdf5_file_equals_its_arrays(climate, tmp_path, libver):
    h5py = pytest.importorskip("h5py")
    rng = np.random.default_rng(one())
    path, name = tmp_path / "file.h5", f"h{next(NAMES)}"
    data = rng.random((30, 40)).astype("f4")
    with h5py.File(path, "w", libver=libver) as file:
        file["contiguous"] = data
        file["scalar"] = np.int16(-3)
        file["mask"] = data > 0.5
        file["big"] = data.astype(">f8")
        packed = {"compression": "gzip", "shuffle": True, "fletcher32": True}
        for index, maxshape in enumerate([(30, 40), (None, 40), (None, None)]):
            file.create_dataset(f"chunked{index}", data=data, chunks=(4, 7), maxshape=maxshape, **packed)
        file.create_dataset("one", data=data, chunks=(30, 40), **packed)
        sparse = file.create_dataset("sparse", shape=(30, 40), chunks=(10, 10), dtype="f8", fillvalue=-7.5)
        sparse[3, 4] = 1
        file.create_dataset("nothing", shape=(3, 4), dtype="i4", fillvalue=9)
        file.create_dataset("empty", shape=(0, 3), dtype="f4")
        file["g/h/deep"] = data
        names = [key for key in file if key != "g"] + ["g/h/deep"]
    climate("create", f"climate/{name}", "--from", path)
    climate("export", f"climate/{name}", tmp_path / "copy.zarr")
    copy = zarr.open_group(tmp_path / "copy.zarr", mode="r")
    with h5py.File(path) as file, benthic.connect(climate.uri) as store:
        for key in names:
            np.testing.assert_array_equal(copy[key][...], file[key][...], err_msg=key)
            array = store.array(f"climate/{name}/{key}")
            np.testing.assert_array_equal(array[...], file[key][...], err_msg=key)
