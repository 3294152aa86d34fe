"""The measured field, its encodings and its reductions."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.codecs.numcodecs import Shuffle, Zlib

Values = NDArray[Any]

NAME = "t2m"
DIMS = ("time", "lat", "lon")
CHUNKS = (24, 180, 288)  # 4.7 MiB
LEN = (720, 1440)

# zarr-python warns that the names of some codecs are not standard yet.
warnings.filterwarnings("ignore", message=".*Zarr version 3 specification")

# "zlib" has the codecs of netCDF, for which Reductionist was made.
COMPRESSORS: dict[str, Any] = {
    "blosc-zstd": zarr.codecs.BloscCodec(typesize=4, cname="zstd", clevel=3, shuffle="shuffle"),
    "zlib": [Shuffle(elementsize=4), Zlib(level=4)],
    "raw": None,
}


@dataclass(frozen=True)
class Reduction:
    """A mean over an axis, or over all, of a part of the field."""

    name: str
    axis: int | None
    key: tuple[slice, slice, slice]


_ALL = slice(None)
# The region touches 4 of the 20 chunks of each 24 times, none of them whole.
REDUCTIONS = (
    Reduction("mean over all", None, (_ALL, _ALL, _ALL)),
    Reduction("mean over time", 0, (_ALL, _ALL, _ALL)),
    Reduction("mean over time, region", 0, (_ALL, slice(100, 260), slice(200, 520))),
)


def make(times: int) -> Values:
    """Hourly temperatures in K, rounded to 0.01 K as a sensor would."""
    rng = np.random.default_rng(0)
    lat, lon = np.linspace(-90, 90, LEN[0])[:, None], np.arange(0, 360, 360 / LEN[1])[None, :]
    climate = 300 - 45 * np.sin(np.radians(lat)) ** 2 + 4 * np.sin(np.radians(3 * lon)) * np.cos(np.radians(2 * lat))
    data = np.empty((times, *LEN), "f4")
    for hour in range(times):
        day = 5 * np.cos(np.radians(15 * hour + lon)) * np.cos(np.radians(lat))
        data[hour] = climate + day + 0.3 * rng.standard_normal(LEN, np.float32)
    return data.round(2, out=data)


def write(directory: Path, data: Values, encoding: str) -> None:
    """Writes a group with the field, so that xarray opens it, too."""
    group = zarr.create_group(str(directory), overwrite=True)
    group.create_array(
        NAME, data=data, chunks=CHUNKS, compressors=COMPRESSORS[encoding], dimension_names=DIMS, fill_value=0
    )


def expected(data: Values, reduction: Reduction) -> Values:
    """The exact result."""
    result: Values = np.asarray(data[reduction.key].mean(reduction.axis, dtype=np.float64))
    return result
