#!/usr/bin/env python3
"""Answers TPC-H queries with DuckDB and Polars, over Parquet files: others.py FILES QUERIES.

FILES has a directory for each table. Each line of stdin is `duckdb N` or `polars N`; each line of
stdout is the seconds that query N took.
"""

import pathlib
import sys
import time

import duckdb
import polars

TABLES = ["customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier"]


def main():
    files, queries = map(pathlib.Path, sys.argv[1:])
    database = duckdb.connect()
    database.execute("CREATE SCHEMA tpch")
    frames = polars.SQLContext()
    for table in TABLES:
        database.execute(f"CREATE VIEW tpch.{table} AS FROM read_parquet('{files / table}/*.parquet')")
        frames.register(table, polars.scan_parquet(files / table))
    for line in sys.stdin:
        which, number = line.split()
        sql = (queries / f"q{int(number):02}.sql").read_text()
        start = time.perf_counter()
        if which == "duckdb":
            database.execute(sql).fetchall()
        else:
            frames.execute(sql.replace("tpch.", ""), eager=True)
        print(time.perf_counter() - start, flush=True)


if __name__ == "__main__":
    main()
