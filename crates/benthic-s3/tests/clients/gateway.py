"""Runs the gateway as a separate program on each engine, and creates HTTP clients for it."""

import contextlib
import json
import os
import pathlib
import random
import socket
import subprocess
import uuid

import boto3
import botocore.config
import pytest
from operations import record_operation

PROGRAMS = pathlib.Path(__file__).resolve().parents[4] / "target" / "release"
LONG = os.environ.get("BENTHIC_TEST_LONG") == "1"
CEPH = pytest.param("ceph", marks=pytest.mark.ceph)
ONLY_LONG = [pytest.mark.ceph, pytest.mark.skipif(not LONG, reason="`make test-long` runs it")]
# Ceph with the data in an erasure-coded pool, which runs no methods that read.
ERASURE_CODED = pytest.param("erasure-coded", marks=ONLY_LONG)


def free_port():
    """A port outside the kernel's range for clients, so that no client takes it while the gateway
    restarts.
    """
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class Gateway:
    """A running gateway, with the access key of its first start."""

    def __init__(self, store, dir, pool, *options, data_pool=None):
        self.store = store
        self.dir = dir
        self.pool = pool
        self.data_pool = data_pool
        self.pools = ["--pool", pool, *(["--data-pool", data_pool] if data_pool else [])]
        # Where a method runs that reads an object in one piece.
        self.methods_at = "gateway" if data_pool else "store"
        self.key_file = str(dir / "sealing.key")
        self.options = options
        self.process = None
        self.listen = f"127.0.0.1:{free_port()}"
        self.access_key = self.secret_key = None

    def start(self):
        args = ["s3", "serve", "--listen", self.listen, *self.pools, *self.options]
        log = open(self.dir / "gateway.log", "a")
        self.process = subprocess.Popen(self.command(args), stdout=subprocess.PIPE, stderr=log)
        line = self.process.stdout.readline()
        assert line, self.log()
        started = json.loads(line)
        self.url = started["url"]
        if started["access_key"]:
            self.access_key, self.secret_key = started["access_key"], started["secret_key"]
        return self

    def log(self):
        """The gateway's log so far."""
        return (self.dir / "gateway.log").read_text()

    def stop(self):
        """Stops the gateway with SIGTERM; does nothing if it is not running."""
        self.process.terminate()
        self.process.wait(30)

    def kill(self):
        self.process.kill()
        self.process.wait(30)

    def command(self, args):
        return [str(PROGRAMS / "benthic-s3"), "--store", self.store, "--json", *args, "--sealing-key", self.key_file]

    def spawn(self, *args):
        """Starts a verb while the gateway runs."""
        args = ["s3", args[0], *self.pools, *args[1:]]
        return subprocess.Popen(self.command(args), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run(self, *args):
        """Runs a verb while the gateway runs, and returns its JSON lines."""
        verb = self.spawn(*args)
        out, err = verb.communicate(timeout=120)
        assert verb.returncode == 0, out + err
        return [json.loads(line) for line in out.splitlines()]

    def create_pool(self, name):
        """Creates another pool in the store of the gateway."""
        command = [str(PROGRAMS / "benthic"), "--store", self.store, "pool", "create", name]
        subprocess.run(command, check=True, capture_output=True, timeout=60)

    def remove_pool(self, name):
        """Removes a pool of the store; the gateway must not run."""
        command = [str(PROGRAMS / "benthic"), "--store", self.store, "pool", "rm", name, "--yes", name]
        subprocess.run(command, check=True, capture_output=True, timeout=60)

    def objects(self, pool=None):
        """The names of all objects in this gateway's pool, or in another one."""
        pool = pool or self.pool
        command = [str(PROGRAMS / "benthic"), "--store", self.store, "--json", "ls", pool, "--all-namespaces", "--hidden"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        return [json.loads(line)["object"] for line in done.stdout.splitlines()]

    def check(self, bucket, expected):
        """Checks that a bucket's index is sound, and that its totals equal those that clients
        see.
        """
        found = self.run("bucket", "check", bucket)[0]
        assert found["findings"] == []
        assert {name: found["usage"][name] for name in expected} == expected
        used = self.run("usage", bucket)[0]
        assert {name: used[name] for name in expected} == expected

    def start_another(self):
        """Starts another gateway on the same store."""
        dir = self.dir / f"beside-{uuid.uuid4().hex[:8]}"
        dir.mkdir()
        other = Gateway(self.store, dir, self.pool, *self.options, data_pool=self.data_pool)
        other.key_file, other.access_key, other.secret_key = self.key_file, self.access_key, self.secret_key
        return other.start()

    def client(self, access_key=None, secret_key=None, verify=None, **options):
        config = botocore.config.Config(
            s3={"addressing_style": "path"},
            signature_version="s3v4",
            retries={"total_max_attempts": 1, "mode": "standard"},
            **options,
        )
        client = boto3.client(
            "s3",
            endpoint_url=self.url,
            region_name="us-east-1",
            aws_access_key_id=access_key or self.access_key,
            aws_secret_access_key=secret_key or self.secret_key,
            config=config,
            verify=verify,
        )
        client.meta.events.register("after-call.s3", record_operation)
        return client

    def environment(self):
        """Environment variables for third-party programs."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.dir),
            "AWS_ENDPOINT_URL": self.url,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
        }


def store_of(engine, dir):
    if engine == "file":
        return f"file:{dir}/store"
    conf = os.environ.get("BENTHIC_TEST_CEPH_CONF")
    assert conf, "this test needs a real Ceph cluster; `make test` starts one"
    return f"ceph:?conf={conf}"


def ceph(*args):
    command = ["ceph", "--conf", os.environ["BENTHIC_TEST_CEPH_CONF"], *args]
    subprocess.run(command, check=True, capture_output=True, timeout=60)


def create_erasure_coded_pool(name):
    """Creates an erasure-coded pool on three OSDs."""
    ceph("osd", "erasure-code-profile", "set", "s3-tests", "k=2", "m=1", "crush-failure-domain=osd")
    ceph("osd", "pool", "create", name, "8", "8", "erasure", "s3-tests")


@contextlib.contextmanager
def running(engine, dir, *options):
    pool = f"s3-{uuid.uuid4().hex[:12]}"
    store = store_of(engine, dir)
    data_pool = None
    if engine == "erasure-coded":
        data_pool = f"{pool}-data"
        create_erasure_coded_pool(data_pool)
    gateway = Gateway(store, dir, pool, *options, data_pool=data_pool).start()
    try:
        yield gateway
    finally:
        gateway.stop()
        if engine != "file":
            for name in filter(None, [pool, data_pool]):
                gateway.remove_pool(name)
