"""Filters mean the same as in pyarrow, wherever they run."""

import datetime
import decimal
import math
import os
import random

import benthic
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import seeds
from benthic.filters import condition

UTC = datetime.UTC
FLOATS = [0.0, -0.0, 1.5, -1.5, math.inf, -math.inf, math.nan, 3.0, None]
NEGATIVE_NAN = math.copysign(math.nan, -1.0)

ROWS = pa.table(
    {
        "i": pa.array([3, -3, 0, None, 2**62, 7, 1, 2, 5], pa.int64()),
        "j": pa.array([3, 4, 0, 1, None, 7, 1, 2, 5], pa.int32()),
        "k": pa.array([3, -3, 0, None, 127, 7, 1, 2, 5], pa.int8()),
        "u": pa.array([3, 2**40, 0, None, 127, 7, 1, 2, 5], pa.uint64()),
        "f": pa.array([*FLOATS[:-2], NEGATIVE_NAN, None], pa.float64()),
        "g": pa.array([*FLOATS[1:], NEGATIVE_NAN], pa.float32()),
        "s": ["a", "b", "", None, "ab", "€", "𝄞", "Z", "a"],
        "bin": [b"a", b"\x00", b"", None, b"\xff", b"a\x00", b"b", b"c", b"d"],
        "b": [True, False, None] * 3,
        "d": pa.array([decimal.Decimal(text) if text else None for text in "1.50 -2.25 0.00  9.99 1.51 1.49 2.00 0.01".split(" ")], pa.decimal128(10, 2)),
        "date": pa.array([0, 1, -1, None, 20_000, 18_262, 5, 6, 7], pa.date32()),
        "ts": pa.array([0, 1, -1, None, 1_577_836_800_000_000, 5, 6, 7, 8], pa.timestamp("us")),
        "ms": pa.array([0, 1, -1, None, 1_577_836_800_000, 5, 6, 7, 8], pa.timestamp("ms")),
        "tz": pa.array([0, 1, -1, None, 1_577_836_800_000_000, 5, 6, 7, 8], pa.timestamp("us", "UTC")),
        "t": pa.array([0, 1, 2, None, 86_399_999_999, 5, 6, 7, 8], pa.time64("us")),
        "st": [{"x": 1}, {"x": None}, None] * 3,
        "l": [[1], [], None] * 3,
        "w": pa.array([None, *range(8)], pa.decimal256(40, 0)),
    }
)
f = pc.field
NULL = pa.scalar(None, pa.bool_())

# Filters that can be pushed as a whole.
PUSHED = {
    "gt": f("i") > 3,
    "lt": f("i") < 3,
    "ge": f("j") >= 3,
    "le": f("k") <= 3,
    "eq": f("i") == 3,
    "ne": f("i") != 3,
    "turned round": pc.scalar(3) < f("i"),
    "and": (f("i") > 0) & (f("s") == "a"),
    "or": (f("i") > 3) | (f("s") == "a"),
    "not": ~(f("i") > 3),
    "not of or": ~((f("i") > 3) | f("s").is_null()),
    "three": (f("i") > 0) & (f("j") > 1) & (f("k") < 7),
    "string": f("s") == "a",
    "string order": f("s") >= "ab",
    "any string": f("s") == "𝄞",
    "binary": f("bin") > b"\x00",
    "bool": f("b"),
    "not bool": ~f("b"),
    "bool literal": f("b") == False,  # noqa: E712
    "is null": f("i").is_null(),
    "is valid": f("s").is_valid(),
    "isin": f("i").isin([3, 0, 9]),
    "isin strings": f("s").isin(["a", "€"]),
    "not isin": ~f("s").isin(["a", "€"]),
    "isin dates": f("date").isin([datetime.date(1970, 1, 1)]),
    "float": f("f") > 1.5,
    "float zero": f("f") == 0.0,
    "float minus zero": f("f") >= -0.0,
    "float not zero": f("f") != 0.0,
    "float nan": f("f") == math.nan,
    "float not nan": f("f") != math.nan,
    "not less": ~(f("f") < 1.5),
    "is nan": f("f").is_nan(),
    "not is nan": ~f("f").is_nan(),
    "infinity": f("f") <= math.inf,
    "float32": f("g") < pa.scalar(1.5, pa.float32()),
    "decimal": f("d") > decimal.Decimal("1.50"),
    "decimal of fewer digits": f("d") == decimal.Decimal("2.0"),
    "date": f("date") > datetime.date(2019, 1, 1),
    "timestamp": f("ts") >= datetime.datetime(2020, 1, 1),
    "milliseconds": f("ms") >= pa.scalar(datetime.datetime(1970, 1, 1), pa.timestamp("ms")),
    "zone": f("tz") >= datetime.datetime(2020, 1, 1, tzinfo=UTC),
    "time": f("t") > datetime.time(0, 0, 0, 2),
    "parentheses": f("s") == "a" + "(" * 20,
    "parentheses among": f("s").isin(["a", '"' + "(" * 20]),
    "in": pc.if_else(f("i").is_valid(), f("i").isin([3, 0, 9]), NULL),
    "not in": ~pc.if_else(f("s").is_valid(), f("s").isin(["a", "€"]), NULL),
    "columns": f("i") > f("i"),
    "true": pc.scalar(True),
    "false": pc.scalar(False),
}

# Filters that only pyarrow can apply.
LEFT = {
    "arithmetic": f("i") + 1 > 3,
    "function": pc.utf8_length(f("s")) == 1,
    "like": pc.match_like(f("s"), "a%"),
    "starts": pc.starts_with(f("s"), "a"),
    "cast": f("i").cast(pa.float64(), safe=False) > 2.5,
    "int and float": f("j") > 2.5,
    "struct": f("st", "x") > 0,
    "struct null": f("st", "x").is_null(),
    "null among": f("s").isin(["a", None]),
    "floats among": f("f").isin([0.0, math.nan]),
    "float columns": f("f") > f("f"),
    "unsigned": f("u") > 3,
    "microseconds of milliseconds": f("ms") > datetime.datetime(1970, 1, 1, 0, 0, 0, 500),
    "wide decimal": f("w") > decimal.Decimal(3),
    "null": f("i") == pa.scalar(None, pa.int64()),
    "list": pc.list_value_length(f("l")) > 0,
    "nan is null": f("f").is_null(nan_is_null=True),
    "if": pc.if_else(f("b"), f("i"), 0) > 0,
    "if valid": pc.if_else(f("j").is_valid(), f("i").isin([3, 0, 9]), NULL),
    "if valid, else true": pc.if_else(f("i").is_valid(), f("i").isin([3, 0, 9]), True),
    "if null": pc.if_else(f("i").is_null(), f("i").isin([3, 0, 9]), NULL),
    "case": pc.case_when(pc.make_struct(f("b"), f("k") > 0), f("i"), f("j"), 0) > 0,
    "coalesce": pc.coalesce(f("i"), f("j")) == 1,
    "part of a choice": pc.struct_field(pc.if_else(f("b"), f("st"), f("st")), [0]) > 0,
}

# Filters with parts of both kinds; the parts that can be pushed are.
MIXED = {
    "and": (f("i") > 0) & (pc.starts_with(f("s"), "a")),
    "or": (f("i") > 0) | (pc.starts_with(f("s"), "a")),
    "inside": ~((f("i") > 0) & (f("st", "x") > 0)) & (f("j") < 5),
}


@pytest.fixture(scope="module")
def table(place):
    # Several appends make several objects, so that statistics matter.
    table = place.table(ROWS.slice(0, 3))
    table.append(ROWS.slice(3, 3))
    table.append(ROWS.slice(6, 3))
    return table


def agrees(table, rows, expression, **options):
    """Asserts that a scan returns the rows that pyarrow keeps; returns their number."""
    kept = table.scan(filter=expression, **options).to_arrow()
    wanted = rows.filter(expression)
    # Compare as text, in which NaN equals itself and the two zeros differ.
    found, expected = sorted(map(repr, kept.to_pylist())), sorted(map(repr, wanted.to_pylist()))
    assert found == expected, expression
    return wanted.num_rows


def parts(table, expression):
    return condition(expression, table.schema, table._native, None)


@pytest.mark.parametrize("name", PUSHED)
@pytest.mark.parametrize("pushdown", ["auto", "always"])
def test_pushed_filters_keep_the_rows_that_pyarrow_keeps(table, name, pushdown):
    assert parts(table, PUSHED[name]).left is None
    agrees(table, ROWS, PUSHED[name], pushdown=pushdown)


@pytest.mark.parametrize("name", LEFT)
def test_pyarrow_applies_untranslated_filters(table, name):
    assert parts(table, LEFT[name]).left is not None
    agrees(table, ROWS, LEFT[name])


@pytest.mark.parametrize("name", LEFT)
def test_a_scan_without_columns_reads_those_of_its_filter(table, name):
    assert table.scan([], LEFT[name]).to_arrow().num_rows == ROWS.filter(LEFT[name]).num_rows


@pytest.mark.parametrize("name", MIXED)
def test_parts_are_pushed(table, name):
    found = parts(table, MIXED[name])
    assert found.left is not None
    agrees(table, ROWS, MIXED[name])


def test_repr_shows_the_pushed_part(table):
    found = parts(table, MIXED["and"])
    assert repr(found.pushed) == "i > Int64(0) …" and found.columns == ["i", "s"]
    assert repr(parts(table, f("f") > 1.5).pushed) == "f > Float64(1.5) AND f <= Float64(inf)"


def test_a_filter_may_use_unselected_columns(table):
    assert table.scan(["i"], f("s") == "b").to_pylist() == [{"i": -3}]
    assert table.scan(["i"], pc.starts_with(f("s"), "b")).to_pylist() == [{"i": -3}]
    assert table.scan(["i"], pc.utf8_length(f("s")) == 2).to_pylist() == [{"i": 2**62}]
    assert table.scan([], pc.utf8_length(f("s")) == 2).to_arrow().num_columns == 0


def test_sql_filters(table):
    assert table.scan(["i"], "s = 'b' AND i < 0").to_pylist() == [{"i": -3}]
    assert table.scan(["i"], "s LIKE 'a_'").to_pylist() == [{"i": 2**62}]


def test_bytes_other_than_substrait_are_refused(table):
    from benthic import _native
    from benthic.filters import schema_bytes

    with pytest.raises(benthic.InvalidArgumentError, match="Substrait"):
        _native.read_filter(b"\xff\xff", schema_bytes(table.schema))
    with pytest.raises(benthic.InvalidArgumentError, match="one expression"):
        _native.read_filter(b"", schema_bytes(table.schema))


def test_a_deep_filter_is_correct(table):
    for depth in (9, 10, 11, 300):
        expression = f("i") == 3
        for number in range(depth):
            expression = expression | (f("i") == number % 3)
        assert (parts(table, expression).left is None) == (depth < 10)
        agrees(table, ROWS, expression)


@pytest.mark.parametrize("text", [")" * 20, '"' + ")" * 20, '\\")'])
def test_parentheses_in_values_do_not_hide_the_depth(table, text):
    expression = f("s").isin([text, "a"])
    for _ in range(11):
        expression = (f("s") == text) | expression
    assert parts(table, expression).pushed is None
    agrees(table, ROWS, expression)


def random_rows(rng, count):
    def column(values, data_type):
        return pa.array([rng.choice(values) for _ in range(count)], data_type)

    return pa.table(
        {
            "i": column([*range(-3, 4), None, 2**62], pa.int64()),
            "f": column([*FLOATS, NEGATIVE_NAN, 1e300, 5e-324], pa.float64()),
            "g": column([*FLOATS, NEGATIVE_NAN], pa.float32()),
            "s": column(["", "a", "b", "ab", "€", None], pa.string()),
            "d": column([None, *(decimal.Decimal(number) / 4 for number in range(-4, 5))], pa.decimal128(8, 2)),
            "t": column([None, *range(-3, 4)], pa.timestamp("us", "UTC")),
            "b": column([True, False, None], pa.bool_()),
        }
    )


def random_filter(rng, depth):
    if depth and rng.random() < 0.6:
        one = random_filter(rng, depth - 1)
        kind = rng.randrange(3)
        if kind == 0:
            return ~one
        other = random_filter(rng, depth - 1)
        return one & other if kind == 1 else one | other
    name = rng.choice(["i", "f", "f", "g", "g", "s", "d", "t", "b"])
    column = f(name)
    shape = rng.randrange(8)
    if shape == 0:
        return column.is_null()
    if shape == 1 and name in "fg":
        return column.is_nan()
    values = {
        "i": [-3, 0, 2, 2**62],
        "f": [0.0, -0.0, 1.5, math.inf, -math.inf, math.nan],
        "g": [pa.scalar(value, pa.float32()) for value in (0.0, -0.0, 1.5, math.inf, math.nan)],
        "s": ["", "a", "ab", "€"],
        "d": [decimal.Decimal("0.25"), decimal.Decimal("-1.00"), decimal.Decimal("0.5")],
        "t": [pa.scalar(number, pa.timestamp("us", "UTC")) for number in (-1, 0, 2)],
        "b": [True, False],
    }[name]
    if shape == 2 and name in "is":
        among = column.isin(rng.sample(values, 2))
        return rng.choice([among, pc.if_else(column.is_valid(), among, NULL)])
    if shape == 3 and name == "s":
        return pc.starts_with(column, rng.choice(["a", "€"]))
    value = rng.choice(values)
    operators = [column == value, column != value]
    if name != "b":
        operators += [column < value, column <= value, column > value, column >= value]
    return rng.choice(operators)


def test_random_filters_on_random_rows(in_memory):
    rng = random.Random(seeds.one())
    pushed = kept = 0
    for _ in range(4):
        batches = [random_rows(rng, rng.randrange(1, 40)) for _ in range(3)]
        rows = pa.concat_tables(batches)
        table = in_memory.table(batches[0])
        for batch in batches[1:]:
            table.append(batch)
        for _ in range(100):
            expression = random_filter(rng, 3)
            pushdown = rng.choice(["always", "never"])
            kept += agrees(table, rows, expression, pushdown=pushdown)
            pushed += parts(table, expression).left is None
    assert pushed > 200 and kept > 1000, (pushed, kept)
