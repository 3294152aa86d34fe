"""Measures reductions of an array in a pool against Dask with zarr-python on the same objects.

    python bench/array/measure.py STORE [TIMES]

STORE is a store's URI; the pool `perf` is created in it. TIMES is the number of time steps of a float32
field of (TIMES, 360, 720), 240 by default. Prints the median time, the bytes moved and the chunks that
the class reduced, for each pushdown mode. Needs the packages of python/requirements-test.txt.
"""

import statistics
import sys
import tempfile
import time

import benthic
import dask
import dask.array
import numpy as np
import zarr

CHUNKS = (24, 180, 360)
REDUCTIONS = [("mean", None), ("mean", 0), ("var", 0), ("max", None)]
COMPRESSORS = {
    "zstd": zarr.codecs.BloscCodec(cname="zstd", clevel=3, shuffle="shuffle"),
    "lz4": zarr.codecs.BloscCodec(cname="lz4", shuffle="shuffle"),
    "raw": None,
}
THREADS = 2
RUNS = 3


def field(times):
    """A yearly wave with noise, to two decimals."""
    rng = np.random.default_rng(0)
    shape = (times, 360, 720)
    wave = 10 * np.sin(np.arange(times) / 50)[:, None, None]
    return (280 + wave + rng.normal(0, 1, shape)).astype("f4").round(2)


def median_s(run):
    """The median time of several runs."""
    took = []
    for _ in range(RUNS):
        start = time.perf_counter()
        run()
        took.append(time.perf_counter() - start)
    return statistics.median(took)


def by_dask(store, kind, axis):
    """The time of Dask with zarr-python."""
    lazy = dask.array.from_zarr(zarr.open_array(store))
    with dask.config.set(scheduler="threads", num_workers=THREADS):
        return median_s(lambda: getattr(lazy, kind)(axis=axis).compute())


def main(uri, times):
    """Runs all measurements and prints a line for each."""
    data = field(times)
    with benthic.connect(uri) as store, tempfile.TemporaryDirectory() as directory:
        store.create_pool("perf", exist_ok=True)
        for name, compressor in COMPRESSORS.items():
            ours, theirs = benthic.zarr_store(store, "perf", name), f"{directory}/{name}"
            for place in (ours, theirs):
                zarr.create_array(place, data=data, chunks=CHUNKS, compressors=compressor, overwrite=True)
            array = store.array(f"perf/{name}")
            for kind, axis in REDUCTIONS:
                for pushdown in ("never", "always", "auto"):
                    seconds = median_s(lambda: array.reduce(kind, axis, pushdown=pushdown))
                    stats = array.last_stats
                    print(
                        f"{name} {kind} axis={axis} {pushdown}: {seconds:.3f} s, {stats.moved_bytes} bytes, "
                        f"{stats.pushed_chunks} of {stats.chunks} chunks pushed",
                        flush=True,
                    )
                local, same = by_dask(theirs, kind, axis), by_dask(ours, kind, axis)
                print(f"{name} {kind} axis={axis} dask + zarr: {local:.3f} s from a directory, {same:.3f} s from the store")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 240)
