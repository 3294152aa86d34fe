"""Zarr arrays whose chunks are ranges of a file, for other Zarr libraries (docs/formats.md)."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import google_crc32c
import numpy as np

from .errors import CorruptError, NotFoundError, UnsupportedError
from .pool import Pool

_FIELD = "benthic_references"
_INDEX = ".benthic-chunks"
_MISSING = 2**64 - 1
_CACHED_MAX = 64
_CHUNK_KEY = re.compile(r"((?:.*/)?)c((?:/[0-9]+)*)\Z")


def plain_document(data: bytes) -> bytes:
    """A metadata document without the field that says where the chunks are."""
    if _FIELD.encode() not in data:
        return data
    document = json.loads(data)
    document.pop(_FIELD, None)
    return json.dumps(document).encode()


class _FileArray:
    """An array in a file."""

    def __init__(self, pool: Pool, prefix: str, document: dict[str, Any], references: dict[str, Any]) -> None:
        if references.get("version") != 1:
            raise UnsupportedError(f"a newer version of benthic made this array; use that version array={prefix}")
        shape, chunks = document["shape"], document["chunk_grid"]["configuration"]["chunk_shape"]
        self._grid = [math.ceil(length / chunk) for length, chunk in zip(shape, chunks, strict=True)]
        self._is_clipped = references["clipped"]
        self._chunk_bytes = math.prod(chunks) * np.dtype(document["data_type"]).itemsize
        parts, file = prefix.strip("/").split("/"), references["file"]
        while file.startswith("../"):
            parts, file = parts[:-1], file.removeprefix("../")
        self._file = "/".join([*parts, file])
        data = pool.get(prefix + _INDEX)
        content, checksum = data[:-4], data[-4:]
        numbers = np.frombuffer(content[: len(content) // 8 * 8], "<u8")
        count = int(numbers[0]) if len(numbers) else 0
        if (
            google_crc32c.value(content) != int.from_bytes(checksum, "little")
            or count == 0
            or len(content) != 8 * (1 + count + 2 * math.prod(self._grid))
        ):
            raise CorruptError(f"the index of an array in a file is damaged object={prefix}{_INDEX}")
        self._starts, self._ranges = numbers[1 : 1 + count], numbers[1 + count :].reshape(-1, 2)

    def read(self, pool: Pool, position: list[int]) -> bytes | None:
        """A chunk. None if it is not stored."""
        if len(position) != len(self._grid) or any(at >= count for at, count in zip(position, self._grid, strict=True)):
            return None
        chunk = 0
        for at, count in zip(position, self._grid, strict=True):
            chunk = chunk * count + at
        offset, length = map(int, self._ranges[chunk])
        if offset == _MISSING and length == _MISSING:
            return None
        start = int(self._starts[np.searchsorted(self._starts, offset, "right") - 1])
        name = self._file if len(self._starts) == 1 else f"{self._file}@{start:016x}"
        try:
            data = pool.get(name, offset - start, length)
        except NotFoundError:
            raise CorruptError(f"the file that has the chunks is missing object={name}") from None
        if len(data) != length:
            raise CorruptError(f"an object is shorter than the chunks that it should have object={name}")
        return data.ljust(self._chunk_bytes, b"\0") if self._is_clipped else data


class FileArrays:
    """Chunks of the arrays in files of a pool."""

    def __init__(self) -> None:
        self._arrays: dict[tuple[str, str], _FileArray] = {}

    def chunk(self, pool: Pool, name: str) -> bytes | None:
        """The chunk that would have this object name, if its array is in a file. None if it is not
        stored.
        """
        found = _CHUNK_KEY.match(name)
        if found is None:
            return None
        prefix, position = found[1], [int(number) for number in found[2].split("/")[1:]]
        try:
            data = pool.get(f"{prefix}zarr.json")
        except NotFoundError:
            return None
        if _FIELD.encode() not in data:
            return None
        document = json.loads(data)
        references = document.get(_FIELD)
        if references is None:
            return None
        key = (prefix, references["token"])
        if key not in self._arrays:
            if len(self._arrays) >= _CACHED_MAX:
                self._arrays.clear()
            self._arrays[key] = _FileArray(pool, prefix, document, references)
        return self._arrays[key].read(pool, position)
