"""Filters: what of an expression of pyarrow's can run where the rows are, and what is left to pyarrow."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from . import _native
from .errors import InvalidArgumentError

# pyarrow's Substrait of an expression doubles with every level of it.
_LEVELS_MAX = 10
# What stands in an expression's text and may hold parentheses that are none: sets of values, which are not escaped, and strings.
_VALUES = re.compile(r'\{value_set=.*?\], null_matching_behavior=\w+\}|"(?:\\.|[^"\\])*"', re.DOTALL)
_UNKNOWN = re.compile(r"No match for FieldRef\.Name\((.*)\) in ")


@dataclass(frozen=True, slots=True)
class Condition:
    """A filter that was taken apart."""

    pushed: _native.Filter | None
    """What runs where the rows are."""

    left: pc.Expression | None
    """What pyarrow applies to the rows that come: all of the expression, if not all of it runs there."""

    columns: list[str] | None
    """The columns that ``left`` takes; None if that is not known."""


def condition(expression: pc.Expression, schema: pa.Schema, table: _native.Table, snapshot: int | None) -> Condition:
    """Takes a filter of a table's rows apart."""
    try:
        schema.empty_table().filter(expression)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        unknown = _UNKNOWN.match(str(error))
        if unknown:
            table.check_column(unknown[1], snapshot)
        text = str(error)
        raise InvalidArgumentError(f"the filter cannot be: {text}", message=text) from error
    written = _written(expression, schema)
    if written is None:
        return Condition(None, expression, None)
    substrait, seen = written
    pushed = _native.read_filter(substrait, schema_bytes(seen))
    if pushed.is_exact:
        return Condition(pushed, None, [])
    return Condition(pushed, expression, pushed.columns)


def _written(expression: pc.Expression, schema: pa.Schema) -> tuple[bytes, pa.Schema] | None:
    """The expression as Substrait, and the schema that its columns are numbered by."""
    if _levels(str(expression)) > _LEVELS_MAX:
        return None
    # A type that Substrait does not have stands in the way even where the filter does not ask for its column.
    for seen in (schema, pa.schema([field for field in schema if _has_substrait(field)])):
        try:
            return bytes(expression.to_substrait(seen)), seen
        except (pa.ArrowException, KeyError):
            continue
    return None


def _levels(text: str) -> int:
    """How deep an expression nests, at least."""
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
    """A stream of Arrow IPC without rows."""
    sink = pa.BufferOutputStream()
    pa.ipc.new_stream(sink, schema).close()
    message: bytes = sink.getvalue().to_pybytes()
    return message
