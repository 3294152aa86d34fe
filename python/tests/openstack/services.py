"""A Benthic store, Glance's stores on it, and NBD clients."""

import io
import json
import os
import random
import subprocess
import uuid
from pathlib import Path

import glance_store
from glance_store import backend
from oslo_config import cfg

PROGRAM = str(Path(__file__).parents[3] / "target/release/benthic")
MIB = 1 << 20
GIB = 1 << 30


def run(*command, **options):
    """Runs a program that must succeed, and returns its output."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def ceph_store():
    """A new pool on the cluster of `make test-ceph`."""
    conf = os.environ.get("BENTHIC_TEST_CEPH_CONF")
    assert conf, "this test needs a real Ceph cluster; `make test-ceph` starts one and runs the test"
    return BenthicStore(f"ceph:?conf={conf}", f"cinder-{uuid.uuid4().hex[:12]}")


class BenthicStore:
    """A store with a pool."""

    def __init__(self, uri, pool="volumes"):
        self.uri = uri
        self.pool = pool
        self.benthic("pool", "create", pool)

    def benthic(self, *arguments):
        output = run(PROGRAM, "--json", "--store", self.uri, *arguments)
        return [json.loads(line) for line in output.splitlines()]

    def images(self):
        """The names of all images, each with its parent."""
        found = self.benthic("image", "ls", self.pool)
        return {image["image"].partition("/")[2]: image["parent"] for image in found}

    def info(self, image):
        [info] = self.benthic("image", "info", f"{self.pool}/{image}")
        return info

    def snapshots(self, image):
        return [snapshot["snapshot"] for snapshot in self.info(image)["snapshots"]]

    def read(self, image, path):
        """The first 4 MiB of an image, up to the last byte that is not zero."""
        copy = path / f"copy-{uuid.uuid4().hex}"
        self.benthic("image", "export", f"{self.pool}/{image}", copy)
        with copy.open("rb") as file:
            return file.read(4 * MIB).rstrip(b"\0")

    def write(self, image, data, path):
        """Writes to the beginning of an image that no program has open."""
        socket = path / "write.sock"
        server = subprocess.Popen(
            [PROGRAM, "--store", self.uri, "image", "serve", "--listen", f"unix:{socket}", f"{self.pool}/{image}"],
            stdout=subprocess.PIPE,
        )
        assert server.stdout.readline()
        write_nbd(f"nbd+unix:///{self.pool}/{image}?socket={socket}", data, path)
        server.terminate()
        server.communicate()


def read_nbd(uri, path):
    """Reads the first 4 MiB of an export with QEMU's client, up to the last byte that is not zero."""
    copy = path / f"nbd-{uuid.uuid4().hex}"
    run("qemu-img", "dd", "-f", "raw", "-O", "raw", "bs=1M", "count=4", f"if={uri}", f"of={copy}")
    return copy.read_bytes().rstrip(b"\0")


def write_nbd(uri, data, path):
    """Writes to the beginning of an export with QEMU's client."""
    source = path / f"nbd-{uuid.uuid4().hex}"
    source.write_bytes(data)
    run("qemu-io", "-f", "raw", "-c", f"write -s {source} 0 {len(data)}", "-c", "flush", uri)


class GlanceStores:
    """Glance's stores with their real interface, and records of images as Glance has in its database.

    Cinder's image service calls the methods `show`, `download`, `get_location`, `update` and `delete`.
    """

    def __init__(self, store, **options):
        self.conf = cfg.ConfigOpts()
        backend.register_opts(self.conf)
        values = {"stores": ["benthic"], "benthic_store": store.uri, "benthic_program": PROGRAM}
        for name, value in (values | {"benthic_pool": store.pool} | options).items():
            self.conf.set_override(name, value, group="glance_store")
        self.conf([], default_config_files=[])
        glance_store.create_stores(self.conf)
        self.records = {}
        self.temp_images = None

    def add(self, data, image_id=None, size=None, disk_format="raw", verifier=None):
        image_id = image_id or str(uuid.uuid4())
        stream = data if hasattr(data, "read") else io.BytesIO(data)
        size = len(data) if size is None else size
        uri, size_bytes, checksum, multihash, metadata = glance_store.add_to_backend_with_multihash(
            self.conf, image_id, stream, size, "sha512", scheme="benthic", verifier=verifier
        )
        self.records[image_id] = {
            "id": image_id,
            "uri": uri,
            "size": size_bytes,
            "checksum": checksum,
            "multihash": multihash,
            "metadata": metadata,
            "disk_format": disk_format,
            "container_format": "bare",
            "status": "active",
            "properties": {},
        }
        return self.records[image_id]

    def get(self, image_id, **options):
        data, size = glance_store.get_from_backend(self.records[image_id]["uri"], **options)
        return b"".join(data), size

    def show(self, context, image_id):
        return dict(self.records[image_id])

    def get_location(self, context, image_id):
        return self.records[image_id]["uri"], None

    def download(self, context, image_id, data=None, store_id=None):
        chunks, _ = glance_store.get_from_backend(self.records[image_id]["uri"])
        for chunk in chunks:
            data.write(chunk)

    def update(self, context, image_id, image_meta, data=None, **_):
        self.add(data, image_id, 0, self.records[image_id]["disk_format"])

    def reserve(self, disk_format="raw"):
        """The record of an image without bytes, which Cinder uploads."""
        image_id = str(uuid.uuid4())
        record = {"id": image_id, "disk_format": disk_format, "container_format": "bare", "status": "queued"}
        self.records[image_id] = record
        return record

    def delete(self, context, image_id):
        record = self.records[image_id]
        if "uri" in record:
            glance_store.delete_from_backend(record["uri"])
        del self.records[image_id]


def noise(len_bytes, seed=0):
    """Bytes that are the same for the same seed."""
    return random.Random(seed).randbytes(len_bytes)
