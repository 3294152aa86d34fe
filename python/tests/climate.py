"""A dataset for tests of xarray."""

import numpy as np
import pandas as pd
import xarray as xr

from seeds import one


def climate():
    """A dataset with floats, packed integers, coordinates, times, a scalar and text."""
    rng = np.random.default_rng(one())
    time = pd.date_range("2024-01-01", periods=48, freq="6h")
    lat, lon = np.arange(-30.0, 30.0, 4), np.arange(0.0, 90.0, 5)
    shape = (48, len(lat), len(lon))
    t2m = rng.normal(280, 10, shape).astype("f4")
    t2m[rng.random(shape) < 0.1] = np.nan
    packed = np.round(rng.normal(0, 30, shape), 1)
    packed[rng.random(shape) < 0.1] = np.nan
    return xr.Dataset(
        {
            "t2m": (("time", "lat", "lon"), t2m, {"units": "K"}),
            "rain": (("time", "lat", "lon"), packed),
            "count": (("time", "lat"), rng.integers(0, 9, shape[:2])),
            "mask": (("lat", "lon"), rng.random(shape[1:]) < 0.5),
            "scalar": ((), 7.5),
            "name": (("lat",), [f"row {index}" for index in range(len(lat))]),
        },
        {"time": time, "lat": lat, "lon": lon, "area": (("lat", "lon"), rng.random(shape[1:]))},
        {"title": "reef"},
    )


ENCODING = {
    "t2m": {"chunks": (10, 15, 9)},
    "rain": {"chunks": (48, 8, 8), "dtype": "i2", "scale_factor": 0.1, "add_offset": 5.0, "_FillValue": -9999},
    "count": {"chunks": (7, 7)},
}
