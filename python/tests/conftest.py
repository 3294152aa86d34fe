"""Stores for tests: in memory, in a directory, and, for tests marked ``ceph``, on a real cluster.
"""

import itertools
import os
import uuid

import benthic
import pytest

CEPH = pytest.param("ceph", marks=pytest.mark.ceph)
NUMBERS = itertools.count()


def store_uri(engine, tmp_path_factory):
    if engine == "mem":
        return "mem:"
    if engine == "file":
        return f"file:{tmp_path_factory.mktemp('store')}/s"
    conf = os.environ.get("BENTHIC_TEST_CEPH_CONF")
    assert conf, "this test needs a real Ceph cluster; `make test-ceph` starts one and runs the test"
    return f"ceph:?conf={conf}"


class Patched:
    """A native object with some methods replaced."""

    def __init__(self, native, **methods):
        self._native = native
        vars(self).update(methods)

    def __getattr__(self, name):
        return getattr(self._native, name)


@pytest.fixture(scope="session")
def patched():
    """Replaces some methods of a native object."""
    return Patched


class Place:
    """A store with a pool. Tests share it, so each uses unique names."""

    def __init__(self, store, pool_name):
        self.store = store
        self.pool_name = pool_name

    def pool(self):
        return self.store.pool(self.pool_name, f"test-{next(NUMBERS)}")

    def address(self):
        return f"{self.pool_name}/t{next(NUMBERS)}"

    def table(self, data, **options):
        return self.store.create_table(self.address(), data, **options)


def open_place(engine, tmp_path_factory):
    with benthic.connect(store_uri(engine, tmp_path_factory)) as store:
        name = f"py-{uuid.uuid4().hex[:12]}"
        store.create_pool(name)
        try:
            yield Place(store, name)
        finally:
            store.remove_pool(name)


@pytest.fixture(scope="session")
def uri_of(tmp_path_factory):
    """Returns the URI of a new store of an engine."""
    return lambda engine: store_uri(engine, tmp_path_factory)


@pytest.fixture(scope="session", params=["mem", "file", CEPH])
def place(request, tmp_path_factory):
    """On every engine."""
    yield from open_place(request.param, tmp_path_factory)


@pytest.fixture(scope="session", params=["file", CEPH])
def durable(request, tmp_path_factory):
    """On the engines with durable storage."""
    yield from open_place(request.param, tmp_path_factory)


@pytest.fixture(scope="session", params=["mem", CEPH])
def beside(request, tmp_path_factory):
    """On the engines where fragments run beside objects: in this process, and in OSDs."""
    yield from open_place(request.param, tmp_path_factory)


@pytest.fixture(scope="session")
def in_memory(tmp_path_factory):
    """In memory, for tests that do not depend on the engine."""
    yield from open_place("mem", tmp_path_factory)


@pytest.fixture(scope="session", params=["file", CEPH])
def lake(request, tmp_path_factory):
    """Tables for distributed engines, in a store that several processes can open."""
    # The tests of the OpenStack drivers have no pyarrow.
    from engine_tables import Lake

    for place in open_place(request.param, tmp_path_factory):
        yield Lake(place.store, place.pool_name)


@pytest.fixture
def pool(place):
    """A namespace that no other test uses, on every engine."""
    return place.pool()
