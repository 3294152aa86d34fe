"""A table as a Dask data frame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from .parts import Part, PartScan

if TYPE_CHECKING:
    import dask.dataframe
    import pandas


def frame(scan: PartScan, parts: Sequence[Part]) -> dask.dataframe.DataFrame:
    """A data frame with a partition for each part."""
    import dask.dataframe

    return dask.dataframe.from_map(
        _read, parts, scan=scan, meta=_to_pandas(scan.read_schema.empty_table()), label=f"benthic-{scan.table}"
    )


def _read(part: Part, columns: Sequence[str], scan: PartScan) -> pandas.DataFrame:
    """The rows of a part. Dask passes the columns that the query needs."""
    return _to_pandas(scan.select(columns).read(part.objects).to_arrow())


def _to_pandas(rows: pa.Table) -> pandas.DataFrame:
    """Rows in Arrow's types. With the types of NumPy, a partition with nulls would have other types
    than one without.
    """
    import pandas

    return rows.to_pandas(types_mapper=pandas.ArrowDtype)
