"""Fixtures: gateways and buckets."""

import itertools
import os
import subprocess
import uuid

import pytest
import seeds

pytest.register_assert_rewrite("gateway", "load")

from gateway import CEPH, ERASURE_CODED, LONG, running

NUMBERS = itertools.count()
# The gateway decides these cases in the same way on every store. The suite of the SAL tests records and encryption on Ceph.
ON_ANY_STORE = ["test_encryption", "test_iam", "test_policies", "test_roles", "test_web_identity"]


@pytest.fixture(params=["file", CEPH, ERASURE_CODED])
def engine(request):
    """Every engine with durable storage."""
    return request.param


@pytest.fixture
def seed():
    """The seed of all randomness in a test."""
    return seeds.one()


@pytest.fixture(scope="session", params=["file", CEPH, ERASURE_CODED])
def gateway(request, tmp_path_factory):
    """A shared gateway on every engine with durable storage."""
    with running(request.param, tmp_path_factory.mktemp("gateway")) as gateway:
        yield gateway


@pytest.fixture
def own_gateway(tmp_path):
    """A gateway for tests that stop it."""
    with running("file", tmp_path) as gateway:
        yield gateway


@pytest.fixture(scope="session")
def s3(gateway):
    return gateway.client()


@pytest.fixture
def bucket(s3):
    """A new bucket."""
    name = f"bucket-{next(NUMBERS)}-{uuid.uuid4().hex[:8]}"
    s3.create_bucket(Bucket=name)
    return name


@pytest.fixture(scope="module")
def watching(tmp_path_factory):
    """A gateway that searches for events every second."""
    with running("file", tmp_path_factory.mktemp("events"), "--events-every", "1") as gateway:
        yield gateway


@pytest.fixture
def client(watching):
    return watching.client(max_pool_connections=20)


@pytest.fixture
def photos(client):
    """A new bucket of that gateway."""
    name = f"photos-{uuid.uuid4().hex[:8]}"
    client.create_bucket(Bucket=name)
    return name


def create_certificate(dir, *options):
    """Creates a self-signed certificate and its key."""
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    command += ["-subj", "/CN=gateway", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run([*command, *options], cwd=dir, check=True, capture_output=True)
    return str(dir / "cert.pem"), str(dir / "key.pem")


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    """A self-signed certificate and its key."""
    return create_certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="session")
def leaf_certificate(tmp_path_factory):
    """The same, but not that of an authority, which rustls does not accept from a server."""
    return create_certificate(tmp_path_factory.mktemp("tls"), "-addext", "basicConstraints=critical,CA:FALSE")


@pytest.fixture(scope="session")
def code_of():
    """Calls a function that must fail; returns the error's code and HTTP status."""

    def code_of(call, *args, **named):
        with pytest.raises(Exception) as failed:
            call(*args, **named)
        answer = failed.value.response
        return answer["Error"]["Code"], answer["ResponseMetadata"]["HTTPStatusCode"]

    return code_of


def pytest_collection_modifyitems(items):
    """Skips on Ceph what needs no Ceph, and moves the test that needs the results of all others to
    the end.
    """
    for item in items:
        if item.path.stem in ON_ANY_STORE and item.get_closest_marker("ceph") and not LONG:
            item.add_marker(pytest.mark.skip(reason="`make test-long` runs it on Ceph, too"))
    items.sort(key=lambda item: item.name == "test_the_table_matches_this_run")
