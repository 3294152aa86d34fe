"""The ways to reduce the field. Each opens the array first; only `run` is measured.

A measured run is one call on an opened array until the result is in this process: it includes all requests, reads,
decoding and merging, and for Dask the making of the graph. It does not include the metadata of the array.
"""

from __future__ import annotations

import base64
import http.client
import itertools
import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import benthic
import cbor2
import dask
import dask.array
import field
import numpy as np
import s3fs
import xarray as xr
import zarr
from field import Reduction, Values
from services import S3, Skipped

THREADS = os.cpu_count() or 2


class Way(Protocol):
    """A way to reduce the field."""

    # The largest accepted relative error of the mean over all; of others it is 1e-5.
    tolerance: float
    # Payload bytes that came to this process in the last run, and the bodies of its requests if they count.
    moved_bytes: int

    def run(self, reduction: Reduction) -> Values:
        """The result."""


class Benthic:
    """Our own code. In an embedded store, nothing crosses a network, and the number is of bytes read."""

    tolerance = 1e-6
    moved_bytes = 0

    def __init__(self, store: benthic.Store, address: str, pushdown: benthic.table.Pushdown) -> None:
        self._array = store.array(address)
        self._pushdown = pushdown

    def run(self, reduction: Reduction) -> Values:
        """The result."""
        result = self._array.reduce("mean", reduction.axis, reduction.key, pushdown=self._pushdown)
        stats = self._array.last_stats
        if stats is not None:
            self.moved_bytes = stats.moved_bytes
            if self._pushdown == "always" and stats.pushed_chunks == 0:
                raise RuntimeError("no chunk was reduced in an OSD; is the class `array` installed?")
        return result


class DaskDirectory:
    """Dask and zarr-python on files, without xarray and without a check for NaN: the fastest way they have."""

    tolerance = 1e-5
    moved_bytes = 0

    def __init__(self, directory: Path) -> None:
        self._lazy = dask.array.from_zarr(zarr.open_array(str(directory / field.NAME), mode="r"))

    def run(self, reduction: Reduction) -> Values:
        """The result."""
        with dask.config.set(scheduler="threads", num_workers=THREADS):
            result: Values = np.asarray(self._lazy[reduction.key].mean(reduction.axis).compute())
        return result


class _CountingS3(s3fs.S3FileSystem):  # type: ignore[misc]
    """Counts the bytes of objects that arrive."""

    arrived_bytes = 0

    async def _cat_file(self, *arguments: Any, **options: Any) -> bytes:
        data: bytes = await super()._cat_file(*arguments, **options)
        self.arrived_bytes += len(data)
        return data


class XarrayS3:
    """xarray, zarr-python and s3fs, with Dask's threads: the usual programs of a user of an object store."""

    tolerance = 1e-5
    moved_bytes = 0

    def __init__(self, s3: S3, path: str) -> None:
        # With its default, s3fs asks for the size of each object first.
        self._files = _CountingS3(**s3.options, asynchronous=True, max_concurrency=1)
        store = zarr.storage.FsspecStore(self._files, read_only=True, path=path)
        self._array = xr.open_zarr(store, consolidated=False, chunks={})[field.NAME]

    def run(self, reduction: Reduction) -> Values:
        """The result."""
        before = self._files.arrived_bytes
        over = None if reduction.axis is None else field.DIMS[reduction.axis]
        with dask.config.set(scheduler="threads", num_workers=THREADS):
            result: Values = self._array[reduction.key].mean(over).compute().values
        self.moved_bytes = self._files.arrived_bytes - before
        return result


class Reductionist:
    """Reductionist: a request for each chunk, as its client PyActiveStorage sends, which reads netCDF only.

    Results are sums and counts, merged here in float64. Reductionist itself adds the values of a chunk in float32,
    one after the other, so its mean over all has an error of about 2e-3. It decodes the chunks of Blosc, too.
    """

    moved_bytes = 0
    tolerance = 1e-2
    _CODECS: dict[str, dict[str, Any]] = {
        "blosc-zstd": {"compression": {"id": "blosc2"}},
        "zlib": {"compression": {"id": "zlib"}, "filters": [{"id": "shuffle_simd", "element_size": 4}]},
        "raw": {},
    }

    def __init__(self, url: str, s3: S3, path: str, encoding: str, shape: tuple[int, ...]) -> None:
        self._address = urlsplit(url).netloc
        self._objects = f"{s3.url}/{path}/{field.NAME}/c"
        key = base64.b64encode(f"{s3.access_key}:{s3.secret_key}".encode()).decode()
        self._headers = {"Content-Type": "application/json", "Authorization": f"Basic {key}"}
        self._codecs = self._CODECS[encoding]
        self._shape = shape
        self._local = threading.local()
        self._threads = ThreadPoolExecutor(1)

    def use(self, requests: int) -> None:
        """Sets the number of concurrent requests."""
        self._threads.shutdown()
        self._threads = ThreadPoolExecutor(requests)

    def run(self, reduction: Reduction) -> Values:
        """The result."""
        self.moved_bytes = 0
        bounds = [part.indices(size)[:2] for part, size in zip(reduction.key, self._shape, strict=True)]
        grid = [
            range(start // chunk, -(-stop // chunk)) for (start, stop), chunk in zip(bounds, field.CHUNKS, strict=True)
        ]
        kept = [stop - start for axis, (start, stop) in enumerate(bounds) if axis != reduction.axis]
        shape = () if reduction.axis is None else tuple(kept)
        sums, counts = np.zeros(shape), np.zeros(shape, np.int64)
        tasks = []
        for position in itertools.product(*grid):
            inside, place = [], []
            for axis, (index, chunk, (start, stop)) in enumerate(zip(position, field.CHUNKS, bounds, strict=True)):
                first, last = max(start, index * chunk), min(stop, (index + 1) * chunk)
                inside.append([first - index * chunk, last - index * chunk, 1])
                if reduction.axis not in (None, axis):
                    place.append(slice(first - start, last - start))
            tasks.append((position, inside, tuple(place)))
        replies = self._threads.map(lambda task: self._ask(task[0], task[1], reduction.axis), tasks)
        for (_, _, where), (chunk_sum, chunk_count, len_bytes) in zip(tasks, replies, strict=True):
            sums[where] += chunk_sum
            counts[where] += chunk_count
            self.moved_bytes += len_bytes
        return sums / counts

    def _ask(self, position: tuple[int, ...], inside: list[list[int]], axis: int | None) -> tuple[Values, Values, int]:
        request = {
            "interface_type": "s3",
            "url": "/".join([self._objects, *map(str, position)]),
            "dtype": "float32",
            "byte_order": "little",
            "shape": field.CHUNKS,
            "selection": inside,
            "option_count_as_bytes": True,
            **({} if axis is None else {"axis": axis}),
            **self._codecs,
        }
        body = json.dumps(request)
        if not hasattr(self._local, "connection"):
            self._local.connection = http.client.HTTPConnection(self._address, timeout=60)
        try:
            self._local.connection.request("POST", "/v2/sum", body, self._headers)
            response = self._local.connection.getresponse()
            data = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise Skipped(f"Reductionist closed the connection: {error}") from error
        if response.status != 200:
            raise Skipped(f"Reductionist answered {response.status}: {data[:300].decode(errors='replace')}")
        reply = cbor2.loads(data)
        counts = np.frombuffer(bytes(reply["count_as_bytes"]), np.int64).reshape(reply["shape"])
        sums = np.frombuffer(bytes(reply["bytes"]), np.float32).reshape(reply["shape"])
        return sums, counts, len(data) + len(body)
