"""Tables for engines that run on many processes or machines: Dask, Ray and Spark; and for Polars.

The process that plans a query lists the data objects of one snapshot. Each task then connects to the
store by itself and scans its own objects, with the query's columns and filter. No row passes through
the planning process. A task reads the pinned snapshot, so all tasks of a query see the same rows; if
a vacuum removed the snapshot, the task fails with :class:`NotFoundError`.
"""

from importlib import import_module


def require(module: str, install: str) -> None:
    """Imports an optional package, or says how to install it."""
    try:
        import_module(module)
    except ModuleNotFoundError as error:
        message = f"this needs {module}; run `pip install {install}`"
        raise ModuleNotFoundError(f"{message}: {error}", name=error.name) from error
