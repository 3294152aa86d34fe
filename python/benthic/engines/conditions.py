"""Conditions in the meaning that Polars and Spark give them, as pyarrow expressions.

Both engines order NaN above all other numbers and hold that NaN equals NaN. For pyarrow, every
comparison with NaN but ``!=`` is false. Both engines compare with null as SQL does.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
MIRRORED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

_VALUES_MAX = 1000
_COMPARABLE = (
    types.is_boolean,
    types.is_integer,
    types.is_floating,
    types.is_decimal,
    types.is_string,
    types.is_binary,
    types.is_date,
    types.is_time,
    types.is_timestamp,
)


class NotPushable(Exception):
    """The engine must apply this condition itself."""


def column(schema: pa.Schema, name: str) -> pa.Field:
    """A column whose values pyarrow orders as the engines do."""
    if schema.get_field_index(name) < 0:
        raise NotPushable
    field = schema.field(name)
    if not any(is_type(field.type) for is_type in _COMPARABLE):
        raise NotPushable
    return field


def compare(field: pa.Field, operation: str, value: pa.Scalar) -> pc.Expression:
    """Compares a column with a value of the column's type."""
    if not value.is_valid:
        raise NotPushable
    is_float = types.is_floating(field.type)
    if is_float and math.isnan(value.as_py()):
        raise NotPushable
    compared: pc.Expression = COMPARISONS[operation](pc.field(field.name), value)
    return compared | pc.field(field.name).is_nan() if is_float and operation in (">", ">=") else compared


def is_in(field: pa.Field, values: pa.Array) -> pc.Expression:
    """Whether a column has one of some values of its type, without nulls. False for null."""
    if len(values) > _VALUES_MAX or types.is_floating(field.type):
        raise NotPushable
    return pc.field(field.name).isin(values)


def exactly(value: Any, type: pa.DataType) -> pa.Scalar:
    """The value in a column's type, if the type can represent it."""
    try:
        scalar = pa.scalar(value, type)
        if scalar.as_py() == value:
            return scalar
    except (pa.ArrowException, ArithmeticError, TypeError, ValueError):
        pass
    raise NotPushable
