"""The store for zarr-python: its own suite of tests for stores, and hierarchies that other stores hold, too."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
import zarr
from zarr.core.buffer import cpu
from zarr.testing.store import StoreTests

import benthic
from benthic import ZarrStore, zarr_store


class TestZarrStore(StoreTests[ZarrStore, cpu.Buffer]):
    store_cls = ZarrStore
    buffer_cls = cpu.Buffer

    @pytest.fixture
    def store_kwargs(self, durable):
        pool = durable.pool()
        return {"store": durable.store.uri, "pool": pool.name, "path": "root/a", "namespace": pool.namespace}

    async def set(self, store, key, value):
        store._pool().put(store._prefix + key, value.to_bytes())

    async def get(self, store, key):
        return self.buffer_cls.from_bytes(store._pool().get(store._prefix + key))

    def test_store_repr(self, store):
        assert "benthic://" in str(store) and "ZarrStore" in repr(store)

    def test_store_supports_writes(self, store):
        assert store.supports_writes

    def test_store_supports_listing(self, store):
        assert store.supports_listing


def test_a_hierarchy(durable):
    store = zarr_store(durable.store, durable.pool_name, "hierarchy")
    root = zarr.create_group(store, attributes={"title": "reef"})
    array = root.create_array("deep/depth", shape=(10, 10), chunks=(4, 4), dtype="f4", fill_value=np.nan)
    array[:5] = 7
    array.append(np.ones((3, 10), "f4"))
    zarr.consolidate_metadata(store)
    again = zarr.open_group(zarr_store(durable.store.uri, durable.pool_name, "hierarchy"), mode="r")
    assert again.attrs["title"] == "reef" and again["deep/depth"].shape == (13, 10)
    np.testing.assert_array_equal(again["deep/depth"][:], array[:])
    ours = durable.store.array(f"{durable.pool_name}/hierarchy/deep/depth")
    np.testing.assert_array_equal(ours[:], array[:])
    assert durable.store.arrays(f"{durable.pool_name}/hierarchy") == [f"{durable.pool_name}/hierarchy/deep/depth"]


def test_a_pickled_store_works_in_another_process(durable):
    store = zarr_store(durable.store, durable.pool_name, "pickled")
    zarr.create_array(store, data=np.arange(4))
    code = "import pickle, sys, zarr; print(zarr.open_array(pickle.load(sys.stdin.buffer))[:].sum())"
    done = subprocess.run([sys.executable, "-P", "-c", code], input=pickle.dumps(store), capture_output=True, check=True)
    assert done.stdout == b"6\n"


def test_a_store_in_memory_cannot_be_pickled():
    with benthic.connect("mem:") as store:
        store.create_pool("p")
        with pytest.raises(benthic.UnsupportedError):
            pickle.dumps(zarr_store(store, "p"))
        assert zarr_store(store, "p") == zarr_store(store, "p")
        with benthic.connect("mem:") as other:
            assert zarr_store(store, "p") != zarr_store(other, "p")
