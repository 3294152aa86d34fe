"""Results in parts: SQL's cursors, and portals with a limit on their rows."""

import struct

import psycopg
import pytest
from conftest import ROWS
from server import running
from wire import Wire, errors, message, text


@pytest.mark.parametrize("binary", [False, True])
def test_named_cursors_of_psycopg_fetch_in_parts(server, binary):
    with server.connect() as connection, connection.transaction():
        for _ in range(2):
            with connection.cursor("Part of many", binary=binary) as cursor:
                cursor.execute("SELECT id, text FROM lake.many WHERE id >= %s ORDER BY id", (10,))
                assert [column.name for column in cursor.description] == ["id", "text"]
                assert cursor.fetchone() == (10, f"row {10:020}")
                assert [id for id, _ in cursor.fetchmany(3)] == [11, 12, 13]
                cursor.scroll(5)
                assert cursor.fetchone()[0] == 19
                cursor.itersize = 200_000
                assert [id for id, _ in cursor] == list(range(20, ROWS))
                assert cursor.fetchone() is None
                assert cursor.fetchall() == []


def test_psql_fetches_in_parts(server, psql):
    sql = "SELECT id, text FROM lake.many ORDER BY id LIMIT 250"
    whole = server.psql(sql)
    assert len(whole.splitlines()) == 250
    for count in [100, 125, 1_000]:
        assert server.psql(rf"\set FETCH_COUNT {count}", sql) == whole


def test_cursors_belong_to_their_transaction(server):
    with server.connect() as connection:
        with pytest.raises(psycopg.errors.NoActiveSqlTransaction, match="transaction blocks"):
            connection.execute("DECLARE c CURSOR FOR SELECT 1")
        with pytest.raises(psycopg.errors.InvalidCursorName, match='cursor "c" does not exist'):
            connection.execute("FETCH c")
        for end in ["COMMIT", "ROLLBACK"]:
            connection.execute("BEGIN")
            connection.execute("DECLARE c CURSOR FOR SELECT id FROM lake.trips ORDER BY id")
            assert connection.execute("FETCH 2 FROM C").fetchall() == [(1,), (2,)]
            connection.execute(end)
            with pytest.raises(psycopg.errors.InvalidCursorName):
                connection.execute("FETCH ALL FROM c")
        for number in range(2):
            connection.execute("COMMIT; BEGIN")
            connection.execute(f"DECLARE c CURSOR FOR SELECT {number}")
            assert connection.execute("FETCH c").fetchall() == [(number,)]


def tags_and_errors(found):
    """The tags of completed statements, the codes of errors, and the status of the transaction."""
    tags = [body.rstrip(b"\0").decode() for kind, body in found if kind == b"C"]
    return tags, [error["C"] for error in errors(found)], found[-1][1]


def test_several_statements_in_a_message_are_a_transaction(server):
    declared = "DECLARE c CURSOR FOR SELECT id FROM lake.trips ORDER BY id; FETCH 2 FROM c"
    done = ["DECLARE CURSOR", "FETCH 2"]
    with Wire(server) as wire:
        wire.log_in()
        for _ in range(2):
            assert tags_and_errors(wire.query(declared)) == (done, [], b"I")
            assert tags_and_errors(wire.query("FETCH c")) == ([], ["34000"], b"I")
        # The cursor ends with COMMIT, and the other statements are a transaction again.
        assert tags_and_errors(wire.query(f"{declared}; COMMIT; {declared}")) == ([*done, "COMMIT", *done], [], b"I")
        # BEGIN makes it a transaction block.
        assert tags_and_errors(wire.query(f"{declared}; BEGIN")) == ([*done, "BEGIN"], [], b"T")
        assert tags_and_errors(wire.query("FETCH c")) == (["FETCH 1"], [], b"T")
        assert tags_and_errors(wire.query("ROLLBACK")) == (["ROLLBACK"], [], b"I")
        # After an error, the message ends, and with it the transaction.
        assert tags_and_errors(wire.query(f"{declared}; SELECT nothing; SELECT 1"))[::2] == (done, b"I")
        for alone in ["DECLARE c CURSOR FOR SELECT 1", "DECLARE c CURSOR FOR SELECT 1; -- alone"]:
            assert tags_and_errors(wire.query(alone)) == ([], ["25P01"], b"I")


def test_savepoints_need_a_transaction_block(server):
    with Wire(server) as wire:
        wire.log_in()
        for sql in ["ROLLBACK TO s", "ROLLBACK WORK TO SAVEPOINT s", "SAVEPOINT s", "RELEASE s"]:
            assert tags_and_errors(wire.query(sql)) == ([], ["25P01"], b"I")
            assert tags_and_errors(wire.query(f"SELECT 1; {sql}; SELECT 1")) == (["SELECT 1"], ["25P01"], b"I")
        assert tags_and_errors(wire.query("BEGIN; SAVEPOINT s")) == (["BEGIN", "SAVEPOINT"], [], b"T")
        assert tags_and_errors(wire.query("SELECT nothing"))[::2] == ([], b"E")
        for sql in ["SAVEPOINT s", "RELEASE s"]:
            assert tags_and_errors(wire.query(sql)) == ([], ["25P02"], b"E")
        assert tags_and_errors(wire.query("ROLLBACK WORK TO s")) == (["ROLLBACK"], [], b"T")
        assert tags_and_errors(wire.query("RELEASE SAVEPOINT s; COMMIT")) == (["RELEASE", "COMMIT"], [], b"I")


def test_cursors_move_forward_and_close(server):
    with server.connect() as connection, connection.transaction():
        connection.execute("DECLARE c NO SCROLL CURSOR WITHOUT HOLD FOR SELECT id FROM lake.trips ORDER BY id")
        assert connection.execute("MOVE c").statusmessage == "MOVE 1"
        assert connection.execute("FETCH NEXT FROM c").fetchall() == [(2,)]
        fetched = connection.execute("FETCH FORWARD ALL IN c")
        assert (fetched.fetchall(), fetched.statusmessage) == ([(3,)], "FETCH 1")
        ended = connection.execute("FETCH c")
        assert (ended.fetchall(), ended.description[0].name) == ([], "id")
        assert connection.execute("CLOSE c").statusmessage == "CLOSE CURSOR"
        connection.execute("DECLARE c CURSOR FOR SELECT 1")
        assert connection.execute("CLOSE ALL").statusmessage == "CLOSE CURSOR ALL"


@pytest.mark.parametrize(
    "sql, error",
    [
        ("DECLARE c CURSOR FOR SELECT 2", psycopg.errors.DuplicateCursor),
        ("DECLARE d SCROLL CURSOR FOR SELECT 2", psycopg.errors.FeatureNotSupported),
        ("DECLARE d CURSOR WITH HOLD FOR SELECT 2", psycopg.errors.FeatureNotSupported),
        ("DECLARE d CURSOR FOR DELETE FROM lake.trips", psycopg.errors.FeatureNotSupported),
        ("DECLARE d CURSOR FOR SELECT * FROM lake.nothing", psycopg.errors.UndefinedTable),
        ("DECLARE d CURSOR", psycopg.errors.SyntaxErrorOrAccessRuleViolation),
        ("FETCH BACKWARD FROM c", psycopg.errors.FeatureNotSupported),
        ("MOVE ABSOLUTE 1 FROM c", psycopg.errors.FeatureNotSupported),
        ("CLOSE d", psycopg.errors.InvalidCursorName),
    ],
)
def test_other_cursors_are_refused(server, sql, error):
    with server.connect() as connection:
        connection.execute("BEGIN")
        connection.execute("DECLARE c CURSOR FOR SELECT 1")
        with pytest.raises(error):
            connection.execute(sql)
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            connection.execute("FETCH c")
        connection.execute("ROLLBACK")
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_failed_cursor_does_not_look_like_one_at_its_end(server):
    with server.connect() as connection:
        connection.execute("BEGIN")
        connection.execute("DECLARE c CURSOR FOR SELECT 1 / (id - 2) FROM lake.trips")
        connection.execute("SAVEPOINT s")
        for error in [psycopg.Error, psycopg.errors.ObjectNotInPrerequisiteState]:
            with pytest.raises(error):
                connection.execute("FETCH ALL FROM c")
            connection.execute("ROLLBACK TO s")
        connection.execute("CLOSE c")
        connection.execute("DECLARE c CURSOR FOR SELECT 1")
        assert connection.execute("FETCH ALL FROM c").fetchall() == [(1,)]


def test_a_failed_portal_does_not_look_like_one_at_its_end(server):
    parse = message(b"P", text("") + text("SELECT 1 / (id - 2) FROM lake.trips") + b"\0\0")
    bind = message(b"B", text("p") + text("") + struct.pack("!hhh", 0, 0, 0))
    execute = message(b"E", text("p") + struct.pack("!i", 0)) + message(b"S")
    with Wire(server) as wire:
        wire.log_in()
        wire.query("BEGIN")
        wire.query("SAVEPOINT s")
        wire.send(parse + bind + execute)
        assert len(errors(wire.until(b"Z"))) == 1
        wire.query("ROLLBACK TO s")
        wire.send(execute)
        [error] = errors(wire.until(b"Z"))
        assert error["C"] == "55000", error


def kinds_and_tags(wire, *messages):
    """The kinds of the answers, and the tags of completed statements."""
    wire.send(b"".join(messages) + message(b"S"))
    found = wire.until(b"Z")
    assert not errors(found), errors(found)
    return b"".join(kind for kind, _ in found), [body.rstrip(b"\0").decode() for kind, body in found if kind == b"C"]


def test_a_portal_sends_rows_up_to_a_limit(server):
    """JDBC's fetch size, also for FETCH."""
    bind = message(b"B", text("p") + text("") + struct.pack("!hhh", 0, 0, 0))
    two = message(b"E", text("p") + struct.pack("!i", 2))
    with Wire(server) as wire:
        wire.log_in()
        wire.query("BEGIN")
        parse = message(b"P", text("") + text("SELECT id FROM lake.trips ORDER BY id") + b"\0\0")
        assert kinds_and_tags(wire, parse, bind, message(b"D", b"P" + text("p")), two) == (b"12TDDsZ", [])
        assert kinds_and_tags(wire, two) == (b"DCZ", ["SELECT 1"])
        wire.query("DECLARE c CURSOR FOR SELECT id FROM lake.many")
        closed, parse = message(b"C", b"P" + text("p")), message(b"P", text("") + text("FETCH 3 FROM c") + b"\0\0")
        assert kinds_and_tags(wire, closed, parse, bind, message(b"D", b"P" + text("p")), two) == (b"312TDDsZ", [])
        assert kinds_and_tags(wire, two) == (b"DCZ", ["FETCH 1"])


def test_cursors_are_limited(store):
    with running(store, "--user-queries-max", "1") as server:
        with Wire(server, timeout=60) as wire:
            wire.log_in()
            found = wire.query("BEGIN; " + "; ".join(f"DECLARE c{number} CURSOR FOR SELECT 1" for number in range(1_001)))
            assert "too many" in errors(found)[0]["M"]
        with server.connect() as first, server.connect() as second:
            first.execute("BEGIN")
            first.execute("DECLARE c CURSOR FOR SELECT * FROM lake.many a, lake.trips b")
            assert len(first.execute("FETCH 10 FROM c").fetchall()) == 10
            second.execute("SET statement_timeout = 500")
            with pytest.raises(psycopg.errors.ConfigurationLimitExceeded, match="too many running queries"):
                second.execute("SELECT 1")
            first.execute("CLOSE c")
            assert second.execute("SELECT 1").fetchone() == (1,)
