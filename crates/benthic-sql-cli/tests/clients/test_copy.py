"""COPY … TO STDOUT, with psycopg, psql and DuckDB."""

import pathlib

import duckdb
import duckdb_extension_postgres_scanner
import psycopg
import pytest
from conftest import ROWS
from test_postgres import TRIPS

SORTED = "(SELECT * FROM lake.trips ORDER BY id)"


def copied(server, sql):
    with server.connect() as connection, connection.cursor() as cursor, cursor.copy(sql) as copy:
        return b"".join(copy)


def test_rows_are_copied_as_text_and_csv(server):
    assert copied(server, f"COPY {SORTED} TO STDOUT") == b"1\tOslo\t10.5\n2\tRome\t20.25\n3\t\\N\t\\N\n"
    csv = b"1,Oslo,10.5\n2,Rome,20.25\n3,,\n"
    assert copied(server, f"/* all */ copy {SORTED} to stdout (format csv)") == csv
    assert copied(server, f"COPY {SORTED} TO STDOUT WITH CSV HEADER") == b"id,city,fare\n" + csv
    assert sorted(copied(server, "COPY lake.trips (city, id) TO STDOUT").splitlines()) == [b"Oslo\t1", b"Rome\t2", b"\\N\t3"]
    special = "SELECT 'x,\"y\"' AS a, '' AS b, NULL AS c, 'q' || chr(9) || chr(10) || '\\' AS d"
    assert copied(server, f"COPY ({special}) TO STDOUT") == b'x,"y"\t\t\\N\tq\\t\\n\\\\\n'
    assert copied(server, f"COPY ({special}) TO STDOUT (FORMAT csv)") == b'"x,""y""","",,"q\t\n\\"\n'
    assert copied(server, "COPY (SELECT id FROM lake.trips WHERE false) TO STDOUT") == b""


def test_rows_are_copied_in_binary(server):
    with server.connect() as connection, connection.cursor() as cursor:
        with cursor.copy(f"COPY {SORTED} TO STDOUT (FORMAT BINARY)") as copy:
            copy.set_types(["int8", "text", "float8"])
            assert list(copy.rows()) == TRIPS
        with cursor.copy("COPY lake.many TO STDOUT (FORMAT BINARY)") as copy:
            assert sum(1 for _ in copy.rows()) == ROWS
        with cursor.copy("COPY (SELECT id FROM lake.trips WHERE false) TO STDOUT (FORMAT BINARY)") as copy:
            assert list(copy.rows()) == []
        # The connection goes on.
        assert cursor.execute("SELECT 1").fetchone() == (1,)


def test_psql_copies_into_a_file(server, psql, tmp_path):
    path = tmp_path / "trips.csv"
    assert server.psql(rf"\copy {SORTED} TO '{path}' CSV HEADER").strip() == "COPY 3"
    assert path.read_text() == "id,city,fare\n1,Oslo,10.5\n2,Rome,20.25\n3,,\n"


@pytest.mark.parametrize(
    "sql, message",
    [
        ("COPY lake.trips FROM STDIN", "COPY … TO STDOUT"),
        ("COPY lake.trips TO '/tmp/trips'", "COPY … TO STDOUT"),
        ("COPY lake.trips TO STDOUT (FORMAT xml)", "binary, csv and text"),
        ("COPY lake.trips TO STDOUT (DELIMITER ';')", "options FORMAT and HEADER"),
        ("COPY lake.nothing TO STDOUT", "no such table"),
        ("COPY (DELETE FROM lake.trips) TO STDOUT", "DELETE is not allowed: queries only read; `benthic sql` changes rows$"),
        ("COPY (SELECT 1", "parser error"),
    ],
)
def test_other_copies_are_refused(server, sql, message):
    with server.connect() as connection:
        with pytest.raises(psycopg.Error, match=message):
            connection.execute(sql)
        assert connection.execute("SELECT count(*) FROM lake.trips").fetchone() == (3,)


def test_duckdb_reads_tables(server):
    [extension] = pathlib.Path(duckdb_extension_postgres_scanner.__file__).parent.glob("extensions/*/*.duckdb_extension")
    user, password = server.key
    with duckdb.connect(config={"allow_unsigned_extensions": "true"}) as connection:
        connection.execute(f"LOAD '{extension}'")
        address = f"host=127.0.0.1 port={server.port} user={user} password={password} dbname=benthic"
        connection.execute(f"ATTACH '{address}' AS lakes (TYPE postgres, READ_ONLY)")
        assert connection.execute("SELECT * FROM lakes.lake.trips ORDER BY id").fetchall() == TRIPS
        assert connection.execute("SELECT city FROM lakes.lake.trips WHERE fare > 15").fetchall() == [("Rome",)]
        many = "SELECT count(id), min(text) FROM lakes.lake.many"
        assert connection.execute(many).fetchall() == [(ROWS, f"row {0:020}")]
