"""Rows, and the libraries that read them."""

import gc
import resource
import weakref

import benthic
import duckdb
import pandas
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pytest

NUMBERS = {"x": list(range(50_000)), "text": [str(number) for number in range(50_000)]}
TOTAL = sum(NUMBERS["x"])


@pytest.fixture(scope="module")
def table(place):
    return place.table(NUMBERS)


READERS = {
    "to_arrow": lambda rows: pc.sum(rows.to_arrow()["x"]).as_py(),
    "to_pandas": lambda rows: rows.to_pandas()["x"].sum(),
    "to_polars": lambda rows: rows.to_polars()["x"].sum(),
    "to_pylist": lambda rows: sum(row["x"] for row in rows.to_pylist()),
    "batches": lambda rows: sum(pc.sum(batch["x"]).as_py() for batch in rows),
    "reader": lambda rows: sum(pc.sum(batch["x"]).as_py() for batch in rows.to_reader()),
    "pyarrow": lambda rows: pc.sum(pa.table(rows)["x"]).as_py(),
    "pyarrow stream": lambda rows: pc.sum(pa.RecordBatchReader.from_stream(rows).read_all()["x"]).as_py(),
    "pandas": lambda rows: pandas.DataFrame.from_arrow(rows)["x"].sum(),
    "polars": lambda rows: polars.DataFrame(rows)["x"].sum(),
    "duckdb": lambda rows: duckdb.sql("SELECT sum(x) FROM rows").fetchall()[0][0],
}


@pytest.mark.parametrize("reader", READERS)
def test_libraries_read_rows(table, place, reader):
    name = f'"{place.pool_name}".{table.name.split("/")[1]}'
    assert READERS[reader](table.scan()) == TOTAL
    assert READERS[reader](place.store.sql(f"SELECT * FROM {name}")) == TOTAL


@pytest.mark.parametrize("reader", ["pyarrow", "pyarrow stream", "pandas", "polars", "duckdb"])
def test_libraries_read_a_table(table, reader):
    rows = table
    assert READERS[reader](rows) == TOTAL


def test_the_schema_needs_no_rows(table):
    rows = table.scan(["text"])
    assert pa.schema(rows) == rows.schema == pa.schema([("text", pa.string())])
    assert pa.schema(table) == table.schema
    assert "text: string" in repr(rows)
    assert rows.to_arrow().num_rows == 50_000


def test_rows_are_read_once(table):
    rows = table.scan()
    rows.to_arrow()
    for again in (rows.to_arrow, rows.to_reader, lambda: pa.table(rows)):
        with pytest.raises(benthic.InvalidArgumentError, match="run the query again"):
            again()
    with table.scan() as rows:
        pass
    with pytest.raises(benthic.InvalidArgumentError):
        rows.to_arrow()


def test_rows_are_produced_on_demand(durable):
    table = durable.table({"x": list(range(1_000_000))}, object_size="1MiB")
    before = durable.store.moved()
    batches = iter(table.scan(pushdown="never"))
    next(batches)
    some = (durable.store.moved() - before).received_bytes
    batches.close()
    table.scan(pushdown="never").to_arrow()
    everything = (durable.store.moved() - before).received_bytes - some
    assert table.snapshot().objects >= 4
    assert some < everything * 0.8, (some, everything)


def test_dropped_rows_are_freed(table):
    for leave in (
        lambda rows: iter(rows),
        lambda rows: next(iter(rows)),
        lambda rows: rows.to_reader().read_next_batch(),
        lambda rows: rows.__arrow_c_stream__(),
        lambda rows: rows.to_reader().__arrow_c_stream__(),
        lambda rows: pa.RecordBatchReader.from_stream(rows),
    ):
        rows = table.scan()
        native = weakref.ref(rows)
        leave(rows)
        del rows
        gc.collect()
        assert native() is None


def test_an_unread_stream_leaks_nothing(table):
    def once():
        table.scan().__arrow_c_stream__()
        table.scan().__arrow_c_schema__()
        next(iter(table.scan()))

    for _ in range(20):
        once()
    gc.collect()
    before = resident_bytes()
    for _ in range(200):
        once()
    gc.collect()
    assert resident_bytes() - before < 100 * 1024 * 1024


def test_a_large_scan_is_read_in_little_memory(in_memory):
    rows = 1_000_000
    table = in_memory.table({"text": pa.array(f"{number:0100}" for number in range(rows))}, object_size="4MiB")
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    times = 5
    size_bytes = 0
    for _ in range(times):
        size_bytes += sum(batch.nbytes for batch in table.scan())
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert size_bytes > 500_000_000
    assert grown < size_bytes / 4, (grown, size_bytes)


def test_rows_that_failed_are_closed(in_memory):
    rows = in_memory.store.sql("SELECT 1 / (value - value) FROM generate_series(1, 10)")
    with pytest.raises(benthic.InvalidArgumentError, match="zero"):
        rows._native.next()
    with pytest.raises(benthic.InvalidArgumentError, match="closed"):
        rows._native.next()


def test_a_scan_without_columns_counts_rows(table):
    rows = table.scan([], pc.field("x") < 10)
    assert rows.schema == pa.schema([])
    assert sum(batch.num_rows for batch in rows) == 10


def test_limits(table):
    assert table.scan(limit=10).to_arrow().num_rows == 10
    assert table.scan(limit=0).to_arrow().num_rows == 0
    assert table.scan(["text"], pc.field("x") >= 49_995, limit=3).to_arrow().num_rows == 3
    assert table.scan(["text"], pc.utf8_length(pc.field("text")) == 1, limit=3).to_arrow().num_rows == 3
    assert table.scan(["text"], pc.utf8_length(pc.field("text")) == 1, limit=100).to_arrow().num_rows == 10


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()
