"""Dask: a real cluster of several worker processes."""

import datetime
import math
from datetime import timedelta

import benthic
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from benthic.engines.dask import frame as dask_frame
from benthic.engines.parts import scan_of
from dask.distributed import Client, LocalCluster
from engine_tables import FORECAST, MISSING, PRICING, PRIORITIES, die_once, moved

FORECAST_FILTER = """l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01'
    AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24"""


@pytest.fixture(scope="module", autouse=True)
def client():
    with LocalCluster(n_workers=2, threads_per_worker=2, processes=True, dashboard_address=None) as cluster, Client(cluster) as client:
        yield client


def tuples(frame):
    return [tuple(row) for row in frame.itertuples(index=False)]


def received(client):
    return sum(client.run(moved).values())


def test_aggregates_equal_sql(lake):
    lines = lake.table("lineitem").to_dask(part_size=0)
    assert lines.npartitions == lake.table("lineitem").snapshot().objects >= 3
    shipped = lines[lines.l_shipdate <= datetime.date(1998, 9, 2)]
    shipped = shipped.assign(discounted=shipped.l_extendedprice * (1 - shipped.l_discount))
    sums = {"l_quantity": "sum", "l_extendedprice": "sum", "discounted": "sum", "l_orderkey": "count"}
    grouped = shipped.groupby(["l_returnflag", "l_linestatus"]).agg(sums).reset_index().compute()
    assert sorted(tuples(grouped)) == [tuple(row.values()) for row in lake.sql(PRICING)]


def test_a_filter_runs_in_the_scans(lake, client):
    lines = lake.table("lineitem").to_dask(["l_extendedprice", "l_discount"], FORECAST_FILTER, part_size=0)
    # Objects are sorted by date, so some cannot contain a match.
    assert lines.npartitions < lake.table("lineitem").snapshot().objects
    revenue = (lines.l_extendedprice * lines.l_discount).to_frame().sum().compute()
    assert [{"revenue": revenue.iloc[0]}] == lake.sql(FORECAST)


def test_the_filter_runs_beside_the_objects(lake, client):
    table = lake.table("lineitem")
    row = table.scan(["l_comment", "l_orderkey"], limit=1).to_pylist()[0]

    def received_by_workers(pushdown):
        before = received(client)
        # Random values: statistics cannot exclude any object.
        frame = table.to_dask(["l_orderkey"], pc.field("l_comment") == row["l_comment"], part_size=0, pushdown=pushdown)
        assert frame.npartitions == table.snapshot().objects
        assert frame.l_orderkey.compute().tolist() == [row["l_orderkey"]]
        return received(client) - before

    # A busy object sends its bytes instead of running the filter, so try several times.
    assert min(received_by_workers("always") for _ in range(10)) < received_by_workers("never") / 2


def test_joins_equal_sql(lake):
    orders = lake.table("orders").to_dask(part_size=0)
    lines = lake.table("lineitem").to_dask(part_size=0)
    joined = orders[orders.o_orderdate >= datetime.date(1995, 1, 1)].merge(lines, left_on="o_orderkey", right_on="l_orderkey")
    grouped = joined.groupby("o_orderpriority").agg({"l_orderkey": "count", "l_extendedprice": "sum"}).reset_index().compute()
    assert sorted(tuples(grouped)) == [tuple(row.values()) for row in lake.sql(PRIORITIES)]


def test_rows_pass_only_through_the_workers(lake, client):
    table = lake.table("lineitem")
    stored = table.snapshot().data_bytes
    lines = table.to_dask(part_size=0)
    lines.l_orderkey.sum().compute()  # the workers are connected, and have read the footers
    here, there = (lake.store.moved().received_bytes, moved()), received(client)
    assert lines.map_partitions(len).sum().compute() == len(table)
    everything = received(client) - there
    assert everything > stored * 0.9
    there += everything
    assert lines.l_orderkey.sum().compute() == sum(table.scan(["l_orderkey"]).to_arrow()["l_orderkey"].to_pylist())
    # Dask passes the columns that it needs.
    assert received(client) - there < stored / 3
    there = received(client)
    assert len(lines.partitions[0].compute()) == table.objects()[0].rows
    assert received(client) - there < table.objects()[0].data_bytes * 1.3
    assert (lake.store.moved().received_bytes - here[0]) + (moved() - here[1]) < stored / 3


def test_all_types_are_kept(lake):
    expected = lake.table("types").scan().to_arrow()
    frame = lake.table("types").to_dask()
    found = frame.compute()
    assert list(found.dtypes) == list(frame.dtypes)
    found = pa.Table.from_pandas(found, preserve_index=False)
    assert found.schema.names == expected.schema.names
    for name in expected.schema.names:
        assert found[name].type == expected[name].type
        assert same(found[name].to_pylist(), expected[name].to_pylist()), name


def same(found, expected):
    is_nan = lambda value: isinstance(value, float) and math.isnan(value)
    return all(a == b or (is_nan(a) and is_nan(b)) for a, b in zip(found, expected, strict=True))


def test_rows_are_limited(lake):
    assert len(lake.table("lineitem").to_dask(part_size=0).head(7)) == 7


def test_no_match_is_an_empty_frame(lake):
    found = lake.table("lineitem").to_dask(["l_orderkey"], "l_orderkey < 0").compute()
    assert len(found) == 0 and list(found.columns) == ["l_orderkey"]


def test_a_task_that_dies_runs_again(lake, client, tmp_path):
    workers = set(client.run(lambda: __import__("os").getpid()).values())
    orders = lake.table("orders").to_dask(["o_orderkey"], part_size=0)
    sums = orders.map_partitions(die_once, str(tmp_path / "died"), meta=orders._meta)
    assert sums.o_orderkey.sum().compute() == sum(range(8_000))
    assert (tmp_path / "died").exists()
    assert set(client.run(lambda: __import__("os").getpid()).values()) != workers


def test_a_missing_object_is_named(lake):
    scan = scan_of(lake.table("types"), None, None, None, "auto")
    with pytest.raises(benthic.NotFoundError, match="no such data object") as caught:
        dask_frame(scan, [*scan.parts(0), MISSING]).compute()
    assert caught.value.context["table"] == f"{lake.pool}/types"
    assert caught.value.context["object"] == MISSING.objects[0]


def test_a_vacuumed_snapshot_is_named(lake):
    table = lake.store.create_table(f"{lake.pool}/vacuumed-dask", {"x": [1]})
    frame = table.to_dask()
    table.append({"x": [2]})
    assert frame.x.sum().compute() == 1
    table.vacuum(keep=timedelta(0))
    with pytest.raises(benthic.NotFoundError, match="may have been vacuumed"):
        frame.x.max().compute()
