"""Opening a store, and its pools, tables and queries."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import re
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from . import _native
from ._handle import Handle
from .array import Array
from .errors import AlreadyExistsError, Error, InvalidArgumentError, PermissionDeniedError, UnsupportedError
from .filters import schema_bytes
from .pool import Pool
from .rows import Rows
from .table import Pushdown, Table, rows_of

_SIZE = re.compile(r"(\d+)(KiB|MiB|GiB|B)?")
_UNITS = {"B": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}


@dataclass(frozen=True, slots=True)
class MethodInfo:
    """A method of a class."""

    name: str
    summary: str
    input: str
    output: str
    reads: bool
    writes: bool
    result_xattr: str | None
    """The attribute in which a writing method stores its result."""
    examples: list[str]


@dataclass(frozen=True, slots=True)
class ClassInfo:
    """A class: code that runs beside objects."""

    name: str
    version: int
    build: str
    summary: str
    methods: dict[str, MethodInfo]


@dataclass(frozen=True, slots=True)
class Moved:
    """Operations and payload bytes that crossed the store's boundary, without protocol headers."""

    operations: int
    sent_bytes: int
    received_bytes: int

    def __sub__(self, before: Moved) -> Moved:
        return Moved(
            self.operations - before.operations,
            self.sent_bytes - before.sent_bytes,
            self.received_bytes - before.received_bytes,
        )


class Store(Handle):
    """An open store: pools of objects, and tables in pools. :func:`connect` opens it.

    Close the store, for example with a ``with`` statement: then all acknowledged writes are on
    the disk, and the directory is free for other processes. Closing the store closes its pools,
    tables and rows.
    """

    def __init__(self, native: _native.Store, uri: str) -> None:
        self._native = native
        self._uri = uri

    def __repr__(self) -> str:
        return f"<benthic.Store {self._uri}>"

    def close(self) -> None:
        """Closes the store; closing it again does nothing."""
        _open_stores.discard(self)
        self._native.close()

    @property
    def uri(self) -> str:
        """The URI of the store."""
        return self._uri

    def pools(self) -> list[str]:
        """The names of the pools."""
        return self._native.pools()

    def create_pool(self, name: str, exist_ok: bool = False) -> Pool:
        """Creates and opens a pool. An existing pool is an error, unless ``exist_ok``."""
        try:
            self._native.create_pool(name)
        except AlreadyExistsError:
            if not exist_ok:
                raise
        return self.pool(name)

    def remove_pool(self, name: str) -> None:
        """Removes a pool with all its objects and tables."""
        self._native.remove_pool(name)

    def pool(self, name: str, namespace: str = "") -> Pool:
        """Opens a pool, or one of its namespaces."""
        return Pool(self._native, name, namespace)

    def classes(self) -> dict[str, ClassInfo]:
        """The classes that this store can run, by name.

        >>> print(store.classes()["digest"].methods["compute"].input)
        """
        classes = {}
        for found in json.loads(self._native.classes()):
            methods = {method["method"]: _method(method) for method in found["methods"]}
            name = found["class"]
            classes[name] = ClassInfo(name, found["version"], found["build"], found["summary"], methods)
        return classes

    def flush(self) -> None:
        """Makes all acknowledged writes durable."""
        self._native.flush()

    def moved(self) -> Moved:
        """Counts the traffic across the store's boundary since the store was opened.

        >>> before = store.moved()
        >>> trips.scan(filter="fare > 20").to_arrow()
        >>> print(store.moved() - before)
        """
        return Moved(*self._native.moved())

    def sql(self, query: str, *, pushdown: Pushdown = "auto") -> Rows:
        """Starts a query; SQL names a table ``pool.table``.

        >>> store.sql("SELECT city, sum(fare) FROM photos.trips GROUP BY city").to_pandas()

        Prefix the query with ``EXPLAIN ANALYZE`` to see how and where it ran.
        """
        return Rows(self._native.sql(query, pushdown), "a query")

    def tables(self, pool: str | None = None) -> list[str]:
        """The tables of one pool or of all pools, as ``POOL/TABLE``."""
        if pool is not None:
            return [f"{pool}/{table}" for table in self._native.tables(pool)]
        found: list[str] = []
        for name in self.pools():
            try:
                found.extend(self.tables(name))
            except PermissionDeniedError:
                continue
        return found

    def table(self, address: str) -> Table:
        """Opens the table ``POOL/TABLE``."""
        return Table(self._native, self._native.table(address), address, self._uri)

    def create_table(
        self,
        address: str,
        data: Any = None,
        *,
        schema: pa.Schema | None = None,
        partition_by: str = "rows",
        sort_by: str | Sequence[str] = (),
        object_size: int | str = "32MiB",
    ) -> Table:
        """Creates the table ``POOL/TABLE``, and appends the data.

        :param data: rows to append; any type that :meth:`Table.append` takes
        :param schema: the columns; those of the data if absent
        :param partition_by: how rows are spread over objects: ``rows``, ``hash(COLUMN, BUCKETS)``,
            ``range(COLUMN, day|month|year)``, ``range(COLUMN, BOUND, …)``
        :param sort_by: the columns that sort the rows of each object
        :param object_size: target size of an object, 1 MiB to 64 MiB
        >>> store.create_table("lake/trips", frame, partition_by="range(day, month)", sort_by=["day"])

        If appending fails, the table is removed.
        """
        reader = None if data is None else rows_of(data)
        if schema is None:
            if reader is None:
                raise InvalidArgumentError("a table takes the columns of its data or of a schema; pass data or schema")
            schema = reader.schema
        sort = [sort_by] if isinstance(sort_by, str) else list(sort_by)
        native = self._native.create_table(
            address, schema_bytes(schema), partition_by, sort, size_bytes(object_size)
        )
        table = Table(self._native, native, address, self._uri)
        if reader is not None:
            try:
                table.append(reader)
            except BaseException:
                with contextlib.suppress(Error):
                    native.drop_if_unchanged()
                raise
        return table

    def array(self, address: str) -> Array:
        """Opens the Zarr array ``POOL[:NS]/PATH``."""
        return Array(self._native, self._native.array(address), address)

    def arrays(self, place: str) -> list[str]:
        """The addresses of the Zarr arrays, also of unreadable ones, in ``POOL[:NS][/GROUP]`` and its groups. Lists the names of
        all objects there.
        """
        pool = place.split("/", 1)[0]
        return [f"{pool}/{path}" if path else pool for path, is_array in self._native.arrays(place) if is_array]

    def drop_table(self, address: str, *, force: bool = False) -> None:
        """Removes a table with all its rows. Raises :class:`BusyError` while a writer is at work;
        ``force`` does not wait for writers.
        """
        self._native.drop_table(address, force)


def connect(uri: str | None = None, *, create: bool = True) -> Store:
    """Opens a store.

    ``file:DIR`` is a directory; if it holds no store and ``create`` is true, a store is created
    there. ``ceph:`` is the Ceph cluster of ``/etc/ceph/ceph.conf``;
    ``ceph:?conf=FILE&id=client.NAME`` is another cluster. ``mem:`` is a store in memory, lost on
    close. Without a URI, the environment variable ``BENTHIC_STORE`` gives it, or else it is
    ``file:./benthic-data``.

    Any number of processes can share a directory or a cluster. A process that was forked from one
    that had used a cluster cannot use clusters: :class:`UnsupportedError`.
    """
    uri = store_uri(uri)
    if uri.startswith("ceph:"):
        _refuse_forked()
    store = Store(_native.connect(uri, create), uri)
    _open_stores.add(store)
    return store


def store_uri(uri: str | None) -> str:
    """The URI of a store, which the environment gives if ``uri`` is None."""
    return uri or os.environ.get("BENTHIC_STORE") or "file:./benthic-data"


_ceph_process: int | None = None
"""The process that loaded Ceph's client library, or its ancestor that did."""


def _refuse_forked() -> None:
    global _ceph_process
    if _ceph_process not in (None, os.getpid()):
        raise UnsupportedError(
            "this process was forked from one that had used a Ceph cluster, and Ceph's client library does not "
            "survive a fork; start processes with multiprocessing's method 'spawn'"
        )
    _ceph_process = os.getpid()


def _method(method: dict[str, Any]) -> MethodInfo:
    return MethodInfo(
        name=method["method"],
        summary=method["summary"],
        input=method["input"],
        output=method["output"],
        reads=method["reads"],
        writes=method["writes"],
        result_xattr=method["result_xattr"],
        examples=method["examples"],
    )


def size_bytes(size: int | str) -> int:
    """Parses a size, such as ``32MiB``."""
    if isinstance(size, int):
        return max(size, 0)
    parsed = _SIZE.fullmatch(size)
    if not parsed:
        raise InvalidArgumentError("a size is a number of bytes, or a number followed by KiB, MiB or GiB")
    return int(parsed[1]) * _UNITS[parsed[2] or "B"]


_open_stores: weakref.WeakSet[Store] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Closes all stores at exit: the engines' threads must not outlive the interpreter."""
    for store in list(_open_stores):
        # No caller is left to report the error to.
        with contextlib.suppress(Error):
            store.close()
