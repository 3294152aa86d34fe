"""The questions about tables that psql, SQLAlchemy and JDBC ask."""

import pytest
import sqlalchemy


@pytest.fixture(scope="module")
def inspector(server):
    return sqlalchemy.inspect(server.engine())


def test_psql_lists_databases_schemas_and_tables(server, psql):
    assert server.psql(r"\l").startswith("benthic|")
    assert [line.split("|")[0] for line in server.psql(r"\dn").split()] == ["lake", "other"]
    tables = [line.split("|")[:3] for line in server.psql(r"\dt").splitlines()]
    assert tables == [["lake", name, "table"] for name in ["Types", "many", "trips"]] + [["other", "secret", "table"]]
    assert server.psql(r"\dt l*.t*").splitlines()[0].startswith("lake|trips|table")


def test_psql_describes_a_table(server, psql):
    assert server.psql(r"\d lake.trips").splitlines() == ["id|bigint|||", "city|text|||", "fare|double precision|||"]
    assert "decimal|numeric(38,4)|||" in server.psql(r'\d lake."Types"')
    assert "id|bigint" in server.psql(r"\d+ lake.trips")
    assert "Did not find any relation" in server.psql(r"\d lake.nothing")


@pytest.mark.parametrize(
    "command", ["d", "dv", "di", "dm", "ds", "df", "dT", "dx", "du", "dp", "dy", "dD", "dO", "dc", "db", "dRp", "des", "dP", "l+", "dn+", "dt+", "d *.*"]
)
def test_psql_has_an_answer_for_other_commands(server, psql, command):
    assert "ERROR" not in server.psql("\\" + command)


def test_psql_completes_names(server, psql):
    # The query that psql sends when the user presses Tab after FROM.
    sql = """SELECT pg_catalog.quote_ident(c.relname) FROM pg_catalog.pg_class c
        WHERE c.relkind IN ('r', 'S', 'v') AND substring(pg_catalog.quote_ident(c.relname),1,2)='tr'
        AND pg_catalog.pg_table_is_visible(c.oid) LIMIT 1000"""
    assert server.psql(sql).strip() == "trips"


def test_sqlalchemy_inspects_tables(inspector):
    assert {"lake", "other"} <= set(inspector.get_schema_names())
    assert sorted(inspector.get_table_names(schema="lake")) == ["Types", "many", "trips"]
    assert inspector.has_table("trips", schema="lake") and not inspector.has_table("nothing", schema="lake")
    columns = {column["name"]: column for column in inspector.get_columns("trips", schema="lake")}
    assert isinstance(columns["fare"]["type"], sqlalchemy.Double) and columns["fare"]["nullable"]
    types = {column["name"]: column["type"] for column in inspector.get_columns("Types", schema="lake")}
    assert (types["decimal"].precision, types["decimal"].scale) == (38, 4)
    assert types["zoned"].timezone and not types["stamp"].timezone


def test_sqlalchemy_finds_no_keys_indexes_and_views(inspector):
    assert inspector.get_pk_constraint("trips", schema="lake")["constrained_columns"] == []
    assert inspector.get_foreign_keys("trips", schema="lake") == []
    assert inspector.get_indexes("trips", schema="lake") == []
    assert inspector.get_unique_constraints("trips", schema="lake") == []
    assert inspector.get_check_constraints("trips", schema="lake") == []
    assert inspector.get_table_comment("trips", schema="lake") == {"text": None}
    assert inspector.get_view_names(schema="lake") == []


def test_sqlalchemy_queries_a_reflected_table(server):
    engine = server.engine()
    trips = sqlalchemy.Table("trips", sqlalchemy.MetaData(), schema="lake", autoload_with=engine)
    query = sqlalchemy.select(trips.c.id, trips.c.city).where(trips.c.fare > 15).order_by(trips.c.id)
    with engine.connect() as connection:
        assert connection.execute(query).fetchall() == [(2, "Rome")]


# The queries of the JDBC driver's DatabaseMetaData, shortened.
JDBC_TABLES = """SELECT current_database() AS TABLE_CAT, n.nspname AS TABLE_SCHEM, c.relname AS TABLE_NAME,
    CASE n.nspname ~ '^pg_' OR n.nspname = 'information_schema' WHEN true THEN 'SYSTEM TABLE'
    WHEN false THEN CASE c.relkind WHEN 'r' THEN 'TABLE' ELSE NULL END ELSE NULL END AS TABLE_TYPE,
    d.description AS REMARKS FROM pg_catalog.pg_namespace n, pg_catalog.pg_class c
    LEFT JOIN pg_catalog.pg_description d ON (c.oid = d.objoid AND d.objsubid = 0 and d.classoid = 'pg_class'::regclass)
    WHERE c.relnamespace = n.oid AND c.relname LIKE 'tr%' ORDER BY TABLE_TYPE, TABLE_SCHEM, TABLE_NAME"""
JDBC_COLUMNS = """SELECT * FROM (SELECT n.nspname, c.relname, a.attname, a.atttypid,
    a.attnotnull OR (t.typtype = 'd' AND t.typnotnull) AS attnotnull, a.atttypmod, a.attlen, t.typtypmod,
    row_number() OVER (PARTITION BY a.attrelid ORDER BY a.attnum) AS attnum,
    nullif(a.attidentity, '') as attidentity, pg_catalog.pg_get_expr(def.adbin, def.adrelid) AS adsrc, dsc.description
    FROM pg_catalog.pg_namespace n JOIN pg_catalog.pg_class c ON (c.relnamespace = n.oid)
    JOIN pg_catalog.pg_attribute a ON (a.attrelid = c.oid) JOIN pg_catalog.pg_type t ON (a.atttypid = t.oid)
    LEFT JOIN pg_catalog.pg_attrdef def ON (a.attrelid = def.adrelid AND a.attnum = def.adnum)
    LEFT JOIN pg_catalog.pg_description dsc ON (c.oid = dsc.objoid AND a.attnum = dsc.objsubid)
    WHERE c.relkind in ('r','p','v','f','m') and a.attnum > 0 AND NOT a.attisdropped AND n.nspname LIKE 'lake') c
    WHERE true AND relname LIKE 'trips' ORDER BY nspname, c.relname, attnum"""
GRAFANA_COLUMNS = """SELECT quote_ident(column_name) AS "column", data_type AS "type" FROM information_schema.columns
    WHERE quote_ident(table_schema) = 'lake' AND quote_ident(table_name) = 'trips'"""


def test_jdbc_and_grafana_find_tables_and_columns(server):
    with server.connect() as connection:
        assert connection.execute(JDBC_TABLES).fetchall() == [("benthic", "lake", "trips", "TABLE", None)]
        assert [row[2] for row in connection.execute(JDBC_COLUMNS).fetchall()] == ["id", "city", "fare"]
        found = connection.execute(GRAFANA_COLUMNS).fetchall()
        assert found == [("id", "bigint"), ("city", "text"), ("fare", "double precision")]
