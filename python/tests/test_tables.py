"""Tables: creating, appending, scanning, changing and dropping them."""

import datetime
import decimal
import time
from datetime import timedelta

import benthic
import duckdb
import pandas
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
import pytest

TRIPS = pa.table(
    {
        "city": ["Rio", "Oslo", "Rio", None],
        "fare": [12.5, 40.0, 7.25, 3.0],
        "day": pa.array([datetime.date(2026, 1, 1 + day) for day in range(4)]),
    }
)

EVERYTHING = pa.table(
    {
        "bool": [True, False, None],
        "int8": pa.array([1, -1, None], pa.int8()),
        "int16": pa.array([1, -1, None], pa.int16()),
        "int32": pa.array([1, -1, None], pa.int32()),
        "int64": pa.array([1, -1, None], pa.int64()),
        "uint8": pa.array([1, 255, None], pa.uint8()),
        "uint64": pa.array([1, 2**64 - 1, None], pa.uint64()),
        "float32": pa.array([1.5, float("inf"), None], pa.float32()),
        "float64": pa.array([1.5, -0.0, None], pa.float64()),
        "text": ["a", "€ 𝄞", None],
        "bytes": [b"a", b"\x00\xff", None],
        "date": pa.array([0, 20_000, None], pa.date32()),
        "time": pa.array([0, 86_399_999_999, None], pa.time64("us")),
        "ms": pa.array([0, -1, None], pa.timestamp("ms")),
        "us": pa.array([0, -1, None], pa.timestamp("us")),
        "ns": pa.array([0, -1, None], pa.timestamp("ns")),
        "zone": pa.array([0, -1, None], pa.timestamp("us", "Europe/Oslo")),
        "decimal": pa.array([decimal.Decimal("1.50"), decimal.Decimal("-9.99"), None], pa.decimal128(12, 2)),
        "wide": pa.array([decimal.Decimal("1.50"), decimal.Decimal("-9.99"), None], pa.decimal256(60, 2)),
        "fixed": pa.array([b"ab", b"cd", None], pa.binary(2)),
        "list": [[1, None], [], None],
        "struct": [{"a": 1, "b": ["x"]}, {"a": None, "b": None}, None],
        "map": pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int64())),
    }
)


def same_rows(one, two):
    key = repr
    assert sorted(one.to_pylist(), key=key) == sorted(two.to_pylist(), key=key)


def test_a_table_is_created_from_data_and_read(place):
    table = place.table(TRIPS, partition_by="hash(city, 4)", sort_by="fare", object_size="1MiB")
    assert len(table) == 4 and table
    assert table.schema.names == ["city", "fare", "day"]
    assert (table.partition_by, table.sort_by, table.object_size) == ("hash(city, 4)", ["fare"], 1024 * 1024)
    same_rows(table.scan().to_arrow(), TRIPS)
    assert repr(table) == f"<benthic.Table {table.name}>"
    again = place.store.table(table.name)
    assert again.scan(["fare"], pc.field("city") == "Oslo").to_pylist() == [{"fare": 40.0}]


def test_every_type_is_written_and_read(place):
    table = place.table(EVERYTHING)
    back = table.scan().to_arrow()
    assert back.to_pylist() == EVERYTHING.to_pylist()
    for name in ("int8", "uint64", "float32", "text", "bytes", "zone", "decimal", "wide", "fixed"):
        assert back.schema.field(name).type == EVERYTHING.schema.field(name).type
    assert table.schema == back.schema
    assert not any("view" in str(field.type) for field in back.schema)


def test_a_table_is_created_from_a_schema(place):
    table = place.store.create_table(place.address(), schema=TRIPS.schema)
    assert len(table) == 0 and table
    assert table.scan().to_arrow().num_rows == 0
    table.append(TRIPS)
    assert len(table) == 4


@pytest.mark.parametrize(
    "data",
    [
        TRIPS,
        TRIPS.to_batches()[0],
        TRIPS.to_pandas(),
        polars.DataFrame(TRIPS),
        pyarrow.dataset.dataset(TRIPS),
        TRIPS.to_pydict(),
        TRIPS.to_pylist(),
    ],
    ids=lambda data: f"{type(data).__module__.split('.')[0]}.{type(data).__name__}",
)
def test_anything_with_rows_can_be_appended(in_memory, data):
    table = in_memory.table(TRIPS)
    snapshot = table.append(data)
    assert (snapshot.id, snapshot.operation, snapshot.rows) == (3, "append", 8)
    same_rows(table.scan().to_arrow(), pa.concat_tables([TRIPS, TRIPS]))


def test_readers_queries_and_tables_can_be_appended(place):
    table = place.table(TRIPS)
    table.append(TRIPS.to_reader())
    table.append(duckdb.sql("SELECT 'Lima' AS city, 1.5::DOUBLE AS fare, DATE '2026-02-01' AS day"))
    table.append(place.store.sql(f'SELECT * FROM "{place.pool_name}".{table.name.split("/")[1]} WHERE city = \'Lima\''))
    copy = place.table(table)
    assert len(table) == len(copy) == 10
    assert table.scan(["city"], "city = 'Lima'").to_pylist() == [{"city": "Lima"}] * 2


def test_dictionaries_views_and_slices_are_stored_plain(in_memory):
    text = pa.array([f"a longer text than fits a view {number % 7}" for number in range(200_000)])
    table = in_memory.table(
        {
            "dictionary": text.dictionary_encode(),
            "view": text.cast(pa.string_view()),
            "large": text.cast(pa.large_string()),
            "pandas": pandas.Series(text.to_pylist()),
        }
    )
    back = table.scan().to_arrow()
    for column in back.columns:
        assert column.type == pa.string() and column.combine_chunks().equals(text)
    in_memory.table(pa.table({"x": text}).slice(199_999))


def test_a_failed_load_leaves_nothing(place):
    def rows():
        yield pa.record_batch({"x": [1, 2]})
        raise RuntimeError("the source is gone")

    def reader():
        return pa.RecordBatchReader.from_batches(pa.schema([("x", pa.int64())]), rows())

    address = place.address()
    with pytest.raises(RuntimeError, match="the source is gone"):
        place.store.create_table(address, reader())
    with pytest.raises(benthic.NotFoundError):
        place.store.table(address)
    table = place.table({"x": [0]})
    with pytest.raises(RuntimeError, match="the source is gone"):
        table.append(reader())
    assert len(table.history()) == 2 and len(table) == 1
    place.store.drop_table(table.name)


def test_a_committed_load_is_reported(place, patched):
    table = place.table({"x": [0]})
    native = table._native

    def vacuumed(writer):
        facts = writer.finish()
        others = place.store.table(table.name)
        others.append({"x": [2]})
        # Vacuum removes snapshots older than now, and its clock counts milliseconds.
        time.sleep(0.002)
        others.vacuum(keep=timedelta(0))
        # Aborting keeps committed rows.
        with pytest.raises(benthic.OutcomeUnknownError):
            writer.abort()
        return facts

    def writer(*arguments):
        begun = native.writer(*arguments)
        return patched(begun, finish=lambda: vacuumed(begun))

    table._native = patched(native, writer=writer)
    loaded = table.append({"x": [1]})
    # The snapshot is reported, although vacuum has removed it.
    assert (loaded.id, loaded.operation, loaded.rows) == (3, "append", 2)
    assert [snapshot.id for snapshot in table.history()] == [4]
    assert sorted(table.scan().to_arrow()["x"].to_pylist()) == [0, 1, 2]


@pytest.mark.parametrize("columns", [None, ["x"], []])
@pytest.mark.parametrize("condition", [pc.field("x") > 0, pc.field("x") + 1 > 0])
def test_a_scan_sees_one_snapshot(in_memory, columns, condition, patched):
    table = in_memory.table({"x": [1]})
    native = table._native

    def then_appended(snapshot):
        found = native.schema(snapshot)
        in_memory.store.table(table.name).append({"x": [2], "y": [2]}, add_columns=True)
        return found

    table._native = patched(native, schema=then_appended)
    rows = table.scan(columns, condition).to_arrow()
    assert rows.num_rows == 1 and "y" not in rows.schema.names


def test_data_that_do_not_fit_are_refused(in_memory):
    table = in_memory.table({"fare": [1.5], "city": ["Rio"]})
    with pytest.raises(benthic.InvalidArgumentError, match='did you mean "city"'):
        table.append({"fare": [1.5], "citi": ["Rio"]})
    with pytest.raises(benthic.InvalidArgumentError, match="another type"):
        table.append({"fare": ["much"]})
    with pytest.raises(benthic.InvalidArgumentError, match="no Arrow rows"):
        table.append(3)
    with pytest.raises(benthic.InvalidArgumentError, match="cannot become columns"):
        table.append({"fare": [1.5, "much"]})
    with pytest.raises(benthic.UnsupportedError):
        in_memory.table({"x": pa.array([1, 2], pa.duration("s"))})
    assert len(table) == 1
    table.append({"fare": [2.5], "tip": [0.5]}, add_columns=True)
    assert table.schema.names == ["fare", "city", "tip"]


def test_invalid_definitions_are_refused(in_memory):
    for options in (
        {"partition_by": "hash(nothing, 4)"},
        {"partition_by": "by luck"},
        {"sort_by": ["nothing"]},
        {"object_size": 1},
        {"object_size": "much"},
    ):
        with pytest.raises(benthic.InvalidArgumentError):
            in_memory.table(TRIPS, **options)
    with pytest.raises(benthic.InvalidArgumentError, match="columns of its data"):
        in_memory.store.create_table(in_memory.address())
    with pytest.raises(benthic.InvalidArgumentError, match="POOL/TABLE"):
        in_memory.store.create_table("trips", TRIPS)
    table = in_memory.table(TRIPS)
    with pytest.raises(benthic.AlreadyExistsError):
        in_memory.store.create_table(table.name, TRIPS)


def test_snapshots_are_kept(place):
    table = place.table({"x": [1]})
    first = table.snapshot()
    table.append({"x": [2]})
    assert [(snapshot.operation, snapshot.rows) for snapshot in table.history()] == [
        ("create", 0),
        ("append", 1),
        ("append", 2),
    ]
    assert table.scan(snapshot=first.id).to_pylist() == [{"x": 1}]
    assert table.snapshot(first.id) == first
    assert first.time <= table.snapshot().time
    assert first.objects == 1 and first.data_bytes > 0
    with pytest.raises(benthic.NotFoundError):
        table.scan(snapshot=100)
    table.vacuum(keep_snapshots=1, keep=timedelta(0))
    with pytest.raises(benthic.NotFoundError):
        table.scan(snapshot=first.id)
    assert len(table) == 2
    with pytest.raises(benthic.InvalidArgumentError):
        table.vacuum(keep_snapshots=-1)


def test_snapshots_are_compared(place):
    table = place.table({"x": [1, 2], "y": ["a", "b"]})
    first = table.snapshot()
    table.append({"x": [2, 3], "y": ["b", "c"]})
    rows = table.diff(first.id)
    assert rows.schema.names == ["change", "x", "y"]
    assert rows.to_pylist() == [{"change": 1, "x": 2, "y": "b"}, {"change": 1, "x": 3, "y": "c"}]
    sql_name = f'"{place.pool_name}".{table.name.split("/")[1]}'
    place.store.sql(f"DELETE FROM {sql_name} WHERE x = 1").to_arrow()
    assert table.diff(first.id, 3).to_pylist() == [{"change": 1, "x": 2, "y": "b"}, {"change": 1, "x": 3, "y": "c"}]
    assert table.diff(3).to_pylist() == [{"change": -1, "x": 1, "y": "a"}]
    assert table.diff(4, 3).to_pylist() == [{"change": 1, "x": 1, "y": "a"}]
    for missing in (100, "no-such-tag"):
        with pytest.raises(benthic.NotFoundError):
            table.diff(missing)
    for wrong in [1.5, True]:
        with pytest.raises(TypeError):
            table.diff(wrong)
        with pytest.raises(TypeError):
            table.diff(1, wrong)
        with pytest.raises(TypeError):
            table.snapshot(wrong)
        with pytest.raises(TypeError):
            table.scan(snapshot=wrong).to_arrow()
        with pytest.raises(TypeError):
            table.objects(snapshot=wrong)


def test_a_table_is_compacted(place):
    table = place.table({"x": [1]})
    for number in range(2, 5):
        table.append({"x": [number]})
    assert table.snapshot().objects == 4
    assert table.compact() == 4
    assert (table.snapshot().operation, table.snapshot().objects, len(table)) == ("compact", 1, 4)
    assert table.compact() == 0
    assert table.compact(all=True, memory="32MiB") == 1
    assert table.diff(5).to_pylist() == []


def test_a_compaction_clusters_rows(place):
    numbers = list(range(200_000))
    mixed = [number * 7919 % 200_000 for number in numbers]
    table = place.table({"x": mixed, "y": [str(number) for number in mixed]}, object_size="1MiB")
    before = len(table.objects("x < 1000"))
    assert before == table.snapshot().objects > 1
    assert table.compact(cluster_by="x") == before
    assert len(table.objects("x < 1000")) == 1
    assert sorted(table.scan(["x"]).to_arrow().column("x").to_pylist()) == numbers
    for wrong in (["z"], ["x", "x"]):
        with pytest.raises(benthic.InvalidArgumentError, match=table.name):
            table.compact(cluster_by=wrong)
    before = table.snapshot().objects
    assert table.compact(z_order=["x", "y"]) == before
    assert len(table.objects("x < 1000")) < table.snapshot().objects
    assert sorted(table.scan(["x"]).to_arrow().column("x").to_pylist()) == numbers
    for wrong in (["x"], "x", ["x", "z"]):
        with pytest.raises(benthic.InvalidArgumentError, match=table.name):
            table.compact(z_order=wrong)
    with pytest.raises(benthic.InvalidArgumentError, match="at once"):
        table.compact(cluster_by="x", z_order=["x", "y"])
    with pytest.raises(benthic.InvalidArgumentError, match="size"):
        table.compact(memory="much")
    with pytest.raises(benthic.InvalidArgumentError, match="at least 1 byte"):
        table.compact(rate=0)
    start = time.monotonic()
    assert table.compact(all=True, rate=table.snapshot().data_bytes * 2) > 0
    assert time.monotonic() - start > 0.4


def test_tables_are_listed_and_dropped(place):
    table = place.table(TRIPS)
    assert table.name in place.store.tables(place.pool_name)
    assert table.name in place.store.tables()
    place.store.drop_table(table.name)
    assert table.name not in place.store.tables(place.pool_name)
    with pytest.raises(benthic.NotFoundError):
        place.store.drop_table(table.name)
    with pytest.raises(benthic.NotFoundError):
        table.scan()


def test_a_table_dropped_during_a_scan_fails_it(place):
    table = place.table({"x": list(range(400_000)), "y": [str(number) for number in range(400_000)]}, object_size="1MiB")
    assert table.snapshot().objects > 2
    batches = iter(table.scan())
    next(batches)
    place.store.drop_table(table.name)
    with pytest.raises(benthic.NotFoundError, match=table.name):
        list(batches)


def test_unknown_names_get_a_hint(place):
    table = place.table(TRIPS)
    for wrong in (
        lambda: table.scan(["citi"]),
        lambda: table.scan(filter=pc.field("citi") == "Rio"),
        lambda: table.scan(filter="citi = 'Rio'"),
        lambda: table.scan(["citi"], pc.utf8_length(pc.field("city")) > 2),
        lambda: table.dataset().to_table(columns=["citi"]),
    ):
        with pytest.raises(benthic.InvalidArgumentError, match="(?i)did you mean .*city"):
            wrong()


def test_invalid_scans_are_refused(in_memory):
    table = in_memory.table(TRIPS)
    for wrong in (
        lambda: table.scan("city"),
        lambda: table.scan(filter=3),
        lambda: table.scan(filter=pc.field("fare") + 1),
        lambda: table.scan(filter="fare +"),
        lambda: table.scan(filter="fare"),
        lambda: table.scan(limit=-1),
        lambda: table.scan(pushdown="sometimes"),
    ):
        with pytest.raises(benthic.InvalidArgumentError):
            wrong()


def test_sql(place):
    table = place.table(TRIPS)
    name = f'"{place.pool_name}".{table.name.split("/")[1]}'
    for pushdown in ("auto", "always", "never"):
        rows = place.store.sql(f"SELECT city, sum(fare) AS fares FROM {name} GROUP BY city ORDER BY city", pushdown=pushdown)
        assert rows.schema.names == ["city", "fares"]
        assert rows.to_pylist() == [
            {"city": "Oslo", "fares": 40.0},
            {"city": "Rio", "fares": 19.75},
            {"city": None, "fares": 3.0},
        ]
    [plan] = place.store.sql(f"EXPLAIN ANALYZE SELECT * FROM {name}").to_pylist()
    assert "output_rows=4" in plan["plan"]
    with pytest.raises(benthic.InvalidArgumentError):
        place.store.sql("SELEKT 1")
    with pytest.raises(benthic.UnsupportedError, match="only read"):
        place.store.sql(f"DROP TABLE {name}")
    with pytest.raises(benthic.NotFoundError):
        place.store.sql(f'SELECT * FROM "{place.pool_name}".nothing')
    with pytest.raises(benthic.UnsupportedError, match="reads no local files"):
        place.store.sql(f"SELECT * FROM '{__file__}'")
    with pytest.raises(benthic.InvalidArgumentError):
        place.store.sql(f"SELECT 1 / (fare - fare)::bigint FROM {name}").to_arrow()
