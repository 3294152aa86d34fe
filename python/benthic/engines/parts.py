"""A scan that tasks in other processes run, each on its own data objects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from .._connections import connected, shared_uri
from ..errors import InvalidArgumentError
from ..filters import Filter, split
from ..rows import Rows
from ..store import size_bytes

if TYPE_CHECKING:
    from ..table import DataObject, Pushdown, Table


@dataclass(frozen=True, slots=True)
class Part:
    """The data objects of one task."""

    objects: tuple[str, ...]
    rows: int
    """The rows of the objects, without regard to a filter."""
    data_bytes: int


@dataclass(frozen=True, slots=True)
class PartScan:
    """A scan of one snapshot. It can be pickled: it names the store and the table, and each process
    connects by itself.
    """

    uri: str
    table: str
    snapshot: int
    schema: pa.Schema
    """All columns of the snapshot."""
    columns: tuple[str, ...] | None
    expression: pc.Expression | None
    sql: str | None
    """Another condition; rows must satisfy both."""
    pushdown: Pushdown

    @property
    def read_schema(self) -> pa.Schema:
        """The columns of the scan."""
        if self.columns is None:
            return self.schema
        return pa.schema([self.schema.field(name) for name in self.columns])

    def select(self, columns: Iterable[str]) -> PartScan:
        """The same scan with other columns."""
        return replace(self, columns=tuple(columns))

    @property
    def is_filtered(self) -> bool:
        """Whether the scan has a condition."""
        return self.expression is not None or self.sql is not None

    def where(self, condition: pc.Expression) -> PartScan:
        """The same scan with a further condition."""
        return replace(self, expression=condition if self.expression is None else self.expression & condition)

    def read(self, objects: Sequence[str] | None = None, limit: int | None = None) -> Rows:
        """Starts the scan of some objects, through this process's connection."""
        return self.open()._scan(self.columns, self.expression, self.sql, limit, self.snapshot, objects, self.pushdown)

    def parts(self, part_size: int | str, table: Table | None = None) -> list[Part]:
        """Distributes the objects that the filter does not exclude over tasks. At least one part.

        A process that has the table open passes it, so that it needs no other connection.
        """
        table = table or self.open()
        return _pack(table._objects(self.expression, self.sql, self.snapshot), size_bytes(part_size))

    def open(self) -> Table:
        """The table, through this process's connection."""
        return connected(self.uri).table(self.table)


def scan_of(table: Table, columns: Sequence[str] | None, filter: Filter, snapshot: int | None, pushdown: Pushdown) -> PartScan:
    """Describes a scan of a table, and pins its snapshot."""
    if isinstance(columns, str):
        raise InvalidArgumentError("columns must be a list of names, not a string")
    id, schema = table._schema(snapshot)
    for name in columns or ():
        table._native.check_column(name, id)
    chosen = None if columns is None else tuple(columns)
    return PartScan(shared_uri(table.uri), table.name, id, schema, chosen, *split(filter), pushdown)


def _pack(objects: Sequence[DataObject], part_bytes: int) -> list[Part]:
    """Packs neighbouring objects into parts of about ``part_bytes``."""
    parts = []
    packed: list[DataObject] = []
    packed_bytes = 0
    for object in objects:
        if packed and packed_bytes + object.data_bytes > part_bytes:
            parts.append(_part(packed))
            packed, packed_bytes = [], 0
        packed.append(object)
        packed_bytes += object.data_bytes
    if packed or not parts:
        parts.append(_part(packed))
    return parts


def _part(objects: Sequence[DataObject]) -> Part:
    names = tuple(object.name for object in objects)
    return Part(names, sum(object.rows for object in objects), sum(object.data_bytes for object in objects))
