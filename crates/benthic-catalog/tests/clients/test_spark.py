"""Spark reads and changes tables, with Iceberg's own package. JDBC drivers query the SQL server.

`make test-catalog-spark` runs these tests: Spark and Iceberg's package are 600 MB. The JDBC drivers
are here because Spark starts a Java virtual machine, and downloads them."""

import contextlib
import datetime
import json
import os
import subprocess

import pyarrow
import pytest
from catalog import running
from conftest import TPCH, trips

pytestmark = pytest.mark.skipif(os.environ.get("BENTHIC_TEST_ENGINES") != "1", reason="needs Spark")
PACKAGES = [
    "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.1",
    "org.apache.iceberg:iceberg-aws-bundle:1.10.1",
    "org.postgresql:postgresql:42.7.14",
    "org.apache.arrow:flight-sql-jdbc-driver:18.3.0",
]


@pytest.fixture(scope="module")
def spark(store, server):
    import pyspark.sql

    with running(store, "--allow-writes", "main=lake") as writer:
        options = {
            "spark.jars.packages": ",".join(PACKAGES),
            "spark.ui.enabled": "false",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            "spark.sql.catalog.lakes": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.lakes.type": "rest",
            "spark.sql.catalog.lakes.uri": writer.url,
            "spark.sql.catalog.lakes.credential": ":".join(writer.key),
            "spark.sql.catalog.lakes.io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        }
        builder = pyspark.sql.SparkSession.builder.master("local[2]")
        session = builder.config(map=options).getOrCreate()
        yield lambda sql: [tuple(row) for row in session.sql(sql).collect()]
        session.stop()


def rows(store, sql):
    return [tuple(row.values()) for row in store.query(sql).to_pylist()]


@pytest.mark.parametrize("table", TPCH)
def test_all_of_tpch_is_read(store, spark, table):
    assert sorted(spark(f"SELECT * FROM lakes.tpch.{table}")) == sorted(rows(store, f"SELECT * FROM tpch.{table}"))


def test_names_with_capitals_and_signs_are_read(spark):
    assert spark("SELECT count(*) FROM lakes.lake.`Strömung #7`") == [(10,)]


def test_filters_partitions_and_snapshots_are_read(store, spark):
    store.create("lake/by_day", trips(40), "--partition-by", "range(day, day)")
    assert spark("SELECT count(*) FROM lakes.lake.by_day WHERE day = DATE '2026-02-03'") == [(10,)]
    store.run("benthic-sql", "sql", "DELETE FROM lake.by_day WHERE id IN (1, 3, 5)")
    assert spark("REFRESH TABLE lakes.lake.by_day") == []
    assert spark("SELECT count(*) FROM lakes.lake.by_day") == [(397,)]
    assert spark("SELECT count(*) FROM lakes.lake.by_day VERSION AS OF 2") == [(400,)]


@pytest.mark.parametrize("other", ["DELETE FROM lake.{} WHERE id = 3", "UPDATE lake.{} SET fare = 9 WHERE id = 3"])
@pytest.mark.parametrize("statement", ["UPDATE lakes.lake.{} SET fare = meanwhile(fare)", "DELETE FROM lakes.lake.{} WHERE meanwhile(fare) > 1"])
def test_spark_notices_changes_of_others(store, spark, tmp_path, statement, other):
    """While Spark changes rows, another program does, too: Spark's change fails, or nothing of either is lost."""
    import pyspark.sql

    name = tmp_path.name
    store.create(f"lake/{name}", trips(40))
    command, environment = store.command("benthic-sql", "sql", other.format(name)), dict(store.environment)
    marker = str(tmp_path / "done")

    def meanwhile(fare):
        with contextlib.suppress(FileExistsError):
            os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
            subprocess.run(command, env=environment, check=True, capture_output=True)
        return fare

    pyspark.sql.SparkSession.getActiveSession().udf.register("meanwhile", meanwhile, "double")
    spark(f"SELECT count(*) FROM lakes.lake.{name}")
    with pytest.raises(Exception, match="[Cc]onflict|found new delete"):
        spark(statement.format(name))
    assert os.path.exists(marker)
    expected = "SELECT count(*) AS n FROM lake.{} WHERE id = 3" + (" AND fare = 9" if "UPDATE" in other else "")
    assert rows(store, expected.format(name)) == [(1 if "UPDATE" in other else 0,)]
    assert rows(store, f"SELECT count(*) AS n FROM lake.{name}") == [(399 if "DELETE" in other else 400,)]


def test_deletion_vectors_of_format_version_3_are_read(store, spark):
    import pyspark.sql

    store.create("lake/vectors", trips(40))
    store.run("benthic-sql", "sql", "DELETE FROM lake.vectors WHERE id IN (1, 3, 5)")
    with running(store, "--format-version", "3") as server:
        conf = pyspark.sql.SparkSession.getActiveSession().conf
        for key, value in {
            "": "org.apache.iceberg.spark.SparkCatalog",
            ".type": "rest",
            ".uri": server.url,
            ".credential": ":".join(server.key),
            ".io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        }.items():
            conf.set(f"spark.sql.catalog.version3{key}", value)
        assert spark("SELECT count(*) FROM version3.lake.vectors") == [(397,)]
        assert spark("SELECT count(*) FROM version3.lake.vectors VERSION AS OF 2") == [(400,)]


def test_nested_columns_are_read(spark):
    muons = "SELECT event, m.pt, m.hits FROM lakes.lake.events LATERAL VIEW explode(muons) AS m ORDER BY event, m.charge"
    assert spark(muons) == [(1, 12.25, []), (1, 31.5, [1, 2]), (4, None, None)]
    assert spark("SELECT event, vertex.y FROM lakes.lake.events WHERE vertex.x > 1") == [(4, 3.0)]
    assert spark("SELECT id, counts['c'] FROM lakes.lake.maps WHERE id = 4") == [(4, 3)]


def test_rows_are_changed(store, spark):
    store.create("lake/by_spark", pyarrow.table({"id": pyarrow.array([1, 2, 3], pyarrow.int32()), "text": ["a", "b", "c"]}))
    spark("INSERT INTO lakes.lake.by_spark VALUES (10, 'ten'), (11, NULL)")
    spark("DELETE FROM lakes.lake.by_spark WHERE id = 1")
    spark("UPDATE lakes.lake.by_spark SET text = 'x' WHERE id = 10")
    spark(
        "MERGE INTO lakes.lake.by_spark t USING (SELECT 11 AS id, 'eleven' AS text UNION ALL SELECT 12, 'twelve') s"
        " ON t.id = s.id WHEN MATCHED THEN UPDATE SET text = s.text WHEN NOT MATCHED THEN INSERT *"
    )
    expected = [(2, "b"), (3, "c"), (10, "x"), (11, "eleven"), (12, "twelve")]
    assert spark("SELECT * FROM lakes.lake.by_spark ORDER BY id") == expected
    assert rows(store, "SELECT * FROM lake.by_spark ORDER BY id") == expected


def test_tables_are_created(store, spark):
    spark("CREATE TABLE lakes.lake.made (id bigint, day date) USING iceberg PARTITIONED BY (days(day))")
    spark("INSERT INTO lakes.lake.made VALUES (1, DATE '2026-01-01'), (2, DATE '2026-01-02')")
    assert rows(store, "SELECT * FROM lake.made ORDER BY id") == [
        (1, datetime.date(2026, 1, 1)),
        (2, datetime.date(2026, 1, 2)),
    ]
    spark("CREATE TABLE lakes.lake.ctas USING iceberg PARTITIONED BY (days(day)) AS SELECT * FROM lakes.lake.made")
    assert rows(store, "SELECT id FROM lake.ctas ORDER BY id") == [(1,), (2,)]
    spark("ALTER TABLE lakes.lake.made ADD COLUMN fare int")
    spark("ALTER TABLE lakes.lake.made ALTER COLUMN fare TYPE bigint")
    spark("ALTER TABLE lakes.lake.made RENAME COLUMN fare TO price")
    spark("INSERT INTO lakes.lake.made VALUES (3, DATE '2026-01-03', 4294967296)")
    assert rows(store, "SELECT id, price FROM lake.made ORDER BY id") == [(1, None), (2, None), (3, 2**32)]
    spark("ALTER TABLE lakes.lake.made DROP COLUMN price")
    assert spark("SELECT * FROM lakes.lake.made WHERE id = 3") == [(3, datetime.date(2026, 1, 3))]
    for change in ["ADD COLUMN first int FIRST", "ADD COLUMN x int COMMENT 'c'", "SET TBLPROPERTIES ('a' = 'b')"]:
        with pytest.raises(Exception, match="cannot be moved|no comment|takes new snapshots"):
            spark(f"ALTER TABLE lakes.lake.made {change}")
    spark("DROP TABLE lakes.lake.made")
    assert spark("SHOW TABLES IN lakes.lake LIKE 'made'") == []


@contextlib.contextmanager
def sql_server(store):
    """The addresses of a running SQL server."""
    command = store.command("benthic-sql", "sql", "serve", "--postgres", "127.0.0.1:0", "--flight", "127.0.0.1:0")
    with subprocess.Popen(command, env=store.environment, stdout=subprocess.PIPE) as process:
        try:
            yield json.loads(process.stdout.readline())
        finally:
            process.terminate()


def java():
    """The gateway to the Java virtual machine of Spark."""
    import pyspark.sql

    return pyspark.sql.SparkSession.active().sparkContext._gateway


def connected(store, driver, url):
    properties = java().jvm.java.util.Properties()
    for name, value in zip(["user", "password"], store.first_key, strict=True):
        properties.setProperty(name, value)
    return contextlib.closing(driver.connect(url, properties))


def texts(results, *columns):
    """Columns of a result, as texts."""
    found = []
    with contextlib.closing(results):
        while results.next():
            found.append(tuple(results.getString(column) for column in columns))
    return found


def check_jdbc(connection):
    metadata = connection.getMetaData()
    assert metadata.getDatabaseProductName() in ["Benthic", "PostgreSQL"]
    assert ("lake",) in texts(metadata.getSchemas(), "TABLE_SCHEM")
    assert ("trips", "TABLE") in texts(metadata.getTables(None, "lake", "%", None), "TABLE_NAME", "TABLE_TYPE")
    columns = texts(metadata.getColumns(None, "lake", "trips", "%"), "COLUMN_NAME")
    assert columns == [("day",), ("id",), ("fare",)]
    assert texts(metadata.getPrimaryKeys(None, "lake", "trips"), "COLUMN_NAME") == []
    with contextlib.closing(connection.createStatement()) as statement:
        statement.setQueryTimeout(60)
        trips = "SELECT day, id, fare FROM lake.trips WHERE id < 12 ORDER BY id DESC LIMIT 1"
        assert texts(statement.executeQuery(trips), 1, 2, 3) == [("2026-01-31", "11", "0.25")]
        with pytest.raises(Exception, match="no such table"):
            statement.executeQuery("SELECT * FROM lake.nothing")
    sql = "SELECT event FROM lake.events WHERE comment = ? AND event > ?"
    with contextlib.closing(connection.prepareStatement(sql)) as prepared:
        for text, least, expected in [("c", 1, [("3",)]), ("c", 3, []), ("d", 3, [("4",)])]:
            prepared.setString(1, text)
            prepared.setLong(2, least)
            assert texts(prepared.executeQuery(), 1) == expected
    assert connection.isValid(10)


def test_the_jdbc_driver_of_postgres_queries(store, spark):
    with sql_server(store) as server:
        driver = java().jvm.org.postgresql.Driver()
        with connected(store, driver, "jdbc:" + server["postgres_url"]) as connection:
            check_jdbc(connection)
            comments = java().new_array(java().jvm.java.lang.String, 2)
            comments[0], comments[1] = "a", "d"
            sql = "SELECT event FROM lake.events WHERE comment = ANY(?) ORDER BY event"
            with contextlib.closing(connection.prepareStatement(sql)) as prepared:
                prepared.setArray(1, connection.createArrayOf("text", comments))
                assert texts(prepared.executeQuery(), 1) == [("1",), ("4",)]
            # Rows are fetched in parts within a transaction.
            connection.setAutoCommit(False)
            with contextlib.closing(connection.createStatement()) as statement:
                statement.setFetchSize(7)
                found = texts(statement.executeQuery("SELECT id FROM lake.trips ORDER BY id"), 1)
            connection.commit()
            assert found == [(str(id),) for id in range(400)]


def test_the_jdbc_driver_of_flight_sql_queries(store, spark):
    with sql_server(store) as server:
        driver = java().jvm.org.apache.arrow.driver.jdbc.ArrowFlightJdbcDriver()
        url = server["flight_url"].replace("grpc:", "jdbc:arrow-flight-sql:") + "/?useEncryption=false"
        with connected(store, driver, url) as connection:
            check_jdbc(connection)
