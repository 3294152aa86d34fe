"""Arrays that zarr-python wrote, with all its codecs, read and reduced beside the chunks and here, and
compared with NumPy.
"""

import itertools
import math

import numcodecs
import numcodecs.zarr3
import numpy as np
import pytest
import zarr
import zarr.codecs as codecs

import benthic
from benthic import zarr_store
from seeds import one

DTYPES = ["bool", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"]
COMPRESSORS = {
    "none": [],
    "gzip": [codecs.GzipCodec()],
    "zstd": [codecs.ZstdCodec(checksum=True)],
    "crc32c": [codecs.ZstdCodec(), codecs.Crc32cCodec()],
    **{
        f"blosc-{cname}-{shuffle}": [codecs.BloscCodec(cname=cname, shuffle=shuffle)]
        for cname in ("lz4", "lz4hc", "blosclz", "zlib", "zstd")
        for shuffle in ("noshuffle", "shuffle", "bitshuffle")
    },
}
V2_COMPRESSORS = {
    "none": (None, None),
    "zlib": (numcodecs.Zlib(), None),
    "lz4": (numcodecs.LZ4(), None),
    "blosc": (numcodecs.Blosc(cname="blosclz", clevel=9, blocksize=4096), None),
    "shuffle": (numcodecs.GZip(), [numcodecs.Shuffle(4)]),
    "fletcher32": (None, [numcodecs.Fletcher32()]),
}
KINDS = ["count", "sum", "prod", "min", "max", "mean", "var", "std", "argmin", "argmax", "any", "all"]


def numbers(rng, dtype, shape):
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype.newbyteorder("="), endpoint=True).astype(dtype)
    values = rng.normal(0, 1e3, shape).astype(dtype)
    for special in (np.nan, np.inf, -np.inf, -0.0):
        values[rng.random(shape) < 0.002] = special
    # Runs that compress well make copies of all lengths.
    values[: shape[0] // 3] = np.round(values[: shape[0] // 3], -2)
    return values


def opened(place, data, write):
    name = f"array-{next(COUNT)}"
    write(zarr_store(place.store, place.pool_name, name), data)
    return place.store.array(f"{place.pool_name}/{name}")


COUNT = itertools.count()


def v3(compressors, **options):
    def write(store, data):
        zarr.create_array(store, data=data, compressors=compressors, overwrite=True, **options)

    return write


def same(found, expected):
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == np.asarray(expected).dtype and found.shape == np.shape(expected)


@pytest.mark.parametrize("compressor", COMPRESSORS)
def test_every_codec_of_version_3(in_memory, compressor):
    rng = np.random.default_rng(one())
    for dtype, endian in itertools.product(DTYPES, ("little", "big")):
        data = numbers(rng, dtype, (97, 131))
        serializer = codecs.BytesCodec(endian=endian)
        write = v3(COMPRESSORS[compressor], chunks=(50, 60), serializer=serializer)
        array = opened(in_memory, data, write)
        for pushdown in ("always", "never"):
            same(array.read(pushdown=pushdown), data)
            same(array.read(np.s_[3:90:7, -1], pushdown=pushdown), data[3:90:7, -1])


@pytest.mark.parametrize("codec", V2_COMPRESSORS)
@pytest.mark.parametrize("order", ["C", "F"])
def test_every_codec_of_version_2(in_memory, codec, order):
    rng = np.random.default_rng(one())
    compressor, filters = V2_COMPRESSORS[codec]
    for dtype in ["bool", "<i4", ">f4", "<f8", ">u2"]:
        data = numbers(rng, dtype, (97, 131))

        def write(store, data):
            zarr.create_array(
                store, data=data, chunks=(50, 60), zarr_format=2, order=order, compressors=compressor, filters=filters
            )

        array = opened(in_memory, data, write)
        for pushdown in ("always", "never"):
            same(array.read(pushdown=pushdown), data.astype(data.dtype.newbyteorder("=")))


def test_shards(beside):
    rng = np.random.default_rng(one())
    data = numbers(rng, "f4", (90, 120))
    data[:30] = 0
    array = opened(beside, data, v3([codecs.BloscCodec()], chunks=(10, 15), shards=(30, 60), fill_value=0))
    assert array.chunks == (30, 60) and array.inner_chunks == (10, 15)
    for pushdown in ("always", "never"):
        same(array.read(pushdown=pushdown), data)
        same(array.read(np.s_[25:45, 7:70:3], pushdown=pushdown), data[25:45, 7:70:3])
    small = array.read(np.s_[30:32, 0:2], pushdown="never")
    same(small, data[30:32, 0:2])
    assert array.last_stats.moved_bytes < 1500


def expected(data, kind, axis, skipna):
    is_float = data.dtype.kind == "f"
    wide = data.astype(np.float64) if is_float else data
    with np.errstate(all="ignore"):
        if kind == "count":
            return np.sum(~np.isnan(data) if is_float else np.ones(data.shape, bool), axis)
        if kind in ("any", "all"):
            if is_float and skipna:
                wide = np.where(np.isnan(wide), kind == "all", wide)
            return getattr(np, kind)(wide, axis)
        if not is_float and kind in ("mean", "var", "std"):
            wide = data.astype(np.float64)
        name = f"nan{kind}" if is_float and skipna else kind
        return getattr(np, name)(wide, axis)


def test_reductions_in_osds_equal_those_of_numpy(beside):
    check_reductions(beside, "f4")


@pytest.mark.parametrize("dtype", DTYPES)
def test_reductions_equal_those_of_numpy(in_memory, dtype):
    check_reductions(in_memory, dtype)


def check_reductions(place, dtype):
    rng = np.random.default_rng(one())
    data = numbers(rng, dtype, (23, 14, 31))
    if data.dtype.kind == "f":
        # Products of other numbers overflow, and then depend on the order of the factors.
        data = rng.uniform(0.9, 1.1, data.shape).astype(dtype)
        data[rng.random(data.shape) < 0.01] = np.nan
    array = opened(place, data, v3([codecs.BloscCodec()], chunks=(6, 14, 8)))
    keys = [np.s_[...], np.s_[2:20:3, :, 1:-1], np.s_[:, 5]]
    for kind, key, skipna in itertools.product(KINDS, keys, (True, False)):
        part = data[key]
        for axis in [None, 0, part.ndim - 1, (0, 1)]:
            if kind.startswith("arg") and isinstance(axis, tuple):
                continue
            # The axes of the reduction are those of the array.
            own = axis if part.ndim == 3 or axis is None else tuple({0: 0, 1: 2}[each] for each in np.atleast_1d(axis))
            found = [
                array.reduce(kind, own, key, skipna=skipna, pushdown=pushdown)
                for pushdown in ("always", "never", "auto")
            ]
            wanted = expected(part, kind, axis, skipna)
            assert found[0].tobytes() == found[1].tobytes() == found[2].tobytes(), (kind, key, axis)
            exact = data.dtype.kind != "f" and kind not in ("mean", "var", "std") or kind in ("min", "max")
            if exact or kind.startswith("arg") or kind in ("count", "any", "all"):
                np.testing.assert_array_equal(found[0], wanted, f"{kind} {key} {axis}")
            else:
                np.testing.assert_allclose(found[0], wanted, 1e-12, 1e-9, err_msg=f"{kind} {key} {axis}")


def test_sums_of_float32_are_more_exact_than_those_of_numpy(in_memory):
    rng = np.random.default_rng(one())
    data = (rng.normal(0, 1, 1_000_000) + 1e4).astype("f4")
    array = opened(in_memory, data, v3(None, chunks=(30_000,)))
    exact = math.fsum(data.astype(float))
    assert array.reduce("sum") == exact
    assert float(np.sum(data)) != exact


def test_histogram_and_decoding(beside):
    data = np.arange(-50, 250, dtype="i2").reshape(3, 100)
    array = opened(beside, data, v3(None, chunks=(2, 30)))
    decoding = benthic.Decoding(missing=(-50, 0), scale=0.5, offset=100.0, valid_max=200)
    decoded = np.where((data == -50) | (data == 0) | (data > 200), np.nan, data * 0.5 + 100.0)
    edges = [80, 100, 110.5, 200]
    for pushdown in ("always", "never"):
        found = array.reduce("histogram", edges=edges, decoding=decoding, pushdown=pushdown)
        same(found, np.histogram(decoded[~np.isnan(decoded)], edges)[0])
        rows = array.reduce("histogram", 1, edges=edges, decoding=decoding, pushdown=pushdown)
        assert rows.shape == (3, 3) and (rows.sum(0) == found).all()
        same(array.reduce("mean", 0, decoding=decoding, pushdown=pushdown), np.nanmean(decoded, 0))


def test_quantiles_of_few_values_are_those_of_numpy(beside):
    rng = np.random.default_rng(one())
    data = rng.normal(0, 10, (30, 7, 5))
    data[rng.random(data.shape) < 0.1] = np.nan
    array = opened(beside, data, v3(None, chunks=(8, 4, 5)))
    q = [0, 0.05, 0.5, 0.951, 1]
    for pushdown, axis in itertools.product(("always", "never"), (None, 0, (0, 2))):
        found = array.reduce("quantile", axis, q=q, pushdown=pushdown)
        same(found, np.moveaxis(np.nanquantile(data, q, axis), 0, -1))
        same(array.reduce("quantile", axis, q=0.3, pushdown=pushdown), np.nanquantile(data, 0.3, axis))
    kept = array.reduce("quantile", 0, q=0.5, skipna=False)
    same(kept, np.quantile(data, 0.5, 0))
    groups = rng.integers(0, 3, 30)
    found = array.reduce("quantile", (1, 2), groups={0: groups}, q=q)
    np.testing.assert_array_equal(found[1], np.nanquantile(data[groups == 1], q))
    for mistake in [dict(q=None), dict(q=[]), dict(q=1.1), dict(q=[0.5, np.nan])]:
        with pytest.raises(benthic.InvalidArgumentError, match="quantile"):
            array.reduce("quantile", **mistake)
    with pytest.raises(benthic.InvalidArgumentError, match="quantile needs q"):
        array.reduce("mean", q=0.5)


@pytest.mark.parametrize("values", ["temperature", "wind", "packed"])
def test_quantiles_of_many_values_have_the_documented_error(in_memory, values):
    rng = np.random.default_rng(one())
    shape, decoding = (40, 200, 100), None
    if values == "temperature":
        data, limit = rng.normal(280, 20, shape).astype("f4"), 0.0005 * 2
    elif values == "wind":
        data, limit = rng.normal(0, 10, shape), 0.015
    else:
        data, limit = rng.integers(-30_000, 30_000, shape, "i2"), 0.01
        decoding = benthic.Decoding(scale=0.01, offset=100.0)
    array = opened(in_memory, data, v3([codecs.BloscCodec()], chunks=(7, 90, 100)))
    decoded = data * 0.01 + 100.0 if decoding else data.astype("f8")
    q = np.linspace(0, 1, 101)
    found = [array.reduce("quantile", q=q, decoding=decoding, pushdown=pushdown) for pushdown in ("always", "never")]
    assert found[0].tobytes() == found[1].tobytes()
    lower, higher = (np.quantile(decoded, q, method=method) for method in ("lower", "higher"))
    assert np.all(found[0] >= lower - limit * abs(lower)) and np.all(found[0] <= higher + limit * abs(higher))
    days = array.reduce("quantile", (1, 2), q=0.5, decoding=decoding)
    np.testing.assert_allclose(days, np.quantile(decoded, 0.5, (1, 2)), rtol=limit, atol=0.01)


def test_quantiles_that_need_too_much_memory_are_refused(in_memory):
    store = zarr_store(in_memory.store, in_memory.pool_name, "quantiles")
    zarr.create_array(store, shape=(10_000, 1000, 1000), chunks=(100, 100, 100), dtype="f4", overwrite=True)
    array = in_memory.store.array(f"{in_memory.pool_name}/quantiles")
    with pytest.raises(benthic.LimitExceededError, match="4096 buckets"):
        array.reduce("quantile", 0, q=0.5)
    # No chunk is stored.
    assert array.reduce("median", 0, np.s_[:, 0, :100]).tolist() == [0.0] * 100


def test_statistics(beside):
    data = np.arange(1000, dtype="i4").reshape(10, 100)
    array = opened(beside, data, v3(None, chunks=(1, 50)))
    wanted = benthic.Decoding(wanted_min=120, wanted_max=249)
    assert array.index() == 20 and array.index(pushdown="always") == 0
    for pushdown in ("always", "never"):
        assert array.reduce("sum", decoding=wanted, pushdown=pushdown) == data.ravel()[120:250].sum()
        assert (array.last_stats.chunks, array.last_stats.pruned_chunks) == (20, 17)
        assert array.reduce("count", 1, np.s_[2:4], decoding=wanted, pushdown=pushdown).tolist() == [50, 0]
        assert array.last_stats.pruned_chunks == 3
    zarr_array = zarr.open_array(zarr_store(beside.store, beside.pool_name, array.name.partition("/")[2]))
    zarr_array[9, 99] = 200
    assert array.reduce("count", decoding=wanted) == 131 and array.last_stats.pruned_chunks == 16


def test_groups(beside):
    rng = np.random.default_rng(one())
    data = rng.normal(0, 10, (20, 9)).astype("f4")
    array = opened(beside, data, v3(None, chunks=(7, 4)))
    groups = rng.integers(-1, 3, 20)
    groups[:4] = [-1, 0, 1, 2]
    expected = [data[groups == group].mean(axis=0, dtype="f8") for group in range(3)]
    found = array.reduce("mean", groups={0: groups}, pushdown="always")
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    found = array.reduce("mean", -1, groups={0: groups})
    np.testing.assert_allclose(found, np.mean(expected, axis=1), rtol=1e-6)
    found = array.reduce("max", groups={-1: [0, 0, 2]}, key=np.s_[3:5, 1:8:3])
    np.testing.assert_array_equal(found[:, 0], data[3:5, [1, 4]].max(axis=1))
    assert np.isnan(found[:, 1]).all(), "a group without a position"
    np.testing.assert_array_equal(found[:, 2], data[3:5, 7])
    for mistake in [
        dict(groups={0: [0, 1]}),
        dict(groups={0: groups - 1}),
        dict(groups={0: groups.astype("f8")}),
        dict(groups={2: groups}),
        dict(groups={0: groups}, axis=0),
        dict(groups={0: groups}, key=3),
        dict(groups={0: np.full(20, 2**20)}),
    ]:
        with pytest.raises(benthic.InvalidArgumentError):
            array.reduce("mean", **mistake)
    with pytest.raises(benthic.InvalidArgumentError):
        array.reduce("argmin", groups={0: groups})


def test_masks(beside):
    rng = np.random.default_rng(one())
    data = rng.normal(0, 10, (20, 9)).astype("f4")
    array = opened(beside, data, v3(None, chunks=(7, 4)))
    mask = rng.random((20, 9)) < 0.5
    mask[:7] = False
    for pushdown in ["always", "never"]:
        found = array.reduce("mean", 0, mask=mask, pushdown=pushdown)
        np.testing.assert_allclose(found, data.mean(0, dtype="f8", where=mask), rtol=1e-6)
        assert array.last_stats.pruned_chunks == 3, "the mask keeps nothing of the first chunks"
    # A mask repeats along the axes that it lacks, and has the positions of the selection.
    np.testing.assert_array_equal(array.reduce("max", 1, mask=mask[3]), [np.nan] * 20)
    row = mask[9] | (np.arange(9) == 4)
    np.testing.assert_array_equal(array.reduce("max", 1, mask=row), data.max(1, where=row, initial=-999))
    listed = array.reduce("count", 0, np.s_[[12, 3, 9], 2:8:2], mask=mask[[12, 3, 9], 2:8:2])
    np.testing.assert_array_equal(listed, mask[[12, 3, 9], 2:8:2].sum(0))
    assert array.reduce("argmax", key=8, mask=mask[8] | row) == np.where(mask[8] | row, data[8], -999).argmax()
    assert array.reduce("sum", mask=np.False_) == 0 and array.last_stats.moved_bytes < 1000
    numbers = opened(beside, np.arange(12, dtype="i8").reshape(3, 4), v3(None, chunks=(2, 2)))
    largest = numbers.reduce("max", mask=np.arange(4) < 2)
    assert largest == 9.0 and largest.dtype == np.float64
    for mistake in [mask[:3], mask[..., None], mask.astype("f4"), mask.T]:
        with pytest.raises(benthic.InvalidArgumentError, match="bools"):
            array.reduce("mean", mask=mistake)


def test_missing_values_that_the_type_lacks_mask_nothing(in_memory):
    data = np.array([255, 0, 7, 9], "u1")
    array = opened(in_memory, data, v3(None, chunks=(3,)))
    decoding = benthic.Decoding(missing=(-1, 1e20, np.nan, 256, 7))
    assert array.reduce("count", decoding=decoding) == 3
    assert array.reduce("sum", decoding=decoding) == 264


def test_selections_and_mistakes(in_memory):
    data = np.arange(60).reshape(3, 4, 5)
    array = opened(in_memory, data, v3(None, chunks=(2, 2, 2)))
    for key in [np.s_[::-1], np.s_[..., 1], np.s_[1, ..., ::-2], np.s_[0, 1, 2], np.s_[5:2], np.s_[:, -4:-1],
                np.s_[[2, 0, 2]], np.s_[:, [], 1:], np.s_[::-1, np.array([3, -4])]]:
        same(array[key], np.asarray(data[key]))
    same(array[[2, 0], 1, [4, 1, 1]], data[[2, 0]][:, 1][:, [4, 1, 1]])
    same(array.reduce("sum", 0, ([2, 0], [3, 1, 0])), data[[2, 0]][:, [3, 1, 0]].sum(0))
    same(array.reduce("sum", (0, 1), ([2, 0], [3, 1, 0])), data[[2, 0]][:, [3, 1, 0]].sum((0, 1)))
    same(array.reduce("max", 1, ([1], [3, 0], -1)), data[[1]][:, [3, 0], -1].max(1))
    same(array.reduce("sum", 2, groups={1: [1, 0, 1]}, key=(0, [3, 1, 0])), np.array([data[0, 1].sum(), data[0, [0, 3]].sum()]))
    same(array.reduce("sum", 0, []), data[[]].sum(0))
    array.reduce("sum", (0, 1), ([0, 2], [0, 3]), pushdown="always")
    assert (array.last_stats.chunks, array.last_stats.pushed_chunks) == (12, 12)
    far = opened(in_memory, np.arange(100), v3(None, chunks=(5,)))
    assert far.reduce("sum", key=[3, 98], pushdown="always") == 101
    assert (far.last_stats.chunks, far.last_stats.pushed_chunks) == (20, 2)
    for key, error in [((0, 0, 0, 0), benthic.InvalidArgumentError), (3, IndexError), ([0, 3], IndexError),
                       ([0.5], benthic.InvalidArgumentError), ([[1]], benthic.InvalidArgumentError),
                       (True, benthic.InvalidArgumentError), ([True], benthic.InvalidArgumentError)]:
        with pytest.raises(error):
            array[key]
    same(array.reduce("sum", np.array([0, -1])), data.sum((0, 2)))
    same(array.reduce("max", np.int64(1)), data.max(1))
    with pytest.raises(benthic.InvalidArgumentError, match="steps"):
        array.reduce("sum", key=np.s_[::-1])
    with pytest.raises(benthic.InvalidArgumentError, match="twice"):
        array.reduce("sum", key=[1, 1])
    with pytest.raises(benthic.InvalidArgumentError, match="axis"):
        array.reduce("sum", 3)
    with pytest.raises(benthic.InvalidArgumentError, match="unknown reduction"):
        array.reduce("mode")
    with pytest.raises(benthic.NotFoundError, match="benthic array ls"):
        in_memory.store.array(f"{in_memory.pool_name}/none")


def test_lists_read_only_the_chunks_with_their_positions(beside):
    rng = np.random.default_rng(one())
    data = rng.integers(0, 1000, (100, 7, 60), dtype="i4")
    array = opened(beside, data, v3(None, chunks=(5, 4, 6)))
    for _ in range(10):
        rows, columns = rng.integers(-100, 100, rng.integers(0, 9)), rng.integers(0, 60, rng.integers(1, 5))
        same(array.read(np.s_[rows], pushdown="always"), data[rows])
        same(array.read(np.s_[rows, 3, columns], pushdown="always"), data[rows, 3][:, columns])
        same(array.read(np.s_[rows, ::-2, columns], pushdown="never"), data[rows, ::-2][..., columns])
        same(array.read(np.s_[7, :, columns], pushdown="always"), data[7][:, columns])
    same(array[[98, 3, 98, 97], 0, [59, 0]], data[[98, 3, 98, 97], 0][:, [59, 0]])
    assert array.last_stats.chunks == 4
    # A list has at most 64 reads.
    long = opened(beside, np.arange(1000), v3(None, chunks=(1,)))
    same(long[np.arange(0, 1000, 4)], np.arange(0, 1000, 4))
    assert long.last_stats.chunks == 997 - 63 * 3


def test_a_reduction_on_a_cluster_moves_little(beside):
    data = np.random.default_rng(one()).normal(0, 1, (40, 256, 256)).astype("f4")
    array = opened(beside, data, v3(None, chunks=(10, 256, 256)))
    array.reduce("mean", pushdown="always")
    assert array.last_stats.pushed_chunks == 4
    assert array.last_stats.moved_bytes < 4000
