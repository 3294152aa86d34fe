"""xarray's own tests of backends: datasets that `to_zarr` writes to a pool, opened with the engine `benthic`."""

import contextlib
import itertools

import pytest
import xarray as xr
from xarray.tests import test_backends as theirs

from benthic import zarr_store

NAMES = itertools.count()


class TestBackend(theirs.ZarrBase):
    @pytest.fixture(autouse=True, params=[2, 3])
    def version(self, request, in_memory):
        self.place = in_memory
        self.version_kwargs = {"zarr_format": request.param}

    @contextlib.contextmanager
    def create_zarr_target(self):
        yield zarr_store(self.place.store, self.place.pool_name, f"backend-{next(NAMES)}")

    @contextlib.contextmanager
    def open(self, target, **options):
        address = str(target).rstrip("/")
        with xr.open_dataset(address, engine="benthic", store=self.place.store, **options) as data:
            yield data
