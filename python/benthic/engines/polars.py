"""A table as a lazy frame of Polars."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import polars
import pyarrow as pa
import pyarrow.compute as pc
from polars.io.plugins import register_io_source

from ..filters import Filter, split
from .conditions import MIRRORED, NotPushable, column, compare, is_in

if TYPE_CHECKING:
    from ..table import Pushdown, Table

_OPERATORS = {"Eq": "==", "NotEq": "!=", "Lt": "<", "LtEq": "<=", "Gt": ">", "GtEq": ">="}
_BOUNDS = {"Both": (">=", "<="), "Left": (">=", "<"), "Right": (">", "<="), "None": (">", "<")}


def lazy_frame(table: Table, filter: Filter, snapshot: int | None, pushdown: Pushdown) -> polars.LazyFrame:
    """A lazy frame that scans one snapshot when it is collected."""
    id, schema = table._schema(snapshot)
    given, sql = split(filter)

    def read(
        columns: list[str] | None, predicate: polars.Expr | None, rows_max: int | None, batch_rows: int | None
    ) -> Iterator[polars.DataFrame]:
        # With both a limit and a predicate, Polars wants the limit first.
        pushed, is_exact = (None, False) if predicate is None or rows_max is not None else to_condition(predicate, schema)
        both = given if pushed is None else pushed if given is None else given & pushed
        rows = table._scan(columns, both, sql, rows_max, id, None, pushdown)
        for batch in _frames(rows, batch_rows or 1):
            yield batch if predicate is None or is_exact else batch.filter(predicate)

    return register_io_source(
        read,
        schema=polars.DataFrame(schema.empty_table()).schema,
        is_pure=True,
        explain_name="BENTHIC",
        explain_detail=f"{table.name} snapshot={id}",
    )


def _frames(rows: Any, batch_rows: int) -> Iterator[polars.DataFrame]:
    """Frames of at least ``batch_rows`` rows, but for the last."""
    batches: list[pa.RecordBatch] = []
    for batch in rows:
        batches.append(batch)
        if sum(each.num_rows for each in batches) >= batch_rows:
            yield polars.DataFrame(pa.Table.from_batches(batches))
            batches = []
    yield polars.DataFrame(pa.Table.from_batches(batches, rows.schema))


def to_condition(predicate: polars.Expr, schema: pa.Schema) -> tuple[pc.Expression | None, bool]:
    """The parts of a predicate that pyarrow can express with the same meaning, and whether these are
    the whole predicate.
    """
    condition, is_exact = None, True
    for node in _conjuncts(json.loads(predicate.meta.serialize(format="json"))):
        try:
            part = _convert(node, schema)
        # Another version of Polars may have other nodes.
        except (NotPushable, KeyError, TypeError, ValueError, pa.ArrowException, polars.exceptions.PolarsError):
            is_exact = False
        else:
            condition = part if condition is None else condition & part
    return condition, is_exact


def _conjuncts(node: Any) -> Iterator[Any]:
    match node:
        case {"BinaryExpr": {"op": "And", "left": left, "right": right}}:
            yield from _conjuncts(left)
            yield from _conjuncts(right)
        case _:
            yield node


def _convert(node: Any, schema: pa.Schema) -> pc.Expression:
    """A condition. Where Polars has null, it may be false, so it must not be negated."""
    match node:
        case {"Column": str(name)} if pa.types.is_boolean(column(schema, name).type):
            return pc.field(name)
        case {"BinaryExpr": {"op": "And", "left": left, "right": right}}:
            return _convert(left, schema) & _convert(right, schema)
        case {"BinaryExpr": {"op": "Or", "left": left, "right": right}}:
            return _convert(left, schema) | _convert(right, schema)
        case {"BinaryExpr": {"op": op, "left": {"Column": str(name)}, "right": {"Literal": _} as literal}}:
            return _compare(column(schema, name), _OPERATORS[op], literal)
        case {"BinaryExpr": {"op": op, "left": {"Literal": _} as literal, "right": {"Column": str(name)}}}:
            return _compare(column(schema, name), MIRRORED[_OPERATORS[op]], literal)
        case {"Function": {"input": [{"Column": str(name)}, *values], "function": {"Boolean": function}}}:
            return _function(function, name, values, schema)
        case {"Function": {"input": [negated], "function": {"Boolean": "Not"}}}:
            return _negate(negated, schema)
    raise NotPushable


def _function(function: Any, name: str, values: list[Any], schema: pa.Schema) -> pc.Expression:
    match function, values:
        case "IsNull", []:
            return pc.field(name).is_null()
        case "IsNotNull", []:
            return pc.field(name).is_valid()
        case "Not", [] if pa.types.is_boolean(column(schema, name).type):
            return ~pc.field(name)
        case {"IsBetween": {"closed": closed}}, [low, high]:
            field, (above, below) = column(schema, name), _BOUNDS[closed]
            return _compare(field, above, low) & _compare(field, below, high)
        case {"IsIn": {"nulls_equal": False}}, [literal]:
            field = column(schema, name)
            return is_in(field, _members(field, literal).drop_null())
    raise NotPushable


def _negate(node: Any, schema: pa.Schema) -> pc.Expression:
    match node:
        case {"Function": {"input": [{"Column": str(name)}, literal], "function": {"Boolean": {"IsIn": {"nulls_equal": False}}}}}:
            field = column(schema, name)
            members = _members(field, literal)
            # With a null among the values, the answer is never true.
            if members.null_count == 0:
                return pc.field(name).is_valid() & ~is_in(field, members)
    raise NotPushable


def _compare(field: pa.Field, operation: str, literal: Any) -> pc.Expression:
    value = _value(literal)
    return compare(field, operation, value.to_arrow()[0].cast(_same_type(field, value)))


def _members(field: pa.Field, literal: Any) -> pa.Array:
    values = _value(literal).explode()
    return values.to_arrow().cast(_same_type(field, values))


def _value(literal: Any) -> polars.Series:
    expression = polars.Expr.deserialize(io.StringIO(json.dumps(literal)), format="json")
    return polars.select(expression).to_series()


def _same_type(field: pa.Field, value: polars.Series) -> pa.DataType:
    """The column's type. Casts of decimals to it are checked; other values must have it already."""
    same = polars.DataFrame(pa.schema([field]).empty_table()).schema[field.name]
    if value.dtype == same or (value.dtype.is_decimal() and same.is_decimal()):
        return field.type
    raise NotPushable
