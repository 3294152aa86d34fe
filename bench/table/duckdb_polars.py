#!/usr/bin/env python3
"""Times TPC-H queries in DuckDB and Polars, for comparison: duckdb_polars.py FILES QUERIES.

FILES is a directory with one directory of Parquet files for each table. QUERIES is a directory with
the queries as qNN.sql. For each line of stdin, `duckdb N` or `polars N`, the program runs query N
and prints the seconds that it took. One process runs all queries, so that each engine keeps its
session between the rounds. It loads Polars for its first query only.
"""

import pathlib
import sys
import time

import duckdb

TABLES = ["customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier"]


def main():
    files, queries = map(pathlib.Path, sys.argv[1:])
    database = duckdb.connect()
    database.execute("CREATE SCHEMA tpch")
    frames = None
    for table in TABLES:
        database.execute(f"CREATE VIEW tpch.{table} AS FROM read_parquet('{files / table}/*.parquet')")
    for line in sys.stdin:
        engine, number = line.split()
        sql = (queries / f"q{int(number):02}.sql").read_text()
        if engine == "polars" and frames is None:
            import polars

            frames = polars.SQLContext({table: polars.scan_parquet(files / table) for table in TABLES})
        start = time.perf_counter()
        if engine == "duckdb":
            database.execute(sql).fetchall()
        else:
            # Polars has no schemas, so its tables have no prefix.
            frames.execute(sql.replace("tpch.", ""), eager=True)
        print(time.perf_counter() - start, flush=True)


if __name__ == "__main__":
    main()
