"""A store for zarr-python 3: Zarr hierarchies in pools.

>>> zarr.open_group(benthic.zarr_store("file:./data", "climate", "era5"))
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Iterable
from typing import Any

from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.core.buffer import Buffer, BufferPrototype

from ._connections import Connection
from ._references import FileArrays, plain_document
from .errors import AlreadyExistsError, ConflictError, NotFoundError
from .ops import ReadOp, WriteOp
from .pool import Pool
from .store import Store as BenthicStore

_ATTEMPTS = 5


class ZarrStore(Store):
    """The objects of a pool under a prefix, as a store of zarr-python.

    Each key is one object. A write of up to 64 MiB is atomic and durable. A larger one, up to 128
    MiB, is durable, and a reader may see the object grow. A pickled store connects again, so Dask's
    workers can use it; the stores of a process share a connection.

    A read-only store also has the chunks of arrays that ``benthic array create --reference`` made.
    Through another store, zarr-python refuses these arrays.
    """

    supports_writes = True
    supports_deletes = True
    supports_listing = True

    def __init__(
        self,
        store: BenthicStore | Connection | str | None,
        pool: str,
        path: str = "",
        *,
        namespace: str = "",
        read_only: bool = False,
    ) -> None:
        super().__init__(read_only=read_only)
        self._connection = store if isinstance(store, Connection) else Connection(store)
        self._pool_name = pool
        self._namespace = namespace
        self._prefix = f"{path.strip('/')}/" if path.strip("/") else ""
        self._opened: tuple[int, Pool] | None = None
        self._file_arrays = FileArrays()

    def with_read_only(self, read_only: bool = False) -> ZarrStore:
        """The same store, read-only or not."""
        return type(self)(
            self._connection, self._pool_name, self._prefix, namespace=self._namespace, read_only=read_only
        )

    def __str__(self) -> str:
        namespace = f":{self._namespace}" if self._namespace else ""
        return f"benthic://{self._pool_name}{namespace}/{self._prefix}"

    def __repr__(self) -> str:
        return f"ZarrStore({self._connection.uri!r}, {str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ZarrStore) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> tuple[Any, ...]:
        return (self._connection, self._pool_name, self._namespace, self._prefix, self.read_only)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None, "_file_arrays": FileArrays()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def _pool(self) -> Pool:
        """The pool, through this process's connection."""
        process = os.getpid()
        if self._opened is None or self._opened[0] != process:
            self._opened = process, self._connection.open().pool(self._pool_name, self._namespace)
        return self._opened[1]

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """The data of an object, or a range of them; None if there is no such object."""
        read = self._read_in_files if self.read_only else self._read
        try:
            data = await asyncio.to_thread(read, self._prefix + key, byte_range)
        except NotFoundError:
            return None
        return prototype.buffer.from_bytes(data)

    def _read_in_files(self, name: str, byte_range: ByteRequest | None) -> bytes:
        """Reads an object. Arrays in files look like others: a program that writes them would lose the references."""
        if name.endswith("zarr.json"):
            return _part(plain_document(self._read(name, None)), byte_range)
        try:
            return self._read(name, byte_range)
        except NotFoundError:
            data = self._file_arrays.chunk(self._pool(), name)
            if data is None:
                raise
            return _part(data, byte_range)

    def _read(self, name: str, byte_range: ByteRequest | None) -> bytes:
        pool = self._pool()
        match byte_range:
            case None:
                return pool.get(name)
            case RangeByteRequest(start, end):
                return pool.get(name, start, end - start)
            case OffsetByteRequest(offset):
                return pool.get(name, offset)
            case SuffixByteRequest(suffix):
                return _suffix(pool, name, suffix)
        raise TypeError(f"Unexpected byte_range, got {byte_range!r}")

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        """Several ranges, of one or several objects."""
        return list(await asyncio.gather(*(self.get(key, prototype, part) for key, part in key_ranges)))

    async def exists(self, key: str) -> bool:
        """Whether there is an object with this key."""
        return await asyncio.to_thread(lambda: self._pool().exists(self._prefix + key))

    async def getsize(self, key: str) -> int:
        """The size of an object in bytes."""
        try:
            stat = await asyncio.to_thread(lambda: self._pool().stat(self._prefix + key))
        except NotFoundError:
            raise FileNotFoundError(key) from None
        return stat.size_bytes

    async def set(self, key: str, value: Buffer) -> None:
        """Replaces an object."""
        self._check_writable()
        _check_buffer(value)
        await asyncio.to_thread(lambda: self._pool().put(self._prefix + key, value.as_buffer_like()))

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Creates an object of up to 64 MiB; leaves an existing one as it is."""
        self._check_writable()
        _check_buffer(value)
        data = value.to_bytes()

        def create() -> None:
            with contextlib.suppress(AlreadyExistsError):
                self._pool().write(self._prefix + key, WriteOp().create(exclusive=True).write_full(data))

        await asyncio.to_thread(create)

    async def delete(self, key: str) -> None:
        """Removes an object; a missing one is not an error."""
        self._check_writable()

        def remove() -> None:
            with contextlib.suppress(NotFoundError):
                self._pool().rm(self._prefix + key)

        await asyncio.to_thread(remove)

    async def list(self) -> AsyncIterator[str]:
        """All keys."""
        async for key in self.list_prefix(""):
            yield key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """The keys that begin with a prefix."""
        start = len(self._prefix)
        names = await asyncio.to_thread(lambda: self._pool().ls(self._prefix + prefix))
        while page := await asyncio.to_thread(_page, names):
            for name in page:
                yield name[start:]

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """The names below a prefix up to the next ``/``. Lists all keys below it, also those of chunks."""
        prefix = f"{prefix.rstrip('/')}/" if prefix.strip("/") else ""
        seen: set[str] = set()
        async for key in self.list_prefix(prefix):
            name = key[len(prefix) :].split("/", 1)[0]
            if name not in seen:
                seen.add(name)
                yield name


def _part(data: bytes, byte_range: ByteRequest | None) -> bytes:
    match byte_range:
        case None:
            return data
        case RangeByteRequest(start, end):
            return data[start:end]
        case OffsetByteRequest(offset):
            return data[offset:]
        case SuffixByteRequest(suffix):
            return data[max(len(data) - suffix, 0) :]
    raise TypeError(f"Unexpected byte_range, got {byte_range!r}")


def _page(names: Any) -> list[str]:
    """The next names, at most 1,000. Runs in a thread, because it blocks."""
    page = []
    for name in names:
        page.append(name)
        if len(page) == 1000:
            break
    return page


def _suffix(pool: Pool, name: str, suffix: int) -> bytes:
    """The last bytes of one version of an object."""
    for attempt in range(_ATTEMPTS):
        stat = pool.stat(name)
        start = max(stat.size_bytes - suffix, 0)
        try:
            read = ReadOp().if_version(stat.version).read(start, stat.size_bytes - start)
            data: bytes = pool.read(name, read)[1][0]
            return data
        except ConflictError:
            if attempt + 1 == _ATTEMPTS:
                raise
    raise AssertionError("the loop returns or raises")


def _check_buffer(value: Any) -> None:
    if not isinstance(value, Buffer):
        raise TypeError(f"a value is a zarr.core.buffer.Buffer, not {type(value).__name__}")


def zarr_store(
    store: BenthicStore | str | None,
    pool: str,
    path: str = "",
    *,
    namespace: str = "",
    read_only: bool = False,
) -> ZarrStore:
    """A store for zarr-python over the objects of a pool under a prefix.

    :param store: an open store, or the URI of one; None takes the URI of :func:`benthic.connect`

    >>> root = zarr.open_group(benthic.zarr_store("file:./data", "climate", "era5"))
    """
    return ZarrStore(store, pool, path, namespace=namespace, read_only=read_only)
