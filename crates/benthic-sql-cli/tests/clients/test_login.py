"""Users, rights and encryption, on both protocols."""

import contextlib
import socket
import subprocess
import time

import adbc_driver_manager
import psycopg
import pyarrow.flight
import pytest
from conftest import ROWS
from server import running


@pytest.fixture(scope="module")
def limited(store, server):
    """A server where `lab` sees one pool, and `guest` nothing."""
    with running(store, "--allow", "main", "--allow", "lab=lake") as limited:
        yield limited


def refused_by_postgres(server, key, **more):
    with pytest.raises(psycopg.OperationalError) as failed:
        server.connect(key, **more)
    return str(failed.value)


def refused_by_flight(server, key, sql="SELECT 1"):
    with pytest.raises(adbc_driver_manager.Error) as failed:
        with server.flight(key) as connection, connection.cursor() as cursor:
            cursor.execute(sql)
    return str(failed.value)


@pytest.mark.parametrize("refused", [refused_by_postgres, refused_by_flight])
def test_a_wrong_secret_and_an_unknown_key_are_not_told_apart(server, refused):
    user, secret = server.key
    for key in [(user, secret[:-1]), ("BN" + "A" * 18, secret), ("nobody", "nothing"), (user, " ")]:
        assert "unknown access key or wrong secret key" in refused(server, key)


@pytest.mark.parametrize("refused", [refused_by_postgres, refused_by_flight])
def test_a_key_without_a_grant_is_refused(store, limited, refused):
    message = refused(limited, store.key("guest/bob"))
    assert "has no access to this server" in message and "account=guest" in message


def test_an_account_sees_only_its_pools(store, limited):
    key = store.key("lab/ada")
    with limited.connect(key) as connection:
        assert connection.execute("SELECT count(*) FROM lake.many").fetchone() == (ROWS,)
        with pytest.raises(psycopg.errors.UndefinedTable, match="no such pool"):
            connection.execute("SELECT * FROM other.secret")
        schemas = connection.execute("SELECT DISTINCT table_schema FROM information_schema.tables").fetchall()
        assert schemas == [("lake",)]
    assert "no such pool" in refused_by_flight(limited, key, "SELECT * FROM other.secret")
    with limited.connect() as connection:
        assert connection.execute("SELECT * FROM other.secret").fetchall() == [(1,)]


@pytest.mark.parametrize("refused", [refused_by_postgres, refused_by_flight])
def test_a_suspended_key_is_refused(store, limited, refused):
    key = store.key("lab/eve")
    store.run("benthic-s3", "s3", "key", "suspend", key[0])
    assert "unknown access key" in refused(limited, key)


def test_another_database_does_not_exist(server):
    assert "no such database" in refused_by_postgres(server, None, dbname="sales")
    # Clients without a database ask for the user's.
    with server.connect(dbname=server.key[0]) as connection:
        assert connection.execute("SELECT current_database()").fetchone() == ("benthic",)


def test_with_tls_only_encrypted_connections_are_served(store):
    certificate, key = store.dir / "cert.pem", store.dir / "key.pem"
    command = f"openssl req -x509 -newkey rsa:2048 -nodes -keyout {key} -out {certificate} -days 1 -subj /CN=localhost"
    subprocess.run([*command.split(), "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    with running(store, "--tls-cert", str(certificate), "--tls-key", str(key)) as server:
        with server.connect(sslmode="verify-full", sslrootcert=str(certificate)) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
            assert connection.pgconn.ssl_in_use
        assert "only encrypted connections" in refused_by_postgres(server, None, sslmode="disable")
        assert server.flight_url.startswith("grpc+tls://")
        trusted = {"adbc.flight.sql.client_option.tls_root_certs": certificate.read_text()}
        with server.flight(**trusted) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            assert cursor.fetchall() == [(1,)]


def test_other_addresses_than_loopback_need_tls(store):
    command = store.command("benthic-sql", "sql", "serve", "--postgres", "0.0.0.0:0")
    done = subprocess.run(command, env=store.environment, capture_output=True, text=True, timeout=20)
    assert done.returncode == 2 and "--tls-cert" in done.stderr


def test_logins_in_a_row_do_not_exhaust_connections(store):
    with running(store, "--connections-max", "2") as server:
        for _ in range(10):
            refused_by_postgres(server, ("nobody", "nothing"))
            server.connect().close()
            time.sleep(0.01)


def test_clients_that_do_not_log_in_leave_room_for_others(store):
    """A connection without a login ends after ten seconds, also if its client speaks the protocol."""
    with running(store, "--connections-max", "2") as server, contextlib.ExitStack() as stack:
        port = int(server.flight_url.split(":")[-1])
        stack.enter_context(socket.create_connection(("127.0.0.1", port), 30))
        other = stack.enter_context(pyarrow.flight.connect(server.flight_url))
        with pytest.raises(pyarrow.flight.FlightUnauthenticatedError):
            list(other.do_action(("nothing", b"")))
        with server.flight() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT * FROM lake.many")
            rows = cursor.fetch_record_batch()
            read = rows.read_next_batch().num_rows
            time.sleep(11)
            assert read + sum(batch.num_rows for batch in rows) == ROWS
