"""Tables like those of TPC-H, and queries over them, for the tests of distributed engines."""

import datetime
import decimal
import math
import os
import signal

import numpy
import pyarrow as pa
from benthic import _connections
from benthic.engines import parts

ORDERS = 8_000
LINES = 40_000
DAY = datetime.date(1992, 1, 1)

# A part with an object that no table has.
MISSING = parts.Part(("d/0000000000000001-3.parquet",), 1, 1)

PRICING = """
    SELECT l_returnflag, l_linestatus, sum(l_quantity) AS quantity, sum(l_extendedprice) AS price,
        sum(l_extendedprice * (1 - l_discount)) AS discounted, count(*) AS lines
    FROM "{pool}".lineitem WHERE l_shipdate <= DATE '1998-09-02'
    GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus
"""
FORECAST = """
    SELECT sum(l_extendedprice * l_discount) AS revenue FROM "{pool}".lineitem
    WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01'
        AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24
"""
PRIORITIES = """
    SELECT o_orderpriority, count(*) AS lines, sum(l_extendedprice) AS price
    FROM "{pool}".orders JOIN "{pool}".lineitem ON o_orderkey = l_orderkey
    WHERE o_orderdate >= DATE '1995-01-01' GROUP BY o_orderpriority ORDER BY o_orderpriority
"""


class Lake:
    """A pool with the tables ``lineitem``, ``orders`` and ``types``. The first two have several
    objects each.
    """

    def __init__(self, store, pool):
        self.store = store
        self.pool = pool
        load(store, pool)

    def table(self, name):
        return self.store.table(f"{self.pool}/{name}")

    def sql(self, query):
        return self.store.sql(query.format(pool=self.pool)).to_pylist()


def load(store, pool):
    """Creates the tables."""
    random = numpy.random.default_rng(11)
    days = numpy.datetime64(DAY, "D")
    orders = pa.table(
        {
            "o_orderkey": pa.array(range(ORDERS), pa.int64()),
            "o_orderdate": pa.array(days + random.integers(0, 2_400, ORDERS)),
            "o_orderpriority": [f"{number}-PRIORITY" for number in random.integers(1, 6, ORDERS)],
            "o_comment": pa.array([random.bytes(600) for _ in range(ORDERS)], pa.binary()),
        }
    )
    store.create_table(f"{pool}/orders", orders, sort_by="o_orderkey", object_size="1MiB")
    shipped = numpy.sort(random.integers(0, 2_500, LINES))
    lines = pa.table(
        {
            "l_orderkey": pa.array(random.integers(0, ORDERS, LINES), pa.int64()),
            "l_quantity": pa.array([decimal.Decimal(int(n)) for n in random.integers(1, 51, LINES)], pa.decimal128(12, 2)),
            "l_extendedprice": _cents(random.integers(90_000, 10_000_000, LINES)),
            "l_discount": _cents(random.integers(0, 11, LINES)),
            "l_returnflag": random.choice(["A", "N", "R"], LINES),
            "l_linestatus": random.choice(["F", "O"], LINES),
            "l_shipdate": pa.array(days + shipped),
            "l_comment": pa.array([random.bytes(100) for _ in range(LINES)], pa.binary()),
        }
    )
    store.create_table(f"{pool}/lineitem", lines, sort_by="l_shipdate", object_size="1MiB")
    store.create_table(f"{pool}/types", types(), object_size="1MiB")


def _cents(numbers):
    return pa.array([decimal.Decimal(int(number)) / 100 for number in numbers], pa.decimal128(12, 2))


def types():
    """A column of each kind of type, with nulls, NaN, infinities and both zeros."""
    moment = datetime.datetime(2026, 3, 1, 12, 30, 0, 123456)
    return pa.table(
        {
            "id": pa.array(range(6), pa.int64()),
            "small": pa.array([1, -2, None, 127, -128, 0], pa.int8()),
            "unsigned": pa.array([0, 1, None, 2**32 - 1, 5, 6], pa.uint32()),
            "real": pa.array([1.5, math.nan, None, math.inf, -0.0, 0.0], pa.float64()),
            "single": pa.array([0.1, math.nan, None, -math.inf, -0.0, 0.0], pa.float32()),
            "flag": pa.array([True, False, None, True, False, True]),
            "text": pa.array(["a", "", None, "ä€😀", "z", "Z"]),
            "raw": pa.array([b"a", b"", None, b"\x00\xff", b"z", b"Z"]),
            "price": pa.array([n and decimal.Decimal(n) for n in ("1.10", "-2.25", None, "0", "99999.99", "3")], pa.decimal128(12, 2)),
            "day": pa.array([DAY, datetime.date(1969, 12, 31), None, DAY, DAY, DAY], pa.date32()),
            "seen": pa.array([moment, moment.replace(year=1950), None, moment, moment, moment], pa.timestamp("us")),
            "seen_utc": pa.array([moment, moment.replace(year=1950), None, moment, moment, moment], pa.timestamp("us", "UTC")),
            "seen_oslo": pa.array([moment, moment.replace(year=1950), None, moment, moment, moment], pa.timestamp("us", "Europe/Oslo")),
            "tags": pa.array([["x", None], [], None, ["y"], ["z", "z"], ["x"]], pa.list_(pa.string())),
            "place": pa.array([{"lat": 1.0, "name": "n"}, {"lat": None, "name": None}, None, {"lat": 2.0, "name": "m"}, None, None]),
            "kind": pa.array(["a", "b", None, "a", "b", "a"]).dictionary_encode(),
        }
    )


def rows_of(scan, part):
    """The rows of a part. Other processes import it from here."""
    return scan.read(part.objects).to_pylist()


def moved():
    """The bytes that this process received through its shared connections."""
    return sum(store.moved().received_bytes for store in _connections._stores.values())


def die_once(rows, marker):
    """Kills its process at the first call, and returns the rows at later ones."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return rows
    os.kill(os.getpid(), signal.SIGKILL)


def process(rows):
    """The process that calls this, and the number of rows."""
    return pa.table({"pid": [os.getpid()], "rows": [rows.num_rows]})
