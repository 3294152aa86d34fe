"""Spark reads and changes tables, with Iceberg's own package.

`make test-catalog-spark` runs these tests: Spark and Iceberg's package are 600 MB."""

import datetime
import os

import pyarrow
import pytest
from catalog import running
from conftest import TPCH, trips

pytestmark = pytest.mark.skipif(os.environ.get("BENTHIC_TEST_ENGINES") != "1", reason="needs Spark")
PACKAGES = "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.1,org.apache.iceberg:iceberg-aws-bundle:1.10.1"


@pytest.fixture(scope="module")
def spark(store, server):
    import pyspark.sql

    with running(store, "--allow-writes", "main=lake") as writer:
        options = {
            "spark.jars.packages": PACKAGES,
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


def test_filters_partitions_and_snapshots_are_read(store, spark):
    store.create("lake/by_day", trips(40), "--partition-by", "range(day, day)")
    assert spark("SELECT count(*) FROM lakes.lake.by_day WHERE day = DATE '2026-02-03'") == [(10,)]
    store.run("benthic-sql", "sql", "DELETE FROM lake.by_day WHERE id IN (1, 3, 5)")
    assert spark("REFRESH TABLE lakes.lake.by_day") == []
    assert spark("SELECT count(*) FROM lakes.lake.by_day") == [(397,)]
    assert spark("SELECT count(*) FROM lakes.lake.by_day VERSION AS OF 2") == [(400,)]


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
