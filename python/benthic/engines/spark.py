"""A table as a data source of Spark: ``spark.read.format("benthic")``.

Spark's Python data sources push filters, but neither columns nor limits nor aggregates. So the
options ``columns`` and ``filter``, or a schema for the reader, say what to read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import datasource as source
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from .._connections import shared_uri
from ..errors import InvalidArgumentError, UnsupportedError
from ..store import connect
from .conditions import NotPushable, column, compare, exactly, is_in
from .parts import Part, PartScan, scan_of

_OPERATORS = {
    source.EqualTo: "==",
    source.GreaterThan: ">",
    source.GreaterThanOrEqual: ">=",
    source.LessThan: "<",
    source.LessThanOrEqual: "<=",
}
_OPTIONS = {"path", "store", "snapshot", "columns", "filter", "pushdown", "part_size"}


class BenthicDataSource(DataSource):
    """The source ``benthic``. The path is ``POOL/TABLE``."""

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        unknown = {key.lower() for key in options} - _OPTIONS
        if unknown:
            raise InvalidArgumentError(f"no such option: {min(unknown)}; the options are {', '.join(sorted(_OPTIONS))}")
        if "path" not in options:
            raise InvalidArgumentError('the table is missing; pass POOL/TABLE to load, as in load("lake/trips")')
        self._scan = _scan(options)

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "benthic"

    def schema(self) -> StructType:
        """The columns in Spark's types."""
        return from_arrow_schema(pa.schema([_spark_field(field) for field in self._scan.read_schema]))

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of the columns in ``schema``."""
        return BenthicReader(self._scan.select(schema.fieldNames()), schema, self.options.get("part_size", "32MiB"))


class BenthicReader(DataSourceReader):
    """Reads the parts of a scan."""

    def __init__(self, scan: PartScan, schema: StructType, part_size: str) -> None:
        self._scan = scan
        self._types = to_arrow_schema(schema, timezone="UTC")
        self._part_size = part_size

    def pushFilters(self, filters: list[source.Filter]) -> Iterable[source.Filter]:
        """Adds filters to the scan, and returns the others."""
        for filter in filters:
            try:
                self._scan = self._scan.where(_condition(filter, self._scan.schema))
            except NotPushable:
                yield filter

    def partitions(self) -> list[InputPartition]:
        """A partition for each part."""
        return [InputPartition(part) for part in self._scan.parts(self._part_size)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a part."""
        part: Part = partition.value
        for batch in self._scan.read(part.objects):
            yield _cast(batch, self._types)


def _scan(options: Any) -> PartScan:
    """The scan of these options, of the snapshot that is current now."""
    columns = options.get("columns")
    snapshot = options.get("snapshot")
    if snapshot is not None and not snapshot.isdecimal():
        raise InvalidArgumentError(f"a snapshot is a number, which `benthic table history` prints; got={snapshot!r}")
    uri = options.get("store")
    with connect(uri and shared_uri(uri), create=False) as store:
        return scan_of(
            store.table(options["path"]),
            None if columns is None else [name.strip() for name in columns.split(",")],
            options.get("filter"),
            None if snapshot is None else int(snapshot),
            options.get("pushdown", "auto"),
        )


def _spark_field(field: pa.Field) -> pa.Field:
    return field.with_type(_spark_type(field.type)).with_nullable(True)


def _spark_type(type: pa.DataType) -> pa.DataType:
    """The type of Spark that has all values of a table's type."""
    wider = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64(), pa.uint64(): pa.decimal128(20, 0)}
    if type in wider:
        return wider[type]
    if pa.types.is_float16(type):
        return pa.float32()
    if pa.types.is_timestamp(type):
        return pa.timestamp("us", type.tz and "UTC")
    if pa.types.is_fixed_size_binary(type):
        return pa.binary()
    if pa.types.is_decimal256(type):
        if type.precision > 38:
            raise UnsupportedError(f"Spark has no type for {type}: its decimals have at most 38 digits; leave the column out")
        return pa.decimal128(type.precision, type.scale)
    if pa.types.is_list(type) or pa.types.is_fixed_size_list(type):
        return pa.list_(_spark_type(type.value_type))
    if pa.types.is_map(type):
        return pa.map_(_spark_type(type.key_type), _spark_type(type.item_type))
    if pa.types.is_struct(type):
        return pa.struct([_spark_field(field) for field in type])
    return type


def _cast(batch: pa.RecordBatch, types: pa.Schema) -> pa.RecordBatch:
    try:
        return batch.cast(types)
    except pa.ArrowInvalid as error:
        raise InvalidArgumentError(f"Spark's types cannot hold a value: {error}") from error


def _condition(filter: source.Filter, schema: pa.Schema) -> pc.Expression:
    """The filter as an expression. Where Spark has null, it may be false, so it must not be
    negated.
    """
    match filter:
        case source.IsNull((name,)):
            return pc.field(name).is_null()
        case source.IsNotNull((name,)):
            return pc.field(name).is_valid()
        case source.EqualTo((name,), value) | source.EqualNullSafe((name,), value) if value is not None:
            return _compare(schema, name, "==", value)
        case source.EqualNullSafe((name,), None):
            return pc.field(name).is_null()
        case (
            source.GreaterThan((name,), value)
            | source.GreaterThanOrEqual((name,), value)
            | source.LessThan((name,), value)
            | source.LessThanOrEqual((name,), value)
        ):
            return _compare(schema, name, _OPERATORS[type(filter)], value)
        case source.In((name,), values):
            return _is_in(schema, name, [value for value in values if value is not None])
        case source.Not(source.EqualTo((name,), value)):
            return _compare(schema, name, "!=", value)
        case source.Not(source.In((name,), values)) if None not in values:
            return pc.field(name).is_valid() & ~_is_in(schema, name, list(values))
    raise NotPushable


def _compare(schema: pa.Schema, name: str, operation: str, value: Any) -> pc.Expression:
    field = column(schema, name)
    return compare(field, operation, exactly(_checked(value, field), field.type))


def _is_in(schema: pa.Schema, name: str, values: list[Any]) -> pc.Expression:
    field = column(schema, name)
    return is_in(field, pa.array([exactly(_checked(value, field), field.type).as_py() for value in values], field.type))


def _checked(value: Any, field: pa.Field) -> Any:
    """Spark's times have a zone if the column's have one."""
    if pa.types.is_timestamp(field.type) and isinstance(value, datetime) and (value.tzinfo is None) != (field.type.tz is None):
        raise NotPushable
    return value
