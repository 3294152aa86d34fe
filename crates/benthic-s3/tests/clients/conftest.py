"""The gateway as a program of its own, over HTTP, on each engine; and clients of it."""

import contextlib
import itertools
import json
import os
import pathlib
import subprocess
import uuid

import boto3
import botocore.config
import pytest

PROGRAMS = pathlib.Path(__file__).parents[4] / "target" / "release"
CEPH = pytest.param("ceph", marks=pytest.mark.ceph)
NUMBERS = itertools.count()


class Gateway:
    """A gateway that runs, and the key of its first start."""

    def __init__(self, store, dir, pool, *options):
        self.store = store
        self.dir = dir
        self.pool = pool
        self.key_file = str(dir / "sealing.key")
        self.options = options
        self.process = None
        self.access_key = self.secret_key = None

    def start(self):
        args = ["s3", "serve", "--listen", "127.0.0.1:0", "--pool", self.pool, *self.options]
        log = open(self.dir / "gateway.log", "a")
        self.process = subprocess.Popen(self.command(args), stdout=subprocess.PIPE, stderr=log)
        line = self.process.stdout.readline()
        assert line, (self.dir / "gateway.log").read_text()
        told = json.loads(line)
        self.url = told["url"]
        if told["access_key"]:
            self.access_key, self.secret_key = told["access_key"], told["secret_key"]
        return self

    def stop(self):
        self.process.terminate()
        self.process.wait(30)

    def kill(self):
        self.process.kill()
        self.process.wait(30)

    def command(self, args):
        return [str(PROGRAMS / "benthic-s3"), "--store", self.store, "--json", *args, "--sealing-key", self.key_file]

    def run(self, *args):
        """Runs a verb beside the gateway, and gives its lines."""
        args = [args[0], "--pool", self.pool, *args[1:]]
        done = subprocess.run(self.command(["s3", *args]), capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def client(self, access_key=None, secret_key=None, **options):
        config = botocore.config.Config(
            s3={"addressing_style": "path"},
            signature_version="s3v4",
            retries={"max_attempts": 1, "mode": "standard"},
            **options,
        )
        return boto3.client(
            "s3",
            endpoint_url=self.url,
            region_name="us-east-1",
            aws_access_key_id=access_key or self.access_key,
            aws_secret_access_key=secret_key or self.secret_key,
            config=config,
        )

    def environment(self):
        """What programs of others take."""
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
    assert conf, "this test takes a real Ceph cluster; `make test` starts one"
    return f"ceph:?conf={conf}"


@contextlib.contextmanager
def running(engine, dir, *options):
    gateway = Gateway(store_of(engine, dir), dir, f"s3-{uuid.uuid4().hex[:12]}", *options).start()
    try:
        yield gateway
    finally:
        gateway.stop()
        if engine == "ceph":
            command = [str(PROGRAMS / "benthic"), "--store", gateway.store, "pool", "rm", gateway.pool]
            subprocess.run(command, check=True, capture_output=True)


@pytest.fixture(scope="session", params=["file", CEPH])
def gateway(request, tmp_path_factory):
    """On every engine that people keep data in."""
    with running(request.param, tmp_path_factory.mktemp("gateway")) as gateway:
        yield gateway


@pytest.fixture
def own_gateway(tmp_path):
    """For tests that stop it."""
    with running("file", tmp_path) as gateway:
        yield gateway


@pytest.fixture(scope="session")
def s3(gateway):
    return gateway.client()


@pytest.fixture
def bucket(s3):
    """A bucket of its own."""
    name = f"bucket-{next(NUMBERS)}-{uuid.uuid4().hex[:8]}"
    s3.create_bucket(Bucket=name)
    return name


@pytest.fixture(scope="session")
def code_of():
    """The error that a call ends with: its code and its status."""

    def code_of(call, *args, **named):
        with pytest.raises(Exception) as failed:
            call(*args, **named)
        answer = failed.value.response
        return answer["Error"]["Code"], answer["ResponseMetadata"]["HTTPStatusCode"]

    return code_of
