"""Splits a pyarrow filter into a part that runs beside the rows and a part that pyarrow applies."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from . import _native
from .errors import InvalidArgumentError

# The size of pyarrow's Substrait for an expression doubles with each level of nesting.
_LEVELS_MAX = 10
# Parts of an expression's text that may contain parentheses without nesting: strings, and sets of
# values, which pyarrow does not escape.
_VALUES = re.compile(r'\{value_set=.*?\], null_matching_behavior=\w+\}|"(?:\\.|[^"\\])*"', re.DOTALL)
_UNKNOWN = re.compile(r"No match for FieldRef\.Name\((.*)\) in ")


Filter: TypeAlias = pc.Expression | str | None
"""A pyarrow expression, or a condition in SQL."""


def split(filter: Filter) -> tuple[pc.Expression | None, str | None]:
    """A filter as an expression or as SQL."""
    if filter is None or isinstance(filter, str):
        return None, filter
    if isinstance(filter, pc.Expression):
        return filter, None
    raise InvalidArgumentError("filter must be a pyarrow expression or an SQL condition")


@dataclass(frozen=True, slots=True)
class Condition:
    """A filter, split into a pushed part and a remaining part."""

    pushed: _native.Filter | None
    """The part that runs beside the rows."""

    left: pc.Expression | None
    """The filter that pyarrow applies to the returned rows: the whole expression unless all of it
    is pushed.
    """

    columns: list[str] | None
    """The columns that ``left`` reads; None if they are unknown."""


def condition(expression: pc.Expression, schema: pa.Schema, table: _native.Table, snapshot: int | None) -> Condition:
    """Splits a filter on a table's rows."""
    try:
        schema.empty_table().filter(expression)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        unknown = _UNKNOWN.match(str(error))
        if unknown:
            table.check_column(unknown[1], snapshot)
        text = str(error)
        raise InvalidArgumentError(f"pyarrow rejects the filter: {text}", message=text) from error
    written = _to_substrait(expression, schema)
    if written is None:
        return Condition(None, expression, None)
    substrait, used = written
    pushed = _native.read_filter(substrait, schema_bytes(used))
    if pushed.is_exact:
        return Condition(pushed, None, [])
    return Condition(pushed, expression, pushed.columns)


def _to_substrait(expression: pc.Expression, schema: pa.Schema) -> tuple[bytes, pa.Schema] | None:
    """The expression as Substrait, and the schema that defines its column numbers."""
    if _levels(str(expression)) > _LEVELS_MAX:
        return None
    # pyarrow fails on a column whose type Substrait lacks, even if the filter does not use that
    # column.
    for used in (schema, pa.schema([field for field in schema if _has_substrait(field)])):
        try:
            return bytes(expression.to_substrait(used)), used
        except (pa.ArrowException, KeyError):
            continue
    return None


def _levels(text: str) -> int:
    """A lower bound of the expression's nesting depth."""
    deepest = level = 0
    for character in _VALUES.sub("", text):
        level += (character == "(") - (character == ")")
        deepest = max(deepest, level)
    return deepest


def _has_substrait(field: pa.Field) -> bool:
    try:
        pc.field(field.name).is_valid().to_substrait(pa.schema([field]))
    except (pa.ArrowException, KeyError):
        return False
    return True


def schema_bytes(schema: pa.Schema) -> bytes:
    """The schema as an Arrow IPC stream without rows."""
    sink = pa.BufferOutputStream()
    pa.ipc.new_stream(sink, schema).close()
    message: bytes = sink.getvalue().to_pybytes()
    return message
