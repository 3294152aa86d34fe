"""A gateway near the reader, whose upstream is another gateway."""

import io
import random
import threading
import time
import urllib.request

import boto3.s3.transfer
import botocore.exceptions
import pytest
from gateway import Gateway, running

MIB = 1 << 20


@pytest.fixture(scope="module")
def far(tmp_path_factory):
    with running("file", tmp_path_factory.mktemp("far")) as far:
        yield far


@pytest.fixture
def near(far, tmp_path):
    """A gateway with a cache and a store of its own."""
    near = gateway_near(far, tmp_path)
    near.start()
    yield near
    near.stop()


def gateway_near(far, tmp_path, *more):
    credentials = tmp_path / "credentials"
    lines = ["[default]", f"aws_access_key_id = {far.access_key}", f"aws_secret_access_key = {far.secret_key}"]
    credentials.write_text("\n".join(lines) + "\n")
    options = ["--upstream", far.url, "--cache", str(tmp_path / "cache"), "--cache-bytes", "64MiB"]
    return Gateway(f"file:{tmp_path / 'near'}", tmp_path, "s3", *options, "--upstream-credentials", str(credentials), *more)


def metric(gateway, name):
    with urllib.request.urlopen(f"{gateway.url}/-/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    (value,) = [line.split()[1] for line in lines if line.startswith(f"benthic_s3_{name} ")]
    return int(value)


def read(client, **args):
    return client.get_object(**args)["Body"].read()


def error(call, **args):
    with pytest.raises(botocore.exceptions.ClientError) as failed:
        call(**args)
    answer = failed.value.response
    return answer["ResponseMetadata"]["HTTPStatusCode"], answer["Error"]["Code"], answer["Error"].get("Message", "")


def test_clients_use_the_buckets_of_the_upstream(far, near, seed):
    there, here = far.client(), near.client()
    there.create_bucket(Bucket="begun-there")
    there.put_object(Bucket="begun-there", Key="a/1", Body=b"one", Metadata={"who": "ada"}, ContentType="text/plain")
    here.create_bucket(Bucket="begun-here")
    names = {bucket["Name"] for bucket in here.list_buckets()["Buckets"]}
    assert {"begun-there", "begun-here"} <= names
    got = here.get_object(Bucket="begun-there", Key="a/1")
    assert (got["Body"].read(), got["Metadata"], got["ContentType"]) == (b"one", {"who": "ada"}, "text/plain")
    assert got["ETag"] == there.head_object(Bucket="begun-there", Key="a/1")["ETag"]
    data = random.Random(seed).randbytes(13 * MIB)
    config = boto3.s3.transfer.TransferConfig(multipart_threshold=5 * MIB, multipart_chunksize=5 * MIB)
    here.upload_fileobj(io.BytesIO(data), "begun-here", "large", Config=config, ExtraArgs={"Metadata": {"n": "1"}})
    assert read(there, Bucket="begun-here", Key="large") == data
    assert here.head_object(Bucket="begun-here", Key="large")["Metadata"] == {"n": "1"}
    back = io.BytesIO()
    here.download_fileobj("begun-here", "large", back, Config=config)
    assert back.getvalue() == data
    misses = metric(near, "cache_misses_total")
    assert read(here, Bucket="begun-here", Key="large", Range="bytes=1000000-6000000") == data[1_000_000:6_000_001]
    assert read(here, Bucket="begun-here", Key="large") == data
    assert metric(near, "cache_misses_total") == misses and metric(near, "cache_hits_total") > 0
    here.put_object(Bucket="begun-here", Key="tagged", Body=b"x", Tagging="a=1&b=2")
    assert len(here.get_object_tagging(Bucket="begun-here", Key="tagged")["TagSet"]) == 2
    here.put_object_tagging(Bucket="begun-here", Key="tagged", Tagging={"TagSet": [{"Key": "c", "Value": "3"}]})
    assert there.get_object_tagging(Bucket="begun-here", Key="tagged")["TagSet"] == [{"Key": "c", "Value": "3"}]
    here.copy_object(Bucket="begun-here", Key="copy", CopySource={"Bucket": "begun-there", "Key": "a/1"})
    assert read(there, Bucket="begun-here", Key="copy") == b"one"
    listed = here.list_objects_v2(Bucket="begun-here")["Contents"]
    assert [entry["Key"] for entry in listed] == ["copy", "large", "tagged"]
    there.put_object(Bucket="begun-there", Key="a/1", Body=b"two")
    assert read(here, Bucket="begun-there", Key="a/1") == b"two", "every read asks the upstream"
    here.put_bucket_versioning(Bucket="begun-here", VersioningConfiguration={"Status": "Enabled"})
    old = here.put_object(Bucket="begun-here", Key="v", Body=b"old")["VersionId"]
    here.put_object(Bucket="begun-here", Key="v", Body=b"new")
    assert read(here, Bucket="begun-here", Key="v", VersionId=old) == b"old"
    assert read(here, Bucket="begun-here", Key="v") == b"new"
    assert error(here.put_object, Bucket="begun-here", Key="v", Body=b"", IfNoneMatch="*")[:2] == (412, "PreconditionFailed")
    here.delete_object(Bucket="begun-here", Key="v")
    assert error(here.get_object, Bucket="begun-here", Key="v")[:2] == (404, "NoSuchKey")
    assert len(here.list_object_versions(Bucket="begun-here", Prefix="v")["Versions"]) == 2
    rules = {"Rules": [{"ID": "r", "Status": "Enabled", "Filter": {"Prefix": ""}, "Expiration": {"Days": 1}}]}
    refused = error(here.put_bucket_lifecycle_configuration, Bucket="begun-here", LifecycleConfiguration=rules)
    assert refused[:2] == (501, "NotImplemented") and "set it at the upstream" in refused[2]
    ownership = lambda name: {"Bucket": "begun-here", "OwnershipControls": {"Rules": [{"ObjectOwnership": name}]}}
    here.put_bucket_ownership_controls(**ownership("BucketOwnerEnforced"))
    for name in ("ObjectWriter", "BucketOwnerPreferred"):
        refused = error(here.put_bucket_ownership_controls, **ownership(name))
        assert refused[:2] == (501, "NotImplemented") and "belong to the owner of the bucket" in refused[2]


def test_reads_continue_while_the_upstream_is_gone(far, near):
    here = near.client()
    here.create_bucket(Bucket="outage")
    here.put_object(Bucket="outage", Key="read", Body=b"data")
    here.put_object(Bucket="outage", Key="unread", Body=b"more")
    answer = here.get_object(Bucket="outage", Key="read")
    assert answer["Body"].read() == b"data"
    assert "x-benthic-upstream" not in answer["ResponseMetadata"]["HTTPHeaders"]
    far.stop()
    try:
        answer = here.get_object(Bucket="outage", Key="read")
        assert answer["Body"].read() == b"data"
        assert answer["ResponseMetadata"]["HTTPHeaders"]["x-benthic-upstream"] == "unreachable"
        for refused in [
            error(here.get_object, Bucket="outage", Key="unread"),
            error(here.put_object, Bucket="outage", Key="read", Body=b"new"),
            error(here.delete_object, Bucket="outage", Key="unread"),
            error(here.list_objects_v2, Bucket="outage"),
        ]:
            assert refused[:2] == (503, "ServiceUnavailable"), refused
            assert "the upstream cannot be reached" in refused[2]
        assert metric(near, "upstream_up") == 0
        assert "the upstream cannot be reached" in near.log()
    finally:
        far.start()
    for attempt in range(100):
        try:
            here.put_object(Bucket="outage", Key="read", Body=b"new")
            break
        except botocore.exceptions.ClientError:
            assert attempt < 99
            time.sleep(0.1)
    assert read(here, Bucket="outage", Key="read") == b"new"
    assert metric(near, "upstream_up") == 1


def test_wrong_options_are_errors_with_the_next_step(far, tmp_path):
    def refused(*options):
        gateway = Gateway(f"file:{tmp_path / 'near'}", tmp_path, "s3")
        done = gateway.spawn("serve", "--listen", "127.0.0.1:0", *options)
        _, err = done.communicate(timeout=60)
        assert done.returncode != 0
        return err

    cache = ["--cache", str(tmp_path / "cache")]
    missing = ["--upstream-credentials", str(tmp_path / "missing")]
    assert "--cache" in refused("--upstream", far.url)
    assert "cannot read the credentials file" in refused("--upstream", far.url, *cache, *missing)
    assert "always, never, or a number" in refused("--upstream", far.url, *cache, "--validate", "often")
    (tmp_path / "credentials").write_text("[default]\naws_access_key_id=a\naws_secret_access_key=b\n")
    good = ["--upstream-credentials", str(tmp_path / "credentials")]
    assert "the cache is too small" in refused("--upstream", far.url, *cache, *good, "--cache-bytes", "1MiB")
    assert "http://" in refused("--upstream", "ftp://example.org", *cache, *good)


def test_a_killed_gateway_sends_what_it_has_acknowledged(tmp_path, seed):
    there, here = tmp_path / "far", tmp_path / "near"
    there.mkdir()
    here.mkdir()
    with running("file", there) as far:
        far.client().create_bucket(Bucket="photos")
        near = gateway_near(far, here, "--write-back")
        near.start()
        here_client = near.client()
        here_client.head_bucket(Bucket="photos")
        far.kill()
        rng = random.Random(seed)
        acknowledged, attempted = {}, {}
        for round in range(3):
            client = near.client()
            killer = threading.Timer(0.3 + rng.random(), near.kill)
            killer.start()
            try:
                for number in range(100_000):
                    key = f"k{rng.randrange(20)}"
                    data = None if rng.random() < 0.2 else f"{round} {number} ".encode() * rng.choice([1, 1_000, 200_000])
                    attempted[key] = data
                    if data is None:
                        client.delete_object(Bucket="photos", Key=key)
                    else:
                        client.put_object(Bucket="photos", Key=key, Body=data)
                    acknowledged[key] = attempted.pop(key)
            except (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError) as error:
                # The cache may be full before the kill; that is an answer, too.
                if isinstance(error, botocore.exceptions.ClientError):
                    assert error.response["Error"]["Code"] == "SlowDown", error
            killer.join()
            (status,) = near.run("upstream", "status", "--cache", str(here / "cache"))
            assert status["changes"] > 0 and status["damaged"] == 0
            near.start()
        assert acknowledged
        far.start()
        client = far.client()
        for _ in range(300):
            if near.run("upstream", "status", "--cache", str(here / "cache"))[0]["changes"] == 0:
                break
            time.sleep(0.2)
        kept = {entry["Key"]: read(client, Bucket="photos", Key=entry["Key"]) for entry in client.list_objects_v2(Bucket="photos").get("Contents", [])}
        for key, data in acknowledged.items():
            assert kept.get(key) == data or (key in attempted and kept.get(key) == attempted[key]), key
        assert metric(near, "pending_changes") == 0 and metric(near, "written_back_total") > 0
        near.stop()
