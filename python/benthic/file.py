"""Objects as files, for h5py and other programs that read parts of a file.

>>> h5py.File(benthic.open_file("file:./data", "climate", "era5/era5.nc"))
"""

from __future__ import annotations

import bisect
import io
import os
import threading
from collections import OrderedDict
from typing import Any

from ._connections import Connection
from .errors import CorruptError, NotFoundError
from .ops import ReadOp
from .pool import Pool
from .store import Store

_BLOCK_BYTES = 256 * 1024
_READ_AHEAD_BLOCKS = 16
_CACHED_BLOCKS = 256
_READ_BYTES_MAX = 32 * 1024 * 1024
_OFFSET_DIGITS = 16


class ObjectFile(io.RawIOBase):
    """An object as a file for reading, also a file of several objects that ``benthic array create
    --reference`` stored.

    It reads one version of each object, and raises :class:`ConflictError` after a change. A cache
    has up to 64 MiB; sequential reads fetch 4 MiB at once. Threads may share a file, but they also share
    its position. A pickled file connects again, at position 0.
    """

    def __init__(self, store: Store | Connection | str | None, pool: str, name: str, namespace: str = "") -> None:
        self._connection = store if isinstance(store, Connection) else Connection(store)
        self._pool_name, self._namespace = pool, namespace
        self.name = name
        self._opened: tuple[int, Pool] | None = None
        self._lock = threading.RLock()
        self._position = 0
        self._blocks: OrderedDict[int, bytes] = OrderedDict()
        self._next_block = 0
        self._parts = self._find_parts()
        self._versions: dict[int, int] = {}
        last_start, last_name = self._parts[-1]
        stat = self._pool().stat(last_name)
        self._versions[len(self._parts) - 1] = stat.version
        self._size = last_start + stat.size_bytes

    def _pool(self) -> Pool:
        """The pool, through this process's connection."""
        process = os.getpid()
        if self._opened is None or self._opened[0] != process:
            self._opened = process, self._connection.open().pool(self._pool_name, self._namespace)
        return self._opened[1]

    def _find_parts(self) -> list[tuple[int, str]]:
        """The first byte and the name of each object of the file."""
        pool, prefix = self._pool(), f"{self.name}@"
        if pool.exists(self.name):
            return [(0, self.name)]
        found = [name for name in pool.ls(prefix) if len(name) == len(prefix) + _OFFSET_DIGITS]
        parts = sorted((int(name[len(prefix) :], 16), name) for name in found)
        if not parts:
            raise NotFoundError(f"no such object name={self.name}")
        if parts[0][0] != 0:
            raise CorruptError(f"the first part of the file is missing name={self.name}")
        return parts

    def __reduce__(self) -> Any:
        return ObjectFile, (self._connection, self._pool_name, self.name, self._namespace)

    def __repr__(self) -> str:
        namespace = f":{self._namespace}" if self._namespace else ""
        return f"<benthic.ObjectFile {self._pool_name}{namespace}/{self.name}>"

    @property
    def size_bytes(self) -> int:
        """The size of the file."""
        return self._size

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def tell(self) -> int:
        """The position."""
        self._check_open()
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Moves the position, and returns it."""
        self._check_open()
        match whence:
            case io.SEEK_SET:
                base = 0
            case io.SEEK_CUR:
                base = self._position
            case io.SEEK_END:
                base = self._size
            case _:
                raise ValueError(f"invalid whence ({whence}, should be 0, 1 or 2)")
        if base + offset < 0:
            raise ValueError(f"negative seek value {base + offset}")
        self._position = base + offset
        return self._position

    def readinto(self, buffer: Any) -> int:
        """Reads into a buffer as much as fits, and returns the number of bytes; 0 at the end."""
        self._check_open()
        with self._lock, memoryview(buffer).cast("B") as target:
            start = self._position
            end = min(start + len(target), self._size)
            if end <= start:
                return 0
            if end - start >= _READ_AHEAD_BLOCKS * _BLOCK_BYTES:
                self._read_range(start, target[: end - start])
            else:
                self._read_blocks(start, target[: end - start])
            self._position = end
            return end - start

    def readall(self) -> bytes:
        """The rest of the file."""
        data = bytearray(max(self._size - self._position, 0))
        self.readinto(data)
        return bytes(data)

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")

    def close(self) -> None:
        """Closes the file; the store stays open."""
        self._blocks.clear()
        super().close()

    def _read_blocks(self, start: int, target: memoryview) -> None:
        """Copies bytes of cached blocks. Fetches missing ones, and more if blocks are read in order."""
        end = start + len(target)
        first, last = start // _BLOCK_BYTES, (end - 1) // _BLOCK_BYTES
        for block in range(first, last + 1):
            if block not in self._blocks:
                ahead = _READ_AHEAD_BLOCKS if block == self._next_block else 1
                stop = max(last + 1, block + ahead)
                self._fetch(block, next((b for b in range(block + 1, stop) if b in self._blocks), stop))
            self._blocks.move_to_end(block)
            data = self._blocks[block]
            low, high = max(start, block * _BLOCK_BYTES), min(end, (block + 1) * _BLOCK_BYTES)
            target[low - start : high - start] = data[low - block * _BLOCK_BYTES : high - block * _BLOCK_BYTES]

    def _fetch(self, first: int, stop: int) -> None:
        """Reads blocks into the cache."""
        start, end = first * _BLOCK_BYTES, min(stop * _BLOCK_BYTES, self._size)
        data = bytearray(end - start)
        self._read_range(start, memoryview(data))
        for offset in range(0, len(data), _BLOCK_BYTES):
            self._blocks[first + offset // _BLOCK_BYTES] = bytes(data[offset : offset + _BLOCK_BYTES])
        self._next_block = stop
        while len(self._blocks) > _CACHED_BLOCKS:
            self._blocks.popitem(last=False)

    def _read_range(self, start: int, target: memoryview) -> None:
        """Reads from the objects."""
        done = 0
        while done < len(target):
            offset = start + done
            part = bisect.bisect_right(self._parts, offset, key=lambda part: part[0]) - 1
            part_start, name = self._parts[part]
            part_end = self._parts[part + 1][0] if part + 1 < len(self._parts) else self._size
            length = min(len(target) - done, part_end - offset, _READ_BYTES_MAX)
            read = ReadOp().read(offset - part_start, length)
            if part in self._versions:
                read.if_version(self._versions[part])
            version, (data,) = self._pool().read(name, read)
            self._versions[part] = version
            if len(data) != length:
                raise CorruptError(f"a part of the file is too short name={name}")
            target[done : done + length] = data
            done += length


def open_file(store: Store | str | None, pool: str, name: str, *, namespace: str = "") -> ObjectFile:
    """Opens an object as a file for reading.

    :param store: an open store, or the URI of one; None takes the URI of :func:`benthic.connect`

    >>> with h5py.File(benthic.open_file("file:./data", "climate", "era5/era5.nc")) as file:
    ...     file["t2m"][0]
    """
    return ObjectFile(store, pool, name, namespace)
