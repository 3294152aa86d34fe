"""Tables: scanning, appending, comparing, compacting and vacuuming."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset

from . import _native
from .dataset import TableDataset
from .errors import Error, InvalidArgumentError
from .filters import Condition, Filter, condition, split
from .rows import Batches, Rows

if TYPE_CHECKING:
    import dask.dataframe
    import polars
    import ray.data

Pushdown = Literal["auto", "always", "never"]
"""Where fragments of a plan run: on the cheaper side, beside the objects, or in this process."""

_SLICE_ROWS = 64 * 1024
_PART_SIZE = "32MiB"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of a table at one time."""

    id: int
    """Ids count up from 1."""
    time: datetime
    """The time of the commit."""
    operation: str
    """The operation that created the snapshot: ``create``, ``append``, ``alter``, ``delete``, ``update``, ``merge``,
    ``compact`` or ``rollback``.
    """
    rows: int
    objects: int
    data_bytes: int


@dataclass(frozen=True, slots=True)
class DataObject:
    """An object with rows of a table."""

    name: str
    rows: int
    data_bytes: int


class Table:
    """A table: rows in immutable Parquet objects, with snapshots.

    :meth:`Store.table` and :meth:`Store.create_table` open it. Each scan and each property uses
    the snapshot that is current when it is called, or the given ``snapshot``.

    Libraries with Arrow's PyCapsule interface can read the whole table directly; :meth:`scan` and
    :meth:`dataset` can read less.
    """

    def __init__(self, store: _native.Store, native: _native.Table, address: str, uri: str) -> None:
        self._store = store
        self._native = native
        self._address = address
        self._uri = uri

    def __repr__(self) -> str:
        return f"<benthic.Table {self._address}>"

    @property
    def name(self) -> str:
        """The table's address: ``POOL/TABLE``."""
        return self._address

    @property
    def uri(self) -> str:
        """The URI of the table's store."""
        return self._uri

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self._schema(None)[1]

    def _schema(self, snapshot: int | None) -> tuple[int, pa.Schema]:
        id, schema = self._native.schema(snapshot)
        return id, pa.ipc.read_schema(pa.py_buffer(schema))

    @property
    def partition_by(self) -> str:
        """How rows are spread over objects: ``rows``, ``hash(COLUMN, BUCKETS)``, ``range(COLUMN, …)``."""
        return self._native.layout()[0]

    @property
    def sort_by(self) -> list[str]:
        """The columns that sort the rows of each object."""
        return self._native.layout()[1]

    @property
    def object_size(self) -> int:
        """The target size of an object, in bytes."""
        return self._native.layout()[2]

    def snapshot(self, id: int | None = None) -> Snapshot:
        """The current snapshot, or the snapshot with this id."""
        return _snapshot(self._native.snapshot(id))

    def history(self) -> list[Snapshot]:
        """The snapshots that vacuum has kept, oldest first."""
        return [_snapshot(facts) for facts in self._native.history()]

    def __len__(self) -> int:
        """The number of rows in the current snapshot."""
        return self.snapshot().rows

    def __bool__(self) -> bool:
        """Always true, even if the table has no rows."""
        return True

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filter: Filter = None,
        limit: int | None = None,
        *,
        snapshot: int | None = None,
        objects: Sequence[str] | None = None,
        pushdown: Pushdown = "auto",
    ) -> Rows:
        """Reads rows: the given columns of the rows that match the filter, up to a limit.

        The filter is a pyarrow expression or an SQL condition. Objects that cannot contain a
        match are skipped, and on a cluster the filter runs beside the other objects. If only
        pyarrow can evaluate part of an expression, pyarrow filters the returned rows, with the
        same result. ``objects`` are names from :meth:`objects`; only their rows are read.

        >>> trips.scan(["city"], pc.field("fare") > 20).to_pandas()
        >>> trips.scan(filter="fare > 20 AND city LIKE 'R%'", limit=10).to_polars()
        """
        if limit is not None and limit < 0:
            raise InvalidArgumentError("limit must not be negative")
        if isinstance(columns, str):
            raise InvalidArgumentError("columns must be a list of names, not a string")
        return self._scan(columns, *split(filter), limit, snapshot, objects, pushdown)

    def _scan(
        self,
        columns: Sequence[str] | None,
        expression: pc.Expression | None,
        sql: str | None,
        limit: int | None,
        snapshot: int | None,
        objects: Sequence[str] | None,
        pushdown: Pushdown,
    ) -> Rows:
        """Reads the rows that match both an expression and an SQL condition."""
        wanted = None if columns is None else list(columns)
        chosen = None if objects is None else list(objects)
        if expression is None:
            return self._rows(wanted, None, sql, limit, snapshot, pushdown, chosen)
        snapshot, schema = self._schema(snapshot)
        parts = condition(expression, schema, self._native, snapshot)
        if parts.left is None:
            return self._rows(wanted, parts.pushed, sql, limit, snapshot, pushdown, chosen)
        names = schema.names if wanted is None else wanted
        for name in names:
            if name not in schema.names:
                self._native.check_column(name, snapshot)
        read = schema.names if parts.columns is None else list(dict.fromkeys([*names, *parts.columns]))
        native = self._native.scan(self._store, read, parts.pushed, sql, None, snapshot, pushdown, chosen)
        shown = pa.schema([schema.field(name) for name in names])

        def filtered(batches: Batches) -> Batches:
            return _filter_batches(batches, parts, names, limit)

        return Rows(native, self._address, (shown, filtered))

    def _rows(
        self,
        columns: list[str] | None,
        filter: _native.Filter | None,
        sql: str | None,
        limit: int | None,
        snapshot: int | None,
        pushdown: str,
        objects: list[str] | None,
    ) -> Rows:
        if columns != []:
            native = self._native.scan(self._store, columns, filter, sql, limit, snapshot, pushdown, objects)
            return Rows(native, self._address)
        # Batches without columns must still have the right row count, so read one column.
        snapshot, schema = self._schema(snapshot)
        native = self._native.scan(self._store, schema.names[:1], filter, sql, limit, snapshot, pushdown, objects)

        def bare(batches: Batches) -> Batches:
            return (batch.select([]) for batch in batches)

        return Rows(native, self._address, (pa.schema([]), bare))

    def dataset(self, *, snapshot: int | None = None, pushdown: Pushdown = "auto") -> TableDataset:
        """The table as a pyarrow dataset. DuckDB, Polars and others read only part of it: they
        pass the columns and conditions that they need.

        The dataset stays at one snapshot: the given one, or the one that is current now.

        >>> ds = trips.dataset()
        >>> duckdb.sql("SELECT max(fare) FROM ds WHERE city = 'Rio'")
        """
        facts = self.snapshot(snapshot)
        return TableDataset(self, self._schema(facts.id)[1], facts.id, facts.rows, pushdown)

    def objects(self, filter: Filter = None, *, snapshot: int | None = None) -> list[DataObject]:
        """The data objects of a snapshot, without those that cannot contain a match of the filter.

        Tasks in several processes can each :meth:`scan` some of them. Pass the same ``snapshot`` to
        all: objects belong to a snapshot.
        """
        return self._objects(*split(filter), snapshot)

    def _objects(self, expression: pc.Expression | None, sql: str | None, snapshot: int | None) -> list[DataObject]:
        pushed = None
        if expression is not None:
            snapshot, schema = self._schema(snapshot)
            pushed = condition(expression, schema, self._native, snapshot).pushed
        return [DataObject(*facts) for facts in self._native.objects(self._store, pushed, sql, snapshot)]

    def to_dask(
        self,
        columns: Sequence[str] | None = None,
        filter: Filter = None,
        *,
        snapshot: int | None = None,
        part_size: int | str = _PART_SIZE,
        pushdown: Pushdown = "auto",
    ) -> dask.dataframe.DataFrame:
        """The table as a Dask data frame. Each task connects to the store and scans its own objects.

        Objects are packed into partitions of about ``part_size`` stored bytes; 0 gives each object
        a partition of its own. Dask reads only the columns that a query needs, but passes no
        conditions to the scans, so pass those as ``filter``. Columns have the types of Arrow.

        >>> trips.to_dask(filter="fare > 20").groupby("city").fare.sum().compute()
        """
        from .engines import dask, parts, require

        require("dask.dataframe", "'dask[dataframe]' distributed")
        scan = parts.scan_of(self, columns, filter, snapshot, pushdown)
        return dask.frame(scan, scan.parts(part_size, self))

    def to_ray(
        self,
        columns: Sequence[str] | None = None,
        filter: Filter = None,
        *,
        snapshot: int | None = None,
        part_size: int | str = _PART_SIZE,
        pushdown: Pushdown = "auto",
        **options: Any,
    ) -> ray.data.Dataset:
        """The table as a Ray dataset. Each task connects to the store and scans its own objects.

        Ray passes the columns and conditions (``filter(expr=…)``) of a query to the scans, and some
        limits. ``part_size`` is that of :meth:`to_dask`; ``options`` are those of
        :func:`ray.data.read_datasource`.

        >>> trips.to_ray().filter(expr=ray.data.expressions.col("fare") > 20).groupby("city").sum("fare")
        """
        from .engines import parts, require

        require("ray.data", "'ray[data]'")
        from .engines import ray

        scan = parts.scan_of(self, columns, filter, snapshot, pushdown)
        return ray.dataset(scan, part_size, self, options)

    def scan_polars(
        self,
        filter: Filter = None,
        *,
        snapshot: int | None = None,
        pushdown: Pushdown = "auto",
    ) -> polars.LazyFrame:
        """The table as a lazy frame of Polars, at one snapshot. Polars passes the columns, conditions
        and limits that a query needs.

        >>> trips.scan_polars().filter(polars.col("fare") > 20).select("city").collect()
        """
        from .engines import require

        require("polars", "polars")
        from .engines import polars

        return polars.lazy_frame(self, filter, snapshot, pushdown)

    def append(self, data: Any, *, add_columns: bool = False) -> Snapshot:
        """Appends rows, all or none, and returns the new snapshot.

        ``data`` is any source of Arrow rows: a pyarrow table, batch or reader, a data frame, a
        query, another table, a dictionary of columns, or a list of dictionaries. Columns are
        matched by name; missing columns become null, and smaller types are widened. With
        ``add_columns``, new columns are added to the table.
        """
        reader = rows_of(data)
        writer = self._native.writer(add_columns, self._store)
        try:
            for batch in reader:
                for message in _messages(batch):
                    writer.write(message)
            return _snapshot(writer.finish())
        except BaseException:
            # Vacuum removes objects that cannot be removed now.
            with contextlib.suppress(Error):
                writer.abort()
            raise

    def diff(self, old: int | str, new: int | str | None = None) -> Rows:
        """The rows that differ between two snapshots, which are ids or tags. ``new`` is by default the
        current snapshot.

        The first column, ``change``, is 1 for a row that only ``new`` has, and -1 for a row that only
        ``old`` has. A changed row is two rows. Of equal rows, it is the difference of their numbers. If
        the table has a column ``change``, the name gets underscores in front. The other columns are
        those of the newer schema.

        >>> trips.diff(7).to_pandas()
        """
        return Rows(self._native.diff(self._store, old, new), self._address)

    def compact(
        self,
        *,
        all: bool = False,
        cluster_by: str | Sequence[str] = (),
        z_order: Sequence[str] = (),
        memory: int | str = "256MiB",
        rate: int | str | None = None,
    ) -> int:
        """Writes small objects, and objects with deleted rows, again as fewer whole objects. Returns the
        number of objects that were replaced; :meth:`vacuum` removes them.

        Commits about 1 GiB at a time: an interrupted compaction keeps what it has committed. Scans and
        changes of rows can run meanwhile. Raises :class:`ConflictError`, after all other objects, if
        such changes prevented a part.

        :param all: whether all objects are written again
        :param cluster_by: up to four columns. All objects are written again, each with rows of near
            values of these columns, so that a scan with a condition on any of them reads few objects.
        :param z_order: two to four columns, instead of ``cluster_by``. The row groups and pages of an
            object then have a range of each column, too, unless the table has a sort order.
        :param memory: limit for rows that wait for their object to fill; sorting for ``cluster_by`` and
            ``z_order`` takes as much again, at least 128 MiB
        :param rate: limit for the bytes that are read in a second, on average, such as "20MiB"

        >>> trips.compact(cluster_by=["city", "day"])
        """
        from .store import size_bytes

        if cluster_by and z_order:
            raise InvalidArgumentError("give cluster_by or z_order, not both at once")
        columns, z_columns = ([by] if isinstance(by, str) else list(by) for by in (cluster_by, z_order))
        limit = None if rate is None else size_bytes(rate)
        if limit == 0:
            raise InvalidArgumentError("the rate must be at least 1 byte a second")
        return self._native.compact(all, columns or z_columns or None, bool(z_columns), size_bytes(memory), limit)

    def vacuum(self, *, keep_snapshots: int = 1, keep: timedelta = timedelta(days=1)) -> int:
        """Removes snapshots that are neither among the newest nor younger than ``keep``, and
        objects that belong to no snapshot. Returns the number of removed objects.
        """
        keep_ms = keep // timedelta(milliseconds=1)
        if keep_snapshots < 0 or keep_ms < 0:
            raise InvalidArgumentError("keep_snapshots and keep must not be negative")
        return self._native.vacuum(keep_snapshots, keep_ms)[2]

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.scan().__arrow_c_stream__(requested_schema)


def _snapshot(facts: tuple[int, int, str, int, int, int]) -> Snapshot:
    id, time_ms, operation, rows, objects, data_bytes = facts
    seconds, ms = divmod(time_ms, 1000)
    time = datetime.fromtimestamp(seconds, UTC) + timedelta(milliseconds=ms)
    return Snapshot(id, time, operation, rows, objects, data_bytes)


def _filter_batches(batches: Batches, parts: Condition, names: list[str], limit: int | None) -> Batches:
    """Applies the filter that could not be pushed."""
    for batch in batches:
        if limit is not None and limit <= 0:
            return
        kept = batch.filter(parts.left).select(names)
        if limit is not None:
            kept = kept.slice(0, limit)
            limit -= kept.num_rows
        yield kept


def rows_of(data: Any) -> pa.RecordBatchReader:
    """Converts any source of Arrow rows to a reader."""
    if isinstance(data, pa.dataset.Dataset):
        return data.scanner().to_reader()
    if isinstance(data, pa.RecordBatchReader):
        # Pass the reader on as it is, so that an exception of its source keeps its type.
        return data
    if hasattr(data, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(data)
    try:
        if hasattr(data, "__arrow_c_array__"):
            batch = pa.record_batch(data)
            return pa.RecordBatchReader.from_batches(batch.schema, [batch])
        if isinstance(data, Mapping):
            return pa.table(dict(data)).to_reader()
        if isinstance(data, Sequence) and data and all(isinstance(row, Mapping) for row in data):
            return pa.Table.from_pylist(data).to_reader()
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidArgumentError(f"the data cannot become columns: {error}") from error
    raise InvalidArgumentError(
        "the data have no Arrow rows; pass a table, data frame, reader, dictionary of columns or list of dictionaries"
    )


def _messages(batch: pa.RecordBatch) -> Iterator[pa.Buffer]:
    """Encodes a batch as Arrow IPC streams."""
    views = [field.type in (pa.string_view(), pa.binary_view()) for field in batch.schema]
    for start in range(0, max(batch.num_rows, 1), _SLICE_ROWS):
        part = batch.slice(start, _SLICE_ROWS)
        if any(views):
            # Arrow would write a slice of views with all the data that the views refer to.
            columns = [_plain(column) if view else column for column, view in zip(part.columns, views, strict=True)]
            part = pa.RecordBatch.from_arrays(columns, names=part.schema.names)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, part.schema) as writer:
            writer.write_batch(part)
        yield sink.getvalue()


def _plain(column: pa.Array) -> pa.Array:
    return column.cast(pa.large_string() if column.type == pa.string_view() else pa.large_binary())
