"""Spark: a real local cluster with two executors, which are processes of their own."""

import datetime
import os
import shutil
import sys
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest
from engine_tables import FORECAST, PRICING, PRIORITIES, moved
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    directory = tmp_path_factory.mktemp("spark")
    settings = {
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={directory}",
        "spark.executorEnv.PYTHONPATH": str(Path(__file__).parents[1]),
        "spark.local.dir": str(directory),
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local-cluster[2,1,1024]").appName("benthic")
    for key, value in settings.items():
        builder = builder.config(key, value)
    # Executors import from the working directory, and `python/` has the package without its native half.
    before = os.getcwd()
    os.chdir(directory)
    session = builder.getOrCreate()
    os.chdir(before)
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
    shutil.rmtree(Path(pyspark.__file__).parent / "work", ignore_errors=True)


@pytest.fixture
def load(spark, lake):
    def load(name, **options):
        options = {"store": lake.store.uri, "part_size": 0} | options
        return spark.read.format("benthic").options(**options).load(f"{lake.pool}/{name}")

    return load


def tuples(frame):
    return [tuple(row) for row in frame.collect()]


def plan(frame):
    return frame._jdf.queryExecution().executedPlan().toString()


def test_queries_equal_sql(lake, load):
    lines, orders = load("lineitem"), load("orders")
    assert lines.rdd.getNumPartitions() == lake.table("lineitem").snapshot().objects >= 3
    pricing = (
        lines.where(F.col("l_shipdate") <= datetime.date(1998, 9, 2))
        .groupBy("l_returnflag", "l_linestatus")
        .agg(
            F.sum("l_quantity"),
            F.sum("l_extendedprice"),
            F.sum(F.col("l_extendedprice") * (1 - F.col("l_discount"))),
            F.count("*"),
        )
        .orderBy("l_returnflag", "l_linestatus")
    )
    assert tuples(pricing) == [tuple(row.values()) for row in lake.sql(PRICING)]
    lines.createOrReplaceTempView("lineitem")
    orders.createOrReplaceTempView("orders")
    for query in (FORECAST, PRIORITIES):
        found = tuples(lines.sparkSession.sql(query.replace('"{pool}".', "")))
        assert found == [tuple(row.values()) for row in lake.sql(query)]


CONDITIONS = [
    "id > 2",
    "2 >= id",
    "id in (1, 3)",
    "id not in (1, 3)",
    "small in (1, null)",
    "small not in (1, 127)",
    "small <=> null",
    "small <=> 1",
    "small <> 1",
    "unsigned = 4294967295",
    "real > 1",
    "real >= 1.5d",
    "real < 1",
    "real = 0",
    "real <> 1.5d",
    "flag",
    "not flag",
    "text = 'ä€😀'",
    "text < 'a'",
    "price > 1.10",
    "price = -2.25",
    "day < date '1992-01-01'",
    "seen = timestamp_ntz '2026-03-01 12:30:00.123456'",
    "seen_utc >= timestamp '2026-03-01 12:30:00.123456'",
    "seen_oslo < timestamp '2026-03-01 12:30:00.123456'",
    "real is null and id > 0",
    "kind = 'b'",
]
LEFT = [
    "id % 2 = 0",
    "id < 2 or small > 0",
    "text like 'ä%'",
    "real = double('NaN')",
    "size(tags) > 1",
    "place.lat > 1",
    "real in (1.5d, 0d)",
]


def test_conditions_mean_the_same_in_the_scan(load):
    table, conditions = load("types"), CONDITIONS + LEFT
    # Spark evaluates columns by itself.
    answers = table.selectExpr("id", *(f"({condition}) as c{at}" for at, condition in enumerate(conditions))).collect()
    assert len(answers) == 6
    for at, condition in enumerate(conditions):
        there = table.where(condition)
        assert sorted(row.id for row in there.collect()) == sorted(row.id for row in answers if row[f"c{at}"]), condition
        assert (") Filter " in plan(there)) == (condition in LEFT), condition


def test_all_types_are_kept(lake, load):
    found = load("types").orderBy("id").toArrow()
    expected = lake.table("types").scan().to_arrow()
    for name in expected.schema.names:
        left, right = found[name].to_pylist(), expected[name].to_pylist()
        if name == "seen_oslo":
            right = [moment and moment.astimezone(datetime.UTC) for moment in right]
        assert repr(left).replace("zoneinfo.ZoneInfo(key='UTC')", "datetime.timezone.utc") == repr(right).replace(
            "zoneinfo.ZoneInfo(key='UTC')", "datetime.timezone.utc"
        ), name
    kept = {"id", "small", "real", "single", "flag", "text", "raw", "price", "day", "seen", "seen_utc", "tags", "place", "kind"}
    for name in kept:
        assert str(found[name].type).replace("large_", "") == str(expected[name].type).replace("large_", ""), name
    assert found["unsigned"].type == pa.int64()


def test_rarer_types(lake, load):
    rows = pa.table(
        {
            "huge": pa.array([2**64 - 1, None], pa.uint64()),
            "half": pa.array([0.5, None], pa.float16()),
            "fixed": pa.array([b"ab", None], pa.binary(2)),
            "pair": pa.array([[1, 2], None], pa.list_(pa.uint8(), 2)),
            "map": pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.uint16())),
            "wide": pa.array([Decimal("1.5"), None], pa.decimal256(30, 1)),
            "fine": pa.array([1_000, None], pa.timestamp("ns")),
        }
    )
    lake.store.create_table(f"{lake.pool}/rare", rows)
    [first, second] = load("rare").collect()
    assert tuple(second) == (None,) * 7
    assert first.asDict() == {
        "huge": 2**64 - 1,
        "half": 0.5,
        "fixed": bytearray(b"ab"),
        "pair": [1, 2],
        "map": {"a": 1},
        "wide": Decimal("1.5"),
        "fine": datetime.datetime(1970, 1, 1, 0, 0, 0, 1),
    }
    lake.store.create_table(f"{lake.pool}/finer", pa.table({"fine": pa.array([1], pa.timestamp("ns"))}))
    with pytest.raises(PySparkException, match="cannot hold a value"):
        load("finer").collect()


def test_columns_filters_and_snapshots_are_options(lake, load):
    table = lake.store.create_table(f"{lake.pool}/options", {"x": [1, 2], "y": ["a", "b"]})
    table.append({"x": [3], "y": ["c"]})
    assert load("options", columns="y, x", filter="x > 1 AND y <> 'c'").collect() == [("b", 2)]
    both = load("options", filter="x > 1").where("y <> 'c'")
    assert both.collect() == [(2, "b")] and ") Filter " not in plan(both)
    assert load("options", columns="x", snapshot=2).count() == 2
    spark = load("options").sparkSession
    read = spark.read.format("benthic").option("store", lake.store.uri).schema("y string")
    assert read.load(table.name).where("y > 'a'").orderBy("y").collect() == [("b",), ("c",)]
    assert load("options", filter="x < 0").count() == 0
    for options, message in (
        ({"colums": "x"}, "no such option: colums"),
        ({"columns": "z"}, "no such column"),
        ({"snapshot": 99}, "no such snapshot"),
        ({"snapshot": "new"}, "a snapshot is a number"),
        ({"part_size": "1 lot"}, "a size is a number"),
        ({"pushdown": "maybe"}, "pushdown is"),
        ({"store": "mem:"}, "other processes cannot read a store in memory"),
    ):
        with pytest.raises(PySparkException, match=message):
            load("options", **options).count()
    with pytest.raises(PySparkException, match="the table is missing"):
        spark.read.format("benthic").option("store", lake.store.uri).load()


def test_rows_pass_only_through_the_executors(lake, load, spark):
    table = lake.table("lineitem")
    before = lake.store.moved().received_bytes + moved()
    found = load("lineitem").rdd.mapPartitions(lambda rows: [(os.getpid(), os.getppid(), sum(1 for _ in rows))]).collect()
    assert sum(rows for _, _, rows in found) == len(table)
    # Each executor has its own daemon of Python workers.
    assert len({parent for _, parent, _ in found}) == 2 and os.getpid() not in {pid for pid, _, _ in found}
    assert lake.store.moved().received_bytes + moved() - before < table.snapshot().data_bytes / 20


def test_a_task_that_dies_runs_again(load, spark, tmp_path):
    marker = str(tmp_path / "died")

    def keep(batches):
        import engine_tables

        for batch in batches:
            yield engine_tables.die_once(batch, marker)

    orders = load("orders", columns="o_orderkey")
    assert orders.mapInArrow(keep, orders.schema).agg({"o_orderkey": "sum"}).collect() == [(sum(range(8_000)),)]
    assert Path(marker).exists()


def test_an_executor_that_dies_is_replaced(load, spark, tmp_path):
    marker = str(tmp_path / "died")

    def keep(batches):
        import os
        import signal

        for batch in batches:
            try:
                os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
                # The parent of a worker is a daemon, and its parent is the executor.
                stat = open(f"/proc/{os.getppid()}/stat").read()
                os.kill(int(stat.rpartition(")")[2].split()[1]), signal.SIGKILL)
            except FileExistsError:
                pass
            yield batch

    orders = load("orders", columns="o_orderkey")
    assert orders.mapInArrow(keep, orders.schema).agg({"o_orderkey": "sum"}).collect() == [(sum(range(8_000)),)]
    assert Path(marker).exists()


def test_lost_snapshots_are_named(lake, load):
    table = lake.store.create_table(f"{lake.pool}/vacuumed-spark", {"x": [1]})
    frame = load("vacuumed-spark")
    table.append({"x": [2]})
    assert frame.collect() == [(1,)]
    table.vacuum(keep=timedelta(0))
    with pytest.raises(PySparkException, match=f"may have been vacuumed .*table={table.name}"):
        load("vacuumed-spark", snapshot=2).collect()
    with pytest.raises(PySparkException, match="may have been vacuumed"):
        frame.select("x").where("x > 0").collect()
