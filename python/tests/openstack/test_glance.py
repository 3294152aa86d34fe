"""The store of Glance, through glance_store's own interface."""

import hashlib
import io
import os
import re
from pathlib import Path

import glance_store
import pytest
from glance_store import driver, exceptions, location, multi_backend
from oslo_config import cfg
from services import MIB, PROGRAM, BenthicStore, GlanceStores, noise

from benthic.openstack.program import Benthic
from benthic.openstack.server import Server


@pytest.fixture
def store(tmp_path):
    return BenthicStore(f"file:{tmp_path}/store")


@pytest.fixture
def glance(store):
    return GlanceStores(store)


@pytest.mark.parametrize("len_bytes", [0, 1, 511, 513, 4 * MIB, 8 * MIB, 9 * MIB + 12345])
def test_an_image_has_the_bytes_and_the_size_of_its_file(glance, store, len_bytes):
    data = noise(len_bytes)
    record = glance.add(data)
    assert record["uri"] == f"benthic://volumes/{record['id']}"
    assert record["size"] == len_bytes
    assert record["checksum"] == hashlib.md5(data).hexdigest()
    assert record["multihash"] == hashlib.sha512(data).hexdigest()
    assert glance.get(record["id"]) == (data, len_bytes)
    assert glance_store.get_size_from_backend(record["uri"]) == len_bytes
    glance.delete(None, record["id"])
    assert store.images() == {}


def test_an_image_of_unknown_size(glance):
    data = noise(5 * MIB)
    record = glance.add(io.BytesIO(data), size=0)
    assert record["size"] == 5 * MIB
    assert glance.get(record["id"])[0] == data


def test_a_range_of_an_image(glance):
    data = noise(9 * MIB)
    image = glance.add(data)["id"]
    assert glance.get(image, offset=5 * MIB + 3) == (data[5 * MIB + 3 :], 4 * MIB - 3)
    assert glance.get(image, offset=100, chunk_size=10) == (data[100:110], 10)
    assert glance.get(image, chunk_size=5 * MIB) == (data[: 5 * MIB], 5 * MIB)
    assert glance.get(image, offset=9 * MIB - 2, chunk_size=10) == (data[-2:], 2)
    assert glance.get(image, offset=20 * MIB) == (b"", 0)


def test_zeros_take_no_space(glance, store):
    image = glance.add(bytes(64 * MIB))["id"]
    [usage] = store.benthic("image", "du", f"volumes/{image}")
    assert usage["used_bytes"] == 0
    assert glance.get(image) == (bytes(64 * MIB), 64 * MIB)


def test_a_reader_that_stops_early_leaves_no_process(glance):
    image = glance.add(noise(32 * MIB))["id"]
    data, _ = glance_store.get_from_backend(glance.records[image]["uri"])
    assert next(data)
    data.close()
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    assert not any("export" in Path(f"/proc/{child}/cmdline").read_text().split("\0") for child in children)


def test_a_verifier_receives_the_bytes(glance):
    class Verifier:
        data = b""

        def update(self, chunk):
            self.data += chunk

    data, verifier = noise(5 * MIB), Verifier()
    glance.add(data, verifier=verifier)
    assert verifier.data == data


class Failing(io.BytesIO):
    """A stream that fails after a number of bytes that import reads in one piece."""

    def read(self, size=-1):
        if self.tell() == 8 * MIB:
            raise ConnectionResetError("the client is gone")
        return super().read(size)


def test_an_interrupted_upload_leaves_nothing(glance, store):
    with pytest.raises(ConnectionResetError, match="the client is gone"):
        glance.add(Failing(noise(16 * MIB)), image_id="broken", size=16 * MIB)
    assert store.images() == {}
    assert glance.add(b"again", image_id="broken")["size"] == 5


@pytest.mark.parametrize("announced", [4 * MIB, 9 * MIB])
def test_an_image_with_another_size_than_announced_is_refused(glance, store, announced):
    with pytest.raises(exceptions.Invalid, match=f"size={8 * MIB} announced={announced}"):
        glance.add(io.BytesIO(noise(8 * MIB)), size=announced)
    assert store.images() == {}


def test_an_existing_image_is_not_replaced(glance, store):
    glance.add(b"first", image_id="same")
    with pytest.raises(exceptions.Duplicate, match="already exists"):
        glance.add(b"second", image_id="same")
    assert glance.get("same") == (b"first", 5)
    assert list(store.images()) == ["same"]


def test_an_image_with_clones_cannot_be_deleted(glance, store):
    image = glance.add(noise(MIB))["id"]
    store.benthic("image", "clone", f"volumes/{image}@glance", "volumes/clone")
    with pytest.raises(exceptions.InUseByStore, match="volumes are clones of the image"):
        glance.delete(None, image)
    assert glance.get(image)[1] == MIB
    store.benthic("image", "rm", "volumes/clone", "--yes", "clone")
    glance.delete(None, image)
    assert store.images() == {}


def test_an_image_in_use_stays_readable(glance, store, tmp_path):
    image = glance.add(noise(MIB))["id"]
    server = Server(Benthic(PROGRAM, store.uri, store.pool), str(tmp_path), image)
    server.start()
    try:
        with pytest.raises(exceptions.InUseByStore, match="another program has the image open"):
            glance.delete(None, image)
        assert glance.get(image) == (noise(MIB), MIB)
    finally:
        server.stop()
    glance.delete(None, image)
    assert store.images() == {}


def test_an_interrupted_deletion_continues(glance, store):
    image = glance.add(noise(MIB))["id"]
    store.benthic("image", "snap", "rm", f"volumes/{image}@glance")
    glance.delete(None, image)
    assert store.images() == {}


def test_missing_images(glance, store):
    for call in (glance_store.get_from_backend, glance_store.get_size_from_backend, glance_store.delete_from_backend):
        with pytest.raises(exceptions.NotFound, match="no such image"):
            call("benthic://volumes/missing")
    with pytest.raises(exceptions.BackendException, match="no such pool"):
        glance_store.delete_from_backend("benthic://missing/image")


@pytest.mark.parametrize(
    "uri", ["benthic://", "benthic://pool", "benthic://pool/", "benthic:///image", "benthic://a/b/c"]
)
def test_malformed_addresses(glance, uri):
    with pytest.raises(exceptions.BadStoreUri):
        glance_store.get_from_backend(uri)


def test_names_are_quoted_in_addresses(tmp_path):
    glance = GlanceStores(BenthicStore(f"file:{tmp_path}/store", "a pool"))
    record = glance.add(b"data", image_id="an image%?")
    assert record["uri"] == "benthic://a%20pool/an%20image%25%3F"
    assert glance.get("an image%?") == (b"data", 4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"benthic_program": "/missing/benthic"}, "cannot start the program benthic.*program=/missing/benthic"),
        ({"benthic_store": "file:/missing/store"}, "there is no store here"),
        ({"benthic_store": None}, "benthic_store must be"),
        ({"benthic_store": "mem:"}, "benthic_store must be"),
        ({"benthic_pool": "missing"}, "no such pool"),
    ],
)
def test_a_wrong_configuration_disables_uploads(store, caplog, options, message):
    glance = GlanceStores(store, **options)
    assert re.search(message, caplog.text)
    with pytest.raises(exceptions.StoreAddDisabled):
        glance.add(b"data")


def test_several_stores(tmp_path, monkeypatch):
    conf = cfg.ConfigOpts()
    for module in (driver, location, multi_backend):
        monkeypatch.setattr(module, "CONF", conf)
    conf.register_opt(cfg.DictOpt("enabled_backends"))
    conf.set_override("enabled_backends", {"fast": "benthic", "slow": "benthic"})
    glance_store.register_store_opts(conf)
    conf.set_override("default_backend", "fast", group="glance_store")
    for name in ("fast", "slow"):
        store = BenthicStore(f"file:{tmp_path}/{name}", name)
        options = {"benthic_store": store.uri, "benthic_pool": name, "benthic_program": PROGRAM}
        for option, value in options.items():
            conf.set_override(option, value, group=name)
    conf([], default_config_files=[])
    glance_store.create_multi_stores(conf)
    added = glance_store.add_with_multihash(conf, "image", io.BytesIO(b"data"), 4, "slow", "sha256")
    assert (added[0], added[1], added[4]) == ("benthic://slow/image", 4, {"store": "slow"})
    data, size = glance_store.get(added[0], "slow")
    assert (b"".join(data), size) == (b"data", 4)
    glance_store.delete(added[0], "slow")
    with pytest.raises(exceptions.NotFound):
        glance_store.get(added[0], "slow")
