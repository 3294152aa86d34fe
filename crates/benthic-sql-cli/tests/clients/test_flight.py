"""Queries over Arrow Flight SQL, with the ADBC driver."""

import concurrent.futures
import contextlib
import threading
import time

import adbc_driver_manager
import psycopg
import pyarrow
import pyarrow.flight
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


def test_prepared_statements_of_a_user_leave_room_for_those_of_others(store):
    sql = f"SELECT 1 /* {'a' * 1_000_000} */"
    with running(store) as server, contextlib.ExitStack() as stack:
        connection = stack.enter_context(server.flight())
        with pytest.raises(adbc_driver_manager.Error, match="too large prepared statements; close some"):
            for _ in range(80):
                stack.enter_context(connection.cursor()).adbc_prepare(sql)
        with server.flight(store.key("main/bob")) as other, other.cursor() as cursor:
            cursor.execute("SELECT id FROM lake.trips WHERE id = $1", (2,))
            assert cursor.fetchall() == [(2,)]


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


@contextlib.contextmanager
def polling(server, key=None):
    """A cursor whose `adbc_execute_partitions` polls its query."""
    with server.flight(key) as connection, connection.cursor() as cursor:
        cursor.adbc_statement.set_options(**{adbc_driver_manager.StatementOptions.INCREMENTAL.value: "true"})
        yield cursor


def progress(cursor):
    """The progress of a query that another thread polls, and the query, as soon as they are known."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        part = cursor.adbc_statement.get_option_float(adbc_driver_manager.StatementOptions.PROGRESS.value)
        query = cursor.adbc_statement.get_option_bytes("adbc.flight.sql.statement.exec.last_flight_info")
        if part and query:
            return part, query
        time.sleep(0.05)
    raise AssertionError("the client saw no progress")


def cancel(server, key, query):
    """Cancels a query from another connection. Returns whether the server did so."""
    with pyarrow.flight.connect(server.flight_url) as client:
        options = pyarrow.flight.FlightCallOptions(headers=[client.authenticate_basic_token(*key)])
        length, size = bytearray(), len(query)
        while size > 127:
            length.append(size & 127 | 128)
            size >>= 7
        request = b"\x0a" + bytes([*length, size]) + query
        (answer,) = client.do_action(("CancelFlightInfo", request), options)
        return {b"\x08\x01": True, b"\x08\x03": False}[answer.body.to_pybytes()]


def test_a_client_polls_a_query_and_reads_its_rows(server):
    sql = "SELECT id, city FROM lake.trips WHERE id > $1 ORDER BY id"
    with polling(server) as cursor:
        (partition,), schema = cursor.adbc_execute_partitions(sql, (1,))
        assert schema.names == ["id", "city"]
        assert cursor.adbc_execute_partitions(sql)[0] == []
        cursor.adbc_read_partition(partition)
        assert cursor.fetchall() == [(2, "Rome"), (3, None)]
        with pytest.raises(adbc_driver_manager.Error, match="no such query; the server ends one"):
            cursor.adbc_read_partition(partition)
        # More rows than the server holds.
        (partition,), _ = cursor.adbc_execute_partitions("SELECT * FROM lake.many")
        cursor.adbc_read_partition(partition)
        assert cursor.fetch_arrow_table().num_rows == ROWS


def test_polls_report_errors(server):
    with polling(server) as cursor, pytest.raises(adbc_driver_manager.Error, match="(?i)divide by zero"):
        cursor.adbc_execute_partitions("SELECT 1 / (id - 2) FROM lake.trips")


def test_a_polled_query_has_progress_and_only_its_user_can_cancel_it(store):
    # The limit ends the query if the test fails.
    with running(store, "--query-seconds-max", "60") as server, polling(server) as cursor:
        with concurrent.futures.ThreadPoolExecutor(1) as thread:
            partitions = thread.submit(cursor.adbc_execute_partitions, SLOW)
            part, query = progress(cursor)
            assert 0 < part <= 1
            assert not cancel(server, store.key("main/bob"), query)
            assert cancel(server, server.key, query)
            with pytest.raises(adbc_driver_manager.Error, match="client canceled the query|no such query"):
                partitions.result(30)
            assert not cancel(server, server.key, query)


def test_a_user_cannot_read_the_query_of_another(server, store):
    with polling(server) as cursor, polling(server, store.key("main/bob")) as other:
        (partition,), _ = cursor.adbc_execute_partitions("SELECT 7")
        with pytest.raises(adbc_driver_manager.Error, match="no such query"):
            other.adbc_read_partition(partition)
        cursor.adbc_read_partition(partition)
        assert cursor.fetchall() == [(7,)]


def test_a_polled_query_counts_until_its_rows_are_read(store):
    options = ["--user-queries-max", "1", "--query-seconds-max", "3"]
    with running(store, *options) as server, polling(server) as cursor, server.connect() as connection:
        (partition,), _ = cursor.adbc_execute_partitions("SELECT 7")
        with pytest.raises(psycopg.Error, match="too many running queries"):
            connection.execute("SELECT 1")
        cursor.adbc_read_partition(partition)
        assert cursor.fetchall() == [(7,)]
        assert connection.execute("SELECT 1").fetchall() == [(1,)]
