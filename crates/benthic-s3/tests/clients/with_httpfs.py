"""Typical use of DuckDB's httpfs. Runs in the Python of `make s3-clients-env`; the argument is a
bucket.
"""

import os
import pathlib
import sys

import duckdb
import duckdb_extension_httpfs

EXTENSION = next(pathlib.Path(duckdb_extension_httpfs.__file__).parent.rglob("httpfs.duckdb_extension"))


def main(bucket):
    database = duckdb.connect()
    ask = lambda text: database.execute(text).fetchall()
    ask(f"LOAD '{EXTENSION}'")
    ask(
        f"CREATE SECRET (TYPE s3, KEY_ID '{os.environ['AWS_ACCESS_KEY_ID']}', SECRET '{os.environ['AWS_SECRET_ACCESS_KEY']}', "
        f"REGION 'us-east-1', URL_STYLE 'path', USE_SSL false, ENDPOINT '{os.environ['AWS_ENDPOINT_URL'].removeprefix('http://')}')"
    )
    ask("CREATE TABLE rows AS SELECT range AS id, range % 4 AS part, hash(range) AS noise FROM range(2_000_000)")
    ask(f"COPY rows TO 's3://{bucket}/large.parquet' (ROW_GROUP_SIZE 100_000)")
    assert ask(f"SELECT count(*), sum(id) FROM 's3://{bucket}/large.parquet'") == ask("SELECT count(*), sum(id) FROM rows")
    point = f"SELECT noise FROM 's3://{bucket}/large.parquet' WHERE id = 1234567"
    assert ask(point) == ask("SELECT noise FROM rows WHERE id = 1234567")
    ask(f"COPY (FROM rows LIMIT 1000) TO 's3://{bucket}/parts' (FORMAT parquet, PARTITION_BY part)")
    parts = f"read_parquet('s3://{bucket}/parts/*/*.parquet', hive_partitioning = true)"
    assert ask(f"SELECT part, count(*) FROM {parts} GROUP BY part ORDER BY part") == [(part, 250) for part in range(4)]
    assert len(ask(f"FROM glob('s3://{bucket}/parts/part=1/*')")) == 1
    ask(f"COPY (FROM rows LIMIT 10) TO 's3://{bucket}/few.csv'")
    assert ask(f"SELECT max(id) FROM 's3://{bucket}/few.csv'") == [(9,)]
    for wrong, what in [("none.parquet", "404"), ("parts/none-*.parquet", "No files found")]:
        try:
            ask(f"FROM 's3://{bucket}/{wrong}'")
        except duckdb.Error as error:
            assert what in str(error), error
        else:
            raise AssertionError(f"{wrong} was read")


main(sys.argv[1])
