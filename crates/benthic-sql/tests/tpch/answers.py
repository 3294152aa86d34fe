#!/usr/bin/env python3
"""Computes the expected answers of the TPC-H test with DuckDB, over the same rows.

    BENTHIC_TPCH_DIR=DIR cargo test --release --workspace --test it -- --ignored tpch_data
    pip install duckdb==2.0.0
    ./answers.py DIR

DIR has a directory for each scale (`0.01`, `0.1`) with a Parquet file for each table. Answers go
to `answers/SCALE/qNN.csv`. The first line names the columns; a name of a floating-point column is
followed by `double`.
"""

import csv
import pathlib
import sys

import duckdb

TABLES = ["customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier"]
HERE = pathlib.Path(__file__).parent


def text(value):
    return "NULL" if value is None else repr(value) if isinstance(value, float) else str(value)


def answers(data, out):
    out.mkdir(parents=True, exist_ok=True)
    database = duckdb.connect()
    database.execute("CREATE SCHEMA tpch")
    for table in TABLES:
        database.execute(f"CREATE TABLE tpch.{table} AS FROM read_parquet('{data / table}.parquet')")
    for query in sorted(HERE.glob("q*.sql")):
        answer = database.execute(query.read_text())
        kinds = [" double" if str(column[1]) == "DOUBLE" else "" for column in answer.description]
        names = [column[0] + kind for column, kind in zip(answer.description, kinds)]
        with open(out / f"{query.stem}.csv", "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(names)
            writer.writerows([text(value) for value in row] for row in answer.fetchall())


def main():
    for data in sorted(path for path in pathlib.Path(sys.argv[1]).iterdir() if path.is_dir()):
        answers(data, HERE / "answers" / data.name)


if __name__ == "__main__":
    main()
