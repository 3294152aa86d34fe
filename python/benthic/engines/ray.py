"""A table as a Ray dataset."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import ray.data
from ray.data import Datasource
from ray.data.block import BlockMetadata
from ray.data.datasource import ReadTask

from ..errors import Error
from .parts import Part, PartScan

if TYPE_CHECKING:
    from ray.data.expressions import Expr

    from ..table import Table

# Ray's own name for the column of a block without columns. Such a block would lose its row count.
_COUNTER = "__bsp_stub"


def dataset(scan: PartScan, part_size: int | str, table: Table, options: dict[str, Any]) -> ray.data.Dataset:
    """A dataset with a read task for each part."""
    return ray.data.read_datasource(BenthicDatasource(scan, part_size, table), **options)


class BenthicDatasource(Datasource):
    """A scan of a table, to which Ray passes columns, conditions and limits."""

    def __init__(self, scan: PartScan, part_size: int | str, table: Table | None = None) -> None:
        super().__init__()
        self._scan = scan
        self._part_size = part_size
        self._parts = scan.parts(part_size, table)
        self._projection_map = None if scan.columns is None else {name: name for name in scan.columns}

    def get_name(self) -> str:
        """The name of the read tasks."""
        return "Benthic"

    def estimate_inmemory_data_size(self) -> int | None:
        """The stored size of the objects, which is less than their size in memory."""
        return sum(part.data_bytes for part in self._parts)

    def supports_projection_pushdown(self) -> bool:
        """Scans read only the selected columns."""
        return True

    def supports_predicate_pushdown(self) -> bool:
        """Scans apply conditions."""
        return True

    def apply_predicate(self, predicate_expr: Expr) -> Datasource:
        """A source with a further condition, or this source if the scan cannot apply it."""
        try:
            condition = predicate_expr.to_pyarrow()
            scan = self._scan.where(condition)
            parts = scan.parts(self._part_size)
        except (Error, ValueError, TypeError, pa.ArrowException):
            return self
        pushed = super().apply_predicate(predicate_expr)
        pushed._scan, pushed._parts = scan, parts
        return pushed

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None
    ) -> list[ReadTask]:
        """A task for each part."""
        columns = self._get_data_columns()
        scan = self._scan if columns is None else self._scan.select(columns)
        return [_task(scan, part, per_task_row_limit) for part in self._parts]


def _task(scan: PartScan, part: Part, limit: int | None) -> ReadTask:
    rows = None if scan.is_filtered else part.rows
    metadata = BlockMetadata(num_rows=rows, size_bytes=part.data_bytes, input_files=list(part.objects), exec_stats=None)
    return ReadTask(_reader(scan, part, limit), metadata, schema=scan.read_schema, per_task_row_limit=limit)


def _reader(scan: PartScan, part: Part, limit: int | None) -> Callable[[], Iterator[pa.Table]]:
    def read() -> Iterator[pa.Table]:
        rows = scan.read(part.objects, limit)
        # A part without rows still has columns.
        yield rows.schema.empty_table()
        for batch in rows:
            if batch.num_columns == 0:
                batch = pa.record_batch({_COUNTER: pa.nulls(batch.num_rows)})
            yield pa.Table.from_batches([batch])

    return read
