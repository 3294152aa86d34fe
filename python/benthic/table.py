"""Tables."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset

from . import _native
from .dataset import TableDataset
from .errors import Error, InvalidArgumentError
from .filters import Condition, condition
from .rows import Batches, Rows

Pushdown = Literal["auto", "always", "never"]
"""Where what can run beside the objects runs: where it is better, there, or here."""

_SLICE_ROWS = 64 * 1024


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a table held at one time."""

    id: int
    """Ids count up from 1."""
    time: datetime
    """When it was committed."""
    operation: str
    """What made it: ``create``, ``append``, ``alter``."""
    rows: int
    objects: int
    data_bytes: int


class Table:
    """A table: rows in immutable Parquet objects, with snapshots.

    Made by :meth:`Store.table` and :meth:`Store.create_table`. Each scan and each property sees the table as it is then, or, with
    ``snapshot``, as it was.

    Whatever takes Arrow's PyCapsule interface takes a table, all of it; :meth:`scan` and :meth:`dataset` read less.
    """

    def __init__(self, store: _native.Store, native: _native.Table, address: str) -> None:
        self._store = store
        self._native = native
        self._address = address

    def __repr__(self) -> str:
        return f"<benthic.Table {self._address}>"

    @property
    def name(self) -> str:
        """The table as it is written: ``POOL/TABLE``."""
        return self._address

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
        """The columns that the rows of an object are sorted by."""
        return self._native.layout()[1]

    @property
    def object_size(self) -> int:
        """What the size of an object aims at, in bytes."""
        return self._native.layout()[2]

    def snapshot(self, id: int | None = None) -> Snapshot:
        """The newest snapshot, or another."""
        return _snapshot(self._native.snapshot(id))

    def history(self) -> list[Snapshot]:
        """The snapshots that are kept, oldest first."""
        return [_snapshot(facts) for facts in self._native.history()]

    def __len__(self) -> int:
        """How many rows there are."""
        return self.snapshot().rows

    def __bool__(self) -> bool:
        """A table is true, also without rows."""
        return True

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filter: pc.Expression | str | None = None,
        limit: int | None = None,
        *,
        snapshot: int | None = None,
        pushdown: Pushdown = "auto",
    ) -> Rows:
        """Reads rows: some columns, those for which a filter is true, at most so many.

        The filter is an expression of pyarrow's, or a condition in SQL. Objects for which it cannot be true are not read, and on
        a cluster it runs beside the others. What an expression has that only pyarrow knows, pyarrow applies to the rows that
        come: the rows are the same.

        >>> trips.scan(["city"], pc.field("fare") > 20).to_pandas()
        >>> trips.scan(filter="fare > 20 AND city LIKE 'R%'", limit=10).to_polars()
        """
        if limit is not None and limit < 0:
            raise InvalidArgumentError("a limit is not negative")
        if isinstance(columns, str):
            raise InvalidArgumentError("columns are a list of names")
        wanted = None if columns is None else list(columns)
        if filter is None or isinstance(filter, str):
            return self._rows(wanted, None, filter, limit, snapshot, pushdown)
        if not isinstance(filter, pc.Expression):
            raise InvalidArgumentError("a filter is an expression of pyarrow.compute, or SQL")
        snapshot, schema = self._schema(snapshot)
        parts = condition(filter, schema, self._native, snapshot)
        if parts.left is None:
            return self._rows(wanted, parts.pushed, None, limit, snapshot, pushdown)
        names = schema.names if wanted is None else wanted
        for name in names:
            if name not in schema.names:
                self._native.check_column(name, snapshot)
        read = schema.names if parts.columns is None else list(dict.fromkeys([*names, *parts.columns]))
        native = self._scanned(read, parts.pushed, None, None, snapshot, pushdown)
        shown = pa.schema([schema.field(name) for name in names])

        def left(batches: Batches) -> Batches:
            return _left(batches, parts, names, limit)

        return Rows(native, self._address, (shown, left))

    def _rows(
        self,
        columns: list[str] | None,
        filter: _native.Filter | None,
        sql: str | None,
        limit: int | None,
        snapshot: int | None,
        pushdown: str,
    ) -> Rows:
        if columns != []:
            return Rows(self._scanned(columns, filter, sql, limit, snapshot, pushdown), self._address)
        # Rows without columns are still so many.
        snapshot, schema = self._schema(snapshot)
        native = self._scanned(schema.names[:1], filter, sql, limit, snapshot, pushdown)

        def bare(batches: Batches) -> Batches:
            return (batch.select([]) for batch in batches)

        return Rows(native, self._address, (pa.schema([]), bare))

    def _scanned(
        self,
        columns: list[str] | None,
        filter: _native.Filter | None,
        sql: str | None,
        limit: int | None,
        snapshot: int | None,
        pushdown: str,
    ) -> _native.Rows:
        return self._native.scan(self._store, columns, filter, sql, limit, snapshot, pushdown)

    def dataset(self, *, snapshot: int | None = None, pushdown: Pushdown = "auto") -> TableDataset:
        """The table as a dataset of pyarrow's, which DuckDB, Polars and others read in part: they hand over the columns and
        conditions that they need.

        It stays at one snapshot, the newest of now if none is said.

        >>> ds = trips.dataset()
        >>> duckdb.sql("SELECT max(fare) FROM ds WHERE city = 'Rio'")
        """
        facts = self.snapshot(snapshot)
        return TableDataset(self, self._schema(facts.id)[1], facts.id, facts.rows, pushdown)

    def append(self, data: Any, *, add_columns: bool = False) -> Snapshot:
        """Adds rows, all of them or none, and returns the snapshot that has them.

        The data are whatever has rows for Arrow: a table, batch or reader of pyarrow's, a data frame, a query, another table, a
        dictionary of columns, a list of dictionaries. Columns are matched by name; a missing one is null, a smaller type is
        widened. With ``add_columns``, those that the table does not have are added to it.
        """
        reader = rows_of(data)
        writer = self._native.writer(add_columns, self._store)
        try:
            for batch in reader:
                for message in _messages(batch):
                    writer.write(message)
            return _snapshot(writer.finish())
        except BaseException:
            # What cannot be removed now, vacuum removes.
            with contextlib.suppress(Error):
                writer.abort()
            raise

    def vacuum(self, *, keep_snapshots: int = 1, keep: timedelta = timedelta(days=1)) -> int:
        """Removes snapshots that are neither among the newest nor younger than ``keep``, and the objects that no snapshot has;
        returns how many objects are gone."""
        keep_ms = keep // timedelta(milliseconds=1)
        if keep_snapshots < 0 or keep_ms < 0:
            raise InvalidArgumentError("a number of snapshots and an age are not negative")
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


def _left(batches: Batches, parts: Condition, names: list[str], limit: int | None) -> Batches:
    """Applies to rows what could not be pushed."""
    for batch in batches:
        if limit is not None and limit <= 0:
            return
        kept = batch.filter(parts.left).select(names)
        if limit is not None:
            kept = kept.slice(0, limit)
            limit -= kept.num_rows
        yield kept


def rows_of(data: Any) -> pa.RecordBatchReader:
    """Whatever has rows, as a reader."""
    if isinstance(data, pa.dataset.Dataset):
        return data.scanner().to_reader()
    if isinstance(data, pa.RecordBatchReader):
        # An exception of its source comes through as it is.
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
        "the data have no rows for Arrow: give a table, data frame, reader, dictionary of columns or list of dictionaries"
    )


def _messages(batch: pa.RecordBatch) -> Iterator[pa.Buffer]:
    """A batch in streams of Arrow IPC."""
    views = [field.type in (pa.string_view(), pa.binary_view()) for field in batch.schema]
    for start in range(0, max(batch.num_rows, 1), _SLICE_ROWS):
        part = batch.slice(start, _SLICE_ROWS)
        if any(views):
            # A part of views would be written with all that the views are into.
            columns = [_plain(column) if view else column for column, view in zip(part.columns, views, strict=True)]
            part = pa.RecordBatch.from_arrays(columns, names=part.schema.names)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, part.schema) as writer:
            writer.write_batch(part)
        yield sink.getvalue()


def _plain(column: pa.Array) -> pa.Array:
    return column.cast(pa.large_string() if column.type == pa.string_view() else pa.large_binary())
