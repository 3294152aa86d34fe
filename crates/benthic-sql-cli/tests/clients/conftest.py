"""Fixtures: a store with tables, and servers."""

import datetime
import decimal
import os
import shutil

import pyarrow
import pytest
import seeds

pytest.register_assert_rewrite("server", "stores", "wire")

from server import running
from stores import ENGINES, opened

ROWS = 1_000_000


@pytest.fixture
def seed():
    """The seed of all randomness in a test."""
    return seeds.one()


def one_of_each_type():
    day = datetime.date(2026, 2, 3)
    time = datetime.datetime(2026, 2, 3, 4, 5, 6, 789)
    columns = {
        "bool": pyarrow.array([True, None]),
        "int8": pyarrow.array([-8, None], pyarrow.int8()),
        "int16": pyarrow.array([-16, None], pyarrow.int16()),
        "int32": pyarrow.array([-32, None], pyarrow.int32()),
        "int64": pyarrow.array([-(2**63), None], pyarrow.int64()),
        "uint64": pyarrow.array([2**64 - 1, None], pyarrow.uint64()),
        "float32": pyarrow.array([0.5, None], pyarrow.float32()),
        "float64": pyarrow.array([1e300, None], pyarrow.float64()),
        "decimal": pyarrow.array([decimal.Decimal("-12345678901234567890.0012"), None], pyarrow.decimal128(38, 4)),
        "text": pyarrow.array(['a "b" ä', None]),
        "binary": pyarrow.array([b"\x00\xff", None]),
        "date": pyarrow.array([day, None]),
        "time": pyarrow.array([time.time(), None], pyarrow.time64("us")),
        "stamp": pyarrow.array([time, None], pyarrow.timestamp("us")),
        "zoned": pyarrow.array([time.replace(tzinfo=datetime.UTC), None], pyarrow.timestamp("us", "UTC")),
    }
    return pyarrow.table(columns)


@pytest.fixture(scope="session", params=ENGINES)
def store(request, tmp_path_factory):
    with opened(request.param, tmp_path_factory.mktemp("store")) as store:
        fill(store)
        yield store


def fill(store):
    store.types = one_of_each_type()
    tables = {
        "lake/trips": pyarrow.table({"id": [1, 2, 3], "city": ["Oslo", "Rome", None], "fare": [10.5, 20.25, None]}),
        "lake/many": pyarrow.table({"id": range(ROWS), "text": [f"row {number:020}" for number in range(ROWS)]}),
        "lake/Types": store.types,
        "other/secret": pyarrow.table({"id": [1]}),
    }
    for pool in ["lake", "other"]:
        store.run("benthic", "pool", "create", pool)
    for name, table in tables.items():
        store.create(name, table)


@pytest.fixture(scope="session")
def server(store):
    with running(store) as server:
        yield server


@pytest.fixture(scope="session")
def psql():
    """Skips a test without psql, but not in continuous integration."""
    if not shutil.which("psql"):
        assert os.environ.get("CI") != "true", "psql is missing"
        pytest.skip("psql is missing; `make sql-packages` installs it")
