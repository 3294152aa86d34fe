"""Ray: a real local cluster with several worker processes."""

import contextlib
import datetime
import io
import os
import shutil
import tempfile
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import benthic
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from benthic.engines.parts import scan_of
from engine_tables import FORECAST, MISSING, PRICING, PRIORITIES, die_once, moved, process

os.environ |= {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}

import ray
from benthic.engines.ray import BenthicDatasource
from ray.data.expressions import col, lit


@pytest.fixture(scope="module", autouse=True)
def cluster():
    # Ray's sockets need a short path.
    directory = tempfile.mkdtemp(prefix="ray-")
    # Workers import from the working directory, and `python/` has the package without its native half.
    before = os.getcwd()
    os.chdir(directory)
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=100 * 1024**2,
        _temp_dir=directory,
        log_to_driver=False,
        runtime_env={"env_vars": {"PYTHONPATH": str(Path(__file__).parents[1])}},
    )
    os.chdir(before)
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.default_hash_shuffle_parallelism = 2
    yield
    ray.shutdown()
    shutil.rmtree(directory, ignore_errors=True)


YEAR = "l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01'"


def rows_of(dataset):
    return sorted(tuple(row.values()) for row in dataset.take_all())


def test_aggregates_equal_sql(lake):
    lines = lake.table("lineitem").to_ray(part_size=0)
    shipped = lines.filter(expr=col("l_shipdate") <= lit(datetime.date(1998, 9, 2)))

    def discounted(rows):
        price, discount = rows["l_extendedprice"], rows["l_discount"]
        return rows.append_column("discounted", pc.multiply(price, pc.subtract(pa.scalar(1), discount)))

    shipped = shipped.map_batches(discounted, batch_format="pyarrow", zero_copy_batch=True)
    flags = ["l_returnflag", "l_linestatus"]
    sums = [ray.data.aggregate.Sum(name) for name in ("l_quantity", "l_extendedprice", "discounted")]
    found = rows_of(shipped.groupby(flags).aggregate(*sums, ray.data.aggregate.Count()))
    assert found == [tuple(row.values()) for row in lake.sql(PRICING)]


def explained(dataset):
    """The optimized plan."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        dataset.explain()
    return printed.getvalue().split("Logical Plan (Optimized)")[1].split("Physical Plan")[0]


def arrow(dataset):
    return pa.concat_tables(ray.get(dataset.to_arrow_refs()))


def test_columns_and_conditions_run_in_the_scans(lake):
    table = lake.table("lineitem")
    everything = table.to_ray(part_size=0)
    dates = (col("l_shipdate") >= lit(datetime.date(1994, 1, 1))) & (col("l_shipdate") < lit(datetime.date(1995, 1, 1)))
    discounts = (col("l_discount") >= lit(Decimal("0.05"))) & (col("l_discount") <= lit(Decimal("0.07")))
    chosen = everything.filter(expr=dates & discounts & (col("l_quantity") < lit(Decimal(24))))
    chosen = chosen.select_columns(["l_extendedprice", "l_discount"])
    plan = explained(chosen)
    assert "Read[ReadBenthic]" in plan and "Filter" not in plan and "Project" not in plan
    rows = arrow(chosen)
    assert rows.schema.names == ["l_extendedprice", "l_discount"]
    revenue = pc.sum(pc.multiply(rows["l_extendedprice"], rows["l_discount"])).as_py()
    assert [{"revenue": revenue}] == lake.sql(FORECAST)
    both = table.to_ray(filter="l_quantity < 24").filter(expr=dates)
    assert "Filter" not in explained(both)
    assert both.count() == len(table.scan([], f"l_quantity < 24 AND {YEAR}").to_arrow())
    # The source lists only the objects that may contain a match.
    pushed = BenthicDatasource(scan_of(table, None, None, None, "auto"), 0).apply_predicate(dates)
    assert 0 < len(pushed.get_read_tasks(2)) < len(table.objects())


def test_joins_equal_sql(lake):
    orders = lake.table("orders").to_ray(["o_orderkey", "o_orderpriority"], "o_orderdate >= DATE '1995-01-01'")
    lines = lake.table("lineitem").to_ray(["l_orderkey", "l_extendedprice"], part_size=0)
    joined = orders.join(lines, "inner", 2, on=("o_orderkey",), right_on=("l_orderkey",))
    found = joined.groupby("o_orderpriority").aggregate(ray.data.aggregate.Count(), ray.data.aggregate.Sum("l_extendedprice"))
    assert rows_of(found) == [tuple(row.values()) for row in lake.sql(PRIORITIES)]


def test_rows_pass_only_through_the_workers(lake):
    table = lake.table("lineitem")
    lines = table.to_ray(part_size=0)
    before = lake.store.moved().received_bytes + moved()
    pids = {row["pid"] for row in lines.map_batches(process, batch_format="pyarrow").take_all()}
    assert os.getpid() not in pids and 1 <= len(pids) <= 4
    assert lake.store.moved().received_bytes + moved() - before < table.snapshot().data_bytes / 20


def test_counts_limits_and_no_rows(lake):
    lines = lake.table("lineitem").to_ray(part_size=0)
    assert lines.count() == len(lake.table("lineitem"))
    [counted] = lake.sql("SELECT count(*) AS n FROM \"{pool}\".lineitem WHERE l_quantity < 10")
    assert lines.filter(expr=col("l_quantity") < lit(Decimal(10))).count() == counted["n"]
    assert len(lines.limit(7).take_all()) == len(lines.with_column("next", col("l_orderkey") + 1).limit(7).take_all()) == 7
    assert [task.per_task_row_limit for task in lines._logical_plan.dag.datasource.get_read_tasks(2, 7)] == [7] * 4
    nothing = lake.table("lineitem").to_ray(filter="l_orderkey < 0")
    assert nothing.count() == 0 and nothing.schema().names == lake.table("lineitem").schema.names


def test_all_types_are_kept(lake):
    table = lake.table("types")
    found = arrow(table.to_ray())
    assert found.schema.equals(table.schema)
    assert repr(found.to_pylist()) == repr(table.scan().to_pylist())


def test_a_task_that_dies_runs_again(lake, tmp_path):
    orders = lake.table("orders").to_ray(["o_orderkey"], part_size=0)
    kept = orders.map_batches(die_once, fn_args=(str(tmp_path / "died"),), batch_format="pyarrow")
    assert sum(arrow(kept)["o_orderkey"].to_pylist()) == sum(range(8_000))
    assert (tmp_path / "died").exists()


def test_missing_objects_and_snapshots_are_named(lake):
    scan = scan_of(lake.table("types"), None, None, None, "auto")
    source = BenthicDatasource(scan, 0)
    source._parts = [MISSING]
    with pytest.raises(benthic.NotFoundError, match="no such data object") as caught:
        ray.data.read_datasource(source).take_all()
    assert caught.value.cause.context == {"table": scan.table, "snapshot": "2", "object": MISSING.objects[0]}
    table = lake.store.create_table(f"{lake.pool}/vacuumed-ray", {"x": [1]})
    dataset = table.to_ray()
    table.append({"x": [2]})
    assert dataset.take_all() == [{"x": 1}]
    table.vacuum(keep=timedelta(0))
    with pytest.raises(benthic.NotFoundError, match="may have been vacuumed"):
        dataset.take_all()
