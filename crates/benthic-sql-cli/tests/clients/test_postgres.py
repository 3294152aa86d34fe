"""Queries over Postgres' protocol, with psycopg and asyncpg."""

import asyncio
import datetime
import decimal
import threading
import time

import asyncpg
import psycopg
import pytest
from conftest import ROWS
from server import running

SLOW = "SELECT count(*) FROM lake.many a, lake.many b WHERE a.id + b.id = -1"
TRIPS = [(1, "Oslo", 10.5), (2, "Rome", 20.25), (3, None, None)]


def test_rows_arrive(server):
    with server.connect() as connection:
        assert connection.execute("SELECT * FROM lake.trips ORDER BY id").fetchall() == TRIPS
        assert connection.info.server_version == 150000


@pytest.mark.parametrize("binary", [False, True])
def test_every_type_arrives_in_both_formats(server, store, binary):
    expected = [tuple(row.values()) for row in store.types.to_pylist()]
    with server.connect() as connection:
        cursor = connection.cursor(binary=binary)
        assert cursor.execute('SELECT * FROM lake."Types"').fetchall() == expected


@pytest.mark.parametrize("binary", [False, True])
def test_arrays_and_intervals_arrive(server, binary):
    sql = "SELECT array_agg(id ORDER BY id), array_agg(city ORDER BY id), INTERVAL '1 month 2 days 3.5 seconds' FROM lake.trips"
    with server.connect() as connection:
        row = connection.cursor(binary=binary).execute(sql).fetchone()
    assert row[:2] == ([1, 2, 3], ["Oslo", "Rome", None])
    assert row[2] == datetime.timedelta(days=32, seconds=3.5)


def test_parameters_have_the_types_that_the_query_needs(server):
    sql = "SELECT id FROM lake.trips WHERE city = %s AND fare > %s AND id < %s"
    with server.connect() as connection:
        assert connection.execute(sql, ("Oslo", decimal.Decimal("1.5"), 10)).fetchall() == [(1,)]
        assert connection.execute("SELECT id FROM lake.trips ORDER BY id LIMIT %s", (2,)).fetchall() == [(1,), (2,)]
        assert connection.execute("SELECT %s::date + INTERVAL '1 day'", (datetime.date(2026, 1, 31),)).fetchall()
        assert connection.execute("SELECT count(*) FROM lake.trips WHERE city = %s", (None,)).fetchone() == (0,)


@pytest.mark.parametrize("placeholder", ["%t", "%b"])
def test_arrays_are_parameters(server, placeholder):
    """A list of ids or names is the most common array."""
    with server.connect() as connection:
        def found(condition, value):
            sql = f"SELECT id FROM lake.trips WHERE {condition} ORDER BY id"
            return [id for (id,) in connection.execute(sql.replace("%s", placeholder), (value,)).fetchall()]

        assert found("id = ANY(%s)", [2, 3, 2**40]) == [2, 3]
        assert found("city = ANY(%s)", ["Oslo", 'a "b", \\', "", None]) == [1]
        assert found("city = ANY(%s)", []) == []
        assert found("id <> ALL(%s)", [1]) == [2, 3]
        assert found("fare = ANY(%s)", [10.5]) == [1]
        with pytest.raises(psycopg.Error, match="arrays of arrays|an array must be items"):
            found("id = ANY(%s)", [[1], [2]])


def test_a_prepared_statement_runs_often_and_sees_new_rows(server, store):
    (store.dir / "row.csv").write_text("id\n1\n")
    store.run("benthic-sql", "table", "create", "lake/growing", str(store.dir / "row.csv"))
    with server.connect() as connection:
        for count in [1, 2, 3]:
            found = connection.execute("SELECT count(*) FROM lake.growing WHERE id = %s", (1,), prepare=True)
            assert found.fetchone() == (count,)
            store.run("benthic-sql", "table", "append", "lake/growing", str(store.dir / "row.csv"))
    store.run("benthic-sql", "table", "drop", "--yes", "lake/growing", "lake/growing")


def test_asyncpg_prepares_and_fetches_in_parts(server):
    async def run():
        user, password = server.key
        connection = await asyncpg.connect(
            host="127.0.0.1", port=server.port, user=user, password=password, database="benthic"
        )
        statement = await connection.prepare("SELECT city FROM lake.trips WHERE id = $1")
        assert await statement.fetchval(2) == "Rome"
        async with connection.transaction():
            cursor = await connection.cursor("SELECT id FROM lake.many ORDER BY id")
            assert [row[0] for row in await cursor.fetch(5)] == [0, 1, 2, 3, 4]
            assert [row[0] for row in await cursor.fetch(2)] == [5, 6]
        await connection.close()

    asyncio.run(run())


def test_errors_have_codes_and_hints(server):
    with server.connect() as connection:
        with pytest.raises(psycopg.errors.UndefinedTable, match="no such table"):
            connection.execute("SELECT * FROM lake.nothing")
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="queries only read; `benthic sql` changes rows"):
            connection.execute("INSERT INTO lake.trips VALUES (1)")
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="local files"):
            connection.execute("SELECT * FROM '/etc/passwd'")
        with pytest.raises(psycopg.errors.SyntaxErrorOrAccessRuleViolation):
            connection.execute("SELEKT 1")
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_failed_transaction_ends_with_rollback(server):
    with server.connect() as connection:
        connection.autocommit = False
        with pytest.raises(psycopg.Error):
            connection.execute("SELECT nothing")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            connection.execute("SELECT 1")
        connection.rollback()
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_explain_analyze_shows_how_the_query_ran(server):
    with server.connect() as connection:
        plan = connection.execute("EXPLAIN ANALYZE SELECT count(*) FROM lake.many").fetchall()
    assert "output_rows" in plan[0][1]


def test_a_huge_result_needs_little_memory(store):
    with running(store) as server:
        with server.connect() as connection:
            connection.execute("SELECT 1")
            before = server.memory_mib()
            sql = "SELECT a.id, a.text, b.city FROM lake.many a, lake.trips b"
            rows = sum(1 for _ in connection.cursor().stream(sql, size=1_000))
        assert rows == 3 * ROWS
        assert server.memory_mib() - before < 250


def test_a_client_can_cancel_a_query(store):
    with running(store) as server, server.connect() as connection:
        timer = threading.Timer(0.5, connection.cancel)
        timer.start()
        started = time.monotonic()
        with pytest.raises(psycopg.errors.QueryCanceled):
            connection.execute(SLOW)
        assert time.monotonic() - started < 10
        timer.join()
        assert connection.execute("SELECT 1").fetchone() == (1,)





def test_the_time_limit_is_enforced(store):
    with running(store, "--query-seconds-max", "1") as server, server.connect() as connection:
        with pytest.raises(psycopg.errors.ConfigurationLimitExceeded, match="time limit"):
            connection.execute(SLOW)
        connection.execute("SET statement_timeout = '100ms'")
        with pytest.raises(psycopg.errors.ConfigurationLimitExceeded, match="limit_s=0.1"):
            connection.execute(SLOW)
        connection.execute("SET statement_timeout = 0")
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_queries_share_the_memory_of_their_user(store):
    with running(store, "--user-memory-max", "20MiB") as server, server.connect() as connection:
        with pytest.raises(psycopg.errors.ConfigurationLimitExceeded, match="(?i)memory|resources"):
            connection.execute("SELECT count(*) FROM lake.many a JOIN lake.many b ON a.text = b.text")
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_user_runs_few_queries_at_once(store):
    with running(store, "--user-queries-max", "1") as server, server.connect() as first, server.connect() as second:
        first.execute("BEGIN")
        rows = first.cursor().stream("SELECT * FROM lake.many a, lake.trips b", size=10)
        next(rows)
        second.execute("SET statement_timeout = 500")
        with pytest.raises(psycopg.errors.ConfigurationLimitExceeded, match="too many running queries"):
            second.execute("SELECT 1")
        rows.close()
        first.rollback()
        assert second.execute("SELECT 1").fetchone() == (1,)


def test_the_server_survives_clients_that_leave(server):
    for _ in range(5):
        connection = server.connect()
        cursor = connection.cursor()
        rows = cursor.stream("SELECT * FROM lake.many", size=100)
        next(rows)
        # This closes the socket in the middle of the rows.
        connection.pgconn.finish()
    with server.connect() as connection:
        assert connection.execute("SELECT count(*) FROM lake.many").fetchone() == (ROWS,)


def test_progress_is_reported_on_request(store):
    notices = []
    with running(store) as server, server.connect(options="-c benthic.progress=on") as connection:
        connection.add_notice_handler(lambda notice: notices.append(notice.message_primary))
        connection.execute("SET statement_timeout = 2500")
        with pytest.raises(psycopg.Error):
            connection.execute(SLOW)
    assert any("objects" in notice for notice in notices)


def test_sigterm_ends_the_server_and_its_connections(store):
    with running(store) as server:
        connection = server.connect()
        assert server.stop() == 143
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
