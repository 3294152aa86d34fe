"""Reads a Zarr array through a view with xarray and s3fs. Runs in the Python of `make s3-clients-env`; the
arguments are a bucket, the gateway's URL, and the packages of the tests, which have xarray and zarr.
"""

import os
import sys

# At the end: s3fs wants other versions of botocore than the tests.
sys.path.append(sys.argv[3])

import numpy as np
import s3fs
import xarray as xr
import zarr


def main(bucket, url):
    options = {"key": os.environ["AWS_ACCESS_KEY_ID"], "secret": os.environ["AWS_SECRET_ACCESS_KEY"], "endpoint_url": url}
    values = np.arange(4 * 30 * 60, dtype="f4").reshape(4, 30, 60)
    data = xr.open_zarr(f"s3://{bucket}/era5", storage_options=options, consolidated=False, chunks=None)
    assert data.t2m.attrs["units"] == "K" and data.t2m.dims == ("time", "lat", "lon")
    assert np.array_equal(data.t2m.values, values)
    assert float(data.t2m.isel(time=3).sel(lat=7.0).sum()) == values[3, 7].sum()
    group = zarr.open_group(f"s3://{bucket}/era5", mode="r", storage_options=options)
    assert sorted(group.array_keys()) == ["lat", "t2m", "time"]
    assert np.array_equal(group["t2m"][1, 3:5, 7], values[1, 3:5, 7])
    files = s3fs.S3FileSystem(**options)
    assert sorted(files.ls(f"{bucket}/era5/t2m", detail=False)) == [f"{bucket}/era5/t2m/c", f"{bucket}/era5/t2m/zarr.json"]
    assert files.glob(f"{bucket}/era5/*/zarr.json") == [f"{bucket}/era5/{name}/zarr.json" for name in ["lat", "t2m", "time"]]
    try:
        files.pipe_file(f"{bucket}/era5/zarr.json", b"{}")
    except PermissionError:
        pass
    else:
        raise AssertionError("the view was written")


main(*sys.argv[1:3])
