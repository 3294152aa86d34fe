"""A table as a pyarrow dataset."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset

from .errors import InvalidArgumentError, UnsupportedError

if TYPE_CHECKING:
    from .table import Pushdown, Table

Columns = Sequence[str] | Mapping[str, pc.Expression] | None


class TableDataset(pyarrow.dataset.Dataset):  # type: ignore[misc]
    """A snapshot of a table as a :class:`pyarrow.dataset.Dataset`. :meth:`Table.dataset` creates
    it.

    A reader passes the columns and the filter that it needs, and the scan runs both beside the
    rows. A table's objects are not files that pyarrow could open, so the dataset has no
    fragments.
    """

    def __init__(
        self,
        table: Table,
        schema: pa.Schema,
        snapshot: int,
        rows: int,
        pushdown: Pushdown,
        condition: pc.Expression | None = None,
    ) -> None:
        # No native pyarrow dataset is behind this object, so every method that a caller may need is
        # defined here.
        self._table = table
        self._columns = schema
        self._snapshot = snapshot
        self._rows = rows
        self._pushdown = pushdown
        self._condition = condition

    def __repr__(self) -> str:
        return f"<benthic.TableDataset {self._table.name} snapshot={self._snapshot}>"

    def __reduce__(self) -> Any:
        raise UnsupportedError("a dataset cannot be pickled; open the table in the other process")

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self._columns

    @property
    def partition_expression(self) -> pc.Expression:
        """An expression that is true for all rows. It is always true: a table has no such fact."""
        return pc.scalar(True)

    def scanner(
        self, columns: Columns = None, filter: pc.Expression | None = None, batch_size: int | None = None, **options: Any
    ) -> Scanner:
        """Creates a scan. ``columns`` are names, or a mapping of names to expressions. Options
        for reading files are ignored.
        """
        return Scanner(self, columns, filter, batch_size)

    def to_batches(self, columns: Columns = None, filter: pc.Expression | None = None, **options: Any) -> Iterator[pa.RecordBatch]:
        """The batches of a scan."""
        return self.scanner(columns, filter, **options).to_batches()

    def to_table(self, columns: Columns = None, filter: pc.Expression | None = None, **options: Any) -> pa.Table:
        """All rows of a scan."""
        return self.scanner(columns, filter, **options).to_table()

    def head(self, num_rows: int, columns: Columns = None, filter: pc.Expression | None = None, **options: Any) -> pa.Table:
        """Up to ``num_rows`` rows of a scan; which rows is unspecified."""
        return self.scanner(columns, filter, **options).head(num_rows)

    def count_rows(self, filter: pc.Expression | None = None, **options: Any) -> int:
        """The number of rows."""
        return self.scanner(None, filter, **options).count_rows()

    def take(self, indices: Any, columns: Columns = None, filter: pc.Expression | None = None, **options: Any) -> pa.Table:
        """Rows by their positions. A table has no order, so positions are those of this one scan.
        """
        return self.scanner(columns, filter, **options).take(indices)

    def filter(self, expression: pc.Expression) -> TableDataset:
        """A dataset with only the rows for which an expression is true."""
        return self._with(self._columns, self._and(expression))

    def replace_schema(self, schema: pa.Schema) -> TableDataset:
        """Not supported: a table's columns have fixed types."""
        raise UnsupportedError("the types of a table's columns are fixed; cast columns in the scan")

    def get_fragments(self, filter: pc.Expression | None = None) -> Iterator[Any]:
        """Not supported: a table has no fragments."""
        raise UnsupportedError("a table's dataset has no fragments; use scanner or to_batches")

    def join(self, right_dataset: Any, keys: Any, **options: Any) -> Any:
        """Joins all rows in memory."""
        right = right_dataset.to_table() if isinstance(right_dataset, pyarrow.dataset.Dataset) else right_dataset
        return pyarrow.dataset.InMemoryDataset(self.to_table().join(right, keys, **options))

    def join_asof(self, right_dataset: Any, on: str, by: Any, tolerance: Any, **options: Any) -> Any:
        """Joins all rows in memory."""
        right = right_dataset.to_table() if isinstance(right_dataset, pyarrow.dataset.Dataset) else right_dataset
        return pyarrow.dataset.InMemoryDataset(self.to_table().join_asof(right, on, by, tolerance, **options))

    def sort_by(self, sorting: Any, **options: Any) -> Any:
        """Sorts all rows in memory."""
        return pyarrow.dataset.InMemoryDataset(self.to_table().sort_by(sorting, **options))

    def __arrow_c_schema__(self) -> object:
        return self._columns.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.scanner().to_reader().__arrow_c_stream__(requested_schema)

    def _with(self, schema: pa.Schema, condition: pc.Expression | None) -> TableDataset:
        return TableDataset(self._table, schema, self._snapshot, self._rows, self._pushdown, condition)

    def _and(self, expression: pc.Expression | None) -> pc.Expression | None:
        if self._condition is None or expression is None:
            return self._condition if expression is None else expression
        return self._condition & expression


class Scanner:
    """A scan from :meth:`TableDataset.scanner`. It can be read any number of times."""

    def __init__(
        self, dataset: TableDataset, columns: Columns, filter: pc.Expression | None, batch_size: int | None
    ) -> None:
        if batch_size is not None and batch_size < 1:
            raise InvalidArgumentError("batch_size must be at least 1")
        self._dataset = dataset
        self._filter = dataset._and(filter)
        self._batch_size = batch_size
        self._expressions = dict(columns) if isinstance(columns, Mapping) else None
        self._names = None if columns is None or self._expressions is not None else list(columns)

    @property
    def dataset_schema(self) -> pa.Schema:
        """The columns of the dataset."""
        return self._dataset.schema

    @property
    def projected_schema(self) -> pa.Schema:
        """The columns of the scan."""
        return self.to_reader().schema

    def to_reader(self) -> pa.RecordBatchReader:
        """A reader that fetches batches on demand."""
        if self._expressions is not None:
            # pyarrow computes the expressions from rows that are already filtered.
            rows = self._scan(None, None).to_reader()
            return pyarrow.dataset.Scanner.from_batches(rows, columns=self._expressions).to_reader()
        rows = self._scan(self._names, None)
        if self._batch_size is None:
            return rows.to_reader()
        return pa.RecordBatchReader.from_batches(rows.schema, _at_most(iter(rows), self._batch_size))

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The batches."""
        return iter(self.to_reader())

    def scan_batches(self) -> Iterator[Any]:
        """Not supported: a table has no fragments."""
        raise UnsupportedError("a table's dataset has no fragments; use to_batches")

    def to_table(self) -> pa.Table:
        """All rows."""
        return self.to_reader().read_all()

    def head(self, num_rows: int) -> pa.Table:
        """Up to ``num_rows`` rows; which rows is unspecified."""
        if self._expressions is not None:
            return self.to_table().slice(0, num_rows)
        return self._scan(self._names, num_rows).to_arrow()

    def count_rows(self) -> int:
        """The number of rows."""
        if self._filter is None:
            return self._dataset._rows
        return sum(batch.num_rows for batch in self._scan([], None))

    def take(self, indices: Any) -> pa.Table:
        """Rows by their positions in this scan."""
        return self.to_table().take(indices)

    def __arrow_c_schema__(self) -> object:
        return self.projected_schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def _scan(self, columns: Sequence[str] | None, limit: int | None) -> Any:
        dataset = self._dataset
        return dataset._table.scan(
            columns, self._filter, limit, snapshot=dataset._snapshot, pushdown=dataset._pushdown
        )


def _at_most(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for start in range(0, batch.num_rows, rows):
            yield batch.slice(start, rows)
