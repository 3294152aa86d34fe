"""PyIceberg, DuckDB and Polars read the rows that `benthic sql` reads."""

import datetime
import subprocess

import duckdb
import polars
import pyarrow
import pyarrow.parquet
import pytest
from catalog import load, running
from conftest import TPCH, events, maps, trips
from pyiceberg.expressions import EqualTo, GreaterThanOrEqual, IsNull


def sorted_rows(table):
    """Rows in an order that all programs agree about, as values that compare."""
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=repr)


def in_order(table, schema):
    """The rows in one order, with strings in one representation."""
    plain = [field.with_type(pyarrow.string()) if field.type == pyarrow.string_view() else field for field in schema]
    order = [(field.name, "ascending") for field in plain]
    return table.cast(pyarrow.schema(plain)).combine_chunks().sort_by(order)


def by_polars(server, lake, table):
    loaded = lake.load_table(table)
    options = {
        "aws_endpoint_url": loaded.io.properties["s3.endpoint"],
        "aws_access_key_id": loaded.io.properties["s3.access-key-id"],
        "aws_secret_access_key": loaded.io.properties["s3.secret-access-key"],
        "aws_region": "us-east-1",
    }
    return polars.scan_iceberg(loaded, storage_options=options).collect().to_arrow()


def by_pyiceberg(server, lake, table):
    return lake.load_table(table).scan().to_arrow()


def by_duckdb(server, lake, table):
    pool, name = table.split(".")
    return server.duckdb().execute(f'SELECT * FROM lakes.{pool}."{name}"').to_arrow_table()


READERS = [by_pyiceberg, by_duckdb, by_polars]


def as_read(read, table):
    """PyIceberg 0.12 turns the NULL lists of a file into empty ones."""
    if read is not by_pyiceberg:
        return table
    index = table.column_names.index("muons")
    lists = [muons or [] for muons in table.column(index).to_pylist()]
    return table.set_column(index, "muons", pyarrow.array(lists, table.schema.field(index).type))


@pytest.mark.parametrize("table", TPCH)
@pytest.mark.parametrize("read", READERS)
def test_all_of_tpch_is_read(store, server, lake, table, read):
    got = read(server, lake, f"tpch.{table}")
    expected = store.query(f"SELECT * FROM tpch.{table}")
    assert in_order(got, expected.schema).equals(in_order(expected, expected.schema))


@pytest.mark.parametrize("number", range(1, 23))
def test_duckdb_answers_tpch_as_it_does_from_the_files(store, server, tpch_sql, number):
    lakes = server.duckdb()
    lakes.execute("USE lakes.tpch")
    files = tpch_sql["files"]
    assert lakes.execute(tpch_sql[number]).fetchall() == files.execute(tpch_sql[number]).fetchall()


@pytest.mark.parametrize("read", READERS)
def test_every_type_is_read(store, server, lake, read):
    got = read(server, lake, "lake.types")
    assert got.column_names == store.types.column_names
    for name in store.types.column_names:
        ours = store.types.column(name)
        assert repr(got.column(name).cast(ours.type).to_pylist()) == repr(ours.to_pylist()), name


@pytest.mark.parametrize("read", READERS)
def test_lists_and_structs_are_read(store, server, lake, read):
    assert sorted_rows(read(server, lake, "lake.events")) == sorted_rows(as_read(read, events()))
    name = f"events_{read.__name__}"
    store.create(f"lake/{name}", events())
    store.run("benthic-sql", "sql", f"DELETE FROM lake.{name} WHERE event = 2")
    for change in [["--rename", "vertex:origin"], ["--add", "tags list(utf8)"]]:
        store.run("benthic-sql", "table", "alter", f"lake/{name}", *change)
    store.run("benthic-sql", "sql", f"INSERT INTO lake.{name} (event, tags) VALUES (5, ['x', NULL])")
    got = read(server, lake, f"lake.{name}")
    assert got.column_names == ["event", "muons", "origin", "comment", "tags"]
    assert sorted_rows(got) == sorted_rows(as_read(read, store.query(f"SELECT * FROM lake.{name}")))


@pytest.mark.parametrize("read", [by_pyiceberg, by_duckdb])
def test_maps_are_read(server, lake, read):
    assert sorted_rows(read(server, lake, "lake.maps")) == sorted_rows(maps())


def test_fields_of_structs_are_read_alone(server, lake):
    rows = server.duckdb().execute("SELECT event, vertex.y, len(muons) FROM lakes.lake.events ORDER BY event").fetchall()
    assert rows == [(1, 1.5, 2), (2, None, 0), (3, -1.0, None), (4, 3.0, 1)]
    some = lake.load_table("lake.events").scan(selected_fields=("event", "vertex.y")).to_arrow()
    assert [row["vertex"] and row["vertex"]["y"] for row in some.to_pylist()] == [1.5, None, -1.0, 3.0]


@pytest.mark.parametrize("table", ["trips", "months", "years", "hashed", "Strömung #7"])
@pytest.mark.parametrize("read", READERS)
def test_partitioned_tables_are_read(store, server, lake, read, table):
    got = read(server, lake, f"lake.{table}")
    assert sorted_rows(got) == sorted_rows(store.query(f'SELECT * FROM lake."{table}"'))


def test_partitions_and_statistics_prune_files(lake):
    trips = lake.load_table("lake.trips")
    assert [field.name for field in trips.spec().fields] == ["partition_day"]
    all_files = list(trips.scan().plan_files())
    assert len(all_files) == 40
    day = datetime.date(2026, 2, 3)
    [one] = trips.scan(row_filter=EqualTo("day", day)).plan_files()
    assert trips.scan(row_filter=EqualTo("day", day)).to_arrow().num_rows == 10
    assert one.file.partition[0] == (day - datetime.date(1970, 1, 1)).days
    # The statistics of a column that is no partition.
    assert len(list(trips.scan(row_filter=GreaterThanOrEqual("id", 390)).plan_files())) == 1
    assert len(list(trips.scan(row_filter=IsNull("id")).plan_files())) == 0
    months = lake.load_table("lake.months")
    assert len(list(months.scan(row_filter=EqualTo("day", day)).plan_files())) == 1
    years = lake.load_table("lake.years")
    assert len(list(years.scan(row_filter=EqualTo("day", day)).plan_files())) == 1
    # Iceberg has no such transform, so the table looks unpartitioned.
    assert lake.load_table("lake.hashed").spec().is_unpartitioned()


def test_an_empty_table_has_no_rows(server, lake):
    assert by_pyiceberg(server, lake, "lake.empty").num_rows == 0
    assert by_duckdb(server, lake, "lake.empty").num_rows == 0


@pytest.mark.parametrize("read", READERS)
def test_changes_are_read(store, server, lake, read):
    name = f"changed_{read.__name__}"
    table = f"lake.{name}"
    store.create(f"lake/{name}", trips(8), "--partition-by", "range(day, day)")

    def check():
        expected = store.query(f"SELECT * FROM {table}")
        got = read(server, lake, table)
        assert got.column_names == expected.column_names
        assert sorted_rows(got.cast(expected.schema)) == sorted_rows(expected)
        return expected.num_rows

    assert check() == 80
    # Few deleted rows become a deletion vector, many rewrite an object.
    store.run("benthic-sql", "sql", f"DELETE FROM {table} WHERE id IN (1, 3, 4, 77)")
    assert check() == 76
    store.run("benthic-sql", "table", "alter", f"lake/{name}", "--rename", "fare:price")
    store.run("benthic-sql", "table", "alter", f"lake/{name}", "--add", "tip decimal(8, 2)")
    assert check() == 76
    store.run("benthic-sql", "sql", f"UPDATE {table} SET tip = 1.25 WHERE id < 25")
    store.run("benthic-sql", "sql", f"DELETE FROM {table} WHERE id BETWEEN 30 AND 38")
    assert check() == 67
    store.run("benthic-sql", "table", "compact", f"lake/{name}")
    assert check() == 67
    store.run("benthic-sql", "table", "alter", f"lake/{name}", "--drop", "price")
    store.run("benthic-sql", "table", "alter", f"lake/{name}", "--add", "price float64")
    assert check() == 67
    store.run("benthic-sql", "table", "rollback", f"lake/{name}", "1")
    assert check() == 0


@pytest.fixture(scope="module")
def version3(store):
    with running(store, "--format-version", "3") as server:
        yield server


@pytest.mark.parametrize("read", READERS)
def test_deletion_vectors_of_format_version_3_are_read(store, version3, read):
    lake, name = version3.pyiceberg(), f"vectors_{read.__name__}"
    store.create(f"lake/{name}", trips(40), "--partition-by", "range(day, month)")
    for condition in ["id % 7 = 1", "id BETWEEN 20 AND 30"]:
        store.run("benthic-sql", "sql", f"DELETE FROM lake.{name} WHERE {condition}")
        loaded = lake.load_table(f"lake.{name}")
        assert loaded.metadata.format_version == 3
        deletes = [file for task in loaded.scan().plan_files() for file in task.delete_files]
        assert {file.file_format.value for file in deletes} == {"PUFFIN"}
        expected = store.query(f"SELECT * FROM lake.{name}")
        got = read(version3, lake, f"lake.{name}")
        assert sorted_rows(got.cast(expected.schema)) == sorted_rows(expected)
    store.run("benthic-sql", "table", "compact", f"lake/{name}")
    assert read(version3, lake, f"lake.{name}").num_rows == expected.num_rows


def test_tables_of_format_version_3_are_not_changed(store):
    command = store.command("benthic-catalog", "catalog", "serve", "--format-version", "3", "--allow-writes", "main")
    refused = subprocess.run(command, env=store.environment, capture_output=True, text=True, timeout=30)
    assert refused.returncode == 6 and "format version 2 only" in refused.stderr + refused.stdout


def test_earlier_snapshots_and_tags_are_read(store, server, lake):
    store.create("lake/history", pyarrow.table({"id": pyarrow.array([1, 2], pyarrow.int32())}))
    store.run("benthic-sql", "table", "tag", "lake/history", "first")
    store.run("benthic-sql", "table", "alter", "lake/history", "--widen", "id int64")
    store.run("benthic-sql", "sql", "INSERT INTO lake.history SELECT 2147483648")
    store.run("benthic-sql", "sql", "DELETE FROM lake.history WHERE id = 1")
    table = lake.load_table("lake.history")
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [2, 2**31]
    first = table.snapshot_by_name("first").snapshot_id
    assert sorted(table.scan(snapshot_id=first).to_arrow()["id"].to_pylist()) == [1, 2]
    before = table.current_snapshot().parent_snapshot_id
    assert sorted(table.scan(snapshot_id=before).to_arrow()["id"].to_pylist()) == [1, 2, 2**31]
    rows = server.duckdb().execute(f"FROM lakes.lake.history AT (VERSION => {first}) ORDER BY id").fetchall()
    assert rows == [(1,), (2,)]


def test_metadata_files_are_read_without_the_catalog(store, server):
    user, secret = server.key
    client, prefix = server.s3_of("lake/trips")
    [latest] = [
        item["Key"]
        for item in client.list_objects_v2(Bucket="tables", Prefix=prefix + "metadata/v")["Contents"]
        if item["Key"].endswith("/v2.metadata.json")
    ]
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for name in ["httpfs", "avro", "iceberg"]:
        load(connection, name)
    address = server.url.removeprefix("http://")
    connection.execute(
        f"CREATE SECRET (TYPE s3, KEY_ID '{user}', SECRET '{secret}', ENDPOINT '{address}', URL_STYLE 'path', USE_SSL false)"
    )
    assert connection.execute(f"SELECT count(*) FROM iceberg_scan('s3://tables/{latest}')").fetchall() == [(400,)]


def test_the_server_reads_a_large_table_in_bounded_memory(store, server, lake):
    """The server computes files of bounded size; the rows are streamed."""
    by_pyiceberg(server, lake, "tpch.lineitem")
    status = (open(f"/proc/{server.process.pid}/status").read()).splitlines()
    peak = next(line for line in status if line.startswith("VmHWM"))
    assert int(peak.split()[1]) < 400_000, peak
