"""Queries over Arrow Flight SQL, with the ADBC driver."""

import threading
import time

import adbc_driver_manager
import pyarrow
import pytest
from conftest import ROWS
from server import running

SLOW = "SELECT count(*) FROM lake.many a, lake.many b WHERE a.id + b.id = -1"


@pytest.fixture
def cursor(server):
    with server.flight() as connection, connection.cursor() as cursor:
        yield cursor


def test_rows_arrive_as_arrow(cursor, store):
    cursor.execute("SELECT * FROM lake.trips ORDER BY id")
    assert cursor.fetch_arrow_table().to_pydict() == {
        "id": [1, 2, 3],
        "city": ["Oslo", "Rome", None],
        "fare": [10.5, 20.25, None],
    }
    cursor.execute('SELECT * FROM lake."Types"')
    assert cursor.fetch_arrow_table().to_pylist() == store.types.to_pylist()


def test_values_are_bound_to_prepared_statements(cursor):
    sql = "SELECT id FROM lake.trips WHERE city = $1 AND fare > $2"
    for city, found in [("Oslo", [(1,)]), ("Rome", [(2,)]), ("Bonn", [])]:
        cursor.execute(sql, (city, 1.5))
        assert cursor.fetchall() == found


def test_parameters_need_no_numbers(cursor):
    cursor.execute("SELECT id FROM lake.trips WHERE city <> '?' AND id >= ? AND id < ?", (2, 3))
    assert cursor.fetchall() == [(2,)]


def test_clients_find_tables_and_columns(server):
    with server.flight() as connection:
        (catalog,) = connection.adbc_get_objects(depth="all").read_all().to_pylist()
        assert catalog["catalog_name"] == "benthic"
        schemas = {schema["db_schema_name"]: schema["db_schema_tables"] for schema in catalog["catalog_db_schemas"]}
        assert sorted(schemas) == ["lake", "other"]
        trips = next(table for table in schemas["lake"] if table["table_name"] == "trips")
        assert [column["column_name"] for column in trips["table_columns"]] == ["id", "city", "fare"]
        assert connection.adbc_get_table_types() == ["TABLE"]
        assert connection.adbc_get_info()["vendor_name"] == "Benthic"
        assert connection.adbc_get_table_schema("trips", db_schema_filter="lake").names == ["id", "city", "fare"]


def test_explain_analyze_shows_how_the_query_ran(cursor):
    cursor.execute("EXPLAIN ANALYZE SELECT count(*) FROM lake.many")
    assert "output_rows" in cursor.fetchall()[0][1]


def test_errors_have_hints(cursor):
    for sql, message in [
        ("SELECT * FROM lake.nothing", "no such table; `benthic table ls lake` lists the tables"),
        ("DROP TABLE lake.trips", "queries only read; `benthic table drop"),
        ("SELECT * FROM '/etc/passwd'", "local files"),
        ("SELECT id FROM lake.trips WHERE id = $1", "needs values for its parameters"),
    ]:
        with pytest.raises(adbc_driver_manager.Error, match=message):
            cursor.execute(sql)
            cursor.fetchall()


def test_a_huge_result_needs_little_memory(store):
    with running(store) as server, server.flight() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        cursor.fetchall()
        before = server.memory_mib()
        cursor.execute("SELECT a.id, a.text, b.city FROM lake.many a, lake.trips b")
        assert sum(batch.num_rows for batch in cursor.fetch_record_batch()) == 3 * ROWS
        assert server.memory_mib() - before < 250


def test_a_client_can_cancel_a_query(store):
    with running(store) as server, server.flight() as connection, connection.cursor() as cursor:
        timer = threading.Timer(0.5, cursor.adbc_cancel)
        timer.start()
        started = time.monotonic()
        with pytest.raises(adbc_driver_manager.Error):
            cursor.execute(SLOW)
            cursor.fetchall()
        assert time.monotonic() - started < 10
        timer.join()
        cursor.execute("SELECT 1")
        assert cursor.fetchall() == [(1,)]


def test_the_time_limit_is_enforced(store):
    with running(store, "--query-seconds-max", "1") as server, server.flight() as connection, connection.cursor() as cursor:
        with pytest.raises(adbc_driver_manager.Error, match="time limit"):
            cursor.execute(SLOW)
            cursor.fetchall()
        # A client that does not read keeps its query no longer than the limit.
        cursor.execute("SELECT a.id, b.id FROM lake.many a, lake.many b")
        reader = cursor.fetch_record_batch()
        time.sleep(2)
        with pytest.raises((pyarrow.ArrowException, adbc_driver_manager.Error, OSError), match="time limit"):
            for _ in reader:
                pass
