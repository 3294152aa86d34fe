"""Gateways and buckets for tests."""

import itertools
import os
import uuid

import pytest
import seeds

pytest.register_assert_rewrite("gateway", "load")

from gateway import CEPH, running

NUMBERS = itertools.count()


@pytest.fixture(params=["file", CEPH])
def engine(request):
    """Every engine that people keep data in."""
    return request.param


@pytest.fixture
def seed():
    """The seed of all that is random in a test."""
    return seeds.one()


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


def pytest_collection_modifyitems(items):
    """What is about the others comes last."""
    items.sort(key=lambda item: item.name == "test_the_table_is_of_this_run")
