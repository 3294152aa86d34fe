"""Kills gateways and OSDs under load: acknowledged writes survive, data are never mixed, and
nothing leaks.
"""

import concurrent.futures
import contextlib
import os
import random
import shutil
import subprocess
import time

import botocore.exceptions
import pytest
from gateway import CEPH, ERASURE_CODED, LONG, PROGRAMS, running
from load import Load
from raw import request

KILLS = 200 if LONG else 8


def check_nothing_is_left(gateway, client, loads):
    """Deletes all objects and buckets and collects garbage; then the store must hold only the
    directory.
    """
    for load in loads:
        load.empty(client)
        gateway.check(load.bucket, {"objects": 0, "bytes": 0})
        client.delete_bucket(Bucket=load.bucket)
    gateway.run("gc", "run", "--all")
    status = gateway.run("gc", "status")[0]
    assert status == {name: 0 for name in status}
    assert gateway.objects() == ["directory"]
    assert gateway.data_pool is None or gateway.objects(gateway.data_pool) == []


def make_buckets(client):
    client.create_bucket(Bucket="plain")
    client.create_bucket(Bucket="versions")
    client.put_bucket_versioning(Bucket="versions", VersioningConfiguration={"Status": "Enabled"})
    return ["plain", "versions"]


def check_all(gateway, client, plain, versions):
    gateway.check(plain.bucket, plain.check(client))
    gateway.check(versions.bucket, {"objects": versions.check(client)["objects"]})


def test_a_gateway_is_killed_under_load(engine, tmp_path, seed):
    rng = random.Random(seed)
    with running(engine, tmp_path) as gateway:
        client = gateway.client(connect_timeout=5, read_timeout=60, max_pool_connections=20)
        given = {"errors_allowed": ["connection"], "late": engine != "file"}
        loads = [Load([client], bucket, rng.random(), **given) for bucket in make_buckets(client)]
        for _ in range(KILLS):
            with contextlib.ExitStack() as stack:
                for load in loads:
                    stack.enter_context(load.running())
                rng.choice(loads).wait(rng.randrange(1, 60))
                gateway.kill()
            gateway.start()
            check_all(gateway, client, *loads)
            # Kill a collector too.
            collector = gateway.spawn("gc", "run", "--all")
            with contextlib.suppress(subprocess.TimeoutExpired):
                collector.communicate(timeout=rng.uniform(0, 0.2))
            collector.kill()
            collector.communicate()
        versions = loads[1].check_versions(client)
        gateway.run("gc", "run", "--all")
        check_all(gateway, client, *loads)
        gateway.check("versions", versions)
        print({"acknowledged": sum(load.acknowledged for load in loads), "failed": sum(load.failed for load in loads)})
        check_nothing_is_left(gateway, client, loads)


def test_everything_is_collected_under_load(engine, tmp_path, seed):
    """Collecting all garbage at once may fail running requests, but acknowledged writes stay."""
    if engine == "ceph" and not LONG:
        pytest.skip("takes minutes on a cluster")
    with running(engine, tmp_path) as gateway:
        client = gateway.client(max_pool_connections=20)
        allowed = ["connection", 500, 503]
        loads = [Load([client], bucket, f"{seed} {bucket}", allowed) for bucket in make_buckets(client)]
        for _ in range(20 if LONG else 2):
            with contextlib.ExitStack() as stack:
                for load in loads:
                    stack.enter_context(load.running())
                for _ in range(3):
                    loads[0].wait(20)
                    gateway.run("gc", "run", "--all")
            check_all(gateway, client, *loads)
        check_nothing_is_left(gateway, client, loads)


def cluster(*args):
    """Runs a verb of `benthic cluster` on the test cluster."""
    place = ["--dir", os.path.dirname(os.environ["BENTHIC_TEST_CEPH_CONF"])]
    subprocess.run([str(PROGRAMS / "benthic"), "cluster", *args, *place], check=True, capture_output=True, timeout=300)


@pytest.mark.parametrize("store", [CEPH, ERASURE_CODED])
def test_an_osd_is_killed_under_load(store, tmp_path, seed):
    """Requests succeed or report an error; no acknowledged write is lost."""
    rng = random.Random(seed)
    with running(store, tmp_path) as gateway:
        client = gateway.client(read_timeout=300, max_pool_connections=20)
        loads = [Load([client], bucket, rng.random(), [500, 503], late=True) for bucket in make_buckets(client)]
        for round in range(30 if LONG else 2):
            osd = f"osd.{round % 3}"
            with contextlib.ExitStack() as stack:
                for load in loads:
                    stack.enter_context(load.running())
                loads[0].wait(rng.randrange(10, 100))
                cluster("kill", osd)
                try:
                    for load in loads:
                        load.wait(50, timeout=300)
                finally:
                    cluster("start", osd)
            check_all(gateway, client, *loads)
        versions = loads[1].check_versions(client)
        gateway.run("gc", "run", "--all")
        check_all(gateway, client, *loads)
        gateway.check("versions", versions)
        check_nothing_is_left(gateway, client, loads)


@pytest.fixture
def small_disk(tmp_path):
    """A directory with a small file system."""
    dir = tmp_path / "store"
    dir.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96m", "tmpfs", str(dir)], check=False).returncode != 0:
        pytest.skip("only root may mount a file system")
    yield tmp_path
    subprocess.run(["umount", str(dir)], check=True)


def test_a_full_disk(small_disk, code_of):
    """A write that does not fit is refused and leaves nothing; existing objects can be read and
    removed.
    """
    with running("file", small_disk) as gateway:
        client = gateway.client()
        client.create_bucket(Bucket="full")
        data = os.urandom(3 << 20)
        put = lambda key: client.put_object(Bucket="full", Key=key, Body=data)
        stored = []
        with pytest.raises(client.exceptions.ClientError) as refused:
            for number in range(60):
                put(f"key {number}")
                stored.append(f"key {number}")
        answer = refused.value.response
        assert (answer["Error"]["Code"], answer["ResponseMetadata"]["HTTPStatusCode"]) == ("InsufficientStorage", 507)
        # The error must not reveal the gateway's storage to clients.
        assert "benthic" not in str(answer["Error"])
        assert "WARN" in gateway.log() and "a request failed" in gateway.log()
        upload = client.create_multipart_upload(Bucket="full", Key="parts")["UploadId"]
        part = lambda: client.upload_part(Bucket="full", Key="parts", UploadId=upload, PartNumber=1, Body=data)
        assert code_of(part) == ("InsufficientStorage", 507)
        assert sorted(stored) == [entry["Key"] for entry in client.list_objects_v2(Bucket="full")["Contents"]]
        assert client.get_object(Bucket="full", Key=stored[0])["Body"].read() == data
        gateway.check("full", {"objects": len(stored), "bytes": len(stored) * len(data)})
        for key in stored:
            client.delete_object(Bucket="full", Key=key)
        gateway.run("gc", "run", "--all")
        # The engine frees the space after its next checkpoint.
        until = time.monotonic() + 60
        while failure_of(lambda: put("again")):
            assert time.monotonic() < until
        assert client.get_object(Bucket="full", Key="again")["Body"].read() == data


def test_a_store_whose_directory_is_removed(tmp_path):
    """The gateway must not acknowledge a write that would be lost."""
    with running("file", tmp_path) as gateway:
        client = gateway.client()
        client.create_bucket(Bucket="gone")
        shutil.rmtree(tmp_path / "store")
        for _ in range(3):
            failure = failure_of(lambda: client.put_object(Bucket="gone", Key="a", Body=b"data"))
            assert failure in [("ServiceUnavailable", 503), ("InternalError", 500)]


@pytest.mark.ceph
@pytest.mark.skipif(not LONG, reason="waits minutes for time-outs")
def test_an_unreachable_cluster(tmp_path):
    """Requests fail with a clear error and leave nothing half done. All works again when the
    cluster is back.
    """
    with running("ceph", tmp_path) as gateway:
        client = gateway.client(read_timeout=600, max_pool_connections=20)
        client.create_bucket(Bucket="gone")
        client.put_object(Bucket="gone", Key="there", Body=b"data" * 10_000)
        calls = [
            lambda: client.put_object(Bucket="gone", Key="new", Body=b"new" * 10_000),
            lambda: client.put_object(Bucket="gone", Key="there", Body=b"over" * 10_000),
            lambda: client.get_object(Bucket="gone", Key="there"),
            lambda: client.list_objects_v2(Bucket="gone"),
            lambda: client.delete_object(Bucket="gone", Key="there"),
            lambda: client.create_multipart_upload(Bucket="gone", Key="parts"),
        ]
        osds = [f"osd.{number}" for number in range(3)]
        try:
            for osd in osds:
                cluster("kill", osd)
            with concurrent.futures.ThreadPoolExecutor(len(calls)) as threads:
                failures = list(threads.map(failure_of, calls))
            assert request(gateway, "GET", "/-/health")[0] == 503
        finally:
            for osd in osds:
                cluster("start", osd)
        for failure in failures:
            assert failure in [("ServiceUnavailable", 503), ("SlowDown", 503), ("InternalError", 500)]
        assert client.get_object(Bucket="gone", Key="there")["Body"].read() == b"data" * 10_000
        assert [entry["Key"] for entry in client.list_objects_v2(Bucket="gone")["Contents"]] == ["there"]
        gateway.check("gone", {"objects": 1, "bytes": 40_000})
        client.put_object(Bucket="gone", Key="new", Body=b"new")


def failure_of(call):
    try:
        call()
    except botocore.exceptions.ClientError as error:
        return error.response["Error"]["Code"], error.response["ResponseMetadata"]["HTTPStatusCode"]
