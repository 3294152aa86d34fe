"""Invalid messages."""

import contextlib
import random
import socket
import struct
import time

import pytest
from server import running
from wire import Wire, errors, message, text


@pytest.fixture(autouse=True)
def still_serves(server):
    """The server must survive every test."""
    yield
    with server.connect() as connection:
        assert connection.execute("SELECT count(*) FROM lake.trips").fetchone() == (3,)


def test_garbage_instead_of_a_login_is_refused(server):
    for data in [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00" + bytes(200),
        struct.pack("!ii", 2**31 - 1, 3 << 16),
        struct.pack("!ii", -1, 3 << 16),
        struct.pack("!ii", 8, 3 << 16),
        struct.pack("!ii", 8, 2 << 16),
        struct.pack("!ii", 12, 3 << 16) + b"user",
        struct.pack("!ii", 8, 80877103) * 5,
        b"\0" * 100,
    ]:
        with Wire(server) as wire:
            wire.send(data)
            wire.finish()
            found = wire.until()
            assert all(kind in [b"E", b"N", b"S"] or kind == b"N" for kind, _ in found), found


def test_an_unknown_version_is_negotiated_or_refused(server):
    with Wire(server) as wire:
        wire.start(version=(3 << 16) + 2, user="nobody", **{"_pq_.new": "on"})
        kind, body = wire.read()
        assert kind == b"v" and b"_pq_.new" in body
    with Wire(server) as wire:
        wire.start(version=4 << 16, user="nobody")
        (found,) = errors(wire.until())
        assert found["C"] == "08P01" and "version 3" in found["M"]


def test_messages_before_the_login_are_small(server):
    with Wire(server) as wire:
        wire.start(user=server.key[0])
        wire.read()
        wire.send(b"p" + struct.pack("!i", 1 << 30))
        (found,) = errors(wire.until(b"E"))
        assert "too large" in found["M"]


def test_broken_messages_after_the_login_end_the_connection(server):
    for data in [b"?" + struct.pack("!i", 4), b"Q" + struct.pack("!i", 3), b"Q" + struct.pack("!i", 1 << 30), b"p" + struct.pack("!i", 4)]:
        with Wire(server) as wire:
            assert wire.log_in()[-1][0] == b"Z"
            wire.send(data)
            found = wire.until()
            assert [error["S"] for error in errors(found)] == ["FATAL"], data


def test_invalid_fields_are_errors_and_the_connection_goes_on(server):
    with Wire(server) as wire:
        wire.log_in()
        for data in [
            message(b"P", b"no end"),
            message(b"P", text("") + b"SELECT \xff\0" + b"\0\0"),
            message(b"P", text("") + text("SELECT $1") + b"\xff\xff"),
            message(b"B", text("") + text("nothing") + b"\0" * 6),
            message(b"D", b"X"),
            message(b"E", text("nothing") + b"\0" * 4),
            message(b"P", text("") + text("SELECT $1") + b"\0\0")
            + message(b"B", text("") + text("") + struct.pack("!hhhih", 1, 7, 1, -1, 0)),
            message(b"P", text("") + text("SELECT 1; SELECT 2") + b"\0\0"),
        ]:
            wire.send(data + message(b"S"))
            found = wire.until(b"Z")
            assert len(errors(found)) == 1, (data, found)
        wire.send(b"Q" + struct.pack("!i", 4 + 3) + b"\xff\xfe\0")
        assert "UTF-8" in errors(wire.until(b"Z"))[0]["M"]
        assert [kind for kind, _ in wire.query("SELECT 1")] == [b"T", b"D", b"C", b"Z"]


def test_random_messages_never_break_the_server(server, seed):
    choice = random.Random(seed)
    valid = [
        message(b"P", text("s") + text("SELECT id FROM lake.trips WHERE id = $1") + struct.pack("!hi", 1, 20)),
        message(b"B", text("p") + text("s") + struct.pack("!hhhiqhh", 1, 1, 1, 8, 2, 1, 1)),
        message(b"D", b"P" + text("p")),
        message(b"E", text("p") + struct.pack("!i", 1)),
        message(b"C", b"S" + text("s")),
        message(b"Q", text("SELECT 1; SHOW timezone")),
        message(b"Q", text("BEGIN; DECLARE c CURSOR FOR SELECT id FROM lake.trips; FETCH 1 FROM c; MOVE p")),
        message(b"H"),
        message(b"S"),
    ]
    until = time.monotonic() + 3
    while time.monotonic() < until:
        with Wire(server, timeout=5) as wire:
            wire.log_in()
            data = bytearray(b"".join(choice.choices(valid, k=8)))
            for _ in range(choice.randrange(4)):
                data[choice.randrange(len(data))] = choice.randrange(256)
            wire.send(bytes(data))
            wire.finish()
            wire.until()


def test_deep_and_long_statements_are_refused_or_run(server):
    with Wire(server, timeout=60) as wire:
        wire.log_in()
        for sql in ["SELECT " + "(" * 10_000 + "1" + ")" * 10_000, "SELECT " + "1+" * 5_000 + "1", "SELECT " + "NOT " * 10_000 + "true"]:
            assert len(errors(wire.query(sql))) == 1, sql[:20]
        # These are as deep as the limit allows.
        for sql in [
            "SELECT 'a'" + "||'a'" * 1_990,
            "SELECT current_database()" + "||'a'" * 1_980,
            "SELECT count(*) FROM lake.trips WHERE " + " OR ".join(f"id = {number}" for number in range(600)),
            " UNION ALL ".join(["SELECT 1"] * 600),
            "SELECT 1" + "::int" * 990,
            "SELECT 1" + " IS NULL" * 990,
            "COPY (SELECT 'a'" + "||'a'" * 1_980 + ") TO STDOUT",
        ]:
            found = wire.query(sql)
            assert found[-1][0] == b"Z" and not errors(found), (sql[:60], errors(found))


def test_few_names_do_not_stand_for_many_tables(server):
    doubled = ", ".join(f"t{number + 1} AS (SELECT a.x FROM t{number} a, t{number} b)" for number in range(40))
    with Wire(server) as wire:
        wire.log_in()
        for sql in [
            f"WITH t0 AS (SELECT 1 AS x), {doubled} SELECT x FROM t40",
            "SELECT 1 FROM lake.trips FOR VERSION AS OF 1" + ", lake.trips" * 600,
        ]:
            (found,) = errors(wire.query(sql))
            assert "too many tables" in found["M"], sql[:60]
        # Each name is used once.
        chain = ", ".join(f"t{number + 1} AS (SELECT x FROM t{number})" for number in range(50))
        assert not errors(wire.query(f"WITH t0 AS (SELECT 1 AS x), {chain} SELECT x FROM t50"))


def test_too_many_statements_and_settings_are_refused(server):
    with Wire(server) as wire:
        wire.log_in()
        wire.send(b"".join(message(b"P", text(f"s{number}") + text("SELECT 1") + b"\0\0") for number in range(1_001)))
        wire.send(message(b"S"))
        assert "too many" in errors(wire.until(b"Z"))[0]["M"]
        found = wire.query("; ".join(f"SET x.y{number} = 1" for number in range(300)))
        assert "too many" in errors(found)[0]["M"]


def test_large_values_are_refused(server):
    """The server ends if it cannot allocate memory."""
    with Wire(server, timeout=60) as wire:
        wire.log_in()
        for sql in [
            "SELECT octet_length(repeat(arrow_cast('x', 'LargeUtf8'), 1000000000000000))",
            "SELECT octet_length(repeat(current_database(), 2000000000))",
            "SELECT array_length(array_repeat(id, 2000000000)) FROM lake.trips",
        ]:
            (found,) = errors(wire.query(sql))
            assert "too large values" in found["M"], sql


def test_many_statements_in_a_message_need_little_memory(store):
    """The answers to this message take 300 MiB."""
    with running(store) as server, Wire(server, timeout=60) as wire:
        wire.log_in()
        before = server.memory_mib()
        wire.send(message(b"Q", text(f"SET x.y = '{'a' * 1_000}';" + "SHOW x.y;" * 300_000 + ";" * 5_000_000)))
        shown = 0
        while (kind := wire.read()[0]) != b"Z":
            shown += kind == b"D"
        assert shown == 300_000
        assert server.memory_mib() - before < 150


def test_idle_and_half_open_connections_do_no_harm(server):
    idle = [Wire(server) for _ in range(50)]
    with server.connect() as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    for wire in idle:
        wire.socket.close()


def test_garbage_on_the_port_of_flight_is_refused(server):
    port = int(server.flight_url.split(":")[-1])
    for data in [b"GET / HTTP/1.1\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 100, b"\0" * 1000]:
        with socket.create_connection(("127.0.0.1", port), 10) as connection:
            connection.sendall(data)
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(4096):
                    pass
    with server.flight() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        assert cursor.fetchall() == [(1,)]
