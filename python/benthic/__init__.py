"""Benthic: programmable object storage, in one directory or on a Ceph cluster.

Objects, and methods that run beside them::

    import benthic

    with benthic.connect("file:./data") as store:
        photos = store.create_pool("photos")
        photos.put("reef.txt", b"a picture, more or less")
        photos.exec("reef.txt", "digest", "compute", b"sha256")

Tables, for pyarrow, pandas, Polars and DuckDB::

        import pyarrow.compute as pc

        trips = store.create_table("photos/trips", {"city": ["Rio", "Oslo"], "fare": [12.5, 40.0]})
        trips.scan(columns=["city"], filter=pc.field("fare") > 20).to_pandas()
        store.sql("SELECT city, sum(fare) FROM photos.trips GROUP BY city").to_polars()

Calls that wait release Python's interpreter lock, and Ctrl-C ends them. Several threads may share a
handle. A forked process must connect again; with :mod:`multiprocessing`, prefer the start method
``spawn``.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import errors
    from ._native import VERSION as __version__
    from .array import Array, Decoding, ReadStats
    from .dataset import TableDataset
    from .errors import (
        AlreadyExistsError,
        BusyError,
        ClassFailedError,
        ConflictError,
        CorruptError,
        Error,
        InternalError,
        InvalidArgumentError,
        LimitExceededError,
        NotFoundError,
        OutcomeUnknownError,
        PermissionDeniedError,
        UnavailableError,
        UnsupportedError,
    )
    from .file import ObjectFile, open_file
    from .ops import ReadOp, WriteOp
    from .pool import ObjectStat, Pool
    from .regrid import RegridWeights
    from .rows import Rows
    from .store import ClassInfo, MethodInfo, Moved, Store, connect
    from .table import DataObject, Snapshot, Table
    from .zarr import ZarrStore, zarr_store

__all__ = [
    "AlreadyExistsError",
    "Array",
    "BusyError",
    "ClassFailedError",
    "ClassInfo",
    "ConflictError",
    "CorruptError",
    "DataObject",
    "Decoding",
    "Error",
    "InternalError",
    "InvalidArgumentError",
    "LimitExceededError",
    "MethodInfo",
    "Moved",
    "NotFoundError",
    "ObjectFile",
    "ObjectStat",
    "OutcomeUnknownError",
    "PermissionDeniedError",
    "Pool",
    "ReadOp",
    "ReadStats",
    "RegridWeights",
    "Rows",
    "Snapshot",
    "Store",
    "Table",
    "TableDataset",
    "UnavailableError",
    "UnsupportedError",
    "WriteOp",
    "ZarrStore",
    "__version__",
    "connect",
    "errors",
    "open_file",
    "zarr_store",
]


if not TYPE_CHECKING:

    def __getattr__(name):
        """Loads the names above at their first use: :mod:`benthic.openstack` needs neither the native
        module nor pyarrow.
        """
        if name == "errors":
            return import_module(".errors", __name__)
        if name == "__version__":
            return import_module("._native", __name__).VERSION
        if name in ("ZarrStore", "zarr_store"):
            # The other names do not need zarr-python.
            return getattr(import_module(".zarr", __name__), name)
        if name in __all__:
            for module in ("errors", "ops", "pool", "file", "rows", "table", "dataset", "array", "regrid", "store"):
                found = getattr(import_module(f".{module}", __name__), name, None)
                if found is not None:
                    globals()[name] = found
                    return found
        raise AttributeError(f"module 'benthic' has no attribute '{name}'")

    def __dir__():
        return __all__
