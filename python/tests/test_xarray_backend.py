"""xarray's own tests of backends: datasets that `to_zarr` writes to a pool, opened with the engine `benthic`."""

import contextlib
import itertools

import pytest
import xarray as xr
import zarr
from xarray.tests import test_backends as theirs

import benthic
from seeds import IS_LONG

NAMES = itertools.count()
# Options of xarray's engine for Zarr.
ZARR_OPTIONS = ("consolidated", "mode", "use_zarr_fill_value_as_mask")


@pytest.fixture(params=[2, 3] if IS_LONG else [3])
def default_zarr_format(request):
    with zarr.config.set(default_zarr_format=request.param):
        yield request.param


@pytest.fixture(scope="module")
def store(uri_of):
    with benthic.connect(uri_of("file")) as store:
        store.create_pool("backend")
        yield store


@pytest.fixture(params=[True, False])
def use_dask(request):
    return request.param


@pytest.fixture(params=["s", "ms", "us", "ns"])
def time_unit(request):
    return request.param


class TestBackend(theirs.ZarrBase):
    # The engine gives no encodings in zarr-python's types.
    test_compressor_encoding = None
    test_zarr_fill_value_in_encoding_on_read = None
    if not IS_LONG:
        # These mostly write, and take longest.
        test_write_region = test_write_persistence_modes = None

    @pytest.fixture(autouse=True)
    def prepare(self, request, store, default_zarr_format):
        for mark in request.node.iter_markers("skip_if_param"):
            if mark.kwargs["default_zarr_format"] == default_zarr_format and mark.kwargs["condition"]:
                pytest.skip(mark.kwargs["reason"])
        self.store = store

    @contextlib.contextmanager
    def create_zarr_target(self):
        yield benthic.zarr_store(self.store, "backend", str(next(NAMES)))

    @contextlib.contextmanager
    def open(self, target, *, group=None, **options):
        if not isinstance(target, benthic.ZarrStore):
            pytest.skip("the test writes to a directory")
        address = "/".join([str(target).rstrip("/"), *([group] if group else [])])
        options |= options.pop("backend_kwargs", {})
        options = {name: value for name, value in options.items() if name not in ZARR_OPTIONS}
        with xr.open_dataset(address, engine="benthic", store=self.store, **options) as data:
            yield data
