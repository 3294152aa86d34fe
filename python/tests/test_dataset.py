"""A table as a pyarrow dataset: readers pass columns and conditions to the scan."""

import datetime
import decimal
import pickle

import benthic
import duckdb
import numpy
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
import pytest

COUNT = 120_000


@pytest.fixture(scope="module")
def table(durable):
    # Bytes that do not compress, so that the traffic shows which rows were read.
    noise = numpy.random.default_rng(7).bytes(COUNT * 24)
    rows = pa.table(
        {
            "id": range(COUNT),
            "noise": pa.array([noise[at : at + 24] for at in range(0, len(noise), 24)], pa.binary()),
            "city": [f"city-{number // 10_000:02}" for number in range(COUNT)],
            "seen": pa.array(range(COUNT), pa.timestamp("s")).cast(pa.timestamp("us")),
            "price": pa.array([decimal.Decimal(number) / 100 for number in range(COUNT)], pa.decimal128(12, 2)),
            "half": [None if number % 2 else number / 2 for number in range(COUNT)],
        }
    )
    return durable.table(rows, sort_by="id", object_size="1MiB")


@pytest.fixture(scope="module")
def dataset(table):
    return table.dataset()


@pytest.fixture(scope="module")
def everything(durable, table):
    """The bytes received when the whole table is read."""
    before = durable.store.moved()
    table.scan(pushdown="never").to_arrow()
    return (durable.store.moved() - before).received_bytes


def test_the_table_has_several_objects(table):
    assert table.snapshot().objects >= 3


CONDITIONS = {
    "id > 119000": 999,
    "id >= 3 AND id < 6": 3,
    "id = 7 OR id = 119999": 2,
    "id IN (1, 2, 3)": 3,
    "NOT (id > 2)": 3,
    "city = 'city-11'": 10_000,
    "city = 'city-11' AND half IS NULL": 5_000,
    "half IS NOT NULL AND id < 10": 5,
    "seen >= TIMESTAMP '1970-01-02 09:00:00'": COUNT - 33 * 3600,
    "price < 0.03": 3,
    "half > 59998": 1,
}


@pytest.mark.parametrize("where", CONDITIONS)
def test_duckdb_pushes_columns_and_conditions(durable, dataset, everything, where):
    before = durable.store.moved()
    found = duckdb.sql(f"SELECT count(id) FROM dataset WHERE {where}").fetchall()[0][0]
    moved = durable.store.moved() - before
    assert found == CONDITIONS[where]
    # The query does not read the noise, which is most of the table.
    assert moved.received_bytes < everything / 3, (where, moved, everything)


def test_a_condition_skips_objects(durable, dataset, everything):
    before = durable.store.moved()
    rows = duckdb.sql("SELECT * FROM dataset WHERE id > 119990").fetchall()
    moved = durable.store.moved() - before
    assert len(rows) == 9
    assert moved.received_bytes < everything / 2, (moved, everything)


def test_a_filter_runs_beside_the_objects(durable, table):
    value = table.scan(["noise"], "id = 70000").to_pylist()[0]["noise"]

    def received(pushdown):
        before = durable.store.moved()
        # Random values: statistics cannot exclude any object.
        rows = table.dataset(pushdown=pushdown).to_table(columns=["id"], filter=pc.field("noise") == value)
        assert rows.to_pylist() == [{"id": 70_000}]
        return (durable.store.moved() - before).received_bytes

    # A busy object sends its bytes instead of running the filter, so try several times.
    there = min(received("always") for _ in range(20))
    assert there < received("never") / 2


@pytest.mark.parametrize("where", ["id IN (119991, 119995, 119999)", "city IN ('city-11', 'nowhere') AND half IS NULL"])
def test_duckdb_pushes_in(durable, table, dataset, everything, where):
    rows = table.scan().to_arrow()
    for query in (f"SELECT count(*) FROM {{}} WHERE {where}", f"SELECT count(*) FROM {{}} WHERE NOT ({where})"):
        assert duckdb.sql(query.format("dataset")).fetchall() == duckdb.sql(query.format("rows")).fetchall()
    before = durable.store.moved()
    duckdb.sql(f"SELECT max(noise) FROM dataset WHERE {where}").fetchall()
    moved = durable.store.moved() - before
    # Most objects hold none of the values.
    assert moved.received_bytes < everything / 2, (moved, everything)


def test_duckdb_finds_the_same_in_a_dataset_and_in_rows(table, dataset):
    rows = table.scan().to_arrow()
    for query in (
        "SELECT city, count(*), sum(price), min(seen) FROM {} WHERE half IS NOT NULL GROUP BY city ORDER BY city",
        "SELECT count(*) FROM {}",
        "SELECT id FROM {} WHERE city LIKE '%-03' AND id % 1000 = 0 ORDER BY id",
        "SELECT a.id FROM {0} a JOIN {0} b ON a.id = b.id + 1 WHERE b.id < 5 ORDER BY a.id",
        "SELECT max(noise) FROM {} WHERE half > 100 AND (id < 1000 OR city = 'city-05')",
    ):
        assert duckdb.sql(query.format("dataset")).fetchall() == duckdb.sql(query.format("rows")).fetchall()


def test_polars_pushes_columns_and_conditions(durable, dataset, everything):
    before = durable.store.moved()
    lazy = polars.scan_pyarrow_dataset(dataset)
    found = lazy.filter(polars.col("id") > 119_990).select("city", "id").collect()
    assert found["id"].to_list() == list(range(119_991, 120_000))
    assert (durable.store.moved() - before).received_bytes < everything / 3
    assert lazy.filter(polars.col("city").is_in(["city-01"])).select(polars.len()).collect().item() == 10_000
    early = polars.col("seen") < datetime.datetime(1970, 1, 1, 0, 1)
    assert lazy.filter(early).select("id").collect().height == 60


def test_pyarrow_pushes_columns_and_conditions(durable, dataset, everything):
    before = durable.store.moved()
    found = dataset.to_table(columns=["id"], filter=pc.field("price") > decimal.Decimal("1199.90"))
    assert found["id"].to_pylist() == list(range(119_991, 120_000))
    assert (durable.store.moved() - before).received_bytes < everything / 3


def test_a_dataset_is_a_pyarrow_dataset(in_memory):
    table = in_memory.table({"x": list(range(100)), "y": [str(number) for number in range(100)]})
    dataset = table.dataset()
    assert isinstance(dataset, pyarrow.dataset.Dataset)
    assert dataset.schema == table.schema == pa.schema(dataset)
    assert table.name in repr(dataset)
    assert dataset.count_rows() == 100
    assert dataset.count_rows(pc.field("x") < 10) == 10
    assert dataset.head(3).num_rows == 3
    assert dataset.head(3, columns={"z": pc.field("x") + 1}).schema.names == ["z"]
    assert dataset.take([0, 5], columns=["x"]).num_rows == 2
    small = dataset.filter(pc.field("x") < 10).filter(pc.field("x") > 5)
    assert small.to_table(columns=["x"])["x"].to_pylist() == [6, 7, 8, 9]
    assert small.to_table(filter=pc.field("y") == "7").to_pylist() == [{"x": 7, "y": "7"}]
    assert small.count_rows() == 4
    assert sum(batch.num_rows for batch in dataset.to_batches(batch_size=7)) == 100
    assert max(batch.num_rows for batch in dataset.to_batches(batch_size=7)) == 7
    assert dataset.to_table(columns={"z": pc.field("x") * 2}, filter=pc.field("x") == 3).to_pylist() == [{"z": 6}]
    assert pa.table(dataset).num_rows == pa.table(dataset.scanner()).num_rows == 100
    scanner = dataset.scanner(columns=["y"])
    assert scanner.projected_schema.names == ["y"] and scanner.dataset_schema == table.schema
    assert scanner.count_rows() == scanner.to_table().num_rows == scanner.take([1]).num_rows * 100
    assert dataset.sort_by([("x", "descending")]).head(1).to_pylist() == [{"x": 99, "y": "99"}]
    joined = dataset.join(pyarrow.dataset.dataset(pa.table({"x": [1], "z": [2]})), "x", join_type="inner")
    assert joined.to_table().to_pylist() == [{"x": 1, "y": "1", "z": 2}]
    times = pa.table({"x": [1], "z": [2]})
    assert dataset.join_asof(times, "x", [], -1).to_table().num_rows == 100
    assert str(dataset.partition_expression) == "true"
    for refused in (
        lambda: dataset.get_fragments(),
        lambda: dataset.replace_schema(pa.schema([])),
        lambda: pickle.dumps(dataset),
        lambda: scanner.scan_batches(),
    ):
        with pytest.raises(benthic.UnsupportedError):
            refused()
    with pytest.raises(benthic.InvalidArgumentError):
        dataset.to_table(batch_size=0)


def test_a_dataset_defines_every_public_method():
    ours = set(vars(benthic.TableDataset))
    theirs = {name for name in vars(pyarrow.dataset.Dataset) if not name.startswith("_")}
    assert theirs <= ours


def test_a_dataset_stays_at_its_snapshot(in_memory):
    table = in_memory.table({"x": [1]})
    dataset = table.dataset()
    table.append({"x": [2]})
    assert dataset.to_table().num_rows == dataset.count_rows() == 1
    assert table.dataset().count_rows() == 2
    assert table.dataset(snapshot=2).count_rows() == 1
