"""Query results, produced batch by batch as the caller reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from . import _native
from ._handle import Handle
from .errors import InvalidArgumentError

if TYPE_CHECKING:
    import pandas
    import polars

Batches = Iterator[pa.RecordBatch]


class Rows(Handle):
    """A query that runs as the caller reads it, batch by batch, and stops when the caller stops.

    pyarrow, pandas, Polars, DuckDB and other libraries with Arrow's PyCapsule interface read it
    directly::

        polars.DataFrame(rows)
        duckdb.sql("SELECT city, sum(fare) FROM rows GROUP BY city")

    The rows can be read only once. Reading keeps a few batches in memory, not the whole result.
    """

    def __init__(
        self, native: _native.Rows, name: str, shaped: tuple[pa.Schema, Callable[[Batches], Batches]] | None = None
    ) -> None:
        self._native = native
        self._name = name
        self._native_schema = pa.ipc.read_schema(pa.py_buffer(native.schema()))
        self._schema, self._shape = shaped or (self._native_schema, iter)
        self._is_taken = False

    def __repr__(self) -> str:
        columns = ", ".join(f"{field.name}: {field.type}" for field in self._schema)
        return f"<benthic.Rows of {self._name}: {columns}>"

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self._schema

    def __iter__(self) -> Batches:
        """The batches."""
        if self._is_taken:
            raise InvalidArgumentError("the rows were read already; run the query again")
        self._is_taken = True
        return self._shape(self._batches())

    def _batches(self) -> Batches:
        try:
            while (message := self._native.next()) is not None:
                yield pa.ipc.read_record_batch(pa.py_buffer(message), self._native_schema)
        finally:
            self._native.close()

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows as a pyarrow reader."""
        return pa.RecordBatchReader.from_batches(self._schema, iter(self))

    def to_arrow(self) -> pa.Table:
        """All rows as a pyarrow table."""
        return pa.Table.from_batches(iter(self), self._schema)

    def to_pandas(self, **options: Any) -> pandas.DataFrame:
        """All rows as a pandas data frame; ``options`` are those of
        :meth:`pyarrow.Table.to_pandas`.
        """
        return self.to_arrow().to_pandas(**options)

    def to_polars(self) -> polars.DataFrame:
        """All rows as a Polars data frame."""
        import polars

        return polars.DataFrame(self.to_arrow())

    def to_pylist(self) -> list[dict[str, Any]]:
        """All rows as dictionaries."""
        rows: list[dict[str, Any]] = self.to_arrow().to_pylist()
        return rows

    def __arrow_c_schema__(self) -> object:
        return self._schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def close(self) -> None:
        """Stops the query."""
        self._is_taken = True
        self._native.close()
