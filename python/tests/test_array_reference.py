"""`benthic array create --reference`: a stored file, its arrays, and the file as h5py reads it."""

import io
import itertools
import pathlib
import pickle
import subprocess

import h5py
import netCDF4
import numpy as np
import pytest
import xarray as xr
import zarr

import benthic
import benthic.xarray
from benthic import open_file, zarr_store
from seeds import one
from test_array_create import PROGRAM, check, climate

__all__ = ["climate"]
NAMES = itertools.count()
FIXTURES = pathlib.Path(__file__).parents[2] / "crates/benthic-array-cli/tests/it/fixtures"

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="`make array` builds benthic-array")


def create(climate, path):
    """Creates a group, and returns its address and the command's output."""
    address = f"climate/r{next(NAMES)}"
    return address, climate("create", address, "--from", path, "--reference")


def write_netcdf(path, format, **options):
    """Arrays of more than 4 KiB: floats, packed integers, and records if the format has them."""
    rng = np.random.default_rng(one())
    with netCDF4.Dataset(path, "w", format=format) as file:
        for name, length in {"time": None, "lat": 53, "lon": 61}.items():
            file.createDimension(name, length)
        shape = (5, 53, 61)
        time = file.createVariable("time", "f8", ("time",))
        time.units = "hours since 2000-01-01"
        time[:] = np.arange(5)
        floats = file.createVariable("t", "f4", ("time", "lat", "lon"), fill_value=-9999.0, **options)
        floats[:] = np.ma.masked_array(rng.normal(280, 9, shape), rng.random(shape) < 0.1)
        packed = file.createVariable("packed", "i2", ("time", "lat", "lon"), fill_value=-1, **options)
        packed.scale_factor, packed.add_offset = 0.01, 273.15
        packed.set_auto_maskandscale(False)
        packed[:] = rng.integers(-1, 999, shape)
        # In netCDF's classic formats, a record of an odd size.
        file.createVariable("byte", "i1", ("time", "lat", "lon"), **options)[:] = rng.integers(-9, 9, shape)
        file.createVariable("height", "f8", ("lat", "lon"))[:] = rng.random(shape[1:])
        if format.startswith("NETCDF4"):
            sparse = file.createVariable("sparse", "f8", ("time", "lat", "lon"), chunksizes=(1, 25, 31), **options)
            sparse[2, 30, 40] = 1
            # Shorter than its dimension, at the end of a chunk and in a chunk.
            file.createVariable("half", "f4", ("time", "lat", "lon"), chunksizes=(1, 53, 61), **options)[:2] = 1
            file.createVariable("third", "f4", ("time", "lat", "lon"), chunksizes=(3, 53, 61), **options)[:2] = 1


@pytest.mark.parametrize(
    "format, options, in_file",
    [
        ("NETCDF3_CLASSIC", {}, {"t", "packed", "height"}),
        ("NETCDF3_64BIT_OFFSET", {}, {"t", "packed", "height"}),
        ("NETCDF3_64BIT_DATA", {}, {"t", "packed", "height"}),
        ("NETCDF4_CLASSIC", {"zlib": True}, None),
        ("NETCDF4", {}, None),
        ("NETCDF4", {"zlib": True, "shuffle": True, "fletcher32": True}, None),
        ("NETCDF4", {"endian": "big", "zlib": True}, None),
        ("NETCDF4", {"compression": "zstd"}, None),
        ("NETCDF4", {"compression": "blosc_zstd", "blosc_shuffle": 1}, None),
    ],
)
def test_arrays_in_a_netcdf_file_equal_the_file(climate, tmp_path, format, options, in_file):
    path = tmp_path / "file.nc"
    write_netcdf(path, format, **options)
    address, created = create(climate, path)
    if in_file is None:
        # Each record is a chunk, also of bytes, whose chunks are too small.
        in_file = {"t", "packed", "height", "sparse", "half"}
    found = {name for name in xr.open_dataset(path).variables if climate("info", f"{address}/{name}")["file"]}
    assert found == in_file and created["arrays_in_file"] == len(in_file)
    with benthic.connect(climate.uri) as store:
        pool, group = address.split("/")
        stored = store.pool(pool).get(f"{group}/file.nc")
        assert stored == path.read_bytes()
        for decode in (True, False):
            theirs = xr.open_dataset(path, engine="netcdf4", decode_cf=decode)
            ours = xr.open_dataset(f"benthic://{address}", engine="benthic", store=store, decode_cf=decode)
            check(theirs, ours)
            # Another Zarr library reads the same from a read-only store.
            readable = zarr_store(store, pool, group, read_only=True)
            # netCDF adds the checksum before the shuffle, and numcodecs does not decode that.
            if not options.get("fletcher32"):
                check(theirs, xr.open_dataset(readable, engine="zarr", consolidated=False, decode_cf=decode))
            ours = xr.open_dataset(f"benthic://{address}", engine="benthic", store=store, pushdown="always")
            for name in in_file & set(ours.data_vars):
                array = ours[name]
                assert array.benthic.is_pushable
                xr.testing.assert_allclose(array.benthic.max("lat"), array.load().max("lat"))
            theirs.close()
        # A program that does not know the field would read fill values, and one that writes would lose it.
        root = zarr.open_group(zarr_store(store, pool, group))
        with pytest.raises(Exception, match="benthic_references"):
            root["t"]
        by_mode = zarr.open_group(zarr_store(store, pool, group), mode="r")
        np.testing.assert_array_equal(by_mode["t"][:], store.array(f"{address}/t")[:])


@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_every_layout_of_hdf5(climate, tmp_path, libver):
    rng = np.random.default_rng(one())
    path = tmp_path / "file.h5"
    data = rng.integers(0, 1000, (130, 150))
    copied = {"scalar", "rounded"}
    with h5py.File(path, "w", libver=libver, userblock_size=1024) as file:
        filters = {
            "plain": {},
            "gzip": {"compression": 4},
            "all": {"compression": "gzip", "shuffle": True, "fletcher32": True},
            "sum": {"fletcher32": True},
            "bytes": {"shuffle": True},
        }
        for dtype, (name, options) in itertools.product(("i4", ">f8", "f4", ">i2"), filters.items()):
            for layout, more in {"fixed": {}, "one": {"maxshape": (None, 150)}, "two": {"maxshape": (None, None)}}.items():
                chunks = tuple(int(rng.integers(60, 140)) for _ in range(2))
                chunks = chunks if "maxshape" in more else (min(chunks[0], 130), min(chunks[1], 150))
                file.create_dataset(f"{layout}/{name}/{dtype[-2:]}", data=data.astype(dtype), chunks=chunks, **options, **more)
        file["contiguous/i8"] = data
        file["contiguous/big"] = data.astype(">f4")
        file["mask"] = data > 500
        file["scalar"] = np.int16(-3)
        file.create_dataset("rounded", data=data, scaleoffset=0, chunks=(130, 150))
        many = file.create_dataset("many", (600, 9, 64), "f8", chunks=(1, 9, 64), fillvalue=-2.5)
        many[7], many[599] = 1, 2
        # Larger than the array, and shrunk.
        file.create_dataset("wide", data=data[:9], chunks=(40, 200), maxshape=(None, None), compression=1)
        shrunk = file.create_dataset("shrunk", data=data, chunks=(40, 50), maxshape=(None, None), compression=1)
        shrunk.resize((77, 51))
    address, _ = create(climate, path)
    with benthic.connect(climate.uri) as store, h5py.File(path) as file:

        def compare(name, dataset):
            if not isinstance(dataset, h5py.Dataset):
                return
            array = store.array(f"{address}/{name}")
            for pushdown in ("always", "never"):
                np.testing.assert_array_equal(array.read(pushdown=pushdown), dataset[()], err_msg=name)
            in_file = climate("info", f"{address}/{name}")["file"] is not None
            assert in_file != (name in copied), name
            if dataset.dtype.kind != "b":
                assert array.reduce("max", pushdown="always") == dataset[()].max(), name

        file.visititems(compare)


def test_a_large_file_has_several_objects(climate, tmp_path):
    path = tmp_path / "file.nc"
    rng = np.random.default_rng(one())
    # A contiguous array whose length is a prime number, and random chunks, which do not shrink.
    field = rng.random((1097, 100, 61)).astype("f4")
    with h5py.File(path, "w") as file:
        file["field"] = field
        file.create_dataset("noise", data=field, chunks=(100, 100, 61), compression=1, shuffle=True)
    address, created = create(climate, path)
    assert created["file"]["size_bytes"] == path.stat().st_size and created["file"]["objects"] >= 2
    with benthic.connect(climate.uri) as store:
        name = created["file"]["object"]
        parts = list(store.pool("climate").ls(f"{name}@"))
        assert b"".join(store.pool("climate").get(part) for part in parts) == path.read_bytes()
        for array in (store.array(f"{address}/field"), store.array(f"{address}/noise")):
            for pushdown in ("always", "never"):
                np.testing.assert_array_equal(array.read(np.s_[3::7, 5:, ::3], pushdown=pushdown), field[3::7, 5:, ::3])
                assert array.reduce("max", pushdown=pushdown) == field.max()
        # The file as h5py sees it.
        opened = open_file(store, "climate", name)
        assert opened.size_bytes == path.stat().st_size
        with h5py.File(opened) as file:
            np.testing.assert_array_equal(file["noise"][500:510], field[500:510])
            np.testing.assert_array_equal(file["field"][()], field)
        group = zarr.open_group(zarr_store(store, "climate", address.split("/")[1]), mode="r")
        np.testing.assert_array_equal(group["field"][1000:], field[1000:])
        np.testing.assert_array_equal(group["noise"][90:110], field[90:110])
        # A missing part.
        store.pool("climate").rm(parts[1])
        for pushdown in ("always", "never"):
            with pytest.raises(benthic.CorruptError, match="missing"):
                store.array(f"{address}/noise").reduce("max", pushdown=pushdown)
        with pytest.raises(benthic.CorruptError, match="missing"):
            group["noise"][:]


def test_a_filter_that_cannot_be_read_stores_nothing(climate, tmp_path):
    path = tmp_path / "file.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("good", data=np.arange(9_000.0), chunks=(900,), compression="gzip")
        file.create_dataset("lzf", data=np.arange(9_000.0), chunks=(900,), compression="lzf")
    command = [PROGRAM, "--store", climate.uri, "array", "create", "climate/lzf", "--from", path, "--reference"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and "h5repack" in done.stderr, done.stderr
    with benthic.connect(climate.uri) as store:
        assert not list(store.pool("climate").ls("lzf/"))


def test_xarray_opens_a_stored_file(climate, tmp_path):
    pytest.importorskip("h5netcdf")
    path = tmp_path / "file.nc"
    write_netcdf(path, "NETCDF4", zlib=True)
    with benthic.connect(climate.uri) as store:
        store.pool("climate").put("plain.nc", path.read_bytes())
        theirs = xr.open_dataset(path, engine="netcdf4")
        check(theirs, xr.open_dataset(open_file(store, "climate", "plain.nc"), engine="h5netcdf"))
        theirs.close()


def test_a_file_reads_like_a_file(durable):
    pool = durable.pool()
    rng = np.random.default_rng(one())
    data = rng.integers(0, 256, 9_000_000).astype("u1").tobytes()
    pool.put("whole", data)
    for start, end in itertools.pairwise([0, 1, 300_000, 2_000_000, len(data)]):
        pool.put(f"parts@{start:016x}", data[start:end])
    pool.put("parts@x", b"of another program")
    for name in ("whole", "parts"):
        with open_file(durable.store, pool.name, name, namespace=pool.namespace) as file:
            assert (file.readable(), file.seekable(), file.writable(), file.size_bytes) == (True, True, False, len(data))
            for _ in range(300):
                expected = io.BytesIO(data)
                offset = int(rng.integers(0, len(data) + 10))
                size = int(rng.choice([1, 100, 70_000, 5_000_000]))
                assert file.seek(offset) == expected.seek(offset)
                assert file.read(size) == expected.read(size) and file.tell() == expected.tell()
            assert file.seek(-7, io.SEEK_END) == len(data) - 7 and file.read() == data[-7:]
            assert file.seek(-9, io.SEEK_CUR) == len(data) - 9 and file.read(1) == data[-9:-8]
            with pytest.raises(ValueError, match="negative"):
                file.seek(-1)
            # In order, a few requests read all.
            file.seek(0)
            assert b"".join(iter(lambda: file.read(10_000), b"")) == data
            copy = pickle.loads(pickle.dumps(file))
            assert copy.read(100) == data[:100]
        with pytest.raises(ValueError, match="closed"):
            file.read(1)
    with open_file(durable.store, pool.name, "whole", namespace=pool.namespace) as file:
        file.read(10)
        pool.put("whole", b"shorter")
        file.seek(8_000_000)
        with pytest.raises(benthic.ConflictError):
            file.read(10)
    for name in ("nothing", "parts@"):
        with pytest.raises(benthic.NotFoundError):
            open_file(durable.store, pool.name, name, namespace=pool.namespace)
    pool.put("empty", b"")
    assert open_file(durable.store, pool.name, "empty", namespace=pool.namespace).read() == b""
    pool.rm("parts@0000000000000000")
    with pytest.raises(benthic.CorruptError):
        open_file(durable.store, pool.name, "parts", namespace=pool.namespace)


def test_a_file_caches_what_it_read(durable, monkeypatch):
    pool = durable.pool()
    file = io.BytesIO()
    values = np.random.default_rng(one()).random((200, 100, 60))
    with h5py.File(file, "w") as written:
        written.create_dataset("values", data=values, chunks=(10, 100, 60))
    pool.put("values.h5", file.getvalue())
    requests = []
    read = benthic.Pool.read

    def counted(self, *arguments):
        requests.append(arguments)
        return read(self, *arguments)

    monkeypatch.setattr(benthic.Pool, "read", counted)
    with open_file(durable.store, pool.name, "values.h5", namespace=pool.namespace) as opened:
        counts = []
        for _ in range(2):
            with h5py.File(opened) as stored:
                np.testing.assert_array_equal(stored["values"][()], values)
                np.testing.assert_array_equal(stored["values"][:, 5], values[:, 5])
            counts.append(len(requests))
    # 20 chunks of 480 KB and the metadata: neighbours come with one request, and nothing comes twice.
    assert counts[0] <= 4 and counts[1] == counts[0], counts


def test_xarray_opens_grib_files(climate):
    """In place and copied, the arrays are equal, with the names, axes and times of cfgrib."""
    in_place, _ = create(climate, FIXTURES / "era5.grib")
    copied = f"climate/r{next(NAMES)}"
    climate("create", copied, "--from", FIXTURES / "era5.grib")
    with (
        xr.open_dataset(f"benthic://{in_place}", engine="benthic", store=climate.uri) as ds,
        xr.open_dataset(f"benthic://{copied}", engine="benthic", store=climate.uri) as copy,
    ):
        assert ds.t.dims == ("time", "isobaricInhPa", "latitude", "longitude")
        assert [str(time)[:13] for time in ds.time.values] == ["2024-02-29T00", "2024-02-29T06"]
        assert ds.t.attrs["units"] == "K" and ds.t.isnull().any()
        xr.testing.assert_identical(ds.load(), copy.load())
    with xr.open_dataset(f"benthic://{in_place}", engine="benthic", store=climate.uri) as ds:
        at_500 = ds.t.sel(isobaricInhPa=500)
        assert at_500.benthic.is_pushable
        xr.testing.assert_allclose(at_500.benthic.mean("time"), at_500.astype(float).mean("time"))
