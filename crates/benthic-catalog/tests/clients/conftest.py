"""Fixtures: a store with tables, and a server."""

import datetime
import decimal

import duckdb
import pyarrow
import pyarrow.parquet
import pytest

pytest.register_assert_rewrite("catalog", "stores")

from catalog import load, running
from stores import ENGINES, opened

TPCH = ["customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier"]


def one_of_each_type():
    day = datetime.date(1815, 12, 10)
    time = datetime.datetime(2026, 2, 3, 4, 5, 6, 789)
    columns = {
        "bool": pyarrow.array([True, None, False]),
        "int8": pyarrow.array([-8, None, 8], pyarrow.int8()),
        "int16": pyarrow.array([-16, None, 16], pyarrow.int16()),
        "uint8": pyarrow.array([255, None, 0], pyarrow.uint8()),
        "uint16": pyarrow.array([65_535, None, 0], pyarrow.uint16()),
        "int32": pyarrow.array([-32, None, 32], pyarrow.int32()),
        "int64": pyarrow.array([-(2**63), None, 2**63 - 1], pyarrow.int64()),
        "float32": pyarrow.array([0.5, None, float("nan")], pyarrow.float32()),
        "float64": pyarrow.array([1e300, None, float("-inf")], pyarrow.float64()),
        "decimal": pyarrow.array(
            [decimal.Decimal("-12345678901234567890.0012"), None, decimal.Decimal(0)], pyarrow.decimal128(38, 4)
        ),
        "text": pyarrow.array(['a "b" ä', None, ""]),
        "binary": pyarrow.array([b"\x00\xff", None, b""]),
        "fixed": pyarrow.array([b"12345678", None, b"\xff" * 8], pyarrow.binary(8)),
        "date": pyarrow.array([day, None, datetime.date(1970, 1, 1)]),
        "time": pyarrow.array([time.time(), None, datetime.time(0)], pyarrow.time64("us")),
        "milliseconds": pyarrow.array([0, None, -1], pyarrow.timestamp("ms")),
        "stamp": pyarrow.array([time, None, datetime.datetime(1, 1, 1)], pyarrow.timestamp("us")),
        "zoned": pyarrow.array([time.replace(tzinfo=datetime.UTC), None, None], pyarrow.timestamp("us", "UTC")),
    }
    return pyarrow.table(columns)


def trips(days):
    start = datetime.date(2026, 1, 30)
    rows = [(start + datetime.timedelta(day), number) for day in range(days) for number in range(10)]
    columns = {"day": [day for day, _ in rows], "id": range(len(rows)), "fare": [number / 4 for _, number in rows]}
    return pyarrow.table(columns)


def events():
    """Events with lists of structs, and structs."""
    hits = pyarrow.list_(pyarrow.int64())
    muon = pyarrow.struct([("pt", pyarrow.float32()), ("charge", pyarrow.int32()), ("hits", hits)])
    muons = [
        [{"pt": 31.5, "charge": 1, "hits": [1, 2]}, {"pt": 12.25, "charge": -1, "hits": []}],
        [],
        None,
        [{"pt": None, "charge": 1, "hits": None}],
    ]
    vertices = [{"x": 0.5, "y": 1.5}, None, {"x": None, "y": -1.0}, {"x": 2.0, "y": 3.0}]
    vertex = pyarrow.struct([("x", pyarrow.float64()), ("y", pyarrow.float64())])
    columns = {
        "event": pyarrow.array([1, 2, 3, 4]),
        "muons": pyarrow.array(muons, pyarrow.list_(muon)),
        "vertex": pyarrow.array(vertices, vertex),
        "comment": pyarrow.array(["a", None, "c", "d"]),
    }
    return pyarrow.table(columns)


def maps():
    counts = [[("a", 1)], [], None, [("b", None), ("c", 3)]]
    counts = pyarrow.array(counts, pyarrow.map_(pyarrow.string(), pyarrow.int64()))
    return pyarrow.table({"id": pyarrow.array([1, 2, 3, 4]), "counts": counts})


@pytest.fixture(scope="session", params=ENGINES)
def store(request, tmp_path_factory):
    with opened(request.param, tmp_path_factory.mktemp("store")) as store:
        fill(store)
        yield store


def fill(store):
    store.types = one_of_each_type()
    for pool in ["lake", "tpch", "other"]:
        store.run("benthic", "pool", "create", pool)
    store.create("lake/types", store.types)
    store.create("lake/trips", trips(40), "--partition-by", "range(day, day)")
    store.create("lake/months", trips(40), "--partition-by", "range(day, month)")
    store.create("lake/years", trips(400), "--partition-by", "range(day, year)")
    store.create("lake/hashed", trips(4), "--partition-by", "hash(id, 4)")
    store.create("lake/Strömung #7", trips(1))
    store.create("lake/unsigned", pyarrow.table({"id": pyarrow.array([2**64 - 1], pyarrow.uint64())}))
    unsigned = pyarrow.array([[1]], pyarrow.list_(pyarrow.uint64()))
    store.create("lake/nested_unsigned", pyarrow.table({"id": [1], "tags": unsigned}))
    store.create("lake/events", events())
    store.create("lake/maps", maps())
    store.run("benthic-sql", "table", "create", "lake/empty", "--schema", "id int64, text utf8")
    store.create("other/secret", pyarrow.table({"id": [1]}))
    with duckdb.connect(config={"allow_unsigned_extensions": "true"}) as generator:
        load(generator, "tpch")
        generator.execute("CALL dbgen(sf=0.1)")
        for table in TPCH:
            path = store.dir / f"{table}.parquet"
            generator.execute(f"COPY {table} TO '{path}'")
            # Small objects, so that a table has several.
            store.run("benthic-sql", "table", "create", f"tpch/{table}", str(path), "--object-size", "1MiB")


@pytest.fixture(scope="session")
def server(store):
    with running(store) as server:
        yield server


@pytest.fixture(scope="session")
def lake(server):
    return server.pyiceberg()


@pytest.fixture(scope="session")
def tpch_sql(store):
    """The 22 queries, and a connection that has the files as tables."""
    files = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    load(files, "tpch")
    queries = dict(files.execute("SELECT query_nr, query FROM tpch_queries()").fetchall())
    for table in TPCH:
        files.execute(f"CREATE VIEW {table} AS FROM '{store.dir / table}.parquet'")
    return queries | {"files": files}
