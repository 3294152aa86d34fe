"""Polars: columns, conditions and limits reach the scan, with the meaning that Polars gives them."""

import datetime
import decimal
import itertools
import math

import polars
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from benthic.engines.polars import to_condition
from engine_tables import PRICING, PRIORITIES, types
from polars import col
from polars.testing import assert_frame_equal
from seeds import IS_LONG

UTC = datetime.UTC
MOMENT = datetime.datetime(2026, 3, 1, 12, 30, 0, 123456)


@pytest.fixture(scope="module")
def table(in_memory):
    return in_memory.table(types())


def test_queries_equal_sql(lake):
    lines, orders = lake.table("lineitem").scan_polars(), lake.table("orders").scan_polars()
    pricing = (
        lines.filter(col("l_shipdate") <= datetime.date(1998, 9, 2))
        .group_by("l_returnflag", "l_linestatus")
        .agg(
            quantity=col("l_quantity").sum(),
            price=col("l_extendedprice").sum(),
            discounted=(col("l_extendedprice") * (1 - col("l_discount"))).sum(),
            lines=polars.len(),
        )
        .sort("l_returnflag", "l_linestatus")
    )
    expected = lake.sql(PRICING)
    found = pricing.collect().to_dicts()
    # Polars rounds products of decimals to the scale of their factors.
    for row, right in zip(found, expected, strict=True):
        assert abs(row.pop("discounted") - right.pop("discounted")) < right["lines"]
    assert found == expected
    joined = (
        orders.filter(col("o_orderdate") >= datetime.date(1995, 1, 1))
        .join(lines, left_on="o_orderkey", right_on="l_orderkey")
        .group_by("o_orderpriority")
        .agg(lines=polars.len(), price=col("l_extendedprice").sum())
        .sort("o_orderpriority")
    )
    assert joined.collect().to_dicts() == lake.sql(PRIORITIES)


CONDITIONS = [
    col("id") > 2,
    2 >= col("id"),
    col("id").is_in([1, 3]),
    ~col("id").is_in([1, 3]),
    col("small").is_in([1, None]),
    ~col("small").is_in([1, 127]),
    col("small").is_between(-2, 1),
    col("small").is_between(-2, 127, closed="left"),
    col("unsigned") == 2**32 - 1,
    col("real") > 1,
    col("real") >= 1.5,
    col("real") < 1,
    col("real") == 0,
    col("real") != 1.5,
    col("real").is_between(0.0, 2.0),
    ~((col("small") > 0) & col("flag")),
    col("single") > 0,
    col("single") <= 0,
    col("flag"),
    ~col("flag"),
    col("flag").is_null(),
    col("text") == "ä€😀",
    col("text") < "a",
    col("text").is_in(["a", "Z"]) | col("text").is_null(),
    col("raw") >= b"a",
    col("price") > decimal.Decimal("1.1"),
    col("price") == decimal.Decimal("-2.25"),
    col("day") < datetime.date(1992, 1, 1),
    col("seen") == MOMENT,
    col("seen_utc") >= MOMENT.replace(tzinfo=UTC),
    col("seen_oslo") < polars.lit(MOMENT.replace(tzinfo=UTC)).dt.convert_time_zone("Europe/Oslo"),
    (col("id") > 1) & ((col("text") == "z") | (col("price") > 1)) & col("real").is_not_null(),
    col("kind").is_in(["b"]),
]
LEFT = [
    col("id") % 2 == 0,
    (col("small") > 0) == col("flag"),
    col("real") == math.nan,
    col("real") < math.inf,
    col("real").is_in([1.5, 0.0]),
    col("text").str.starts_with("ä"),
    col("tags").list.len() > 1,
    col("place").struct.field("lat") > 1,
    col("small") == 1.5,
]


@pytest.mark.parametrize("at", range(len(CONDITIONS)))
def test_a_condition_is_pushed_and_means_the_same(table, at):
    condition = CONDITIONS[at]
    # The arguments that Polars passes are those after its optimization, so take one from there.
    pushed, is_exact = to_condition(_optimized(table, condition), table.schema)
    assert pushed is not None and is_exact
    expected = polars.DataFrame(types()).filter(condition)
    found = table.scan(filter=pushed).to_arrow()
    assert found["id"].to_pylist() == expected["id"].to_list()
    assert table.scan_polars().filter(condition).collect()["id"].to_list() == expected["id"].to_list()


@pytest.mark.parametrize("at", range(len(LEFT)))
def test_other_conditions_are_left_to_polars(table, at):
    condition = LEFT[at]
    assert to_condition(_optimized(table, condition), table.schema) == (None, False)
    expected = polars.DataFrame(types()).filter(condition)["id"].to_list()
    assert table.scan_polars().filter(condition).collect()["id"].to_list() == expected
    mixed, is_exact = to_condition(_optimized(table, condition & (col("id") > 1)), table.schema)
    assert str(mixed) == str(pc.field("id") > pa.scalar(1, pa.int64())) and not is_exact
    both = table.scan_polars().filter(condition & (col("id") > 1)).collect()["id"].to_list()
    assert both == [id for id in expected if id > 1]


def _optimized(table, condition):
    """The predicate that Polars passes to a source."""
    seen = []

    def source(columns, predicate, rows_max, batch_rows):
        seen.append(predicate)
        yield polars.DataFrame(table.schema.empty_table())

    schema = polars.DataFrame(table.schema.empty_table()).schema
    polars.io.plugins.register_io_source(source, schema=schema).filter(condition).collect()
    return seen[0]


def test_pairs_of_conditions_mean_the_same(table):
    frame = polars.DataFrame(types())
    pairs = list(itertools.combinations(CONDITIONS, 2))
    for first, second in pairs if IS_LONG else pairs[::10]:
        for condition in (first & second, first | second):
            assert table.scan_polars().filter(condition).collect()["id"].to_list() == frame.filter(condition)["id"].to_list()


def test_all_types_are_kept(table):
    assert_frame_equal(table.scan_polars().collect(), polars.DataFrame(table.scan().to_arrow()))


def test_only_the_needed_columns_and_objects_move(lake):
    table = lake.table("lineitem")
    table.scan().to_arrow()

    def received(query):
        before = lake.store.moved()
        found = query.collect()
        return found, (lake.store.moved() - before).received_bytes

    everything, all_bytes = received(table.scan_polars())
    assert everything.height == len(table) and all_bytes > table.snapshot().data_bytes * 0.9
    keys, key_bytes = received(table.scan_polars().select("l_orderkey"))
    assert keys.height == len(table) and key_bytes < all_bytes / 3
    last = everything["l_shipdate"].max()
    found, bytes = received(table.scan_polars().filter(col("l_shipdate") == last))
    assert_frame_equal(found, everything.filter(col("l_shipdate") == last))
    assert bytes < all_bytes / 3
    first, bytes = received(table.scan_polars().head(3))
    assert first.height == 3 and bytes < all_bytes / 2


def test_a_limit_comes_before_or_after_a_filter(table):
    lazy = table.scan_polars()
    assert lazy.head(3).filter(col("id") > 1).collect()["id"].to_list() == [2]
    assert lazy.filter(col("id") > 1).head(3).collect()["id"].to_list() == [2, 3, 4]
    assert lazy.select(polars.len()).collect().item() == 6
    assert lazy.filter(col("id") > 1).select(polars.len()).collect().item() == 4


@pytest.mark.parametrize("filter", ["id < 5", pc.field("id") < 5])
def test_a_given_filter_is_kept(table, filter):
    lazy = table.scan_polars(filter)
    assert lazy.collect()["id"].to_list() == [0, 1, 2, 3, 4]
    assert lazy.filter(col("id") > 2).collect()["id"].to_list() == [3, 4]
    assert lazy.filter(col("id") % 2 == 0).collect()["id"].to_list() == [0, 2, 4]


def test_a_frame_stays_at_its_snapshot(in_memory):
    table = in_memory.table({"x": [1]})
    lazy = table.scan_polars()
    table.append({"x": [2]})
    assert lazy.collect()["x"].to_list() == [1]
    assert table.scan_polars().collect().height == 2
    assert table.scan_polars(snapshot=2).collect().height == 1
    assert "BENTHIC" in lazy.explain()
